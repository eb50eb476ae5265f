package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"syscall"
)

func accountChecks() []check {
	return []check{
		{"PUT user makes the home on the NAS, owned by the user and closed to others", userHasHome},
		{"PUT user writes passwd, group and shadow to the share", userIsOnShare},
		{"PUT of the same user is refused, and nothing changes", userTwice},
		{"a user whom admin_be does not know gets no workspace: 404", unknownUser},
	}
}

func userHasHome(ctx context.Context, w *walk) error {
	if err := w.addUser(ctx, alice); err != nil {
		return err
	}
	got, err := w.account(ctx, alice)
	if err != nil {
		return err
	}
	info, err := os.Stat(w.home(alice))
	if err != nil {
		return err
	}
	owner := info.Sys().(*syscall.Stat_t)
	if int(owner.Uid) != got.User.UID || int(owner.Gid) != got.User.GID || info.Mode().Perm() != 0o700 {
		return fmt.Errorf("home is %d:%d %v, want %d:%d 0700", owner.Uid, owner.Gid, info.Mode(), got.User.UID, got.User.GID)
	}
	return nil
}

func userIsOnShare(_ context.Context, w *walk) error {
	for _, file := range []string{"passwd", "group", "shadow", "sudoers.d/" + alice} {
		text, err := os.ReadFile(w.site.Path("share", file))
		if err != nil {
			return err
		}
		if !strings.Contains(string(text), alice) {
			return fmt.Errorf("%s does not name %s", file, alice)
		}
		if strings.Contains(string(text), passwordOf(alice)) {
			return fmt.Errorf("%s has the password itself", file)
		}
	}
	return nil
}

func userTwice(ctx context.Context, w *walk) error {
	before, err := os.ReadFile(w.site.Path("share", "passwd"))
	if err != nil {
		return err
	}
	if _, err := w.want(ctx, http.StatusConflict, http.MethodPut, "/accounts/users", map[string]any{"name": alice, "passwd_base64": "c2VjcmV0"}); err != nil {
		return err
	}
	after, err := os.ReadFile(w.site.Path("share", "passwd"))
	if err == nil && string(after) != string(before) {
		return fmt.Errorf("passwd has changed")
	}
	return err
}

func unknownUser(ctx context.Context, w *walk) error {
	_, err := w.want(ctx, http.StatusNotFound, http.MethodPost, "/create-pod", map[string]any{"username": prefix + "nobody"})
	return err
}
