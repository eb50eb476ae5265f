package audit_test

import (
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"config-server/internal/audit"
	"config-server/internal/farm"
)

var now = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

const (
	kimPod = farm.PodName("ailab-kim-0000000a")
	leePod = farm.PodName("ailab-lee-0000000b")
)

// whole is a farm in which everything fits: two accounts, each with its home and a workspace, and
// the lines and folders that belong to nobody and are no fault.
func whole() audit.Input {
	service := func(user farm.UserName, pod farm.PodName, internal, external int, purpose string) farm.Service {
		return farm.Service{Name: farm.ServiceName(user, purpose, external), UID: purpose, User: user, Pod: pod,
			Ports: []farm.Port{{Internal: internal, External: external, Purpose: purpose}}}
	}
	row := func(id int64, user farm.UserName, pod farm.PodName, internal, external int, purpose string) farm.Row {
		return farm.Row{ID: id, User: user, Pod: pod, Node: "farm5", Port: farm.Port{Internal: internal, External: external, Purpose: purpose}}
	}
	return audit.Input{
		Accounts: []farm.Account{
			{Name: "root", Home: "/root"},
			{Name: "kim", UID: 20000, GID: 20000, Home: "/home/kim"},
			{Name: "lee", UID: 20001, GID: 20001, Home: "/home/lee"},
		},
		Groups: []farm.Group{
			{Name: "root"}, {Name: "kim", GID: 20000}, {Name: "lee", GID: 20001}, {Name: "team", GID: 20002, Members: []farm.UserName{"kim", "lee"}},
		},
		Shadow:   []string{"root", "kim", "lee"},
		Sudoers:  []string{"README", "kim", ".kim.tmp"},
		Retired:  []audit.Retired{{ID: 20000, Name: "kim"}},
		Homes:    map[string]farm.ID{"kim": 20000, "lee": 20001, "#recycle": 0, "@eaDir": 0},
		Rows:     []farm.Row{row(1, "kim", kimPod, 22, 30000, "ssh"), row(2, "kim", kimPod, 8888, 30001, "jupyter"), row(3, "lee", leePod, 22, 30002, "ssh")},
		Pods:     []farm.Pod{{Name: kimPod, User: "kim", Node: "farm5", Phase: "Running"}, {Name: leePod, User: "lee", Node: "farm5", Phase: "Running"}},
		Services: []farm.Service{service("kim", kimPod, 22, 30000, "ssh"), service("kim", kimPod, 8888, 30001, "jupyter"), service("lee", leePod, 22, 30002, "ssh")},
		Now:      now, Overdue: 5 * time.Minute, Unreadable: map[audit.Part]error{},
		Places: audit.Places{URL: "http://127.0.0.1:8000", Namespace: "ailab-infra", Share: "/kube_share", NASHost: "nas", NASUser: "ops",
			NASShare: "/volume1/share/user", SQL: "mysql -h 'db' -p 'ports'"},
	}
}

func TestAWholeFarmHasNoFindings(t *testing.T) {
	t.Parallel()
	report := audit.Compare(whole())
	for _, f := range report.Findings {
		t.Errorf("found %+v", f)
	}
	if c := report.Checked; c != (audit.Checked{Accounts: 3, Groups: 4, Homes: 4, Rows: 3, Pods: 2, Services: 3}) {
		t.Errorf("checked %+v", c)
	}
}

// one breaks the whole farm in one way; the report then has exactly the findings named.
type one struct {
	kind   audit.Kind
	name   string
	breaks func(in *audit.Input)
	object string
	user   farm.UserName
	remedy string // the command has this text
	also   []audit.Kind
}

func faults() []one {
	return []one{
		{kind: audit.Unreadable, name: "the NAS is away", object: "homes", remedy: "config-server check",
			breaks: func(in *audit.Input) { in.Homes, in.Unreadable[audit.PartHomes] = nil, errors.New("refused") }},
		{kind: audit.InterruptedCommit, name: "a commit half written", object: "ledger", remedy: "config-server reconcile",
			breaks: func(in *audit.Input) { in.Interrupted = true }},
		{kind: audit.StaleJournal, name: "a creation that nobody ends", object: "J", user: "new", remedy: "config-server reconcile",
			breaks: func(in *audit.Input) {
				in.Entries = []audit.Entry{{ID: "J", Kind: "create", User: "new", StartedAt: now.Add(-6 * time.Minute)}}
			}},
		{kind: audit.StaleOperation, name: "a create-pod that nobody ends", object: "O", user: "kim", remedy: "config-server reconcile",
			breaks: func(in *audit.Input) {
				in.Operations = []farm.Operation{{ID: "O", Kind: farm.OperationCreate, User: "kim", Pod: "ailab-kim-0000000c", StartedAt: now.Add(-time.Hour)}}
			}},
		{kind: audit.DamagedLine, name: "a short line of passwd", object: "passwd:7", remedy: "sed -n 7p /kube_share/passwd",
			breaks: func(in *audit.Input) { in.Damaged = []audit.Damage{{File: "passwd", Line: 7}} }},
		{kind: audit.DamagedLine, name: "a line of shadow, shown without its hash", object: "shadow:2", remedy: "cut -d: -f1,3-",
			breaks: func(in *audit.Input) { in.Damaged = []audit.Damage{{File: "shadow", Line: 2}} }},
		{kind: audit.DuplicateName, name: "two lines of one account", object: "passwd kim", remedy: "grep -nE '^kim:' /kube_share/passwd",
			breaks: func(in *audit.Input) { in.Accounts = append(in.Accounts, in.Accounts[1]) }},
		{kind: audit.DuplicateName, name: "two lines of one password, shown without hashes", object: "shadow kim", remedy: "cut -d: -f1,2,4-",
			breaks: func(in *audit.Input) { in.Shadow = append(in.Shadow, "kim") }},
		{kind: audit.DuplicateNumber, name: "two accounts with one uid", object: "uid 20000", remedy: "$3 == 20000",
			breaks: func(in *audit.Input) { in.Accounts[2].UID = 20000; in.Homes["lee"] = 20000 },
			also:   []audit.Kind{audit.DuplicateNumber, audit.RetiredNumber}},
		{kind: audit.DuplicateNumber, name: "two groups with one gid", object: "gid 20002", remedy: "$3 == 20002",
			breaks: func(in *audit.Input) { in.Groups = append(in.Groups, farm.Group{Name: "other", GID: 20002}) }},
		{kind: audit.SharedPrimary, name: "a team's gid as primary group", object: "lee", user: "lee", remedy: "$3 == 20002",
			breaks: func(in *audit.Input) { in.Accounts[2].UID, in.Accounts[2].GID, in.Homes["lee"] = 20002, 20002, 20002 }},
		{kind: audit.RetiredNumber, name: "a number that was somebody else's", object: "id 20001", remedy: "$3 == 20001",
			breaks: func(in *audit.Input) { in.Retired = append(in.Retired, audit.Retired{ID: 20001, Name: "gone"}) },
			also:   []audit.Kind{audit.RetiredNumber}},
		{kind: audit.NoShadow, name: "an account without a password line", object: "lee", user: "lee", remedy: `"$(openssl passwd -6)"`,
			breaks: func(in *audit.Input) { in.Shadow = in.Shadow[:2] }},
		{kind: audit.NoPrimaryGroup, name: "a gid that no group has", object: "lee", user: "lee", remedy: "lee 20001 >> /kube_share/group",
			breaks: func(in *audit.Input) { in.Groups = slices.Delete(in.Groups, 2, 3) }},
		{kind: audit.ShadowOfNobody, name: "a password line of nobody", object: "gone", user: "gone", remedy: "sed -i -E '/^gone:/d' /kube_share/shadow",
			breaks: func(in *audit.Input) { in.Shadow = append(in.Shadow, "gone") }},
		{kind: audit.SudoersOfNobody, name: "a policy of nobody", object: "gone", user: "gone", remedy: "rm -i /kube_share/sudoers.d/gone",
			breaks: func(in *audit.Input) { in.Sudoers = append(in.Sudoers, "gone") }},
		{kind: audit.MemberOfNothing, name: "a member that is no account", object: "team", user: "gone", remedy: "sed -i -E",
			breaks: func(in *audit.Input) { in.Groups[3].Members = append(in.Groups[3].Members, "gone") }},
		{kind: audit.NoHome, name: "an account without a home", object: "lee", user: "lee", remedy: "test -e /volume1/share/user/lee ||",
			breaks: func(in *audit.Input) { delete(in.Homes, "lee") }},
		{kind: audit.ForeignHome, name: "a home of root, cut off before its chown", object: "lee", user: "lee", remedy: "sudo chown 20001:20001",
			breaks: func(in *audit.Input) { in.Homes["lee"] = 0 }},
		{kind: audit.ForeignHome, name: "a home of somebody else, which is only shown", object: "lee", user: "lee", remedy: "ssh ops@nas 'ls -ldn /volume1/share/user/lee; ls -A /volume1/share/user/lee'",
			breaks: func(in *audit.Input) { in.Homes["lee"] = 20000 }},
		{kind: audit.HomeOfNobody, name: "a home of nobody, removed only when asked for", object: "gone", remedy: `read -r answer; test "$answer" = gone && sudo rm -rf`,
			breaks: func(in *audit.Input) { in.Homes["gone"] = 20009 }},
		{kind: audit.RowWithoutPod, name: "rows of a pod that is gone", object: "ailab-lee-0000000d", user: "lee", remedy: `/delete-pod -d '{"pod_name":"ailab-lee-0000000d"}'`,
			breaks: func(in *audit.Input) {
				in.Rows = append(in.Rows, farm.Row{ID: 9, User: "lee", Pod: "ailab-lee-0000000d", Port: farm.Port{External: 30009}})
			}},
		{kind: audit.ServiceWithoutPod, name: "a Service of a pod that is gone", object: "ailab-lee-ssh-30002", user: "lee", remedy: "/delete-pod",
			breaks: func(in *audit.Input) { in.Pods = in.Pods[:1] }, also: []audit.Kind{audit.RowWithoutPod}},
		{kind: audit.ServiceWithoutPod, name: "a Service whose label names no pod of ours", object: "odd", remedy: "kubectl -n ailab-infra delete service odd",
			breaks: func(in *audit.Input) { in.Services = append(in.Services, farm.Service{Name: "odd", Pod: "web"}) }},
		{kind: audit.PodWithoutRow, name: "a pod that nobody can reach", object: string(leePod), user: "lee", remedy: "/delete-pod",
			breaks: func(in *audit.Input) { in.Rows, in.Services = in.Rows[:2], in.Services[:2] }},
		{kind: audit.ServiceWithoutRow, name: "a port in use without its row", object: "ailab-kim-jupyter-30001", user: "kim", remedy: "config-server reconcile",
			breaks: func(in *audit.Input) { in.Rows = slices.Delete(in.Rows, 1, 2) }},
		{kind: audit.RowWithoutService, name: "one reserved port that is not open", object: "30001", user: "kim", remedy: `"nodePort":30001`,
			breaks: func(in *audit.Input) { in.Services = slices.Delete(in.Services, 1, 2) }},
		{kind: audit.RowWithoutService, name: "no reserved port is open", object: string(leePod), user: "lee", remedy: "/delete-pod",
			breaks: func(in *audit.Input) { in.Services = in.Services[:2] }},
		{kind: audit.PortMismatch, name: "a row of another inner port", object: "ailab-kim-ssh-30000", user: "kim", remedy: "UPDATE nodeport_allocations",
			breaks: func(in *audit.Input) { in.Rows[0].Port.Internal = 2222 }},
		{kind: audit.PortMismatch, name: "a row of another pod", object: "ailab-kim-ssh-30000", user: "kim", remedy: "WHERE id = 1",
			breaks: func(in *audit.Input) { in.Rows[0].Pod = leePod }},
		{kind: audit.DuplicatePort, name: "two rows of one port", object: "30002", remedy: "node_port = 30002",
			breaks: func(in *audit.Input) { in.Rows = append(in.Rows, in.Rows[2]) }},
		{kind: audit.PodOfNobody, name: "the pod of a deleted user", object: "ailab-gone-0000000e", user: "gone", remedy: "/delete-pod",
			breaks: func(in *audit.Input) {
				in.Pods[1].Name, in.Pods[1].User = "ailab-gone-0000000e", "gone"
				rename(in, "ailab-gone-0000000e", "gone")
			}},
		{kind: audit.EndedPod, name: "a pod that failed and holds its port", object: string(leePod), user: "lee", remedy: "/delete-pod",
			breaks: func(in *audit.Input) { in.Pods[1].Phase = "Failed" }},
		{kind: audit.SharedGPU, name: "two workspaces on one GPU", object: "farm5/1", remedy: "kubectl -n ailab-infra get pods " + string(kimPod) + " " + string(leePod),
			breaks: func(in *audit.Input) { assignGPUs(in); shareGPU(in) }},
		{kind: audit.GPURowWithoutPod, name: "a GPU of a pod that is gone", object: "ailab-gone-0000000e", user: "gone", remedy: "/delete-pod",
			breaks: func(in *audit.Input) {
				assignGPUs(in)
				in.GPUs = append(in.GPUs, farm.GPURow{ID: 9, User: "gone", Pod: "ailab-gone-0000000e", Node: "farm5", Index: 3})
			}},
		{kind: audit.GPURowWithoutPod, name: "a GPU of a pod that has ended", object: string(leePod), user: "lee", remedy: "config-server reconcile",
			breaks: func(in *audit.Input) { assignGPUs(in); in.Pods[1].Phase = "Succeeded" }, also: []audit.Kind{audit.EndedPod}},
		{kind: audit.GPURowWithoutPod, name: "a GPU that the pod does not mount", object: string(kimPod), user: "kim", remedy: "config-server reconcile",
			breaks: func(in *audit.Input) { assignGPUs(in); in.Pods[0].GPUIndexes = farm.NewGPUSet(0) }},
		{kind: audit.PodWithoutGPURow, name: "a GPU that is not assigned", object: string(leePod), user: "lee", remedy: "config-server reconcile",
			breaks: func(in *audit.Input) { assignGPUs(in); in.GPUs = in.GPUs[:2] }},
	}
}

// assignGPUs gives kim's pod the GPUs 0 and 1, and lee's GPU 2.
func assignGPUs(in *audit.Input) {
	in.AssignsGPUs, in.ExclusiveGPUs = true, true
	in.Pods[0].GPUIndexes, in.Pods[1].GPUIndexes = farm.NewGPUSet(0, 1), farm.NewGPUSet(2)
	in.GPUs = []farm.GPURow{
		{ID: 1, User: "kim", Pod: kimPod, Node: "farm5", Index: 0}, {ID: 2, User: "kim", Pod: kimPod, Node: "farm5", Index: 1},
		{ID: 3, User: "lee", Pod: leePod, Node: "farm5", Index: 2},
	}
}

// shareGPU has lee's pod use kim's GPU 1 too.
func shareGPU(in *audit.Input) {
	in.Pods[1].GPUIndexes = farm.NewGPUSet(1, 2)
	in.GPUs = append(in.GPUs, farm.GPURow{ID: 4, User: "lee", Pod: leePod, Node: "farm5", Index: 1})
}

// One port is told as one, by its number, and several from the lowest on.
func TestPortsAreCountedInWords(t *testing.T) {
	t.Parallel()
	row := func(port int) farm.Row {
		return farm.Row{User: "lee", Pod: "ailab-lee-0000000d", Port: farm.Port{External: port}}
	}
	for want, breaks := range map[string]func(in *audit.Input){
		"port 30009, reserved for a pod that is gone":         func(in *audit.Input) { in.Rows = append(in.Rows, row(30009)) },
		"2 ports from 30009, reserved for a pod that is gone": func(in *audit.Input) { in.Rows = append(in.Rows, row(30009), row(30010)) },
		"phase Failed, and it holds port 30002":               func(in *audit.Input) { in.Pods[1].Phase = "Failed" },
		"phase Failed, and it holds 2 ports from 30000":       func(in *audit.Input) { in.Pods[0].Phase = "Failed" },
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			in := whole()
			breaks(&in)
			found := audit.Compare(in).Findings
			if len(found) != 1 || found[0].Detail != want {
				t.Errorf("found %+v", found)
			}
		})
	}
}

// The audit promises of a home without an account what PUT /accounts/users does with it.
func TestWhoTakesUpAHomeOfNobody(t *testing.T) {
	t.Parallel()
	const takes, refuses = "which was gone's: PUT /accounts/users takes it up again", "PUT /accounts/users does not take it up"
	for name, c := range map[string]struct {
		retired []audit.Retired
		groups  []farm.Group
		want    string
	}{
		"nobody is known":             {nil, nil, "it belongs to uid 20009"},
		"its own number":              {[]audit.Retired{{ID: 20009, Name: "gone"}}, nil, takes},
		"its account's and its group": {[]audit.Retired{{ID: 20009, Name: "gone", Group: true}, {ID: 20009, Name: "gone"}}, nil, takes},
		"its group's alone":           {[]audit.Retired{{ID: 20009, Name: "gone", Group: true}}, nil, "it belongs to uid 20009"},
		"another's alone":             {[]audit.Retired{{ID: 20009, Name: "max"}}, nil, "it belongs to uid 20009"},
		"its own and another's":       {[]audit.Retired{{ID: 20009, Name: "gone"}, {ID: 20009, Name: "max"}}, nil, "and also max's: " + refuses},
		"another's and its own":       {[]audit.Retired{{ID: 20009, Name: "max", Group: true}, {ID: 20009, Name: "gone"}}, nil, "and also max's: " + refuses},
		"its own, a group's by now":   {[]audit.Retired{{ID: 20009, Name: "gone"}}, []farm.Group{{Name: "max", GID: 20009}}, "is the number of group max: " + refuses},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := whole()
			in.Homes["gone"], in.Retired, in.Groups = 20009, c.retired, append(in.Groups, c.groups...)
			for _, found := range audit.Compare(in).Findings {
				if found.Kind == audit.HomeOfNobody && strings.HasSuffix(found.Detail, c.want) {
					return
				}
			}
			t.Errorf("found %+v", audit.Compare(in).Findings)
		})
	}
}

// rename gives lee's row and Service to another pod.
func rename(in *audit.Input, pod farm.PodName, user farm.UserName) {
	in.Rows[2].Pod, in.Rows[2].User, in.Services[2].Pod, in.Services[2].User = pod, user, pod, user
}

func TestEachFaultIsFoundAndNothingElse(t *testing.T) {
	t.Parallel()
	for _, tc := range faults() {
		t.Run(string(tc.kind)+": "+tc.name, func(t *testing.T) {
			t.Parallel()
			in := whole()
			tc.breaks(&in)
			found := audit.Compare(in).Findings
			want := append([]audit.Kind{tc.kind}, tc.also...)
			var got []audit.Kind
			for _, f := range found {
				got = append(got, f.Kind)
			}
			slices.Sort(want)
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Fatalf("found %+v, want %v", found, want)
			}
			at := slices.IndexFunc(found, func(f audit.Finding) bool { return f.Kind == tc.kind && f.Object == tc.object })
			if at < 0 {
				t.Fatalf("no %s of %s in %+v", tc.kind, tc.object, found)
			}
			if f := found[at]; f.User != tc.user || f.Detail == "" || !strings.Contains(f.Remedy, tc.remedy) {
				t.Errorf("got %+v, want user %q and a command with %q", f, tc.user, tc.remedy)
			}
		})
	}
}

func TestEveryKindHasATestAndIsDocumented(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	tested := map[audit.Kind]bool{}
	for _, tc := range faults() {
		tested[tc.kind] = true
	}
	for _, kind := range audit.Kinds() {
		if !tested[kind] {
			t.Errorf("no test finds %s", kind)
		}
		if !strings.Contains(string(guide), "| `"+string(kind)+"` |") {
			t.Errorf("docs/operations.md does not tell of %s", kind)
		}
	}
	source, err := os.ReadFile("finding.go")
	if err != nil {
		t.Fatal(err)
	}
	if n := len(regexp.MustCompile(`(?m)^\t\w+\s+Kind = "`).FindAll(source, -1)); n != len(audit.Kinds()) {
		t.Errorf("%d kinds are declared, %d are listed", n, len(audit.Kinds()))
	}
}

// What an operation works on is half done by nature.
func TestUnfinishedWorkIsNotAFault(t *testing.T) {
	t.Parallel()
	for name, breaks := range map[string]func(in *audit.Input){
		"an account in the making has a home already": func(in *audit.Input) {
			in.Homes["new"] = 20005
			in.Entries = []audit.Entry{{ID: "J", Kind: "create", User: "new", StartedAt: now.Add(-time.Second)}}
		},
		"a deleted account still has its home": func(in *audit.Input) {
			in.Homes["gone"] = 20009
			in.Entries = []audit.Entry{{ID: "J", Kind: "delete", User: "gone", StartedAt: now}}
		},
		"a pod in the making has rows only": func(in *audit.Input) {
			in.Rows = append(in.Rows, farm.Row{ID: 9, User: "lee", Pod: "ailab-lee-0000000d", Port: farm.Port{External: 30009}})
			in.Operations = []farm.Operation{{ID: "O", Kind: farm.OperationCreate, Pod: "ailab-lee-0000000d", StartedAt: now}}
		},
		"a migration leaves an old pod without Services": func(in *audit.Input) {
			in.Services = in.Services[:2]
			in.Operations = []farm.Operation{{ID: "O", Kind: farm.OperationMigrate, Pod: "ailab-lee-0000000d", OldPod: leePod, StartedAt: now}}
		},
		"a pod that is going": func(in *audit.Input) {
			in.Pods[1].Terminating, in.Rows, in.Services = true, in.Rows[:2], in.Services[:2]
		},
		"a fresh share": func(in *audit.Input) {
			*in = audit.Input{Fresh: true, Accounts: in.Accounts[:1], Groups: in.Groups[:1], Now: now}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := whole()
			breaks(&in)
			for _, f := range audit.Compare(in).Findings {
				t.Errorf("found %+v", f)
			}
		})
	}
}

// A part that cannot be read never makes what others say look wrong.
func TestWithoutAPartTheRestIsCompared(t *testing.T) {
	t.Parallel()
	parts := []audit.Part{audit.PartLedger, audit.PartSudoers, audit.PartJournal, audit.PartRetired, audit.PartHomes,
		audit.PartRows, audit.PartOperations, audit.PartPods, audit.PartServices}
	for _, part := range parts {
		t.Run(string(part), func(t *testing.T) {
			t.Parallel()
			in := whole()
			in.Unreadable[part] = errors.New("down")
			switch part {
			case audit.PartLedger:
				in.Accounts, in.Groups, in.Shadow, in.Sudoers, in.Retired = nil, nil, nil, nil, nil
			case audit.PartHomes:
				in.Homes = nil
			case audit.PartRows:
				in.Rows = nil
			case audit.PartPods:
				in.Pods = nil
			case audit.PartServices:
				in.Services = nil
			}
			found := audit.Compare(in).Findings
			if len(found) != 1 || found[0].Kind != audit.Unreadable || found[0].Object != string(part) {
				t.Errorf("found %+v, want only that %s cannot be read", found, part)
			}
		})
	}
}

func TestConfirmKeepsWhatBothReadingsShow(t *testing.T) {
	t.Parallel()
	first, second := whole(), whole()
	delete(first.Homes, "kim")
	delete(first.Homes, "lee")
	delete(second.Homes, "lee")
	second.Homes["new"] = 20009
	found := audit.Confirm(audit.Compare(first), audit.Compare(second)).Findings
	if len(found) != 1 || found[0].Kind != audit.NoHome || found[0].Object != "lee" {
		t.Errorf("found %+v, want that lee has no home", found)
	}
}
