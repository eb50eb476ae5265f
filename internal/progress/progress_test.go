package progress_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"config-server/internal/database/databasetest"
	"config-server/internal/farm"
	"config-server/internal/progress"
)

// window is short, so that tests that wait for a write wait little.
const window = 5 * time.Millisecond

func began(id string, user farm.UserName, at time.Time) farm.Progress {
	return farm.Progress{
		ID: id, Kind: farm.OperationCreate, User: user, Pod: farm.PodName("ailab-" + string(user) + "-00000000"), Stage: farm.StageStarted,
		Message: "begun", Instance: "one", RequestID: "r-1", StartedAt: at,
		Steps: []farm.StepResult{{Step: "FETCH_USER_CONFIG", Result: farm.ResultRunning}},
	}
}

func TestReplicasSeeEachOthersProgress(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, place databasetest.Place) {
		one, two := progress.New(place.Open(t), progress.Options{Window: window}), progress.New(place.Open(t), progress.Options{})
		one.Start()
		at := time.Date(2026, 11, 30, 2, 11, 7, 904_500_000, time.UTC)
		p := began("a", "kim", at)
		one.Report(p)
		p.Stage, p.Message, p.Node, p.Code, p.Detail, p.Done = farm.StageFailed, "failed", "farm6", farm.PodReadyTimeout, "zeile\nnächste 줄", true
		p.Steps = []farm.StepResult{{Step: "FETCH_USER_CONFIG", Result: farm.ResultOK, Seconds: 0.004}, {Step: "WAIT_POD_READY", Result: farm.ResultError, Seconds: 3.1}}
		p.Undo = []farm.UndoResult{{Step: "CREATE_POD", Result: farm.ResultUndone}}
		one.Report(p)
		if err := one.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		got, err := two.Operations(t.Context(), "kim", 10)
		if err != nil || len(got) != 1 {
			t.Fatalf("%v, %v", got, err)
		}
		if age := time.Since(got[0].UpdatedAt); age < 0 || age > time.Minute {
			t.Errorf("updated at %v", got[0].UpdatedAt)
		}
		want := p
		want.StartedAt, want.UpdatedAt = at.Truncate(time.Millisecond), got[0].UpdatedAt
		if diff := cmp.Diff(want, got[0]); diff != "" {
			t.Errorf("the other replica reads (-want +got):\n%s", diff)
		}
	})
}
