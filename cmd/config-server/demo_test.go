package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// The tests of the demo do not run beside others: they set TMPDIR and look for leaks.

func TestDemoTakesTheServiceThroughItsJourney(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	folder := demoFolder(t)
	var out, failures bytes.Buffer
	if code := run(t.Context(), invocation{args: []string{"demo"}, out: &out, errors: &failures}); code != exitOK {
		t.Fatalf("exit %d:\n%s\n%s", code, out.String(), failures.String())
	}
	for _, words := range []string{
		"> POST /create-pod", "< 201 Created, took ", `"status": "migrated"`,
		"/home/kim:/bin/bash", "drwx------ 20000:20000 /volume1/share/user/kim", "on farm7, Ready",
		"answers were as told",
	} {
		if !strings.Contains(out.String(), words) {
			t.Errorf("the journey does not show %q", words)
		}
	}
	if strings.Contains(out.String(), "$6$") {
		t.Error("the journey shows a password hash")
	}
	mustBeEmpty(t, folder)
}

func TestDemoServesUntilItIsToldToEnd(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	folder := demoFolder(t)
	ctx, end := context.WithCancel(t.Context())
	defer end()
	reader, out := io.Pipe()
	var failures lockedBuffer
	ended := make(chan int, 1)
	go func() {
		code := run(ctx, invocation{args: []string{"demo", "--serve", "--listen", "127.0.0.1:0"}, out: out, errors: &failures})
		_ = out.Close()
		ended <- code
	}()
	url := serviceAddress(t, reader)
	if status := put(t, url+"/accounts/users", `{"name":"kim","passwd_base64":"ZGVtbw=="}`); status != http.StatusCreated {
		t.Errorf("PUT user answered %d", status)
	}
	if status := put(t, url+"/accounts/users", `{"name":"kim","passwd_base64":"ZGVtbw=="}`); status != http.StatusConflict {
		t.Errorf("a second PUT of the user answered %d: the state was not kept", status)
	}
	end()
	select {
	case code := <-ended:
		if code != exitOK {
			t.Errorf("exit %d: %s", code, failures.String())
		}
	case <-time.After(time.Minute):
		t.Fatal("it did not end")
	}
	mustBeEmpty(t, folder)
}

func TestDemoRefusesACommandLineThatItDoesNotKnow(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	for _, test := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"demo", "--nonsense"}, exitUsage, "--nonsense"},
		{[]string{"demo", "extra"}, exitUsage, "extra"},
		{[]string{"demo", "--help"}, exitOK, ""},
		{[]string{"demo", "--serve", "--listen", taken.Addr().String()}, exitFailed, "name another address, such as --listen "},
		{[]string{"demo", "--serve", "--listen", "127.0.0.1:99999"}, exitFailed, "127.0.0.1:99999"},
	} {
		var out, failures bytes.Buffer
		code := run(t.Context(), invocation{args: test.args, out: &out, errors: &failures})
		if code != test.code || !strings.Contains(failures.String(), test.says) {
			t.Errorf("%v: exit %d %q, want %d with %q", test.args, code, failures.String(), test.code, test.says)
		}
	}
}

// demoFolder is where the demo makes its folder.
func demoFolder(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	t.Setenv("TMPDIR", folder)
	return folder
}

func mustBeEmpty(t *testing.T, folder string) {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(folder, "config-server-demo-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if _, err := os.Stat(folder); errors.Is(err, fs.ErrNotExist) {
		t.Error("the demo removed more than its own folder")
	}
}

// serviceAddress reads the guide to its end of the first line, and goes on reading.
func serviceAddress(t *testing.T, guide io.Reader) string {
	t.Helper()
	var text []byte
	one := make([]byte, 1)
	for !bytes.HasSuffix(text, []byte("\n")) {
		if _, err := guide.Read(one); err != nil {
			t.Fatalf("the guide ended after %q: %v", text, err)
		}
		text = append(text, one...)
	}
	go func() { _, _ = io.Copy(io.Discard, guide) }()
	url := regexp.MustCompile(`http://127\.0\.0\.1:\d+`).FindString(string(text))
	if url == "" {
		t.Fatalf("no address in %q", text)
	}
	return url
}

func put(t *testing.T, url, body string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	return response.StatusCode
}

// lockedBuffer may be written while it is read.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
