package cluster

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// TestListsComeInPages has 1,200 objects listed from something that keeps to the limit it is given.
func TestListsComeInPages(t *testing.T) {
	t.Parallel()
	const objects = 1200
	expired := &apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusGone, Reason: metav1.StatusReasonExpired}}
	tests := []struct {
		name  string
		fail  map[int]error // by call, counted from 0
		asked []int64       // limits
		err   bool
	}{
		{name: "three pages", asked: []int64{500, 500, 500}},
		{name: "a state that is too old to go on is read anew in one piece", fail: map[int]error{1: expired}, asked: []int64{500, 500, 0}},
		{name: "what is too old at once is an error", fail: map[int]error{0: expired}, asked: []int64{500}, err: true},
		{name: "one page that fails fails all", fail: map[int]error{2: context.DeadlineExceeded}, asked: []int64{500, 500, 500}, err: true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var asked []int64
			list := func(_ context.Context, opts metav1.ListOptions) ([]corev1.Pod, string, error) {
				asked = append(asked, opts.Limit)
				if err := test.fail[len(asked)-1]; err != nil {
					return nil, "", err
				}
				begin, _ := strconv.Atoi(opts.Continue)
				end, next := objects, ""
				if limit := int(opts.Limit); limit > 0 && begin+limit < objects {
					end = begin + limit
					next = strconv.Itoa(end)
				}
				page := make([]corev1.Pod, 0, end-begin)
				for i := begin; i < end; i++ {
					page = append(page, corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: strconv.Itoa(i)}})
				}
				return page, next, nil
			}
			c := New(fake.NewClientset(), Options{Namespace: namespace})
			got, err := listAll(t.Context(), c, "list", metav1.ListOptions{}, list, func(pod *corev1.Pod) string { return pod.Name })
			if (err != nil) != test.err || !cmp.Equal(asked, test.asked) {
				t.Fatalf("limits %v and error %v, want limits %v and error %v", asked, err, test.asked, test.err)
			}
			if test.err {
				return
			}
			for i, name := range got {
				if len(got) != objects || name != fmt.Sprint(i) {
					t.Fatalf("object %d of %d is %s", i, len(got), name)
				}
			}
		})
	}
}
