package obs_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	"config-server/internal/obs"
)

func TestMetricsOfNodePorts(t *testing.T) {
	t.Parallel()
	bands := []obs.PortBand{{Name: "all", Min: 30000, Max: 30009}, {Name: "reachable", Min: 30000, Max: 30001}}
	tests := []struct {
		name  string
		ports []int
		err   error
		want  []string // lines; none = no series
	}{
		{"none used", nil, nil, []string{`{band="all",state="free"} 10`, `{band="all",state="used"} 0`, `{band="reachable",state="free"} 2`}},
		{"twice told and outside do not count", []int{30001, 30001, 30009, 29999, 40000}, nil,
			[]string{`{band="all",state="used"} 2`, `{band="all",state="free"} 8`, `{band="reachable",state="used"} 1`, `{band="reachable",state="free"} 1`}},
		{"not known", nil, errors.New("the database is down"), nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			m := obs.NewMetrics(obs.Build{})
			m.NodePorts(bands, func(ctx context.Context) ([]int, error) {
				if _, limited := ctx.Deadline(); !limited {
					t.Error("a scrape may wait for ever")
				}
				return test.ports, test.err
			})
			answer := httptest.NewRecorder()
			m.Handler().ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
			text := answer.Body.String()
			for _, line := range test.want {
				if !strings.Contains(text, "config_server_nodeports"+line+"\n") {
					t.Errorf("no line %s", line)
				}
			}
			if test.want == nil && strings.Contains(text, "config_server_nodeports{") {
				t.Error("ports are told that are not known")
			}
			if answer.Code != 200 || !strings.Contains(text, "config_server_build_info") {
				t.Errorf("status %d, the other series are not told", answer.Code)
			}
		})
	}
}
