package httpapi_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"config-server/internal/farm"
	"config-server/internal/httpapi"
	"config-server/internal/workspaces"
)

// serve opens the API on a real listener.
func serve(t *testing.T, s *service) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	t.Cleanup(server.Client().CloseIdleConnections)
	return server
}

func get(t *testing.T, server *httptest.Server, path string) (int, string) {
	t.Helper()
	response, err := server.Client().Get(server.URL + path)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

// A caller that gives up ends the context of its use case.
func TestCallerGone(t *testing.T) {
	t.Parallel()
	begun, ended := make(chan struct{}), make(chan error, 1)
	server := serve(t, newService(func(_ *httpapi.Options, s *service) {
		s.pods.create = func(ctx context.Context, _ workspaces.CreateRequest) (workspaces.Created, error) {
			close(begun)
			<-ctx.Done()
			ended <- context.Cause(ctx)
			return workspaces.Created{}, ctx.Err()
		}
	}))
	ctx, giveUp := context.WithCancel(t.Context())
	go func() {
		<-begun
		giveUp()
	}()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/create-pod", strings.NewReader(`{"username":"u"}`))
	if err != nil {
		t.Fatal(err)
	}
	if response, err := server.Client().Do(req); err == nil {
		response.Body.Close()
		t.Fatal("answered")
	}
	if cause := <-ended; !errors.Is(cause, context.Canceled) {
		t.Errorf("cause is %v", cause)
	}
}

// The limit on the body's arrival does not reach the work that comes after it.
func TestWorkMayTakeLongerThanTheBody(t *testing.T) {
	t.Parallel()
	const wait = 30 * time.Millisecond
	server := serve(t, newService(func(opts *httpapi.Options, s *service) {
		opts.BodyWait = wait
		s.pods.create = func(ctx context.Context, _ workspaces.CreateRequest) (workspaces.Created, error) {
			select {
			case <-ctx.Done():
				return workspaces.Created{}, context.Cause(ctx)
			case <-time.After(5 * wait):
				return workspaces.Created{Node: "farm6", Pod: "ailab-u-00000000", Ports: twoPorts()}, nil
			}
		}
	}))
	response, err := server.Client().Post(server.URL+"/create-pod", "application/json", strings.NewReader(`{"username":"u"}`))
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusCreated {
		t.Errorf("status is %d", response.StatusCode)
	}
}

// A body that never comes holds nothing up, whether somebody reads it or not.
func TestStalledBody(t *testing.T) {
	t.Parallel()
	cases := []struct{ request, answer, text string }{
		{"POST /create-pod", "400", "INVALID_CREATE_POD_REQUEST"},
		{"PUT /accounts/users", "400", "could not be read"},
		{"DELETE /accounts/groups/a", "200", "deleted"},
		{"GET /accounts/users", "200", "user2100"},
		{"POST /nothing", "404", "no such route"},
	}
	for _, c := range cases {
		t.Run(c.request, func(t *testing.T) {
			t.Parallel()
			server := serve(t, newService(func(opts *httpapi.Options, _ *service) { opts.BodyWait = 30 * time.Millisecond }))
			conn, err := net.Dial("tcp", server.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{", c.request); err != nil {
				t.Fatal(err)
			}
			if err := conn.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
				t.Fatal(err)
			}
			answer, err := io.ReadAll(conn)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(string(answer), "HTTP/1.1 "+c.answer) || !strings.Contains(string(answer), c.text) {
				t.Errorf("answer: %s", answer)
			}
		})
	}
}

// Who says that a body follows, and sends none, has the answer at once where nobody reads it. A stream is
// no exception.
func TestNobodyWaitsForABodyThatIsNotRead(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ request, header, answer, text string }{
		"health":    {"GET /health", "", "200 OK", "OK"},
		"a list":    {"GET /accounts/users", "", "200 OK", "user2100"},
		"a status":  {"GET /pods/kim/status", "", "200 OK", `"stage":"ready"`},
		"a stream":  {"GET /pods/kim/status", "Accept: text/event-stream\r\n", "200 OK", `"stage":"ready"`},
		"a removal": {"DELETE /accounts/groups/a", "", "200 OK", "deleted"},
		"no route":  {"GET /nothing", "", "404 Not Found", "no such route"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := serve(t, newService(func(opts *httpapi.Options, _ *service) { opts.BodyWait = time.Hour }))
			conn, err := net.Dial("tcp", server.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Fatal(err)
			}
			if _, err := fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: x\r\n%sContent-Length: 100\r\n\r\n", c.request, c.header); err != nil {
				t.Fatal(err)
			}
			answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			body, err := io.ReadAll(answer.Body)
			if answer.Status != c.answer || !strings.Contains(string(body), c.text) || err != nil {
				t.Errorf("%s %s, %v", answer.Status, body, err)
			}
		})
	}
}

// A body that comes after the answer is never taken for another request.
func TestALateBodyIsNoRequest(t *testing.T) {
	t.Parallel()
	s := newService()
	server := serve(t, s)
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	const late = "GET /accounts/groups HTTP/1.1\r\nHost: x\r\n\r\n"
	if _, err := fmt.Fprintf(conn, "GET /accounts/users HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", len(late)); err != nil {
		t.Fatal(err)
	}
	answers := bufio.NewReader(conn)
	answer, err := http.ReadResponse(answers, nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(answer.Body)
	_ = answer.Body.Close()
	if answer.StatusCode != 200 || !answer.Close || err != nil {
		t.Errorf("%d %s, %v", answer.StatusCode, body, err)
	}
	if _, err := io.WriteString(conn, late+late); err != nil {
		t.Fatal(err)
	}
	// The connection may end with an error, because something sent is never read.
	if more, _ := io.ReadAll(answers); len(more) > 0 {
		t.Errorf("one more answer: %s", more)
	}
	if worked := s.worked(); slices.Contains(worked, "groups") {
		t.Errorf("use cases asked: %q", worked)
	}
}

// Health and reading answer while a hundred requests hang.
func TestHangingRequestsHoldUpNobody(t *testing.T) {
	t.Parallel()
	const many = 100
	begun := make(chan struct{}, many)
	server := serve(t, newService(func(_ *httpapi.Options, s *service) {
		s.pods.create = func(ctx context.Context, _ workspaces.CreateRequest) (workspaces.Created, error) {
			begun <- struct{}{}
			<-ctx.Done()
			return workspaces.Created{}, ctx.Err()
		}
	}))
	ctx, giveUp := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	for range many {
		callers.Go(func() {
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/create-pod", strings.NewReader(`{"username":"u"}`))
			if err != nil {
				t.Error(err)
				return
			}
			if response, err := server.Client().Do(req); err == nil {
				response.Body.Close()
			}
		})
	}
	for range many {
		<-begun
	}
	if status, body := get(t, server, "/health"); status != 200 || body != "OK" {
		t.Errorf("health: %d %s", status, body)
	}
	if status, body := get(t, server, "/accounts/users"); status != 200 {
		t.Errorf("users: %d %s", status, body)
	}
	giveUp()
	callers.Wait()
}

// Answers of requests at the same time do not mix.
func TestConcurrentRequestsKeepApart(t *testing.T) {
	t.Parallel()
	server := serve(t, newService(func(_ *httpapi.Options, s *service) {
		s.users.deleteGroup = func(_ context.Context, name string) (farm.GroupRef, error) {
			if strings.HasSuffix(name, "7") {
				return farm.GroupRef{}, farm.Errorf(farm.NotFound, "no group %s", name)
			}
			return farm.GroupRef{Name: farm.GroupName(name), GID: 20000}, nil
		}
	}))
	var callers sync.WaitGroup
	for i := range 50 {
		callers.Go(func() {
			name := fmt.Sprintf("group%d", i)
			req, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, server.URL+"/accounts/groups/"+name, nil)
			if err != nil {
				t.Error(err)
				return
			}
			req.Header.Set("X-Request-Id", name)
			response, err := server.Client().Do(req)
			if err != nil {
				t.Error(err)
				return
			}
			defer response.Body.Close()
			body, _ := io.ReadAll(response.Body)
			if !strings.Contains(string(body), name+`"`) || response.Header.Get("X-Request-Id") != name {
				t.Errorf("%s got %v %s", name, response.Header, body)
			}
		})
	}
	callers.Wait()
}
