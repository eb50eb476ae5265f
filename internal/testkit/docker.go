package testkit

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// DockerEngine is a running Docker engine with its data in a folder of the test. It loads and lists
// images; it has no network for containers.
type DockerEngine struct {
	Bin string // the client, speaking to this engine: a value for DOCKER_BIN

	proc *process
}

// Docker starts an engine for this test. It needs root.
func Docker(t testing.TB) *DockerEngine {
	t.Helper()
	Need(t, "Docker engine", "docker.io", "dockerd", "containerd", "/usr/bin/docker")
	needRoot(t, "Docker engine")
	program, err := lookProgram("dockerd")
	if err != nil {
		t.Fatal(err)
	}
	dir := testPartDir(t, "docker")
	in := func(name string) string { return filepath.Join(dir, name) }
	engine := &DockerEngine{Bin: in("docker")}
	// Debian's client by its path: another program of that name may come first in PATH.
	client := "#!/bin/sh\nexec /usr/bin/docker -H unix://" + in("sock") + ` "$@"` + "\n"
	if err := os.WriteFile(engine.Bin, []byte(client), 0o755); err != nil {
		t.Fatal(err)
	}
	engine.proc = &process{
		name: "dockerd", path: program, dir: dir, log: in("dockerd.log"),
		args: []string{
			"--data-root=" + in("data"), "--exec-root=" + in("exec"), "--host=unix://" + in("sock"), "--pidfile=" + in("pid"),
			"--bridge=none", "--iptables=false", "--ip6tables=false",
			// The one driver that asks nothing of the file system below.
			"--storage-driver=vfs",
		},
		ready: func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
			defer cancel()
			return exec.CommandContext(ctx, engine.Bin, "version").Run()
		},
	}
	manage(t, engine.proc)
	return engine
}

// Images returns the names (repository:tag) of the engine's images.
func (e *DockerEngine) Images(t testing.TB) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), e.Bin, "images", "--format", "{{.Repository}}:{{.Tag}}").Output()
	if err != nil {
		t.Fatalf("list images: %v", err)
	}
	return strings.Fields(string(out))
}

// Stop ends the engine.
func (e *DockerEngine) Stop() { e.proc.stop() }

// Freeze makes the engine accept calls and never answer, until the test's end.
func (e *DockerEngine) Freeze(t testing.TB) {
	t.Helper()
	controlled{e.proc}.freeze(t)
}

// ImageTar is an image of that name (repository:tag) with one small file, in the form that docker
// load reads and docker save writes.
func ImageTar(t testing.TB, name string) []byte {
	t.Helper()
	layer := tarOf(t, map[string][]byte{"etc/saved": []byte(name + "\n")})
	config, err := json.Marshal(map[string]any{
		"architecture": "amd64", "os": "linux", "config": map[string]any{},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(layer))}},
	})
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := json.Marshal([]any{map[string]any{"Config": "config.json", "RepoTags": []string{name}, "Layers": []string{"layer.tar"}}})
	if err != nil {
		t.Fatal(err)
	}
	return tarOf(t, map[string][]byte{"layer.tar": layer, "config.json": config, "manifest.json": manifest})
}

func tarOf(t testing.TB, files map[string][]byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for name, content := range files {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(content))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
