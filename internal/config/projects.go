package config

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Projects says what projects there are and by which keys their queues come to be (docs/projects.md).
type Projects struct {
	// Show is on or off: whether the service tells projects, with their queues.
	Show string `env:"PROJECTS" envDefault:"off"`
	// Source is crd (objects of the cluster) or ledger (Linux groups).
	Source string `env:"PROJECT_SOURCE" envDefault:"crd"`
	// Groups are the Linux groups that are projects, Settings the file with their managers, nodes and quotas; both with Source ledger.
	Groups   List   `env:"PROJECT_GROUPS"`
	Settings string `env:"PROJECT_SETTINGS"`
	// Reserved are names that projects may not have; one may end in "*". The service's own namespace is always one.
	Reserved List `env:"PROJECT_RESERVED" envDefault:"default,kube-*"`
	// UserPrefix and a login name behind it are an RBAC user.
	UserPrefix string `env:"PROJECT_USER_PREFIX" envDefault:"oidc:"`

	// Isolation is off, label, lenient or strict: how far the nodes of projects are kept for their members.
	Isolation string `env:"NODE_ISOLATION" envDefault:"off"`

	NodePrefix   string `env:"PROJECT_NODE_LABEL_PREFIX" envDefault:"project-name.aipub.ten1010.io/"`
	Gate         string `env:"PROJECT_NODE_GATE_LABEL" envDefault:"project.aipub.ten1010.io/project-managed"`
	Managed      string `env:"PROJECT_NODE_QUEUE_LABEL" envDefault:"cueue.coaster.ten1010.io/managed"`
	Namespace    string `env:"PROJECT_NAMESPACE_LABEL" envDefault:"project.aipub.ten1010.io/project"`
	Provisioning string `env:"PROJECT_QUEUE_LABEL" envDefault:"cueue.coaster.ten1010.io/provisioning-enabled"`
	Selector     string `env:"PROJECT_QUEUE_SELECTOR" envDefault:"cueue.coaster.ten1010.io/node-selector"`
}

// The values of PROJECTS and PROJECT_SOURCE.
const (
	ProjectsOn       = "on"
	ProjectsOfLedger = "ledger"
)

// ReservedNames are the names that projects may not have, the service's own namespace among them.
func (c Config) ReservedNames() []string {
	return append([]string{c.Namespace}, c.Projects.Reserved...)
}

func (p Projects) faults() []error {
	var list []error
	add := func(name, format string, args ...any) {
		list = append(list, fmt.Errorf("%s: %s", name, fmt.Sprintf(format, args...)))
	}
	if p.Show != "off" && p.Show != ProjectsOn {
		add("PROJECTS", "%q is not one of off, on", p.Show)
	}
	switch p.Source {
	case "crd":
		if len(p.Groups) > 0 || p.Settings != "" {
			add("PROJECT_SOURCE", "is crd, but PROJECT_GROUPS or PROJECT_SETTINGS is set, which ledger reads")
		}
	case ProjectsOfLedger:
		if len(p.Groups) == 0 {
			add("PROJECT_GROUPS", "is not set; PROJECT_SOURCE=ledger makes projects of these groups")
		}
		if p.Settings != "" && !path.IsAbs(p.Settings) {
			add("PROJECT_SETTINGS", "%q is relative", p.Settings)
		}
	default:
		add("PROJECT_SOURCE", "%q is not one of crd, ledger", p.Source)
	}
	if !slices.Contains([]string{"off", "label", "lenient", "strict"}, p.Isolation) {
		add("NODE_ISOLATION", "%q is not one of off, label, lenient, strict", p.Isolation)
	}
	for _, pattern := range p.Reserved {
		if len(validation.IsDNS1123Label(strings.TrimSuffix(pattern, "*")+"x")) > 0 {
			add("PROJECT_RESERVED", "%q is neither a name nor the beginning of one with * behind it", pattern)
		}
	}
	if prefix, ends := strings.CutSuffix(p.NodePrefix, "/"); !ends || len(validation.IsDNS1123Subdomain(prefix)) > 0 {
		add("PROJECT_NODE_LABEL_PREFIX", "%q is not a DNS name with / behind it", p.NodePrefix)
	}
	for name, key := range map[string]string{
		"PROJECT_NODE_GATE_LABEL": p.Gate, "PROJECT_NODE_QUEUE_LABEL": p.Managed, "PROJECT_NAMESPACE_LABEL": p.Namespace,
		"PROJECT_QUEUE_LABEL": p.Provisioning, "PROJECT_QUEUE_SELECTOR": p.Selector,
	} {
		for _, fault := range validation.IsQualifiedName(key) {
			add(name, "%q is not a key: %s", key, fault)
		}
		if strings.HasPrefix(key, p.NodePrefix) {
			add(name, "%q begins with PROJECT_NODE_LABEL_PREFIX, whose keys come and go with projects", key)
		}
	}
	return list
}
