package demo

import (
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"config-server/internal/adminbe"
	"config-server/internal/farm"
	"config-server/internal/gpuload"
)

func asker(t *testing.T, s *Surroundings) *adminbe.Client {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	client, err := adminbe.New(adminbe.Options{URLTemplate: variable(t, s, "WAS_URL_TEMPLATE"), Transport: transport})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// send sends a request to the stand-ins and gives status and body.
func send(t *testing.T, s *Surroundings, method, path, body string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, "http://"+s.Address()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

func TestUserConfigsAreThoseOfAFarm(t *testing.T) {
	t.Parallel()
	s := start(t, Options{})
	client := asker(t, s)
	for name, test := range map[string]struct {
		user  farm.UserName
		ports []farm.PortWant
		nodes []string
	}{
		"anybody":              {"user2100", nil, []string{"FARM5", "farm6", "farm7"}},
		"a port in the name":   {"portuser", []farm.PortWant{{Internal: 6006, Purpose: "tensorboard"}}, []string{"FARM5", "farm6", "farm7"}},
		"a purpose in Korean":  {"kim", []farm.PortWant{{Internal: 6006, Purpose: "tensorboard"}, {Internal: 8080, Purpose: "학습 결과 웹 화면"}}, []string{"FARM5", "farm6", "farm7"}},
		"a port for VNC":       {"lee", []farm.PortWant{{Internal: 6080, Purpose: "novnc"}, {Internal: 7860, Purpose: "생성 모델 시연"}}, []string{"FARM5", "farm6", "farm7"}},
		"a node that is not":   {"badnode1", nil, []string{"ghost"}},
		"a student number too": {"2024112233", nil, []string{"FARM5", "farm6", "farm7"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := client.UserConfig(t.Context(), test.user)
			if err != nil {
				t.Fatal(err)
			}
			var nodes []string
			for _, node := range got.Nodes {
				nodes = append(nodes, string(node.Name))
				if node.NumGPU != 2 || node.CPULimit != "4000m" || node.MemoryLimit != "8192Mi" {
					t.Errorf("node %+v", node)
				}
			}
			if !slices.Equal(got.Ports, test.ports) || !slices.Equal(nodes, test.nodes) || !slices.Equal(got.GroupIDs, []farm.ID{20005}) || !strings.HasPrefix(got.Image, "dguailab/decs:") {
				t.Errorf("config of %s is %+v", test.user, got)
			}
		})
	}
}

func TestNamesMakeAdminBeFail(t *testing.T) {
	t.Parallel()
	s := start(t, Options{})
	client := asker(t, s)
	for user, code := range map[farm.UserName]farm.Code{
		"nouser1": farm.UserConfigNotFound, "soft404": farm.UserConfigNotFound,
		"err500": farm.UserConfigFetchFailed, "badjson": farm.UserConfigFetchFailed,
	} {
		_, err := client.UserConfig(t.Context(), user)
		var told *farm.Error
		if !errors.As(err, &told) || told.Code != code {
			t.Errorf("%s: %v, want %s", user, err, code)
		}
	}
}

func TestAUserConfigCanBeChangedAndReset(t *testing.T) {
	t.Parallel()
	s := start(t, Options{})
	client := asker(t, s)
	image := func() string {
		t.Helper()
		config, err := client.UserConfig(t.Context(), "park")
		if err != nil {
			t.Fatal(err)
		}
		return config.Image
	}
	if status, _ := send(t, s, http.MethodPut, userConfigPath+"park", `{"image":"own/image:3"}`); status != http.StatusOK {
		t.Fatalf("PUT answered %d", status)
	}
	if got := image(); got != "own/image:3" {
		t.Errorf("image %q after PUT", got)
	}
	if status, _ := send(t, s, http.MethodPut, userConfigPath+"park", `{"image"`); status != http.StatusBadRequest {
		t.Errorf("PUT of no JSON answered %d", status)
	}
	if got := image(); got != "own/image:3" {
		t.Errorf("image %q after a refused PUT", got)
	}
	if status, _ := send(t, s, http.MethodDelete, userConfigPath+"park", ""); status != http.StatusNoContent {
		t.Errorf("DELETE answered %d", status)
	}
	if got := image(); got != "dguailab/decs:1.0" {
		t.Errorf("image %q after DELETE", got)
	}
}

func scores(t *testing.T, s *Surroundings) map[farm.NodeName]float64 {
	t.Helper()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	scorer, err := gpuload.New(gpuload.Options{URL: variable(t, s, "PROM_URL"), Client: &http.Client{Transport: transport}})
	if err != nil {
		t.Fatal(err)
	}
	if err := scorer.Check(t.Context()); err != nil {
		t.Errorf("Check: %v", err)
	}
	got, err := scorer.Scores(t.Context(), []farm.NodeName{"farm5", "farm6", "farm7", "farm8"})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestTheServicesOwnQueryIsAnswered(t *testing.T) {
	t.Parallel()
	s := start(t, Options{})
	want := map[farm.NodeName]float64{
		"farm5": 80 + 20000.0/1024 + 0.7,
		"farm6": 11.3765625,
		"farm7": 58.4125,
	}
	if got := scores(t, s); !maps.Equal(got, want) {
		t.Errorf("scores %v, want %v", got, want)
	}
	s.SetLoad("farm6", Load{Utilisation: 100})
	if status, _ := send(t, s, http.MethodPut, "/load/farm8", `{"util":5,"fb_used":1024,"temp":50}`); status != http.StatusOK {
		t.Errorf("PUT of a load answered %d", status)
	}
	if status, _ := send(t, s, http.MethodDelete, "/load/farm5", ""); status != http.StatusNoContent {
		t.Errorf("DELETE of a load answered %d", status)
	}
	want = map[farm.NodeName]float64{"farm6": 100, "farm7": 58.4125, "farm8": 6.5}
	if got := scores(t, s); !maps.Equal(got, want) {
		t.Errorf("scores %v after changes, want %v", got, want)
	}
}

func TestOtherQueriesAreErrors(t *testing.T) {
	t.Parallel()
	s := start(t, Options{})
	for _, text := range []string{"", "up", "DCGM_FI_DEV_GPU_UTIL", "vector(2)"} {
		if status, body := send(t, s, http.MethodGet, "/api/v1/query?query="+url.QueryEscape(text), ""); status != http.StatusBadRequest || !strings.Contains(body, "bad_data") {
			t.Errorf("query %q answered %d %s", text, status, body)
		}
	}
}

func TestDriftMovesTheLoadWithinItsWidth(t *testing.T) {
	t.Parallel()
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	low, high := 0.0, 0.0
	for minute := range 11 {
		value := wave("farm6", begin.Add(time.Duration(minute)*time.Minute))
		low, high = min(low, value), max(high, value)
	}
	if low < -driftWidth || high > driftWidth || high-low < driftWidth {
		t.Errorf("the load drifts from %g to %g", low, high)
	}
}
