package selfvolumes

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"config-server/internal/farm"
)

func nodeName(name string) farm.NodeName { return farm.NodeName(name) }

// namespace is what the API server says; asked counts the requests.
type namespace struct {
	pods     map[string]*corev1.Pod // by name
	at       map[string][]corev1.Pod
	claims   map[string][]corev1.PersistentVolumeAccessMode
	podErr   error
	claimErr error
	asked    int
}

func (n *namespace) WholePod(_ context.Context, name string) (*corev1.Pod, bool, error) {
	n.asked++
	pod, found := n.pods[name]
	return pod, found, n.podErr
}

func (n *namespace) PodsAt(_ context.Context, ip string) ([]corev1.Pod, error) {
	n.asked++
	return n.at[ip], nil
}

func (n *namespace) Claim(_ context.Context, name string) (*corev1.PersistentVolumeClaim, bool, error) {
	n.asked++
	modes, found := n.claims[name]
	return &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{AccessModes: modes}}, found, n.claimErr
}

func finder(n *namespace, host string, addresses ...string) *Finder {
	return New(Options{
		Reader: n, Host: host, Addresses: addresses, Namespace: "ailab-infra", Log: slog.New(slog.DiscardHandler),
		Paths: []Path{{Own: "/home", At: "/home", Writable: true}, {Own: "/sets", At: "/sets"}},
	})
}

// standard is the service's pod with homes and data sets.
func standard() *corev1.Pod {
	return own([]corev1.Volume{claimed("homes"), claimed("sets")}, "homes /home", "sets /sets lab")
}

func TestStorageTheOwnPod(t *testing.T) {
	t.Parallel()
	modes := map[string][]corev1.PersistentVolumeAccessMode{"homes": {corev1.ReadWriteMany}, "sets": {corev1.ReadWriteMany}}
	pod := standard()
	other := standard()
	other.Name, other.UID = "config-server-1", "uid-1"
	byName := map[string]*corev1.Pod{pod.Name: pod}
	for name, tc := range map[string]struct {
		pods      map[string]*corev1.Pod
		at        map[string][]corev1.Pod
		host      string
		addresses []string
		want      string // part of the error; empty = it is found
	}{
		"by its name":                            {pods: byName, host: pod.Name},
		"by its name, whatever the addresses":    {pods: byName, host: pod.Name, addresses: []string{"10.0.0.7"}, at: map[string][]corev1.Pod{"10.0.0.7": {*other}}},
		"by its address":                         {host: "gateway", addresses: []string{"10.0.0.7"}, at: map[string][]corev1.Pod{"10.0.0.7": {*pod}}},
		"by one of its addresses":                {host: "gateway", addresses: []string{"10.0.0.9", "10.0.0.7"}, at: map[string][]corev1.Pod{"10.0.0.7": {*pod}}},
		"by both of its addresses":               {host: "gateway", addresses: []string{"10.0.0.7", "fd00::7"}, at: map[string][]corev1.Pod{"10.0.0.7": {*pod}, "fd00::7": {*pod}}},
		"a host name that no pod can have":       {host: "My_Host", addresses: []string{"10.0.0.7"}, at: map[string][]corev1.Pod{"10.0.0.7": {*pod}}},
		"nowhere":                                {host: "gateway", addresses: []string{"10.0.0.7"}, want: "namespace ailab-infra has no pod gateway, and 0 pods with the address 10.0.0.7"},
		"two pods have the address":              {host: "gateway", addresses: []string{"10.0.0.7"}, at: map[string][]corev1.Pod{"10.0.0.7": {*pod, *other}}, want: "and 2 pods with the address 10.0.0.7"},
		"two pods have one of the addresses":     {host: "gateway", addresses: []string{"10.0.0.7", "10.0.0.8"}, at: map[string][]corev1.Pod{"10.0.0.7": {*pod}, "10.0.0.8": {*other}}, want: "and 2 pods with the address 10.0.0.7 or 10.0.0.8"},
		"neither a name nor an address is known": {want: "has no pod , and 0 pods"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set, err := finder(&namespace{pods: tc.pods, at: tc.at, claims: modes}, tc.host, tc.addresses...).Find(t.Context())
			switch {
			case tc.want != "":
				if !errors.Is(err, ErrUnfit) || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("error %v, want one with %q", err, tc.want)
				}
			case err != nil:
				t.Error(err)
			case set.Pod != pod.Name || set.Node != "farm5" || set.Namespace != "ailab-infra" || set.Labels["app"] != "config-server" || set.Bound != "":
				t.Errorf("found %+v", set)
			case len(set.Mounts) != 2 || set.Mounts[0].At != "/home" || set.Mounts[1].SubPath != "lab":
				t.Errorf("mounts %+v", set.Mounts)
			}
		})
	}
}

func TestStorageClaimsOfTheOwnPod(t *testing.T) {
	t.Parallel()
	const once, many, one = corev1.ReadWriteOnce, corev1.ReadWriteMany, corev1.ReadWriteOncePod
	claims := func(homes, sets corev1.PersistentVolumeAccessMode) map[string][]corev1.PersistentVolumeAccessMode {
		return map[string][]corev1.PersistentVolumeAccessMode{"homes": {homes}, "sets": {sets}}
	}
	down := errors.New("the API server is down")
	for name, tc := range map[string]struct {
		claims   map[string][]corev1.PersistentVolumeAccessMode
		claimErr error
		podErr   error
		bound    string // part of the reason
		says     string // of the error
		unfit    bool
	}{
		"for many":                       {claims: claims(many, many)},
		"the homes for one node":         {claims: claims(once, many), bound: "/home is on claim homes, which is not"},
		"another folder for one node":    {claims: claims(many, once), bound: "/sets is on claim sets, which is not"},
		"the homes for one pod":          {claims: claims(one, many), says: "claim homes is ReadWriteOncePod", unfit: true},
		"another folder for one pod":     {claims: claims(many, one), says: "claim sets is ReadWriteOncePod", unfit: true},
		"both, for one node and one pod": {claims: claims(once, one), says: "claim sets is ReadWriteOncePod", unfit: true},
		"a claim that is gone":           {claims: map[string][]corev1.PersistentVolumeAccessMode{"homes": {many}}, says: "/sets: workspaces cannot have it: there is no claim sets in namespace ailab-infra", unfit: true},
		"without the right":              {claims: claims(many, many), claimErr: &farm.APIError{Status: 403, Reason: "Forbidden", Err: errors.New("no")}, bound: "/home is on claim homes, whose access modes may not be read"},
		"claims cannot be read":          {claims: claims(many, many), claimErr: down, says: "read the claim of /home: the API server is down"},
		"the pod cannot be read":         {claims: claims(many, many), podErr: down, says: "read the service's own pod: the API server is down"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := standard()
			set, err := finder(&namespace{pods: map[string]*corev1.Pod{pod.Name: pod}, claims: tc.claims, claimErr: tc.claimErr, podErr: tc.podErr}, pod.Name).Find(t.Context())
			if tc.says != "" {
				if err == nil || !strings.Contains(err.Error(), tc.says) || errors.Is(err, ErrUnfit) != tc.unfit {
					t.Errorf("error %v, want %q, for good: %v", err, tc.says, tc.unfit)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if set.Bound != "" && tc.bound == "" || !strings.Contains(set.Bound, tc.bound) {
				t.Errorf("bound because %q, want %q", set.Bound, tc.bound)
			}
		})
	}
}

// A pod that holds workspaces on its node has to have one.
func TestStorageAPodWithoutANode(t *testing.T) {
	t.Parallel()
	pod := standard()
	pod.Spec.NodeName = ""
	claims := map[string][]corev1.PersistentVolumeAccessMode{"homes": {corev1.ReadWriteOnce}, "sets": {corev1.ReadWriteMany}}
	_, err := finder(&namespace{pods: map[string]*corev1.Pod{pod.Name: pod}, claims: claims}, pod.Name).Find(t.Context())
	if err == nil || errors.Is(err, ErrUnfit) || !strings.Contains(err.Error(), "is on no node yet") {
		t.Errorf("error %v", err)
	}
}

// What was found once is not asked for again; a failure is.
func TestStorageIsFoundOnce(t *testing.T) {
	t.Parallel()
	pod := standard()
	pod.Spec.Volumes[1] = claimed("homes")
	pod.Spec.Volumes[1].Name = "sets"
	n := &namespace{
		pods: map[string]*corev1.Pod{pod.Name: pod}, podErr: errors.New("down"),
		claims: map[string][]corev1.PersistentVolumeAccessMode{"homes": {corev1.ReadWriteMany}},
	}
	f := finder(n, pod.Name)
	if _, err := f.Find(t.Context()); err == nil || n.asked != 1 {
		t.Fatalf("error %v after %d requests", err, n.asked)
	}
	n.podErr = nil
	first, err := f.Find(t.Context())
	if err != nil || n.asked != 3 { // the pod, and the claim of both volumes once
		t.Fatalf("error %v after %d requests, want 3", err, n.asked)
	}
	second, err := f.Find(t.Context())
	if err != nil || n.asked != 3 || first != second || !slices.Equal(names(first), []string{"homes", "sets"}) {
		t.Errorf("error %v after %d requests: %v", err, n.asked, names(second))
	}
}

func names(set *Set) []string {
	var all []string
	for _, mount := range set.Mounts {
		all = append(all, mount.Volume.Name)
	}
	return all
}
