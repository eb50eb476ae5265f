package uitest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/fetch"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/remote"

	"config-server/internal/testkit"
)

const (
	// limit bounds the wait for what the page has to show.
	limit = 30 * time.Second
	// callLimit bounds one command to the browser.
	callLimit = 30 * time.Second
)

// browser starts a Chromium for the test; its tabs are children of the context.
func browser(t *testing.T) context.Context {
	t.Helper()
	chromium := testkit.Chromium(t)
	remoteContext, cancel := remote.NewAllocator(context.WithoutCancel(t.Context()), chromium.DevTools, remote.NoModifyURL)
	t.Cleanup(cancel)
	ctx, cancel := chromedp.NewContext(remoteContext)
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("connect to Chromium: %v", err)
	}
	return ctx
}

// page is a tab with storage of its own that remembers what went wrong in it.
type page struct {
	t      *testing.T
	ctx    context.Context
	origin string

	mu       sync.Mutex
	asked    []string                     // URLs
	failed   []string                     // requests without a good answer
	console  []string                     // errors and warnings
	requests map[network.RequestID]string // URL of each request
}

// view is how a tab looks at a page.
type view struct {
	width, height int64
	mobile        bool
	dark          bool
	language      string // of the browser; "" = en-US
	password      string // for HTTP Basic; "" = none is given
}

var (
	desktop = view{width: 1280, height: 900}
	phone   = view{width: 360, height: 740, mobile: true}
)

// open shows a page of the service in a new tab.
func open(t *testing.T, parent context.Context, address string, v view) *page {
	t.Helper()
	p := tab(t, parent, address, v)
	p.do("open "+address, chromedp.Navigate(address))
	return p
}

// tab makes a new tab for a page, and does not open that yet.
func tab(t *testing.T, parent context.Context, address string, v view) *page {
	t.Helper()
	ctx, cancel := chromedp.NewContext(parent, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	p := &page{t: t, ctx: ctx, origin: strings.Join(strings.SplitAfterN(withoutPassword(address)+"/", "/", 4)[:3], ""), requests: map[network.RequestID]string{}}
	if err := chromedp.Listen(ctx, p.note); err != nil {
		t.Fatalf("open a tab: %v", err)
	}
	scheme := "light"
	if v.dark {
		scheme = "dark"
	}
	language := v.language
	if language == "" {
		language = "en-US"
	}
	var emulate []chromedp.EmulateViewportOption
	if v.mobile {
		emulate = append(emulate, chromedp.EmulateMobile, chromedp.EmulatePortrait, chromedp.EmulateTouch)
	}
	call(p, network.Enable, network.EnableParams{})
	call(p, log.Enable, cdp.Empty{})
	agent := eval[string](p, "navigator.userAgent")
	call(p, emulation.SetUserAgentOverride, emulation.SetUserAgentOverrideParams{UserAgent: agent, AcceptLanguage: language})
	call(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
	if v.password != "" {
		p.answerBasic(v.password)
	}
	p.do("set the size", chromedp.EmulateViewport(v.width, v.height, emulate...))
	return p
}

// answerBasic plays a person who is asked for a password: gives it, and gives up when asked again.
func (p *page) answerBasic(password string) {
	given := map[fetch.RequestID]bool{}
	err := chromedp.Listen(p.ctx, func(event any) {
		// Commands wait for the loop that calls this.
		switch event := event.(type) {
		case *fetch.EventRequestPaused:
			go func() {
				_, _ = chromedp.Call(p.ctx, fetch.ContinueRequest, fetch.ContinueRequestParams{RequestID: event.RequestID})
			}()
		case *fetch.EventAuthRequired:
			answer := &fetch.AuthChallengeResponse{Response: fetch.AuthChallengeResponseResponseProvideCredentials, Username: "operator", Password: password}
			if given[event.RequestID] {
				answer = &fetch.AuthChallengeResponse{Response: fetch.AuthChallengeResponseResponseCancelAuth}
			}
			given[event.RequestID] = true
			go func() {
				_, _ = chromedp.Call(p.ctx, fetch.ContinueWithAuth, fetch.ContinueWithAuthParams{RequestID: event.RequestID, AuthChallengeResponse: answer})
			}()
		}
	})
	if err != nil {
		p.t.Fatal(err)
	}
	call(p, fetch.Enable, fetch.EnableParams{HandleAuthRequests: new(true)})
}

// note remembers what the tab asks for and what goes wrong. It runs in the loop that reads the
// browser's messages.
func (p *page) note(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch event := event.(type) {
	case *network.EventRequestWillBeSent:
		address := withoutPassword(event.Request.URL)
		p.requests[event.RequestID] = address
		p.asked = append(p.asked, address)
	case *network.EventResponseReceived:
		if event.Response.Status >= http.StatusBadRequest {
			p.failed = append(p.failed, fmt.Sprintf("%s: %d", event.Response.URL, event.Response.Status))
		}
	case *network.EventLoadingFailed:
		if !event.Canceled { // the page was left
			p.failed = append(p.failed, p.requests[event.RequestID]+": "+event.ErrorText)
		}
	case *runtime.EventConsoleAPICalled:
		p.console = append(p.console, fmt.Sprintf("%s: %s", event.Type, first(event.Args)))
	case *runtime.EventExceptionThrown:
		thrown := event.ExceptionDetails
		p.console = append(p.console, fmt.Sprintf("exception: %s %s:%d", thrown.Text, thrown.URL, thrown.LineNumber))
		if thrown.Exception != nil {
			p.console = append(p.console, thrown.Exception.Description)
		}
	case *log.EventEntryAdded:
		p.console = append(p.console, fmt.Sprintf("%s: %s %s", event.Entry.Level, event.Entry.Text, event.Entry.URL))
	}
}

// withoutPassword is an address without the user and the password that it may have.
func withoutPassword(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	u.User = nil
	return u.String()
}

func first(args []*runtime.RemoteObject) string {
	if len(args) == 0 {
		return ""
	}
	return string(args[0].Value) + args[0].Description
}

// wantQuiet fails the test unless everything that the tab asked for came from the service and was
// had, and nothing stands in its console.
func (p *page) wantQuiet() {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wantOwnLocked()
	if len(p.failed) > 0 || len(p.console) > 0 {
		p.t.Errorf("failed requests: %q\nconsole: %q", p.failed, p.console)
	}
}

// wantOwn fails the test unless everything that the tab asked for came from the service.
func (p *page) wantOwn() {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wantOwnLocked()
}

func (p *page) wantOwnLocked() {
	p.t.Helper()
	if len(p.asked) == 0 {
		p.t.Error("no request was seen")
	}
	for _, url := range p.asked {
		if !strings.HasPrefix(url, p.origin) && !strings.HasPrefix(url, "data:") {
			p.t.Errorf("the page asked %s, outside of %s", url, p.origin)
		}
	}
}

// do runs steps in the tab.
func (p *page) do(what string, steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, callLimit)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		p.t.Fatalf("%s: %v", what, err)
	}
}

// eval is the value of a JavaScript expression in the page; of a promise, what it comes to.
func eval[T any](p *page, expression string) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, callLimit)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatalf("evaluate %s: %v", expression, err)
	}
	return value
}

// wait waits until a JavaScript expression is true.
func (p *page) wait(what, expression string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, limit)
	defer cancel()
	err := testkit.Eventually(ctx, func(ctx context.Context) error {
		holds, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("Boolean("+expression+")"))
		if err == nil && !holds {
			err = fmt.Errorf("%s does not hold", expression)
		}
		return err
	})
	if err != nil {
		p.t.Fatalf("wait for %s: %v\nthe page shows:\n%s\nfailed requests %q, console %q", what, err, eval[string](p, "document.body.innerText"), p.failed, p.console)
	}
}

// waitText waits until an element shows a text.
func (p *page) waitText(selector, text string) {
	p.t.Helper()
	p.wait(fmt.Sprintf("%q in %s", text, selector), fmt.Sprintf("document.querySelector(%s)?.innerText.includes(%s)", quote(selector), quote(text)))
}

// shows is the visible text of an element.
func (p *page) shows(selector string) string {
	p.t.Helper()
	return eval[string](p, fmt.Sprintf("document.querySelector(%s)?.innerText ?? ''", quote(selector)))
}

// press sends keys as a keyboard does.
func (p *page) press(keys string) {
	p.t.Helper()
	p.do("press a key", chromedp.KeyEvent(keys))
}

// fill types a text in place of what a field has.
func (p *page) fill(selector, text string) {
	p.t.Helper()
	p.do("mark what is in "+selector, chromedp.Click(selector), chromedp.KeyEvent("a", chromedp.KeyModifiers(chromedp.ModifierCtrl)))
	call(p, input.InsertText, input.InsertTextParams{Text: text})
}

// call sends a command of the protocol to the tab.
func call[P, R any](p *page, command cdp.Command[P, R], params P) R {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, callLimit)
	defer cancel()
	result, err := chromedp.Call(ctx, command, params)
	if err != nil {
		p.t.Fatalf("%s: %v", command.Method, err)
	}
	return result
}

// quote writes a text as a JavaScript string.
func quote(text string) string {
	raw, err := json.Marshal(text)
	if err != nil {
		panic(err) // strings always encode
	}
	return string(raw)
}

// shoot keeps a picture of the whole page, from its top.
func (p *page) shoot(name string) {
	p.t.Helper()
	eval[bool](p, "(scrollTo(0, 0), true)")
	p.keep(name, chromedp.FullScreenshot(100))
}

// keep keeps a picture.
func (p *page) keep(name string, take chromedp.Action[[]byte]) {
	p.t.Helper()
	dir := os.Getenv("UI_SCREENSHOTS")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "bin", "ui")
	}
	ctx, cancel := context.WithTimeout(p.ctx, callLimit)
	defer cancel()
	picture, err := chromedp.Run(ctx, take)
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name+".png"), picture, 0o644)
	}
	if err != nil {
		p.t.Errorf("keep screenshot %s: %v", name, err)
	}
}

// paths are the distinct paths that the tab has asked for.
func (p *page) paths() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var paths []string
	for _, url := range p.asked {
		path, _, _ := strings.Cut(strings.TrimPrefix(url, strings.TrimSuffix(p.origin, "/")), "?")
		if !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}

// pass lets time pass for the page, as fast as it can be worked off; it stands still afterwards.
func (p *page) pass(d time.Duration) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, callLimit)
	defer cancel()
	over := make(chan struct{}, 1)
	err := chromedp.Listen(ctx, func(event any) {
		if _, ok := event.(*emulation.EventVirtualTimeBudgetExpired); ok {
			over <- struct{}{}
		}
	})
	if err != nil {
		p.t.Fatal(err)
	}
	call(p, emulation.SetVirtualTimePolicy, emulation.SetVirtualTimePolicyParams{
		Policy: emulation.VirtualTimePolicyPauseIfNetworkFetchesPending, Budget: new(float64(d.Milliseconds())),
	})
	select {
	case <-over:
	case <-ctx.Done():
		p.t.Fatalf("the page's clock does not come on by %s", d)
	}
}
