package app_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"testing"
	"time"

	"config-server/internal/cluster"
	databases "config-server/internal/database"
	"config-server/internal/farm"
	"config-server/internal/locks"
	"config-server/internal/nodeports"
	"config-server/internal/operations"
	"config-server/internal/reconciler"
	"config-server/internal/testkit"
	"config-server/internal/testkit/world"
)

// jumpedReconciler is that of another replica, whose clock is wrong.
func jumpedReconciler(t *testing.T, w *world.World, jump time.Duration) *reconciler.Reconciler {
	t.Helper()
	db, err := databases.OpenMySQL(databases.MySQLConfig{
		Host: w.MariaDB.Host, Port: w.MariaDB.Port, User: w.MariaDB.User, Password: w.MariaDB.Password, Name: w.Database,
	})
	if err != nil {
		t.Fatal(err)
	}
	named := locks.NewMySQL(db)
	t.Cleanup(func() {
		named.Close()
		_ = db.Close()
	})
	log := slog.New(slog.DiscardHandler)
	return reconciler.New(reconciler.Options{
		Cluster: cluster.Connect(w.Cluster.ServiceKubeconfig(t), cluster.Options{Namespace: w.Cluster.Namespace, Log: log}),
		Ports:   nodeports.New(db, nodeports.Options{Min: 30000, Max: 32767}), Operations: operations.New(db, "another"),
		Locks: named, UserLock: farm.UserLock, Grace: 10 * time.Minute, Log: log,
		Now: func() time.Time { return time.Now().Add(jump) },
	})
}

// A clock that jumps makes everything look old, or nothing: a workspace that stands and one that is
// being made stay all the same, because age is never the only reason.
func TestClockJumpTakesNothingAway(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Env: map[string]string{"LEDGER_LOCK": "mysql", "RECONCILE_INTERVAL": "0"}})
	base := w.Service(t, nil).URL
	for _, user := range []string{"stands", "begins"} {
		world.Call(t, base, "PUT", "/accounts/users", world.UserBody(user), 201)
	}
	world.Call(t, base, "POST", "/create-pod", `{"username":"stands"}`, 201)
	w.AdminBE.SetConfig("begins", map[string]any{"image": testkit.ImageNeverReady})
	ctx, hangUp := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = world.Send(ctx, base, "POST", "/create-pod", `{"username":"begins"}`)
	}()
	testkit.WaitFor(t, time.Minute, "the second workspace to be under way", func(context.Context) error {
		if pods := len(w.Pods(t)); pods != 2 || w.Operations(t) != 1 {
			return fmt.Errorf("%d pods", pods)
		}
		return nil
	})
	before := w.Rows(t)
	for _, jump := range []time.Duration{48 * time.Hour, -48 * time.Hour} {
		r := jumpedReconciler(t, w, jump)
		for pass := range 3 {
			report, err := r.Pass(t.Context(), false)
			if err != nil {
				t.Fatal(err)
			}
			if len(report.Findings) > 0 {
				t.Errorf("clock %s, pass %d: %+v", jump, pass+1, report.Findings)
			}
		}
	}
	if rows := w.Rows(t); !maps.Equal(before, rows) || len(w.Pods(t)) != 2 || len(w.Services(t)) != 2 {
		t.Errorf("rows were %v and are %v; %d pods, %d Services", before, rows, len(w.Pods(t)), len(w.Services(t)))
	}
	hangUp()
	<-ended
	testkit.WaitFor(t, time.Minute, "the workspace under way to be undone", func(context.Context) error {
		if len(w.Pods(t)) != 1 || len(w.Rows(t)) != 2 || w.Operations(t) != 0 {
			return errors.New("it is not")
		}
		return nil
	})
}
