package raise

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"config-server/deploy/lab/internal/daemon"
	"config-server/deploy/lab/internal/site"
)

// Status names the file that config-server was started from, of no other part, and says when another
// file lies there by now.
func TestStatusNamesTheBinaryThatRuns(t *testing.T) {
	t.Parallel()
	binary := filepath.Join(t.TempDir(), "config-server")
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(sleep)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(binary, program, 0o755); err != nil {
		t.Fatal(err)
	}
	l := New(&site.Site{Dir: t.TempDir()}, t.TempDir(), "", t.Logf)
	for _, name := range []string{ServiceName, "redis"} {
		d, err := l.daemon(&daemon.Daemon{Name: name, Path: binary, Args: []string{"300"}}, "127.0.0.1:1", "")
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := d.Stop(); err != nil {
				t.Error(err)
			}
		})
	}
	part := func(name string) Health { return l.health(t.Context(), l.Site.Path("run", name+".part")) }
	if got := part(ServiceName); got.Program != binary || got.Fault != "" {
		t.Errorf("%+v, want %s", got, binary)
	}
	if got := part("redis"); got.Program != "" || got.Fault != "" {
		t.Errorf("%+v", got)
	}
	if err := os.Remove(binary); err != nil {
		t.Fatal(err)
	}
	if got := part(ServiceName); got.Program != binary+" as it was before it was replaced" {
		t.Errorf("%+v", got)
	}
}
