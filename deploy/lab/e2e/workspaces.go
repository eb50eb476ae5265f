package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"config-server/deploy/lab/internal/site"
)

// dashboard is an additional port whose purpose is Korean.
const dashboard = 7007

func workspaceChecks() []check {
	return []check{
		{"create-pod makes a workspace on the real node with the least load", createOnLeastLoaded},
		{"ssh to the NodePort with the password opens a shell of that user", loginWorks},
		{"ssh with another password is refused", wrongPassword},
		{"uid, gid and groups in the workspace are those of the ledger", idsAreRight},
		{"the password's hash is in a Secret of the pod, not in its environment", hashIsInSecret},
		{"the jupyter port answers", jupyterAnswers},
		{"an additional port with a Korean purpose answers", koreanPortAnswers},
		{"the GPU device files are in the pod as asked, and no others", gpuFiles},
		{"what is written to the home lies on the NAS", homeIsOnNAS},
		{"it is still there after delete-pod and a new create-pod", homePersists},
	}
}

func createOnLeastLoaded(ctx context.Context, w *walk) error {
	ports := map[string]any{"additional_ports": []any{map[string]any{"internal_port": dashboard, "usage_purpose": "대시보드 포트"}}}
	if err := w.configure(ctx, alice, ports); err != nil {
		return err
	}
	s, err := w.create(ctx, alice)
	if err != nil {
		return err
	}
	if s.Node != "farm1" {
		return fmt.Errorf("node %s, want farm1", s.Node)
	}
	return nil
}

func loginWorks(ctx context.Context, w *walk) error {
	got, err := w.shell(ctx, alice, `echo "$(id -un) $HOME $(pwd)"`)
	if err != nil {
		return err
	}
	if want := alice + " /home/" + alice + " /home/" + alice; got != want {
		return fmt.Errorf("the shell says %q, want %q", got, want)
	}
	return nil
}

func wrongPassword(ctx context.Context, w *walk) error {
	s, err := w.space(alice)
	if err != nil {
		return err
	}
	client, err := login(ctx, s.external(22), alice, "not the password")
	if err == nil {
		_ = client.Close()
		return errors.New("it opened a shell")
	}
	if !strings.Contains(err.Error(), "unable to authenticate") {
		return err
	}
	return nil
}

func idsAreRight(ctx context.Context, w *walk) error {
	account, err := w.account(ctx, alice)
	if err != nil {
		return err
	}
	got, err := w.shell(ctx, alice, "id")
	if err != nil {
		return err
	}
	want := fmt.Sprintf("uid=%d(%s) gid=%d(%s)", account.User.UID, alice, account.User.GID, alice)
	if !strings.HasPrefix(got, want) || !strings.Contains(got, "20500(walkers)") {
		return fmt.Errorf("id says %q, want %s and walkers", got, want)
	}
	return nil
}

func hashIsInSecret(ctx context.Context, w *walk) error {
	s, err := w.space(alice)
	if err != nil {
		return err
	}
	pod, err := w.pod(ctx, s.PodName)
	if err != nil {
		return err
	}
	for _, env := range pod.Spec.Containers[0].Env {
		if strings.Contains(env.Value, "$6$") {
			return fmt.Errorf("%s has a hash", env.Name)
		}
	}
	for _, volume := range pod.Spec.Volumes {
		if volume.Secret == nil || volume.Name != "account" {
			continue
		}
		secret, err := w.admin.CoreV1().Secrets(site.Namespace).Get(ctx, volume.Secret.SecretName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(secret.OwnerReferences) != 1 || secret.OwnerReferences[0].UID != pod.UID {
			return fmt.Errorf("the pod does not own secret %s", secret.Name)
		}
		_, err = w.shell(ctx, alice, "! cat /run/ailab/account/shadow")
		return err
	}
	return errors.New("the pod mounts no account secret")
}

func jupyterAnswers(ctx context.Context, w *walk) error {
	s, err := w.space(alice)
	if err != nil {
		return err
	}
	text, err := page(ctx, s.external(8888))
	if err == nil && strings.TrimSpace(text) != "notebook of "+alice {
		err = fmt.Errorf("it says %q", text)
	}
	return err
}

func koreanPortAnswers(ctx context.Context, w *walk) error {
	s, err := w.space(alice)
	if err != nil {
		return err
	}
	for _, p := range s.Ports {
		if p.Internal == dashboard && p.Purpose != "대시보드 포트" {
			return fmt.Errorf("the purpose is answered as %q", p.Purpose)
		}
	}
	// The user starts the server, as users do.
	if err := w.background(ctx, alice, fmt.Sprintf("/usr/local/bin/web %d '안녕'", dashboard)); err != nil {
		return err
	}
	text, err := page(ctx, s.external(dashboard))
	if err == nil && strings.TrimSpace(text) != "안녕" {
		err = fmt.Errorf("it says %q", text)
	}
	return err
}

func gpuFiles(ctx context.Context, w *walk) error {
	got, err := w.shell(ctx, alice, "cd /dev && for f in nvidia*; do [ -c $f ] && echo $f; done | sort | tr '\n' ' '")
	if err != nil {
		return err
	}
	if want := "nvidia-modeset nvidia-uvm nvidia-uvm-tools nvidia0 nvidiactl"; got != want {
		return fmt.Errorf("/dev has %q, want %q", got, want)
	}
	return nil
}

func homeIsOnNAS(ctx context.Context, w *walk) error {
	if _, err := w.shell(ctx, alice, "echo 'my work' >~/work.txt && chmod 600 ~/work.txt"); err != nil {
		return err
	}
	return w.fileIs(ctx, alice, "work.txt", "my work\n")
}

func homePersists(ctx context.Context, w *walk) error {
	if err := w.remove(ctx, alice); err != nil {
		return err
	}
	if err := w.nothingOf(ctx, alice); err != nil {
		return err
	}
	if _, err := w.create(ctx, alice); err != nil {
		return err
	}
	got, err := w.shell(ctx, alice, "cat ~/work.txt")
	if err == nil && got != "my work" {
		err = fmt.Errorf("the file says %q", got)
	}
	return err
}
