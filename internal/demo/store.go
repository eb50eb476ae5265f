package demo

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// object is anything that Kubernetes keeps.
type object interface {
	runtime.Object
	metav1.Object
}

// place is where an object is kept. Namespace is empty for nodes.
type place struct{ resource, namespace, name string }

// change is one step of the history of all objects.
type change struct {
	revision int64
	resource string
	event    watch.Event
}

// maxHistory is how many changes a watch can begin behind.
const maxHistory = 4096

// store keeps objects with the rules of the API server that callers rely on and that client-go's
// own tracker lacks: UIDs, times and revisions, watches that begin where a list ended, deletion in
// two steps, and preconditions. What it takes and gives is copied.
type store struct {
	mu       sync.Mutex
	revision int64
	objects  map[place]object
	history  []change
	streams  map[*stream]bool
	closed   bool
}

func newStore() *store {
	return &store{objects: map[place]object{}, streams: map[*stream]bool{}}
}

// create keeps a new object. check sees it beside all others before that, and may fill it in.
func (s *store) create(resource string, sent object, check func(fresh object, others map[place]object) error) (object, error) {
	fresh := sent.DeepCopyObject().(object)
	at := place{resource, fresh.GetNamespace(), fresh.GetName()}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, taken := s.objects[at]; taken {
		return nil, apierrors.NewAlreadyExists(schema.GroupResource{Resource: resource}, at.name)
	}
	if err := check(fresh, s.objects); err != nil {
		return nil, err
	}
	fresh.SetUID(types.UID(uuid.NewString()))
	fresh.SetCreationTimestamp(metav1.NewTime(time.Now().Truncate(time.Second)))
	s.keep(at, fresh, watch.Added)
	return fresh.DeepCopyObject().(object), nil
}

func (s *store) get(at place) (object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept, found := s.objects[at]
	if !found {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: at.resource}, at.name)
	}
	return kept.DeepCopyObject().(object), nil
}

// list gives the objects of a namespace (empty: of all) by name, and the revision of that look.
func (s *store) list(resource, namespace string, selector labels.Selector) ([]object, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []object
	for at, kept := range s.objects {
		if at.resource == resource && selected(kept, namespace, selector) {
			found = append(found, kept.DeepCopyObject().(object))
		}
	}
	slices.SortFunc(found, func(a, b object) int {
		return strings.Compare(a.GetNamespace()+"/"+a.GetName(), b.GetNamespace()+"/"+b.GetName())
	})
	return found, strconv.FormatInt(s.revision, 10)
}

func selected(kept object, namespace string, selector labels.Selector) bool {
	return (namespace == "" || kept.GetNamespace() == namespace) && selector.Matches(labels.Set(kept.GetLabels()))
}

// update replaces an object. A sent revision that is old is a conflict.
func (s *store) update(resource string, sent object) (object, error) {
	at := place{resource, sent.GetNamespace(), sent.GetName()}
	s.mu.Lock()
	defer s.mu.Unlock()
	kept, found := s.objects[at]
	if !found {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: resource}, at.name)
	}
	if v := sent.GetResourceVersion(); v != "" && v != kept.GetResourceVersion() {
		return nil, apierrors.NewConflict(schema.GroupResource{Resource: resource}, at.name,
			fmt.Errorf("the object has been modified; please apply your changes to the latest version and try again"))
	}
	fresh := sent.DeepCopyObject().(object)
	fresh.SetUID(kept.GetUID())
	fresh.SetCreationTimestamp(kept.GetCreationTimestamp())
	fresh.SetDeletionTimestamp(kept.GetDeletionTimestamp())
	s.keep(at, fresh, watch.Modified)
	return fresh.DeepCopyObject().(object), nil
}

// mend changes the object of this UID if it is still there, as a controller would.
func (s *store) mend(at place, uid types.UID, f func(object)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept, found := s.objects[at]
	if !found || kept.GetUID() != uid {
		return
	}
	fresh := kept.DeepCopyObject().(object)
	f(fresh)
	s.keep(at, fresh, watch.Modified)
}

// remove deletes an object. With grace it only marks it, and whoever runs the object removes it.
func (s *store) remove(at place, options metav1.DeleteOptions, grace time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept, found := s.objects[at]
	if !found {
		return apierrors.NewNotFound(schema.GroupResource{Resource: at.resource}, at.name)
	}
	if p := options.Preconditions; p != nil && p.UID != nil && *p.UID != kept.GetUID() {
		return apierrors.NewConflict(schema.GroupResource{Resource: at.resource}, at.name,
			fmt.Errorf("precondition failed: UID in precondition: %s, UID in object meta: %s", *p.UID, kept.GetUID()))
	}
	if options.GracePeriodSeconds != nil {
		grace = time.Duration(*options.GracePeriodSeconds) * time.Second
	}
	if grace == 0 {
		s.drop(at, kept)
		return nil
	}
	if kept.GetDeletionTimestamp() != nil {
		return nil
	}
	fresh := kept.DeepCopyObject().(object)
	end, seconds := metav1.NewTime(time.Now().Add(grace).Truncate(time.Second)), int64(grace.Seconds())
	fresh.SetDeletionTimestamp(&end)
	fresh.SetDeletionGracePeriodSeconds(&seconds)
	s.keep(at, fresh, watch.Modified)
	return nil
}

// keep and drop are called with the lock held.
func (s *store) keep(at place, fresh object, kind watch.EventType) {
	s.revision++
	fresh.SetResourceVersion(strconv.FormatInt(s.revision, 10))
	s.objects[at] = fresh
	s.tell(at.resource, kind, fresh)
}

func (s *store) drop(at place, kept object) {
	s.revision++
	last := kept.DeepCopyObject().(object)
	last.SetResourceVersion(strconv.FormatInt(s.revision, 10))
	delete(s.objects, at)
	s.tell(at.resource, watch.Deleted, last)
}

func (s *store) tell(resource string, kind watch.EventType, fresh object) {
	c := change{s.revision, resource, watch.Event{Type: kind, Object: fresh}}
	s.history = append(s.history, c)
	if len(s.history) > 2*maxHistory {
		s.history = slices.Clone(s.history[maxHistory:])
	}
	for stream := range s.streams {
		stream.offer(c)
	}
}

// watch follows the objects of a resource from a revision on; "" and "0" begin with what is there.
func (s *store) watch(resource, namespace string, selector labels.Selector, from string) (watch.Interface, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, apierrors.NewServiceUnavailable("the demo is over")
	}
	stream := newStream(resource, namespace, selector, s.forget)
	revision, err := strconv.ParseInt(from, 10, 64)
	switch {
	case from == "" || revision == 0 && err == nil:
		for at, kept := range s.objects {
			stream.offer(change{s.revision, at.resource, watch.Event{Type: watch.Added, Object: kept}})
		}
	case err != nil:
		return nil, apierrors.NewBadRequest("invalid resourceVersion " + strconv.Quote(from))
	case len(s.history) > 0 && revision < s.history[0].revision-1:
		return nil, apierrors.NewResourceExpired("the resourceVersion is too old")
	default:
		for _, c := range s.history {
			if c.revision > revision {
				stream.offer(c)
			}
		}
	}
	s.streams[stream] = true
	stream.run()
	return stream, nil
}

func (s *store) forget(stream *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.streams, stream)
}

// close ends every watch.
func (s *store) close() {
	s.mu.Lock()
	s.closed = true
	streams := make([]*stream, 0, len(s.streams))
	for stream := range s.streams {
		streams = append(streams, stream)
	}
	s.mu.Unlock()
	for _, stream := range streams {
		stream.Stop()
		stream.wait()
	}
}
