package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
)

// relays let pods reach parts of the lab, which listen on 127.0.0.1 alone.
type relays struct {
	listeners []net.Listener
	running   sync.WaitGroup
}

// open passes connections to listen on to target, until close.
func (r *relays) open(ctx context.Context, listen, target string) error {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", listen)
	if err != nil {
		return fmt.Errorf("relay to %s: %w", target, err)
	}
	r.listeners = append(r.listeners, listener)
	r.running.Go(func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return // it is closed
			}
			far, err := net.Dial("tcp", target)
			if err != nil {
				_ = near.Close() // as if nobody listened
				continue
			}
			go pass(near, far)
			go pass(far, near)
		}
	})
	return nil
}

// pass copies one direction and tells the other side of its end.
func pass(from, to net.Conn) {
	_, _ = io.Copy(to, from)
	_ = to.Close()
	_ = from.Close()
}

// close takes no more connections; those that stand end with their sides.
func (r *relays) close() error {
	var faults []error
	for _, listener := range r.listeners {
		faults = append(faults, listener.Close())
	}
	r.running.Wait()
	r.listeners = nil
	return errors.Join(faults...)
}
