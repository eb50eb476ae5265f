//go:build bench

package bench_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"config-server/internal/testkit"
	"config-server/internal/testkit/load"
)

// TestScale compares a big farm with an empty one, fills the NodePorts to their end, and looks for
// growth of the process over many cycles. With -update the table goes into docs/scale.md. Sizes:
// SCALE_NODES (1000), SCALE_WORKSPACES (1300), SCALE_USERS (100000), SCALE_CYCLES (10000).
func TestScale(t *testing.T) {
	b := newBench(t, "Growth")
	s := &scale{
		bench: b, nodes: number(t, "SCALE_NODES", 1000), workspaces: number(t, "SCALE_WORKSPACES", 1300),
		users: number(t, "SCALE_USERS", 100_000), cycles: number(t, "SCALE_CYCLES", 10_000),
	}
	b.table.Setting += fmt.Sprintf(", %d nodes, %d workspaces, %d users, %d cycles", s.nodes, s.workspaces, s.users, s.cycles)
	b.shares[s.users] = writeShare(t, s.users)
	for _, step := range []struct {
		name string
		run  func(s *scale, t *testing.T)
	}{
		{"empty", (*scale).measureEmpty},
		{"grow", (*scale).grow},
		{"big", (*scale).measureBig},
		{"reconcile", (*scale).reconcile},
		{"ports", (*scale).exhaustPorts},
		{"cycles", (*scale).cycle},
	} {
		if !t.Run(step.name, func(*testing.T) { step.run(s, t) }) {
			return
		}
	}
	b.print(t, "scale", "docs/scale.md")
}

// scale is a farm that grows.
type scale struct {
	*bench
	nodes, workspaces, users, cycles int

	service *testkit.ServiceProcess
	client  *client
	// near and all are create-pod on the empty farm with three candidates, and with every node as one.
	near, all time.Duration
	made      []workspace
}

// anyNode is a user whose config names no node, so that every node is a candidate.
const anyNode = 900

// createTime is the median of create-pod, one at a time, with the workspace removed each time.
func (s *scale) createTime(t *testing.T, user string) time.Duration {
	t.Helper()
	const creates = 15
	var times []time.Duration
	earlier := s.client.stepTimes(t, "create-pod")
	for range s.runs * creates {
		begin := time.Now()
		status, made, err := s.client.create(t.Context(), user)
		if status != http.StatusCreated {
			t.Fatalf("create-pod: %d %v", status, err)
		}
		times = append(times, time.Since(begin))
		if status, err := s.client.remove(t.Context(), made.Pod); status != http.StatusOK {
			t.Fatalf("delete-pod: %d %v", status, err)
		}
	}
	t.Logf("create-pod of %s, mean of %d: %s", user, len(times), s.client.stepTimes(t, "create-pod").since(earlier))
	return load.Median(times)
}

func (s *scale) measureEmpty(t *testing.T) {
	s.world.AdminBE.SetConfig(userName(anyNode), map[string]any{"gpu_nodes": []any{}})
	s.service, s.client = s.bench.service(t, 1000, nil)
	s.createTime(t, userName(0)) // warm
	s.near, s.all = s.createTime(t, userName(0)), s.createTime(t, userName(anyNode))
	s.service.Term()
	s.service.Wait(t, time.Minute)
}

// grow adds nodes and makes the workspaces, spread over them.
func (s *scale) grow(t *testing.T) {
	for i := range s.nodes - 4 { // a cluster begins with four
		s.world.Cluster.AddNode(t, testkit.Node{Name: fmt.Sprintf("node%04d", i)})
	}
	s.service, s.client = s.bench.service(t, s.users, nil)
	users := userNames(1000, 1000+s.workspaces)
	for i, user := range users {
		s.world.AdminBE.SetConfig(user, map[string]any{"gpu_nodes": []any{
			map[string]any{"node_name": fmt.Sprintf("node%04d", i%(s.nodes-4)), "num_gpu": 2, "cpu_limit": "4000m", "memory_limit": "8192Mi"},
		}})
	}
	var result load.Result
	result, s.made = s.client.createAll(t, 16, users)
	s.checkFarm(t, s.made)
	t.Logf("%d workspaces: %v", s.workspaces, result)
}

func (s *scale) measureBig(t *testing.T) {
	near, all := s.createTime(t, userName(0)), s.createTime(t, userName(anyNode))
	for _, row := range []struct {
		name        string
		empty, full time.Duration
	}{
		{"create-pod on the big farm, 3 candidates", s.near, near},
		{"create-pod on the big farm, every node a candidate", s.all, all},
	} {
		ratio := milliseconds(row.full) / milliseconds(row.empty)
		s.add(t, load.Row{
			Measure: row.name, Target: "at most 2 x its time on the empty farm", Met: ratio <= 2, Runs: []float64{ratio}, Unit: "x",
			Figure: fmt.Sprintf("%.2f x (%s, empty %s)", ratio, ms(row.full), ms(row.empty)),
		})
	}
}

// reconcile times a pass as a command of its own, process start included, and counts its LISTs.
func (s *scale) reconcile(t *testing.T) {
	binary, err := testkit.ServiceBinary(build())
	if err != nil {
		t.Fatal(err)
	}
	config := s.world.Cluster.ServiceConfig()
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	kube := load.NewCounter(t, config.Host, transport)
	path := kubeconfig(t, kube.URL, config.BearerToken, s.world.Cluster.Namespace)
	var times []time.Duration
	var lists, whole []float64
	for range s.runs {
		kube.Take()
		state := t.TempDir()
		command := exec.CommandContext(t.Context(), binary, "reconcile", "--dry-run")
		command.Env = append(s.world.Environ(), "PATH="+os.Getenv("PATH"), "HOME="+state, "STATE_DIR="+filepath.Join(state, "state"),
			"BASE_ETC_DIR="+s.shares[s.users], "KUBECONFIG="+path)
		begin := time.Now()
		out, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("reconcile --dry-run: %v\n%s", err, out)
		}
		times = append(times, time.Since(begin))
		calls := withoutWatches(kube.Take())
		unlimited := 0
		for _, call := range calls {
			t.Logf("%s %s", call.Method, call.URL)
			if call.URL.Query().Get("limit") == "" && countLists([]*http.Request{call}) == 1 {
				unlimited++
			}
		}
		lists, whole = append(lists, float64(countLists(calls))), append(whole, float64(unlimited))
	}
	took := load.Median(times)
	s.add(t, load.Row{
		Measure: "the reconciler's pass, process start included", Target: "under 5 s", Figure: ms(took), Met: took < 5*time.Second, Runs: inMilliseconds(times), Unit: "ms",
	})
	s.add(t, load.Row{
		Measure: "LISTs of a pass", Target: "no thundering: all in pages of 500", Met: load.Median(whole) == 0, Runs: lists, Unit: "calls",
		Figure: fmt.Sprintf("%.0f pages, %.0f LISTs without a limit", load.Median(lists), load.Median(whole)),
	})
}

// exhaustPorts makes workspaces until no NodePort is left, and looks at what callers and metrics are
// told then.
func (s *scale) exhaustPorts(t *testing.T) {
	const all = 2768
	left := (all - 2*s.workspaces) / 2
	_, more := s.client.createAll(t, 8, userNames(5000, 5000+left))
	used, free := s.metric(t, `config_server_nodeports{band="all",state="used"}`), s.metric(t, `config_server_nodeports{band="all",state="free"}`)
	status, _, err := s.client.create(t.Context(), userName(4000))
	said := ""
	if err != nil {
		said = err.Error()
	}
	clear := status == http.StatusBadRequest && strings.Contains(said, "POD_SPEC_BUILD_FAILED") && strings.Contains(said, "no free NodePort left")
	if !clear || used != all || free != 0 {
		t.Fatalf("at the end of the NodePorts: status %d %s, metrics say %v used and %v free", status, said, used, free)
	}
	s.add(t, load.Row{
		Measure: fmt.Sprintf("workspace %d of 2 ports each", len(s.made)+len(more)+1), Target: "a clear refusal, metrics full", Met: true,
		Figure: "400 POD_SPEC_BUILD_FAILED, 2,768 ports used, 0 free",
	})
	s.client.removeAll(t, 8, more)
}

// metric reads one series of the service.
func (s *scale) metric(t *testing.T, series string) float64 {
	t.Helper()
	status, body, err := s.client.send(t.Context(), http.MethodGet, "/metrics", "")
	if status != http.StatusOK {
		t.Fatalf("GET /metrics: %d %v", status, err)
	}
	found := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(series) + ` (\S+)$`).FindSubmatch(body)
	if found == nil {
		t.Fatalf("no series %s", series)
	}
	value, err := strconv.ParseFloat(string(found[1]), 64)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// footprint is what may grow.
type footprint struct{ goroutines, files, memory float64 }

func (s *scale) footprint(t *testing.T) footprint {
	t.Helper()
	u := usage(t, s.service)
	return footprint{s.metric(t, "go_goroutines"), float64(u.Files), megabytes(u.RSS)}
}

// cycle creates and deletes workspaces, eight at once, in ten parts, and compares the process after
// the second part, when all pools and caches have their size, with the process after the last one.
func (s *scale) cycle(t *testing.T) {
	const parts, atOnce = 10, 8
	var prints []footprint
	for part := range parts {
		result := load.Closed(t.Context(), atOnce, s.cycles/parts, func(ctx context.Context, i int) (int, error) {
			status, made, err := s.client.create(ctx, userName(6000+i%60))
			if status != http.StatusCreated {
				return status, err
			}
			return s.client.remove(ctx, made.Pod)
		})
		if text := result.Unexpected(http.StatusOK); text != "" {
			t.Fatal(text)
		}
		s.client.http.CloseIdleConnections()
		testkit.WaitFor(t, time.Minute, "a second of rest", after(time.Second))
		prints = append(prints, s.footprint(t))
		t.Logf("part %d: %v, %+v", part, result, prints[part])
	}
	s.checkFarm(t, s.made)
	first, last := prints[1], prints[parts-1]
	s.add(t, load.Row{
		Measure: fmt.Sprintf("%d create and delete, 8 at once: goroutines, files, memory at a fifth and at the end", s.cycles), Target: "flat",
		Figure: fmt.Sprintf("%.0f to %.0f, %.0f to %.0f, %.0f MB to %.0f MB", first.goroutines, last.goroutines, first.files, last.files, first.memory, last.memory),
		// Pools of connections breathe by a few, and the collector by a part of the heap.
		Met: last.goroutines <= first.goroutines+20 && last.files <= first.files+10 && last.memory <= first.memory*1.15,
	})
}
