package cluster

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"config-server/internal/farm"
)

// The tests of this file change the process's environment, so they do not run beside others.

func TestConnectFindsTheKubeconfig(t *testing.T) {
	asked := make(chan *http.Request, 1)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r
		status(403, metav1.StatusReasonForbidden, "no")(w, r)
	}))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := `{"apiVersion":"v1","kind":"Config","current-context":"c",
		"contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],
		"clusters":[{"name":"c","cluster":{"server":"` + server.URL + `","insecure-skip-tls-verify":true}}],
		"users":[{"name":"u","user":{"token":"secret"}}]}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ argument, environment string }{
		"by name":       {file, ""},
		"by KUBECONFIG": {"", file},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("KUBERNETES_SERVICE_HOST", "")
			t.Setenv("KUBECONFIG", test.environment)
			err := Connect(test.argument, Options{Namespace: namespace}).Ping(t.Context())
			var api *farm.APIError
			if !errors.As(err, &api) || api.Status != 403 {
				t.Fatalf("ping: %v", err)
			}
			r := <-asked
			if r.Header.Get("Authorization") != "Bearer secret" || r.UserAgent() != "config-server" || !strings.Contains(r.Header.Get("Accept"), "protobuf") {
				t.Errorf("headers %v", r.Header)
			}
			if r.URL.Path != "/api/v1/namespaces/ailab-infra/pods" || r.URL.Query().Get("limit") != "1" {
				t.Errorf("asked %s", r.URL)
			}
		})
	}
}

func TestConnectInAClusterWithoutAToken(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "192.0.2.1")
	t.Setenv("KUBERNETES_SERVICE_PORT", "443")
	err := Connect("", Options{Namespace: namespace}).Ping(t.Context())
	if !errors.Is(err, farm.ErrClientSetup) || !strings.Contains(err.Error(), "in-cluster") {
		t.Errorf("ping: %v", err)
	}
}

func TestConnectWithoutAnything(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "missing"))
	err := Connect("", Options{Namespace: namespace}).Ping(t.Context())
	if !errors.Is(err, farm.ErrClientSetup) {
		t.Errorf("ping: %v", err)
	}
}
