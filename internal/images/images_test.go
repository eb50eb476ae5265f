package images

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"config-server/internal/farm"
)

func TestMain(m *testing.M) {
	// The Redis client looks once a second, in a goroutine of its own, whether a server that was down
	// is back or the client closed; it sees the close up to a second later.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

// newStore has a store whose engine is a shell script. In the script, $OUT is a folder of the test.
func newStore(t *testing.T, script string, change func(*Options)) (store *Store, out string) {
	t.Helper()
	dir, out := t.TempDir(), t.TempDir()
	engine := filepath.Join(t.TempDir(), "docker")
	writeProgram(t, engine, "#!/bin/sh\nOUT="+out+"\n"+script+"\n")
	opts := Options{StoreDir: dir, DockerBin: engine}
	if change != nil {
		change(&opts)
	}
	return New(opts), out
}

// writeProgram writes while nobody forks: a child that holds the file open for writing would make
// running it fail.
func writeProgram(t *testing.T, path, text string) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

func saveTar(t *testing.T, s *Store, user farm.UserName) {
	t.Helper()
	if err := os.WriteFile(s.tar(user), []byte("tar"), 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestNothingSavedIsTheBaseImageWithoutAWarning(t *testing.T) {
	t.Parallel()
	store, out := newStore(t, `touch $OUT/ran`, nil)
	for _, user := range []farm.UserName{"kim", "Kim", "김", "..", "a/b", ""} {
		if image, warning := store.Resolve(t.Context(), user, "base:1"); image != "base:1" || warning != "" {
			t.Errorf("%q: image %q, warning %q", user, image, warning)
		}
	}
	if _, err := os.Stat(filepath.Join(out, "ran")); err == nil {
		t.Error("the engine was run")
	}
}

func TestSavedImageIsLoadedEveryTime(t *testing.T) {
	t.Parallel()
	store, out := newStore(t, `echo "$@" >>$OUT/argv; echo "Loaded image: user-kim:latest"`, nil)
	saveTar(t, store, "kim")
	for range 2 {
		if image, warning := store.Resolve(t.Context(), "kim", "base:1"); image != "user-kim:latest" || warning != "" {
			t.Errorf("image %q, warning %q", image, warning)
		}
	}
	want := strings.Repeat("load -i "+store.tar("kim")+"\n", 2)
	if got := read(t, filepath.Join(out, "argv")); got != want {
		t.Errorf("engine was run with %q, want %q", got, want)
	}
}

func TestWhatTheEngineSays(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		script  string
		loaded  bool
		warning string
	}{
		"nothing":             {`exit 0`, true, ""},
		"the name":            {`echo "Loaded image: user-kim:latest"`, true, ""},
		"one name of several": {`printf 'Loaded image: a:1\nLoaded image: user-kim:latest\n'`, true, ""},
		"with a registry":     {`echo "Loaded image: localhost/user-kim:latest"`, true, ""},
		"another name":        {`echo "Loaded image: user-lee:latest"`, false, "it holds user-lee:latest, not user-kim:latest"},
		"no name":             {`echo "Loaded image ID: sha256:0123"`, false, "it holds sha256:0123"},
		"failure":             {`echo "no space left on device" >&2; exit 1`, false, "exit status 1: no space left on device"},
		"endless complaint":   {`yes complaint | head -c 1000000; exit 1`, false, "complaint"},
		"killed":              {`kill -9 $$`, false, "killed"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, _ := newStore(t, c.script, nil)
			saveTar(t, store, "kim")
			image, warning := store.Resolve(t.Context(), "kim", "base:1")
			if want := map[bool]string{true: "user-kim:latest", false: "base:1"}[c.loaded]; image != want {
				t.Errorf("image %q, want %q", image, want)
			}
			if !strings.Contains(warning, c.warning) || (warning == "") != c.loaded || len(warning) > 2*maxText {
				t.Errorf("warning %q", warning)
			}
		})
	}
}

func TestWhatCannotBeLoadedIsTheBaseImageWithAWarning(t *testing.T) {
	t.Parallel()
	store, _ := newStore(t, `exit 0`, nil)
	for _, user := range []farm.UserName{"Kim", "a.-b", "_x", "a___b"} {
		saveTar(t, store, user)
		if image, warning := store.Resolve(t.Context(), user, "base:1"); image != "base:1" || !strings.Contains(warning, "no valid image name") {
			t.Errorf("%q: image %q, warning %q", user, image, warning)
		}
	}
	if err := os.Mkdir(store.tar("folder"), 0o755); err != nil {
		t.Fatal(err)
	}
	if image, warning := store.Resolve(t.Context(), "folder", "base:1"); image != "base:1" || !strings.Contains(warning, "no regular file") {
		t.Errorf("a folder: image %q, warning %q", image, warning)
	}
	missing, _ := newStore(t, ``, func(o *Options) { o.DockerBin = "/nonexistent/docker" })
	saveTar(t, missing, "kim")
	if image, warning := missing.Resolve(t.Context(), "kim", "base:1"); image != "base:1" || warning == "" {
		t.Errorf("no engine: image %q, warning %q", image, warning)
	}
}

func TestHangingEngineIsKilledWithItsChildren(t *testing.T) {
	t.Parallel()
	store, out := newStore(t, `sleep 600 & echo $! >$OUT/child; echo $$ >$OUT/self; wait`, func(o *Options) { o.LoadTimeout = time.Second })
	saveTar(t, store, "kim")
	begin := time.Now()
	image, warning := store.Resolve(t.Context(), "kim", "base:1")
	if image != "base:1" || !strings.Contains(warning, "not loaded within 1s") {
		t.Errorf("image %q, warning %q", image, warning)
	}
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
	for _, file := range []string{"self", "child"} {
		var pid int
		if _, err := fmt.Sscan(read(t, filepath.Join(out, file)), &pid); err != nil {
			t.Fatal(err)
		}
		if alive(pid) {
			t.Errorf("%s (%d) is still alive", file, pid)
		}
	}
}

// alive reports whether a process runs; one that has ended and waits to be collected does not.
func alive(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}

func TestLoadsOfOneUserRunOneAfterTheOther(t *testing.T) {
	t.Parallel()
	store, _ := newStore(t, `mkdir $OUT/lock || exit 1; rmdir $OUT/lock`, nil)
	saveTar(t, store, "kim")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if image, warning := store.Resolve(t.Context(), "kim", "base:1"); image != "user-kim:latest" {
				t.Errorf("image %q, warning %q", image, warning)
			}
		})
	}
	wg.Wait()
	if len(store.turns) != 0 {
		t.Errorf("%d turns are left", len(store.turns))
	}
}

func TestWaitingForAnotherLoadEndsWithTheContext(t *testing.T) {
	t.Parallel()
	store, _ := newStore(t, `exit 0`, nil)
	saveTar(t, store, "kim")
	done, err := store.await(t.Context(), "kim")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if image, warning := store.Resolve(ctx, "kim", "base:1"); image != "base:1" || !strings.Contains(warning, "wait for another load") {
		t.Errorf("image %q, warning %q", image, warning)
	}
	done()
	if len(store.turns) != 0 {
		t.Errorf("%d turns are left", len(store.turns))
	}
}

func TestEngineDoesNotSeeThePasswordsOfTheService(t *testing.T) {
	t.Parallel()
	got := engineEnvironment([]string{"PATH=/bin", "DB_PASSWORD=x", "KRB5_ADMIN_PASSWORD=x", "DOCKER_HOST=unix:///s", "API_TOKEN=x", "HOME=/"})
	if want := []string{"PATH=/bin", "DOCKER_HOST=unix:///s", "HOME=/"}; !slices.Equal(got, want) {
		t.Errorf("environment %q, want %q", got, want)
	}
}

func TestSave(t *testing.T) {
	t.Parallel()
	pod := farm.Pod{Name: "ailab-kim-01234567", User: "kim", Image: "base:1"}
	broken := errors.New("stream broke")
	cases := map[string]struct {
		status int
		err    error
		says   string // empty = success
	}{
		"success":        {status: 0},
		"exit status":    {status: 3, says: "save image of pod ailab-kim-01234567: /usr/local/bin/save_image.sh ended with exit status 3: disk full"},
		"no exit status": {err: broken, says: "stream broke"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, _ := newStore(t, ``, nil)
			err := store.Save(t.Context(), func(_ context.Context, name farm.PodName, container string, command []string) (int, string, error) {
				if name != pod.Name || container != "shell" || !slices.Equal(command, []string{"/usr/local/bin/save_image.sh"}) {
					t.Errorf("exec in %s/%s of %q", name, container, command)
				}
				return c.status, "disk\nfull\n", c.err
			}, pod)
			if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("error %v, want %q", err, c.says)
			}
			if c.err != nil && !errors.Is(err, c.err) {
				t.Errorf("error %v does not wrap the cause", err)
			}
		})
	}
}

func TestHangingSaveScriptIsLeftAfterTheLimit(t *testing.T) {
	t.Parallel()
	store, _ := newStore(t, ``, func(o *Options) { o.SaveTimeout = 30 * time.Millisecond })
	err := store.Save(t.Context(), func(ctx context.Context, _ farm.PodName, _ string, _ []string) (int, string, error) {
		<-ctx.Done()
		return 0, "", ctx.Err()
	}, farm.Pod{Name: "p", User: "kim"})
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "not done within 30ms") {
		t.Errorf("error %v", err)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	good, _ := newStore(t, ``, nil)
	if err := good.Check(t.Context()); err != nil {
		t.Errorf("Check: %v", err)
	}
	for name, change := range map[string]func(*Options){
		"no store":  func(o *Options) { o.StoreDir += "/missing" },
		"a file":    func(o *Options) { o.StoreDir = o.DockerBin },
		"no engine": func(o *Options) { o.DockerBin += "-missing" },
	} {
		store, _ := newStore(t, ``, change)
		if err := store.Check(t.Context()); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestLoadsAreTold(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{"well": `echo "Loaded image: user-kim:latest"`, "broken": `echo no engine >&2; exit 1`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var told []string
			store, _ := newStore(t, script, func(o *Options) {
				o.Called = func(_ context.Context, call string, _ time.Duration, err error) {
					told = append(told, fmt.Sprint(call, ", failed ", err != nil))
				}
			})
			store.Resolve(t.Context(), "lee", "base:1") // nothing is saved, so nothing is loaded
			saveTar(t, store, "kim")
			store.Resolve(t.Context(), "kim", "base:1")
			if want := fmt.Sprint("load ", store.tar("kim"), ", failed ", name == "broken"); len(told) != 1 || told[0] != want {
				t.Errorf("told %q, want %q", told, want)
			}
		})
	}
}
