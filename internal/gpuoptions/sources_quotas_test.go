package gpuoptions

import (
	"context"

	corev1 "k8s.io/api/core/v1"
)

// quotaSources are what quotas cap, and what they name where nodes may not be read.
func quotaSources() map[string]sourceCase {
	return map[string]sourceCase{
		"a scanned resource that is capped at zero": {cluster: func(c *scripted) { c.quotas = gpusCapped() }},
		"a cap that does not apply": {
			cluster: func(c *scripted) {
				c.quotas = []corev1.ResourceQuota{quotaOf("requests.nvidia.com/gpu", "0")}
				c.quotas[0].Spec.Scopes = []corev1.ResourceQuotaScope{"Terminating"}
			},
			want: []string{scanned},
		},
		"a cap that applies by the session's deadline": {
			cluster: func(c *scripted) {
				c.quotas = []corev1.ResourceQuota{quotaOf("requests.nvidia.com/gpu", "0")}
				c.quotas[0].Spec.Scopes = []corev1.ResourceQuotaScope{"Terminating"}
			},
			options: Options{Shape: func(context.Context) (Shape, error) { return Shape{Deadline: true}, nil }},
		},
		"templates whose resource is capped at zero": {
			cluster: func(c *scripted) {
				c.quotas = gpusCapped()
				c.templates = []corev1.PodTemplate{template("a", "nvidia", asksGPU), template("b", "nvidia", nil)}
			},
			want: []string{"b nvidia - - template -1/-1"},
		},
		"a template of which one of two resources is capped at zero": {
			cluster: func(c *scripted) {
				c.quotas = gpusCapped()
				c.templates = []corev1.PodTemplate{template("a", "nvidia", func(spec *corev1.PodSpec) {
					spec.Containers[0].Resources.Limits = list("nvidia.com/gpu", "1", "amd.com/gpu", "1")
				})}
			},
		},
		"all templates are capped: the scan does not stand in": {
			cluster: func(c *scripted) {
				c.nodes = append(c.nodes, node("b", list("amd.com/gpu", "2")))
				c.quotas, c.templates = gpusCapped(), []corev1.PodTemplate{template("a", "nvidia", asksGPU)}
			},
		},
		"a cap that applies by the template's own deadline": {
			cluster: func(c *scripted) {
				c.quotas = []corev1.ResourceQuota{quotaOf("requests.nvidia.com/gpu", "0")}
				c.quotas[0].Spec.Scopes = []corev1.ResourceQuotaScope{"Terminating"}
				c.templates = []corev1.PodTemplate{template("a", "nvidia", asksGPU), template("b", "nvidia", func(spec *corev1.PodSpec) {
					asksGPU(spec)
					spec.ActiveDeadlineSeconds = new(int64(60))
				})}
			},
			want: []string{"a nvidia nvidia.com/gpu - template 3/4"},
		},
		"no right to quotas is no quotas": {
			cluster: func(c *scripted) { c.quotas = gpusCapped(); c.fail(kindQuotas, forbidden()) }, want: []string{scanned},
		},
		"nodes without GPUs are no reason to ask quotas": {
			cluster: func(c *scripted) {
				c.nodes, c.quotas = []corev1.Node{node("a", nil)}, []corev1.ResourceQuota{quotaOf("requests.nvidia.com/gpu", "2")}
			},
			own: "amdgpu",
		},
		"no right to nodes: what quotas name": {
			cluster: func(c *scripted) {
				c.fail(kindNodes, forbidden())
				c.quotas = []corev1.ResourceQuota{quotaOf("requests.nvidia.com/gpu", "2", "requests.amd.com/gpu", "0", "requests.example.com/nic", "3")}
			},
			own: "amdgpu", want: []string{"nvidia.com/gpu nvidia nvidia.com/gpu - quota 2/2"},
		},
		"no right to nodes, a quota of zero caps the own node": {
			cluster: func(c *scripted) {
				c.fail(kindNodes, forbidden())
				c.quotas = []corev1.ResourceQuota{quotaOf("requests.amd.com/gpu", "0")}
			},
			own: "amdgpu",
		},
	}
}
