package app

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"config-server/internal/farm"
	"config-server/internal/reconciler"
	"config-server/internal/testkit"
	"config-server/internal/testkit/world"
)

const chartFiles = "../../deploy/helm/config-server/files/"

// alert is a rule of the file.
type alert struct {
	Alert, Expr, For    string
	Labels, Annotations map[string]string
}

func alerts(t *testing.T) []alert {
	t.Helper()
	var file struct {
		Groups []struct {
			Name  string
			Rules []alert
		}
	}
	if err := yaml.UnmarshalStrict([]byte(read(t, chartFiles+"alerts.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	var all []alert
	for _, group := range file.Groups {
		all = append(all, group.Rules...)
	}
	if len(all) < 10 {
		t.Fatalf("%d alerts", len(all))
	}
	return all
}

func TestEveryAlertSaysWhatItIsAndWhatToDo(t *testing.T) {
	t.Parallel()
	text := read(t, guide)
	_, section, found := strings.Cut(text, "\n## Alerts\n")
	section, _, _ = strings.Cut(section, "\n## ")
	if !found {
		t.Fatal("operations.md has no section Alerts")
	}
	headings := map[string]bool{}
	for _, heading := range regexp.MustCompile(`(?m)^### (\w+)\n\n\S`).FindAllStringSubmatch(section, -1) {
		headings[heading[1]] = true
	}
	for _, a := range alerts(t) {
		if !slices.Contains([]string{"critical", "warning", "info"}, a.Labels["severity"]) {
			t.Errorf("%s has severity %q", a.Alert, a.Labels["severity"])
		}
		for _, name := range []string{"summary", "description"} {
			if len(a.Annotations[name]) < 10 {
				t.Errorf("%s has no %s", a.Alert, name)
			}
		}
		if want := "docs/operations.md#" + strings.ToLower(a.Alert); a.Annotations["runbook"] != want {
			t.Errorf("the runbook of %s is %q, want %q", a.Alert, a.Annotations["runbook"], want)
		}
		if !headings[a.Alert] {
			t.Errorf("operations.md does not say what to do about %s", a.Alert)
		}
		delete(headings, a.Alert)
	}
	for heading := range headings {
		t.Errorf("operations.md tells of an alert %s, which there is not", heading)
	}
}

// The labels of these alerts say where to look, so the guide has a line for each value.
func TestAlertsTellOfEachLabel(t *testing.T) {
	t.Parallel()
	values := map[string][]string{}
	for _, kind := range reconciler.Kinds() {
		values["ConfigServerFindingsStay"] = append(values["ConfigServerFindingsStay"], string(kind))
	}
	for _, reason := range farm.ReadyReasons() {
		values["ConfigServerWorkspacesDoNotStart"] = append(values["ConfigServerWorkspacesDoNotStart"], string(reason))
	}
	for heading, words := range values {
		_, section, _ := strings.Cut(read(t, guide), "\n### "+heading+"\n")
		section, _, _ = strings.Cut(section, "\n### ")
		var told []string
		for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]*`) \\|").FindAllStringSubmatch(section, -1) {
			told = append(told, strings.Split(strings.ReplaceAll(row[1], "`", ""), ", ")...)
		}
		slices.Sort(words)
		slices.Sort(told)
		if diff := cmp.Diff(words, told); diff != "" {
			t.Errorf("%s (-there are +told of):\n%s", heading, diff)
		}
	}
}

// panel is one picture of the dashboard.
type panel struct {
	ID                       int
	Type, Title, Description string
	GridPos                  struct{ H, W, X, Y int }
	FieldConfig              struct{ Defaults struct{ Unit string } }
	Datasource               struct{ Type, UID string }
	Targets                  []struct {
		RefID, Expr string
		Datasource  struct{ Type, UID string }
	}
}

func panels(t *testing.T) []panel {
	t.Helper()
	var dashboard struct{ Panels []panel }
	if err := json.Unmarshal([]byte(read(t, chartFiles+"dashboard.json")), &dashboard); err != nil {
		t.Fatal(err)
	}
	if len(dashboard.Panels) < 10 {
		t.Fatalf("%d panels", len(dashboard.Panels))
	}
	return dashboard.Panels
}

func TestEveryPanelIsWhole(t *testing.T) {
	t.Parallel()
	all := panels(t)
	ids := map[int]bool{}
	for i, p := range all {
		if ids[p.ID] || p.ID == 0 {
			t.Errorf("%q has id %d, which is 0 or another's", p.Title, p.ID)
		}
		ids[p.ID] = true
		if p.Title == "" || p.GridPos.W < 1 || p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("panel %d has title %q and place %+v", p.ID, p.Title, p.GridPos)
		}
		for _, other := range all[:i] {
			a, b := p.GridPos, other.GridPos
			if a.X < b.X+b.W && b.X < a.X+a.W && a.Y < b.Y+b.H && b.Y < a.Y+a.H {
				t.Errorf("%q lies over %q", p.Title, other.Title)
			}
		}
		if p.Type == "row" {
			continue
		}
		if p.Description == "" || p.FieldConfig.Defaults.Unit == "" || len(p.Targets) == 0 || p.Datasource.UID != "${datasource}" {
			t.Errorf("%q lacks a description, a unit, a query or the data source", p.Title)
		}
		for _, target := range p.Targets {
			if target.RefID == "" || target.Datasource.UID != "${datasource}" {
				t.Errorf("%q has the query %+v", p.Title, target)
			}
		}
	}
}

// queries are all expressions of dashboard and alerts, by what they are of.
func queries(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, p := range panels(t) {
		for _, target := range p.Targets {
			// Grafana puts the time between two points there, and at least four scrapes.
			all[fmt.Sprintf("panel %q, query %s", p.Title, target.RefID)] = strings.ReplaceAll(target.Expr, "$__rate_interval", "5m")
		}
	}
	for _, a := range alerts(t) {
		all["alert "+a.Alert] = a.Expr
	}
	return all
}

var (
	// noMetrics are the parts of an expression in which no metric is named: texts, label matchers, ranges,
	// lists of labels, and durations after offset.
	noMetrics = []*regexp.Regexp{
		regexp.MustCompile(`"[^"]*"`), regexp.MustCompile(`\{[^}]*\}`), regexp.MustCompile(`\[[^\]]*\]`),
		regexp.MustCompile(`\b(by|without|on|ignoring|group_left|group_right) *\([^)]*\)`), regexp.MustCompile(`\boffset +\w+`),
	}
	names    = regexp.MustCompile(`[a-zA-Z_:][a-zA-Z0-9_:]*( *\()?`)
	keywords = []string{"and", "or", "unless", "bool"}
)

// metricsIn lists the metrics that an expression names: every name that is neither a function nor a
// word of the language.
func metricsIn(expr string) []string {
	for _, none := range noMetrics {
		expr = none.ReplaceAllString(expr, " ")
	}
	var found []string
	for _, name := range names.FindAllString(expr, -1) {
		if !strings.HasSuffix(name, "(") && !slices.Contains(keywords, name) {
			found = append(found, name)
		}
	}
	return found
}

func TestMetricsIn(t *testing.T) {
	t.Parallel()
	for expr, want := range map[string][]string{
		`sum by (a) (rate(x_total{b=~"c",d="e"}[5m])) / 2 > bool 1e3`: {"x_total"},
		`(x unless x offset 30m) or increase(y[30m])`:                 {"x", "x", "y"},
		`max(z > 0) and on (instance, job) w`:                         {"z", "w"},
		`vector(0)`:                                                   nil,
	} {
		// 1e3 is no name; its e3 is one for the expression above.
		got := slices.DeleteFunc(metricsIn(expr), func(name string) bool { return name == "e3" })
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", expr, diff)
		}
	}
}

func TestQueriesNameMetricsThatThereAre(t *testing.T) {
	t.Parallel()
	real := registered(t)
	for what, expr := range queries(t) {
		found := metricsIn(expr)
		if len(found) == 0 {
			t.Errorf("%s names no metric: %s", what, expr)
		}
		for _, name := range found {
			base := regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(name, "")
			_, plain := real[name]
			_, part := real[base]
			if !plain && !part {
				t.Errorf("%s names %s, which there is not", what, name)
			}
		}
	}
}

// TestDashboardAndAlertsOnARealPrometheus has one scrape a service that has worked, and asks it every
// query of the dashboard and the alerts.
func TestDashboardAndAlertsOnARealPrometheus(t *testing.T) {
	t.Parallel()
	testkit.Need(t, "Prometheus", "prometheus", "prometheus")
	w := world.New(t, world.Options{})
	service := w.Service(t, map[string]string{"RECONCILE_INTERVAL": "1s", "AUDIT_INTERVAL": "1s", "GPU_ASSIGNMENT": "least-loaded"})
	for _, request := range []struct {
		method, path, body string
		status             int
	}{
		{http.MethodPut, "/accounts/users", `{"name":"kim","passwd_base64":"c2VjcmV0"}`, 201},
		{http.MethodPost, "/create-pod", `{"username":"kim"}`, 201},
		{http.MethodPost, "/create-pod", `{"username":"nobody"}`, 400},
		{http.MethodGet, "/readyz", "", 200},
	} {
		answer, err := world.Send(t.Context(), service.URL, request.method, request.path, request.body)
		if err != nil || answer.Status != request.status {
			t.Fatalf("%s %s: %d, %v: %s", request.method, request.path, answer.Status, err, answer.Body)
		}
	}
	prom := testkit.Scraper(t, strings.TrimPrefix(service.URL, "http://"), chartFiles+"alerts.yaml")

	checkQueries(t, prom)
	checkRules(t, prom)
	checkKinds(t, service.URL)
}

// quiet are the panels that have a query without a result while nothing fails.
var quiet = []string{
	"Failed steps", "Steps that failed, 24 h", "Undos", "Failed outside calls", "Locks that were not had", "Repeated transactions",
	"Findings of the last pass", "Actions", "Findings of the audit",
	"GPUs that nodes offer", // the nodes of tests offer none
}

// checkQueries asks every query until those have a result that have one on a farm that works and is well.
func checkQueries(t *testing.T, prom *testkit.PrometheusServer) {
	t.Helper()
	testkit.WaitFor(t, time.Minute, "results of the queries", func(ctx context.Context) error {
		var empty []string
		for what, expr := range queries(t) {
			var answer struct{ Data struct{ Result []any } }
			now := float64(time.Now().UnixMilli()) / 1000
			for _, path := range []string{
				fmt.Sprintf("/api/v1/query_range?query=%s&start=%f&end=%f&step=5", url.QueryEscape(expr), now-60, now),
				"/api/v1/query?query=" + url.QueryEscape(expr),
			} {
				if err := prom.Ask(ctx, path, &answer); err != nil {
					return fmt.Errorf("%s: %w", what, err)
				}
			}
			isQuiet := slices.ContainsFunc(quiet, func(title string) bool { return strings.Contains(what, strconv.Quote(title)) })
			if len(answer.Data.Result) == 0 && !isQuiet && strings.HasPrefix(what, "panel") {
				empty = append(empty, what)
			}
		}
		if len(empty) > 0 {
			return fmt.Errorf("there is no result of %s", strings.Join(empty, "; "))
		}
		return nil
	})
}

// checkRules waits until every alert was evaluated, and none is about to fire on a farm that is well.
func checkRules(t *testing.T, prom *testkit.PrometheusServer) {
	t.Helper()
	type rule struct{ Name, Health, State, LastError, LastEvaluation string }
	var answer struct {
		Data struct{ Groups []struct{ Rules []rule } }
	}
	testkit.WaitFor(t, time.Minute, "every rule to be evaluated", func(ctx context.Context) error {
		if err := prom.Ask(ctx, "/api/v1/rules", &answer); err != nil {
			return err
		}
		for _, group := range answer.Data.Groups {
			for _, r := range group.Rules {
				if r.Health == "unknown" {
					return fmt.Errorf("%s was not evaluated yet", r.Name)
				}
			}
		}
		return nil
	})
	evaluated := 0
	for _, group := range answer.Data.Groups {
		for _, r := range group.Rules {
			evaluated++
			if r.Health != "ok" || r.State != "inactive" {
				t.Errorf("%s is %s and %s: %s", r.Name, r.Health, r.State, r.LastError)
			}
		}
	}
	if want := len(alerts(t)); evaluated != want {
		t.Errorf("%d rules were evaluated, want %d", evaluated, want)
	}
}

// checkKinds compares what the table calls each metric with what the service calls it.
func checkKinds(t *testing.T, base string) {
	t.Helper()
	answer, err := world.Send(t.Context(), base, http.MethodGet, "/metrics", "")
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]string{}
	for _, line := range regexp.MustCompile(`(?m)^# TYPE (config_server_\w+) (\w+)$`).FindAllStringSubmatch(string(answer.Body), -1) {
		kinds[line[1]] = line[2]
	}
	for _, row := range documented.FindAllStringSubmatch(read(t, guide), -1) {
		if kind, there := kinds[row[1]]; there && kind != row[2] {
			t.Errorf("%s is a %s, and the table calls it a %s", row[1], kind, row[2])
		}
	}
	if len(kinds) < 25 {
		t.Errorf("a service that works tells %d metrics of its own", len(kinds))
	}
}
