// Package adminbe asks admin_be for the configuration of a user and decodes the answer with
// tolerance for its odd forms.
//
// An answer carries a password. It is dropped while decoding; neither the answer nor a value out of
// it is in any error or log.
package adminbe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"config-server/internal/farm"
)

// Limits of a call.
const (
	DefaultTimeout = 3 * time.Second
	// MaxBody is the size of an answer, in bytes, beyond which it is refused.
	MaxBody = 1 << 20

	maxRedirects = 3
	idleConns    = 64
	placeholder  = "{username}"
	// checkUser is asked for by Check. It breaks the rule for names, so that nobody bears it.
	checkUser farm.UserName = "config-server-check-000000000000000000"
)

// Options of a Client.
type Options struct {
	URLTemplate string            // WAS_URL_TEMPLATE: an http or https URL with {username} in its path or query
	Timeout     time.Duration     // of one whole call: HTTP_TIMEOUT_SEC; 0 = DefaultTimeout
	Transport   http.RoundTripper // nil = one of its own
	Called      farm.CallObserver // is told of each call; nil = nobody
	// RequestID names the request that a context belongs to; it is sent along as X-Request-Id, so that
	// admin_be's log can be read beside ours. nil, or an empty name, sends none.
	RequestID func(ctx context.Context) string
}

// Client asks admin_be. It is safe for concurrent use.
type Client struct {
	before, after string // the template around the placeholder
	inQuery       bool
	timeout       time.Duration
	http          *http.Client
	called        farm.CallObserver
	requestID     func(ctx context.Context) string
}

// New checks the template.
func New(opts Options) (*Client, error) {
	before, after, found := strings.Cut(opts.URLTemplate, placeholder)
	if !found || strings.Contains(after, placeholder) {
		return nil, errors.New("admin_be URL template must have {username} once")
	}
	parsed, err := url.Parse(before + "x" + after)
	if err != nil || parsed.Scheme != "http" && parsed.Scheme != "https" || parsed.Host == "" || strings.Count(before, "/") < 3 {
		return nil, errors.New("admin_be URL template must be an absolute http or https URL with {username} behind the host")
	}
	if opts.Timeout == 0 {
		opts.Timeout = DefaultTimeout
	}
	if opts.RequestID == nil {
		opts.RequestID = func(context.Context) string { return "" }
	}
	if opts.Transport == nil {
		opts.Transport = newTransport()
	}
	return &Client{
		before: before, after: after, inQuery: strings.Contains(before, "?"),
		timeout: opts.Timeout, called: opts.Called, requestID: opts.RequestID,
		http: &http.Client{Transport: opts.Transport, CheckRedirect: stayOnHost},
	}, nil
}

// newTransport keeps enough idle connections for a burst of workspaces. A connection that admin_be
// closed while it was idle costs nothing: the transport repeats a GET on a fresh one.
func newTransport() http.RoundTripper {
	shared, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return http.DefaultTransport
	}
	transport := shared.Clone()
	transport.MaxIdleConnsPerHost = idleConns
	return transport
}

// stayOnHost follows a few redirects on the same host; any other is taken as the answer, which is
// then a status that is not wanted.
func stayOnHost(next *http.Request, earlier []*http.Request) error {
	if len(earlier) > maxRedirects || next.URL.Scheme != earlier[0].URL.Scheme || next.URL.Host != earlier[0].URL.Host {
		return http.ErrUseLastResponse
	}
	return nil
}

// UserConfig fetches and decodes the configuration of a user.
//
// Every error is a *farm.Error, of StepFetchUserConfig: NotFound with UserConfigNotFound if admin_be
// does not know the user, else Upstream with UserConfigFetchFailed. WASStatus is set where the
// status is the reason. A name that cannot stand in the ledger is Invalid, of StepValidateRequest,
// and nothing is asked.
func (c *Client) UserConfig(ctx context.Context, user farm.UserName) (farm.UserConfig, error) {
	if err := farm.CheckPossible(string(user)); err != nil {
		return farm.UserConfig{}, farm.Failf(farm.Invalid, farm.StepValidateRequest, farm.InvalidCreatePodRequest, err, "%v", err)
	}
	status, body, err := c.get(ctx, user)
	switch {
	case err != nil:
		return farm.UserConfig{}, failed(user, err)
	case status == http.StatusNotFound:
		return farm.UserConfig{}, notFound(user, status)
	case status < 200 || status > 299:
		e := farm.Failf(farm.Upstream, farm.StepFetchUserConfig, farm.UserConfigFetchFailed, nil, "WAS returned %d for user '%s'", status, user)
		e.WASStatus = status
		return farm.UserConfig{}, e
	}
	config, err := decode(body)
	switch {
	case errors.Is(err, errUnknownUser):
		return farm.UserConfig{}, notFound(user, status)
	case err != nil:
		return farm.UserConfig{}, failed(user, err)
	}
	return config, nil
}

// Check tries whether admin_be answers: any status below 500 will do, because nobody is asked for.
func (c *Client) Check(ctx context.Context) error {
	status, _, err := c.get(ctx, checkUser)
	if err != nil {
		return fmt.Errorf("ask admin_be: %w", err)
	}
	if status >= http.StatusInternalServerError {
		return fmt.Errorf("ask admin_be: it returned %d", status)
	}
	return nil
}

// get asks once and tells of it. A status other than 404 that is no success counts as a failure of
// admin_be's; Check knows better.
func (c *Client) get(ctx context.Context, user farm.UserName) (status int, body []byte, err error) {
	begin := time.Now()
	status, body, err = c.ask(ctx, user)
	failure := err
	if err == nil && status != http.StatusNotFound && (status < 200 || status > 299) {
		failure = fmt.Errorf("it returned %d", status)
	}
	c.called.Tell(ctx, "get the configuration of "+string(user), begin, failure)
	return status, body, err
}

// ask asks once, within the time limit, and reads the answer.
func (c *Client) ask(ctx context.Context, user farm.UserName) (status int, body []byte, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.timeout, fmt.Errorf("no answer within %v: %w", c.timeout, context.DeadlineExceeded))
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url(user), nil)
	if err != nil {
		return 0, nil, errors.New("the URL template gives no URL")
	}
	request.Header.Set("Accept", "application/json")
	if id := c.requestID(ctx); id != "" {
		request.Header.Set("X-Request-Id", id)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return 0, nil, transportError(ctx, err)
	}
	defer response.Body.Close()
	body, err = io.ReadAll(io.LimitReader(response.Body, MaxBody+1))
	switch {
	case err != nil:
		return 0, nil, transportError(ctx, err)
	case len(body) > MaxBody:
		return 0, nil, fmt.Errorf("the answer is longer than %d bytes", MaxBody)
	}
	return response.StatusCode, body, nil
}

func (c *Client) url(user farm.UserName) string {
	escaped := url.PathEscape(string(user))
	if c.inQuery {
		escaped = url.QueryEscape(string(user))
	}
	return c.before + escaped + c.after
}

// transportError leaves the URL out of the error, because a template may hold a credential, and
// says "no answer within" rather than the library's words.
func transportError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var inURL *url.Error
	if errors.As(err, &inURL) {
		return inURL.Err
	}
	return err
}

func failed(user farm.UserName, err error) *farm.Error {
	return farm.Failf(farm.Upstream, farm.StepFetchUserConfig, farm.UserConfigFetchFailed, err, "user config of '%s' from WAS: %v", user, err)
}

func notFound(user farm.UserName, status int) *farm.Error {
	e := farm.Failf(farm.NotFound, farm.StepFetchUserConfig, farm.UserConfigNotFound, nil, "user '%s' not found in WAS", user)
	e.WASStatus = status
	return e
}
