package main

import (
	"archive/tar"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const imagesTable = `IMAGE              DIGEST      PINNED                RUNNING  OTHERS
dguailab/decs:1.0  sha256:aaa  2026-11-30T08:15:00Z        3       2
user-kim:latest    -           -                           1       -
`

const imagesAnswer = `{"images":[
	{"image":"dguailab/decs:1.0","digest":"sha256:aaa","pinned_at":"2026-11-30T08:15:00Z","request_id":"r-1","workspaces":[
		{"username":"a","pod_name":"ailab-a-1","node":"farm5","digest":"sha256:aaa"},{"username":"b","pod_name":"ailab-b-1","node":"farm5","digest":"sha256:bbb"},
		{"username":"c","pod_name":"ailab-c-1","node":"farm5","digest":null}]},
	{"image":"user-kim:latest","digest":null,"pinned_at":null,"request_id":null,"workspaces":[{"username":"kim","pod_name":"ailab-kim-1","node":"farm5","digest":null}]}]}`

// imageServer plays a service with one image: files has modes by path.
func imageServer(t *testing.T, files map[string]int64) (url string, asked *[]string) {
	t.Helper()
	asked = &[]string{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		*asked = append(*asked, strings.TrimSpace(r.Method+" "+r.URL.String()+" "+string(body)))
		switch r.Method + " " + r.URL.Path {
		case "POST /images/pin":
			_, _ = io.WriteString(w, `{"status":"pinned","image":"dguailab/decs:1.0","digest":"sha256:aaa","pinned_at":"2026-11-30T08:15:00Z","request_id":"r-1","warnings":["no login"]}`)
		case "DELETE /images/pin":
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"error":"image dguailab/decs:1.0 is not pinned"}`)
		case "POST /images/export":
			var in struct{ Path string }
			_ = json.Unmarshal(body, &in)
			mode, found := files[in.Path]
			switch {
			case !found:
				w.WriteHeader(http.StatusNotFound)
				_, _ = io.WriteString(w, `{"error":"image has no such path"}`)
				return
			case mode < 0:
				w.WriteHeader(http.StatusBadGateway)
				_, _ = io.WriteString(w, `{"error":"ErrImageNeverPull"}`)
				return
			}
			w.Header().Set("Content-Type", "application/x-tar")
			out := tar.NewWriter(w)
			_ = out.WriteHeader(&tar.Header{Name: strings.TrimPrefix(in.Path, "/"), Mode: mode, Size: 4})
			_, _ = io.WriteString(out, "text")
			_ = out.Close()
		}
	}))
	t.Cleanup(server.Close)
	return server.URL, asked
}

func TestImagesPinByHand(t *testing.T) {
	t.Parallel()
	url, asked := imageServer(t, nil)
	code, out, errs := typed(t.Context(), nil, "images", "pin", "dguailab/decs:1.0", "--server", url)
	if want := "dguailab/decs:1.0 pinned: sha256:aaa\nwarning: no login\n"; code != exitOK || out != want || errs != "" {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	code, out, _ = typed(t.Context(), nil, "images", "pin", "dguailab/decs:1.0", "--server", url, "-o", "json")
	if code != exitOK || decoded(t, out) == nil || !strings.Contains(out, `"request_id": "r-1"`) {
		t.Errorf("exit %d: %s", code, out)
	}
	code, _, errs = typed(t.Context(), nil, "images", "unpin", "dguailab/decs:1.0", "--server", url)
	if code != exitFailed || !strings.Contains(errs, "is not pinned") {
		t.Errorf("exit %d: %s", code, errs)
	}
	want := []string{`POST /images/pin {"image":"dguailab/decs:1.0"}`, `POST /images/pin {"image":"dguailab/decs:1.0"}`, `DELETE /images/pin?image=dguailab%2Fdecs%3A1.0`}
	if diff := cmp.Diff(want, *asked); diff != "" {
		t.Errorf("asked (-want +got)\n%s", diff)
	}
	for _, args := range [][]string{{"images", "pin"}, {"images", "unpin", "a", "b"}, {"check-image"}} {
		if code, _, errs := typed(t.Context(), nil, args...); code != exitUsage || !strings.Contains(errs, "it needs the name of one image") {
			t.Errorf("%v: exit %d: %s", args, code, errs)
		}
	}
}

func TestImagesCheckImage(t *testing.T) {
	t.Parallel()
	const sshd, script = "/usr/sbin/sshd", "/usr/local/bin/save_image.sh"
	for name, tc := range map[string]struct {
		files map[string]int64
		code  int
		out   string
		errs  string
	}{
		"both": {map[string]int64{sshd: 0o755, script: 0o755}, exitOK,
			"RESULT  FILE                          DETAIL\nok      /usr/sbin/sshd                it is there\nok      /usr/local/bin/save_image.sh  it is there\n", ""},
		"no script": {map[string]int64{sshd: 0o755}, exitFailed,
			"RESULT  FILE                          DETAIL\nok      /usr/sbin/sshd                it is there\nFAILED  /usr/local/bin/save_image.sh  it is not there: /migrate cannot save the workspace\n", ""},
		"sshd that may not be run": {map[string]int64{sshd: 0o644, script: 0o755}, exitFailed,
			"RESULT  FILE                          DETAIL\nFAILED  /usr/sbin/sshd                it may not be run (mode 644): nobody can log in\nok      /usr/local/bin/save_image.sh  it is there\n", ""},
		"no pod": {map[string]int64{sshd: -1}, exitFailed, "", "ErrImageNeverPull"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, asked := imageServer(t, tc.files)
			code, out, errs := typed(t.Context(), nil, "check-image", "decs:1", "--node", "farm5", "--server", url)
			if diff := cmp.Diff(tc.out, out); code != tc.code || diff != "" || !strings.Contains(errs, tc.errs) {
				t.Errorf("exit %d: %s (-want +got)\n%s", code, errs, diff)
			}
			if first := (*asked)[0]; first != `POST /images/export {"image":"decs:1","node":"farm5","path":"/usr/sbin/sshd"}` {
				t.Errorf("asked %s", first)
			}
		})
	}
	url, _ := imageServer(t, map[string]int64{sshd: 0o755})
	code, out, _ := typed(t.Context(), nil, "check-image", "decs:1", "--server", url, "-o", "json")
	if code != exitFailed || !strings.Contains(out, `"ok": false`) || decoded(t, out) == nil {
		t.Errorf("exit %d: %s", code, out)
	}
}
