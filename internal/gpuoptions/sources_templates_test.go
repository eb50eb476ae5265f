package gpuoptions

import (
	corev1 "k8s.io/api/core/v1"
)

// templateSources are what PodTemplates offer.
func templateSources() map[string]sourceCase {
	return map[string]sourceCase{
		"templates replace the scan": {
			cluster: func(c *scripted) {
				c.templates = []corev1.PodTemplate{template("b", "amdgpu", nil), template("a", "nvidia", asksGPU)}
			},
			want: []string{"a nvidia nvidia.com/gpu - template 3/4", "b amdgpu - - template -1/-1"},
		},
		"templates of another label do not": {
			cluster: func(c *scripted) { c.templates = []corev1.PodTemplate{template("a", "nvidia", nil)} },
			options: Options{Label: "sealskin.app/gpu"}, want: []string{scanned},
		},
		"the label is configured": {
			cluster: func(c *scripted) {
				other := template("a", "", nil)
				other.Labels = map[string]string{"sealskin.app/gpu": "xe"}
				c.templates = []corev1.PodTemplate{other}
			},
			options: Options{Label: "sealskin.app/gpu"}, want: []string{"a xe - - template -1/-1"},
		},
		"no right to templates is no templates": {
			cluster: func(c *scripted) { c.fail(kindTemplates, forbidden()) }, want: []string{scanned},
		},
		"mode templates scans nothing":     {options: Options{Mode: Templates}},
		"mode templates without the right": {cluster: func(c *scripted) { c.fail(kindTemplates, forbidden()) }, options: Options{Mode: Templates}},
		"mode off":                         {cluster: func(c *scripted) { c.templates = []corev1.PodTemplate{template("a", "nvidia", nil)} }, options: Options{Mode: Off}},
		"no right to nodes: templates are not counted": {
			cluster: func(c *scripted) {
				c.fail(kindNodes, forbidden())
				c.templates = []corev1.PodTemplate{template("a", "nvidia", asksGPU)}
			},
			want: []string{"a nvidia nvidia.com/gpu - template -1/-1"},
		},
		"templates are the options while the cluster cannot be scanned": {
			cluster: func(c *scripted) {
				c.fail(kindNodes, silent())
				c.templates = []corev1.PodTemplate{template("a", "nvidia", asksGPU)}
			},
			want: []string{"a nvidia nvidia.com/gpu - template -1/-1"}, warnings: []string{"free and total are not known"},
		},
	}
}
