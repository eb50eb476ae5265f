package database_test

import (
	"context"
	"database/sql"
	"net"
	"strconv"
	"testing"

	"config-server/internal/database"
	"config-server/internal/database/databasetest"
	"config-server/internal/testkit"
)

// Rows that a commit without an answer has removed are counted, though the repetition finds none.
func TestCountOfARepetition(t *testing.T) {
	t.Parallel()
	for name, cut := range map[string]func(*databasetest.CommitCutter, int){
		"kept by the server":       (*databasetest.CommitCutter).CutAfter,
		"never reached the server": (*databasetest.CommitCutter).CutBefore,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := testkit.MariaDB(t)
			cutter := databasetest.NewCommitCutter(t, net.JoinHostPort(server.Host, strconv.Itoa(server.Port)))
			db := cutter.Place(server, server.NewDatabase(t)).Open(t)
			err := db.InTx(t.Context(), "fill", func(ctx context.Context, tx *sql.Tx) error { return insert(ctx, tx, "one") })
			if err != nil {
				t.Fatal(err)
			}
			cut(cutter, 1)
			runs := 0
			removed, err := db.Count(t.Context(), "remove", func(ctx context.Context, tx *sql.Tx) (int, error) {
				runs++
				return database.Affected(tx.ExecContext(ctx, "DELETE FROM krb5_cleanup_pending"))
			})
			if err != nil || removed != 1 || runs != 2 {
				t.Errorf("%d removed in %d runs, error %v", removed, runs, err)
			}
		})
	}
}
