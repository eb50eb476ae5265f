package catalog

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"config-server/internal/farm"
	"config-server/internal/podspec"
)

const (
	maxExports  = 4                // at once
	maxPath     = 4096             // bytes
	removeLimit = 20 * time.Second // of the removal of an export's pod
	endLimit    = 10 * time.Second // until kubelet tells how a container ended
)

// ExportRequest says what to bring.
type ExportRequest struct {
	Image string
	// Path is absolute.
	Path string
	// Node is where the image is looked for; empty = where the scheduler binds the pod.
	Node string
}

// export is a tar that comes from the log of a pod.
type export struct {
	reader *bufio.Reader
	end    func()
}

// Read gives the tar. Any error but io.EOF means that what came is not whole.
func (e *export) Read(p []byte) (int, error) { return e.reader.Read(p) }

// Close removes the pod, whatever has become of the caller. It returns nil: what stays is removed later.
func (e *export) Close() error {
	e.end()
	return nil
}

// Export has a short-lived pod of the image bring a path of it as a tar. It returns when the first bytes
// are there, so that what is wrong with image or path is an error of this call, a *farm.Error. ctx bounds
// the reading too. The caller closes the tar, once.
func (s *Service) Export(ctx context.Context, request ExportRequest) (_ io.ReadCloser, err error) {
	input, err := s.exportInput(ctx, request)
	if err != nil {
		return nil, err
	}
	select {
	case s.exports <- struct{}{}:
	default:
		return nil, farm.Errorf(farm.Unavailable, "%d exports are running, more are not begun", maxExports)
	}
	ends := []func(){func() { <-s.exports }}
	end := func() {
		for _, f := range slices.Backward(ends) {
			f()
		}
	}
	defer func() {
		if err != nil {
			end()
		}
	}()
	pod := farm.Pod{Name: input.Pod}
	ends = append(ends, func() { s.removeExport(ctx, pod.Name, pod.UID) })
	if pod, err = s.Cluster.CreatePod(ctx, podspec.Export(input)); err != nil {
		pod = farm.Pod{Name: input.Pod} // there may be one all the same
		return nil, told(farm.Unavailable, err)
	}
	if err := s.Cluster.WaitStarted(ctx, pod, s.StartLimit); err != nil {
		return nil, told(farm.Upstream, err)
	}
	log, err := s.Cluster.FollowLog(ctx, pod.Name, farm.ContainerName)
	if err != nil {
		return nil, told(farm.Unavailable, err)
	}
	ends = append(ends, func() { _ = log.Close() }) // it was only read
	reader := bufio.NewReaderSize(newTarReader(log, podspec.ExportMax), 64<<10)
	if _, err := reader.Peek(1); err != nil {
		return nil, s.exportFailed(ctx, pod, input, err)
	}
	return &export{reader: reader, end: end}, nil
}

// exportInput checks a request and reads what the pod takes from others. Its error is a *farm.Error.
func (s *Service) exportInput(ctx context.Context, request ExportRequest) (podspec.ExportInput, error) {
	image, err := farm.ParseImage(request.Image)
	if err != nil {
		return podspec.ExportInput{}, farm.Errorf(farm.Invalid, "%v", err)
	}
	if err := checkPath(request.Path); err != nil {
		return podspec.ExportInput{}, farm.Errorf(farm.Invalid, "%v", err)
	}
	if faults := validation.IsDNS1123Subdomain(request.Node); request.Node != "" && len(faults) > 0 {
		return podspec.ExportInput{}, farm.Errorf(farm.Invalid, "node %q is no name of a node: %s", request.Node, strings.Join(faults, "; "))
	}
	var suffix [4]byte
	if _, err := rand.Read(suffix[:]); err != nil {
		return podspec.ExportInput{}, fmt.Errorf("draw the name of a pod: %w", err)
	}
	input := podspec.ExportInput{
		Namespace: s.Settings.Namespace, Pod: farm.PodName("image-export-" + hex.EncodeToString(suffix[:])),
		Image: request.Image, PullPolicy: s.Settings.ImagePullPolicy, Path: path.Clean(request.Path), Node: farm.NodeName(request.Node),
	}
	list, err := s.Pins.List(ctx)
	if err != nil {
		return podspec.ExportInput{}, unavailable(err)
	}
	for _, pin := range list {
		if pin.Image == image.String() {
			input.Image, input.PullPolicy = pin.Runs(), "IfNotPresent" // as workspaces run it
		}
	}
	if input.Session, _, err = s.session(ctx); err != nil {
		return podspec.ExportInput{}, unavailable(err)
	}
	return input, nil
}

// checkPath refuses what is no path in an image.
func checkPath(name string) error {
	parts := strings.Split(name, "/")
	switch {
	case name == "":
		return errors.New("path required")
	case len(name) > maxPath:
		return fmt.Errorf("path has more than %d bytes", maxPath)
	case !strings.HasPrefix(name, "/"):
		return errors.New("path must be absolute")
	case strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return errors.New("path must not have control characters")
	case slices.Contains(parts, ".."):
		return errors.New("path must not have '..' in it")
	}
	switch top, _, _ := strings.Cut(strings.TrimPrefix(path.Clean(name), "/"), "/"); top {
	case "", "proc", "sys", "dev":
		return errors.New("path must lie below / and outside of /proc, /sys and /dev, which are no part of an image")
	}
	return nil
}

// exportFailed is the failure of an export that brought nothing.
func (s *Service) exportFailed(ctx context.Context, pod farm.Pod, input podspec.ExportInput, cause error) error {
	if !errors.Is(cause, errUnfinished) && !errors.Is(cause, io.EOF) {
		return told(farm.Upstream, fmt.Errorf("export %s of image %s: %w", input.Path, input.Image, cause))
	}
	end, err := s.Cluster.WaitEnded(ctx, pod, endLimit)
	switch {
	case err != nil:
		return told(farm.Upstream, fmt.Errorf("export %s of image %s: it brought nothing, and nobody knows why: %w", input.Path, input.Image, err))
	case end.ExitCode == podspec.ExportTooLarge:
		return farm.Errorf(farm.TooLarge, "%s of image %s is too large: as a tar it may have %d bytes", input.Path, input.Image, podspec.ExportMax)
	case end.ExitCode == podspec.ExportNoPath:
		return farm.Errorf(farm.NotFound, "image %s has no %s", input.Image, input.Path)
	}
	return told(farm.Upstream, fmt.Errorf("export %s of image %s: it ended with status %d: %s (the image needs sh, tar, base64 and wc)",
		input.Path, input.Image, end.ExitCode, end.Message))
}

// removeExport removes the pod of an export, on its own time. Without a UID nobody knows whether there
// is one. What cannot be removed now the reconciler removes later.
func (s *Service) removeExport(ctx context.Context, name farm.PodName, uid string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeLimit)
	defer cancel()
	err := error(nil)
	if uid == "" {
		var pod farm.Pod
		var found bool
		if pod, found, err = s.Cluster.Pod(ctx, name); err == nil && !found {
			return
		}
		uid = pod.UID
	}
	if err == nil {
		_, err = s.Cluster.DeletePod(ctx, name, uid)
	}
	if err != nil {
		s.Log.WarnContext(ctx, "the pod of an export is left, to be removed later", "pod", name, "error", err)
	}
}

// RemoveLeft removes the pods of exports that a crash has left: those older than any may live. It tells
// what it did, one line each.
func (s *Service) RemoveLeft(ctx context.Context) ([]string, error) {
	return s.left(ctx, "removed", func(pod farm.Pod) error {
		_, err := s.Cluster.DeletePod(ctx, pod.Name, pod.UID)
		return err
	})
}

// PreviewLeft tells what RemoveLeft would remove.
func (s *Service) PreviewLeft(ctx context.Context) ([]string, error) {
	return s.left(ctx, "would be removed", func(farm.Pod) error { return nil })
}

func (s *Service) left(ctx context.Context, word string, remove func(farm.Pod) error) ([]string, error) {
	pods, err := s.Cluster.ExportPods(ctx)
	if err != nil {
		return nil, err
	}
	var lines []string
	var errs []error
	for _, pod := range pods {
		if s.Now().Sub(pod.CreatedAt) <= podspec.ExportLimit*time.Second || pod.Terminating {
			continue
		}
		if err := remove(pod); err != nil {
			errs = append(errs, err)
			continue
		}
		lines = append(lines, fmt.Sprintf("pod %s of an image export %s", pod.Name, word))
	}
	return lines, errors.Join(errs...)
}
