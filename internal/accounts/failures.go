package accounts

import (
	"context"
	"errors"

	"config-server/internal/farm"
	"config-server/internal/ledger"
	"config-server/internal/saga"
)

// failure tells a caller of an error of the ledger. One that is a *farm.Error already stays.
func failure(err error) error {
	if err == nil {
		return nil
	}
	if told, ok := farm.AsError(err); ok {
		return told
	}
	told := &farm.Error{Kind: farm.Internal, Cause: err, Detail: "internal error"}
	var write *ledger.WriteError
	var panicked *saga.PanicError
	switch {
	case errors.As(err, &panicked):
	case errors.Is(err, ledger.ErrUnfinished):
		told.Detail = "the change is decided but could not be completed yet; it will be with the next call"
	case errors.As(err, &write):
		told.Detail = writeText(write.File)
	case errors.Is(err, farm.ErrLockTimeout):
		told.Detail = "the account files are busy; try again"
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		told.Detail = "the call ended before its work was done; nothing was changed"
	case errors.Is(err, ledger.ErrDamaged), errors.Is(err, ledger.ErrNumbersExhausted):
		told.Detail = err.Error()
	}
	return told
}

func writeText(file string) string {
	if file == "sudoers" {
		return "failed to create sudoers file"
	}
	return "failed to write " + file
}

// principalFailed tells a caller of PUT user that principal or keytab could not be made.
func principalFailed(cause error) error {
	return farm.Failf(farm.Internal, farm.StepCreateKrb5Principal, farm.KDCFailed, cause, "%v", cause)
}

// homeFailed tells a caller of PUT user that the home could not be made.
func homeFailed(cause error, format string, args ...any) error {
	return farm.Failf(farm.Internal, farm.StepCreateHomeDirectory, farm.NASSSHFailed, cause, format, args...)
}
