package cluster

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
)

// ObjectFunc asks the API server for a path and returns its answer as JSON.
type ObjectFunc func(ctx context.Context, path string) ([]byte, error)

// remoteObjects asks the API server itself. One call serves the few kinds that others define and that are read on demand only: a
// client with types of its own for them would stay in memory.
func remoteObjects(client kubernetes.Interface) ObjectFunc {
	return func(ctx context.Context, path string) ([]byte, error) {
		result := client.CoreV1().RESTClient().Get().AbsPath(path).SetHeader("Accept", "application/json").Do(ctx)
		if err := result.Error(); err != nil { // which has the API server's words, as the error of Raw has not
			return nil, err
		}
		return result.Raw()
	}
}

// Object reads what the API server has under a path, as JSON: an object, a list or a group of kinds. The second result is false if
// there is nothing. farm.IsForbidden tells an error that means a missing right.
func (c *Cluster) Object(ctx context.Context, path string) ([]byte, bool, error) {
	var found []byte
	err := c.call(ctx, "get "+path, func(ctx context.Context) (err error) {
		if c.objects == nil {
			return errors.New("no paths can be read here")
		}
		found, err = c.objects(ctx, path)
		return err
	})
	if apierrors.IsNotFound(err) {
		return nil, false, nil
	}
	return found, err == nil, err
}
