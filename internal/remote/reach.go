package remote

import (
	"context"
	"fmt"
)

// Reach connects and logs in, if there is no connection, and runs nothing. Its errors are those of
// Run. It is for hosts whose forced command knows no harmless command.
func (c *Client) Reach(ctx context.Context) error {
	conn, err := c.acquire(ctx)
	if err != nil {
		return fmt.Errorf("ssh %s: %w", c.opts.Host, err)
	}
	c.release(conn)
	return nil
}
