//go:build bench

package bench_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"config-server/internal/remote"
	"config-server/internal/testkit"
	"config-server/internal/testkit/load"
	"config-server/internal/testkit/world"
)

// readUsers looks at lists and single users of a big ledger.
func (b *bench) readUsers(t *testing.T) {
	s, c := b.service(t, manyUsers, nil)
	status, size, err := c.drain(t.Context(), "/accounts/users", nil)
	if err != nil || status != http.StatusOK || size < manyUsers*80 {
		t.Fatalf("GET users: status %d, %d bytes, %v", status, size, err)
	}
	etag := b.etag(t, c)
	b.list(t, s, c, fmt.Sprintf("GET users with 20,000 entries (%.1f MB), 4 clients", megabytes(size)), 2000, nil, 200, "35/s")
	b.list(t, s, c, "the same, gzip", 2000, http.Header{"Accept-Encoding": {"gzip"}}, 200, "")
	b.list(t, s, c, "the same, If-None-Match: 304", 4000, http.Header{"If-None-Match": {etag}}, 304, "")

	var medians []time.Duration
	for range b.runs {
		result := load.Closed(t.Context(), 1, 2000, c.get("/accounts/users/"+userName(manyUsers-1), nil))
		if text := result.Unexpected(200); text != "" {
			t.Fatal(text)
		}
		medians = append(medians, result.Quantile(0.5))
	}
	b.add(t, load.Row{
		Measure: "GET the last one of 20,000 users, median", Target: "under 0.3 ms", Figure: ms(load.Median(medians)),
		Met: load.Median(medians) < 300*time.Microsecond, Runs: inMilliseconds(medians), Unit: "ms", Original: "29 ms",
	})
	var rates []float64
	for range b.runs {
		result := load.Closed(t.Context(), 8, 8000, c.get("/health", nil))
		if text := result.Unexpected(200); text != "" {
			t.Fatal(text)
		}
		rates = append(rates, result.Rate(200))
	}
	b.add(t, load.Row{Measure: "GET /health, 8 clients", Figure: fmt.Sprintf("%.0f/s", load.Median(rates)), Runs: rates, Unit: "1/s", Original: "2,600/s"})
}

// etag waits until the files are old enough to be trusted without reading them again.
func (b *bench) etag(t *testing.T, c *client) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.base+"/accounts/users", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := c.http.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	return response.Header.Get("ETag")
}

// list measures one form of the list: its rate, and the service's processor time for each answer.
func (b *bench) list(t *testing.T, s *testkit.ServiceProcess, c *client, name string, calls int, header http.Header, status int, original string) {
	t.Helper()
	var rates, costs []float64
	profile := b.profile(t, s, fmt.Sprintf("list-%d-%d", status, len(header)))
	for range b.runs {
		before := usage(t, s).CPU
		result := load.Closed(t.Context(), 4, calls, c.get("/accounts/users", header))
		if text := result.Unexpected(status); text != "" {
			t.Fatal(text)
		}
		rates = append(rates, result.Rate(status))
		costs = append(costs, milliseconds(usage(t, s).CPU-before)/float64(calls))
	}
	profile()
	b.add(t, load.Row{
		Measure: name, Target: "at least 500/s", Figure: fmt.Sprintf("%.0f/s", load.Median(rates)), Met: load.Median(rates) >= 500, Runs: rates, Unit: "1/s", Original: original,
	})
	b.add(t, load.Row{
		Measure: name + ": processor time of the server for each", Target: "under 1 ms", Figure: fmt.Sprintf("%.2f ms", load.Median(costs)), Met: load.Median(costs) < 1, Runs: costs, Unit: "ms",
	})
}

// createUsers compares PUT user by 8 clients with what it cannot do without.
func (b *bench) createUsers(t *testing.T) {
	for _, users := range []int{1000, manyUsers} {
		b.createUsersOf(t, users)
	}
	b.countHandshakes(t)
}

// countHandshakes counts the SSH connections that many PUT user need.
func (b *bench) countHandshakes(t *testing.T) {
	nas := newDoor(t, b.world.NAS.Address())
	hosts, err := os.ReadFile(b.world.NAS.KnownHosts)
	if err != nil {
		t.Fatal(err)
	}
	known := filepath.Join(t.TempDir(), "known_hosts")
	text := strings.ReplaceAll(string(hosts), "]:"+strconv.Itoa(b.world.NAS.Port), "]:"+nas.port())
	if err := os.WriteFile(known, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, c := b.service(t, 1000, map[string]string{"NAS_SSH_PORT": nas.port(), "NAS_SSH_KNOWN_HOSTS": known})
	const calls = 40
	result := load.Closed(t.Context(), 8, calls, func(ctx context.Context, i int) (int, error) {
		status, _, err := c.send(ctx, http.MethodPut, "/accounts/users", world.UserBody(fmt.Sprintf("door%d", i)))
		return status, err
	})
	if text := result.Unexpected(http.StatusCreated); text != "" {
		t.Fatal(text)
	}
	passed := nas.passed.Load()
	b.add(t, load.Row{
		Measure: fmt.Sprintf("SSH handshakes for %d PUT user by 8 clients", calls), Target: "none per call", Met: passed <= 1,
		Figure: fmt.Sprintf("%d in all", passed), Runs: []float64{float64(passed)}, Unit: "connections",
	})
}

// door passes TCP connections on and counts them.
type door struct {
	listener net.Listener
	passed   atomic.Int64
}

func newDoor(t testing.TB, target string) *door {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &door{listener: listener}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			in, err := listener.Accept()
			if err != nil {
				return // the test is over
			}
			d.passed.Add(1)
			out, err := net.Dial("tcp", target)
			if err != nil {
				_ = in.Close()
				continue
			}
			for _, way := range [][2]net.Conn{{in, out}, {out, in}} {
				go func() {
					_, _ = io.Copy(way[0], way[1])
					_ = way[0].Close()
				}()
			}
		}
	}()
	return d
}

func (d *door) port() string { return strconv.Itoa(d.listener.Addr().(*net.TCPAddr).Port) }

func (b *bench) createUsersOf(t *testing.T, users int) {
	s, c := b.service(t, users, nil)
	host, err := remote.New(remote.Options{
		Host: b.world.NAS.Host, Port: b.world.NAS.Port, User: b.world.NAS.User, KeyPath: b.world.NAS.KeyPath, KnownHosts: b.world.NAS.KnownHosts,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = host.Close() })
	bare := bareAccounts{host: host, share: b.world.NAS.Share, folder: t.TempDir(), like: b.shares[users]}
	const clients, calls = 8, 80
	var ratios []float64
	var times, floors []time.Duration
	var rates []float64
	profile := b.profile(t, s, fmt.Sprintf("accounts-%d", users))
	for run := range b.runs {
		name := func(kind string, i int) string { return fmt.Sprintf("%s%d-%d-%d", kind, users, run, i) }
		floor := load.Closed(t.Context(), clients, calls, func(ctx context.Context, i int) (int, error) {
			return bare.create(ctx, name("bare", i))
		})
		if text := floor.Unexpected(http.StatusCreated); text != "" {
			t.Fatal(text)
		}
		result := load.Closed(t.Context(), clients, calls, func(ctx context.Context, i int) (int, error) {
			status, _, err := c.send(ctx, http.MethodPut, "/accounts/users", world.UserBody(name("new", i)))
			return status, err
		})
		if text := result.Unexpected(http.StatusCreated); text != "" {
			t.Fatal(text)
		}
		t.Logf("bare: %v\nservice: %v", floor, result)
		ratios = append(ratios, milliseconds(result.Took)/milliseconds(floor.Took))
		times, floors = append(times, result.Quantile(0.5)), append(floors, floor.Quantile(0.5))
		rates = append(rates, result.Rate(http.StatusCreated))
	}
	profile()
	t.Log(c.stepTimes(t, "create-user").since(nil))
	ratio := load.Median(ratios)
	b.add(t, load.Row{
		Measure: fmt.Sprintf("PUT user, 8 clients, ledger of %d users", users), Target: "at most 2 x its floor", Met: ratio <= 2, Runs: ratios, Unit: "x", Original: "8.6/s, p50 0.9 s",
		Figure: fmt.Sprintf("%.2f x (%.0f/s, p50 %s; floor p50 %s)", ratio, load.Median(rates), ms(load.Median(times)), ms(load.Median(floors))),
	})
}

// bareAccounts does what PUT user cannot do without: the SSH commands over one shared connection,
// and passwd, group and shadow replaced by files of the same size that are brought to the disk.
type bareAccounts struct {
	host                *remote.Client
	share, folder, like string
}

func (a bareAccounts) create(ctx context.Context, name string) (int, error) {
	home := a.share + "/" + name
	// The first tells that there is no home yet: its exit status is 1.
	_, _ = a.host.Run(ctx, []string{"stat", "-c", "%u", home}, nil)
	for _, command := range [][]string{
		{"sudo", "mkdir", "-p", home}, {"sudo", "chown", "29999:29999", home}, {"sudo", "chmod", "700", home},
	} {
		if _, err := a.host.Run(ctx, command, nil); err != nil {
			return 0, err
		}
	}
	for _, file := range []string{"passwd", "group", "shadow"} {
		if err := a.replace(file, name); err != nil {
			return 0, err
		}
	}
	return http.StatusCreated, nil
}

// replace writes a copy beside the file, syncs it and renames it into place.
func (a bareAccounts) replace(file, name string) error {
	text, err := os.ReadFile(filepath.Join(a.like, file))
	if err != nil {
		return err
	}
	draft := filepath.Join(a.folder, file+"."+name)
	out, err := os.Create(draft)
	if err != nil {
		return err
	}
	if _, err := out.Write(text); err != nil {
		return err
	}
	if err := out.Sync(); err != nil {
		return err
	}
	if err := out.Close(); err != nil {
		return err
	}
	return os.Rename(draft, filepath.Join(a.folder, file))
}
