package projects_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"config-server/internal/projects"
)

// ready are the facts of a project whose queue works.
func ready() projects.Facts {
	keys := projects.DefaultKeys()
	node := func(name string) projects.Node {
		return projects.Node{Name: name, Labels: map[string]string{keys.Gate: "true", keys.Managed: "true", keys.OfNode("vision"): ""}}
	}
	return projects.Facts{
		Project: projects.Project{Name: "vision", Binding: projects.Binding{Nodes: []string{"farm5", "farm6"}}},
		Nodes:   []projects.Node{node("farm5"), node("farm6"), {Name: "farm7"}},
		Namespace: &projects.Namespace{
			Labels:      map[string]string{keys.Provisioning: "true"},
			Annotations: map[string]string{keys.Selector: keys.OfNode("vision")},
		},
		Cueue:  &projects.Cueue{Name: "vision", Generation: 2, ObservedGeneration: 2, Nodes: []string{"farm5", "farm6"}},
		Unread: map[projects.Part]string{},
	}
}

func TestCheckSaysWhatAQueueLacks(t *testing.T) {
	t.Parallel()
	keys := projects.DefaultKeys()
	unlabel := func(f *projects.Facts, key string, nodes ...int) {
		for _, i := range nodes {
			delete(f.Nodes[i].Labels, key)
		}
	}
	for name, tc := range map[string]struct {
		change func(*projects.Facts)
		// want are the lines that are not ok: name, result.
		want []string
		// text and todo stand in the first of them.
		text, todo string
	}{
		"nothing": {func(*projects.Facts) {}, nil, "", ""},
		"a reserved name": {func(f *projects.Facts) { f.Reserved = []string{"default", "vis*"} },
			[]string{"name failed"}, "vision is a reserved name", "PROJECT_RESERVED"},
		"a project that is being deleted": {func(f *projects.Facts) { f.Project.Deleting = true }, []string{"name failed"}, "being deleted", "wait"},
		"no binding": {func(f *projects.Facts) { f.Project.Binding = projects.Binding{} },
			[]string{"bound failed", "gated unknown", "managed unknown", "labelled unknown"}, "no node is bound", "name nodes or node groups"},
		"a binding to what there is not": {func(f *projects.Facts) {
			f.Project.Binding = projects.Binding{Nodes: []string{"farm9"}, NodeGroups: []string{"a100"}}
		}, []string{"bound failed", "gated unknown", "managed unknown", "labelled unknown"}, "there is no node farm9, node group a100", "correct the binding"},
		"a binding to groups without nodes": {func(f *projects.Facts) {
			f.Project.Binding, f.Groups = projects.Binding{NodeGroups: []string{"none"}}, []projects.NodeGroup{{Name: "none"}}
		}, []string{"bound failed", "gated unknown", "managed unknown", "labelled unknown"}, "its node groups have none", "nodeSelector"},
		"one node that there is not": {func(f *projects.Facts) { f.Project.Binding.Nodes = append(f.Project.Binding.Nodes, "farm9") },
			[]string{"bound partly"}, "2 nodes: farm5, farm6; there is no node farm9", "correct the binding"},
		"a gate that is shut": {func(f *projects.Facts) { unlabel(f, keys.Gate, 1) },
			[]string{"gated partly"}, "1 of 2 bound nodes may be labelled", "kubectl label node farm6 " + keys.Gate + "=true"},
		"all gates": {func(f *projects.Facts) { unlabel(f, keys.Gate, 0, 1) },
			[]string{"gated failed"}, "no bound node may be labelled", "kubectl label node farm5 farm6 " + keys.Gate + "=true"},
		"a gate of another value": {func(f *projects.Facts) { f.Nodes[0].Labels[keys.Gate] = "yes" },
			[]string{"gated partly"}, "1 of 2", "kubectl label node farm5"},
		"nodes that do not count for queues": {func(f *projects.Facts) { unlabel(f, keys.Managed, 0, 1) },
			[]string{"managed failed"}, "no bound node counts for queues", "kubectl label node farm5 farm6 " + keys.Managed + "=true"},
		"labels of nodes": {func(f *projects.Facts) { unlabel(f, keys.OfNode("vision"), 0, 1) },
			[]string{"labelled failed"}, "no bound node bears the label " + keys.OfNode("vision"), "let the controller run"},
		"its namespace": {func(f *projects.Facts) { f.Namespace = nil },
			[]string{"namespace failed", "provisioning unknown", "selector unknown"}, "there is no namespace vision", "let the controller run"},
		"the label of its namespace": {func(f *projects.Facts) { f.Namespace.Labels[keys.Provisioning] = "false" },
			[]string{"provisioning failed"}, `is "false" and not "true"`, "let the controller run"},
		"the annotation of its namespace": {func(f *projects.Facts) { delete(f.Namespace.Annotations, keys.Selector) },
			[]string{"selector failed"}, "the namespace has no annotation " + keys.Selector, "let the controller run"},
		"the kind of queues": {func(f *projects.Facts) { f.Cueue, f.NoQueues = nil, true },
			[]string{"cueue failed", "observed unknown", "nodes unknown"}, "the cluster has no kind Cueue", "install"},
		"the queue": {func(f *projects.Facts) { f.Cueue = nil },
			[]string{"cueue failed", "observed unknown", "nodes unknown"}, "the queue has not been made", "whether it runs"},
		"a look at its present form": {func(f *projects.Facts) { f.Cueue.Generation = 3 },
			[]string{"observed failed"}, "generation 2 has been observed, 3 is the present one", "its log"},
		"all nodes in the queue": {func(f *projects.Facts) { f.Cueue.Nodes = nil }, []string{"nodes failed"}, "the queue has no nodes", "lines above"},
		"a node in the queue": {func(f *projects.Facts) { f.Cueue.Nodes = []string{"farm5"} },
			[]string{"nodes partly"}, "it lacks farm6", "its log"},
		"the right to read nodes": {func(f *projects.Facts) { f.Unread[projects.PartNodes] = "forbidden" },
			[]string{"bound unknown", "gated unknown", "managed unknown", "labelled unknown"}, "forbidden", "let the service list nodes"},
		"the right to read namespaces": {func(f *projects.Facts) { f.Unread[projects.PartNamespace] = "forbidden" },
			[]string{"namespace unknown", "provisioning unknown", "selector unknown"}, "forbidden", "get namespaces"},
		"the right to read queues": {func(f *projects.Facts) { f.Unread[projects.PartCueue] = "forbidden" },
			[]string{"cueue unknown", "observed unknown", "nodes unknown"}, "forbidden", "get cueues"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			facts := ready()
			tc.change(&facts)
			lines := projects.Check(facts, keys)
			var order, got []string
			for _, line := range lines {
				order = append(order, line.Name)
				if line.Result == projects.OK {
					if line.Todo != "" {
						t.Errorf("%s is ok and says what to do: %s", line.Name, line.Todo)
					}
					continue
				}
				if len(got) == 0 && (!strings.Contains(line.Text, tc.text) || !strings.Contains(line.Todo, tc.todo)) {
					t.Errorf("%s: %q, to do %q", line.Name, line.Text, line.Todo)
				}
				if line.Todo == "" {
					t.Errorf("%s does not say what to do", line.Name)
				}
				got = append(got, fmt.Sprintf("%s %s", line.Name, line.Result))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("lines that are not ok (-want +got)\n%s", diff)
			}
			all := "name bound gated managed labelled namespace provisioning selector cueue observed nodes"
			if strings.Join(order, " ") != all {
				t.Errorf("lines %v", order)
			}
			first, failed := projects.FirstFailure(lines)
			var want string
			for _, line := range tc.want {
				if at, ok := strings.CutSuffix(line, " failed"); ok && want == "" {
					want = at
				}
			}
			if failed != (want != "") || first.Name != want {
				t.Errorf("first failure %q, want %q", first.Name, want)
			}
		})
	}
}

func TestCheckNamesAFewOfManyNodes(t *testing.T) {
	t.Parallel()
	facts := ready()
	for i := range 20 {
		facts.Project.Binding.Nodes = append(facts.Project.Binding.Nodes, fmt.Sprintf("gone%02d", i))
	}
	line := projects.Check(facts, projects.DefaultKeys())[1]
	if want := "there is no node gone00, node gone01, node gone02, node gone03, node gone04, node gone05, node gone06, node gone07 and 12 more"; !strings.HasSuffix(line.Text, want) {
		t.Errorf("text %q", line.Text)
	}
}
