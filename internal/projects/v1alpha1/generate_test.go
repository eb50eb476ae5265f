package v1alpha1_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestProjectsDefinitionsAreThoseOfTheTypes: make generate writes what the chart ships and the deep copies.
func TestProjectsDefinitionsAreThoseOfTheTypes(t *testing.T) {
	t.Parallel()
	made := t.TempDir()
	command := exec.CommandContext(t.Context(), "go", "tool", "controller-gen", "object", "crd", "paths=.", "output:dir="+made)
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("controller-gen: %v\n%s", err, out)
	}
	crds := filepath.Join("..", "..", "..", "deploy", "helm", "config-server", "crds")
	for _, folder := range []string{".", crds} {
		pattern := map[string]string{".": "zz_generated*.go", crds: "*.yaml"}[folder]
		generated, err := filepath.Glob(filepath.Join(made, pattern))
		if err != nil || len(generated) == 0 {
			t.Fatalf("controller-gen made no %s: %v", pattern, err)
		}
		for _, file := range generated {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(filepath.Join(folder, filepath.Base(file)))
			if err != nil || string(got) != string(want) {
				t.Errorf("%s is not what the types make (%v): run make generate", filepath.Base(file), err)
			}
		}
	}
}
