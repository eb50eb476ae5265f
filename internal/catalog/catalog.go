// Package catalog has the use cases on the images that workspaces run: which there are, what they are
// held to, and what is in them.
package catalog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"config-server/internal/farm"
	"config-server/internal/podspec"
	"config-server/internal/registry"
)

// Pins keeps which images are held to a digest.
type Pins interface {
	List(ctx context.Context) ([]farm.Pin, error)
	// Put keeps a pin in place of the image's earlier one.
	Put(ctx context.Context, pin farm.Pin) error
	// Delete removes the pin of an image and returns it; false if there is none.
	Delete(ctx context.Context, image string) (farm.Pin, bool, error)
}

// Registry asks the registries of images.
type Registry interface {
	// Digest is the digest of what an image's name stands for. The error wraps farm.ErrNotFound if there is
	// no such image, farm.ErrDenied if the registry does not show it.
	Digest(ctx context.Context, image farm.Image, logins []registry.Login) (string, error)
}

// Cluster is the Kubernetes API as far as images need it. Errors carry a *farm.APIError where the API
// server answered.
type Cluster interface {
	// KnownPods lists the workspaces, from the watch while that is well.
	KnownPods(ctx context.Context) ([]farm.Pod, error)
	// PodTemplate and Secret read one object of the namespace; false if there is none.
	PodTemplate(ctx context.Context, name string) (corev1.PodTemplate, bool, error)
	Secret(ctx context.Context, name string) (farm.Secret, bool, error)
	CreatePod(ctx context.Context, pod *corev1.Pod) (farm.Pod, error)
	Pod(ctx context.Context, name farm.PodName) (farm.Pod, bool, error)
	DeletePod(ctx context.Context, name farm.PodName, uid string) (bool, error)
	// WaitStarted returns once a container of the pod runs or has ended. The error wraps farm.ErrNeverReady
	// if none can, farm.ErrWaitTimeout at the limit, both with what kubelet says.
	WaitStarted(ctx context.Context, pod farm.Pod, limit time.Duration) error
	// WaitEnded tells how the pod's container ended. The error wraps farm.ErrWaitTimeout at the limit.
	WaitEnded(ctx context.Context, pod farm.Pod, limit time.Duration) (farm.PodEnd, error)
	// FollowLog opens the log of the pod's container, from its first line to the container's end.
	FollowLog(ctx context.Context, pod farm.PodName, container string) (io.ReadCloser, error)
	// ExportPods lists the pods that exports have made and not removed yet.
	ExportPods(ctx context.Context) ([]farm.Pod, error)
}

// Options of the use cases. Every part is required but RequestID.
type Options struct {
	Pins     Pins
	Registry Registry
	Cluster  Cluster
	// SessionTemplate is the PodTemplate that lies under every workspace; empty = none.
	SessionTemplate string
	Settings        podspec.Settings
	// StartLimit bounds the wait until the pod of an export runs.
	StartLimit time.Duration
	// RequestID is the id of the request that a context belongs to.
	RequestID func(context.Context) string
	Now       func() time.Time
	Log       *slog.Logger
}

// Service has the use cases. It is safe for concurrent use.
type Service struct {
	Options

	exports chan struct{} // one token a running export

	mu   sync.Mutex
	keys keys // the logins of the session template, as last read
}

// New returns the use cases over their parts.
func New(opts Options) *Service {
	if opts.RequestID == nil {
		opts.RequestID = func(context.Context) string { return "" }
	}
	return &Service{Options: opts, exports: make(chan struct{}, maxExports)}
}

// Entry is an image with its pin and those who run it.
type Entry struct {
	Image      string
	Pin        *farm.Pin // nil = it runs as each node has it
	Workspaces []Run     // by user and pod
}

// Run is a workspace and what it runs.
type Run struct {
	User farm.UserName
	Pod  farm.PodName
	Node farm.NodeName
	// Digest is what it was made with; empty = by its tag alone.
	Digest string
}

// List tells every image that is pinned or that a workspace runs, by name. Without the cluster or the
// database there is no list but an error.
func (s *Service) List(ctx context.Context) ([]Entry, error) {
	list, err := s.Pins.List(ctx)
	if err != nil {
		return nil, err
	}
	pods, err := s.Cluster.KnownPods(ctx)
	if err != nil {
		return nil, err
	}
	entries := map[string]*Entry{}
	at := func(name string) *Entry {
		if entries[name] == nil {
			entries[name] = &Entry{Image: name}
		}
		return entries[name]
	}
	for _, pin := range list {
		at(pin.Image).Pin = &pin
	}
	for _, pod := range pods {
		name, digest := pod.Image, ""
		if image, err := farm.ParseImage(pod.Image); err == nil {
			name, digest = image.String(), image.Digest
		}
		name = cmp.Or(pod.PinnedImage, name)
		at(name).Workspaces = append(at(name).Workspaces, Run{User: pod.User, Pod: pod.Name, Node: pod.Node, Digest: digest})
	}
	var all []Entry
	for _, entry := range entries {
		slices.SortFunc(entry.Workspaces, func(a, b Run) int {
			return cmp.Or(cmp.Compare(a.User, b.User), cmp.Compare(a.Pod, b.Pod))
		})
		all = append(all, *entry)
	}
	slices.SortFunc(all, func(a, b Entry) int { return strings.Compare(a.Image, b.Image) })
	return all, nil
}

// Pinned is the outcome of a pin.
type Pinned struct {
	farm.Pin
	// Before is the digest of the pin that this one replaces; empty = there was none.
	Before   string
	Warnings []string
}

// Pin asks the image's registry what the name stands for now, and holds new workspaces of that image to
// it. The error is a *farm.Error.
func (s *Service) Pin(ctx context.Context, name string) (Pinned, error) {
	image, err := pinnable(name)
	if err != nil {
		return Pinned{}, err
	}
	ring, warnings, err := s.logins(ctx)
	if err != nil {
		return Pinned{}, unavailable(err)
	}
	digest, err := s.Registry.Digest(ctx, image, ring.For(image))
	switch {
	case errors.Is(err, farm.ErrNotFound):
		return Pinned{}, told(farm.NotFound, err)
	case err != nil:
		return Pinned{}, told(farm.Upstream, withWarnings(err, warnings))
	}
	list, err := s.Pins.List(ctx)
	if err != nil {
		return Pinned{}, unavailable(err)
	}
	made := Pinned{Warnings: warnings, Pin: farm.Pin{
		Image: image.String(), Digest: digest, PinnedAt: s.Now().UTC().Truncate(time.Second), RequestID: s.RequestID(ctx),
	}}
	for _, pin := range list {
		if pin.Image == made.Image {
			made.Before = pin.Digest
		}
	}
	if err := s.Pins.Put(ctx, made.Pin); err != nil {
		return Pinned{}, unavailable(err)
	}
	s.Log.InfoContext(ctx, "image pinned", "image", made.Image, "digest", made.Digest, "before", made.Before)
	return made, nil
}

// Unpin lets new workspaces run the image by its name again. It asks no registry. The error is a
// *farm.Error.
func (s *Service) Unpin(ctx context.Context, name string) (farm.Pin, error) {
	image, err := pinnable(name)
	if err != nil {
		return farm.Pin{}, err
	}
	pin, found, err := s.Pins.Delete(ctx, image.String())
	switch {
	case err != nil:
		return farm.Pin{}, unavailable(err)
	case !found:
		return farm.Pin{}, farm.Errorf(farm.NotFound, "image %s is not pinned", image)
	}
	s.Log.InfoContext(ctx, "image no longer pinned", "image", pin.Image, "digest", pin.Digest)
	return pin, nil
}

// pinnable takes the name of an image that can be pinned. The error is a farm.Invalid one.
func pinnable(name string) (farm.Image, error) {
	image, err := farm.ParseImage(name)
	switch {
	case err != nil:
		return farm.Image{}, farm.Errorf(farm.Invalid, "%v", err)
	case image.Digest != "":
		return farm.Image{}, farm.Errorf(farm.Invalid, "image %s names its digest itself: there is nothing to pin", image)
	case image.Saved():
		return farm.Image{}, farm.Errorf(farm.Invalid, "image %s is a user's saved one, loaded from a tar: it is in no registry and has no digest", image)
	}
	return image, nil
}

// told is a failure whose text is fit for the caller.
func told(kind farm.Kind, err error) error {
	return &farm.Error{Kind: kind, Detail: err.Error(), Cause: err}
}

func unavailable(err error) error { return told(farm.Unavailable, err) }

// withWarnings adds what may be why: a login that was not there to be used.
func withWarnings(err error, warnings []string) error {
	if len(warnings) == 0 {
		return err
	}
	return fmt.Errorf("%w (%s)", err, strings.Join(warnings, "; "))
}
