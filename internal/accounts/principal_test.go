package accounts

import (
	"strings"
	"testing"

	"config-server/internal/farm"
)

func TestCreateUserMakesNothingWhenTheKDCCannotBeAsked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	before, homes := w.files(t), len(w.nas.homes)
	w.kdc.faults["look"] = refused
	_, err := w.service().CreateUser(t.Context(), newUser("zed"))
	wantError(t, err, farm.Internal, "refused")
	if told, _ := farm.AsError(err); told.Step != farm.StepCreateKrb5Principal || told.Code != farm.KDCFailed {
		t.Errorf("%s %s", told.Step, told.Code)
	}
	w.unchanged(t, before)
	w.clean(t)
	if len(w.nas.homes) != homes {
		t.Errorf("homes: %v", w.nas.homes)
	}
}

func TestUndoLeavesAPrincipalThatWasThereBefore(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]fault{"refused": refused, "answer lost": doneLost} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.kdc.principals["zed"] = true
			w.kdc.faults["create"] = fault
			_, err := w.service().CreateUser(t.Context(), newUser("zed"))
			wantError(t, err, farm.Internal, string(fault))
			if !w.kdc.principals["zed"] {
				t.Error("somebody's principal was removed")
			}
			w.clean(t)
		})
	}
}

func TestRecoverWithdrawsAPrincipalThatUndoCouldNot(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.kdc.faults["create"], w.kdc.faults["withdraw"] = doneLost, refused
	s := w.service()
	_, err := s.CreateUser(t.Context(), newUser("zed"))
	wantError(t, err, farm.Internal, "answer lost")
	if !w.kdc.principals["zed"] {
		t.Fatal("the principal is gone although its removal was refused")
	}
	clear(w.kdc.faults)
	if _, err := s.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	if w.kdc.principals["zed"] {
		t.Error("the principal is left")
	}
	w.clean(t)
}

func TestRecoverRemovesThePrincipalThatADeletionCouldNot(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.kdc.faults["remove"] = refused
	s := w.service()
	got, err := s.DeleteUser(t.Context(), "alice")
	if err != nil || !strings.Contains(strings.Join(got.Warnings, "\n"), "not removed yet") {
		t.Fatalf("%v %q", err, got.Warnings)
	}
	report, err := s.Recover(t.Context())
	if err == nil || len(report.Failed) != 1 || !w.kdc.principals["alice"] {
		t.Errorf("%v %+v while the KDC is down", err, report)
	}
	clear(w.kdc.faults)
	report, err = s.Recover(t.Context())
	if err != nil || len(report.Finished) != 1 || w.kdc.principals["alice"] {
		t.Errorf("%v %+v after the KDC is back", err, report)
	}
	w.clean(t)
}
