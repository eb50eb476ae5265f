package httpapi_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"config-server/internal/farm"
	"config-server/internal/httpapi"
)

// board is a status that a test sets, in this process or as another replica would.
type board struct {
	mu     sync.Mutex
	now    farm.Status
	err    error
	looks  int
	signal chan struct{}
}

func newBoard(stage farm.Stage) *board {
	return &board{now: farm.Status{User: "kim", Stage: stage, Message: "first"}, signal: make(chan struct{}, 1)}
}

func (b *board) status(context.Context, farm.UserName) (farm.Status, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.looks++
	return b.now, b.err
}

// elsewhere changes the status as another replica does.
func (b *board) elsewhere(stage farm.Stage, message string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now.Stage, b.now.Message, b.err = stage, message, err
}

// here changes it as this process does.
func (b *board) here(stage farm.Stage, message string) {
	b.elsewhere(stage, message, nil)
	b.signal <- struct{}{}
}

func (b *board) service(change ...func(*httpapi.Options, *service)) *service {
	return newService(append(change, func(_ *httpapi.Options, s *service) { s.progress.status, s.progress.changes = b.status, b.signal })...)
}

// events reads a stream and gives stage and message of each event; it is closed at the stream's end.
func events(t *testing.T, response *http.Response) <-chan string {
	t.Helper()
	if got := response.Header.Get("Content-Type"); response.StatusCode != 200 || got != "text/event-stream" {
		t.Fatalf("status %d, content type %q", response.StatusCode, got)
	}
	out := make(chan string)
	go func() {
		defer close(out)
		lines := bufio.NewScanner(response.Body)
		for lines.Scan() {
			data, found := strings.CutPrefix(lines.Text(), "data: ")
			if !found {
				continue
			}
			var s struct{ Username, Stage, Message string }
			if err := json.Unmarshal([]byte(data), &s); err != nil || s.Username != "kim" {
				out <- fmt.Sprintf("bad data %q", data)
				continue
			}
			out <- s.Stage + " " + s.Message
		}
	}()
	return out
}

func next(t *testing.T, events <-chan string, want string) {
	t.Helper()
	select {
	case got := <-events:
		if got != want {
			t.Fatalf("event %q, want %q", got, want)
		}
	case <-time.After(time.Minute):
		t.Fatalf("no event, want %q", want)
	}
}

func open(t *testing.T, ctx context.Context, url string, header ...string) *http.Response {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, "GET", url+"/pods/kim/status", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", "text/event-stream")
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = response.Body.Close() })
	return response
}

// Through a real server, and with a token: each change is one event, and failed ends the stream.
func TestStreamThroughAServer(t *testing.T) {
	t.Parallel()
	b := newBoard(farm.StageUnknown)
	server := httptest.NewServer(b.service(withToken))
	t.Cleanup(server.Close)
	if refused := open(t, t.Context(), server.URL); refused.StatusCode != 401 {
		t.Fatalf("without the token: %d", refused.StatusCode)
	}
	stream := events(t, open(t, t.Context(), server.URL, "X-Internal-Token", "s3cret-marker"))
	next(t, stream, "unknown first")
	for _, stage := range []farm.Stage{farm.StageStarted, farm.StageWaitingReady} {
		b.here(stage, "here")
		next(t, stream, string(stage)+" here")
	}
	b.here(farm.StageWaitingReady, "kubelet says more")
	next(t, stream, "waiting_ready kubelet says more")
	b.here(farm.StageWaitingReady, "kubelet says more") // nothing has changed
	b.elsewhere(farm.StageCreatingServices, "elsewhere", nil)
	next(t, stream, "creating_services elsewhere")
	b.here(farm.StageFailed, "failed")
	next(t, stream, "failed failed")
	if event, open := <-stream; open {
		t.Errorf("an event after the end: %q", event)
	}
}

// A server that ends waits for no stream.
func TestStreamEndsWithTheServer(t *testing.T) {
	t.Parallel()
	b := newBoard(farm.StageStarted)
	ending := make(chan struct{})
	server := httptest.NewServer(b.service(func(opts *httpapi.Options, _ *service) { opts.Ending = ending }))
	t.Cleanup(server.Close)
	stream := events(t, open(t, t.Context(), server.URL))
	next(t, stream, "started first")
	close(ending)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := server.Config.Shutdown(ctx); err != nil {
		t.Errorf("shutdown: %v", err)
	}
	if event, open := <-stream; open {
		t.Errorf("an event after the end: %q", event)
	}
}

func TestStreamEndsWithItsWatcher(t *testing.T) {
	t.Parallel()
	b := newBoard(farm.StageStarted)
	left := make(chan struct{})
	handler := b.service()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler.ServeHTTP(w, r)
		close(left)
	}))
	t.Cleanup(server.Close)
	ctx, leave := context.WithCancel(t.Context())
	next(t, events(t, open(t, ctx, server.URL)), "started first")
	leave()
	select {
	case <-left:
	case <-time.After(time.Minute):
		t.Error("the stream goes on without its watcher")
	}
}

// written is what a handler wrote so far, with the time of each piece since the beginning.
type written struct {
	*httptest.ResponseRecorder
	begin time.Time
	mu    sync.Mutex
	text  strings.Builder
}

func (w *written) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for line := range strings.Lines(string(p)) {
		if data, found := strings.CutPrefix(line, "data: "); found {
			var s struct{ Stage, Message string }
			_ = json.Unmarshal([]byte(data), &s)
			line = s.Stage + " " + s.Message + "\n"
		}
		if line != "\n" && line != "event: status\n" {
			fmt.Fprintf(&w.text, "%s %s", time.Since(w.begin).Round(time.Second), line)
		}
	}
	return len(p), nil
}

// Time is the bubble's: what happens elsewhere shows within a second, a silent stream says that it
// lives, and a look that fails is made up for.
func TestStreamOverTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBoard(farm.StageStarted)
		w := &written{ResponseRecorder: httptest.NewRecorder(), begin: time.Now()}
		done := make(chan struct{})
		go func() {
			defer close(done)
			request := newRequest("GET", "/pods/kim/status", "")
			request.Header.Set("Accept", "text/html, text/event-stream;q=0.5")
			b.service().ServeHTTP(w, request)
		}()
		at := func(d time.Duration) { time.Sleep(time.Until(w.begin.Add(d))) }
		at(2500 * time.Millisecond)
		b.elsewhere(farm.StageWaitingReady, "elsewhere", nil)
		at(16500 * time.Millisecond)
		b.elsewhere("", "", errors.New("down"))
		at(40500 * time.Millisecond)
		b.elsewhere(farm.StageUnknown, "deleted", nil)
		<-done
		want := "0s started first\n3s waiting_ready elsewhere\n15s : still here\n30s : still here\n41s unknown deleted\n"
		if got := w.text.String(); got != want {
			t.Errorf("got\n%swant\n%s", got, want)
		}
		if b.looks > 45 {
			t.Errorf("%d looks in 41 s", b.looks)
		}
	})
}

func TestStreamsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const most = 256
		b := newBoard(farm.StageStarted)
		ending := make(chan struct{})
		s := b.service(func(opts *httpapi.Options, _ *service) { opts.Ending = ending })
		request := func() *http.Request {
			r := newRequest("GET", "/pods/kim/status", "")
			r.Header.Set("Accept", "text/event-stream")
			return r
		}
		var streams sync.WaitGroup
		for range most {
			streams.Go(func() { s.ServeHTTP(httptest.NewRecorder(), request()) })
		}
		synctest.Wait()
		got := s.send(request())
		got.fits(t, "GET", "/pods/kim/status")
		if got.Status != 503 || got.Header.Get("Retry-After") == "" {
			t.Errorf("one more: %d %s", got.Status, got.Text)
		}
		if got := s.call("GET", "/pods/kim/status", ""); got.Status != 200 {
			t.Errorf("a look beside them: %d", got.Status)
		}
		close(ending)
		streams.Wait()
		b.elsewhere(farm.StageReady, "it stands", nil)
		if got := s.send(request()); got.Status != 200 || !strings.Contains(got.Text, `"ready"`) {
			t.Errorf("after their end: %d %s", got.Status, got.Text)
		}
	})
}

func TestWhoGetsAStream(t *testing.T) {
	t.Parallel()
	for accept, stream := range map[string]bool{
		"":                                    false,
		"*/*":                                 false,
		"application/json":                    false,
		"text/event-stream":                   true,
		"TEXT/Event-Stream":                   true,
		"application/json, text/event-stream": true,
		"text/event-stream; q=0.9":            true,
		"text/event-stream; q=0":              false,
		"text/event-streams":                  false,
		";;;":                                 false,
	} {
		request := newRequest("GET", "/pods/kim/status", "")
		request.Header.Set("Accept", accept)
		got := newService().send(request)
		want := "application/json"
		if stream {
			want = "text/event-stream"
		}
		if got.Status != 200 || got.Header.Get("Content-Type") != want {
			t.Errorf("Accept %q: %d %s", accept, got.Status, got.Header.Get("Content-Type"))
		}
	}
}
