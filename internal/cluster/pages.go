package cluster

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// pageSize is how many objects one LIST brings at most, so that a big farm costs the API server and
// this process several small answers and no huge one.
const pageSize = 500

// listAll lists in pages and converts each object. All pages are of one state of the cluster. When
// that state has grown too old between two pages, everything is read once more in one piece. Each
// page is a call with a deadline of its own; the error is that of call.
func listAll[Object, T any](ctx context.Context, c *Cluster, operation string, opts metav1.ListOptions,
	list func(ctx context.Context, opts metav1.ListOptions) (items []Object, next string, err error), convert func(*Object) T,
) ([]T, error) {
	var all []T
	opts.Limit = pageSize
	for {
		var next string
		err := c.call(ctx, operation, func(ctx context.Context) error {
			items, more, err := list(ctx, opts)
			for i := range items {
				all = append(all, convert(&items[i]))
			}
			next = more
			return err
		})
		switch {
		case opts.Continue != "" && apierrors.IsResourceExpired(err):
			all, opts.Continue, opts.Limit = nil, "", 0
		case err != nil:
			return nil, err
		case next == "":
			return all, nil
		default:
			opts.Continue = next
		}
	}
}
