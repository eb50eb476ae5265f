//go:build bench

package bench_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"config-server/internal/testkit/load"
)

// callLimit bounds one call; the service's own limits are shorter.
const callLimit = 5 * time.Minute

// client calls one service and keeps as many connections as there are calls at once.
type client struct {
	base string
	http *http.Client
}

func newClient(base string) *client {
	transport := &http.Transport{MaxIdleConnsPerHost: 2000, DisableCompression: true}
	return &client{base: base, http: &http.Client{Transport: transport, Timeout: callLimit}}
}

// send returns the status and the body. The error is that of the connection, or, for statuses from
// 400 on, says what the service said.
func (c *client) send(ctx context.Context, method, path, body string) (int, []byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, c.base+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := c.http.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode >= 400 {
		err = errors.New(strings.TrimSpace(string(text)))
	}
	return response.StatusCode, text, err
}

// drain sends a GET with these headers and reads the answer into nothing.
func (c *client) drain(ctx context.Context, path string, header http.Header) (status int, size int64, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+path, nil)
	if err != nil {
		return 0, 0, err
	}
	request.Header = header
	response, err := c.http.Do(request)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = response.Body.Close() }()
	size, err = io.Copy(io.Discard, response.Body)
	return response.StatusCode, size, err
}

// get is a load.Call that drains the path.
func (c *client) get(path string, header http.Header) load.Call {
	return func(ctx context.Context, _ int) (int, error) {
		status, _, err := c.drain(ctx, path, header)
		return status, err
	}
}

// workspace is what create-pod answers.
type workspace struct {
	Pod   string `json:"pod_name"`
	Node  string `json:"node"`
	Ports []struct {
		External int `json:"external_port"`
	} `json:"ports"`
}

// create makes a workspace for a user.
func (c *client) create(ctx context.Context, user string) (int, workspace, error) {
	status, body, err := c.send(ctx, http.MethodPost, "/create-pod", `{"username":"`+user+`"}`)
	var made workspace
	if err == nil {
		err = json.Unmarshal(body, &made)
	}
	return status, made, err
}

// remove deletes a workspace.
func (c *client) remove(ctx context.Context, pod string) (int, error) {
	status, _, err := c.send(ctx, http.MethodPost, "/delete-pod", `{"pod_name":"`+pod+`"}`)
	return status, err
}

// createAll makes one workspace for each user, so many at once, and fails the test unless all
// succeed and no port is given twice.
func (c *client) createAll(t testing.TB, atOnce int, users []string) (load.Result, []workspace) {
	t.Helper()
	made := make([]workspace, len(users))
	result := load.Closed(t.Context(), atOnce, len(users), func(ctx context.Context, i int) (status int, err error) {
		status, made[i], err = c.create(ctx, users[i])
		return status, err
	})
	if text := result.Unexpected(http.StatusCreated); text != "" {
		t.Fatalf("%d create-pod, %d at once: %s", len(users), atOnce, text)
	}
	owner := map[int]string{}
	for _, w := range made {
		if len(w.Ports) == 0 {
			t.Fatalf("pod %s has no ports", w.Pod)
		}
		for _, port := range w.Ports {
			if other := owner[port.External]; other != "" {
				t.Fatalf("port %d was given to %s and %s", port.External, other, w.Pod)
			}
			owner[port.External] = w.Pod
		}
	}
	return result, made
}

// removeAll deletes workspaces, so many at once.
func (c *client) removeAll(t testing.TB, atOnce int, made []workspace) load.Result {
	t.Helper()
	result := load.Closed(t.Context(), atOnce, len(made), func(ctx context.Context, i int) (int, error) {
		return c.remove(ctx, made[i].Pod)
	})
	if text := result.Unexpected(http.StatusOK); text != "" {
		t.Fatalf("%d delete-pod: %s", len(made), text)
	}
	return result
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// ms is a time as tables show it.
func ms(d time.Duration) string {
	switch value := milliseconds(d); {
	case value < 1:
		return fmt.Sprintf("%.2f ms", value)
	case value < 100:
		return fmt.Sprintf("%.1f ms", value)
	default:
		return fmt.Sprintf("%.0f ms", value)
	}
}

func megabytes(bytes int64) float64 { return float64(bytes) / (1 << 20) }
