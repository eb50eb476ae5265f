package gpuoptions

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"config-server/internal/farm"
)

// The kinds that a scripted cluster is asked for.
const (
	kindTemplates = "podtemplates"
	kindQuotas    = "quotas"
	kindNodes     = "nodes"
	kindClasses   = "deviceclasses"
	kindAllPods   = "pods everywhere"
	kindPods      = "pods"
)

// scripted answers as its fields say and counts what it is asked.
type scripted struct {
	mu        sync.Mutex
	templates []corev1.PodTemplate
	quotas    []corev1.ResourceQuota
	nodes     []corev1.Node
	classes   []resourcev1.DeviceClass
	pods      []corev1.Pod // everywhere
	ownPods   []corev1.Pod
	fails     map[string]error
	hangs     map[string]bool
	asked     map[string]int
}

func (s *scripted) answer(ctx context.Context, kind string) error {
	s.mu.Lock()
	if s.asked == nil {
		s.asked = map[string]int{}
	}
	s.asked[kind]++
	err, hangs := s.fails[kind], s.hangs[kind]
	s.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return fmt.Errorf("list %s: %w", kind, ctx.Err())
	}
	return err
}

func (s *scripted) fail(kind string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fails == nil {
		s.fails = map[string]error{}
	}
	s.fails[kind] = err
}

// take returns how often each kind was asked for since the last take.
func (s *scripted) take() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := s.asked
	s.asked = nil
	return asked
}

func (s *scripted) PodTemplates(ctx context.Context, label string) ([]corev1.PodTemplate, error) {
	if err := s.answer(ctx, kindTemplates); err != nil {
		return nil, err
	}
	var with []corev1.PodTemplate
	for _, template := range s.templates {
		if _, ok := template.Labels[label]; ok {
			with = append(with, template)
		}
	}
	return with, nil
}

func (s *scripted) ResourceQuotas(ctx context.Context) ([]corev1.ResourceQuota, error) {
	if err := s.answer(ctx, kindQuotas); err != nil {
		return nil, err
	}
	return s.quotas, nil
}

func (s *scripted) NodeResources(ctx context.Context) ([]corev1.Node, error) {
	if err := s.answer(ctx, kindNodes); err != nil {
		return nil, err
	}
	return s.nodes, nil
}

func (s *scripted) DeviceClasses(ctx context.Context) ([]resourcev1.DeviceClass, error) {
	if err := s.answer(ctx, kindClasses); err != nil {
		return nil, err
	}
	return s.classes, nil
}

func (s *scripted) BoundPods(ctx context.Context, everywhere bool) ([]corev1.Pod, error) {
	if everywhere {
		if err := s.answer(ctx, kindAllPods); err != nil {
			return nil, err
		}
		return s.pods, nil
	}
	if err := s.answer(ctx, kindPods); err != nil {
		return nil, err
	}
	return s.ownPods, nil
}

// forbidden is the API server's answer for want of a right.
func forbidden() error {
	return fmt.Errorf("list something: %w", &farm.APIError{Status: 403, Reason: "Forbidden", Err: errors.New("it is forbidden")})
}

// silent is what a call says that had no answer in time.
func silent() error {
	return fmt.Errorf("list something: no answer within 15s: %w", &farm.APIError{Err: context.DeadlineExceeded})
}

func quotaOf(pairs ...string) corev1.ResourceQuota {
	return corev1.ResourceQuota{Spec: corev1.ResourceQuotaSpec{Hard: list(pairs...)}}
}

// ofGPUs is a cluster with one node of four GPUs, one of which is in use.
func ofGPUs() *scripted {
	return &scripted{
		nodes: []corev1.Node{node("a", list("nvidia.com/gpu", "4"))}, pods: []corev1.Pod{pod("a", list("nvidia.com/gpu", "1"))},
	}
}

func listed(t *testing.T, s *Scanner) ([]string, []string) {
	t.Helper()
	offer, err := s.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return briefs(t, offer.Options), offer.Warnings
}
