package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"config-server/deploy/lab/internal/raise"
)

func assignmentChecks() []check {
	return []check{
		{"with GPU_ASSIGNMENT=exclusive two users of one node see one GPU each, and a third is told who has them", gpusAreAssigned},
	}
}

// gpusAreAssigned has the service run with another setting for as long as it takes.
func gpusAreAssigned(ctx context.Context, w *walk) (err error) {
	w.lab.Settings = map[string]string{"GPU_ASSIGNMENT": "exclusive"}
	defer func() {
		w.lab.Settings = nil
		err = errors.Join(err, w.up(ctx))
	}()
	if err := w.up(ctx); err != nil {
		return err
	}
	node := "farm1" // both have two GPUs
	if w.spaces[alice].Node == node {
		node = "farm2"
	}
	for i, user := range []string{bob, carol} {
		if _, err := w.account(ctx, user); err != nil {
			if err := w.addUser(ctx, user); err != nil {
				return err
			}
		}
		if err := w.configure(ctx, user, onNode(node, 1)); err != nil {
			return err
		}
		if _, err := w.create(ctx, user); err != nil {
			return err
		}
		if err := w.hasGPU(ctx, user, i); err != nil {
			return err
		}
	}
	a, err := w.want(ctx, http.StatusBadRequest, http.MethodPost, "/create-pod", map[string]any{"username": carol})
	if err == nil && !strings.Contains(a.text("detail"), fmt.Sprintf("0 of 2 GPUs free, 1 asked for: GPU 0 has %s (%s)", w.spaces[bob].PodName, bob)) {
		err = fmt.Errorf("it says %s", a.raw)
	}
	if err != nil {
		return err
	}
	// What goes is given to the next one.
	if err := w.remove(ctx, bob); err != nil {
		return err
	}
	if _, err := w.create(ctx, bob); err != nil {
		return err
	}
	err = w.hasGPU(ctx, bob, 0)
	for _, user := range []string{bob, carol} {
		err = errors.Join(err, w.remove(ctx, user), w.nothingOf(ctx, user), w.noGPUOf(ctx, user), w.configure(ctx, user, nil))
	}
	return err
}

// noGPUOf looks for GPUs that are still assigned to a user's workspaces.
func (w *walk) noGPUOf(ctx context.Context, user string) error {
	db := raise.OpenDatabase(w.site)
	defer func() { _ = db.Close() }()
	var rows int
	err := db.QueryRowContext(ctx, "SELECT COUNT(*) FROM config_server_gpus WHERE username = ?", user).Scan(&rows)
	if err == nil && rows > 0 {
		err = fmt.Errorf("%s still has %d GPUs", user, rows)
	}
	return err
}

// hasGPU logs in and looks at the device files that are there, and at what the container runtime is told.
func (w *walk) hasGPU(ctx context.Context, user string, index int) error {
	const command = `echo /dev/nvidia[0-9]*; for p in /proc/[0-9]*; do tr '\0' '\n' 2>/dev/null <$p/environ; done | grep ^NVIDIA_VISIBLE_DEVICES= | sort -u`
	got, err := w.shell(ctx, user, command)
	if want := fmt.Sprintf("/dev/nvidia%d\nNVIDIA_VISIBLE_DEVICES=%d", index, index); err == nil && got != want {
		err = fmt.Errorf("%s has %q, want %q", user, got, want)
	}
	return err
}
