package client_test

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"config-server/api/apitest"
	"config-server/internal/client"
)

// What -o json prints is the service's answer: the client knows every field that the API describes,
// and none that it does not.
func TestTheClientKnowsEveryFieldOfTheAPI(t *testing.T) {
	t.Parallel()
	validator, err := apitest.New(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for path, answer := range map[string]any{
		"/accounts/users":           client.Users{},
		"/accounts/groups":          client.Groups{},
		"/workspaces":               client.Workspaces{},
		"/nodes":                    client.Nodes{},
		"/operations":               client.Operations{},
		"/gpu-options":              client.GPUOptions{},
		"/pods/{username}/status":   client.Status{},
		"/images":                   client.Images{},
		"/projects":                 client.Projects{},
		"/projects/{project}/check": client.ProjectCheck{},
		"/projects/{project}/queue": client.ProjectQueue{},
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			media := validator.Document.Paths.Find(path).Get.Responses.Status(200).Value.Content.Get("application/json")
			if media == nil || media.Schema == nil {
				t.Fatal("the API describes no answer as JSON")
			}
			compareFields(t, "the answer", media.Schema.Value, reflect.TypeOf(answer))
		})
	}
}

// compareFields compares the properties of an object with the fields of a type, and so on below them.
func compareFields(t *testing.T, where string, schema *openapi3.Schema, known reflect.Type) {
	t.Helper()
	for known.Kind() == reflect.Pointer || known.Kind() == reflect.Slice {
		if known.Kind() == reflect.Slice {
			if schema.Items == nil {
				t.Errorf("%s is a list for the client only", where)
				return
			}
			schema = schema.Items.Value
		}
		known = known.Elem()
	}
	if len(schema.Properties) == 0 {
		return
	}
	if known.Kind() != reflect.Struct {
		t.Errorf("%s is an object, and for the client %s", where, known)
		return
	}
	fields := map[string]reflect.Type{}
	for field := range known.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		fields[name] = field.Type
	}
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		field, found := fields[name]
		if !found {
			t.Errorf("%s: the client drops %q", where, name)
			continue
		}
		delete(fields, name)
		compareFields(t, where+"."+name, schema.Properties[name].Value, field)
	}
	for name := range fields {
		t.Errorf("%s: the API has no %q", where, name)
	}
}
