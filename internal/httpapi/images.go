package httpapi

import (
	"context"
	"fmt"
	"io"
	"mime"
	"net/http"
	"path"
	"time"

	"config-server/internal/catalog"
	"config-server/internal/farm"
)

// Images has the use cases on images. Errors are *farm.Error, except of List, whose errors say which part
// cannot be read and why.
type Images interface {
	List(ctx context.Context) ([]catalog.Entry, error)
	Pin(ctx context.Context, image string) (catalog.Pinned, error)
	Unpin(ctx context.Context, image string) (farm.Pin, error)
	// Export gives a tar whose every error but io.EOF means that what came is not whole. Close ends it.
	Export(ctx context.Context, request catalog.ExportRequest) (io.ReadCloser, error)
}

const (
	// pinBudget bounds POST and DELETE /images/pin: registry, Secrets and database have limits of their own.
	pinBudget = 60 * time.Second
	// exportBudget bounds POST /images/export; the pod lives as long, at most.
	exportBudget = 900 * time.Second

	contentTar = "application/x-tar"
)

type image struct {
	Image      string     `json:"image"`
	Digest     *string    `json:"digest"`
	PinnedAt   *time.Time `json:"pinned_at"`
	RequestID  *string    `json:"request_id"`
	Workspaces []imageRun `json:"workspaces"`
}

type imageRun struct {
	User   farm.UserName `json:"username"`
	Pod    farm.PodName  `json:"pod_name"`
	Node   farm.NodeName `json:"node"`
	Digest *string       `json:"digest"`
}

// listImages answers GET /images.
func (a *api) listImages(w http.ResponseWriter, r *http.Request) error {
	all, err := a.Images.List(r.Context())
	if err != nil {
		return unseen(err)
	}
	told := make([]image, len(all))
	for i, one := range all {
		told[i] = image{Image: one.Image, Workspaces: make([]imageRun, len(one.Workspaces))}
		if pin := one.Pin; pin != nil {
			told[i].Digest, told[i].PinnedAt, told[i].RequestID = &pin.Digest, &pin.PinnedAt, &pin.RequestID
		}
		for j, run := range one.Workspaces {
			told[i].Workspaces[j] = imageRun{User: run.User, Pod: run.Pod, Node: run.Node}
			if run.Digest != "" {
				told[i].Workspaces[j].Digest = &run.Digest
			}
		}
	}
	return answerView(w, r, object{"images": told})
}

// pinImage answers POST /images/pin.
func (a *api) pinImage(w http.ResponseWriter, r *http.Request) error {
	in, err := a.read(w, r)
	if err != nil {
		return err
	}
	name, err := in.needed("image")
	if err != nil {
		return err
	}
	made, err := a.Images.Pin(r.Context(), name)
	if err != nil {
		return err
	}
	answer := pinJSON("pinned", made.Pin)
	if made.Before != "" {
		answer["before"] = made.Before
	}
	return write(w, http.StatusOK, addWarnings(answer, made.Warnings))
}

// unpinImage answers DELETE /images/pin. The image is in the query, because its name has slashes.
func (a *api) unpinImage(w http.ResponseWriter, r *http.Request) error {
	query, err := readQuery(r)
	if err != nil {
		return err
	}
	name := query.Get("image")
	if name == "" {
		return farm.Errorf(farm.Invalid, "image required, in the query")
	}
	pin, err := a.Images.Unpin(r.Context(), name)
	if err != nil {
		return err
	}
	return write(w, http.StatusOK, pinJSON("unpinned", pin))
}

func pinJSON(status string, pin farm.Pin) object {
	return object{"status": status, "image": pin.Image, "digest": pin.Digest, "pinned_at": pin.PinnedAt, "request_id": pin.RequestID}
}

// exportImage answers POST /images/export with a tar. A fault in its midst cuts the connection, so that
// nobody takes a part for the whole.
func (a *api) exportImage(w http.ResponseWriter, r *http.Request) error {
	in, err := a.read(w, r)
	if err != nil {
		return err
	}
	var request catalog.ExportRequest
	if request.Image, err = in.needed("image"); err == nil {
		request.Path, err = in.needed("path")
	}
	if err == nil {
		request.Node, err = in.text("node")
	}
	if err != nil {
		return err
	}
	content, err := a.Images.Export(r.Context(), request)
	if err != nil {
		return err
	}
	defer func() { _ = content.Close() }()
	w.Header().Set("Content-Type", contentTar)
	w.Header().Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": path.Base(request.Path) + ".tar"}))
	w.WriteHeader(http.StatusOK)
	out := events{w: w, control: http.NewResponseController(w)}
	defer out.close()
	if _, err := io.Copy(patient{out}, content); err != nil {
		noteFailure(r.Context(), fmt.Errorf("export %s of image %s broke off: %w", request.Path, request.Image, err), "")
		panic(http.ErrAbortHandler)
	}
	return nil
}

// patient writes, and gives each write the time that a watcher has.
type patient struct{ events }

// Write implements io.Writer.
func (p patient) Write(data []byte) (int, error) {
	// A recorder in tests has no deadlines; a real connection has.
	_ = p.control.SetWriteDeadline(time.Now().Add(writeLimit))
	return p.w.Write(data)
}

// needed is a member that must be a string and not empty.
func (f fields) needed(name string) (string, error) {
	text, err := f.text(name)
	if err == nil && text == "" {
		err = farm.Errorf(farm.Invalid, "%s required", name)
	}
	return text, err
}
