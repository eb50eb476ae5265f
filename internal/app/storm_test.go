package app_test

import (
	"context"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"config-server/internal/testkit/storm"
	"config-server/internal/testkit/world"
)

// stormTime is how long a storm lasts: STORMTIME, or in short among the other tests.
func stormTime(t *testing.T, short time.Duration) time.Duration {
	t.Helper()
	text := os.Getenv("STORMTIME")
	if text == "" {
		return short
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("STORMTIME: %v", err)
	}
	return d
}

// stormSeed is STORM_SEED, which repeats the choices of another run, or a new one.
func stormSeed(t *testing.T) uint64 {
	t.Helper()
	text := os.Getenv("STORM_SEED")
	if text == "" {
		return rand.Uint64()
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("STORM_SEED: %v", err)
	}
	return seed
}

// Two instances on the same share, table and cluster, 64 callers, and everything dies now and then:
// every answer is right, and in the end every account and every workspace is whole or not there.
func TestStorm(t *testing.T) {
	t.Parallel()
	seed := stormSeed(t)
	t.Logf("STORM_SEED=%d", seed)
	w := world.New(t, world.Options{OwnMariaDB: true, Env: storm.Env()})
	s := storm.New(t, w, storm.Options{
		Seed: seed, Clients: 64, Users: 36, HangUps: true, MaxPods: 60, Grace: 8 * time.Second,
	}, w.Service(t, nil), w.Service(t, nil))
	s.Run(stormTime(t, 20*time.Second), s.Trouble)
	s.Judge()
}

// A rollout: the new instance runs before the old one is asked to stop, under load, again and again.
// Nothing fails, nothing is lost, nothing is doubled.
func TestStormRollout(t *testing.T) {
	t.Parallel()
	seed := stormSeed(t)
	t.Logf("STORM_SEED=%d", seed)
	w := world.New(t, world.Options{Env: storm.Env()})
	s := storm.New(t, w, storm.Options{Seed: seed, Clients: 16, Users: 12, MaxPods: 30},
		w.Service(t, nil), w.Service(t, nil))
	s.Run(min(stormTime(t, 12*time.Second), time.Minute), s.Rollouts)
	s.Judge()
}

// Two processes with local locks on the same state folder, as after a change of the Deployment that
// should not have happened: the files in it keep them apart.
func TestStormLocalLocks(t *testing.T) {
	t.Parallel()
	seed := stormSeed(t)
	t.Logf("STORM_SEED=%d", seed)
	env := storm.Env()
	env["LEDGER_LOCK"], env["STATE_DIR"] = "local", t.TempDir()
	w := world.New(t, world.Options{Env: env})
	s := storm.New(t, w, storm.Options{Seed: seed, Clients: 16, Users: 8, MaxPods: 20}, w.Service(t, nil), w.Service(t, nil))
	s.Run(8*time.Second, func(context.Context) {})
	s.Judge()
}
