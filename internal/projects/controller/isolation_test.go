package controller_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"config-server/internal/projects"
	"config-server/internal/testkit"
)

// The controller taints the nodes of projects as NODE_ISOLATION says, keeps the taints of others, and frees a node that leaves.
func TestCheckIsolationByTheController(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	opts := s.options()
	opts.Settings.Isolation = projects.IsolationStrict
	s.run(t, opts)
	node := s.node(t, "kept-1", true, nil)
	s.patch(t, node, `{"spec":{"taints":[{"key":"disk","value":"slow","effect":"NoSchedule"}]}}`)
	p := s.project(t, "kept", "kept-1")
	key := opts.Settings.Keys.OfNode("kept")
	s.tainted(t, "kept-1", "disk NoSchedule", key+" NoExecute", key+" NoSchedule")
	s.patch(t, named[corev1.Node]("kept-1"), `{"spec":{"taints":null}}`)
	s.tainted(t, "kept-1", key+" NoExecute", key+" NoSchedule")
	s.patch(t, p, `{"spec":{"binding":{"nodes":[]}}}`)
	s.tainted(t, "kept-1")
}

// tainted waits until a node has these taints, in any order.
func (s *stand) tainted(t *testing.T, node string, want ...string) {
	t.Helper()
	testkit.WaitFor(t, patience, "the taints of "+node, func(ctx context.Context) error {
		n := named[corev1.Node](node)
		if err := s.client.Get(ctx, client.ObjectKeyFromObject(n), n); err != nil {
			return err
		}
		var got []string
		for _, taint := range n.Spec.Taints {
			if taint.Key != "node.kubernetes.io/not-ready" { // which kwok and the node's age decide
				got = append(got, fmt.Sprintf("%s %s", taint.Key, taint.Effect))
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			return fmt.Errorf("they are %q, want %q", got, want)
		}
		return nil
	})
}
