package deploy_test

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"config-server/internal/testkit"
)

// A Docker engine takes the archive that is built without one, and a container of it runs as whoever it is told to, on a
// root file system that it cannot write to and with no capability.
func TestAnEngineLoadsAndRunsTheImage(t *testing.T) {
	t.Parallel()
	engine := testkit.Docker(t)
	const image = "dguailab/config-server:v0-test"
	dir := t.TempDir()
	run(t, exec.CommandContext(t.Context(), "go", "build", "-C", "image", "-buildvcs=false", "-o", filepath.Join(dir, "build"), "."))
	build := exec.CommandContext(t.Context(), filepath.Join(dir, "build"), "-checkout", root, "-out", dir, "-version", "v0-test", "-variants", "plain", "-platforms", "linux/"+runtime.GOARCH)
	build.Env = append(os.Environ(), "SOURCE_DATE_EPOCH=1700000000")
	run(t, build)

	archive := filepath.Join(dir, "config-server-plain-linux-"+runtime.GOARCH+".tar")
	run(t, exec.CommandContext(t.Context(), engine.Bin, "load", "-i", archive))
	if images := engine.Images(t); !slices.Contains(images, image) {
		t.Fatalf("the engine has images %q", images)
	}
	var said []struct {
		Architecture, Os string
		Config           struct {
			User, WorkingDir, StopSignal string
			Entrypoint, Cmd, Env         []string
			ExposedPorts                 map[string]any
			Labels                       map[string]string
		}
	}
	text := run(t, exec.CommandContext(t.Context(), engine.Bin, "image", "inspect", image))
	if err := json.Unmarshal([]byte(text), &said); err != nil || len(said) != 1 {
		t.Fatalf("docker image inspect: %v\n%s", err, text)
	}
	config := said[0].Config
	if config.User != "65532:65532" || config.WorkingDir != "/var/lib/config-server" || config.StopSignal != "SIGTERM" || said[0].Architecture != runtime.GOARCH {
		t.Errorf("the engine says %+v", said[0])
	}
	if command := strings.Join(append(config.Entrypoint, config.Cmd...), " "); command != "/usr/local/bin/config-server serve" {
		t.Errorf("it runs %s", command)
	}
	if ports := slices.Collect(maps.Keys(config.ExposedPorts)); !slices.Equal(ports, []string{"8000/tcp"}) || config.Labels["org.opencontainers.image.version"] != "v0-test" {
		t.Errorf("ports %q, labels %q", ports, config.Labels)
	}

	container := []string{"run", "--rm", "--network=none", "--read-only", "--user=1026:100", "--cap-drop=ALL", "--security-opt=no-new-privileges", image}
	if version := run(t, exec.CommandContext(t.Context(), engine.Bin, append(container, "version")...)); !strings.Contains(version, "v0-test") {
		t.Errorf("config-server version says %q", version)
	}
	// It starts as in a cluster where nothing is set yet: it says what is missing, and that is all.
	out, err := exec.CommandContext(t.Context(), engine.Bin, append(container, "serve")...).CombinedOutput()
	if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 2 || !strings.Contains(string(out), "NAS_SSH_HOST") {
		t.Errorf("config-server serve without settings: %v\n%s", err, out)
	}
}

func run(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return string(out)
}
