package main

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The page in docs is what the comments say now; `go generate ./internal/farm/...` renews it.
func TestPageIsUpToDate(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("../codes.go")
	if err != nil {
		t.Fatal(err)
	}
	want, err := render(source)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../../docs/CODES.md")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("docs/CODES.md (-generated +file):\n%s", diff)
	}
}

func TestRender(t *testing.T) {
	t.Parallel()
	const whole = "package farm\n// The codes of x.\nconst (\n\t// A: it is | so.\n\t//\n\t// Step: S\n\t//\n\t// Status: 500\n\t//\n\t// To do: wait.\n\tA Code = \"A_CODE\"\n\tB Step = \"NO_CODE\"\n)\n"
	cases := []struct{ name, source, row, fault string }{
		{name: "whole comment", source: whole, row: "| `A_CODE` | S | 500 | it is \\| so. | wait. |\n"},
		{name: "no remedy", source: strings.Replace(whole, "To do: wait.", "Wait.", 1), fault: `the comment of A has no part "To do"`},
		{name: "no Go", source: "nonsense", fault: "parse codes"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			page, err := render([]byte(c.source))
			if c.fault != "" {
				if err == nil || !strings.Contains(err.Error(), c.fault) {
					t.Fatalf("error is %v, want one about %q", err, c.fault)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasSuffix(string(page), c.row) || strings.Contains(string(page), "NO_CODE") {
				t.Errorf("page:\n%s", page)
			}
		})
	}
}
