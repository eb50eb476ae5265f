package cluster

import (
	"context"
	"log/slog"
	"sync/atomic"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// watched is a kind of object kept up to date by a watch, and whether that watch is well.
type watched struct {
	what     string // for the log, in plural
	log      *slog.Logger
	informer cache.SharedIndexInformer
	// broken is true while the last LIST or WATCH failed: what is kept may be old then.
	broken atomic.Bool
	// denied is true while that was because it is not allowed.
	denied atomic.Bool
	// failures counts them.
	failures atomic.Int64
}

// source lists and watches the objects of one kind.
type source struct {
	list  func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error)
	watch func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
}

// newWatched prepares a watch. The transform cuts an object down to what the service reads, before
// it is kept.
func newWatched(what string, client kubernetes.Interface, log *slog.Logger, example runtime.Object, from source, transform cache.TransformFunc, indexers cache.Indexers) *watched {
	w := &watched{what: what, log: log}
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			list, err := from.list(ctx, opts)
			w.note(ctx, err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
			events, err := from.watch(ctx, opts)
			// A server that cannot stream its first list refuses that as invalid, and a LIST follows
			// at once.
			if opts.SendInitialEvents == nil || !apierrors.IsInvalid(err) {
				w.note(ctx, err)
			}
			return events, err
		},
	}
	w.informer = cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(lw, client), example, 0, indexers)
	// Both setters fail on a running informer only, and this one has not begun.
	_ = w.informer.SetTransform(transform)
	_ = w.informer.SetWatchErrorHandlerWithContext(func(context.Context, *cache.Reflector, error) {
		// note has logged it once; the client's own handler would repeat it with every try.
	})
	return w
}

// note keeps whether the watch is well, and logs each change once.
func (w *watched) note(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		w.failures.Add(1)
	}
	w.denied.Store(apierrors.IsForbidden(err))
	switch {
	case err != nil && !w.broken.Swap(true):
		w.log.Warn("watch is broken, falling back to direct calls", "objects", w.what, "error", err)
	case err == nil && w.broken.Swap(false):
		w.log.Info("watch is well again", "objects", w.what)
	}
}

func (w *watched) run(ctx context.Context) {
	w.informer.RunWithContext(klog.NewContext(ctx, logr.FromSlogHandler(forUsers{w.log.Handler()})))
}

// fresh reports whether the kept state can be relied on.
func (w *watched) fresh() bool { return w.informer.HasSynced() && !w.broken.Load() }

func (w *watched) waitSynced(ctx context.Context) bool {
	select {
	case <-w.informer.HasSyncedChecker().Done():
		return true
	case <-ctx.Done():
		return false
	}
}

// onChange has f called with every object that is added, changed or removed.
func (w *watched) onChange(f func(object any, removed bool)) {
	// AddEventHandler fails on a stopped informer only.
	_, _ = w.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { f(object, false) },
		UpdateFunc: func(_, object any) { f(object, false) },
		DeleteFunc: func(object any) {
			if last, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = last.Obj
			}
			f(object, true)
		},
	})
}
