package catalog

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"config-server/internal/farm"
	"config-server/internal/registry"
)

// loginsKept is how long logins serve before they are read anew.
const loginsKept = time.Minute

// keys are the logins of the session template's pull secrets, and what was in the way of some.
type keys struct {
	ring     registry.Keyring
	warnings []string
	readAt   time.Time // zero = never
}

// logins are those that kubelet would have for a workspace: of the pull secrets that the session template
// names. One that is not there, may not be read or cannot be understood is a warning.
func (s *Service) logins(ctx context.Context) (registry.Keyring, []string, error) {
	s.mu.Lock()
	known := s.keys
	s.mu.Unlock()
	if !known.readAt.IsZero() && s.Now().Sub(known.readAt) < loginsKept {
		return known.ring, known.warnings, nil
	}
	read := keys{readAt: s.Now()}
	template, warning, err := s.session(ctx)
	if err != nil {
		return registry.Keyring{}, nil, err
	}
	if warning != "" {
		read.warnings = append(read.warnings, warning)
	}
	for _, reference := range template.ImagePullSecrets {
		warning, err := s.addLogins(ctx, &read.ring, reference.Name)
		if err != nil {
			return registry.Keyring{}, nil, err
		}
		if warning != "" {
			read.warnings = append(read.warnings, warning)
		}
	}
	for _, warning := range read.warnings {
		s.Log.WarnContext(ctx, warning)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys = read
	return read.ring, read.warnings, nil
}

// session is the pod of the session template. Without one, or without the right to read it, it is empty,
// as for workspaces.
func (s *Service) session(ctx context.Context) (corev1.PodSpec, string, error) {
	if s.SessionTemplate == "" {
		return corev1.PodSpec{}, "", nil
	}
	template, found, err := s.Cluster.PodTemplate(ctx, s.SessionTemplate)
	switch {
	case farm.IsForbidden(err):
		return corev1.PodSpec{}, fmt.Sprintf("PodTemplate %s may not be read (get podtemplates): its pull secrets are not used", s.SessionTemplate), nil
	case err != nil:
		return corev1.PodSpec{}, "", fmt.Errorf("read POD_TEMPLATE: %w", err)
	case !found:
		return corev1.PodSpec{}, fmt.Sprintf("there is no PodTemplate %s: no pull secrets are used", s.SessionTemplate), nil
	}
	return template.Template.Spec, "", nil
}

// addLogins reads one pull secret.
func (s *Service) addLogins(ctx context.Context, ring *registry.Keyring, name string) (warning string, err error) {
	secret, found, err := s.Cluster.Secret(ctx, name)
	content, has := secret.Data[corev1.DockerConfigJsonKey]
	switch {
	case farm.IsForbidden(err):
		return fmt.Sprintf("pull secret %s may not be read (get secrets): registries are asked without it", name), nil
	case err != nil:
		return "", fmt.Errorf("read the pull secrets of POD_TEMPLATE: %w", err)
	case !found:
		return fmt.Sprintf("there is no pull secret %s", name), nil
	case !has:
		return fmt.Sprintf("pull secret %s has no %s", name, corev1.DockerConfigJsonKey), nil
	}
	if err := ring.Add(content); err != nil {
		return fmt.Sprintf("pull secret %s: %v", name, err), nil
	}
	return "", nil
}
