// Package registry asks registries of images, by the protocol of the OCI distribution specification, for
// the digest of what a name stands for now.
//
// Credentials go to the registry's own host and to the token service that it names, and to nobody else:
// no redirect takes them along. They are in no error and no log.
package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"

	"config-server/internal/farm"
)

const (
	defaultLimit = 20 * time.Second
	// maxManifest is the size up to which registries have to take manifests.
	maxManifest = 4 << 20
	// maxHeader bounds what is read of an answer's header: whoever answers, it is read before anything else.
	maxHeader    = 64 << 10
	maxRedirects = 5

	dockerHub    = "docker.io"
	dockerHubAPI = "registry-1.docker.io"
)

// manifests are the kinds that a node can pull, the lists of several platforms first: their digest is
// right for every node.
var manifests = strings.Join([]string{
	"application/vnd.oci.image.index.v1+json",
	"application/vnd.docker.distribution.manifest.list.v2+json",
	"application/vnd.oci.image.manifest.v1+json",
	"application/vnd.docker.distribution.manifest.v2+json",
}, ", ")

// Options of a Client. Zero values mean the defaults given.
type Options struct {
	// Insecure lists hosts, as host or host:port, that may be asked without TLS if they have none. This
	// machine always is one of them.
	Insecure []string
	// Limit bounds one question with all that it takes, tokens and redirects included; 20 s.
	Limit time.Duration
	// Transport carries the requests; nil = one like http.DefaultTransport, with the proxies of the
	// environment and the system's certificates.
	Transport http.RoundTripper
	// Called is told of each question; nil = nobody.
	Called farm.CallObserver
}

// Client asks registries. It is safe for concurrent use.
type Client struct {
	opts Options
	http *http.Client
}

// New returns a client.
func New(opts Options) *Client {
	opts.Limit = cmp.Or(opts.Limit, defaultLimit)
	if opts.Transport == nil {
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.MaxResponseHeaderBytes = maxHeader
		opts.Transport = transport
	}
	c := &Client{opts: opts}
	c.http = &http.Client{Transport: opts.Transport, CheckRedirect: c.followRedirect}
	return c
}

// Close gives up idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Digest is the digest of what the image's name stands for. The logins are tried one after the other;
// without any the registry is asked as anybody may. The error wraps farm.ErrNotFound if the registry has
// no such image, farm.ErrDenied if it does not show it with any of the logins.
func (c *Client) Digest(ctx context.Context, image farm.Image, logins []Login) (string, error) {
	begin := time.Now()
	limited, cancel := context.WithTimeoutCause(ctx, c.opts.Limit, fmt.Errorf("no answer within %v: %w", c.opts.Limit, context.DeadlineExceeded))
	defer cancel()
	found, err := c.digest(limited, image, logins)
	failure := err
	if errors.Is(err, farm.ErrNotFound) || errors.Is(err, farm.ErrDenied) {
		failure = nil
	}
	c.opts.Called.Tell(ctx, "look up an image at "+image.Registry, begin, failure)
	if err != nil && limited.Err() != nil {
		err = context.Cause(limited)
	}
	if err != nil {
		return "", fmt.Errorf("ask registry %s for %s: %w", image.Registry, image, err)
	}
	return found, nil
}

func (c *Client) digest(ctx context.Context, image farm.Image, logins []Login) (string, error) {
	host := image.Registry
	if host == dockerHub {
		host = dockerHubAPI
	}
	address := &url.URL{Scheme: "https", Host: host, Path: "/v2/" + image.Repository + "/manifests/" + image.Reference()}
	found, err := (&visit{client: c, address: address, repository: image.Repository, logins: logins}).digest(ctx)
	if !errors.Is(err, http.ErrSchemeMismatch) {
		return found, err
	}
	if !c.mayBePlain(host) {
		return "", errors.New("it speaks no TLS, and is not among IMAGE_REGISTRY_INSECURE")
	}
	plain := *address
	plain.Scheme = "http"
	return (&visit{client: c, address: &plain, repository: image.Repository, logins: logins}).digest(ctx)
}

// mayBePlain reports whether a host may be asked without TLS.
func (c *Client) mayBePlain(host string) bool {
	name := host
	if only, _, err := net.SplitHostPort(host); err == nil {
		name = only
	}
	address := net.ParseIP(strings.Trim(name, "[]"))
	return name == "localhost" || address != nil && address.IsLoopback() || slices.Contains(c.opts.Insecure, host) || slices.Contains(c.opts.Insecure, name)
}

// followRedirect lets a request be sent elsewhere, without what was meant for the first host alone.
func (c *Client) followRedirect(next *http.Request, before []*http.Request) error {
	first := before[0]
	if len(before) > maxRedirects {
		return fmt.Errorf("more than %d redirects", maxRedirects)
	}
	if next.URL.Scheme != "https" && (first.URL.Scheme == "https" || !c.mayBePlain(next.URL.Host)) {
		return errors.New("it redirects to a connection without TLS")
	}
	if next.URL.Host != first.URL.Host {
		next.Header.Del("Authorization")
	}
	return nil
}

// visit is one look at a manifest.
type visit struct {
	client     *Client
	address    *url.URL
	repository string
	logins     []Login

	authorization string // empty = none was asked for
}

func (v *visit) digest(ctx context.Context) (string, error) {
	answer, err := v.ask(ctx, http.MethodHead)
	if err != nil {
		return "", err
	}
	discard(answer)
	switch answer.StatusCode {
	case http.StatusOK:
		if named, ok := digestOf(answer); ok {
			return named.String(), nil
		}
	case http.StatusMethodNotAllowed, http.StatusNotImplemented: // of HEAD
	default:
		return "", refusal(answer)
	}
	return v.hash(ctx)
}

// hash reads the manifest itself: its digest is what the registry says, if that is true, else that of
// the bytes.
func (v *visit) hash(ctx context.Context) (string, error) {
	answer, err := v.ask(ctx, http.MethodGet)
	if err != nil {
		return "", err
	}
	defer discard(answer)
	if answer.StatusCode != http.StatusOK {
		return "", refusal(answer)
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxManifest+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("read the manifest: %w", err)
	case len(body) > maxManifest:
		return "", fmt.Errorf("the manifest is larger than %d bytes", maxManifest)
	case len(body) == 0:
		return "", errors.New("the manifest is empty")
	}
	named, ok := digestOf(answer)
	if !ok {
		return digest.FromBytes(body).String(), nil
	}
	if named.Algorithm().FromBytes(body) != named {
		return "", errors.New("the manifest is not what the digest in the answer says")
	}
	return named.String(), nil
}

// digestOf is what the registry says the digest is; false if it says nothing that is one.
func digestOf(answer *http.Response) (digest.Digest, bool) {
	named := digest.Digest(answer.Header.Get("Docker-Content-Digest"))
	return named, named.Validate() == nil
}

// refusal is the error of an answer that is no success. The registry's own words stay out: they may have
// anything in them.
func refusal(answer *http.Response) error {
	switch answer.StatusCode {
	case http.StatusNotFound:
		return fmt.Errorf("the registry has no such image: %w", farm.ErrNotFound)
	case http.StatusUnauthorized, http.StatusForbidden:
		return errDenied
	case http.StatusTooManyRequests:
		return errors.New("it answers 429: too many questions, try again later")
	}
	return fmt.Errorf("it answers %d", answer.StatusCode)
}

// errDenied says the same whatever the way in which a registry says no.
var errDenied = fmt.Errorf("the registry does not show it, or there is none: %w", farm.ErrDenied)

// ask sends the question, first as anybody may, and as the registry wants it if it wants more. The caller
// closes the answer's body.
func (v *visit) ask(ctx context.Context, method string) (*http.Response, error) {
	answer, err := v.send(ctx, method)
	if err != nil || answer.StatusCode != http.StatusUnauthorized || v.authorization != "" {
		return answer, err
	}
	discard(answer)
	if answer.Request.URL.Host != v.address.Host {
		return nil, errDenied // it was sent elsewhere, where nobody has a login
	}
	wanted, ok := choose(parseChallenges(answer.Header.Values("WWW-Authenticate")))
	if !ok {
		return nil, errDenied
	}
	logins := v.logins
	if len(logins) == 0 {
		logins = []Login{{}}
	}
	for _, login := range logins {
		v.authorization, err = v.authorize(ctx, wanted, login)
		if errors.Is(err, farm.ErrDenied) {
			continue
		}
		if err != nil {
			return nil, err
		}
		answer, err = v.send(ctx, method)
		if err != nil || answer.StatusCode != http.StatusUnauthorized && answer.StatusCode != http.StatusForbidden {
			return answer, err
		}
		discard(answer)
	}
	return nil, errDenied
}

func (v *visit) send(ctx context.Context, method string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, v.address.String(), nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", manifests)
	if v.authorization != "" {
		request.Header.Set("Authorization", v.authorization)
	}
	return v.client.do(request)
}

// do sends a request. Errors do not have its address, which after a redirect may bear a signature.
func (c *Client) do(request *http.Request) (*http.Response, error) {
	request.Header.Set("User-Agent", "config-server")
	answer, err := c.http.Do(request)
	var failed *url.Error
	if errors.As(err, &failed) {
		err = failed.Err
	}
	return answer, err
}

// discard reads the rest of a small answer, so that its connection can be used again.
func discard(answer *http.Response) {
	_, _ = io.CopyN(io.Discard, answer.Body, 64<<10)
	_ = answer.Body.Close()
}
