package app_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const (
	module   = "config-server/"
	database = "config-server/internal/database" // stands for SQL: drivers are only below it
)

// mustNotKnow is the last column of docs/architecture.md as far as imports can break it: package ->
// prefixes that must not be among its dependencies, direct or not.
var mustNotKnow = map[string][]string{
	"internal/farm":       {"net/http", "k8s.io/", database, "golang.org/x/crypto/ssh", "config-server/internal/"},
	"internal/saga":       {"net/http", "k8s.io/", database, "config-server/internal/"},
	"internal/httpapi":    {"k8s.io/client-go", database, "golang.org/x/crypto/ssh"},
	"internal/workspaces": {"k8s.io/client-go/kubernetes", database, "golang.org/x/crypto/ssh"},
	"internal/podspec":    {"k8s.io/client-go/kubernetes", "config-server/internal/workspaces"},
	"internal/templates":  {"k8s.io/client-go", database, "config-server/internal/podspec"},
	"internal/accounts":   {"k8s.io/", "golang.org/x/crypto/ssh", database},
	"internal/ledger":     {"k8s.io/", "net/http", "golang.org/x/crypto/ssh", database},
	"internal/cluster":    {database, "golang.org/x/crypto/ssh"},
	"internal/gpuoptions": {"k8s.io/client-go", database, "golang.org/x/crypto/ssh"},
	"internal/gpuload":    {"k8s.io/", database},
	"internal/gpuassign":  {"k8s.io/", "net/http"},
	"internal/registry":   {"k8s.io/", database, "golang.org/x/crypto/ssh"},
	"internal/pins":       {"k8s.io/", "net/http", "golang.org/x/crypto/ssh"},
	"internal/catalog":    {"k8s.io/client-go/kubernetes", database, "golang.org/x/crypto/ssh"},
	"internal/nodeports":  {"k8s.io/", "net/http"},
	"internal/operations": {"k8s.io/", "net/http"},
	"internal/progress":   {"k8s.io/", "net/http"},
	"internal/locks":      {"k8s.io/", "net/http"},
	"internal/nas":        {"k8s.io/", database},
	"internal/kerberos":   {"k8s.io/", "config-server/internal/ledger"},
	"internal/remote":     {"k8s.io/", database},
	"internal/adminbe":    {"k8s.io/client-go", database},
	"internal/images":     {"k8s.io/", database},
	"internal/reconciler": {"net/http", "k8s.io/", database},
	"internal/audit":      {"net/http", "k8s.io/", database, "golang.org/x/crypto/ssh", "config-server/internal/ledger"},
	"internal/overview":   {"net/http", "k8s.io/", database, "golang.org/x/crypto/ssh"},
	"internal/findings":   {"net/http", "k8s.io/", "golang.org/x/crypto/ssh"},
	"internal/obs":        {"k8s.io/", database, "golang.org/x/crypto/ssh"},
	"internal/demo":       {"config-server/internal/app"},
	"internal/projects":   {"k8s.io/client-go", database, "golang.org/x/crypto/ssh"},
	"internal/client":     {"k8s.io/", database, "golang.org/x/crypto/ssh"},

	"internal/selfvolumes": {"k8s.io/client-go", database, "golang.org/x/crypto/ssh"},

	"internal/projects/controller": {database, "golang.org/x/crypto/ssh", "config-server/internal/ledger", "config-server/internal/cluster"},
	"internal/projects/v1alpha1":   {"k8s.io/client-go", "config-server/internal/"},
	"internal/projects/reader":     {"k8s.io/client-go", database, "golang.org/x/crypto/ssh"},
	"internal/projects/source":     {"k8s.io/client-go", database, "golang.org/x/crypto/ssh", "config-server/internal/ledger"},
}

// below lists which of our packages a package may import beside farm and saga. Who is not in it is
// an adapter or lower and imports none.
var below = map[string][]string{
	"internal/httpapi":    {"internal/workspaces", "internal/catalog", "internal/accounts", "internal/overview", "internal/audit", "internal/obs", "internal/projects", "internal/projects/reader", "api"},
	"internal/workspaces": {"internal/podspec", "internal/templates", "internal/selfvolumes"},
	"internal/podspec":    {"internal/selfvolumes"},
	"internal/catalog":    {"internal/podspec", "internal/registry"},
	"internal/accounts":   {"internal/ledger"},
	"internal/overview":   {"internal/audit"},
	"internal/findings":   {"internal/audit", "internal/database"},
	"internal/database":   {"migrations"},
	"internal/nodeports":  {"internal/database"},
	"internal/gpuassign":  {"internal/database"},
	"internal/pins":       {"internal/database"},
	"internal/operations": {"internal/database"},
	"internal/progress":   {"internal/database"},
	"internal/locks":      {"internal/database"},
	"internal/nas":        {"internal/remote"},
	"internal/kerberos":   {"internal/remote", "internal/database"},

	"internal/projects/controller": {"internal/projects", "internal/projects/v1alpha1"},
	"internal/projects/reader":     {"internal/projects"},
	"internal/projects/source":     {"internal/projects"},
}

func TestDriversAreBelowDatabaseOnly(t *testing.T) {
	t.Parallel()
	for _, line := range list(t, "-f", `{{.ImportPath}}|{{join .Imports ","}}`, "./internal/...", "./cmd/...") {
		path, imports, _ := strings.Cut(line, "|")
		if path == database || strings.HasPrefix(path, module+"internal/testkit") {
			continue
		}
		for imported := range strings.SplitSeq(imports, ",") {
			if strings.HasPrefix(imported, "github.com/go-sql-driver/") || strings.HasPrefix(imported, "modernc.org/") {
				t.Errorf("%s imports %s", path, imported)
			}
		}
	}
}

func list(t *testing.T, args ...string) []string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", append([]string{"list"}, args...)...)
	command.Dir = "../.."
	out, err := command.Output()
	if err != nil {
		t.Fatalf("go list %v: %v", args, err)
	}
	return strings.Fields(string(out))
}

func TestPackagesDoNotKnowWhatTheyMustNot(t *testing.T) {
	t.Parallel()
	for name, forbidden := range mustNotKnow {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, dep := range list(t, "-deps", "./"+name) {
				for _, prefix := range forbidden {
					if strings.HasPrefix(dep, prefix) && dep != module+name {
						t.Errorf("%s depends on %s", name, dep)
					}
				}
			}
		})
	}
}

func TestImportsGoDownOnly(t *testing.T) {
	t.Parallel()
	free := []string{"internal/app", "internal/demo"} // wiring, and stand-ins that wire themselves
	for _, line := range list(t, "-f", `{{.ImportPath}}|{{join .Imports ","}}`, "./internal/...") {
		path, imports, _ := strings.Cut(line, "|")
		name := strings.TrimPrefix(path, module)
		if slices.Contains(free, name) || strings.HasPrefix(name, "internal/testkit") || strings.HasSuffix(name, "test") {
			continue
		}
		for imported := range strings.SplitSeq(imports, ",") {
			short, ours := strings.CutPrefix(imported, module)
			if !ours || short == "internal/farm" || short == "internal/saga" || slices.Contains(below[name], short) {
				continue
			}
			t.Errorf("%s imports %s", name, short)
		}
	}
}

func TestOnlyTestsImportTestkit(t *testing.T) {
	t.Parallel()
	for _, dep := range list(t, "-deps", "./cmd/config-server") {
		if strings.HasPrefix(dep, module+"internal/testkit") || dep == "testing" {
			t.Errorf("the binary depends on %s", dep)
		}
	}
}
