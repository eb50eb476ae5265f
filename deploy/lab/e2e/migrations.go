package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

func migrationChecks() []check {
	return []check{
		{"migrate stays where the gain is too small", migrateSkips},
		{"migrate: a save script that fails leaves the old workspace as it was", migrateSaveFails},
		{"migrate: a new workspace that cannot start leaves the old one as it was", migrateNewFails},
		{"migrate moves the workspace to the other real node, with the home", migrateMoves},
	}
}

func (w *walk) migrate(ctx context.Context, status int, user string) (answer, error) {
	return w.want(ctx, status, http.MethodPost, "/migrate", map[string]any{"username": user, "nodes": []string{"farm1", "farm2"}})
}

// stays fails unless the user's workspace is the one that stood before, and works.
func (w *walk) stays(ctx context.Context, user string) error {
	s, err := w.space(user)
	if err != nil {
		return err
	}
	if _, err := w.pod(ctx, s.PodName); err != nil {
		return err
	}
	_, err = w.shell(ctx, user, "true")
	return err
}

func migrateSkips(ctx context.Context, w *walk) error {
	if err := w.setLoads(ctx, map[string]float64{"farm1": 10, "farm2": 9.5}); err != nil {
		return err
	}
	a, err := w.migrate(ctx, http.StatusOK, alice)
	if err != nil {
		return err
	}
	if a.text("reason") != "no_significant_improvement" {
		return fmt.Errorf("it says %s", a.raw)
	}
	return w.stays(ctx, alice)
}

func migrateSaveFails(ctx context.Context, w *walk) error {
	if err := w.setLoads(ctx, map[string]float64{"farm1": 90, "farm2": 5}); err != nil {
		return err
	}
	if _, err := w.shell(ctx, alice, "echo 7 >~/.save-image-status"); err != nil {
		return err
	}
	a, err := w.migrate(ctx, http.StatusInternalServerError, alice)
	_, again := w.shell(ctx, alice, "rm ~/.save-image-status")
	if err = errors.Join(err, again); err != nil {
		return err
	}
	if !strings.Contains(a.text("error"), "image_commit_failed") {
		return fmt.Errorf("it says %s", a.raw)
	}
	if _, err := os.Stat(filepath.Join(w.home(alice), ".save-image-ran")); err != nil {
		return fmt.Errorf("the save script did not run: %w", err)
	}
	return w.stays(ctx, alice)
}

func migrateNewFails(ctx context.Context, w *walk) error {
	if err := w.configure(ctx, alice, map[string]any{"image": "lab.local/nowhere:1"}); err != nil {
		return err
	}
	_, err := w.migrate(ctx, http.StatusInternalServerError, alice)
	if err = errors.Join(err, w.configure(ctx, alice, nil)); err != nil {
		return err
	}
	return w.stays(ctx, alice)
}

func migrateMoves(ctx context.Context, w *walk) error {
	old, err := w.space(alice)
	if err != nil {
		return err
	}
	a, err := w.migrate(ctx, http.StatusOK, alice)
	if err != nil {
		return err
	}
	if a.text("status") != "migrated" || a.text("from") != "farm1" || a.text("to") != "farm2" {
		return fmt.Errorf("it says %s", a.raw)
	}
	moved := workspace{Node: "farm2", PodName: a.text("new_pod")}
	for _, item := range a.body["ports"].([]any) {
		p := item.(map[string]any)
		moved.Ports = append(moved.Ports, port{Internal: int(p["internal_port"].(float64)), External: int(p["external_port"].(float64))})
	}
	w.spaces[alice] = moved
	got, err := w.shell(ctx, alice, "cat ~/work.txt")
	if err != nil {
		return err
	}
	if got != "my work" {
		return fmt.Errorf("the file in the moved workspace says %q", got)
	}
	return until(ctx, 10*time.Second, func(ctx context.Context) error {
		if _, err := w.pod(ctx, old.PodName); err == nil {
			return errors.New("the old pod is still there")
		}
		return nil
	})
}
