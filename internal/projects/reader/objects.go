package reader

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"config-server/internal/projects"
)

// Where the API server has the objects of projects.
const (
	pathProjects   = "/apis/ailab.io/v1alpha1/projects"
	pathNodeGroups = "/apis/ailab.io/v1alpha1/nodegroups"
)

var errNoKind = errors.New("the cluster has no kind Project of ailab.io/v1alpha1: install its CustomResourceDefinitions (docs/projects.md)")

// objects are the projects and node groups that the API server has.
type objects struct{ cluster Cluster }

// projectObject is what is read of a Project.
type projectObject struct {
	Metadata struct {
		Name              string     `json:"name"`
		DeletionTimestamp *time.Time `json:"deletionTimestamp"`
	} `json:"metadata"`
	Spec struct {
		Members []struct {
			User    string        `json:"user"`
			Subject string        `json:"subject"`
			Role    projects.Role `json:"role"`
		} `json:"members"`
		Quota struct {
			Hard map[string]resource.Quantity `json:"hard"`
		} `json:"quota"`
		Binding struct {
			Nodes      []string `json:"nodes"`
			NodeGroups []string `json:"nodeGroups"`
		} `json:"binding"`
	} `json:"spec"`
}

// Projects lists the projects.
func (o objects) Projects(ctx context.Context) ([]projects.Project, error) {
	items, found, err := list[projectObject](ctx, o.cluster, pathProjects)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, errNoKind
	}
	all := make([]projects.Project, len(items))
	for i, item := range items {
		p := projects.Project{
			Name: item.Metadata.Name, Deleting: item.Metadata.DeletionTimestamp != nil, Quota: item.Spec.Quota.Hard,
			Binding: projects.Binding{Nodes: item.Spec.Binding.Nodes, NodeGroups: item.Spec.Binding.NodeGroups},
		}
		for _, m := range item.Spec.Members {
			p.Members = append(p.Members, projects.Member{User: m.User, Subject: m.Subject, Role: m.Role})
		}
		all[i] = p
	}
	return all, nil
}

type groupObject struct {
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Nodes        []string          `json:"nodes"`
		NodeSelector map[string]string `json:"nodeSelector"`
	} `json:"spec"`
}

// groups lists the node groups; none where the cluster does not know the kind.
func (o objects) groups(ctx context.Context) ([]projects.NodeGroup, error) {
	items, _, err := list[groupObject](ctx, o.cluster, pathNodeGroups)
	if err != nil {
		return nil, err
	}
	all := make([]projects.NodeGroup, len(items))
	for i, item := range items {
		all[i] = projects.NodeGroup{Name: item.Metadata.Name, Nodes: item.Spec.Nodes, Selector: item.Spec.NodeSelector}
	}
	return all, nil
}

func list[T any](ctx context.Context, cluster Cluster, path string) ([]T, bool, error) {
	text, found, err := cluster.Object(ctx, path)
	if err != nil || !found {
		return nil, false, err
	}
	var answer struct {
		Items []T `json:"items"`
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return nil, false, fmt.Errorf("read the answer to %s: %w", path, err)
	}
	return answer.Items, true, nil
}
