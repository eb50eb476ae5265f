package testkit

import (
	"syscall"
	"testing"
)

// controlled is a part that this test may stop and start.
type controlled struct{ *process }

// control fails the test when the part belongs to others too.
func control(t testing.TB, p *process, part string) controlled {
	t.Helper()
	if p == nil {
		t.Fatalf("this %s is shared with other tests: take an Own one to stop it", part)
	}
	return controlled{p}
}

func (c controlled) restart(t testing.TB) {
	t.Helper()
	if err := c.start(); err != nil {
		t.Fatal(err)
	}
}

func (c controlled) freeze(t testing.TB) {
	t.Helper()
	c.signal(syscall.SIGSTOP)
	t.Cleanup(func() { c.signal(syscall.SIGCONT) })
}

func (c controlled) thaw(t testing.TB) {
	t.Helper()
	c.signal(syscall.SIGCONT)
}
