package app_test

import (
	"bytes"
	"io"
	"net/http"
	"testing"

	"config-server/api/apitest"
	"config-server/internal/testkit/replay"
	"config-server/internal/testkit/world"
)

const (
	transcript = "../../testdata/golden/transcript.json"
	objects    = "../../testdata/golden/objects.json"
)

// TestGoldenTranscript replays the recording of the original against the real binary on real parts:
// empty share, empty table, empty namespace, the surroundings of the recording. Every answer must
// be the recorded one and must keep the API's description.
func TestGoldenTranscript(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{})
	service := w.Service(t, nil)
	exchanges, err := replay.Load(transcript)
	if err != nil {
		t.Fatal(err)
	}
	validator, err := apitest.New(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	report, err := replay.Run(t.Context(), http.DefaultClient, service.URL, exchanges, func(a replay.Answer) error {
		request, err := http.NewRequestWithContext(t.Context(), a.Exchange.Method, a.Path, nil)
		if err != nil {
			return err
		}
		return validator.ValidateAnswer(request, &http.Response{
			StatusCode: a.Status, Header: a.Header, Body: io.NopCloser(bytes.NewReader(a.Body)),
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(report)
	if len(report.Failures) > 0 || report.Passed != len(exchanges) {
		t.Errorf("of %d exchanges %d passed", len(exchanges), report.Passed)
	}
	if left := w.Rows(t); len(left) > 0 {
		t.Errorf("rows are left: %v", left)
	}
	if n := len(w.Pods(t)) + len(w.Services(t)) + w.Operations(t) + len(w.Homes(t)); n > 0 {
		t.Errorf("%d pods, Services, records or homes are left", n)
	}
}

// TestGoldenObjects makes the two workspaces of the second recording and compares what the API
// server stored.
func TestGoldenObjects(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{})
	service := w.Service(t, nil)
	for _, user := range []string{"user2100", "portuser"} {
		world.Call(t, service.URL, "PUT", "/accounts/users",
			`{"name":"`+user+`","passwd_base64":"cGFzc3dvcmQ=","supplementary_groups":[{"name":"ailab","gid":20005}]}`, 201)
	}
	for _, user := range []string{"user2100", "portuser"} {
		world.Call(t, service.URL, "POST", "/create-pod", `{"username":"`+user+`"}`, 201)
	}
	differences, err := replay.CompareObjects(objects, w.Pods(t), w.Services(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, difference := range differences {
		t.Error(difference)
	}
}
