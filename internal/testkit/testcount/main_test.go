package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestTally(t *testing.T) {
	t.Parallel()
	const pass = `{"Action":"pass","Package":"p","Test":"A"}`
	tests := []struct {
		name   string
		lines  []string
		quiet  bool
		counts [4]int // passed, failed, skipped, packages
		status int
		shown  string
	}{
		{"all pass", []string{pass, `{"Action":"pass","Package":"p"}`}, false, [4]int{1, 0, 0, 1}, 0, "pass p (0.0 s)"},
		{"a failure shows what the test said", []string{`{"Action":"output","Package":"p","Test":"A","Output":"because\n"}`, `{"Action":"fail","Package":"p","Test":"A"}`}, false, [4]int{0, 1, 0, 0}, 1, "because"},
		{"a pass shows nothing of it", []string{`{"Action":"output","Package":"p","Test":"A","Output":"because\n"}`, pass}, false, [4]int{1, 0, 0, 0}, 0, ""},
		{"quiet shows what tests print", []string{`{"Action":"output","Package":"p","Test":"A","Output":"62 passed\n"}`, pass}, true, [4]int{1, 0, 0, 0}, 0, "62 passed"},
		{"quiet leaves go's own lines", []string{`{"Action":"output","Package":"p","Test":"A","Output":"=== RUN A\n"}`, pass}, true, [4]int{1, 0, 0, 0}, 0, ""},
		{"a skip is not allowed", []string{pass, `{"Action":"skip","Package":"p","Test":"B"}`}, false, [4]int{1, 0, 1, 0}, 1, ""},
		{"a package without tests is no skip", []string{pass, `{"Action":"skip","Package":"q"}`}, false, [4]int{1, 0, 0, 0}, 0, ""},
		{"no test ran", []string{`{"Action":"pass","Package":"p"}`}, false, [4]int{0, 0, 0, 1}, 1, "pass p"},
		{"what is no event is shown", []string{"# build failed", pass}, false, [4]int{1, 0, 0, 0}, 0, "# build failed"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			tally := &tally{output: make(map[string][]string), quiet: test.quiet}
			var out bytes.Buffer
			if err := tally.read(strings.NewReader(strings.Join(test.lines, "\n")), &out); err != nil {
				t.Fatal(err)
			}
			if got := [4]int{tally.passed, tally.failed, tally.skipped, tally.packages}; got != test.counts {
				t.Errorf("counts %v, want %v", got, test.counts)
			}
			if got := tally.verdict(nil, &out); got != test.status {
				t.Errorf("exit status %d, want %d", got, test.status)
			}
			if !strings.Contains(out.String(), test.shown) || test.shown == "" && strings.Contains(out.String(), "because") {
				t.Errorf("shown %q, want %q", out.String(), test.shown)
			}
		})
	}
}
