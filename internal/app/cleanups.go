package app

import (
	"context"
	"errors"
	"fmt"
)

// cleanups is a stack of named ends: the last part that was begun ends first, and one that fails
// does not stop the others.
type cleanups struct{ stack []cleanup }

type cleanup struct {
	name string
	end  func(context.Context) error
}

func (c *cleanups) add(name string, end func(context.Context) error) {
	c.stack = append(c.stack, cleanup{name, end})
}

// run ends everything once; a second call finds nothing to do.
func (c *cleanups) run(ctx context.Context) error {
	var errs []error
	for i := len(c.stack) - 1; i >= 0; i-- {
		if err := c.stack[i].end(ctx); err != nil {
			errs = append(errs, fmt.Errorf("end %s: %w", c.stack[i].name, err))
		}
	}
	c.stack = nil
	return errors.Join(errs...)
}
