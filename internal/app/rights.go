package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"config-server/internal/cluster"
	"config-server/internal/config"
	"config-server/internal/farm"
	"config-server/internal/podspec"
)

// right is what the service asks of the API server, and what is lost without it.
type right struct {
	cluster.Right
	lost string
}

// in are rights in the namespace, one for each verb.
func in(resource, lost string, verbs ...string) []right {
	return granted("", resource, lost, false, verbs)
}

// everywhere are rights in the whole cluster, one for each verb. The resource may have its API group behind it.
func everywhere(resource, lost string, verbs ...string) []right {
	resource, group, _ := strings.Cut(resource, ".")
	return granted(group, resource, lost, true, verbs)
}

func granted(group, resource, lost string, all bool, verbs []string) []right {
	resource, subresource, _ := strings.Cut(resource, "/")
	var list []right
	for _, verb := range verbs {
		list = append(list, right{cluster.Right{Verb: verb, Group: group, Resource: resource, Subresource: subresource, Everywhere: all}, lost})
	}
	return list
}

// neededRights are those without which something fails.
func neededRights(c config.Config) []right {
	const workspaces = "workspaces cannot be made, looked at or removed"
	list := slices.Concat(
		in("pods", workspaces, "get", "list", "watch", "create", "delete"),
		in("services", workspaces, "get", "list", "create", "delete"),
		in("pods/exec", "migrations cannot save workspaces", "get", "create"),
		everywhere("nodes", "candidates are not known: create-pod works with a GPU option alone, on the nodes that the user configuration names", "list", "watch"),
		in("podtemplates", "POD_TEMPLATE is left out, and templates that users or GPU options name fail the create", "get"),
	)
	if c.Kerberos.Realm != "" || c.Pods.AccountSecret {
		list = append(list, in("secrets", "keytabs and account Secrets cannot be kept", "get", "create", "update", "delete")...)
	}
	return list
}

// furtherRights are those without which the service does with less.
func furtherRights(c config.Config) []right {
	list := slices.Concat(
		in("events", "failures are told without the pod's events", "list"),
		in("pods/log", "failures are told without the end of the container's log, and nothing can be exported from images", "get"),
		everywhere("services", "NodePorts of other namespaces are found by the API server's refusal, one request each", "list", "watch"),
	)
	if c.Pods.HomeVolume == podspec.HomeSelf {
		list = append(list, in("persistentvolumeclaims", "if the homes are on a claim, workspaces run on this service's node alone, also with a ReadWriteMany one", "get")...)
	}
	if c.Pods.Template != "" && c.Kerberos.Realm == "" && !c.Pods.AccountSecret {
		list = append(list, in("secrets", "registries are asked without the pull secrets of POD_TEMPLATE: private images cannot be pinned", "get")...)
	}
	if c.GPU.Discovery == "off" {
		return list
	}
	return append(list, slices.Concat(
		in("podtemplates", "no GPU options from PodTemplates", "list"),
		in("resourcequotas", "GPU options that a quota caps at zero are offered all the same; without nodes, none from quotas", "list"),
		everywhere("deviceclasses.resource.k8s.io", "no GPU options from DRA DeviceClasses", "list"),
		everywhere("pods", "free GPUs count the pods of this namespace only", "list"),
	)...)
}

// checkRights asks for each right, and tells those that are missing.
func (a *App) checkRights(list []right) func(context.Context) error {
	return func(ctx context.Context) error {
		faults := make([]error, len(list))
		var all sync.WaitGroup
		for i, right := range list {
			all.Go(func() {
				allowed, err := a.parts.cluster.May(ctx, right.Right)
				switch {
				case err != nil:
					faults[i] = err
				case !allowed:
					faults[i] = fmt.Errorf("missing: %s%s: %s", right, where(right.Right), right.lost)
				}
			})
		}
		all.Wait()
		for _, err := range faults {
			if errors.Is(err, farm.ErrClientSetup) {
				return err // the same for each
			}
		}
		return errors.Join(faults...)
	}
}

func where(right cluster.Right) string {
	if right.Everywhere {
		return " in the cluster"
	}
	return ""
}
