package farm

import (
	"context"
	"time"
)

// CallObserver is told of each call to an outside part once it has ended: what was called, in a few
// words without a secret, how long it took, and the error if the part failed. An answer in good
// order is no error, even if it says no: that there is no such object, for one. The observer must not
// block.
type CallObserver func(ctx context.Context, call string, took time.Duration, err error)

// Tell tells of a call that began at begin. A nil observer is told nothing.
func (o CallObserver) Tell(ctx context.Context, call string, begin time.Time, err error) {
	if o != nil {
		o(ctx, call, time.Since(begin), err)
	}
}
