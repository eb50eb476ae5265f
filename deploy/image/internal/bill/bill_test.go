package bill_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/github/go-spdx/v2/spdxexp"
	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdxlib"

	"config-server/deploy/image/internal/bill"
	"config-server/deploy/image/internal/licences"
)

var (
	image      = bill.Image{Name: "dguailab/config-server", Version: "v1", Variant: "tools", Platform: "linux/amd64", GoVersion: "go1.26.0", Program: strings.Repeat("ab", 32)}
	made       = time.Unix(1_700_000_000, 0)
	components = []bill.Component{
		{
			Name: "example.org/m_x/v2", Version: "v2.0.0", PURL: "pkg:golang/example.org/m_x/v2@v2.0.0", SHA256: strings.Repeat("6b", 32), Linked: true,
			Licences: []string{"Apache-2.0", "MIT"}, Texts: []licences.Text{{Path: "LICENSE", Content: []byte("One text.\n")}},
		},
		{
			Name: "libexample1", Version: "1:2.0+b1", PURL: "pkg:deb/debian/libexample1@1%3A2.0%2Bb1?arch=amd64",
			Licences: []string{"GPL-2.0-or-later", "LicenseRef-Example"}, Texts: []licences.Text{{Path: "/usr/share/doc/libexample1/copyright", Content: []byte("One text.")}},
		},
		{
			Name: "prose", Version: "1", PURL: "pkg:deb/debian/prose@1?arch=all",
			Texts: []licences.Text{{Path: "/usr/share/doc/prose/copyright", Content: []byte("Another text.\n")}},
		},
	}
)

func TestSPDX(t *testing.T) {
	t.Parallel()
	text, err := bill.SPDX(image, components, made)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := spdxjson.Read(bytes.NewReader(text))
	if err != nil {
		t.Fatalf("read it back: %v", err)
	}
	if err := spdxlib.ValidateDocument(doc); err != nil {
		t.Errorf("it refers to what is not there: %v", err)
	}
	if doc.SPDXVersion != "SPDX-2.3" || doc.DataLicense != "CC0-1.0" || doc.CreationInfo.Created != "2023-11-14T22:13:20Z" {
		t.Errorf("version %s, licence %s, made %s", doc.SPDXVersion, doc.DataLicense, doc.CreationInfo.Created)
	}
	if described, err := spdxlib.GetDescribedPackageIDs(doc); err != nil || len(described) != 1 || described[0] != "image" {
		t.Errorf("it describes %q, %v", described, err)
	}
	if len(doc.Packages) != 2+len(components) {
		t.Fatalf("%d packages, want image, program and %d", len(doc.Packages), len(components))
	}
	for i, want := range components {
		got := doc.Packages[2+i]
		if got.PackageName != want.Name || got.PackageVersion != want.Version || got.PackageExternalReferences[0].Locator != want.PURL {
			t.Errorf("package %d is %s %s %s", i, got.PackageName, got.PackageVersion, got.PackageExternalReferences[0].Locator)
		}
		if len(want.Licences) == 0 {
			if got.PackageLicenseDeclared != "NOASSERTION" {
				t.Errorf("%s is said to be under %s", want.Name, got.PackageLicenseDeclared)
			}
			continue
		}
		if valid, bad := spdxexp.ValidateLicenses([]string{got.PackageLicenseDeclared}); !valid {
			t.Errorf("%s: %q is no expression", want.Name, bad)
		}
		for _, id := range want.Licences {
			if !strings.Contains(got.PackageLicenseDeclared, id) {
				t.Errorf("%s: %s is not in %s", want.Name, id, got.PackageLicenseDeclared)
			}
		}
	}
	if sum := doc.Packages[2].PackageChecksums; len(sum) != 1 || sum[0].Value != components[0].SHA256 {
		t.Errorf("the module's checksums are %v", sum)
	}
	if len(doc.OtherLicenses) != 1 || doc.OtherLicenses[0].LicenseIdentifier != "LicenseRef-Example" {
		t.Errorf("explained licences: %v", doc.OtherLicenses)
	}

	again, err := bill.SPDX(image, components, made)
	if err != nil || !bytes.Equal(text, again) {
		t.Errorf("a second document of the same differs, %v", err)
	}
	other, err := bill.SPDX(image, components[:1], made)
	if err != nil {
		t.Fatal(err)
	}
	fewer, err := spdxjson.Read(bytes.NewReader(other))
	if err != nil || fewer.DocumentNamespace == doc.DocumentNamespace {
		t.Errorf("another document has the same namespace, %v", err)
	}
}

func TestSPDXRefusesTwoOfOneIdentifier(t *testing.T) {
	t.Parallel()
	if _, err := bill.SPDX(image, []bill.Component{components[0], components[0]}, made); err == nil {
		t.Error("two packages have the same identifier")
	}
}

func TestNotices(t *testing.T) {
	t.Parallel()
	text := string(bill.Notices(image, components))
	for _, want := range []string{
		"example.org/m_x/v2 v2.0.0: Apache-2.0, MIT\n", "prose 1: see its text\n",
		"\nexample.org/m_x/v2 v2.0.0, LICENSE\nlibexample1 1:2.0+b1, /usr/share/doc/libexample1/copyright\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("it lacks %q:\n%s", want, text)
		}
	}
	if n := strings.Count(text, "One text."); n != 1 {
		t.Errorf("a text that two have stands there %d times", n)
	}
	if !strings.Contains(text, "Another text.") {
		t.Error("a text is missing")
	}
}
