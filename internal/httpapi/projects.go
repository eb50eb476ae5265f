package httpapi

import (
	"context"
	"net/http"

	"config-server/internal/farm"
	"config-server/internal/projects"
	"config-server/internal/projects/reader"
)

// Projects tells projects and their queues. A project that does not exist is farm.NotFound, as is a queue; other errors say what
// cannot be read.
type Projects interface {
	// List lists the projects by name. The warnings say what is not known.
	List(ctx context.Context) ([]reader.Listed, []string, error)
	Check(ctx context.Context, project string) ([]projects.Line, error)
	Queue(ctx context.Context, project string) (projects.Cueue, error)
}

// mountProjects adds the calls on projects. They are there while projects are switched off too, to say how to switch them on.
func (a *api) mountProjects(handle func(pattern string, h func(http.ResponseWriter, *http.Request) error)) {
	handle("/projects", a.listProjects)
	handle("/projects/{project}/check", a.checkProject)
	handle("/projects/{project}/queue", a.showQueue)
}

func (a *api) projectsOn() error {
	if a.Projects == nil {
		return farm.Errorf(farm.NotFound, "projects are switched off; PROJECTS=on switches them on (docs/projects.md)")
	}
	return nil
}

type project struct {
	Name    string            `json:"name"`
	Members []projectMember   `json:"members"`
	Nodes   []string          `json:"nodes"`
	Quota   map[string]string `json:"quota"`
}

type projectMember struct {
	Name string        `json:"name"`
	Role projects.Role `json:"role"`
}

// listProjects answers GET /projects.
func (a *api) listProjects(w http.ResponseWriter, r *http.Request) error {
	if err := a.projectsOn(); err != nil {
		return err
	}
	all, warnings, err := a.Projects.List(r.Context())
	if err != nil {
		return unseen(err)
	}
	told := make([]project, len(all))
	for i, p := range all {
		told[i] = project{Name: p.Name, Members: []projectMember{}, Nodes: p.Nodes, Quota: map[string]string{}}
		for _, m := range p.Members {
			told[i].Members = append(told[i].Members, projectMember{m.Name(), m.Role})
		}
		for name, hard := range p.Quota {
			told[i].Quota[name] = hard.String()
		}
	}
	return answerView(w, r, addWarnings(object{"projects": told}, warnings))
}

type checkLine struct {
	Name   string          `json:"name"`
	Result projects.Result `json:"result"`
	Text   string          `json:"text"`
	Todo   string          `json:"todo"`
}

// checkProject answers GET /projects/{project}/check.
func (a *api) checkProject(w http.ResponseWriter, r *http.Request) error {
	name, err := a.projectParam(r)
	if err != nil {
		return err
	}
	lines, err := a.Projects.Check(r.Context(), name)
	if err != nil {
		return err
	}
	told := make([]checkLine, len(lines))
	ok := true
	for i, l := range lines {
		told[i] = checkLine(l)
		ok = ok && l.Result == projects.OK
	}
	return answerView(w, r, object{"project": name, "ok": ok, "lines": told})
}

type waitingPod struct {
	Position  int     `json:"position"` // 1 = the head
	Name      string  `json:"name"`
	Namespace string  `json:"namespace"`
	UID       string  `json:"uid"`
	Since     *string `json:"since"`
}

type queueBlock struct {
	Type    string  `json:"type"`
	Meaning string  `json:"meaning"`
	Reason  string  `json:"reason"`
	Message string  `json:"message"`
	Since   *string `json:"since"`
}

// showQueue answers GET /projects/{project}/queue.
func (a *api) showQueue(w http.ResponseWriter, r *http.Request) error {
	name, err := a.projectParam(r)
	if err != nil {
		return err
	}
	queue, err := a.Projects.Queue(r.Context(), name)
	if err != nil {
		return err
	}
	waiting := make([]waitingPod, len(queue.Waiting))
	for i, p := range queue.Waiting {
		waiting[i] = waitingPod{i + 1, p.Name, p.Namespace, p.UID, timestamp(p.Since)}
	}
	blocks := make([]queueBlock, len(queue.Blocks))
	for i, b := range queue.Blocks {
		blocks[i] = queueBlock{b.Type, b.Meaning(), b.Reason, b.Message, timestamp(b.Since)}
	}
	return answerView(w, r, object{
		"project": name, "priority": queue.Priority, "policy": queue.Policy, "nodes": list(queue.Nodes),
		"observed": queue.ObservedGeneration == queue.Generation, "waiting": waiting, "blocked": blocks,
	})
}

// projectParam is the project in the path, if projects are switched on.
func (a *api) projectParam(r *http.Request) (string, error) {
	if err := a.projectsOn(); err != nil {
		return "", err
	}
	return pathParam(r, "project")
}
