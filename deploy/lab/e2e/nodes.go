package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

func nodeChecks() []check {
	return []check{
		{"the chosen node follows when the load changes", choiceFollowsLoad},
		{"two GPUs asked are two GPUs in the pod", twoGPUs},
		{"a cordoned node is not chosen, however idle it is", cordonedIsPassed},
		{"a cordoned node that is the only one is refused at once", onlyCordoned},
	}
}

// fileIs compares a file of a home, as the NAS has it, and its owner.
func (w *walk) fileIs(ctx context.Context, user, name, want string) error {
	path := filepath.Join(w.home(user), name)
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	account, err := w.account(ctx, user)
	if err != nil {
		return err
	}
	if owner := int(info.Sys().(*syscall.Stat_t).Uid); string(text) != want || owner != account.User.UID {
		return fmt.Errorf("%s of owner %d says %q, want %q of owner %d", name, owner, text, want, account.User.UID)
	}
	return nil
}

func choiceFollowsLoad(ctx context.Context, w *walk) error {
	if err := w.addUser(ctx, bob); err != nil {
		return err
	}
	if err := w.setLoads(ctx, map[string]float64{"farm1": 95, "farm2": 5}); err != nil {
		return err
	}
	s, err := w.create(ctx, bob)
	if err != nil {
		return err
	}
	if s.Node != "farm2" {
		return fmt.Errorf("node %s, want farm2", s.Node)
	}
	return nil
}

func twoGPUs(ctx context.Context, w *walk) error {
	got, err := w.shell(ctx, bob, "echo /dev/nvidia[0-9]*")
	if err == nil && got != "/dev/nvidia0 /dev/nvidia1" {
		err = fmt.Errorf("it has %q", got)
	}
	return err
}

func cordonedIsPassed(ctx context.Context, w *walk) error {
	if err := w.remove(ctx, bob); err != nil {
		return err
	}
	if err := w.cordon(ctx, "farm2", true); err != nil {
		return err
	}
	s, err := w.create(ctx, bob)
	err = errors.Join(err, w.cordon(ctx, "farm2", false))
	if err == nil && s.Node != "farm1" {
		err = fmt.Errorf("node %s, want farm1", s.Node)
	}
	if err != nil {
		return err
	}
	return w.remove(ctx, bob)
}

func onlyCordoned(ctx context.Context, w *walk) error {
	if err := w.configure(ctx, bob, onNode("farm2", 0)); err != nil {
		return err
	}
	if err := w.cordon(ctx, "farm2", true); err != nil {
		return err
	}
	a, err := w.want(ctx, http.StatusBadRequest, http.MethodPost, "/create-pod", map[string]any{"username": bob})
	err = errors.Join(err, w.cordon(ctx, "farm2", false), w.configure(ctx, bob, nil), w.resetLoads(ctx))
	switch {
	case err != nil:
		return err
	case a.text("step") != "BUILD_POD_SPEC" || !strings.Contains(a.text("detail"), "no suitable node") || !strings.Contains(a.text("detail"), "farm2"):
		return fmt.Errorf("it says %s", a.raw)
	case a.took.Seconds() > 3:
		return fmt.Errorf("it took %v", a.took)
	}
	return w.nothingOf(ctx, bob)
}
