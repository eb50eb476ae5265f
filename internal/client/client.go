// Package client asks a running service over HTTP what it has. The subcommands that list users,
// groups and workspaces are made of it.
package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Time limits of a call.
const (
	connectLimit = 5 * time.Second
	// answerLimit bounds a whole call, the reading of the answer included.
	answerLimit = 30 * time.Second
	// maxAnswer bounds an answer, in bytes; 20,000 users are 3 MB.
	maxAnswer = 256 << 20
	// maxFailure bounds what is read of an answer that tells a failure.
	maxFailure = 64 << 10
	// pinLimit stands above the time that the service gives itself to ask a registry; exports wait for their
	// pod, as long as that may live.
	pinLimit    = 70 * time.Second
	exportLimit = 910 * time.Second

	contentJSON = "application/json"
	contentTar  = "application/x-tar"
)

// tokenHeader bears the token, as docs/api.md has it.
const tokenHeader = "X-Internal-Token"

// ErrUnanswered is wrapped by errors that say that nobody answered at the address.
var ErrUnanswered = errors.New("no answer")

// Refusal is an answer of the service that tells a failure.
type Refusal struct {
	Status int    // HTTP status
	Text   string // what the service said
	Remedy string // what the caller can do; may be empty
}

// Error says what the service answered, and the remedy.
func (r *Refusal) Error() string {
	text := fmt.Sprintf("the service answered %d: %s", r.Status, r.Text)
	if r.Remedy != "" {
		text += " (" + r.Remedy + ")"
	}
	return text
}

// Options of a Client.
type Options struct {
	// URL is the base address of the service, http or https.
	URL string
	// Token is sent with each call unless it is empty.
	Token string
	// Silence is how long a stream may say nothing; zero = a minute. The service says that it lives
	// every 15 s.
	Silence time.Duration
}

// Client asks one service. It is safe for concurrent use.
type Client struct {
	base    *url.URL
	token   string
	silence time.Duration
	client  *http.Client
	patient *http.Client // for answers that take longer to begin
}

// New returns a client. The error says that the address is none, or that the token cannot be sent.
func New(opts Options) (*Client, error) {
	base, err := url.Parse(opts.URL)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, fmt.Errorf("%q is no address of a service: it has to be like http://127.0.0.1:8000", opts.URL)
	}
	// Both signs count with nothing behind them too, of which net/url tells nothing.
	if base.User != nil || strings.ContainsAny(opts.URL, "?#") {
		return nil, errors.New("the address of a service has no user, no question mark and no number sign in it")
	}
	if port := base.Port(); port != "" {
		if number, err := strconv.ParseUint(port, 10, 16); err != nil || number == 0 {
			return nil, fmt.Errorf("%s is no port of a service: it has to be from 1 to 65535", port)
		}
	}
	if strings.ContainsFunc(opts.Token, func(r rune) bool { return r < ' ' || r > '~' }) {
		return nil, errors.New("the token has characters that no header can bear")
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DialContext = (&net.Dialer{Timeout: connectLimit}).DialContext
	patient := transport.Clone()
	transport.ResponseHeaderTimeout, patient.ResponseHeaderTimeout = answerLimit, exportLimit
	through := func(transport *http.Transport) *http.Client {
		return &http.Client{
			Transport: transport,
			// A redirect would take the token to where nobody meant it to go.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	return &Client{
		base: base, token: opts.Token, silence: cmp.Or(opts.Silence, time.Minute), client: through(transport), patient: through(patient),
	}, nil
}

// Close gives up idle connections.
func (c *Client) Close() {
	c.client.CloseIdleConnections()
	c.patient.CloseIdleConnections()
}

// get asks for a path and decodes the answer. Errors wrap ErrUnanswered or a *Refusal, or say that
// the answer was no answer of this service.
func (c *Client) get(ctx context.Context, into any, query url.Values, path ...string) error {
	return c.call(ctx, question{query: query, path: path}, answerLimit, into)
}

// question is what a service is asked.
type question struct {
	method string // empty = GET
	accept string // empty = JSON
	query  url.Values
	body   any // sent as JSON; nil = none
	path   []string
	slow   bool // the answer may take minutes to begin
}

// call asks, and decodes the answer, all within limit.
func (c *Client) call(ctx context.Context, q question, limit time.Duration, into any) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	response, address, err := c.ask(ctx, q)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	decoder := json.NewDecoder(io.LimitReader(response.Body, maxAnswer))
	if err := decoder.Decode(into); err != nil {
		return fmt.Errorf("read the answer of %s: %w", address, err)
	}
	return nil
}

// send asks for a path and returns the answer if it is a success; the caller closes its body.
func (c *Client) send(ctx context.Context, accept string, query url.Values, path ...string) (*http.Response, string, error) {
	return c.ask(ctx, question{accept: accept, query: query, path: path})
}

// ask sends a question and returns the answer if it is a success, with the address; the caller closes its
// body.
func (c *Client) ask(ctx context.Context, q question) (*http.Response, string, error) {
	escaped := make([]string, len(q.path))
	for i, part := range q.path {
		escaped[i] = url.PathEscape(part)
	}
	target := c.base.JoinPath(escaped...)
	target.RawQuery = q.query.Encode()
	address := target.String()
	var body io.Reader
	if q.body != nil {
		text, err := json.Marshal(q.body)
		if err != nil {
			return nil, address, fmt.Errorf("ask %s: %w", address, err)
		}
		body = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, cmp.Or(q.method, http.MethodGet), address, body)
	if err != nil {
		return nil, address, fmt.Errorf("ask %s: %w", address, err)
	}
	request.Header.Set("Accept", cmp.Or(q.accept, contentJSON))
	if body != nil {
		request.Header.Set("Content-Type", contentJSON)
	}
	if c.token != "" {
		request.Header.Set(tokenHeader, c.token)
	}
	by := c.client
	if q.slow {
		by = c.patient
	}
	response, err := by.Do(request)
	if err != nil {
		return nil, address, fmt.Errorf("ask %s: %w: %w (does the service run there? --server or CONFIG_SERVER_URL names another address)",
			address, ErrUnanswered, plainly(err))
	}
	if response.StatusCode == http.StatusOK {
		return response, address, nil
	}
	defer func() { _ = response.Body.Close() }()
	return nil, address, fmt.Errorf("ask %s: %w", address, c.refusal(response))
}

// plainly takes method and address, which are said already, out of the error of a call.
func plainly(err error) error {
	var call *url.Error
	if errors.As(err, &call) {
		return call.Err
	}
	return err
}

// refusal reads what an answer says that is no success.
func (c *Client) refusal(response *http.Response) *Refusal {
	text, _ := io.ReadAll(io.LimitReader(response.Body, maxFailure)) // what could be read is told
	r := &Refusal{Status: response.StatusCode}
	var said struct{ Error, Detail string }
	ours := json.Unmarshal(text, &said) == nil && said.Error != ""
	switch {
	case !ours:
		r.Text = http.StatusText(response.StatusCode) + ", and nothing that this service says"
		r.Remedy = "something else seems to listen there"
	case said.Detail != "":
		r.Text = said.Error + ": " + said.Detail
	default:
		r.Text = said.Error
	}
	if !ours {
		return r
	}
	switch {
	case r.Status == http.StatusUnauthorized && c.token == "":
		r.Remedy = "set API_TOKEN, or name a file that has the token by --token-file"
	case r.Status == http.StatusUnauthorized:
		r.Remedy = "the token of API_TOKEN or --token-file is not the service's"
	case r.Status == http.StatusNotFound && said.Error == "no such route":
		r.Remedy = "the service is of a version that does not know this call"
	case r.Status >= http.StatusInternalServerError:
		if id := response.Header.Get("X-Request-Id"); id != "" {
			r.Remedy = "the service's log has the cause under request id " + id
		}
	}
	return r
}
