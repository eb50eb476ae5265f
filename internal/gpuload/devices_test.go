package gpuload

import (
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"config-server/internal/farm"
)

func TestAssignmentDevices(t *testing.T) {
	t.Parallel()
	var queries atomic.Int32
	scorer := newScorer(t, func(w http.ResponseWriter, r *http.Request) {
		queries.Add(1)
		var items []string
		for _, sample := range []string{"a/0/10", "a/3/NaN", "b/0/99.5", "a/x/1", "a/-1/1", "a/255/1", "foreign/0/1"} {
			part := strings.Split(sample, "/")
			items = append(items, fmt.Sprintf(`{"metric":{"Hostname":%q,"gpu":%q},"value":[1,%q]}`, part[0], part[1], part[2]))
		}
		_, _ = io.WriteString(w, `{"status":"success","data":{"resultType":"vector","result":[`+strings.Join(items, ",")+`]}}`)
	}, time.Minute)
	got, err := scorer.Devices(t.Context(), []farm.NodeName{"a", "b", "c"})
	want := map[farm.NodeName]map[int]float64{"a": {0: 10, 3: math.Inf(1)}, "b": {0: 99.5}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil || queries.Load() != 1 {
		t.Errorf("%d queries, error %v (-want +got)\n%s", queries.Load(), err, diff)
	}
	if got, err := scorer.Devices(t.Context(), nil); len(got) != 0 || err != nil || queries.Load() != 1 {
		t.Errorf("no nodes: %v, %v, %d queries", got, err, queries.Load())
	}
}

func TestAssignmentDevicesThatNobodyTells(t *testing.T) {
	t.Parallel()
	scorer := newScorer(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }, time.Minute)
	if got, err := scorer.Devices(t.Context(), []farm.NodeName{"a"}); got != nil || err == nil || !strings.Contains(err.Error(), "query GPUs of 1 nodes") {
		t.Errorf("%v, %v", got, err)
	}
}
