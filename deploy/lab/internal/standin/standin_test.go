package standin

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
)

func ask(t *testing.T, handler http.Handler, method, path, body string) (int, string) {
	t.Helper()
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, httptest.NewRequest(method, path, strings.NewReader(body)))
	text, err := io.ReadAll(recorder.Body)
	if err != nil {
		t.Fatal(err)
	}
	return recorder.Code, strings.TrimSpace(string(text))
}

func TestUsersOfAdminBECanBeEditedAndOutliveIt(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "users.json")
	open := func() http.Handler {
		handler, err := AdminBE(file)
		if err != nil {
			t.Fatal(err)
		}
		return handler
	}
	const path = "/api/requests/config/alice"
	handler := open()
	for _, step := range []struct {
		name, method, body string
		status             int
		says               string
	}{
		{"nobody knows her", http.MethodGet, "", http.StatusNotFound, `{"status":404}`},
		{"no object", http.MethodPut, `[1]`, http.StatusBadRequest, ""},
		{"she is added", http.MethodPut, `{"image":"a"}`, http.StatusOK, `{"image":"a"}`},
		{"she is known", http.MethodGet, "", http.StatusOK, `{"image":"a"}`},
	} {
		status, says := ask(t, handler, step.method, path, step.body)
		if status != step.status || step.says != "" && says != step.says {
			t.Errorf("%s: %d %s, want %d %s", step.name, status, says, step.status, step.says)
		}
	}
	handler = open()
	if status, says := ask(t, handler, http.MethodGet, path, ""); status != http.StatusOK || says != `{"image":"a"}` {
		t.Errorf("after a restart: %d %s", status, says)
	}
	if status, _ := ask(t, handler, http.MethodDelete, path, ""); status != http.StatusNoContent {
		t.Errorf("DELETE: %d", status)
	}
	if status, _ := ask(t, handler, http.MethodGet, path, ""); status != http.StatusNotFound {
		t.Errorf("after DELETE: %d", status)
	}
}

func TestExporterHasThreeSeriesOfEachGPU(t *testing.T) {
	t.Parallel()
	handler, err := Exporter(filepath.Join(t.TempDir(), "loads.json"))
	if err != nil {
		t.Fatal(err)
	}
	if status, says := ask(t, handler, http.MethodPut, "/loads/farm1", `{"gpus":2,"util":10,"used":1000,"temp":40}`); status != http.StatusOK {
		t.Fatalf("PUT: %d %s", status, says)
	}
	_, text := ask(t, handler, http.MethodGet, "/metrics", "")
	for _, line := range []string{
		`DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-farm1-0",device="nvidia0",modelName="Lab GPU",Hostname="farm1"} 10`,
		`DCGM_FI_DEV_FB_USED{gpu="1",UUID="GPU-farm1-1",device="nvidia1",modelName="Lab GPU",Hostname="farm1"} 1000`,
		`DCGM_FI_DEV_GPU_TEMP{gpu="1",UUID="GPU-farm1-1",device="nvidia1",modelName="Lab GPU",Hostname="farm1"} 40`,
	} {
		if !strings.Contains(text, line+"\n") && !strings.HasSuffix(text, line) {
			t.Errorf("no line %s in\n%s", line, text)
		}
	}
	ask(t, handler, http.MethodDelete, "/loads/farm1", "")
	if _, text := ask(t, handler, http.MethodGet, "/metrics", ""); strings.Contains(text, "farm1") {
		t.Errorf("series stay after DELETE:\n%s", text)
	}
}
