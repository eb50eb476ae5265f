package testkit

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// AdminBEServer plays admin_be: it answers GET /api/requests/config/NAME. Without further ado it is
// the one of the recorded surroundings (see GoldenUserConfig).
type AdminBEServer struct {
	URL string // without a path

	mu      sync.Mutex
	answers map[string]AdminBEAnswer
	asked   []string
	ids     []string
	gone    chan struct{} // closed at the test's end, for answers that hang
}

// AdminBEAnswer is what admin_be says for one user.
type AdminBEAnswer struct {
	Status int    // 0 = 200
	Body   any    // a string is sent as it is, anything else as JSON
	Hang   bool   // no answer until the caller goes
	Reset  bool   // the connection breaks without an answer
	Type   string // media type; "" = application/json
}

// AdminBE starts the stand-in for this test.
func AdminBE(t testing.TB) *AdminBEServer {
	t.Helper()
	s := &AdminBEServer{answers: make(map[string]AdminBEAnswer), gone: make(chan struct{})}
	server := httptest.NewServer(s)
	s.URL = server.URL
	t.Cleanup(func() {
		close(s.gone)
		server.Close()
	})
	return s
}

// Template is the value of WAS_URL_TEMPLATE for this server.
func (s *AdminBEServer) Template() string { return s.URL + "/api/requests/config/{username}" }

// Set changes the answer for a user; "" stands for every user without one.
func (s *AdminBEServer) Set(user string, answer AdminBEAnswer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers[user] = answer
}

// SetConfig changes some fields of the recorded config for a user; a nil value takes a field out.
func (s *AdminBEServer) SetConfig(user string, fields map[string]any) {
	config := GoldenUserConfig(user)
	maps.Copy(config, fields)
	maps.DeleteFunc(config, func(_ string, value any) bool { return value == nil })
	s.Set(user, AdminBEAnswer{Body: config})
}

// Asked returns the users that were asked for, in order.
func (s *AdminBEServer) Asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.asked...)
}

// RequestIDs returns the X-Request-Id of each request, in order; empty = it had none.
func (s *AdminBEServer) RequestIDs() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.ids...)
}

// ServeHTTP answers one request.
func (s *AdminBEServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	user, ok := strings.CutPrefix(r.URL.Path, "/api/requests/config/")
	if !ok || r.Method != http.MethodGet {
		http.NotFound(w, r)
		return
	}
	answer := s.answerFor(user, r.Header.Get("X-Request-Id"))
	switch {
	case answer.Hang:
		select {
		case <-r.Context().Done():
		case <-s.gone:
		}
		return
	case answer.Reset:
		panic(http.ErrAbortHandler)
	}
	body, isText := answer.Body.(string)
	if !isText {
		encoded, err := json.Marshal(answer.Body)
		if err != nil {
			panic(err) // a test gave a value that JSON cannot say
		}
		body = string(encoded)
	}
	if answer.Type == "" {
		answer.Type = "application/json"
	}
	w.Header().Set("Content-Type", answer.Type)
	if answer.Status != 0 {
		w.WriteHeader(answer.Status)
	}
	_, _ = w.Write([]byte(body))
}

func (s *AdminBEServer) answerFor(user, id string) AdminBEAnswer {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked, s.ids = append(s.asked, user), append(s.ids, id)
	if answer, ok := s.answers[user]; ok {
		return answer
	}
	if answer, ok := s.answers[""]; ok {
		return answer
	}
	return goldenAnswer(user)
}

// goldenAnswer is what the recorded admin_be said, by the beginning of the name.
func goldenAnswer(user string) AdminBEAnswer {
	switch {
	case strings.HasPrefix(user, "nouser"):
		return AdminBEAnswer{Status: http.StatusNotFound, Body: map[string]any{"status": 404}}
	case strings.HasPrefix(user, "soft404"):
		return AdminBEAnswer{Body: map[string]any{"status": 404}}
	case strings.HasPrefix(user, "err500"):
		return AdminBEAnswer{Status: http.StatusInternalServerError, Body: map[string]any{"error": "internal"}}
	case strings.HasPrefix(user, "badjson"):
		return AdminBEAnswer{Body: "<html>", Type: "text/html"}
	}
	return AdminBEAnswer{Body: GoldenUserConfig(user)}
}

// GoldenUserConfig is the config of the recorded surroundings: nodes FARM5, farm6 and farm7 with two
// GPUs each, group ailab; a further port when the name contains "port"; only the node ghost when the
// name begins with "badnode".
func GoldenUserConfig(user string) map[string]any {
	nodes, ports := []any{}, []any{}
	names := []string{"FARM5", "farm6", "farm7"}
	if strings.HasPrefix(user, "badnode") {
		names = []string{"ghost"}
	}
	for _, name := range names {
		nodes = append(nodes, map[string]any{"node_name": name, "num_gpu": 2, "cpu_limit": "4000m", "memory_limit": "8192Mi"})
	}
	if strings.Contains(user, "port") {
		ports = append(ports, map[string]any{"internal_port": 6006, "usage_purpose": "tensorboard"})
	}
	return map[string]any{
		"username": user, "image": "dguailab/decs:1.0", "groups": []any{map[string]any{"gid": 20005, "name": "ailab"}},
		"gpu_nodes": nodes, "additional_ports": ports,
	}
}
