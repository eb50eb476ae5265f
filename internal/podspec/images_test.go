package podspec

import (
	"archive/tar"
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"config-server/internal/farm"
)

// A pin changes image, policy and one annotation, and nothing else.
func TestImagesPinnedPod(t *testing.T) {
	t.Parallel()
	in := Input{
		Settings: Settings{
			Namespace: "n", CPURequest: "1", CPULimit: "1", MemRequest: "1Gi", MemLimit: "1Gi", ImagePullPolicy: "Never", HomeVolume: HomeHostPath, HomeHostPath: "/homes",
		},
		Pod: "ailab-kim-00000001", Account: farm.Account{Name: "kim", UID: 20000, GID: 20000, Home: "/home/kim", Shell: "/bin/bash"}, PrimaryGroup: "kim",
		Config: farm.UserConfig{Image: "docker.io/dguailab/decs:1.0"}, Node: "farm5", Image: "docker.io/dguailab/decs:1.0",
	}
	plain, err := Build(in)
	if err != nil {
		t.Fatal(err)
	}
	digest := "sha256:" + strings.Repeat("a", 64)
	in.Pin = &farm.Pin{Image: "dguailab/decs:1.0", Digest: digest}
	got, err := Build(in)
	if err != nil {
		t.Fatal(err)
	}
	want := plain.DeepCopy()
	want.Annotations = map[string]string{"ailab/image": "dguailab/decs:1.0"}
	want.Spec.Containers[0].Image, want.Spec.Containers[0].ImagePullPolicy = "dguailab/decs@"+digest, corev1.PullIfNotPresent
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if plain.Annotations != nil || plain.Spec.Containers[0].ImagePullPolicy != corev1.PullNever {
		t.Errorf("without a pin: %v, %s", plain.Annotations, plain.Spec.Containers[0].ImagePullPolicy)
	}
}

// The pod of an export has of the session where workspaces run and how their images are pulled.
func TestImagesExportPod(t *testing.T) {
	t.Parallel()
	class, seconds := "nvidia", int64(60)
	session := corev1.PodSpec{
		NodeSelector:     map[string]string{"farm": "yes"},
		Affinity:         &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}},
		Tolerations:      []corev1.Toleration{{Key: "gpu", Operator: corev1.TolerationOpExists}},
		ImagePullSecrets: []corev1.LocalObjectReference{{Name: "lab"}},
		RuntimeClassName: &class, ActiveDeadlineSeconds: &seconds, HostNetwork: true, ServiceAccountName: "admin", PriorityClassName: "high",
		Volumes:    []corev1.Volume{{Name: "v"}},
		Containers: []corev1.Container{{Name: "shell", Env: []corev1.EnvVar{{Name: "A", Value: "b"}}}, {Name: "sidecar"}},
	}
	pod := Export(ExportInput{Namespace: "n", Pod: "image-export-1", Image: "decs:1", PullPolicy: "Never", Path: "/etc/ssh", Session: session})
	yes, no, limit, grace := true, false, int64(900), int64(1)
	container := pod.Spec.Containers[0]
	want := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "image-export-1", Namespace: "n", Labels: map[string]string{"app": "ailab-export", "managed-by": "ailab-infra"}},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, NodeSelector: session.NodeSelector, Affinity: session.Affinity, Tolerations: session.Tolerations,
			ImagePullSecrets: session.ImagePullSecrets, ActiveDeadlineSeconds: &limit, TerminationGracePeriodSeconds: &grace,
			AutomountServiceAccountToken: &no, EnableServiceLinks: &no,
			Containers: []corev1.Container{{
				Name: "shell", Image: "decs:1", ImagePullPolicy: corev1.PullNever, Command: container.Command, Resources: container.Resources,
				SecurityContext: &corev1.SecurityContext{ReadOnlyRootFilesystem: &yes, AllowPrivilegeEscalation: &no},
			}},
		},
	}
	if diff := cmp.Diff(want, pod); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if memory := container.Resources.Limits.Memory().String(); memory != "256Mi" || container.Command[4] != "etc/ssh" || container.Command[5] != "7340032" || len(container.Command) != 6 {
		t.Errorf("memory %s, command %q", memory, container.Command)
	}
}

// script runs the script of an export on this machine's own files, with its last words kept in a file.
func script(t *testing.T, path string, programs ...string) (output, words string, status int) {
	t.Helper()
	dir := t.TempDir()
	last := filepath.Join(dir, "words")
	text := strings.Replace(exportScript, "/dev/termination-log", last, 1)
	if text == exportScript {
		t.Fatal("the script keeps no last words")
	}
	command := exec.CommandContext(t.Context(), "/bin/sh", "-c", text, "export", strings.TrimPrefix(path, "/"), "100000")
	command.Env = []string{"PATH=/usr/bin:/bin"}
	if programs != nil {
		for _, name := range programs {
			real, err := exec.LookPath(name)
			if err == nil {
				err = os.Symlink(real, filepath.Join(dir, name))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		command.Env = []string{"PATH=" + dir}
	}
	var out, errs bytes.Buffer
	command.Stdout, command.Stderr = &out, &errs
	err := command.Run()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		t.Fatal(err)
	}
	if ended != nil {
		status = ended.ExitCode()
	}
	if errs.Len() > 0 {
		t.Errorf("errors in the log: %s", errs.String())
	}
	said, err := os.ReadFile(last)
	if err != nil {
		t.Fatal(err)
	}
	return out.String(), string(said), status
}

// The script is run by a real shell with real programs: odd names stay names.
func TestImagesExportScript(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	odd := []string{"plain", "a b", "-rf", "$(touch pwned)", "`touch pwned`", "'\"", "--checkpoint-action=exec=touch pwned", "*"}
	for _, name := range odd {
		if err := os.WriteFile(filepath.Join(root, name), []byte("text of "+name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("nowhere", filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	for _, name := range append(odd, "link") {
		output, words, status := script(t, filepath.Join(root, name))
		if status != 0 || words != "" {
			t.Errorf("%s: status %d: %s", name, status, words)
			continue
		}
		body, end, found := strings.Cut(output, "\n"+ExportDone)
		content, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(body, "\n", ""))
		if size, sizeErr := strconv.Atoi(strings.TrimSpace(end)); !found || err != nil || sizeErr != nil || size != len(content) {
			t.Errorf("%s: %v, %v, %d bytes, the last line says %q", name, err, sizeErr, len(content), end)
			continue
		}
		files := tar.NewReader(bytes.NewReader(content))
		header, err := files.Next()
		if err != nil || header.Name != strings.TrimPrefix(filepath.Join(root, name), "/") {
			t.Errorf("%s: %+v, %v", name, header, err)
			continue
		}
		if text, err := io.ReadAll(files); err != nil || name != "link" && string(text) != "text of "+name {
			t.Errorf("%s: %q, %v", name, text, err)
		}
		if _, err := files.Next(); !errors.Is(err, io.EOF) {
			t.Errorf("%s: more than one file: %v", name, err)
		}
	}
	if _, err := os.Lstat(filepath.Join(root, "pwned")); !errors.Is(err, os.ErrNotExist) {
		t.Error("a name was run")
	}
	if output, _, status := script(t, filepath.Join(root, "nothing")); status != ExportNoPath || output != "" {
		t.Errorf("no such path: status %d, %q", status, output)
	}
	if err := os.WriteFile(filepath.Join(root, "large"), make([]byte, 100_001), 0o600); err != nil {
		t.Fatal(err)
	}
	if output, words, status := script(t, filepath.Join(root, "large")); status != ExportTooLarge || output != "" || !strings.Contains(words, " bytes") {
		t.Errorf("too large: status %d, %q, %q", status, output, words)
	}
	// Without one of the programs it says so, and never that the export is whole.
	for _, programs := range [][]string{{"base64", "wc"}, {"tar", "wc"}} {
		output, words, status := script(t, filepath.Join(root, "plain"), programs...)
		if status == 0 || strings.Contains(output, ExportDone) || !strings.Contains(words, "not found") {
			t.Errorf("with %v: status %d, words %q", programs, status, words)
		}
	}
}
