package client

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// Image is an image with its pin and those who run it.
type Image struct {
	Image      string     `json:"image"`
	Digest     *string    `json:"digest"` // nil = not pinned
	PinnedAt   *string    `json:"pinned_at"`
	RequestID  *string    `json:"request_id"`
	Workspaces []ImageRun `json:"workspaces"`
}

// ImageRun is a workspace and what it runs.
type ImageRun struct {
	User   string  `json:"username"`
	Pod    string  `json:"pod_name"`
	Node   string  `json:"node"`
	Digest *string `json:"digest"` // nil = by its name alone
}

// Images is the answer of GET /images, by name.
type Images struct {
	Images []Image `json:"images"`
}

// PinChanged is the answer to a pin that was made or taken back.
type PinChanged struct {
	Status    string   `json:"status"`
	Image     string   `json:"image"`
	Digest    string   `json:"digest"`
	PinnedAt  string   `json:"pinned_at"`
	RequestID string   `json:"request_id"`
	Before    string   `json:"before,omitempty"`
	Warnings  []string `json:"warnings,omitempty"`
}

// Images lists the images that are pinned or that workspaces run.
func (c *Client) Images(ctx context.Context) (Images, error) {
	var list Images
	err := c.get(ctx, &list, nil, "images")
	return list, err
}

// Pin holds an image to what its name stands for now.
func (c *Client) Pin(ctx context.Context, image string) (PinChanged, error) {
	var made PinChanged
	err := c.call(ctx, question{method: http.MethodPost, body: map[string]string{"image": image}, path: []string{"images", "pin"}, slow: true}, pinLimit, &made)
	return made, err
}

// Unpin takes the pin of an image back.
func (c *Client) Unpin(ctx context.Context, image string) (PinChanged, error) {
	var gone PinChanged
	err := c.call(ctx, question{method: http.MethodDelete, query: url.Values{"image": {image}}, path: []string{"images", "pin"}, slow: true}, pinLimit, &gone)
	return gone, err
}

// Export brings a path of an image as a tar, which the caller closes. node may be empty. A tar that is not
// whole ends with an error.
func (c *Client) Export(ctx context.Context, image, path, node string) (io.ReadCloser, error) {
	body := map[string]string{"image": image, "path": path}
	if node != "" {
		body["node"] = node
	}
	response, address, err := c.ask(ctx, question{method: http.MethodPost, accept: contentTar, body: body, path: []string{"images", "export"}, slow: true})
	if err != nil {
		return nil, err
	}
	if got := response.Header.Get("Content-Type"); got != contentTar {
		_ = response.Body.Close()
		return nil, fmt.Errorf("read the answer of %s: it is %q and no tar", address, got)
	}
	return response.Body, nil
}
