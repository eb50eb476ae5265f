package helm_test

import (
	"os"
	"os/exec"
	"testing"

	"sigs.k8s.io/yaml"

	"config-server/internal/testkit"
)

const (
	alertRules = "config-server/files/alerts.yaml"
	alertTests = "testdata/alerts_test.yaml"
)

func promtool(t *testing.T, args ...string) {
	t.Helper()
	testkit.Need(t, "promtool", "prometheus", "promtool")
	if out, err := exec.CommandContext(t.Context(), "promtool", args...).CombinedOutput(); err != nil {
		t.Errorf("promtool %q: %v\n%s", args, err, out)
	}
}

func TestAlertRulesAreWellFormed(t *testing.T) {
	t.Parallel()
	promtool(t, "check", "rules", "--lint=all", "--lint-fatal", alertRules)
}

func TestAlertsFireWhenTheyShould(t *testing.T) {
	t.Parallel()
	promtool(t, "test", "rules", alertTests)
}

// TestEveryAlertIsTested: each has a time at which it fires and one at which it does not.
func TestEveryAlertIsTested(t *testing.T) {
	t.Parallel()
	var rules struct {
		Groups []struct{ Rules []struct{ Alert string } }
	}
	var tests struct {
		Tests []struct {
			Cases []struct {
				Alert  string `json:"alertname"`
				Alerts []any  `json:"exp_alerts"`
			} `json:"alert_rule_test"`
		}
	}
	for path, into := range map[string]any{alertRules: &rules, alertTests: &tests} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal(text, into); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
	fires, quiet := map[string]bool{}, map[string]bool{}
	for _, test := range tests.Tests {
		for _, c := range test.Cases {
			if len(c.Alerts) > 0 {
				fires[c.Alert] = true
			} else {
				quiet[c.Alert] = true
			}
		}
	}
	alerts := 0
	for _, group := range rules.Groups {
		for _, rule := range group.Rules {
			alerts++
			if !fires[rule.Alert] || !quiet[rule.Alert] {
				t.Errorf("%s: it is tested that it fires: %t, that it does not: %t", rule.Alert, fires[rule.Alert], quiet[rule.Alert])
			}
		}
	}
	if alerts == 0 {
		t.Error("there are no alerts")
	}
}
