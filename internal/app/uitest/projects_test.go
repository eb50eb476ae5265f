package uitest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"config-server/internal/testkit/world"
)

// project is a JavaScript expression for the entry of a project, or undefined.
func project(name string) string {
	return "[...document.querySelectorAll('#projects details')].find((entry) => entry.querySelector('summary').textContent.includes(" + quote(name) + "))"
}

// Projects are shown where they are switched on, what a queue lacks when somebody opens a project, and all in both languages.
func TestUIProjects(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	settings := filepath.Join(t.TempDir(), "projects.json")
	if err := os.WriteFile(settings, []byte(`{"vision":{"managers":["kim"],"binding":{"nodes":["farm5","farm6"]},"quota":{"hard":{"requests.nvidia.com/gpu":"4"}}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	shown := s.Service(t, map[string]string{"PROJECTS": "on", "PROJECT_SOURCE": "ledger", "PROJECT_GROUPS": "vision", "PROJECT_SETTINGS": settings})
	s.account(t, "kim")
	s.account(t, "lee")
	for _, user := range []string{"kim", "lee"} {
		if user == "kim" {
			world.Call(t, shown.URL, "PUT", "/accounts/groups", `{"name":"vision","members":["kim"]}`, 201)
			continue
		}
		world.Call(t, shown.URL, "PUT", "/accounts/users/lee/groups", `{"groups":["vision"]}`, 200)
	}

	p := open(t, s.browser, shown.URL+"/ui/", desktop)
	p.wait("the project", project("vision"))
	p.waitText("#projects summary", "2 members · 2 nodes")
	p.do("open it", chromedp.Click("#projects summary"))
	p.waitText("#projects", "What its queue needs")
	got := p.shows("#projects")
	for _, text := range []string{"kim (manager), lee (member)", "farm5, farm6", "requests.nvidia.com/gpu 4", "2 nodes: farm5, farm6", "kubectl label node farm5 farm6"} {
		if !strings.Contains(got, text) {
			t.Errorf("%q is not shown in\n%s", text, got)
		}
	}
	p.do("switch", chromedp.Click("#language-ko"))
	p.waitText("#projects", "큐에 필요한 것")
	p.waitText("#projects summary", "구성원 2명 · 노드 2개")
	p.shoot("projects")
	p.wantQuiet()

	p = open(t, s.browser, s.service.URL+"/ui/", desktop)
	p.waitText("#live", "Live")
	if !eval[bool](p, "document.querySelector('#projects').hidden") {
		t.Error("projects are shown where they are switched off")
	}
	p.wantQuiet()
	for _, path := range p.paths() {
		if strings.Contains(path, "/projects") && !strings.Contains(path, "/ui/") {
			t.Errorf("asked for %s", path)
		}
	}
}
