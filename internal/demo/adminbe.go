package demo

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
)

// userConfigPath is where admin_be gives user configs.
const userConfigPath = "/api/requests/config/"

const maxUserConfig = 1 << 20

// userConfigs is admin_be. It knows every user: those of samples by their own configuration, those
// that a developer has put by that, and any other by a plain one. Beginnings of names make it fail.
type userConfigs struct {
	mu  sync.Mutex
	put map[string]json.RawMessage
}

type userConfig struct {
	Username   string     `json:"username"`
	Image      string     `json:"image"`
	Groups     []groupRef `json:"groups"`
	VolumeSize string     `json:"volume_size"`
	GPUNodes   []gpuNode  `json:"gpu_nodes"`
	Ports      []portWant `json:"additional_ports"`
	Password   string     `json:"passwd_base64"`
}

type groupRef struct {
	GID  int    `json:"gid"`
	Name string `json:"name"`
}

type gpuNode struct {
	Name        string `json:"node_name"`
	NumGPU      int    `json:"num_gpu"`
	CPULimit    string `json:"cpu_limit"`
	MemoryLimit string `json:"memory_limit"`
}

type portWant struct {
	Internal int    `json:"internal_port"`
	Purpose  string `json:"usage_purpose"`
}

func newUserConfigs() *userConfigs { return &userConfigs{put: map[string]json.RawMessage{}} }

func (u *userConfigs) register(mux *http.ServeMux) {
	mux.HandleFunc("GET "+userConfigPath+"{username}", u.get)
	mux.HandleFunc("PUT "+userConfigPath+"{username}", u.set)
	mux.HandleFunc("DELETE "+userConfigPath+"{username}", u.reset)
}

func (u *userConfigs) get(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("username")
	u.mu.Lock()
	stored, found := u.put[name]
	u.mu.Unlock()
	switch {
	case found:
		writeJSON(w, http.StatusOK, stored)
	case strings.HasPrefix(name, "nouser"):
		writeJSON(w, http.StatusNotFound, map[string]any{"status": 404, "message": "사용자를 찾을 수 없습니다"})
	case strings.HasPrefix(name, "soft404"):
		writeJSON(w, http.StatusOK, map[string]any{"status": 404})
	case strings.HasPrefix(name, "err500"):
		writeJSON(w, http.StatusInternalServerError, map[string]any{"status": 500, "message": "internal error"})
	case strings.HasPrefix(name, "badjson"):
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<html>")
	default:
		writeJSON(w, http.StatusOK, configOf(name))
	}
}

// set stores any JSON as it is, so that odd answers can be tried as well.
func (u *userConfigs) set(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxUserConfig))
	if err != nil || !json.Valid(body) {
		writeJSON(w, http.StatusBadRequest, map[string]any{"error": "the body is no JSON"})
		return
	}
	u.mu.Lock()
	u.put[r.PathValue("username")] = bytes.Clone(body)
	u.mu.Unlock()
	writeJSON(w, http.StatusOK, json.RawMessage(body))
}

func (u *userConfigs) reset(w http.ResponseWriter, r *http.Request) {
	u.mu.Lock()
	delete(u.put, r.PathValue("username"))
	u.mu.Unlock()
	w.WriteHeader(http.StatusNoContent)
}

// configOf is the configuration of a user whom nobody has configured.
func configOf(name string) userConfig {
	c := userConfig{
		Username: name, Image: "dguailab/decs:1.0", VolumeSize: "100Gi",
		Groups:   []groupRef{{20005, "ailab"}},
		GPUNodes: []gpuNode{farmGPU("FARM5"), farmGPU("farm6"), farmGPU("farm7")},
		Ports:    []portWant{},
		Password: "ZGVtby1wYXNzd29yZA==",
	}
	switch {
	case strings.HasPrefix(name, "badnode"):
		c.GPUNodes = []gpuNode{farmGPU("ghost")}
	case name == "kim":
		c.Image = "dguailab/decs:2.1-cuda12"
		c.Ports = []portWant{{6006, "tensorboard"}, {8080, "학습 결과 웹 화면"}}
	case name == "lee":
		c.Ports = []portWant{{6080, "novnc"}, {7860, "생성 모델 시연"}}
	case strings.Contains(name, "port"):
		c.Ports = []portWant{{6006, "tensorboard"}}
	}
	return c
}

func farmGPU(node string) gpuNode {
	return gpuNode{Name: node, NumGPU: 2, CPULimit: "4000m", MemoryLimit: "8192Mi"}
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(body)
}
