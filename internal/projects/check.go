package projects

import (
	"fmt"
	"slices"
	"strings"
)

// Result is what a line of the check found.
type Result string

// The results.
const (
	OK      Result = "ok"
	Partly  Result = "partly"  // so for some of the nodes
	Failed  Result = "failed"  // the queue cannot work until something is done
	Unknown Result = "unknown" // it could not be looked at, or there is nothing to look at yet
)

// The lines of the check, in its order: each needs what those before it look at.
const (
	LineName         = "name"         // the name is one that a namespace and a label can bear, and not reserved
	LineBound        = "bound"        // nodes are bound to the project
	LineGated        = "gated"        // the nodes may be labelled
	LineManaged      = "managed"      // the nodes count for queues
	LineLabelled     = "labelled"     // the nodes bear the project's label
	LineNamespace    = "namespace"    // the namespace is there
	LineProvisioning = "provisioning" // the namespace says that a queue is wanted
	LineSelector     = "selector"     // the namespace names the nodes' label
	LineCueue        = "cueue"        // the queue has been made
	LineObserved     = "observed"     // its present form has been seen by what runs it
	LineNodes        = "nodes"        // it has its nodes
)

// Line is one thing that a project's queue needs.
type Line struct {
	Name   string
	Result Result
	Text   string // what is so
	Todo   string // what to do; empty if Result is OK
}

// Part is something that the check reads.
type Part string

// The parts.
const (
	PartNodes     Part = "nodes"
	PartNamespace Part = "namespace"
	PartCueue     Part = "cueue"
)

// Namespace is what the check looks at of a namespace.
type Namespace struct{ Labels, Annotations map[string]string }

// Facts are everything that the check of a project looks at.
type Facts struct {
	Project   Project
	Groups    []NodeGroup
	Nodes     []Node     // of the cluster
	Namespace *Namespace // nil = there is none
	Cueue     *Cueue     // nil = there is none
	// NoQueues is set where the cluster does not know the kind Cueue.
	NoQueues bool
	// Unread says of parts that could not be read why.
	Unread map[Part]string
	// Reserved are the names that projects may not have, as Reserved takes them.
	Reserved []string
}

// Check tells line by line what a project's queue needs and whether it is there.
func Check(f Facts, keys Keys) []Line {
	lines := []Line{checkName(f, keys)}
	bound := Bind(f.Project, f.Groups, f.Nodes)
	lines = append(lines, checkNodes(f, bound, keys)...)
	lines = append(lines, checkNamespace(f, keys)...)
	return append(lines, checkCueue(f, bound, keys)...)
}

// FirstFailure is the first line that failed; false if none did.
func FirstFailure(lines []Line) (Line, bool) {
	i := slices.IndexFunc(lines, func(l Line) bool { return l.Result == Failed })
	if i < 0 {
		return Line{}, false
	}
	return lines[i], true
}

func checkName(f Facts, keys Keys) Line {
	name := f.Project.Name
	switch bad := BadName(name, keys); {
	case bad != "":
		return Line{LineName, Failed, fmt.Sprintf("%q cannot be used: %s", name, bad), "make the project anew under another name"}
	case Reserved(name, f.Reserved):
		return Line{LineName, Failed, name + " is a reserved name, for which nothing is made", "make the project anew under a name that PROJECT_RESERVED does not list"}
	case f.Project.Deleting:
		return Line{LineName, Failed, "the project is being deleted", "wait until it is gone, and make it anew if it is still wanted"}
	}
	return Line{Name: LineName, Result: OK, Text: name + " is a name that can be used"}
}

// checkNodes tells of the bound nodes which of them the queue can have.
func checkNodes(f Facts, bound Bound, keys Keys) []Line {
	if why, hidden := f.Unread[PartNodes]; hidden {
		return unread(why, "let the service list nodes and node groups (docs/projects.md)", LineBound, LineGated, LineManaged, LineLabelled)
	}
	label := keys.OfNode(f.Project.Name)
	return []Line{
		checkBound(f.Project, bound),
		onNodes(LineGated, bound.Nodes, "may be labelled", "may be labelled", fmt.Sprintf("kubectl label node %%s %s=%s", keys.Gate, on),
			func(n Node) bool { return n.Labels[keys.Gate] == on }),
		onNodes(LineManaged, bound.Nodes, "count for queues", "counts for queues", fmt.Sprintf("kubectl label node %%s %s=%s", keys.Managed, on),
			func(n Node) bool { return n.Labels[keys.Managed] == on }),
		onNodes(LineLabelled, bound.Nodes, "bear the label "+label, "bears the label "+label,
			"let the controller run (config-server controller), and open the gate of %s, without which it labels nothing",
			func(n Node) bool { _, there := n.Labels[label]; return there }),
	}
}

func checkBound(p Project, bound Bound) Line {
	var dangling []string
	for _, name := range bound.NoNodes {
		dangling = append(dangling, "node "+name)
	}
	for _, name := range bound.NoGroups {
		dangling = append(dangling, "node group "+name)
	}
	line := Line{Name: LineBound, Result: OK, Text: fmt.Sprintf("%s: %s", counted(len(bound.Nodes)), some(names(bound.Nodes)))}
	if len(dangling) > 0 {
		line.Result, line.Todo = Partly, "correct the binding, or add what it names: it takes effect by itself then"
		line.Text += "; there is no " + some(dangling)
	}
	if len(bound.Nodes) > 0 {
		return line
	}
	line.Result, line.Text = Failed, "no node is bound to the project"
	switch {
	case len(dangling) > 0:
		line.Text += ": there is no " + some(dangling)
	case len(p.Binding.NodeGroups) > 0:
		line.Text, line.Todo = line.Text+": its node groups have none", "give the node groups nodes or a nodeSelector that is not empty"
	default:
		line.Todo = "name nodes or node groups in the project's binding"
	}
	return line
}

// onNodes is a line about something that each bound node has to have. Many and one say it of several nodes and of a single one. The
// remedy has one %s for the nodes that lack it.
func onNodes(name string, nodes []Node, many, one, remedy string, has func(Node) bool) Line {
	if len(nodes) == 0 {
		return Line{name, Unknown, "there is no node to look at", "bind nodes first"}
	}
	var lack []string
	for _, n := range nodes {
		if !has(n) {
			lack = append(lack, n.Name)
		}
	}
	if len(lack) == 0 {
		return Line{Name: name, Result: OK, Text: "all bound nodes " + many}
	}
	line := Line{name, Partly, fmt.Sprintf("%d of %d bound nodes %s", len(nodes)-len(lack), len(nodes), many), fmt.Sprintf(remedy, strings.Join(lack, " "))}
	if len(lack) == len(nodes) {
		line.Result, line.Text = Failed, "no bound node "+one
	}
	return line
}

func checkNamespace(f Facts, keys Keys) []Line {
	name := f.Project.Name
	if why, hidden := f.Unread[PartNamespace]; hidden {
		return unread(why, "let the service get namespaces (docs/projects.md)", LineNamespace, LineProvisioning, LineSelector)
	}
	if f.Namespace == nil {
		lines := []Line{{LineNamespace, Failed, "there is no namespace " + name, "let the controller run (config-server controller), which makes it"}}
		return append(lines, later("there is no namespace yet", LineProvisioning, LineSelector)...)
	}
	lines := []Line{{Name: LineNamespace, Result: OK, Text: "namespace " + name + " is there"}}
	const again = "let the controller run (config-server controller), which puts it back at once; if it goes again, another program writes it too"
	keyed := func(line, kind, key, got, want string, there bool) {
		switch {
		case got == want:
			lines = append(lines, Line{Name: line, Result: OK, Text: fmt.Sprintf("%s %s is %q", kind, key, want)})
		case !there:
			lines = append(lines, Line{line, Failed, fmt.Sprintf("the namespace has no %s %s", kind, key), again})
		default:
			lines = append(lines, Line{line, Failed, fmt.Sprintf("%s %s is %q and not %q", kind, key, got, want), again})
		}
	}
	got, there := f.Namespace.Labels[keys.Provisioning]
	keyed(LineProvisioning, "label", keys.Provisioning, got, on, there)
	got, there = f.Namespace.Annotations[keys.Selector]
	keyed(LineSelector, "annotation", keys.Selector, got, keys.OfNode(name), there)
	return lines
}

func checkCueue(f Facts, bound Bound, keys Keys) []Line {
	const ask = "see what runs the queues (Coaster's controller): whether it runs, and its log"
	if why, hidden := f.Unread[PartCueue]; hidden {
		return unread(why, "let the service get cueues of coaster.ten1010.io (docs/projects.md)", LineCueue, LineObserved, LineNodes)
	}
	switch {
	case f.NoQueues:
		return append([]Line{{LineCueue, Failed, "the cluster has no kind Cueue", "install the queueing scheduler (Coaster)"}},
			later("there is no queue yet", LineObserved, LineNodes)...)
	case f.Cueue == nil:
		return append([]Line{{LineCueue, Failed, "the queue has not been made", "do first what the lines above say; if they are all ok, " + ask}},
			later("there is no queue yet", LineObserved, LineNodes)...)
	}
	c := *f.Cueue
	lines := []Line{{Name: LineCueue, Result: OK, Text: "queue " + f.Project.Name + " is there"}}
	if c.ObservedGeneration == c.Generation {
		lines = append(lines, Line{Name: LineObserved, Result: OK, Text: fmt.Sprintf("generation %d has been observed", c.Generation)})
	} else {
		lines = append(lines, Line{LineObserved, Failed, fmt.Sprintf("generation %d has been observed, %d is the present one", c.ObservedGeneration, c.Generation), ask})
	}
	return append(lines, checkQueueNodes(f, bound, keys, c, ask))
}

// checkQueueNodes compares the nodes that the queue has with those that it can have.
func checkQueueNodes(f Facts, bound Bound, keys Keys, c Cueue, ask string) Line {
	if len(c.Nodes) == 0 {
		return Line{LineNodes, Failed, "the queue has no nodes", "do first what the lines above say; if they are all ok, " + ask}
	}
	line := Line{Name: LineNodes, Result: OK, Text: fmt.Sprintf("the queue has %s: %s", counted(len(c.Nodes)), some(c.Nodes))}
	if _, hidden := f.Unread[PartNodes]; hidden {
		return line
	}
	var lack []string
	for _, n := range bound.Nodes {
		_, labelled := n.Labels[keys.OfNode(f.Project.Name)]
		if labelled && n.Labels[keys.Managed] == on && !slices.Contains(c.Nodes, n.Name) {
			lack = append(lack, n.Name)
		}
	}
	if len(lack) > 0 {
		line.Result, line.Todo = Partly, ask
		line.Text += "; it lacks " + some(lack)
	}
	return line
}

// unread are lines about something that may not or cannot be read.
func unread(why, todo string, lines ...string) []Line {
	all := make([]Line, len(lines))
	for i, name := range lines {
		all[i] = Line{name, Unknown, why, todo}
	}
	return all
}

// later are lines about what is not there yet.
func later(why string, lines ...string) []Line {
	return unread(why, "do first what the lines above say", lines...)
}

func names(nodes []Node) []string {
	all := make([]string, len(nodes))
	for i, n := range nodes {
		all[i] = n.Name
	}
	return all
}

func counted(nodes int) string {
	if nodes == 1 {
		return "1 node"
	}
	return fmt.Sprintf("%d nodes", nodes)
}

// some lists the first names: a project may have a thousand nodes.
func some(names []string) string {
	const most = 8
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}
