package uitest_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"go.uber.org/goleak"

	"config-server/internal/testkit"
	"config-server/internal/testkit/world"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// hostile is what a user of admin_be, or whoever writes to the share, may put where text stands.
const hostile = `"><img src=x onerror="window.stolen=1"><script>window.stolen=1</script>`

// stand is a farm with the service and a browser in front of it.
type stand struct {
	*world.World
	service *testkit.ServiceProcess
	browser context.Context
}

// newStand raises a farm in which two instances of the service may run.
func newStand(t *testing.T) *stand {
	t.Helper()
	s := &stand{World: world.New(t, world.Options{Env: map[string]string{"LEDGER_LOCK": "mysql"}})}
	s.service = s.Service(t, nil)
	s.browser = browser(t)
	return s
}

// account makes a user.
func (s *stand) account(t *testing.T, user string) {
	t.Helper()
	world.Call(t, s.service.URL, "PUT", "/accounts/users", world.UserBody(user), 201)
}

// workspace makes a user with a workspace.
func (s *stand) workspace(t *testing.T, user string) string {
	t.Helper()
	s.account(t, user)
	return world.Call(t, s.service.URL, "POST", "/create-pod", `{"username":"`+user+`"}`, 201).Text("pod_name")
}

// sql runs a statement beside the service.
func (s *stand) sql(t *testing.T, statement string, args ...any) {
	t.Helper()
	if _, err := s.MariaDB.Open(t, s.Database).ExecContext(t.Context(), statement, args...); err != nil {
		t.Fatal(err)
	}
}

// audit runs config-server audit by hand. It may find something.
func (s *stand) audit(t *testing.T) {
	t.Helper()
	binary, err := testkit.ServiceBinary(testkit.Build{})
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), binary, "audit")
	env := maps.Clone(s.Env)
	env["STATE_DIR"], env["PATH"], env["HOME"] = t.TempDir(), os.Getenv("PATH"), t.TempDir()
	for name, value := range env {
		command.Env = append(command.Env, name+"="+value)
	}
	var errs bytes.Buffer
	command.Stderr = &errs
	if err := command.Run(); err != nil && command.ProcessState.ExitCode() != 1 {
		t.Fatalf("audit: %v\n%s", err, errs.String())
	}
}

// row is a JavaScript expression for the row of a section's table that has a text, or undefined.
func row(section, text string) string {
	return fmt.Sprintf("[...document.querySelectorAll(%s)].find((row) => row.textContent.includes(%s))", quote("#"+section+" tbody tr"), quote(text))
}

// operation is the same for an entry of the operations.
func operation(text string) string {
	return fmt.Sprintf("[...document.querySelectorAll('details.operation')].find((entry) => entry.querySelector('summary').textContent.includes(%s))", quote(text))
}

func TestUIWhileTheFarmChanges(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	// In this order: the latter ends the service.
	t.Run("workspaces come and go", s.showsWorkspacesLive)
	t.Run("parts are down", s.saysWhatCannotBeRead)
}

// The whole life of a workspace is seen on the page as it goes on, without loading it anew.
func (s *stand) showsWorkspacesLive(t *testing.T) {
	p := open(t, s.browser, s.service.URL+"/ui", desktop)
	p.waitText("#workspaces", "There are no workspaces.")
	p.waitText("#nodes", "farm8")
	p.waitText("#live", "Live")
	if got := p.shows("#findings"); !strings.Contains(got, "No audit has been made yet.") {
		t.Errorf("before an audit: %s", got)
	}
	eval[any](p, "window.loadedOnce = true")

	pod := s.workspace(t, "kim")
	p.wait("kim's workspace", row("workspaces", pod)+"?.innerText.includes('ready')")
	shown := eval[string](p, row("workspaces", pod)+".innerText")
	for _, text := range []string{"kim", "ready", "farm6", "ssh 30000 → 22", "jupyter 30001 → 8888", "2"} {
		if !strings.Contains(strings.Join(strings.Fields(shown), " "), text) {
			t.Errorf("the row lacks %q: %q", text, shown)
		}
	}
	p.waitText("#tile-workspaces", "1\n1 ready")
	p.waitText("#tile-ports", "96")
	p.wait("farm6 with its load", row("nodes", "farm6")+"?.innerText.match(/11\\.4[^]*1/)")
	p.wait("farm8 without data", row("nodes", "farm8")+"?.innerText.includes('no data')")
	p.wait("the operation", operation("kim")+"?.innerText.includes('done')")

	// One that has to wait, because nobody makes its pod Ready.
	s.Cluster.Stop(t, testkit.PartKwok)
	s.account(t, "lee")
	made := make(chan world.Answer, 1)
	go func() {
		answer, err := world.Send(context.WithoutCancel(t.Context()), s.service.URL, "POST", "/create-pod", `{"username":"lee"}`)
		if err != nil {
			answer.Body = []byte(err.Error())
		}
		made <- answer
	}()
	p.wait("lee waiting", row("workspaces", "lee")+"?.innerText.includes('waiting for Ready')")
	p.wait("the operation under way", operation("lee")+"?.innerText.includes('waiting for Ready')")
	p.waitText("#tile-operations", "1")
	p.waitText("#tile-workspaces", "1 in the making")
	p.shoot("waiting")
	s.Cluster.Start(t, testkit.PartKwok)
	if answer := <-made; answer.Status != 201 {
		t.Fatalf("lee: %d %s", answer.Status, answer.Body)
	}
	p.wait("lee ready", row("workspaces", "lee")+"?.innerText.includes('ready')")

	world.Call(t, s.service.URL, "POST", "/delete-pod", `{"pod_name":"`+pod+`"}`, 200)
	p.wait("kim's workspace to go", "!("+row("workspaces", pod)+")")
	p.waitText("#operations", "delete")
	s.Cluster.SetNode(t, testkit.Node{Name: "farm7", Labels: map[string]string{"nvidia.com/gpu.product": "NVIDIA-L40S"}, Resources: map[string]string{"nvidia.com/gpu": "2"}})
	p.waitText("#gpus", "NVIDIA-L40S")
	p.waitText("#gpus", "2 of 2 GPUs free")
	if !eval[bool](p, "window.loadedOnce === true") {
		t.Error("the page was loaded anew")
	}
	p.wantQuiet()
	want := []string{"/findings", "/nodes", "/operations", "/ui", "/ui/", "/ui/dom.js", "/ui/features.js", "/ui/icon.svg", "/ui/language.js", "/ui/projects.js", "/ui/texts.js", "/ui/ui.css", "/ui/ui.js", "/ui/views.js", "/workspaces"}
	if got := p.paths(); strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("asked for %v, want %v", got, want)
	}
}

// focused describes what has the keyboard.
const focused = `(() => {
	const node = document.activeElement;
	const style = getComputedStyle(node);
	const outlined = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2;
	return node.tagName.toLowerCase() + (node.id ? '#' + node.id : '') + (outlined ? '' : ' without an outline') + ' ' + node.textContent.trim().slice(0, 40);
})()`

// tabTo presses Tab until what has the keyboard contains a text. Every stop on the way has to be seen.
func (p *page) tabTo(text string) {
	p.t.Helper()
	for range 60 {
		p.press(kb.Tab)
		now := eval[string](p, focused)
		if strings.Contains(now, "without an outline") {
			p.t.Errorf("the focus cannot be seen on %s", now)
		}
		if strings.Contains(now, text) {
			return
		}
	}
	p.t.Fatalf("Tab does not come to %q", text)
}

// Of one farm, with something to see in each section.
func TestUI(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.AdminBE.SetConfig("lee", map[string]any{"additional_ports": []any{
		map[string]any{"internal_port": 6006, "usage_purpose": "tensorboard"}, map[string]any{"internal_port": 7860, "usage_purpose": "학습 결과를 보여 주는 아주 긴 이름의 웹 화면"},
	}})
	s.workspace(t, "kim")
	s.workspace(t, "lee")
	s.workspace(t, "a_very_long_user_name_of_32_char")
	s.AdminBE.SetConfig("choi", map[string]any{"image": testkit.ImageFails})
	s.account(t, "choi")
	world.Call(t, s.service.URL, "POST", "/create-pod", `{"username":"choi"}`, 500)
	s.Cluster.SetNode(t, testkit.Node{Name: "farm5", NotReady: true})
	s.sql(t, "INSERT INTO nodeport_allocations (username, pod_name, node_name, internal_port, node_port) VALUES ('lee', 'ailab-lee-0000000d', 'farm5', 22, 30500)")
	if err := os.Remove(s.NAS.ShareDir + "/lee"); err != nil {
		t.Fatal(err)
	}
	s.audit(t)
	t.Run("every screen", s.onEveryScreen)
	t.Run("languages", s.languages)
	t.Run("keyboard", s.byKeyboardAlone)
	t.Run("in view", s.asksOnlyWhileInView)
	t.Run("token", s.withToken)
	t.Run("Swagger UI", s.triesOutInSwagger)
	t.Run("Swagger UI with token", s.triesOutInSwaggerWithToken)
	t.Run("hostile texts", s.hostileTexts)
}

func (s *stand) byKeyboardAlone(t *testing.T) {
	p := open(t, s.browser, s.service.URL+"/ui/", desktop)
	p.wait("the operation", operation("kim")+"?.innerText.includes('done')")
	p.waitText("#findings", "row-without-pod")

	p.press(kb.Tab)
	if now := eval[string](p, focused); !strings.Contains(now, "Skip to the content") {
		t.Errorf("Tab first comes to %s", now)
	}
	p.press(kb.Enter)
	p.wait("the content to have the keyboard", "document.activeElement.id === 'main'")

	p.tabTo("input#filter")
	p.press("kim")
	p.waitText("#workspaces .shown", "1 of 3")
	p.waitText("#told", "entries fit the filter")
	p.press("zzz")
	p.waitText("#workspaces .none", "Nothing fits the filter.")
	for range len("kimzzz") {
		p.press(kb.Backspace)
	}
	p.wait("the whole list again", "document.querySelectorAll('#workspaces tbody tr').length === 3")

	p.tabTo("summary")
	p.press(kb.Enter)
	p.wait("the steps", "document.querySelector('details.operation').open && document.querySelector('details.operation .steps')?.innerText.includes('WAIT_POD_READY')")
	steps := p.shows("details.operation .body")
	for _, text := range []string{"FETCH_USER_CONFIG", "SELECT_NODE", "POD_READY_TIMEOUT", "Taken back", "Services", "ms", "Request id"} {
		if !strings.Contains(steps, text) {
			t.Errorf("the steps lack %s:\n%s", text, steps)
		}
	}
	// It stays open and keeps the keyboard while the page goes on.
	s.workspace(t, "park")
	p.wait("park", operation("park"))
	if !eval[bool](p, operation("choi")+".open && document.activeElement.closest('details')?.textContent.includes('choi')") {
		t.Error("what was open is closed or has lost the keyboard")
	}

	p.tabTo("Copy")
	p.press(kb.Enter)
	p.waitText(".copy", "Copied")
	p.wait("the button to come back", "document.querySelector('.copy').textContent === 'Copy'")
	p.wantQuiet()
}

func (s *stand) hostileTexts(t *testing.T) {
	s.AdminBE.SetConfig("jung", map[string]any{"additional_ports": []any{map[string]any{"internal_port": 6006, "usage_purpose": hostile}}})
	pod := s.workspace(t, "jung")
	testkit.WaitFor(t, limit, "the last state of the operation to be written, and replaced", func(ctx context.Context) error {
		s.sql(t, "UPDATE config_server_progress SET message = ?, detail = ? WHERE username = 'jung' AND done", hostile, strings.Repeat(hostile, 20))
		answer, err := world.Send(ctx, s.service.URL, "GET", "/operations?username=jung", "")
		if err == nil && !strings.Contains(string(answer.Body), "stolen") {
			err = fmt.Errorf("%s", answer.Body)
		}
		return err
	})
	s.sql(t, "UPDATE nodeport_allocations SET username = ? WHERE internal_port = 22 AND username = 'jung'", "jung"+hostile)
	s.sql(t, "INSERT INTO nodeport_allocations (username, pod_name, node_name, internal_port, node_port) VALUES (?, ?, ?, 22, 30501)", hostile, "gone"+hostile, hostile)
	s.audit(t)

	p := open(t, s.browser, s.service.URL+"/ui/", desktop)
	p.wait("the purpose as text", row("workspaces", pod)+"?.textContent.includes("+quote(hostile)+")")
	p.wait("the finding", "[...document.querySelectorAll('.finding')].some((one) => one.textContent.includes('row-without-pod') && one.textContent.includes("+quote("gone"+hostile)+"))")
	p.do("open the operation", chromedp.Click("#operations summary"))
	p.wait("the message as text", "document.querySelector('details.operation .body')?.textContent.includes("+quote(hostile)+")")
	finding := eval[string](p, "[...document.querySelectorAll('.finding')].find((one) => one.textContent.includes('30501')).innerText")
	for _, text := range []string{"ports reserved for a pod that is gone", "30501", "kubectl -n ailab-infra get pods,services", "Copy"} {
		if !strings.Contains(finding, text) {
			t.Errorf("the finding lacks %q: %s", text, finding)
		}
	}
	p.waitText("#checked", "Last audit:")
	if eval[bool](p, "'stolen' in window || document.querySelectorAll('main img, main script').length > 0") {
		t.Error("a text was read as HTML")
	}
	p.shoot("hostile")
	p.wantQuiet()
}

func (s *stand) languages(t *testing.T) {
	p := open(t, s.browser, s.service.URL+"/ui/", desktop)
	p.wait("the workspace", row("workspaces", "kim"))
	words := func(language string, texts ...string) {
		t.Helper()
		p.wait("the language "+language, "document.documentElement.lang === "+quote(language))
		p.waitText("#ports-all", "2,768")
		shown := p.shows("body") + eval[string](p, "document.querySelector('#filter').placeholder + document.querySelector('nav').ariaLabel")
		for _, text := range texts {
			if !strings.Contains(shown, text) {
				t.Errorf("%s: %q is not shown in\n%s", language, text, shown)
			}
		}
	}
	words("en", "Workspaces", "ready", " of 2,768 free", "This page only reads.", "user, pod", "Sections")
	p.do("switch", chromedp.Click("#language-ko"))
	words("ko", "워크스페이스", "준비됨", "2,768개 중 2,7", "이 페이지는 읽기만 합니다.", "사용자, 파드", "구역", "생성", "초 전")
	p.do("load it anew", chromedp.Reload())
	p.wait("the workspace", row("workspaces", "kim"))
	words("ko", "워크스페이스", "준비됨")
	p.do("switch back", chromedp.Click("#language-en"))
	words("en", "Workspaces", "ready")
	// Both languages say the same things.
	if diff := eval[string](p, `import('./texts.js').then(({ texts }) => {
		const keys = (node, at) => typeof node === 'string' ? [at + ' ' + (node.match(/\{\w+\}/g) ?? []).sort()] : Object.keys(node).flatMap((key) => keys(node[key], at + '.' + key));
		const [en, ko] = [keys(texts.en, ''), keys(texts.ko, '')];
		return [...en.filter((key) => !ko.includes(key)), ...ko.filter((key) => !en.includes(key))].join('; ');
	})`); diff != "" {
		t.Errorf("texts differ: %s", diff)
	}
	p.wantQuiet()

	korean := desktop
	korean.language = "ko-KR,ko;q=0.9,en;q=0.8"
	p = open(t, s.browser, s.service.URL+"/ui/", korean)
	words("ko", "워크스페이스")
	p.wantQuiet()
}

// readable finds texts whose colour is too near to that of their ground (WCAG AA, 4.5:1; large 3:1).
const readable = `(() => {
	const colour = (text) => { const [r, g, b, a = 1] = text.match(/[\d.]+/g).map(Number); return { r, g, b, a }; };
	const light = ({ r, g, b }) => { const f = (v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; return 0.2126 * f(r) + 0.7152 * f(g) + 0.0722 * f(b); };
	const ground = (node) => { for (; node; node = node.parentElement) { const c = colour(getComputedStyle(node).backgroundColor); if (c.a === 1) return c; } return { r: 255, g: 255, b: 255 }; };
	const bad = [];
	for (const node of document.querySelectorAll('body *')) {
		const own = [...node.childNodes].filter((child) => child.nodeType === Node.TEXT_NODE).map((child) => child.textContent.trim()).join('');
		if (!own || !node.checkVisibility() || node.closest('.unseen, .skip, noscript')) continue;
		const style = getComputedStyle(node);
		const [a, b] = [light(colour(style.color)), light(ground(node))].sort((x, y) => y - x);
		const ratio = (a + 0.05) / (b + 0.05);
		if (ratio < (parseFloat(style.fontSize) >= 24 ? 3 : 4.5)) bad.push(node.className + ' ' + own.slice(0, 30) + ' ' + ratio.toFixed(2));
	}
	return [...new Set(bad)].join('; ');
})()`

// wide finds what reaches beyond the right edge.
const wide = `(() => {
	const edge = document.documentElement.clientWidth;
	const over = [...document.querySelectorAll('body *')].filter((node) => node.checkVisibility() && !node.closest('.unseen') && node.getBoundingClientRect().right > edge + 0.5 && node.closest('pre, .detail') === null);
	return (document.scrollingElement.scrollWidth > edge ? 'the page scrolls sideways; ' : '') + over.map((node) => node.tagName + '.' + node.className).slice(0, 5).join(', ');
})()`

// wantNamesAndLandmarks looks at the page as a screen reader does: whatever can be worked has a name,
// the parts of the page are marked, and the tables are tables with so many rows, also as cards.
func (p *page) wantNamesAndLandmarks(rows ...int) {
	p.t.Helper()
	seen := map[string]int{}
	tableRows := map[accessibility.NodeID]int{}
	tree := call(p, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{}).Nodes
	parents := map[accessibility.NodeID]accessibility.NodeID{}
	roles := map[accessibility.NodeID]string{}
	for _, node := range tree {
		parents[node.NodeID], roles[node.NodeID] = node.ParentID, text(node.Role)
	}
	for _, node := range tree {
		role := text(node.Role)
		if node.Ignored {
			continue
		}
		seen[role]++
		switch role {
		case "button", "link", "searchbox", "columnheader", "region", "navigation", "DisclosureTriangle":
			if text(node.Name) == "" {
				p.t.Errorf("a %s has no name", role)
			}
		case "row":
			for at := node.ParentID; at != ""; at = parents[at] {
				if roles[at] == "table" {
					tableRows[at]++
				}
			}
		}
	}
	for _, role := range []string{"banner", "main", "contentinfo", "navigation", "search"} {
		if seen[role] != 1 {
			p.t.Errorf("%d parts are %s", seen[role], role)
		}
	}
	counts := slices.Sorted(maps.Values(tableRows))
	if !slices.Equal(counts, rows) {
		p.t.Errorf("tables of %v rows, want %v", counts, rows)
	}
}

// text is a value of the accessibility tree.
func text(value *accessibility.Value) string {
	if value == nil {
		return ""
	}
	return strings.Trim(string(value.Value), `"`)
}

func (s *stand) onEveryScreen(t *testing.T) {
	narrow, wideKorean, dark, darkPhone := phone, desktop, desktop, phone
	narrow.width, narrow.height = 320, 640
	wideKorean.language, narrow.language = "ko-KR", "ko-KR"
	dark.dark, darkPhone.dark = true, true
	for name, v := range map[string]view{"desktop-en": desktop, "desktop-ko": wideKorean, "desktop-dark": dark, "phone-en": phone, "phone-ko-320": narrow, "phone-dark": darkPhone} {
		t.Run(name, func(t *testing.T) {
			p := open(t, s.browser, s.service.URL+"/ui/", v)
			p.wait("the workspaces", row("workspaces", "lee"))
			p.wait("the findings", "document.querySelectorAll('.finding').length >= 2")
			p.wait("the operations", operation("kim"))
			p.wait("the nodes", row("nodes", "farm5"))
			p.do("open an operation", chromedp.Click("#operations summary"))
			p.wait("its steps", "document.querySelector('details[open] .steps li')")
			if over := eval[string](p, wide); over != "" {
				t.Errorf("too wide: %s", over)
			}
			if bad := eval[string](p, readable); bad != "" {
				t.Errorf("hard to read: %s", bad)
			}
			p.wantNamesAndLandmarks(3+1, 4+1)
			p.shoot(name)
			p.wantQuiet()
		})
	}
}

// What cannot be read is said so, and what stood then stays to be seen; nothing is shown as empty.
func (s *stand) saysWhatCannotBeRead(t *testing.T) {
	p := open(t, s.browser, s.service.URL+"/ui/", desktop)
	p.wait("the workspace", row("workspaces", "lee"))
	p.waitText("#live", "Live")

	s.Cluster.Stop(t, testkit.PartAPIServer)
	p.waitText("#workspaces .trouble", "Cannot be read since")
	p.waitText("#nodes .trouble", "read the")
	p.waitText("#live", "Not up to date")
	if !eval[bool](p, "Boolean("+row("workspaces", "lee")+") && document.querySelector('#alarm').hidden && document.querySelector('#operations .trouble').hidden") {
		t.Error("what stood is gone, or more is told than is wrong")
	}
	p.shoot("trouble")
	s.Cluster.Start(t, testkit.PartAPIServer)
	p.waitText("#live", "Live")
	p.wait("the trouble to be over", "document.querySelector('#workspaces .trouble').hidden")

	s.Prom.Stop()
	p.waitText("#nodes .warnings", "the load is not known")
	p.wait("the load to be unknown", row("nodes", "farm6")+".innerText.includes('no data')")

	s.service.Kill()
	p.waitText("#alarm", "The service cannot be reached since")
	p.waitText("#live", "Not up to date")
	if !eval[bool](p, "Boolean("+row("workspaces", "lee")+")") {
		t.Error("what stood is gone")
	}
	p.shoot("unreachable")
}

// While nobody looks nobody is asked.
func (s *stand) asksOnlyWhileInView(t *testing.T) {
	p := open(t, s.browser, s.service.URL+"/ui/", desktop)
	p.waitText("#live", "Live")
	asked := func() int {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.asked)
	}
	hide := func(hidden bool) {
		eval[any](p, fmt.Sprintf(`Object.defineProperty(document, 'hidden', { configurable: true, get: () => %v }); document.dispatchEvent(new Event('visibilitychange')); null`, hidden))
	}
	hide(true)
	// The page's clock goes on by itself here: half a minute in a moment.
	p.pass(5 * time.Second) // what was on its way comes in
	before := asked()
	p.pass(30 * time.Second)
	if more := asked() - before; more > 0 {
		t.Errorf("%d questions while nobody looks", more)
	}
	hide(false)
	p.pass(10 * time.Second)
	if more := asked() - before; more < 8 {
		t.Errorf("%d questions in ten seconds in view", more)
	}
	p.wantQuiet()
}
