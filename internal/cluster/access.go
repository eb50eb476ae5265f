package cluster

import (
	"context"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Right is a verb on a resource.
type Right struct {
	Verb     string
	Group    string // of the API; empty = core
	Resource string
	// Subresource of it, as exec of pods; empty = none.
	Subresource string
	// Everywhere is the right in all namespaces, or on what has none; else in the namespace.
	Everywhere bool
}

// String names a right as rules do: list pods, create pods/exec, list deviceclasses.resource.k8s.io.
func (r Right) String() string {
	name := r.Resource
	if r.Group != "" {
		name += "." + r.Group
	}
	if r.Subresource != "" {
		name += "/" + r.Subresource
	}
	return r.Verb + " " + name
}

// May asks the API server whether this client has a right.
func (c *Cluster) May(ctx context.Context, right Right) (bool, error) {
	attributes := &authorizationv1.ResourceAttributes{
		Verb: right.Verb, Group: right.Group, Resource: right.Resource, Subresource: right.Subresource, Namespace: c.namespace,
	}
	if right.Everywhere {
		attributes.Namespace = metav1.NamespaceAll
	}
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: attributes}}
	err := c.call(ctx, fmt.Sprintf("ask for the right to %s", right), func(ctx context.Context) (err error) {
		review, err = c.client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return false, err
	}
	return review.Status.Allowed, nil
}
