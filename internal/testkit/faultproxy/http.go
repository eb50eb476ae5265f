package faultproxy

import (
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// HTTPFault is what happens to a request in place of its answer.
type HTTPFault struct {
	// Match is a regular expression over "METHOD /path?query"; "" = every request.
	Match string
	Skip  int // how many requests pass first
	Times int // how many it hits; 0 = all
	// Hook is called when the fault hits: before all else, or with After when the real server has
	// answered. A fault with nothing but a Hook lets the request go on.
	Hook func()
	// After has the request answered by the real server first: its effect is there, its answer is lost.
	After bool

	// One of the following.
	Status int    // this status with a metav1.Status of Reason, or with Body if there is one
	Body   string // the answer's body; with Status 0 the status is 200
	Hang   bool   // no answer until the client goes
	Reset  bool   // the connection breaks

	Reason     metav1.StatusReason // in the metav1.Status
	RetryAfter string              // header Retry-After of the answer
}

// HTTP is a reverse proxy that breaks requests as its faults say.
type HTTP struct {
	URL string

	rules rules[HTTPFault]
	proxy *httputil.ReverseProxy
	over  chan struct{} // closed at the test's end, for requests that hang

	mu      sync.Mutex
	matches map[string]*regexp.Regexp
	watches map[chan struct{}]bool // one a request that is passed on; closing it breaks the request
}

// NewHTTP starts a proxy in front of target, which ends with the test. A nil transport is Go's own.
func NewHTTP(t testing.TB, target string, transport http.RoundTripper) *HTTP {
	t.Helper()
	base, err := url.Parse(target)
	if err != nil {
		t.Fatalf("fault proxy for %s: %v", target, err)
	}
	p := &HTTP{over: make(chan struct{}), matches: map[string]*regexp.Regexp{}, watches: map[chan struct{}]bool{}}
	p.rules.fits = func(fault HTTPFault, call string) bool { return p.match(fault.Match).MatchString(call) }
	p.rules.count = func(fault HTTPFault) (int, int) { return fault.Skip, fault.Times }
	p.proxy = &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(base) },
		Transport:     transport,
		FlushInterval: -1, // watches are streams
		ErrorLog:      log.New(io.Discard, "", 0),
	}
	server := httptest.NewUnstartedServer(p)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.Start()
	p.URL = server.URL
	t.Cleanup(func() {
		close(p.over)
		p.BreakOpen()
		server.CloseClientConnections()
		server.Close()
	})
	return p
}

// Fail sets the faults, the first that fits a request winning, until it is called again. Without
// faults everything passes.
func (p *HTTP) Fail(faults ...HTTPFault) { p.rules.set(faults) }

// Hits tells how often each fault has hit, in their order.
func (p *HTTP) Hits() []int { return p.rules.hits() }

// BreakOpen breaks the requests that are being answered, watches above all.
func (p *HTTP) BreakOpen() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for watch := range p.watches {
		close(watch)
	}
	clear(p.watches)
}

func (p *HTTP) match(expression string) *regexp.Regexp {
	p.mu.Lock()
	defer p.mu.Unlock()
	compiled, ok := p.matches[expression]
	if !ok {
		compiled = regexp.MustCompile(expression)
		p.matches[expression] = compiled
	}
	return compiled
}

// ServeHTTP passes a request on or breaks it.
func (p *HTTP) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	fault, hit := p.rules.take(r.Method + " " + r.URL.RequestURI())
	if hit && fault.After {
		p.proxy.ServeHTTP(httptest.NewRecorder(), r)
	}
	if hit && fault.Hook != nil {
		fault.Hook()
	}
	if !hit || fault.passes() {
		p.pass(w, r)
		return
	}
	switch {
	case fault.Hang:
		// The body has to be read, or the server does not notice that the client goes.
		_, _ = io.Copy(io.Discard, r.Body)
		select {
		case <-r.Context().Done():
		case <-p.over:
		}
		panic(http.ErrAbortHandler)
	case fault.Reset:
		panic(http.ErrAbortHandler)
	}
	fault.answer(w)
}

func (p *HTTP) pass(w http.ResponseWriter, r *http.Request) {
	broken := make(chan struct{})
	p.mu.Lock()
	p.watches[broken] = true
	p.mu.Unlock()
	ended := make(chan struct{})
	defer func() {
		close(ended)
		p.mu.Lock()
		delete(p.watches, broken)
		p.mu.Unlock()
	}()
	go func() {
		select {
		case <-broken:
			// Hijacking is for upgrades; a plain answer breaks when its connection may not be written.
			_ = http.NewResponseController(w).SetWriteDeadline(past)
			_ = http.NewResponseController(w).SetReadDeadline(past)
		case <-ended:
		}
	}()
	p.proxy.ServeHTTP(w, r)
}

// passes tells whether the fault only looks on.
func (f HTTPFault) passes() bool {
	return f.Status == 0 && f.Body == "" && !f.Hang && !f.Reset && !f.After
}

func (f HTTPFault) answer(w http.ResponseWriter) {
	status := f.Status
	if status == 0 {
		status = http.StatusOK
	}
	body := []byte(f.Body)
	if f.Body == "" {
		var err error
		body, err = json.Marshal(metav1.Status{
			TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
			Code: int32(f.Status), Reason: f.Reason, Message: "the fault proxy says so",
		})
		if err != nil {
			panic(err) // a Status always has a JSON form
		}
	}
	w.Header().Set("Content-Type", "application/json")
	if f.RetryAfter != "" {
		w.Header().Set("Retry-After", f.RetryAfter)
	}
	w.WriteHeader(status)
	_, _ = w.Write(body)
}
