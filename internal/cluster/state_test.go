package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	k8stesting "k8s.io/client-go/testing"

	"config-server/internal/farm"
)

func named(name string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Name = name }
}

func TestPodStates(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, client := started(t,
			guestPod(named("sent")), guestPod(named("creating"), waiting("ContainerCreating", "")),
			guestPod(named("starting"), inPhase(corev1.PodRunning, "", "")),
			guestPod(named("ready"), ready), guestPod(named("also"), ready),
			guestPod(named("failed"), inPhase(corev1.PodFailed, "", "")), guestPod(named("done"), inPhase(corev1.PodSucceeded, "", "")),
			guestPod(named("leaving"), ready, terminating))
		client.ClearActions()
		states, known := c.PodStates()
		want := map[string]int{StatePending: 2, StateStarting: 1, StateReady: 2, StateEnded: 2, StateTerminating: 1}
		if diff := cmp.Diff(want, states); diff != "" || !known {
			t.Errorf("known %t, states (-want +got):\n%s", known, diff)
		}
		if asked := client.Actions(); len(asked) > 0 {
			t.Errorf("counting asked the API server: %v", asked)
		}
	})
}

func TestPodStatesAreNotKnownWithoutTheirWatch(t *testing.T) {
	t.Parallel()
	if _, known := New(nil, Options{Namespace: namespace}).PodStates(); known {
		t.Error("without a client")
	}
	if _, known := New(fake.NewClientset(), Options{Namespace: namespace}).PodStates(); known {
		t.Error("before the start")
	}
	synctest.Test(t, func(t *testing.T) {
		c, _ := blind(t, func() error { return nil })
		if _, known := c.PodStates(); known {
			t.Error("while the watch is broken")
		}
	})
}

func TestWatches(t *testing.T) {
	t.Parallel()
	if states := New(nil, Options{Namespace: namespace}).Watches(); states != nil {
		t.Errorf("without a client: %v", states)
	}
	synctest.Test(t, func(t *testing.T) {
		c, _ := blind(t, func() error { return nil })
		got := map[string]string{}
		for _, state := range c.Watches() {
			got[state.Objects] = fmt.Sprint(state.Fresh, state.Failures > 0)
		}
		want := map[string]string{"nodes": "true false", "pods": "false true", "services": "true false"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("fresh and failures (-want +got):\n%s", diff)
		}
	})
}

func TestAWatchOfServicesThatIsForbiddenIsNotTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		var allowed atomic.Bool
		client.PrependReactor("list", "*", func(action k8stesting.Action) (bool, runtime.Object, error) {
			if allowed.Load() {
				return false, nil, nil
			}
			return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: action.GetResource().Resource}, "", errors.New("not allowed"))
		})
		c := New(client, Options{Namespace: namespace})
		c.Start(context.WithoutCancel(t.Context()))
		t.Cleanup(c.Stop)
		synctest.Wait()
		told := func() (objects []string) {
			for _, state := range c.Watches() {
				objects = append(objects, fmt.Sprint(state.Objects, " ", state.Fresh))
			}
			return objects
		}
		if diff := cmp.Diff([]string{"nodes false", "pods false"}, told()); diff != "" {
			t.Errorf("forbidden (-want +got):\n%s", diff)
		}
		allowed.Store(true)
		time.Sleep(time.Hour) // of the test's own clock: the watches try again
		synctest.Wait()
		if diff := cmp.Diff([]string{"nodes true", "pods true", "services true"}, told()); diff != "" {
			t.Errorf("allowed (-want +got):\n%s", diff)
		}
	})
}

func TestCallsAreTold(t *testing.T) {
	t.Parallel()
	pods := schema.GroupResource{Resource: "pods"}
	for name, test := range map[string]struct {
		err    error
		failed bool // of the part
	}{
		"well":                   {nil, false},
		"no such object":         {apierrors.NewNotFound(pods, "p"), false},
		"exists":                 {fmt.Errorf("%w: %w", farm.ErrExists, apiError(apierrors.NewAlreadyExists(pods, "p"))), false},
		"conflict":               {apierrors.NewConflict(pods, "p", errors.New("x")), false},
		"refused as invalid":     {apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "p", nil), false},
		"list has grown too old": {apierrors.NewResourceExpired("x"), false},
		"not allowed":            {apierrors.NewForbidden(pods, "p", errors.New("x")), true},
		"who are you":            {apierrors.NewUnauthorized("x"), true},
		"too many":               {apierrors.NewTooManyRequestsError("x"), true},
		"broken":                 {apierrors.NewInternalError(errors.New("x")), true},
		"not there":              {errors.New("connection refused"), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var calls []string
			c := New(fake.NewClientset(), Options{Namespace: namespace, Called: func(_ context.Context, call string, _ time.Duration, err error) {
				calls = append(calls, fmt.Sprint(call, " ", err != nil))
			}})
			_ = c.call(t.Context(), "test", func(context.Context) error { return test.err })
			if want := []string{fmt.Sprint("test ", test.failed)}; cmp.Diff(want, calls) != "" {
				t.Errorf("told %q, want %q", calls, want)
			}
		})
	}
}

// TestWarningsOfTheServerAreLogged asks a server that warns, through the whole client.
func TestWarningsOfTheServerAreLogged(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Warning", `299 - "this is old"`)
		w.WriteHeader(http.StatusNotFound)
	}))
	t.Cleanup(server.Close)
	var log bytes.Buffer
	c := FromREST(&rest.Config{Host: server.URL}, Options{Namespace: namespace, Log: slog.New(slog.NewTextHandler(&log, nil))})
	if _, found, err := c.Pod(t.Context(), "p"); found || err != nil {
		t.Fatalf("found %t, error %v", found, err)
	}
	if !strings.Contains(log.String(), `level=WARN msg="the API server warns" text="this is old"`) {
		t.Errorf("log: %s", log.String())
	}
}
