package raise

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"config-server/deploy/lab/internal/daemon"
	"config-server/deploy/lab/internal/site"
)

// Health is one line of status.
type Health struct {
	Name    string
	Address string
	Fault   string // "" = it is well
	// Program is the file that config-server was started from; "" = another part, or it does not run.
	Program string
}

// Status asks every part that was ever started how it is.
func (l *Lab) Status(ctx context.Context) []Health {
	files, _ := filepath.Glob(filepath.Join(l.Site.RunDir(), "*.part"))
	lines := make([]Health, len(files))
	var wait sync.WaitGroup
	for i, file := range files {
		wait.Go(func() { lines[i] = l.health(ctx, file) })
	}
	wait.Wait()
	return append(lines, l.nodeHealth(ctx)...)
}

func (l *Lab) health(ctx context.Context, file string) Health {
	health := Health{Name: strings.TrimSuffix(filepath.Base(file), ".part")}
	var p part
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	health.Address = p.Address
	pid := (&daemon.Daemon{Name: health.Name, RunDir: l.Site.RunDir()}).Running()
	if health.Name == ServiceName && pid != 0 {
		health.Program = programOf(pid)
	}
	switch {
	case err != nil:
	case pid == 0:
		err = errors.New("it does not run")
	case p.Probe != "":
		err = ask(p.Probe)(ctx)
	}
	if err != nil {
		health.Fault = err.Error()
	}
	return health
}

// programOf is the file that a process was started from, and whether another one lies there by now.
func programOf(pid int) string {
	path, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil {
		return ""
	}
	if path, replaced := strings.CutSuffix(path, " (deleted)"); replaced {
		return path + " as it was before it was replaced"
	}
	return path
}

// nodeHealth is what the cluster thinks of its nodes.
func (l *Lab) nodeHealth(ctx context.Context) []Health {
	client, _, err := l.Admin()
	if err != nil {
		return []Health{{Name: "nodes", Fault: err.Error()}}
	}
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return []Health{{Name: "nodes", Fault: err.Error()}}
	}
	var lines []Health
	for _, node := range nodes.Items {
		kind := "real"
		if node.Annotations[kwokAnnotation] != "" {
			kind = "kwok"
		}
		lines = append(lines, Health{Name: "node " + node.Name, Address: kind, Fault: notReady(node)})
	}
	return lines
}

// Guide tells what to do with a lab that is up.
func (l *Lab) Guide() string {
	s := l.Site
	return fmt.Sprintf(`
config-server  %s   (Swagger UI: /apidocs/)
admin_be       %s/api/requests/config/NAME   (PUT and DELETE edit it)
GPU loads      %s/loads/NODE   (PUT sets it)
kubectl        KUBECONFIG=%s

make lab-status tells how each part is, make e2e walks the farm as a user would, make lab-down removes it.
`, s.URL(site.Service), s.URL(site.AdminBE), s.URL(site.Exporter), s.Kubeconfig("admin"))
}
