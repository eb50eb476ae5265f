package workspaces

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"

	"config-server/internal/farm"
	"config-server/internal/saga"
)

// board keeps what is told, as the store does.
type board struct {
	all    []farm.Progress
	err    error
	closed []farm.Progress
	moved  bool // the row changed since it was read
}

func (b *board) Report(p farm.Progress) { b.all = append(b.all, p) }

func (b *board) Get(_ context.Context, id string) (farm.Progress, bool, error) {
	for _, p := range slices.Backward(b.all) {
		if p.ID == id {
			return p, true, b.err
		}
	}
	return farm.Progress{}, false, b.err
}

func (b *board) UnderWay(context.Context) ([]farm.Progress, error) {
	return slices.DeleteFunc(slices.Clone(b.all), func(p farm.Progress) bool { return p.Done }), b.err
}

func (b *board) Close(_ context.Context, p farm.Progress) (bool, error) {
	b.closed = append(b.closed, p)
	return !b.moved, b.err
}

func (b *board) last() farm.Progress { return b.all[len(b.all)-1] }

// stages lists the stages that were told, each once where it follows itself.
func (b *board) stages() []farm.Stage {
	var all []farm.Stage
	for _, p := range b.all {
		all = append(all, p.Stage)
	}
	return slices.Compact(all)
}

func telling(b *board) *Service {
	return New(Options{
		Progress: b, Log: slog.New(slog.DiscardHandler), Instance: "me", RequestID: func(context.Context) string { return "r-7" },
		Budget: time.Minute, UndoLimit: time.Minute,
	})
}

var anyTime = cmpopts.IgnoreFields(farm.Progress{}, "StartedAt", "UpdatedAt")

// steps are empty steps of these names, each with an undo, the last of which fails with err.
func steps(err error, names ...string) []saga.Step {
	var all []saga.Step
	for i, name := range names {
		all = append(all, saga.Step{
			Name: name, Undos: []saga.Undo{{What: "what of " + name, Run: func(context.Context) (bool, error) { return i == 0, nil }}},
			Do: func(context.Context) error {
				if i == len(names)-1 {
					return err
				}
				return nil
			},
		})
	}
	return all
}

// A create is told stage after stage, never backwards, whatever parts its steps have.
func TestStagesOfALaunch(t *testing.T) {
	t.Parallel()
	withKeytab := []farm.Stage{
		farm.StageStarted, farm.StageSelectingNode, farm.StageBuildingPodSpec, farm.StageAllocatingNodePort, farm.StageDeployingKrb5,
		farm.StageCreatingPod, farm.StageWaitingReady, farm.StageCreatingServices, farm.StageReady,
	}
	without := slices.DeleteFunc(slices.Clone(withKeytab), func(s farm.Stage) bool { return s == farm.StageDeployingKrb5 })
	migration := slices.DeleteFunc(slices.Clone(without), func(s farm.Stage) bool { return s == farm.StageSelectingNode })
	create := []string{
		"FETCH_USER_CONFIG", "CHECK_EXISTING_POD", "LIST_NODES", "SELECT_NODE", "BUILD_POD_SPEC:account", "BUILD_POD_SPEC:image",
		"BUILD_POD_SPEC:record", "BUILD_POD_SPEC:ports", "BUILD_POD_SPEC:keytab", "BUILD_POD_SPEC:spec", "CREATE_POD", "ACCOUNT_SECRET",
		"WAIT_POD_READY", "CREATE_NODEPORT_SERVICE", "WAIT_POD_READY:again", "CLOSE",
	}
	for name, c := range map[string]struct {
		kerberos bool
		steps    []string
		want     []farm.Stage
	}{
		"create":               {false, create, without},
		"create with Kerberos": {true, create, withKeytab},
		"migrate": {false, []string{
			"FETCH_USER_CONFIG", "BUILD_POD_SPEC:account", "BUILD_POD_SPEC:record", "BUILD_POD_SPEC:ports", "SAVE_IMAGE", "BUILD_POD_SPEC:image",
			"BUILD_POD_SPEC:keytab", "BUILD_POD_SPEC:spec", "CREATE_POD", "WAIT_POD_READY", "CREATE_NODEPORT_SERVICE", "WAIT_POD_READY:again", "TOUCH_OLD_POD",
		}, migration},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := &board{}
			s := telling(b)
			s.Kerberos = switched{on: c.kerberos}
			l := &launch{Service: s, node: "farm6", image: "decs:1"}
			told := s.tell(t.Context(), farm.Operation{ID: "1", Kind: farm.OperationCreate, User: "kim", Pod: "ailab-kim-1", Instance: "me"}, l.words, l.refresh)
			if err := saga.Run(t.Context(), told.observed("create-pod"), steps(nil, c.steps...)); err != nil {
				t.Fatal(err)
			}
			told.ready("it stands")
			if diff := cmp.Diff(c.want, b.stages()); diff != "" {
				t.Errorf("stages (-want +got):\n%s", diff)
			}
			for _, p := range b.all {
				if p.Message == "" || p.RequestID != "r-7" || p.Instance != "me" || p.Node != "farm6" || p.Done != (p.Stage == farm.StageReady) {
					t.Errorf("told %+v", p)
				}
			}
			var names []string
			for _, step := range b.last().Steps {
				if step.Result != farm.ResultOK {
					t.Errorf("step %s ended %s", step.Step, step.Result)
				}
				names = append(names, step.Step)
			}
			if diff := cmp.Diff(c.steps, names); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
		})
	}
}

type switched struct {
	Kerberos
	on bool
}

func (s switched) Enabled() bool { return s.on }

func TestTellingOfAFailure(t *testing.T) {
	t.Parallel()
	b := &board{}
	s := telling(b)
	told := s.tell(t.Context(), farm.Operation{ID: "1", Kind: farm.OperationCreate, User: "kim"}, func(step string) (farm.Stage, string) {
		return farm.StageWaitingReady, "at " + step
	}, nil)
	cause := farm.Failf(farm.Internal, farm.StepWaitPodReady, farm.PodReadyTimeout, nil, "no user of this uid")
	run := saga.Run(t.Context(), told.observed("create-pod"), steps(cause, "CREATE_POD", "WAIT_POD_READY"))
	told.failed("create-pod", run, createFailed("ailab-kim-1", run))

	var messages []string
	for _, p := range b.all {
		messages = append(messages, p.Message)
	}
	want := []string{
		"at CREATE_POD", "at WAIT_POD_READY", "WAIT_POD_READY failed", "taking back what WAIT_POD_READY did", "taking back what CREATE_POD did",
		"create-pod failed at WAIT_POD_READY; everything was taken back",
	}
	if diff := cmp.Diff(want, messages); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
	end := farm.Progress{
		ID: "1", Kind: farm.OperationCreate, User: "kim", Stage: farm.StageFailed, Message: want[5], Code: farm.PodReadyTimeout,
		Detail: "no user of this uid", RequestID: "r-7", Done: true,
		Steps: []farm.StepResult{{Step: "CREATE_POD", Result: farm.ResultOK}, {Step: "WAIT_POD_READY", Result: farm.ResultError}},
		Undo: []farm.UndoResult{
			{Step: "WAIT_POD_READY", What: "what of WAIT_POD_READY", Result: farm.ResultNone},
			{Step: "CREATE_POD", What: "what of CREATE_POD", Result: farm.ResultUndone},
		},
	}
	if diff := cmp.Diff(end, b.last(), anyTime); diff != "" {
		t.Errorf("the end (-want +got):\n%s", diff)
	}
	if first := b.all[0].Steps; len(first) != 1 || first[0].Result != farm.ResultRunning {
		t.Errorf("what was told first has changed: %v", first)
	}
}

// The caller of /migrate is told a fixed text, a reason and no code; people read all three.
func TestTellingOfAFailedMigration(t *testing.T) {
	t.Parallel()
	b := &board{}
	told := telling(b).tell(t.Context(), farm.Operation{ID: "1", Kind: farm.OperationMigrate, User: "kim"}, func(string) (farm.Stage, string) { return "", "" }, nil)
	run := saga.Run(t.Context(), told.observed("migrate"), steps(
		farm.Failf(farm.Internal, farm.StepWaitPodReady, farm.PodReadyTimeout, nil, "no user of this uid"), "WAIT_POD_READY"))
	told.failed("migrate", run, migrateFailed(run))
	if p := b.last(); p.Code != farm.PodReadyTimeout || p.Detail != textNotStarted+": no user of this uid" {
		t.Errorf("%s %q", p.Code, p.Detail)
	}
}

func TestRecoveryGoesOnTelling(t *testing.T) {
	t.Parallel()
	record := farm.Operation{ID: "1", Kind: farm.OperationCreate, User: "alice", Pod: "ailab-alice-new", Stage: farm.RecordRunning, Instance: "dead"}
	running := farm.Progress{
		ID: "1", Kind: farm.OperationCreate, User: "alice", Pod: "ailab-alice-new", Stage: farm.StageWaitingReady, Message: "waiting", RequestID: "r-1",
		Instance: "dead", Steps: []farm.StepResult{{Step: "CREATE_POD", Result: farm.ResultOK}, {Step: "WAIT_POD_READY", Result: farm.ResultRunning}},
	}
	ended := running
	ended.Stage, ended.Message, ended.Code, ended.Detail, ended.Done = farm.StageFailed, "failed", farm.PodReadyTimeout, "why", true
	removed := []string{"RECOVER:DELETE_NODEPORT_SERVICE", "RECOVER:RELEASE_NODEPORT", "RECOVER:DELETE_POD"}
	for name, c := range map[string]struct {
		told    []farm.Progress
		err     error
		kind    farm.OperationKind
		stage   farm.Stage
		message string
		detail  string
		code    farm.Code
		steps   []string
	}{
		"a create that was cut off": {[]farm.Progress{running}, nil, farm.OperationCreate, farm.StageFailed,
			"the service was stopped in the midst of it; everything was taken back", "the service was stopped in the midst of it; everything was taken back", "",
			append([]string{"CREATE_POD", "WAIT_POD_READY"}, removed...)},
		"a create that had failed and left something": {[]farm.Progress{ended}, nil, farm.OperationCreate, farm.StageFailed,
			"failed; what was left over is removed", "why", farm.PodReadyTimeout, append([]string{"CREATE_POD", "WAIT_POD_READY"}, removed...)},
		"nothing told before": {nil, nil, farm.OperationCreate, farm.StageFailed,
			"the service was stopped in the midst of it; everything was taken back", "the service was stopped in the midst of it; everything was taken back", "", removed},
		"a delete": {nil, nil, farm.OperationDelete, farm.StageReady, "the service was stopped in the midst of it, recovery finished it", "", "", removed},
		"what was told cannot be read": {nil, errors.New("down"), farm.OperationDelete, farm.StageReady,
			"the service was stopped in the midst of it, recovery finished it", "", "", removed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := &board{all: c.told, err: c.err}
			record := record
			record.Kind = c.kind
			table := &records{list: []farm.Operation{record}}
			var gone []farm.PodName
			s := recovering(table, holding{seen{pods: []farm.Pod{runningPod("ailab-alice-new", "farm6", time.Minute)}}, &gone}, 0)
			s.Progress = b
			if recovered, err := s.Recover(t.Context()); err != nil || len(recovered) != 1 || recovered[0].Err != nil {
				t.Fatalf("%v, %v", recovered, err)
			}
			p := b.last()
			var names []string
			for _, step := range p.Steps {
				names = append(names, step.Step)
			}
			if p.Stage != c.stage || p.Message != c.message || p.Detail != c.detail || p.Code != c.code || !p.Done || p.Instance != "me" {
				t.Errorf("told %+v", p)
			}
			if diff := cmp.Diff(c.steps, names); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
			if strings.Contains(string(p.Steps[0].Step), "CREATE") && p.Steps[1].Result != farm.ResultError {
				t.Errorf("the step that was cut off is %s", p.Steps[1].Result)
			}
		})
	}
}

func TestCloseCutOff(t *testing.T) {
	t.Parallel()
	row := func(id, instance string, age time.Duration) farm.Progress {
		return farm.Progress{ID: id, Kind: farm.OperationCreate, Pod: farm.PodName("ailab-" + id), Instance: instance, UpdatedAt: time.Now().Add(-age)}
	}
	const long = 10 * time.Minute // than budget and undo
	for name, c := range map[string]struct {
		row       farm.Progress
		recorded  bool
		running   bool
		contended int // how often the other instance is seen to live
		moved     bool
		want      string
	}{
		"of an instance that is gone":                 {row("a", "dead", 0), false, false, 0, false, "[create of pod ailab-a was cut off]"},
		"of one that lives":                           {row("a", "alive", 0), false, false, 1, false, "[]"},
		"of one that lives, and long silent":          {row("a", "alive", long), false, false, 1, false, "[create of pod ailab-a was cut off]"},
		"with a record: recovery's affair":            {row("a", "dead", long), true, false, 0, false, "[]"},
		"of this process, not recorded yet":           {row("a", "me", 0), false, false, 0, false, "[]"},
		"of this process, running":                    {row("a", "me", long), false, true, 0, false, "[]"},
		"of this process, long silent":                {row("a", "me", long), false, false, 0, false, "[create of pod ailab-a was cut off]"},
		"that came to its end since it was looked at": {row("a", "dead", 0), false, false, 0, true, "[]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := &board{all: []farm.Progress{c.row}, moved: c.moved}
			table := &records{}
			if c.recorded {
				table.list = []farm.Operation{{ID: c.row.ID, Instance: "dead"}}
			}
			s := recovering(table, nil, c.contended)
			s.Progress = b
			s.running["a"] = c.running
			lines, err := s.CloseCutOff(t.Context())
			if got := "[" + strings.Join(lines, ", ") + "]"; got != c.want || err != nil {
				t.Errorf("got %s, %v, want %s", got, err, c.want)
			}
			for _, p := range b.closed {
				if p.Stage != farm.StageFailed || !strings.Contains(p.Message, "nothing of it is left") || !p.UpdatedAt.Equal(c.row.UpdatedAt) {
					t.Errorf("closed as %+v", p)
				}
			}
		})
	}
}

// wordy is a cluster whose pod never becomes Ready and whose container wrote something.
type wordy struct {
	Cluster
	cause error
	log   string
}

func (w wordy) WaitReady(context.Context, farm.Pod, farm.ReadyLimits) error { return w.cause }
func (w wordy) LastLog(context.Context, farm.Pod) string                    { return w.log }

// hashed is a ledger that knows one password hash.
type hashed struct {
	Accounts
	hash string
	err  error
}

func (h hashed) ShadowHash(context.Context, farm.UserName) (string, error) { return h.hash, h.err }

func TestDetailOfAPodThatDoesNotBecomeReady(t *testing.T) {
	t.Parallel()
	never, late := farm.ErrNeverReady, farm.ErrWaitTimeout
	for name, c := range map[string]struct {
		cause  error
		log    string
		hash   string
		err    error
		code   farm.Code
		detail string
	}{
		"no log":                {never, "", "", nil, farm.PodReadyTimeout, never.Error()},
		"a log":                 {never, "log of container shell:\nno user", "$6$s$hash", nil, farm.PodReadyTimeout, never.Error() + "; log of container shell:\nno user"},
		"a log after the wait":  {late, "log of container shell:\nno user", "$6$s$hash", nil, farm.PodReadyTimeout, late.Error() + "; log of container shell:\nno user"},
		"a hash of an old kind": {never, "kim:Ab3dEf7hIj9Lm:1", "Ab3dEf7hIj9Lm", nil, farm.PodReadyTimeout, never.Error() + "; kim:***:1"},
		"a locked hash":         {never, "kim:!Ab3dEf7hIj9Lm:1", "!Ab3dEf7hIj9Lm", nil, farm.PodReadyTimeout, never.Error() + "; kim:!***:1"},
		"no password":           {never, "2 * 2", "*", nil, farm.PodReadyTimeout, never.Error() + "; 2 * 2"},
		"no shadow line":        {never, "no user", "", farm.ErrNotFound, farm.PodReadyTimeout, never.Error() + "; no user"},
		"a long log":            {never, strings.Repeat("줄", 9000), "", nil, farm.PodReadyTimeout, never.Error() + "; " + strings.Repeat("줄", maxDetail-len(never.Error())-2)},
		"a wait that broke":     {errors.New("connection refused"), "unasked", "", nil, farm.PodReadyCheckFailed, "connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := New(Options{Cluster: wordy{cause: c.cause, log: c.log}, Accounts: hashed{hash: c.hash, err: c.err}})
			err := (&launch{Service: s, user: "kim", pod: "ailab-kim-1", spec: &corev1.Pod{}}).waitReady(t.Context())
			e, ok := farm.AsError(err)
			if !ok || e.Code != c.code || e.Detail != c.detail || e.Pod != "ailab-kim-1" {
				t.Errorf("got %+v\nwant %s %q", e, c.code, c.detail)
			}
		})
	}
}
