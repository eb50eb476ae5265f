package podspec_test

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"config-server/internal/farm"
	"config-server/internal/podspec"
)

// recording is the part of the golden objects that this package answers for.
type recording struct {
	Pods     map[string]any `json:"pods"`
	Services []struct {
		Name   string            `json:"name"`
		Labels map[string]string `json:"labels"`
		Spec   any               `json:"spec"`
	} `json:"services"`
}

func readRecording(t *testing.T) recording {
	t.Helper()
	text, err := os.ReadFile("../../testdata/golden/objects.json")
	if err != nil {
		t.Fatal(err)
	}
	var r recording
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

var suffix = regexp.MustCompile(`(ailab-[a-z0-9-]+)-[0-9a-f]{8}\b`)

// plain turns an object into what JSON has of it, with the random part of pod names hidden and
// without what only the API server fills in.
func plain(t *testing.T, object any) map[string]any {
	t.Helper()
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	hidden := suffix.ReplaceAllString(string(text), "$1-<8 hex>")
	if err := json.Unmarshal([]byte(hidden), &out); err != nil {
		t.Fatal(err)
	}
	delete(out, "status")
	return out
}

func TestPodsAreTheRecordedOnes(t *testing.T) {
	t.Parallel()
	want := readRecording(t).Pods
	for user, in := range map[string]podspec.Input{
		"user2100": recorded(),
		"portuser": recorded(forPortuser),
	} {
		if diff := cmp.Diff(want[user], any(plain(t, build(t, in)))); diff != "" {
			t.Errorf("pod of %s (-recorded +built):\n%s", user, diff)
		}
	}
}

func TestServicesAreTheRecordedOnes(t *testing.T) {
	t.Parallel()
	type service struct {
		Name   string
		Labels map[string]string
		Spec   any
	}
	var want, got []service
	for _, s := range readRecording(t).Services {
		want = append(want, service{s.Name, s.Labels, s.Spec})
	}
	for _, in := range []podspec.Input{recorded(forPortuser), recorded()} {
		for _, s := range podspec.Services("ailab-infra", in.Account.Name, in.Pod, in.Ports) {
			if s.Namespace != "ailab-infra" || s.Annotations != nil {
				t.Errorf("service %s: namespace %q, annotations %v", s.Name, s.Namespace, s.Annotations)
			}
			labels := map[string]string{}
			for key, value := range s.Labels {
				labels[key] = suffix.ReplaceAllString(value, "$1-<8 hex>")
			}
			got = append(got, service{s.Name, labels, plain(t, s)["spec"]})
		}
	}
	slices.SortFunc(got, func(a, b service) int { return strings.Compare(a.Name, b.Name) })
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("services (-recorded +built):\n%s", diff)
	}
}

func TestBuildLeavesItsInputAlone(t *testing.T) {
	t.Parallel()
	in, untouched := recorded(forPortuser), recorded(forPortuser)
	in.Groups = slices.Grow(in.Groups, 8)
	build(t, in)
	if diff := cmp.Diff(untouched, in); diff != "" {
		t.Errorf("input changed:\n%s", diff)
	}
	if spare := in.Groups[:2][1]; spare != (farm.GroupRef{}) {
		t.Errorf("the spare room of the caller's slice was written: %v", spare)
	}
}
