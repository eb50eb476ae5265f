package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// writer makes every write of the controller, and counts it. In a dry run it prints what it would write.
type writer struct {
	client client.Client
	scheme *runtime.Scheme
	writes *prometheus.CounterVec // by kind and verb

	mu  sync.Mutex
	dry io.Writer // nil = writes are made
	// overwritten is the resourceVersion that the last patch of an object replaced, by its UID and subresource. While the cache still
	// has that one, it shows a state before our own write, from which no second write must come: the event of the first is on its way.
	overwritten map[string]string
}

// create makes an object. A dry run prints it.
func (w *writer) create(ctx context.Context, object client.Object) error {
	name := w.nameOf(object)
	if w.dry != nil {
		text, err := json.Marshal(object)
		if err != nil {
			return fmt.Errorf("create %s: %w", name, err)
		}
		return w.print("create", name, text)
	}
	w.count(object, "create")
	if err := w.client.Create(ctx, object); err != nil {
		return fmt.Errorf("create %s: %w", name, err)
	}
	return nil
}

// remove deletes an object if it is still the one that was read. One that is gone already is no error.
func (w *writer) remove(ctx context.Context, object client.Object) error {
	name := w.nameOf(object)
	if w.dry != nil {
		return w.print("delete", name, []byte("{}"))
	}
	w.count(object, "delete")
	uid := object.GetUID()
	if err := client.IgnoreNotFound(w.client.Delete(ctx, object, client.Preconditions{UID: &uid})); err != nil {
		return fmt.Errorf("delete %s: %w", name, err)
	}
	return nil
}

// patch writes the difference between two states of an object as a JSON merge patch: nulls for what goes, and the resourceVersion as
// its precondition. Without a difference nothing is written.
func (w *writer) patch(ctx context.Context, before, after client.Object) error {
	return w.patchPart(ctx, before, after, "patch", "", func(p client.Patch) error { return w.client.Patch(ctx, after, p) })
}

// patchStatus does the same with the status.
func (w *writer) patchStatus(ctx context.Context, before, after client.Object) error {
	return w.patchPart(ctx, before, after, "patch status", "status", func(p client.Patch) error { return w.client.Status().Patch(ctx, after, p) })
}

func (w *writer) patchPart(ctx context.Context, before, after client.Object, verb, part string, send func(client.Patch) error) error {
	name := w.nameOf(after)
	plain, err := client.MergeFrom(before).Data(after)
	if err != nil {
		return fmt.Errorf("%s %s: %w", verb, name, err)
	}
	if string(plain) == "{}" {
		return nil
	}
	text, err := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}).Data(after)
	if err != nil {
		return fmt.Errorf("%s %s: %w", verb, name, err)
	}
	if w.dry != nil {
		return w.print(verb, name, text)
	}
	version, key := before.GetResourceVersion(), string(before.GetUID())+"/"+part
	if w.isOverwritten(key, version) {
		return nil
	}
	w.count(after, strings.ReplaceAll(verb, " ", "_"))
	if err := send(client.RawPatch(types.MergePatchType, text)); err != nil {
		return fmt.Errorf("%s %s: %w", verb, name, err)
	}
	if after.GetResourceVersion() != version {
		w.setOverwritten(key, version)
	}
	return nil
}

func (w *writer) isOverwritten(key, version string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.overwritten[key] == version {
		return true
	}
	delete(w.overwritten, key)
	return false
}

func (w *writer) setOverwritten(key, version string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.overwritten[key] = version
}

// print writes one line of a dry run: what, of which object, the JSON.
func (w *writer) print(verb, name string, text []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, err := fmt.Fprintf(w.dry, "%s %s %s\n", verb, name, text); err != nil {
		return fmt.Errorf("print what would be written: %w", err)
	}
	return nil
}

func (w *writer) count(object client.Object, verb string) {
	w.writes.WithLabelValues(w.kindOf(object), verb).Inc()
}

func (w *writer) kindOf(object client.Object) string {
	kind, err := apiutil.GVKForObject(object, w.scheme)
	if err != nil {
		return fmt.Sprintf("%T", object)
	}
	return kind.Kind
}

// nameOf is Kind/name, or Kind/namespace/name.
func (w *writer) nameOf(object client.Object) string {
	if object.GetNamespace() == "" {
		return w.kindOf(object) + "/" + object.GetName()
	}
	return w.kindOf(object) + "/" + object.GetNamespace() + "/" + object.GetName()
}
