package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"config-server/deploy/lab/internal/raise"
	"config-server/deploy/lab/internal/site"
)

func outageChecks() []check {
	return []check{
		{"the service killed in the middle of create-pod undoes it at its next start", serviceKilled},
		{"kubelet killed for a while: create-pod waits for it, and the workspace works", kubeletKilled},
		{"the API server restarted during the Ready wait: create-pod succeeds", apiServerRestarted},
	}
}

// later is the answer of a call that goes on meanwhile.
type later struct {
	answer answer
	err    error
}

func (w *walk) createLater(ctx context.Context, user string) <-chan later {
	done := make(chan later, 1)
	go func() {
		a, err := w.call(ctx, http.MethodPost, "/create-pod", map[string]any{"username": user})
		done <- later{a, err}
	}()
	return done
}

// podOf waits until a pod of the user exists.
func (w *walk) podOf(ctx context.Context, user string) error {
	return until(ctx, 20*time.Second, func(ctx context.Context) error {
		pods, err := w.admin.CoreV1().Pods(site.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "username=" + user})
		if err == nil && len(pods.Items) == 0 {
			err = errors.New("no pod of " + user + " yet")
		}
		return err
	})
}

func serviceKilled(ctx context.Context, w *walk) error {
	if err := w.addUser(ctx, carol); err != nil {
		return err
	}
	// Kubelet is away, so that the call is in its Ready wait for sure.
	if err := w.configure(ctx, carol, onNode("farm2", 0)); err != nil {
		return err
	}
	if err := w.ours("farm2-kubelet").Kill(); err != nil {
		return err
	}
	done := w.createLater(ctx, carol)
	err := w.podOf(ctx, carol)
	if err == nil {
		err = w.ours(raise.ServiceName).Kill()
	}
	if err = errors.Join(err, w.up(ctx)); err != nil {
		return err
	}
	if said := <-done; said.err == nil {
		return fmt.Errorf("the call was answered: %s", said.answer.raw)
	}
	return until(ctx, 60*time.Second, func(ctx context.Context) error { return w.nothingOf(ctx, carol) })
}

func kubeletKilled(ctx context.Context, w *walk) error {
	if err := w.ours("farm2-kubelet").Kill(); err != nil {
		return err
	}
	done := w.createLater(ctx, carol)
	err := w.podOf(ctx, carol)
	if err = errors.Join(err, w.up(ctx)); err != nil {
		return err
	}
	return w.arrived(ctx, carol, <-done)
}

// arrived remembers the workspace of a call that went on meanwhile, logs in, and removes it.
func (w *walk) arrived(ctx context.Context, user string, said later) error {
	if said.err != nil {
		return said.err
	}
	if said.answer.status != http.StatusCreated {
		return fmt.Errorf("status %d: %s", said.answer.status, said.answer.raw)
	}
	s, err := decode(said.answer)
	if err != nil {
		return err
	}
	w.spaces[user] = s
	if _, err := w.shell(ctx, user, "true"); err != nil {
		return err
	}
	return w.remove(ctx, user)
}

func apiServerRestarted(ctx context.Context, w *walk) error {
	if err := w.ours("farm2-kubelet").Kill(); err != nil {
		return err
	}
	done := w.createLater(ctx, carol)
	err := w.podOf(ctx, carol)
	if err == nil {
		err = w.ours("kube-apiserver").Stop()
	}
	if err = errors.Join(err, w.up(ctx)); err != nil {
		return err
	}
	return w.arrived(ctx, carol, <-done)
}

func endChecks() []check {
	return []check{
		{"delete-pod returns when the containers are really gone", deleteWaits},
		{"DELETE user removes account and home", deleteUser},
		{"afterwards nothing of any user is left", nothingLeft},
		{"audit finds nothing", auditFindsNothing},
		{"no password and no hash is in any log of the service", logsAreClean},
	}
}

func deleteWaits(ctx context.Context, w *walk) error {
	if _, err := w.shell(ctx, alice, "nohup setsid sh -c 'while :; do date >~/alive; sleep 0.1; done' >/dev/null 2>&1 </dev/null & echo started"); err != nil {
		return err
	}
	if err := w.remove(ctx, alice); err != nil {
		return err
	}
	path := w.home(alice) + "/alive"
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("the program in the workspace has not run: %w", err)
	}
	// A program that still ran would write the file again ten times a second.
	timer := time.NewTimer(time.Second)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	return mustNotExist(path)
}

func deleteUser(ctx context.Context, w *walk) error {
	for _, user := range []string{alice, bob, carol} {
		if _, err := w.want(ctx, http.StatusOK, http.MethodDelete, "/accounts/users/"+user, nil); err != nil {
			return err
		}
		if err := mustNotExist(w.home(user)); err != nil {
			return err
		}
		if _, err := w.want(ctx, http.StatusNotFound, http.MethodGet, "/accounts/users/"+user, nil); err != nil {
			return err
		}
	}
	return nil
}

func nothingLeft(ctx context.Context, w *walk) error {
	for _, user := range []string{alice, bob, carol, dora} {
		if err := w.nothingOf(ctx, user); err != nil {
			return err
		}
	}
	return nil
}

func auditFindsNothing(ctx context.Context, w *walk) error {
	env, err := w.lab.ServiceEnv()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, w.lab.Checkout+"/bin/config-server", "audit")
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("audit: %w: %s", err, out)
	}
	return nil
}

func logsAreClean(_ context.Context, w *walk) error {
	text, err := os.ReadFile(w.ours(raise.ServiceName).LogFile())
	if err != nil {
		return err
	}
	for what, secret := range map[string]string{
		"a password": passwordOf(alice), "a password in base64": encoded(alice), "a hash": "$6$", "the database's password": w.site.DBPassword, "kadmin's password": w.site.KadminPass,
	} {
		if strings.Contains(string(text), secret) {
			return fmt.Errorf("the log has %s", what)
		}
	}
	return nil
}
