package testkit_test

import (
	"context"
	"testing"

	"config-server/internal/testkit"
)

func TestMariaDBGivesEachTestAnEmptyDatabase(t *testing.T) {
	t.Parallel()
	server := testkit.MariaDB(t)
	first, second := server.NewDatabase(t), server.NewDatabase(t)
	if first == second {
		t.Fatalf("both databases are named %s", first)
	}
	db := server.Open(t, first)
	if _, err := db.ExecContext(t.Context(), "CREATE TABLE a (b INT UNIQUE)"); err != nil {
		t.Fatal(err)
	}
	var tables int
	if err := server.Open(t, second).QueryRowContext(t.Context(), "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE()").Scan(&tables); err != nil {
		t.Fatal(err)
	}
	if tables != 0 {
		t.Errorf("a fresh database has %d tables", tables)
	}
}

func TestOwnMariaDBComesBackWithItsRowsAfterAKill(t *testing.T) {
	t.Parallel()
	server := testkit.OwnMariaDB(t)
	name := server.NewDatabase(t)
	db := server.Open(t, name)
	for _, statement := range []string{"CREATE TABLE a (b INT)", "INSERT INTO a VALUES (7)"} {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	server.Kill(t)
	if err := db.PingContext(context.Background()); err == nil {
		t.Fatal("a killed server answers")
	}
	server.Start(t)
	var value int
	if err := db.QueryRowContext(t.Context(), "SELECT b FROM a").Scan(&value); err != nil || value != 7 {
		t.Errorf("after the restart: %d, %v", value, err)
	}
}
