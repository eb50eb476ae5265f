package client

import "context"

// GPUOption is a GPU that a workspace can ask for.
type GPUOption struct {
	ID       string `json:"id"`
	Driver   string `json:"driver"`
	Resource string `json:"resource"`
	Model    string `json:"model"`
	Source   string `json:"source"`
	Free     *int64 `json:"free"` // nil = not known
	Total    *int64 `json:"total"`
}

// GPUOptions is the answer of GET /gpu-options, by id.
type GPUOptions struct {
	Options  []GPUOption `json:"options"`
	Warnings []string    `json:"warnings,omitempty"`
}

// GPUOptions lists the GPUs that a workspace can ask for.
func (c *Client) GPUOptions(ctx context.Context) (GPUOptions, error) {
	var list GPUOptions
	err := c.get(ctx, &list, nil, "gpu-options")
	return list, err
}
