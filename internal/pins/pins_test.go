package pins_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"config-server/internal/database"
	"config-server/internal/database/databasetest"
	"config-server/internal/farm"
	"config-server/internal/pins"
)

const forLong = time.Hour

func pin(image string, n int) farm.Pin {
	return farm.Pin{
		Image: image, Digest: "sha256:" + strings.Repeat(string(rune('0'+n)), 64), PinnedAt: time.Date(2026, 11, 30, 8, 15, n, 0, time.UTC), RequestID: "request",
	}
}

func put(t *testing.T, s *pins.Store, p farm.Pin) {
	t.Helper()
	if err := s.Put(t.Context(), p); err != nil {
		t.Fatal(err)
	}
}

// pinned is the digest that a store tells; empty = none.
func pinned(t *testing.T, s *pins.Store, image string) string {
	t.Helper()
	p, found, err := s.Pinned(t.Context(), image)
	if err != nil || found != (p.Digest != "") {
		t.Fatalf("%+v, %v, %v", p, found, err)
	}
	return p.Digest
}

func TestImagesPinsOfEveryReplica(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, place databasetest.Place) {
		one, two := pins.New(place.Open(t), 0), pins.New(place.Open(t), 0)
		if list, err := two.List(t.Context()); err != nil || len(list) != 0 {
			t.Errorf("at first: %v, %v", list, err)
		}
		first, long := pin("decs:1", 1), pin("registry.example.org/"+strings.Repeat("a/", 180)+"b:1", 2)
		put(t, one, pin("decs:1", 3))
		put(t, one, first) // in place of it
		put(t, one, long)
		put(t, one, pin("decs:V1", 4))
		put(t, one, pin("decs:v1", 5)) // another tag
		list, err := two.List(t.Context())
		if diff := cmp.Diff([]farm.Pin{first, pin("decs:V1", 4), pin("decs:v1", 5), long}, list); err != nil || diff != "" {
			t.Errorf("%v (-want +got)\n%s", err, diff)
		}
		if got := pinned(t, two, "decs:1"); got != first.Digest {
			t.Errorf("pinned to %s", got)
		}
		gone, found, err := two.Delete(t.Context(), "decs:1")
		if diff := cmp.Diff(first, gone); err != nil || !found || diff != "" {
			t.Errorf("%v, %v (-want +got)\n%s", found, err, diff)
		}
		if got := pinned(t, one, "decs:1"); got != "" {
			t.Errorf("removed, and pinned to %s", got)
		}
		if _, found, err := one.Delete(t.Context(), "decs:1"); err != nil || found {
			t.Errorf("removed again: %v, %v", found, err)
		}
	})
}

// reading opens a database that tells how often the pins were read.
func reading(t *testing.T, place databasetest.Place, told func(n int32)) *database.DB {
	t.Helper()
	var reads atomic.Int32
	return place.Open(t, database.Called(func(_ context.Context, call string, _ time.Duration, _ error) {
		if call == "read_pins" {
			told(reads.Add(1))
		}
	}))
}

// A reading serves for a while; what this replica changes counts at once.
func TestImagesPinsAreKeptForAWhile(t *testing.T) {
	t.Parallel()
	place := databasetest.SQLite(t)
	var reads atomic.Int32
	db := reading(t, place, reads.Store)
	s, other := pins.New(db, forLong), pins.New(place.Open(t), 0)
	for range 5 {
		if pinned(t, s, "decs:1") != "" || pinned(t, s, "other:1") != "" {
			t.Error("pinned to something")
		}
	}
	if n := reads.Load(); n != 1 {
		t.Errorf("%d readings", n)
	}
	put(t, other, pin("decs:1", 1))
	if got := pinned(t, s, "decs:1"); got != "" {
		t.Errorf("it was read anew: %s", got)
	}
	put(t, s, pin("other:1", 2))
	if got := pinned(t, s, "decs:1"); got != pin("", 1).Digest || reads.Load() != 2 {
		t.Errorf("after a change of its own: %s, %d readings", got, reads.Load())
	}
	if _, _, err := s.Delete(t.Context(), "decs:1"); err != nil || pinned(t, s, "decs:1") != "" || pinned(t, s, "other:1") == "" {
		t.Errorf("after a removal of its own: %v", err)
	}
	if none := pins.New(db, 0); pinned(t, none, "decs:1") != "" || pinned(t, none, "other:1") == "" || reads.Load() != 5 {
		t.Errorf("kept for too long: %d readings", reads.Load())
	}
}

// Many who ask at once wait for one reading; who goes away does not.
func TestImagesPinsAreReadByOne(t *testing.T) {
	t.Parallel()
	first, hold := make(chan struct{}), make(chan struct{})
	var reads atomic.Int32
	s := pins.New(reading(t, databasetest.SQLite(t), func(n int32) {
		reads.Store(n)
		if n == 1 {
			close(first)
			<-hold
		}
	}), forLong)
	ends := make(chan error, 10)
	for range cap(ends) {
		go func() {
			_, _, err := s.Pinned(t.Context(), "decs:1")
			ends <- err
		}()
	}
	<-first
	gone := errors.New("gone")
	impatient, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	if _, _, err := s.Pinned(impatient, "decs:1"); !errors.Is(err, gone) {
		t.Errorf("who went away: %v", err)
	}
	close(hold)
	for range cap(ends) {
		if err := <-ends; err != nil {
			t.Error(err)
		}
	}
	if n := reads.Load(); n != 1 {
		t.Errorf("%d readings", n)
	}
}

func TestImagesPinsWithoutTheTable(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, place databasetest.Place) {
		db := place.Open(t)
		db.LeaveTables()
		s := pins.New(db, forLong)
		_, _, pinnedErr := s.Pinned(t.Context(), "decs:1")
		_, listErr := s.List(t.Context())
		_, _, deleteErr := s.Delete(t.Context(), "decs:1")
		for _, err := range []error{pinnedErr, listErr, deleteErr, s.Put(t.Context(), pin("decs:1", 1))} {
			if !database.IsMissingTable(err) {
				t.Errorf("%v", err)
			}
		}
	})
}
