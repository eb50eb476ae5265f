package docs_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"config-server/internal/testkit"
	"config-server/internal/testkit/world"
)

// stopLimit bounds the end of the service.
const stopLimit = time.Minute

// playedKubectl plays what a cluster does with the service's Deployment, and refuses every other
// command: "exec" runs the program beside the service, "scale" ends and starts it.
const playedKubectl = `
farm() { curl -sS --fail-with-body "$FARM/$1"; }
case "$*" in
"-n ailab-infra exec deployment/containerssh-config-server -- /usr/local/bin/config-server "*)
  farm running; shift 6; exec "$PROGRAM" "$@" ;;
"-n ailab-infra logs deployment/containerssh-config-server")
  exec cat "$SERVICE_LOG" ;;
"-n ailab-infra scale deployment containerssh-config-server --replicas=0") farm stop ;;
"-n ailab-infra scale deployment containerssh-config-server --replicas=1") farm start ;;
"-n ailab-infra wait --for=delete pod --selector app=containerssh-config-server --timeout=120s") farm stopped ;;
"-n ailab-infra rollout status deployment/containerssh-config-server") farm running ;;
*) echo "kubectl $*: no command of this farm" >&2; exit 1 ;;
esac
`

// playedFarm is a farm whose one replica of the service is run and ended as its Deployment asks.
type playedFarm struct {
	*world.World
	service *testkit.ServiceProcess
	shell   shell
}

func newFarm(t *testing.T) *playedFarm {
	t.Helper()
	for program, debian := range map[string]string{"curl": "curl", "tar": "tar", "mysql": "mariadb-client", "mysqldump": "mariadb-client"} {
		testkit.Need(t, program, debian, program)
	}
	binary, err := testkit.ServiceBinary(testkit.Build{})
	if err != nil {
		t.Fatal(err)
	}
	state, home, logs := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "service.log")
	w := world.New(t, world.Options{Env: map[string]string{"STATE_DIR": state}})
	f := &playedFarm{World: w, service: w.Service(t, nil)}

	work := make(chan func())
	played := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		done := make(chan error)
		work <- func() { done <- f.act(t, strings.TrimPrefix(r.URL.Path, "/"), logs) }
		if err := <-done; err != nil {
			http.Error(rw, err.Error(), http.StatusConflict)
		}
	}))
	t.Cleanup(played.Close)

	password := fmt.Sprintf("[client]\nhost=%s\nport=%d\nuser=%s\npassword=%s\n", w.MariaDB.Host, w.MariaDB.Port, w.MariaDB.User, w.MariaDB.Password)
	if err := os.WriteFile(filepath.Join(home, ".my.cnf"), []byte(password), 0o600); err != nil {
		t.Fatal(err)
	}
	f.shell = shell{
		dir: t.TempDir(), work: work,
		env: append(w.Environ(), "HOME="+home, "PROGRAM="+binary, "SERVICE_LOG="+logs, "FARM="+played.URL,
			"PATH="+tools(t, map[string]string{"kubectl": playedKubectl})+":"+os.Getenv("PATH")),
		replace: []string{"/path/of/the/share", w.Share, "pod_port_db", w.Database},
	}
	f.keepLog(t, logs)
	return f
}

// act does what a Deployment's controller would.
func (f *playedFarm) act(t *testing.T, what, logs string) error {
	f.keepLog(t, logs)
	running := f.service.Alive()
	switch what {
	case "stop":
		f.service.Term()
		f.service.Wait(t, stopLimit)
	case "start":
		f.service.Start(t)
	case "running":
		if !running {
			return errors.New("no pod of the service runs")
		}
	case "stopped":
		if running {
			return errors.New("a pod of the service runs")
		}
	default:
		return fmt.Errorf("nobody knows how to %s", what)
	}
	return nil
}

func (f *playedFarm) keepLog(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(f.service.Log(t)), 0o600); err != nil {
		t.Fatal(err)
	}
}

// section lists the fences of a section of the guide that are run here.
func section(t *testing.T, heading string) []fence {
	t.Helper()
	list := slices.DeleteFunc(planned(t, "docs/operations.md", sessionFarm), func(f fence) bool { return f.heading != heading })
	if len(list) == 0 {
		t.Fatalf("the guide's section %q has no commands", heading)
	}
	return list
}

func TestTheCommandsOfTheOperationsGuide(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	for _, user := range []string{"kim", "lee"} {
		world.Call(t, f.service.URL, "PUT", "/accounts/users", world.UserBody(user), 201)
	}
	world.Call(t, f.service.URL, "POST", "/create-pod", `{"username":"kim"}`, 201)
	f.ask(t, "8c1f0a")

	if out := f.shell.run(t, section(t, "Audit findings")); !strings.Contains(out, "0 findings in ") {
		t.Errorf("audit:\n%s", out)
	}
	if out := f.shell.run(t, section(t, "Logs")); !strings.Contains(out, `"request_id":"8c1f0a"`) {
		t.Errorf("logs:\n%s", out)
	}
	if out := f.shell.run(t, section(t, "Mending by hand")); !strings.Contains(out, "0 findings") {
		t.Errorf("reconcile:\n%s", out)
	}

	parts := section(t, "Back-up and restore")
	if len(parts) != 3 {
		t.Fatalf("the guide saves and restores in %d blocks", len(parts))
	}
	before, rows := filesBelow(t, f.Share), f.Rows(t)
	f.shell.run(t, parts[:1])

	if err := errors.Join(os.Remove(f.Share+"/shadow"), os.Truncate(f.Share+"/group", 0)); err != nil {
		t.Fatal(err)
	}
	if _, err := f.MariaDB.Open(t, f.Database).ExecContext(t.Context(), "DELETE FROM nodeport_allocations"); err != nil {
		t.Fatal(err)
	}
	if out := f.shell.run(t, parts[1:]); !strings.Contains(out, "0 findings in ") {
		t.Errorf("the audit after the restore:\n%s", out)
	}
	if diff := cmp.Diff(before, filesBelow(t, f.Share)); diff != "" {
		t.Errorf("the share after the restore (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(rows, f.Rows(t)); diff != "" {
		t.Errorf("the rows after the restore (-before +after):\n%s", diff)
	}
	world.Call(t, f.service.URL, "GET", "/accounts/users/kim", "", 200)

	// An account made since: its number is retired before the start, its home is told of, and it takes the home up again.
	world.Call(t, f.service.URL, "PUT", "/accounts/users", world.UserBody("park"), 201)
	uid := uidOf(t, f.service.URL, "park")
	f.shell.run(t, parts[1:2])
	retire(t, f.Share, fmt.Sprintf("uid:%s:park\n", uid))
	f.shell.replace = append(f.shell.replace, "config-server audit", "config-server audit || true") // 1 says that it found something
	if out := f.shell.run(t, parts[2:]); !strings.Contains(out, "home-of-nobody") {
		t.Errorf("the audit after the restore does not tell of the home of a later account:\n%s", out)
	}
	world.Call(t, f.service.URL, "GET", "/accounts/users/park", "", 404)
	world.Call(t, f.service.URL, "PUT", "/accounts/users", world.UserBody("other"), 201)
	world.Call(t, f.service.URL, "PUT", "/accounts/users", world.UserBody("park"), 201)
	if other, again := uidOf(t, f.service.URL, "other"), uidOf(t, f.service.URL, "park"); other == uid || again != uid {
		t.Errorf("the number %s of park is other's %s, and park has %s now", uid, other, again)
	}
}

func uidOf(t *testing.T, service, user string) string {
	t.Helper()
	return fmt.Sprint(world.Call(t, service, "GET", "/accounts/users/"+user, "", 200).JSON["user"].(map[string]any)["uid"])
}

// retire adds a line to the numbers that are never given again.
func retire(t *testing.T, share, line string) {
	t.Helper()
	file, err := os.OpenFile(filepath.Join(share, ".config-server", "retired"), os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteString(line); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
}

// owner has uid and gid of a file.
func owner(info fs.FileInfo) string {
	stat := info.Sys().(*syscall.Stat_t)
	return fmt.Sprintf("%d:%d", stat.Uid, stat.Gid)
}

// ask sends a request with an id of its own.
func (f *playedFarm) ask(t *testing.T, id string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.service.URL+"/accounts/users", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X-Request-Id", id)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
}

// filesBelow has mode, owner and content of each file.
func filesBelow(t *testing.T, folder string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		text := info.Mode().String() + " " + owner(info)
		if entry.Type().IsRegular() {
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text += " " + string(content)
		}
		files[strings.TrimPrefix(path, folder)] = text
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
