package httpapi_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"config-server/internal/catalog"
	"config-server/internal/farm"
)

const zeros = "sha256:0000000000000000000000000000000000000000000000000000000000000000"

func TestImagesListed(t *testing.T) {
	t.Parallel()
	pin := onePin("decs:1")
	for name, tc := range map[string]struct {
		entries []catalog.Entry
		err     error
		status  int
		want    string
	}{
		"none": {nil, nil, 200, `{"images":[]}`},
		"pinned and not": {[]catalog.Entry{
			{Image: "decs:1", Pin: &pin, Workspaces: []catalog.Run{{User: "kim", Pod: "ailab-kim-00000001", Node: "farm5", Digest: zeros}, {User: "lee", Pod: "ailab-lee-00000001", Node: "farm6"}}},
			{Image: "user-kim:latest"},
		}, nil, 200, `{"images":[
			{"image":"decs:1","digest":"` + zeros + `","pinned_at":"2027-01-15T08:00:00Z","request_id":"r-1","workspaces":[
				{"username":"kim","pod_name":"ailab-kim-00000001","node":"farm5","digest":"` + zeros + `"},
				{"username":"lee","pod_name":"ailab-lee-00000001","node":"farm6","digest":null}]},
			{"image":"user-kim:latest","digest":null,"pinned_at":null,"request_id":null,"workspaces":[]}]}`},
		"the database is down": {nil, errors.New("read the pins of images: down"), 503, `{"error":"read the pins of images: down"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newService()
			s.images.list = func(ctx context.Context) ([]catalog.Entry, error) {
				if _, limited := ctx.Deadline(); !limited {
					t.Error("the listing has no limit")
				}
				return tc.entries, tc.err
			}
			got := s.described(t, "GET", "/images", "")
			if diff := cmp.Diff(object(t, tc.want), got.object(t)); got.Status != tc.status || diff != "" {
				t.Errorf("status %d (-want +got):\n%s", got.Status, diff)
			}
		})
	}
}

func TestImagesRequests(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		method, path, body string
		status             int
		call               string // of the use case; empty = none
	}{
		"pin":                     {"POST", "/images/pin", `{"image":"a/b:1"}`, 200, "pin a/b:1"},
		"pin without an image":    {"POST", "/images/pin", `{}`, 400, ""},
		"pin an empty image":      {"POST", "/images/pin", `{"image":""}`, 400, ""},
		"pin null":                {"POST", "/images/pin", `{"image":null}`, 400, ""},
		"pin a number":            {"POST", "/images/pin", `{"image":1}`, 400, ""},
		"pin no JSON":             {"POST", "/images/pin", `image`, 400, ""},
		"unpin":                   {"DELETE", "/images/pin?image=a%2Fb:1", "", 200, "unpin a/b:1"},
		"unpin nothing":           {"DELETE", "/images/pin", "", 400, ""},
		"unpin in a broken query": {"DELETE", "/images/pin?image=a&image=b%2", "", 400, ""},
		"unpin with a semicolon":  {"DELETE", "/images/pin?image=a&image=b;image=c", "", 400, ""},
		"export":                  {"POST", "/images/export", `{"image":"a:1","path":"/etc"}`, 200, "export a:1 /etc"},
		"export on a node":        {"POST", "/images/export", `{"image":"a:1","path":"/etc","node":"farm5"}`, 200, "export a:1 /etc farm5"},
		"export without a path":   {"POST", "/images/export", `{"image":"a:1"}`, 400, ""},
		"export without an image": {"POST", "/images/export", `{"path":"/etc"}`, 400, ""},
		"export a list":           {"POST", "/images/export", `{"image":"a:1","path":["/etc"]}`, 400, ""},
		"export on a number":      {"POST", "/images/export", `{"image":"a:1","path":"/etc","node":5}`, 400, ""},
		"another method":          {"PUT", "/images/pin", `{}`, 405, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newService()
			got := s.call(tc.method, tc.path, tc.body)
			if got.Status != 405 {
				got.fits(t, tc.method, tc.path)
			}
			var want []string
			if tc.call != "" {
				want = []string{tc.call}
			}
			if diff := cmp.Diff(want, s.images.calls.all()); got.Status != tc.status || diff != "" {
				t.Errorf("status %d: %s (-want +got)\n%s", got.Status, got.Text, diff)
			}
		})
	}
}

func TestImagesPinAnswers(t *testing.T) {
	t.Parallel()
	s := newService()
	s.images.pin = func(_ context.Context, image string) (catalog.Pinned, error) {
		return catalog.Pinned{Pin: onePin(image), Before: "sha256:" + strings.Repeat("1", 64), Warnings: []string{"w"}}, nil
	}
	got := s.described(t, "POST", "/images/pin", `{"image":"decs:1"}`).object(t)
	want := object(t, `{"status":"pinned","image":"decs:1","digest":"`+zeros+`","pinned_at":"2027-01-15T08:00:00Z","request_id":"r-1","before":"sha256:`+strings.Repeat("1", 64)+`","warnings":["w"]}`)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	for kind, status := range map[farm.Kind]int{farm.Invalid: 400, farm.NotFound: 404, farm.Upstream: 502, farm.Unavailable: 503} {
		refuse := &farm.Error{Kind: kind, Detail: "why", Cause: errors.New("inside")}
		s.images.pin = func(context.Context, string) (catalog.Pinned, error) { return catalog.Pinned{}, refuse }
		s.images.unpin = func(context.Context, string) (farm.Pin, error) { return farm.Pin{}, refuse }
		s.images.export = func(context.Context, catalog.ExportRequest) (io.ReadCloser, error) { return nil, refuse }
		for _, call := range []answer{
			s.described(t, "POST", "/images/pin", `{"image":"decs:1"}`), s.call("DELETE", "/images/pin?image=a", ""),
			s.described(t, "POST", "/images/export", `{"image":"decs:1","path":"/a"}`),
		} {
			if call.Status != status || call.Text != `{"error":"why"}`+"\n" {
				t.Errorf("%s: %d %s", kind, call.Status, call.Text)
			}
		}
	}
}

// broken gives some bytes and then an error; closed has a value when it was closed.
type broken struct {
	io.Reader
	closed chan struct{}
}

func (b broken) Close() error {
	close(b.closed)
	return nil
}

// What breaks off is seen by the caller: the answer does not come to its end.
func TestImagesExportThatBreaksOff(t *testing.T) {
	t.Parallel()
	s := newService()
	closed := make(chan struct{})
	s.images.export = func(context.Context, catalog.ExportRequest) (io.ReadCloser, error) {
		return broken{io.MultiReader(strings.NewReader("half"), failing{}), closed}, nil
	}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	response, err := server.Client().Post(server.URL+"/images/export", "application/json", strings.NewReader(`{"image":"a","path":"/etc/ssh"}`))
	if err == nil {
		if response.StatusCode != http.StatusOK {
			t.Errorf("status %d", response.StatusCode)
		}
		_, err = io.ReadAll(response.Body)
		_ = response.Body.Close()
	}
	if err == nil {
		t.Error("the caller takes a part for the whole")
	}
	<-closed
	server.Client().CloseIdleConnections()
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("the log is gone") }

func TestImagesExportIsATar(t *testing.T) {
	t.Parallel()
	closed := make(chan struct{})
	s := newService()
	s.images.export = func(context.Context, catalog.ExportRequest) (io.ReadCloser, error) {
		return broken{strings.NewReader("a tar"), closed}, nil
	}
	got := s.described(t, "POST", "/images/export", `{"image":"a","path":"/etc/ssh"}`)
	if got.Status != 200 || got.Text != "a tar" || got.Header.Get("Content-Type") != "application/x-tar" || got.Header.Get("Content-Disposition") != "attachment; filename=ssh.tar" {
		t.Errorf("%d %v %s", got.Status, got.Header, got.Text)
	}
	<-closed
}
