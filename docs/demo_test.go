package docs_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"config-server/api/apitest"
	"config-server/internal/testkit"
)

// demo runs the program with demo --serve and returns its address.
func demo(t *testing.T) string {
	t.Helper()
	testkit.Need(t, "service process", "golang", "go")
	binary, err := testkit.ServiceBinary(testkit.Build{})
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), binary, "demo", "--serve", "--listen", "127.0.0.1:0")
	command.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	command.WaitDelay = time.Minute
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	guide := bufio.NewReader(out)
	first, err := guide.ReadString('\n')
	address := regexp.MustCompile(`http://127\.0\.0\.1:\d+`).FindString(first)
	if err != nil || address == "" {
		t.Fatalf("the demo begins with %q, %v", first, err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(io.Discard, guide)
	}()
	t.Cleanup(func() { // after the test's context is done, which ends the demo
		<-read
		if err := command.Wait(); !command.ProcessState.Success() {
			t.Errorf("the demo did not end in order: %v", err)
		}
	})
	return address
}

// watched is the service behind a proxy that compares each answer with the API description and notes
// which operation it was.
type watched struct {
	URL string

	mu    sync.Mutex
	asked map[string]bool // by method and path template
}

func watch(t *testing.T, service string) *watched {
	t.Helper()
	validator, err := apitest.New(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(service)
	if err != nil {
		t.Fatal(err)
	}
	w := &watched{asked: map[string]bool{}}
	proxy := &httputil.ReverseProxy{Rewrite: func(request *httputil.ProxyRequest) {
		request.SetURL(target)
		request.Out.Header.Set("Accept-Encoding", "identity") // or what is compared would be zipped
	}}
	proxy.ModifyResponse = func(response *http.Response) error {
		if err := validator.ValidateAnswer(response.Request, response); err != nil {
			t.Error(err)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		for template, item := range validator.Document.Paths.Map() {
			if item.GetOperation(response.Request.Method) != nil && fits(template, response.Request.URL.Path) && response.StatusCode < 400 {
				w.asked[response.Request.Method+" "+template] = true
			}
		}
		return nil
	}
	server := httptest.NewServer(proxy)
	t.Cleanup(server.Close)
	w.URL = server.URL
	return w
}

var parameter = regexp.MustCompile(`\\\{\w+\\\}`)

// fits tells whether a path is one of a template's.
func fits(template, path string) bool {
	pattern := parameter.ReplaceAllString(regexp.QuoteMeta(template), `[^/]+`)
	return regexp.MustCompile(`^` + pattern + `$`).MatchString(path)
}

// The calls of api.md are run from above to below: each is a success and as the description has it,
// every operation of the description is among them, and they take back what they made.
func TestTheCallsOfTheAPIGuide(t *testing.T) {
	t.Parallel()
	testkit.Need(t, "curl", "curl", "curl")
	testkit.Need(t, "jq", "jq", "jq")
	service := watch(t, demo(t))
	s := shell{dir: t.TempDir(), env: withTools(t), replace: []string{"http://127.0.0.1:8000", service.URL}}
	s.run(t, planned(t, "docs/api.md", sessionDemo))

	validator, err := apitest.New(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for template, item := range validator.Document.Paths.Map() {
		for method := range item.Operations() {
			if !service.asked[method+" "+template] {
				t.Errorf("api.md shows no call of %s %s that succeeds", method, template)
			}
		}
	}
	for path, left := range map[string]string{"/workspaces": "user2100", "/accounts/users": "user2100", "/accounts/groups": "developers"} {
		if body := get(t, service.URL+path); strings.Contains(body, left) {
			t.Errorf("after the calls %s still has %s", path, left)
		}
	}
}

// The README's commands are run as they stand, but for the address.
func TestTheCommandsOfTheREADME(t *testing.T) {
	t.Parallel()
	testkit.Need(t, "make", "make", "make")
	testkit.Need(t, "curl", "curl", "curl")
	service := watch(t, demo(t))
	s := shell{dir: root, env: withTools(t), replace: []string{"localhost:8000", strings.TrimPrefix(service.URL, "http://")}}
	out := s.run(t, planned(t, "README.md", sessionDemo))
	for _, text := range []string{"answers were as told", `"status":"created"`, `"gecos":"Alice"`} {
		if !strings.Contains(out, text) {
			t.Errorf("the output has no %q:\n%s", text, out)
		}
	}
	for _, call := range []string{"PUT /accounts/users", "POST /create-pod", "GET /accounts/users/{name}"} {
		if !service.asked[call] {
			t.Errorf("%s was not asked", call)
		}
	}
}

// withTools is the environment of a session, with a curl that takes refusals for failures.
func withTools(t *testing.T) []string {
	t.Helper()
	return append(os.Environ(), "PATH="+tools(t, map[string]string{"curl": strictCurl(t), "make": harmlessMake(t)})+string(filepath.ListSeparator)+os.Getenv("PATH"))
}

func get(t *testing.T, address string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatal(fmt.Errorf("%s: status %d, %w", address, response.StatusCode, err))
	}
	return string(body)
}
