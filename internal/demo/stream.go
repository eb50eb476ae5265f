package demo

import (
	"sync"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/watch"
)

// stream is one watch. Its queue has no limit, so that a slow reader holds nobody up.
type stream struct {
	resource, namespace string
	selector            labels.Selector
	forget              func(*stream)

	mu      sync.Mutex
	queue   []watch.Event
	more    chan struct{} // holds one signal
	stopped chan struct{}
	once    sync.Once
	result  chan watch.Event
	pump    sync.WaitGroup
}

func newStream(resource, namespace string, selector labels.Selector, forget func(*stream)) *stream {
	return &stream{
		resource: resource, namespace: namespace, selector: selector, forget: forget,
		more: make(chan struct{}, 1), stopped: make(chan struct{}), result: make(chan watch.Event),
	}
}

// offer queues a change if it is of this watch. An object that no longer matches is not told as
// deleted, because no label that anybody selects by is ever changed here.
func (w *stream) offer(c change) {
	kept, ok := c.event.Object.(object)
	if !ok || c.resource != w.resource || !selected(kept, w.namespace, w.selector) {
		return
	}
	w.mu.Lock()
	w.queue = append(w.queue, watch.Event{Type: c.event.Type, Object: kept.DeepCopyObject()})
	w.mu.Unlock()
	select {
	case w.more <- struct{}{}:
	default:
	}
}

// run begins to hand out what is queued.
func (w *stream) run() {
	w.pump.Go(func() {
		defer close(w.result)
		for {
			w.mu.Lock()
			batch := w.queue
			w.queue = nil
			w.mu.Unlock()
			for _, event := range batch {
				select {
				case w.result <- event:
				case <-w.stopped:
					return
				}
			}
			select {
			case <-w.more:
			case <-w.stopped:
				return
			}
		}
	})
}

// Stop ends the watch; its channel is closed soon afterwards.
func (w *stream) Stop() {
	w.once.Do(func() {
		close(w.stopped)
		w.forget(w)
	})
}

func (w *stream) wait() { w.pump.Wait() }

// ResultChan gives the changes in their order.
func (w *stream) ResultChan() <-chan watch.Event { return w.result }
