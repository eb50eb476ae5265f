package api_test

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"config-server/api"
	"config-server/api/apitest"
)

func TestDescriptionIsValidAndItsExamplesFit(t *testing.T) {
	t.Parallel()
	if _, err := apitest.New(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestDescriptionHasEveryEndpoint(t *testing.T) {
	t.Parallel()
	validator, err := apitest.New(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for path, item := range validator.Document.Paths.Map() {
		for method := range item.Operations() {
			got = append(got, method+" "+path)
		}
	}
	slices.Sort(got)
	want := []string{
		"DELETE /accounts/groups/{name}",
		"DELETE /accounts/users/{name}",
		"DELETE /images/pin",
		"GET /accounts/groups",
		"GET /accounts/users",
		"GET /accounts/users/{name}",
		"GET /apidocs/",
		"GET /apispec_1.json",
		"GET /findings",
		"GET /gpu-options",
		"GET /health",
		"GET /images",
		"GET /metrics",
		"GET /nodes",
		"GET /operations",
		"GET /pods/{username}/status",
		"GET /projects",
		"GET /projects/{project}/check",
		"GET /projects/{project}/queue",
		"GET /readyz",
		"GET /ui/",
		"GET /workspaces",
		"POST /create-pod",
		"POST /delete-pod",
		"POST /images/export",
		"POST /images/pin",
		"POST /migrate",
		"PUT /accounts/groups",
		"PUT /accounts/users",
		"PUT /accounts/users/{name}/groups",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("operations (-want +got):\n%s", diff)
	}
}

// Every body in the description, of requests and of answers, shows at least one example.
func TestEveryBodyHasAnExample(t *testing.T) {
	t.Parallel()
	validator, err := apitest.New(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for path, item := range validator.Document.Paths.Map() {
		for method, operation := range item.Operations() {
			if body := operation.RequestBody; body != nil {
				for _, media := range body.Value.Content {
					if media.Example == nil && len(media.Examples) == 0 {
						t.Errorf("%s %s: the request has no example", method, path)
					}
				}
			}
			for status, response := range operation.Responses.Map() {
				if status != "304" && len(response.Value.Content) == 0 { // a 304 has no body by its nature
					t.Errorf("%s %s: answer %s has no content", method, path, status)
				}
				for _, media := range response.Value.Content {
					if media.Example == nil && len(media.Examples) == 0 {
						t.Errorf("%s %s: answer %s has no example", method, path, status)
					}
				}
			}
		}
	}
}

// Each code of a schema is shown by an example that uses it.
func TestEveryCodeHasAnExample(t *testing.T) {
	t.Parallel()
	validator, err := apitest.New(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"CreatePodError", "DeletePodError", "UserPartError"} {
		for _, code := range validator.Document.Components.Schemas[name].Value.Properties["error"].Value.Enum {
			if !strings.Contains(string(api.YAML()), "error: "+code.(string)) {
				t.Errorf("%s: no example shows %s", name, code)
			}
		}
	}
}

func TestJSONIsTheSameDocument(t *testing.T) {
	t.Parallel()
	raw, err := api.JSON()
	if err != nil {
		t.Fatal(err)
	}
	var document map[string]any
	if err := json.Unmarshal(raw, &document); err != nil {
		t.Fatal(err)
	}
	want := []string{"components", "info", "openapi", "paths", "security", "servers", "tags"}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(document))); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
}

// The description and docs/CODES.md, which is generated from the source, know the same codes.
func TestCodesAreThoseOfTheSource(t *testing.T) {
	t.Parallel()
	validator, err := apitest.New(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	described := map[string]bool{}
	for _, name := range []string{"CreatePodError", "DeletePodError", "UserPartError"} {
		for _, code := range validator.Document.Components.Schemas[name].Value.Properties["error"].Value.Enum {
			described[code.(string)] = true
		}
	}
	page, err := os.ReadFile("../docs/CODES.md")
	if err != nil {
		t.Fatal(err)
	}
	generated := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([A-Z0-9_]+)`").FindAllStringSubmatch(string(page), -1) {
		generated[row[1]] = true
	}
	if diff := cmp.Diff(generated, described); diff != "" {
		t.Errorf("codes (-source +description):\n%s", diff)
	}
}
