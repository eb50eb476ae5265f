package workspaces

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"config-server/internal/farm"
	"config-server/internal/templates"
)

// readLayers reads the PodTemplates that shape the pod, the lowest first: the one of every session,
// the user's own, the GPU option's. Without any it asks nobody. They are read for every workspace, so
// that a change counts from the next one on.
func (l *launch) readLayers(ctx context.Context) error {
	if err := l.readSessionLayer(ctx); err != nil {
		return err
	}
	if name := l.config.PodTemplate; name != "" {
		if err := l.readNamedLayer(ctx, name, "pod_template of the user config"); err != nil {
			return err
		}
	}
	if l.gpu != nil && !l.gpu.Detected() {
		return l.readNamedLayer(ctx, l.gpu.Template, "the template of the GPU option")
	}
	return nil
}

// readSessionLayer reads the template of every session. One that is not there, or may not be read,
// counts as empty: it is the farm's default and nobody's wish.
func (l *launch) readSessionLayer(ctx context.Context) error {
	name := l.SessionTemplate
	if name == "" {
		return nil
	}
	template, found, err := l.Cluster.PodTemplate(ctx, name)
	switch {
	case farm.IsForbidden(err):
		l.Log.WarnContext(ctx, "the template of sessions may not be read and is left out", "template", name, "pod", l.pod, "error", err)
	case err != nil:
		return l.buildFailed(farm.Internal, fmt.Errorf("read POD_TEMPLATE: %w", err))
	case !found:
		l.Log.WarnContext(ctx, "there is no template of sessions", "template", name, "pod", l.pod)
	default:
		l.layers = append(l.layers, templates.Layer{Name: name, Template: template.Template})
	}
	return nil
}

// readNamedLayer reads a template that somebody asked for by name: without it the workspace would be
// another one than was asked for, so then there is none.
func (l *launch) readNamedLayer(ctx context.Context, name, asked string) error {
	if faults := validation.IsDNS1123Subdomain(name); len(faults) > 0 {
		return l.buildFailed(farm.Invalid, fmt.Errorf("PodTemplate '%s', %s, is no name of an object: %s", name, asked, strings.Join(faults, "; ")))
	}
	template, found, err := l.Cluster.PodTemplate(ctx, name)
	if err != nil {
		return l.buildFailed(farm.Internal, fmt.Errorf("read %s: %w", asked, err))
	}
	if !found {
		return l.buildFailed(farm.Invalid, fmt.Errorf("PodTemplate '%s', %s, does not exist in namespace %s", name, asked, l.Settings.Namespace))
	}
	l.layers = append(l.layers, templates.Layer{Name: name, Template: template.Template})
	return nil
}

// withoutRuntimeClass tells whether a refused pod shall be tried once more without its runtime class:
// if the cluster does not have it, and only the service proposed it. Where the GPU works without one,
// nobody needs to be told.
func (l *launch) withoutRuntimeClass(ctx context.Context, refusal error) bool {
	class := l.spec.Spec.RuntimeClassName
	if class == nil || templates.SetsRuntimeClass(l.layers) || !farm.IsForbidden(refusal) ||
		!strings.Contains(refusal.Error(), fmt.Sprintf("RuntimeClass %q not found", *class)) {
		return false
	}
	l.noRuntimeClass.Do(func() {
		l.Log.WarnContext(ctx, "the cluster has no such RuntimeClass: pods are made without it (told once)", "class", *class)
	})
	return true
}
