package demo

import (
	"context"
	"maps"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"config-server/internal/projects"
)

// team is the project of the demo, which has two nodes and a queue with a pod in it.
const team = "vision"

// projectLabels are what a node bears by the project.
func projectLabels(node string) map[string]string {
	if node != "farm5" && node != "farm6" {
		return nil
	}
	keys := projects.DefaultKeys()
	return map[string]string{keys.Gate: "true", keys.Managed: "true", keys.OfNode(team): ""}
}

// withLabels adds labels to others.
func withLabels(all, more map[string]string) map[string]string {
	maps.Copy(all, more)
	return all
}

// teamObjects are what the API server has of the project, by path.
func teamObjects() map[string]string {
	keys := projects.DefaultKeys()
	return map[string]string{
		"/apis/ailab.io/v1alpha1/projects": `{"items":[{"metadata":{"name":"vision"},"spec":{
			"members":[{"user":"alice","role":"manager"},{"user":"bob","role":"member"}],
			"binding":{"nodeGroups":["front"]},"quota":{"hard":{"requests.nvidia.com/gpu":"4"}}}}]}`,
		"/apis/ailab.io/v1alpha1/nodegroups": `{"items":[{"metadata":{"name":"front"},"spec":{"nodes":["farm5","farm6"]}}]}`,
		"/api/v1/namespaces/vision": `{"metadata":{"name":"vision","labels":{"` + keys.Provisioning + `":"true"},
			"annotations":{"` + keys.Selector + `":"` + keys.OfNode(team) + `"}}}`,
		"/apis/coaster.ten1010.io": `{"preferredVersion":{"groupVersion":"coaster.ten1010.io/v1"}}`,
		"/apis/coaster.ten1010.io/v1/cueues/vision": `{"metadata":{"name":"vision","generation":1},
			"spec":{"policy":"FirstAllocating","pods":[{"name":"train-0","namespace":"vision","uid":"5f1c2a90"}]},
			"status":{"observedGeneration":1,"nodes":["farm5","farm6"],
			"pods":[{"name":"train-0","namespace":"vision","uid":"5f1c2a90","enqueueTime":"2026-11-30T08:15:00Z"}],
			"conditions":[{"type":"HeadBlocked","status":"True","reason":"Unschedulable","message":"0/2 nodes are available: 2 Insufficient nvidia.com/gpu",
			"lastTransitionTime":"2026-11-30T08:15:02Z"}]}}`,
	}
}

// objects answers what is read by path.
func objects(_ context.Context, path string) ([]byte, error) {
	text, found := teamObjects()[path]
	if !found {
		return nil, apierrors.NewNotFound(schema.GroupResource{}, path)
	}
	return []byte(text), nil
}
