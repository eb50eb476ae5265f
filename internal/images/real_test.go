package images_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"config-server/internal/farm"
	"config-server/internal/images"
	"config-server/internal/testkit"
)

func TestMetadataInARealRedis(t *testing.T) {
	t.Parallel()
	server := testkit.Redis(t)
	address := net.JoinHostPort(server.Host, strconv.Itoa(server.Port))
	now := time.Date(2026, 1, 31, 10, 0, 0, 0, time.FixedZone("KST", 9*3600))
	dir := t.TempDir()
	tar := filepath.Join(dir, "user-lee.tar")
	if err := os.WriteFile(tar, make([]byte, 3<<19), 0o600); err != nil {
		t.Fatal(err)
	}
	path := func(user string) string { return filepath.Join(dir, "user-"+user+".tar") }
	exit := func(status int) images.Executor {
		return func(context.Context, farm.PodName, string, []string) (int, string, error) { return status, "", nil }
	}
	cases := []struct {
		user string
		do   func(*images.Store)
		want images.Metadata
	}{
		{"kim", func(s *images.Store) { s.Resolve(t.Context(), "kim", "base:1") }, images.Metadata{Status: "base_used", Version: "base:1"}},
		{"lee", func(s *images.Store) { s.Resolve(t.Context(), "lee", "base:1") }, images.Metadata{Status: "loaded", Version: "user-lee:latest", SizeMB: 1.5, Path: path("lee")}},
		{"lee", func(s *images.Store) {
			images.New(images.Options{StoreDir: dir, DockerBin: "/bin/false", Cache: cacheOf(t, address, now)}).Resolve(t.Context(), "lee", "base:1")
		}, images.Metadata{Status: "load_failed", Version: "base:1", SizeMB: 1.5, Path: path("lee")}},
		{"park", func(s *images.Store) { _ = s.Save(t.Context(), exit(0), farm.Pod{Name: "p", User: "park"}) }, images.Metadata{Status: "success", Version: "user-park:latest", Path: path("park")}},
		{"choi", func(s *images.Store) {
			_ = s.Save(t.Context(), exit(1), farm.Pod{Name: "p", User: "choi", Image: "base:1"})
		}, images.Metadata{Status: "error", Version: "base:1", Path: path("choi")}},
	}
	client := redis.NewClient(&redis.Options{Addr: address, DB: 3})
	t.Cleanup(func() { _ = client.Close() })
	for _, c := range cases {
		t.Run(c.want.Status, func(t *testing.T) {
			cache := cacheOf(t, address, now)
			if err := cache.Check(t.Context()); err != nil {
				t.Errorf("Check: %v", err)
			}
			c.do(images.New(images.Options{StoreDir: dir, DockerBin: "/bin/true", Cache: cache}))
			if err := cache.Close(t.Context()); err != nil {
				t.Fatalf("Close: %v", err)
			}
			c.want.LastUpdate = "2026-01-31T01:00:00Z"
			testkit.WaitFor(t, 10*time.Second, "the metadata in Redis", func(ctx context.Context) error {
				text, err := client.Get(ctx, "img:"+c.user).Bytes()
				if err != nil {
					return err
				}
				var got images.Metadata
				if err := json.Unmarshal(text, &got); err != nil {
					return err
				}
				if diff := cmp.Diff(c.want, got); diff != "" {
					return &mismatch{diff}
				}
				return nil
			})
		})
	}
}

type mismatch struct{ diff string }

func (m *mismatch) Error() string { return "(-want +got)\n" + m.diff }

func cacheOf(t *testing.T, address string, now time.Time) *images.Cache {
	t.Helper()
	cache := images.NewCache(images.CacheOptions{
		Addr: address, DB: 3, Limit: 5 * time.Second, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return now },
	})
	t.Cleanup(func() { _ = cache.Close(context.WithoutCancel(t.Context())) })
	return cache
}

func TestRedisThatGoesAndComesBack(t *testing.T) {
	t.Parallel()
	server := testkit.Redis(t)
	cache := images.NewCache(images.CacheOptions{
		Addr: net.JoinHostPort(server.Host, strconv.Itoa(server.Port)), Limit: 2 * time.Second, Log: slog.New(slog.DiscardHandler),
	})
	t.Cleanup(func() { _ = cache.Close(context.WithoutCancel(t.Context())) })
	server.Stop()
	if err := cache.Check(t.Context()); err == nil {
		t.Error("Check of a stopped Redis gave no error")
	}
	server.Start(t)
	if err := cache.Check(t.Context()); err != nil {
		t.Errorf("Check after the outage: %v", err)
	}
}

func TestLoadIntoARealEngine(t *testing.T) {
	t.Parallel()
	engine := testkit.Docker(t)
	dir := t.TempDir()
	for file, content := range map[string][]byte{
		"user-kim.tar":    testkit.ImageTar(t, "user-kim:latest"),
		"user-lee.tar":    testkit.ImageTar(t, "user-other:latest"),
		"user-broken.tar": []byte("no tar"),
	} {
		if err := os.WriteFile(filepath.Join(dir, file), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	store := images.New(images.Options{StoreDir: dir, DockerBin: engine.Bin, LoadTimeout: time.Minute})
	if err := store.Check(t.Context()); err != nil {
		t.Errorf("Check: %v", err)
	}
	if image, warning := store.Resolve(t.Context(), "kim", "base:1"); image != "user-kim:latest" || warning != "" {
		t.Errorf("kim: image %q, warning %q", image, warning)
	}
	if names := engine.Images(t); !slices.Contains(names, "user-kim:latest") {
		t.Errorf("the engine has %q", names)
	}
	for _, user := range []farm.UserName{"lee", "broken"} {
		if image, warning := store.Resolve(t.Context(), user, "base:1"); image != "base:1" || warning == "" {
			t.Errorf("%s: image %q, warning %q", user, image, warning)
		}
	}
}
