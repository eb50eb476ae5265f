//go:build crashpoints

package app

import (
	"context"
	"fmt"
	"os"
	"syscall"

	"config-server/internal/saga"
)

// crashAt names the point at which a process built for the crash matrix kills itself:
// "usecase/step/phase" of a saga event, or the name of a point in the ledger's commit.
// CRASH_LOG names a file to which every point that is passed is appended.
var (
	crashAt  = os.Getenv("CRASH_AT")
	crashLog = os.Getenv("CRASH_LOG")
)

func crashPoints(next saga.Observer) saga.Observer {
	return func(ctx context.Context, event saga.Event) {
		next(ctx, event)
		crashPoint(fmt.Sprintf("%s/%s/%s", event.UseCase, event.Step, event.Phase))
	}
}

func crashPoint(name string) {
	if crashLog != "" {
		if f, err := os.OpenFile(crashLog, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err == nil {
			fmt.Fprintln(f, name)
			f.Close()
		}
	}
	if name == crashAt {
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}
