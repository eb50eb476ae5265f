package findings_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"config-server/internal/audit"
	"config-server/internal/database"
	"config-server/internal/database/databasetest"
	"config-server/internal/findings"
)

func last(t *testing.T, s *findings.Store) audit.Outcome {
	t.Helper()
	got, err := s.Last(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func save(t *testing.T, s *findings.Store, found ...audit.Finding) {
	t.Helper()
	if err := s.Save(t.Context(), found); err != nil {
		t.Fatal(err)
	}
}

func TestEveryReplicaReadsTheLastOutcome(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, place databasetest.Place) {
		one, two := findings.New(place.Open(t)), findings.New(place.Open(t))
		if got := last(t, one); !got.CheckedAt.IsZero() || len(got.Findings) != 0 || got.Error != "" {
			t.Errorf("before any audit: %+v", got)
		}
		found := []audit.Finding{
			{Kind: audit.NoHome, Object: "lee", User: "lee", Detail: `한글 "quoted" <b> \ 🙂`, Remedy: "ls '/a b'"},
			{Kind: audit.EndedPod, Object: "ailab-kim-00000001", Detail: "it has ended", Remedy: "true"},
		}
		save(t, one, found...)
		got := last(t, two)
		if diff := cmp.Diff(found, got.Findings); diff != "" || got.Error != "" {
			t.Errorf("error %q, findings (-want +got):\n%s", got.Error, diff)
		}
		if age := time.Since(got.CheckedAt); age < -time.Minute || age > time.Minute || got.CheckedAt.Location() != time.UTC {
			t.Errorf("checked at %s", got.CheckedAt)
		}

		// A later one that fails leaves what is known and says so; the next good one takes that back.
		if err := two.SaveError(t.Context(), errors.New(strings.Repeat("왜", 3000)+"\xff")); err != nil {
			t.Fatal(err)
		}
		failed := last(t, one)
		if !failed.CheckedAt.Equal(got.CheckedAt) || len(failed.Findings) != 2 || !strings.HasPrefix(failed.Error, "왜왜") || len([]rune(failed.Error)) > 1000 {
			t.Errorf("after a failure: %+v", failed)
		}
		save(t, two)
		if got := last(t, one); got.CheckedAt.IsZero() || got.Findings == nil || len(got.Findings) != 0 || got.Error != "" {
			t.Errorf("after a good one: %+v", got)
		}
	})
}

func TestTheFirstFindingsAreKeptAndAllAreCounted(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, place databasetest.Place) {
		s := findings.New(place.Open(t))
		found := []audit.Finding{{Kind: audit.Unreadable, Object: "homes"}}
		for i := range findings.MaxFindings + 4 {
			found = append(found, audit.Finding{Kind: audit.NoHome, Object: fmt.Sprintf("user%d", i), Detail: strings.Repeat("d", 100), Remedy: strings.Repeat("r", 200)})
		}
		save(t, s, found...)
		got := last(t, s)
		want := audit.Outcome{
			CheckedAt: got.CheckedAt, Findings: found[:findings.MaxFindings],
			Counts: map[audit.Kind]int{audit.Unreadable: 1, audit.NoHome: findings.MaxFindings + 4},
		}
		if diff := cmp.Diff(want, got); diff != "" || got.Total() != len(found) {
			t.Errorf("total %d, kept (-want +got):\n%s", got.Total(), diff)
		}
		counted, err := s.Counts(t.Context())
		want.Findings = nil
		if diff := cmp.Diff(want, counted); diff != "" || err != nil {
			t.Errorf("error %v, counted (-want +got):\n%s", err, diff)
		}
	})
}

func TestARowThatSomebodyRemovedComesBack(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, place databasetest.Place) {
		db := place.Open(t)
		s := findings.New(db)
		save(t, s, audit.Finding{Kind: audit.NoHome, Object: "lee"})
		if _, err := db.Exec(t.Context(), "remove", "DELETE FROM config_server_audit"); err != nil {
			t.Fatal(err)
		}
		if got := last(t, s); !got.CheckedAt.IsZero() || got.Findings != nil {
			t.Errorf("without the row: %+v", got)
		}
		save(t, s, audit.Finding{Kind: audit.NoHome, Object: "kim"})
		if got := last(t, s); len(got.Findings) != 1 || got.Findings[0].Object != "kim" {
			t.Errorf("saved again: %+v", got)
		}
	})
}

func TestADatabaseWithoutTheTableIsAnError(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, place databasetest.Place) {
		db := place.Open(t)
		db.LeaveTables()
		s := findings.New(db)
		if _, err := s.Last(t.Context()); !database.IsMissingTable(err) {
			t.Errorf("read: %v", err)
		}
		if err := s.Save(t.Context(), nil); !database.IsMissingTable(err) {
			t.Errorf("save: %v", err)
		}
		if err := s.SaveError(t.Context(), errors.New("x")); !database.IsMissingTable(err) {
			t.Errorf("save an error: %v", err)
		}
	})
}
