package obs_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"config-server/internal/obs"
)

func TestMetricsOfTheAudit(t *testing.T) {
	t.Parallel()
	const name = "config_server_audit_"
	at := time.Unix(1_800_000_000, 5)
	tests := []struct {
		name string
		last obs.AuditCounts
		err  error
		want []string // lines; none = no series
	}{
		{"found something", obs.AuditCounts{CheckedAt: at, Findings: map[string]int{"no-home": 2, "unknown-kind": 1}}, nil,
			[]string{`findings{kind="no-home"} 2`, `findings{kind="ended-pod"} 0`, "timestamp_seconds 1.8e+09"}},
		{"found nothing", obs.AuditCounts{CheckedAt: at}, nil, []string{`findings{kind="no-home"} 0`, `findings{kind="ended-pod"} 0`}},
		{"no audit yet", obs.AuditCounts{}, nil, nil},
		{"not known", obs.AuditCounts{CheckedAt: at}, errors.New("the database is down"), nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			m := obs.NewMetrics(obs.Build{})
			m.Audit([]string{"no-home", "ended-pod"}, func(ctx context.Context) (obs.AuditCounts, error) {
				if _, limited := ctx.Deadline(); !limited {
					t.Error("a scrape may wait for ever")
				}
				return test.last, test.err
			})
			answer := httptest.NewRecorder()
			m.Handler().ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
			text := answer.Body.String()
			for _, line := range test.want {
				if !strings.Contains(text, "\n"+name+line+"\n") {
					t.Errorf("no line %s", line)
				}
			}
			if told := strings.Contains(text, "\n"+name+"findings{"); told != (test.want != nil) || strings.Contains(text, "unknown-kind") {
				t.Errorf("told: %v, want %v", told, test.want != nil)
			}
			if answer.Code != 200 || !strings.Contains(text, "config_server_build_info") {
				t.Errorf("status %d, the other series are not told", answer.Code)
			}
		})
	}
}
