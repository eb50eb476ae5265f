package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func imageChecks() []check {
	return []check{
		{"the container image is imported, and the chart starts it as the share's owner", imageStarts},
		{"the container image runs as an ordinary user without capabilities, on a root file system that it cannot write to", imageIsConfined},
		{"the container image answers /health and /readyz through the Service: share, database and API server are reached", imageAnswers},
		{"the container image makes an account and a workspace, and removes both", imageWorks},
		{"the container image's workspaces have the homes of its own pod's volume, and run on its node alone", imageSharesItsVolume},
		{"the container image logs JSON, one line an event, without secrets", imageLogs},
		{"the container image's release goes, and its namespace with it", imageGoes},
	}
}

func imageStarts(ctx context.Context, w *walk) error {
	archive, image, err := w.builtImage()
	if err != nil {
		return err
	}
	// What an earlier walk left would be in the way.
	if err := w.removeRelease(ctx); err != nil {
		return err
	}
	load := exec.CommandContext(ctx, "ctr", "--address", w.site.Containerd(w.node()), "--namespace", "k8s.io", "images", "import", archive)
	if out, err := load.CombinedOutput(); err != nil {
		return fmt.Errorf("ctr images import: %w: %s", err, out)
	}
	if err := w.prepareRelease(ctx); err != nil {
		return err
	}
	if err := w.install(ctx, image); err != nil {
		return err
	}
	pods := w.admin.CoreV1().Pods(releaseNamespace)
	err = until(ctx, 30*time.Second, func(ctx context.Context) error {
		list, err := pods.List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/instance=" + releaseName})
		if err != nil {
			return err
		}
		if len(list.Items) != 1 {
			return fmt.Errorf("the Deployment has %d pods", len(list.Items))
		}
		w.release.pod = list.Items[0].Name
		return nil
	})
	if err != nil {
		return err
	}
	// Workspaces name their node themselves, and a lab without a scheduler does for them; then this is what one would say.
	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: w.release.pod}, Target: corev1.ObjectReference{Kind: "Node", Name: w.node().Name}}
	if err := pods.Bind(ctx, binding, metav1.CreateOptions{}); err != nil && !apierrors.IsConflict(err) {
		return err
	}
	err = until(ctx, 90*time.Second, func(ctx context.Context) error {
		pod, err := pods.Get(ctx, w.release.pod, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("the pod is not Ready: %s, %+v", pod.Status.Phase, pod.Status.ContainerStatuses)
	})
	if err != nil {
		return errors.Join(err, w.lastWords(ctx))
	}
	return nil
}

// lastWords are what the container has logged, for a failure's report.
func (w *walk) lastWords(ctx context.Context) error {
	text, err := w.releaseLog(ctx)
	if err != nil {
		return err
	}
	return fmt.Errorf("its log: %s", text)
}

func (w *walk) releaseLog(ctx context.Context) ([]byte, error) {
	return w.admin.CoreV1().Pods(releaseNamespace).GetLogs(w.release.pod, &corev1.PodLogOptions{}).DoRaw(ctx)
}

func imageIsConfined(ctx context.Context, w *walk) error {
	pid, err := w.releaseProcess(ctx)
	if err != nil {
		return err
	}
	status, err := os.ReadFile(filepath.Join("/proc", pid, "status"))
	if err != nil {
		return err
	}
	said := map[string]string{}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		said[name] = strings.Join(strings.Fields(value), " ")
	}
	uid, gid, none := strconv.Itoa(shareOwner), strconv.Itoa(shareGroup), strings.Repeat("0", 16)
	for name, want := range map[string]string{
		"Uid": strings.Join([]string{uid, uid, uid, uid}, " "), "Gid": strings.Join([]string{gid, gid, gid, gid}, " "),
		"CapInh": none, "CapPrm": none, "CapEff": none, "CapBnd": none, "CapAmb": none,
		"NoNewPrivs": "1", "Seccomp": "2",
	} {
		if said[name] != want {
			return fmt.Errorf("the process has %s %q, want %q", name, said[name], want)
		}
	}
	mounts, err := os.ReadFile(filepath.Join("/proc", pid, "mounts"))
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); len(fields) > 3 && fields[1] == "/" {
			if !strings.HasPrefix(fields[3], "ro,") {
				return fmt.Errorf("its root is mounted %s", fields[3])
			}
			return nil
		}
	}
	return errors.New("its root is not among its mounts")
}

// releaseProcess is the id of the container's process on this machine.
func (w *walk) releaseProcess(ctx context.Context) (string, error) {
	pod, err := w.admin.CoreV1().Pods(releaseNamespace).Get(ctx, w.release.pod, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	if len(pod.Status.ContainerStatuses) != 1 {
		return "", fmt.Errorf("the pod has %d containers", len(pod.Status.ContainerStatuses))
	}
	id := strings.TrimPrefix(pod.Status.ContainerStatuses[0].ContainerID, "containerd://")
	out, err := exec.CommandContext(ctx, "ctr", "--address", w.site.Containerd(w.node()), "--namespace", "k8s.io", "tasks", "list").Output()
	if err != nil {
		return "", fmt.Errorf("ctr tasks list: %w", err)
	}
	for line := range strings.Lines(string(out)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == id {
			return fields[1], nil
		}
	}
	return "", fmt.Errorf("container %s is not among the tasks:\n%s", id, out)
}

func imageAnswers(ctx context.Context, w *walk) error {
	// kube-proxy learns of a pod that has become Ready a moment later.
	err := until(ctx, 20*time.Second, func(ctx context.Context) error {
		_, err := w.askRelease(ctx, http.StatusOK, http.MethodGet, "/health", nil)
		return err
	})
	if err != nil {
		return err
	}
	_, err = w.askRelease(ctx, http.StatusOK, http.MethodGet, "/readyz", nil)
	return err
}

// askRelease is want for the service that runs from the image.
func (w *walk) askRelease(ctx context.Context, status int, method, path string, body any) (answer, error) {
	a, err := send(ctx, method, releaseURL+path, body)
	if err == nil && a.status != status {
		err = fmt.Errorf("%s %s: status %d, want %d: %s", method, path, a.status, status, a.raw)
	}
	return a, err
}

func imageWorks(ctx context.Context, w *walk) error {
	if err := w.configure(ctx, releaseUser, onNode(w.node().Name, 1)); err != nil {
		return err
	}
	user := map[string]any{"name": releaseUser, "gecos": "Walker", "passwd_base64": encoded(releaseUser)}
	if _, err := w.askRelease(ctx, http.StatusCreated, http.MethodPut, "/accounts/users", user); err != nil {
		return err
	}
	for _, name := range []string{"passwd", "group", "shadow"} {
		if err := ownedBy(filepath.Join(w.releaseShare(), name), shareOwner, shareGroup); err != nil {
			return err
		}
	}
	if _, err := os.Stat(w.home(releaseUser)); err != nil {
		return fmt.Errorf("the home on the NAS: %w", err)
	}
	a, err := w.askRelease(ctx, http.StatusCreated, http.MethodPost, "/create-pod", map[string]any{"username": releaseUser})
	if err != nil {
		return err
	}
	space, err := decode(a)
	if err != nil {
		return err
	}
	pod, err := w.admin.CoreV1().Pods(releaseNamespace).Get(ctx, space.PodName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if space.Node != w.node().Name || pod.Spec.NodeName != w.node().Name || pod.Status.Phase != corev1.PodRunning {
		return fmt.Errorf("the workspace is on %s, its pod on %s is %s", space.Node, pod.Spec.NodeName, pod.Status.Phase)
	}
	if _, err := w.askRelease(ctx, http.StatusOK, http.MethodPost, "/delete-pod", map[string]any{"pod_name": space.PodName}); err != nil {
		return err
	}
	if _, err := w.askRelease(ctx, http.StatusOK, http.MethodDelete, "/accounts/users/"+releaseUser, nil); err != nil {
		return err
	}
	return mustNotExist(w.home(releaseUser))
}

// imageSharesItsVolume: the volume is a folder of the node, which no other node has.
func imageSharesItsVolume(ctx context.Context, w *walk) error {
	user := map[string]any{"name": releaseUser, "gecos": "Walker", "passwd_base64": encoded(releaseUser)}
	if _, err := w.askRelease(ctx, http.StatusCreated, http.MethodPut, "/accounts/users", user); err != nil {
		return err
	}
	other := w.site.Nodes[1].Name
	if err := w.configure(ctx, releaseUser, onNode(other, 1)); err != nil {
		return err
	}
	body := map[string]any{"username": releaseUser}
	a, err := w.askRelease(ctx, http.StatusBadRequest, http.MethodPost, "/create-pod", body)
	if err != nil {
		return err
	}
	why := fmt.Sprintf("no suitable node (%s: %s is on a volume of kind hostPath: workspaces have to run on %s, as config-server does)", other, ownHomes, w.node().Name)
	if a.text("detail") != why {
		return fmt.Errorf("it says %s, want %s", a.raw, why)
	}
	if err := w.configure(ctx, releaseUser, onNode(w.node().Name, 1)); err != nil {
		return err
	}
	if a, err = w.askRelease(ctx, http.StatusCreated, http.MethodPost, "/create-pod", body); err != nil {
		return err
	}
	space, err := decode(a)
	if err != nil {
		return err
	}
	w.spaces[releaseUser] = space
	defer delete(w.spaces, releaseUser)
	if _, err := w.shell(ctx, releaseUser, "echo mine >~/note"); err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(w.home(releaseUser), "note"))
	if err == nil && string(text) != "mine\n" {
		err = fmt.Errorf("the home on the NAS has %q", text)
	}
	if err != nil {
		return err
	}
	if _, err := w.askRelease(ctx, http.StatusOK, http.MethodPost, "/delete-pod", map[string]any{"pod_name": space.PodName}); err != nil {
		return err
	}
	_, err = w.askRelease(ctx, http.StatusOK, http.MethodDelete, "/accounts/users/"+releaseUser, nil)
	return err
}

func ownedBy(path string, uid, gid uint32) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if owner := info.Sys().(*syscall.Stat_t); owner.Uid != uid || owner.Gid != gid {
		return fmt.Errorf("%s belongs to %d:%d, want %d:%d", path, owner.Uid, owner.Gid, uid, gid)
	}
	return nil
}

func imageLogs(ctx context.Context, w *walk) error {
	text, err := w.releaseLog(ctx)
	if err != nil {
		return err
	}
	lines := 0
	for scanner := bufio.NewScanner(bytes.NewReader(text)); scanner.Scan(); lines++ {
		var event struct{ Time, Level, Msg string }
		if err := json.Unmarshal(scanner.Bytes(), &event); err != nil || event.Time == "" || event.Level == "" || event.Msg == "" {
			return fmt.Errorf("a line is no event: %v: %s", err, scanner.Text())
		}
	}
	if lines < 4 { // its start, the account, the workspace
		return fmt.Errorf("the log has %d lines", lines)
	}
	for what, secret := range map[string]string{
		"a password": passwordOf(releaseUser), "a password in base64": encoded(releaseUser), "a hash": "$6$", "the database's password": w.site.DBPassword,
	} {
		if bytes.Contains(text, []byte(secret)) {
			return fmt.Errorf("the log has %s", what)
		}
	}
	return nil
}

func imageGoes(ctx context.Context, w *walk) error {
	return w.removeRelease(ctx)
}
