package operations_test

import (
	"errors"
	"net"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"config-server/internal/database/databasetest"
	"config-server/internal/farm"
	"config-server/internal/operations"
	"config-server/internal/testkit"
)

func create(id string) operations.Record {
	return operations.Record{ID: id, Kind: operations.Create, User: "kim", Pod: "ailab-kim-0a1b2c3d", Stage: "begun"}
}

func begin(t *testing.T, s *operations.Store, r operations.Record) {
	t.Helper()
	if err := s.Begin(t.Context(), r); err != nil {
		t.Fatal(err)
	}
}

func list(t *testing.T, s *operations.Store) []operations.Record {
	t.Helper()
	all, err := s.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func ids(records []operations.Record) []string {
	all := []string{}
	for _, r := range records {
		all = append(all, r.ID)
	}
	slices.Sort(all)
	return all
}

func TestLifeOfARecord(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, place databasetest.Place) {
		s := operations.New(place.Open(t), "one")
		id := operations.NewID()
		begin(t, s, create(id))
		if err := s.Advance(t.Context(), id, "placed"); err != nil {
			t.Fatal(err)
		}
		got, err := s.Get(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		want := create(id)
		want.Stage, want.Instance = "placed", "one"
		if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(operations.Record{}, "StartedAt", "UpdatedAt")); diff != "" {
			t.Errorf("record (-want +got):\n%s", diff)
		}
		if got.StartedAt.IsZero() || got.UpdatedAt.Before(got.StartedAt) || got.StartedAt.Location() != time.UTC {
			t.Errorf("times = %s, %s; want UTC, one after the other", got.StartedAt, got.UpdatedAt)
		}
		for range 2 {
			if err := s.End(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := s.Get(t.Context(), id); !errors.Is(err, farm.ErrNotFound) {
			t.Errorf("error = %v, want not found", err)
		}
		if err := s.Advance(t.Context(), id, "placed"); !errors.Is(err, farm.ErrNotFound) {
			t.Errorf("error = %v, want not found", err)
		}
	})
}

func TestARecordOfAMigrateSaysWhereItComesFrom(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, place databasetest.Place) {
		s := operations.New(place.Open(t), "one")
		want := operations.Record{ID: operations.NewID(), Kind: operations.Migrate, User: "kim", Pod: "new", Node: "farm6",
			OldPod: "old", OldNode: "farm5", Stage: "begun"}
		begin(t, s, want)
		// Saying a stage twice changes nothing and is no error.
		for _, stage := range []string{"old pod touched", "old pod touched"} {
			if err := s.Advance(t.Context(), want.ID, stage); err != nil {
				t.Fatalf("%s: %v", stage, err)
			}
		}
		want.Stage, want.Instance = "old pod touched", "one"
		got, err := s.Get(t.Context(), want.ID)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(operations.Record{}, "StartedAt", "UpdatedAt")); diff != "" {
			t.Errorf("record (-want +got):\n%s", diff)
		}
	})
}

func TestARecordBelongsToOneInstance(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, place databasetest.Place) {
		dead := operations.New(place.Open(t), "dead")
		heir := operations.New(place.Open(t), "heir")
		third := operations.New(place.Open(t), "third")
		id, other := operations.NewID(), operations.NewID()
		begin(t, dead, create(id))
		begin(t, heir, create(other))

		if err := heir.Advance(t.Context(), id, "x"); !errors.Is(err, farm.ErrNotFound) {
			t.Errorf("advancing a foreign record: error = %v, want not found", err)
		}
		if err := heir.End(t.Context(), id); !errors.Is(err, farm.ErrNotFound) {
			t.Errorf("ending a foreign record: error = %v, want not found", err)
		}
		want := []string{id, other}
		slices.Sort(want)
		if got := ids(list(t, third)); !slices.Equal(got, want) {
			t.Errorf("records = %q, want both: nobody ends a foreign one", got)
		}

		for _, claim := range []struct {
			by   *operations.Store
			want bool
		}{{heir, true}, {heir, false}, {third, false}} {
			got, err := claim.by.Claim(t.Context(), id, "dead")
			if err != nil || got != claim.want {
				t.Errorf("claim = %t, %v; want %t", got, err, claim.want)
			}
		}
		if err := dead.Advance(t.Context(), id, "x"); !errors.Is(err, farm.ErrNotFound) {
			t.Errorf("the former owner advanced: error = %v, want not found", err)
		}
		if err := heir.Advance(t.Context(), id, "x"); err != nil {
			t.Error(err)
		}
		if err := heir.End(t.Context(), id); err != nil {
			t.Error(err)
		}
		if got := ids(list(t, third)); !slices.Equal(got, []string{other}) {
			t.Errorf("records = %q, want only the other", got)
		}
	})
}

func TestNamesAreKeptAsTheyAre(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, place databasetest.Place) {
		s := operations.New(place.Open(t), "host/1 한글 🚀")
		id := operations.NewID()
		begin(t, s, operations.Record{ID: id, Kind: operations.Delete, User: "2021_Kim", Pod: "ailab-2021-Kim-00000000"})
		got, err := s.Get(t.Context(), id)
		if err != nil || got.User != "2021_Kim" || got.Instance != "host/1 한글 🚀" {
			t.Errorf("record = %+v, %v", got, err)
		}
		if claimed, err := s.Claim(t.Context(), id, "HOST/1 한글 🚀"); err != nil || claimed {
			t.Errorf("claim under another spelling = %t, %v; want false", claimed, err)
		}
	})
}

func TestBeginTwiceIsOneRecord(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, place databasetest.Place) {
		s := operations.New(place.Open(t), "one")
		id := operations.NewID()
		begin(t, s, create(id))
		begin(t, s, create(id))
		if got := ids(list(t, s)); !slices.Equal(got, []string{id}) {
			t.Errorf("records = %q, want one", got)
		}
	})
}

func TestClaimWithoutAnAnswerToItsCommitIsNotCalledDone(t *testing.T) {
	t.Parallel()
	server := testkit.MariaDB(t)
	cutter := databasetest.NewCommitCutter(t, net.JoinHostPort(server.Host, strconv.Itoa(server.Port)))
	place := cutter.Place(server, server.NewDatabase(t))
	dead, heir := operations.New(place.Open(t), "dead"), operations.New(place.Open(t), "heir")
	id := operations.NewID()
	begin(t, dead, create(id))
	cutter.CutAfter(1)
	if claimed, err := heir.Claim(t.Context(), id, "dead"); err == nil || claimed {
		t.Errorf("claim = %t, %v; want an error", claimed, err)
	}
}

func TestAssignmentMovesARecord(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, place databasetest.Place) {
		db := place.Open(t)
		s, other := operations.New(db, "one"), operations.New(db, "two")
		id := operations.NewID()
		begin(t, s, create(id))
		for range 2 {
			if err := s.Place(t.Context(), id, "farm9"); err != nil {
				t.Fatal(err)
			}
		}
		if err := other.Place(t.Context(), id, "farm7"); !errors.Is(err, farm.ErrNotFound) {
			t.Errorf("a record of another instance was moved: %v", err)
		}
		want := create(id)
		want.Node, want.Instance = "farm9", "one"
		got, err := s.Get(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(operations.Record{}, "StartedAt", "UpdatedAt")); diff != "" {
			t.Errorf("record (-want +got):\n%s", diff)
		}
	})
}
