package traces

import (
	"slices"
	"testing"
)

func TestBeyondIsWhatCameSince(t *testing.T) {
	t.Parallel()
	before := Traces{"interface": {"lo", "eth0"}, "rule": {"filter -A INPUT"}}
	for name, test := range map[string]struct {
		now  Traces
		want []string
	}{
		"the same":        {Traces{"interface": {"eth0", "lo"}, "rule": {"filter -A INPUT"}}, nil},
		"something less":  {Traces{"interface": {"lo"}}, nil},
		"more of a kind":  {Traces{"interface": {"lo", "cslab1"}}, []string{"interface cslab1"}},
		"of another kind": {Traces{"mount": {"/x"}, "interface": {"veth0"}}, []string{"interface veth0", "mount /x"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := test.now.Beyond(before); !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
