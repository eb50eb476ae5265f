package overview_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"config-server/internal/audit"
	"config-server/internal/farm"
	"config-server/internal/overview"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// stand is a farm to look at. Each error, if set, is what that part answers.
type stand struct {
	pods     []farm.Pod
	podsErr  error
	nodes    []farm.Node
	nodesErr error
	rows     []farm.Row
	rowsErr  error
	stages   map[farm.PodName]farm.Stage
	stageErr error
	scores   func(ctx context.Context, nodes []farm.NodeName) (map[farm.NodeName]float64, error)
	ports    overview.NodePorts
	portsErr error
	counted  []farm.GPUCount
	countErr error
	last     audit.Outcome
	lastErr  error
}

func (s *stand) KnownPods(context.Context) ([]farm.Pod, error) { return s.pods, s.podsErr }
func (s *stand) Nodes(context.Context) ([]farm.Node, error)    { return s.nodes, s.nodesErr }
func (s *stand) Rows(context.Context) ([]farm.Row, error)      { return s.rows, s.rowsErr }
func (s *stand) Stages(context.Context) (map[farm.PodName]farm.Stage, error) {
	return s.stages, s.stageErr
}
func (s *stand) Last(context.Context) (audit.Outcome, error)           { return s.last, s.lastErr }
func (s *stand) nodePorts(context.Context) (overview.NodePorts, error) { return s.ports, s.portsErr }
func (s *stand) gpus(context.Context) ([]farm.GPUCount, error)         { return s.counted, s.countErr }
func (s *stand) Scores(ctx context.Context, nodes []farm.NodeName) (map[farm.NodeName]float64, error) {
	if s.scores == nil {
		return map[farm.NodeName]float64{}, nil
	}
	return s.scores(ctx, nodes)
}

func (s *stand) overview() *overview.Overview {
	return overview.New(overview.Options{Cluster: s, Ports: s, Progress: s, Load: s, Audits: s, NodePorts: s.nodePorts, GPUs: s.gpus})
}

var born = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestStageAndPhaseOfAPod(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		pod      farm.Pod
		underWay farm.Stage
		stage    farm.Stage
		phase    string
	}{
		"ready":                      {farm.Pod{Phase: "Running", Ready: true}, "", "ready", "Running"},
		"running, not ready":         {farm.Pod{Phase: "Running"}, "", "waiting_ready", "Running"},
		"pending":                    {farm.Pod{Phase: "Pending"}, "", "waiting_ready", "Pending"},
		"failed":                     {farm.Pod{Phase: "Failed"}, "", "failed", "Failed"},
		"ended":                      {farm.Pod{Phase: "Succeeded"}, "", "failed", "Succeeded"},
		"failed, its last word good": {farm.Pod{Phase: "Failed", Ready: true}, "", "failed", "Failed"},
		"an operation says more":     {farm.Pod{Phase: "Running", Ready: true}, "creating_services", "creating_services", "Running"},
		"being removed":              {farm.Pod{Phase: "Running", Ready: true, Terminating: true}, "", "ready", "Terminating"},
		"its node is lost":           {farm.Pod{Phase: "Unknown"}, "", "waiting_ready", "Unknown"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.pod.Name = "p"
			s := &stand{pods: []farm.Pod{c.pod}, stages: map[farm.PodName]farm.Stage{"other": "failed"}}
			if c.underWay != "" {
				s.stages["p"] = c.underWay
			}
			got, err := s.overview().Workspaces(t.Context())
			if err != nil || len(got) != 1 || got[0].Stage != c.stage || got[0].Phase != c.phase || got[0].Ready != c.pod.Ready {
				t.Errorf("%+v, %v, want stage %s, phase %s", got, err, c.stage, c.phase)
			}
		})
	}
}

func TestWorkspacesAreJoinedAndOrdered(t *testing.T) {
	t.Parallel()
	korea := time.FixedZone("KST", 9*3600)
	s := &stand{
		pods: []farm.Pod{
			{Name: "ailab-lee-1", User: "lee", Node: "farm6", Phase: "Pending", CreatedAt: born},
			{Name: "ailab-kim-2", User: "kim", Node: "farm5", Phase: "Running", Ready: true, CreatedAt: born.Add(time.Hour).In(korea), GPUs: 2, GPUOption: "l40s"},
			{Name: "ailab-kim-1", User: "kim", Node: "farm5", Phase: "Running", Ready: true, CreatedAt: born},
		},
		rows: []farm.Row{
			{Pod: "ailab-kim-2", Port: farm.Port{Internal: 22, External: 30000, Purpose: "ssh"}},
			{Pod: "gone", Port: farm.Port{Internal: 22, External: 30001, Purpose: "ssh"}},
			{Pod: "ailab-kim-2", Port: farm.Port{Internal: 8888, External: 30002, Purpose: "<b>"}},
		},
	}
	got, err := s.overview().Workspaces(t.Context())
	want := []overview.Workspace{
		{User: "kim", Pod: "ailab-kim-1", Node: "farm5", Stage: "ready", Phase: "Running", Ready: true, CreatedAt: born},
		{
			User: "kim", Pod: "ailab-kim-2", Node: "farm5", Stage: "ready", Phase: "Running", Ready: true, CreatedAt: born.Add(time.Hour), GPUs: 2, GPUOption: "l40s",
			Ports: []farm.Port{{Internal: 22, External: 30000, Purpose: "ssh"}, {Internal: 8888, External: 30002, Purpose: "<b>"}},
		},
		{User: "lee", Pod: "ailab-lee-1", Node: "farm6", Stage: "waiting_ready", Phase: "Pending", CreatedAt: born},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// A part that is down is an error and no empty list, and the error says which part and why.
func TestWhatCannotBeReadIsAnError(t *testing.T) {
	t.Parallel()
	down := errors.New("connection refused")
	cases := map[string]struct {
		spoil func(*stand)
		ask   func(context.Context, *overview.Overview) error
		says  string
	}{
		"workspaces without the cluster":  {func(s *stand) { s.podsErr = down }, workspaces, "read the pods: connection refused"},
		"workspaces without rows":         {func(s *stand) { s.rowsErr = down }, workspaces, "read the ports: connection refused"},
		"workspaces without the progress": {func(s *stand) { s.stageErr = down }, workspaces, "read the operations: connection refused"},
		"nodes without the cluster":       {func(s *stand) { s.nodesErr = down }, nodes, "read the nodes: connection refused"},
		"nodes without pods":              {func(s *stand) { s.podsErr = down }, nodes, "read the pods: connection refused"},
		"findings without the database":   {func(s *stand) { s.lastErr = down }, findings, "last audit: connection refused"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &stand{}
			c.spoil(s)
			if err := c.ask(t.Context(), s.overview()); !errors.Is(err, down) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v", err)
			}
		})
	}
}

func workspaces(ctx context.Context, o *overview.Overview) error {
	_, err := o.Workspaces(ctx)
	return err
}

func nodes(ctx context.Context, o *overview.Overview) error {
	_, err := o.Nodes(ctx)
	return err
}

func findings(ctx context.Context, o *overview.Overview) error {
	_, err := o.Findings(ctx)
	return err
}

func twoNodes() *stand {
	return &stand{
		nodes: []farm.Node{{Name: "farm5", Ready: true}, {Name: "farm6", Cordoned: true}, {Name: "head1", Ready: true, ControlPlane: true}},
		pods:  []farm.Pod{{Name: "a", Node: "farm5"}, {Name: "b", Node: "farm5"}, {Name: "c", Node: "gone"}},
		ports: overview.NodePorts{All: overview.Fill{Used: 4, Free: 2764}, Reachable: overview.Fill{Used: 4, Free: 94}},

		counted: []farm.GPUCount{{Resource: "nvidia.com/gpu", GPURoom: farm.GPURoom{Free: 3, Total: 8}}},
		scores: func(context.Context, []farm.NodeName) (map[farm.NodeName]float64, error) {
			return map[farm.NodeName]float64{"farm5": 1.5}, nil
		},
	}
}

func TestNodes(t *testing.T) {
	t.Parallel()
	score := 1.5
	want := overview.Nodes{
		Nodes: []overview.Node{
			{Name: "farm5", Ready: true, Schedulable: true, Score: &score, Workspaces: 2},
			{Name: "farm6"},
			{Name: "head1", Ready: true},
		},
		NodePorts: &overview.NodePorts{All: overview.Fill{Used: 4, Free: 2764}, Reachable: overview.Fill{Used: 4, Free: 94}},
		GPUs:      []farm.GPUCount{{Resource: "nvidia.com/gpu", GPURoom: farm.GPURoom{Free: 3, Total: 8}}},
	}
	t.Run("all is well", func(t *testing.T) {
		t.Parallel()
		got, err := twoNodes().overview().Nodes(t.Context())
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	})
	t.Run("GPUs cannot be counted", func(t *testing.T) {
		t.Parallel()
		s := twoNodes()
		s.counted, s.countErr = nil, errors.New("no answer")
		poor := want
		poor.GPUs, poor.Warnings = nil, []string{"the GPUs are not counted: no answer"}
		got, err := s.overview().Nodes(t.Context())
		if diff := cmp.Diff(poor, got); diff != "" || err != nil {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	})
	t.Run("Prometheus and the database are down", func(t *testing.T) {
		t.Parallel()
		s := twoNodes()
		s.portsErr = errors.New("no answer")
		s.scores = func(context.Context, []farm.NodeName) (map[farm.NodeName]float64, error) {
			return nil, errors.New("connection refused")
		}
		poor := want
		poor.NodePorts = nil
		poor.Nodes = []overview.Node{{Name: "farm5", Ready: true, Schedulable: true, Workspaces: 2}, {Name: "farm6"}, {Name: "head1", Ready: true}}
		poor.Warnings = []string{"the load is not known: connection refused", "the NodePorts are not counted: no answer"}
		got, err := s.overview().Nodes(t.Context())
		if diff := cmp.Diff(poor, got); diff != "" || err != nil {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	})
}

// However many look and however often, Prometheus is asked once in five seconds, and once only while
// it hangs or is down.
func TestManyWhoLookCostOneQuery(t *testing.T) {
	t.Parallel()
	for name, outcome := range map[string]error{"it answers": nil, "it is down": errors.New("down")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var asked atomic.Int32
				s := twoNodes()
				s.scores = func(context.Context, []farm.NodeName) (map[farm.NodeName]float64, error) {
					asked.Add(1)
					time.Sleep(time.Second) // the bubble's clock
					return nil, outcome
				}
				o := s.overview()
				look := func(n int, want int32) {
					t.Helper()
					for range n {
						go func() { _, _ = o.Nodes(context.WithoutCancel(t.Context())) }()
					}
					time.Sleep(2 * time.Second)
					synctest.Wait()
					if got := asked.Load(); got != want {
						t.Errorf("%d queries, want %d", got, want)
					}
				}
				look(10, 1)
				look(10, 1)
				time.Sleep(5 * time.Second)
				look(3, 2)
			})
		})
	}
}

// Who looks does not wait longer than it wants to, and its leaving spoils nobody else's look.
func TestALookThatIsGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := twoNodes()
		answer := make(chan struct{})
		s.scores = func(ctx context.Context, _ []farm.NodeName) (map[farm.NodeName]float64, error) {
			select {
			case <-answer:
				return map[farm.NodeName]float64{"farm5": 7}, nil
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		o := s.overview()
		impatient, cancel := context.WithCancel(t.Context())
		patient := make(chan overview.Nodes, 1)
		left := make(chan overview.Nodes, 1)
		go func() { got, _ := o.Nodes(impatient); left <- got }()
		synctest.Wait()
		go func() { got, _ := o.Nodes(context.WithoutCancel(t.Context())); patient <- got }()
		synctest.Wait()
		cancel()
		if got := <-left; len(got.Warnings) != 1 {
			t.Errorf("given up: %+v", got)
		}
		close(answer)
		if got := <-patient; got.Nodes[0].Score == nil || *got.Nodes[0].Score != 7 || got.Warnings != nil {
			t.Errorf("waited: %+v", got)
		}
	})
}

func TestAPanicOfAPartIsAnError(t *testing.T) {
	t.Parallel()
	s := twoNodes()
	s.scores = func(context.Context, []farm.NodeName) (map[farm.NodeName]float64, error) { panic("broken answer") }
	got, err := s.overview().Nodes(t.Context())
	if err != nil || len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], "panic: broken answer") {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestFindingsAreToldAsTheyStand(t *testing.T) {
	t.Parallel()
	want := audit.Outcome{CheckedAt: born, Findings: []audit.Finding{{Kind: audit.NoHome, Object: "lee"}}, Error: "later it failed"}
	got, err := (&stand{last: want}).overview().Findings(t.Context())
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}
