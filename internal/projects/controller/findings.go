package controller

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"config-server/internal/projects"
	"config-server/internal/projects/v1alpha1"
)

// findings are the conditions of a project at one look, and the faults that are no condition, which are tried again.
type findings struct {
	all    []projects.Condition
	faults []error
}

func newFindings(known []projects.Condition) *findings { return &findings{all: known} }

// take makes a condition or a fault of an error. Of several errors that make the same condition the first one counts.
func (f *findings) take(err error) {
	var refused refusedQuota
	switch {
	case err == nil:
	case errors.Is(err, errTerminating), apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		f.add(projects.ConditionNamespaceTerminating, "The namespace is being deleted. It is made anew once it is gone; see what holds it up: kubectl get namespace -o yaml.")
	case errors.As(err, &refused):
		f.add(projects.ConditionQuotaRefused, "Correct the quota: "+firstLine(err.Error()))
	case apierrors.IsForbidden(err):
		f.add(projects.ConditionForbidden, "Give the controller the right that it lacks; the chart's ClusterRole has all: "+firstLine(err.Error()))
	default:
		f.faults = append(f.faults, err)
	}
}

func (f *findings) add(kind, message string) {
	if !f.has(kind) {
		f.all = append(f.all, projects.Condition{Type: kind, Message: message, Blocks: true})
	}
}

func (f *findings) has(kind string) bool {
	return slices.ContainsFunc(f.all, func(c projects.Condition) bool { return c.Type == kind })
}

// outrun reports whether somebody else wrote between our reading and our writing: what was read is old, and nothing follows from it.
func (f *findings) outrun() bool { return slices.ContainsFunc(f.faults, apierrors.IsConflict) }

// setConditions leaves in the list those that hold, with status True; Ready is left as it is.
func setConditions(list *[]metav1.Condition, generation int64, hold []projects.Condition) {
	*list = slices.DeleteFunc(*list, func(has metav1.Condition) bool {
		return has.Type != projects.ConditionReady && !slices.ContainsFunc(hold, func(c projects.Condition) bool { return c.Type == has.Type })
	})
	for _, c := range hold {
		meta.SetStatusCondition(list, metav1.Condition{Type: c.Type, Status: metav1.ConditionTrue, Reason: c.Type, Message: c.Message, ObservedGeneration: generation})
	}
}

// setReady sets the condition Ready: true if nothing blocks and nothing has to be tried again.
func setReady(list *[]metav1.Condition, generation int64, met *findings) {
	ready := metav1.Condition{Type: projects.ConditionReady, Status: metav1.ConditionTrue, Reason: "Done", Message: "Everything that the project asks for is done.", ObservedGeneration: generation}
	var blocking []string
	for _, c := range met.all {
		if c.Blocks {
			blocking = append(blocking, c.Type)
		}
	}
	switch {
	case len(blocking) > 0:
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, blocking[0], "See the conditions: "+strings.Join(blocking, ", ")+"."
	case len(met.faults) > 0:
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, "Retrying", "Something has failed and is tried again; the controller's log says what."
	}
	meta.SetStatusCondition(list, ready)
}

// tell makes an event and a line in the log of each condition that was not there at the last look of this instance.
func (c *controller) tell(ctx context.Context, name string, object *v1alpha1.Project, met *findings) {
	for _, condition := range c.problems.set(name, met.all) {
		c.log.WarnContext(ctx, "a project has a new condition", "project", name, "condition", condition.Type, "message", condition.Message)
		if object == nil || c.events == nil || meta.IsStatusConditionTrue(object.Status.Conditions, condition.Type) {
			continue
		}
		c.events.Eventf(object, nil, corev1.EventTypeWarning, condition.Type, "Reconcile", "%s", condition.Message)
	}
}

// problems are the conditions of all projects at their last look. It is a collector of metrics.
type problems struct {
	desc *prometheus.Desc

	mu   sync.Mutex
	last map[string]map[string]bool // project -> condition
}

func newProblems() *problems {
	return &problems{
		desc: prometheus.NewDesc("project_controller_conditions", "Projects of which a condition other than Ready holds.", []string{"condition"}, nil),
		last: map[string]map[string]bool{},
	}
}

// set keeps the conditions of a project and returns those that are new.
func (p *problems) set(project string, hold []projects.Condition) []projects.Condition {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, before := map[string]bool{}, p.last[project]
	var fresh []projects.Condition
	for _, c := range hold {
		now[c.Type] = true
		if !before[c.Type] {
			fresh = append(fresh, c)
		}
	}
	delete(p.last, project)
	if len(now) > 0 {
		p.last[project] = now
	}
	return fresh
}

// Describe implements prometheus.Collector.
func (p *problems) Describe(out chan<- *prometheus.Desc) { out <- p.desc }

// Collect implements prometheus.Collector.
func (p *problems) Collect(out chan<- prometheus.Metric) {
	counts := map[string]int{}
	for _, kind := range []string{
		projects.ConditionReservedName, projects.ConditionNameTooLong, projects.ConditionForbidden, projects.ConditionQuotaRefused,
		projects.ConditionNamespaceTerminating, projects.ConditionDanglingNodes, projects.ConditionDanglingGroups, projects.ConditionUnknownRoles,
	} {
		counts[kind] = 0
	}
	p.mu.Lock()
	for _, hold := range p.last {
		for kind := range hold {
			counts[kind]++
		}
	}
	p.mu.Unlock()
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		out <- prometheus.MustNewConstMetric(p.desc, prometheus.GaugeValue, float64(counts[kind]), kind)
	}
}
