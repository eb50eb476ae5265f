package selfvolumes

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"config-server/internal/farm"
)

// Reader is the Kubernetes API as far as it is needed, in the service's namespace and live.
type Reader interface {
	// WholePod reads one pod with all that it has; false if there is none.
	WholePod(ctx context.Context, name string) (*corev1.Pod, bool, error)
	// PodsAt lists the pods that have an address and have not ended.
	PodsAt(ctx context.Context, ip string) ([]corev1.Pod, error)
	// Claim reads one PersistentVolumeClaim; false if there is none. farm.IsForbidden tells a missing right.
	Claim(ctx context.Context, name string) (*corev1.PersistentVolumeClaim, bool, error)
}

// Options of a Finder. All are required.
type Options struct {
	Reader Reader
	// Host is the name of the service's own pod, as far as its host name tells it, Addresses are its own: they count
	// where no pod is called so.
	Host      string
	Addresses []string
	Namespace string // for errors
	// Paths are what workspaces shall have.
	Paths []Path
	Log   *slog.Logger
}

// Finder finds what workspaces can have of the service's own volumes. It is safe for concurrent use.
type Finder struct {
	Options

	mu    sync.Mutex
	found *Set // nil = not yet
}

// New returns a Finder that has asked nobody yet.
func New(opts Options) *Finder { return &Finder{Options: opts} }

// Find looks at the service's own pod until that has succeeded once: pods and access modes of claims do not change. An
// error that wraps ErrUnfit stays; any other may be gone the next time.
func (f *Finder) Find(ctx context.Context) (*Set, error) {
	f.mu.Lock()
	known := f.found
	f.mu.Unlock()
	if known != nil {
		return known, nil
	}
	// Whoever comes meanwhile looks too: nobody waits for another's call.
	set, err := f.look(ctx)
	if err != nil {
		return nil, fmt.Errorf("find what HOME_VOLUME=self gives to workspaces: %w", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.found == nil {
		f.found = set
		f.Log.InfoContext(ctx, "workspaces have their homes on a volume of this service's own pod",
			"pod", set.Pod, "volume", set.Mounts[0].Volume.Name, "folder", set.Mounts[0].SubPath, "node", set.Node, "bound", set.Bound)
	}
	return f.found, nil
}

func (f *Finder) look(ctx context.Context) (*Set, error) {
	pod, err := f.ownPod(ctx)
	if err != nil {
		return nil, err
	}
	set := &Set{Pod: pod.Name, Namespace: pod.Namespace, Labels: pod.Labels, Node: farm.NodeName(pod.Spec.NodeName)}
	claims := map[string]claim{}
	for _, wanted := range f.Paths {
		mount, err := Resolve(pod, wanted)
		if err != nil {
			return nil, err
		}
		if err := f.readClaim(ctx, mount, claims); err != nil {
			return nil, err
		}
		bound, err := mount.bound(claims[mount.claimName()])
		if err != nil {
			return nil, err
		}
		if set.Bound == "" {
			set.Bound = bound
		}
		set.Mounts = append(set.Mounts, mount)
	}
	if set.Bound != "" && set.Node == "" {
		return nil, fmt.Errorf("pod %s is on no node yet, and %s", pod.Name, set.Bound)
	}
	return set, nil
}

// ownPod finds the service's pod by its host name, and where no pod is called so by its address: a pod may have a
// host name of its own choice, or its node's.
func (f *Finder) ownPod(ctx context.Context) (*corev1.Pod, error) {
	if len(validation.IsDNS1123Subdomain(f.Host)) == 0 {
		pod, found, err := f.Reader.WholePod(ctx, f.Host)
		if err != nil {
			return nil, fmt.Errorf("read the service's own pod: %w", err)
		}
		if found {
			return pod, nil
		}
	}
	var hits []corev1.Pod
	for _, ip := range f.Addresses {
		pods, err := f.Reader.PodsAt(ctx, ip)
		if err != nil {
			return nil, fmt.Errorf("look for the service's own pod: %w", err)
		}
		for _, pod := range pods {
			if !slices.ContainsFunc(hits, func(hit corev1.Pod) bool { return hit.UID == pod.UID }) {
				hits = append(hits, pod)
			}
		}
	}
	if len(hits) != 1 {
		return nil, fmt.Errorf("%w: namespace %s has no pod %s, and %d pods with the address %s, where exactly one would be the service's own",
			ErrUnfit, f.Namespace, f.Host, len(hits), strings.Join(f.Addresses, " or "))
	}
	return &hits[0], nil
}

// readClaim reads the access modes of a mount's claim, if it has one, once.
func (f *Finder) readClaim(ctx context.Context, mount Mount, claims map[string]claim) error {
	name := mount.claimName()
	if _, known := claims[name]; known || name == "" {
		return nil
	}
	object, found, err := f.Reader.Claim(ctx, name)
	switch {
	case farm.IsForbidden(err):
		f.Log.WarnContext(ctx, "the access modes of a claim may not be read: workspaces are bound to this service's node", "claim", name, "error", err)
		claims[name] = claim{unread: true}
	case err != nil:
		return fmt.Errorf("read the claim of %s: %w", mount.Own, err)
	case !found:
		return fmt.Errorf("%s: %w: there is no claim %s in namespace %s", mount.Own, ErrUnfit, name, f.Namespace)
	default:
		claims[name] = claim{modes: object.Spec.AccessModes}
	}
	return nil
}
