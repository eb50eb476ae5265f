package bill

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	spdx "github.com/spdx/tools-golang/spdx/v2/v2_3"
)

const (
	none      = "NOASSERTION"
	reference = "LicenseRef-"
	imageID   = "image"
	programID = "config-server"
)

// SPDX is the image's bill of materials, an SPDX 2.3 document in JSON. Equal input gives equal bytes.
func SPDX(image Image, components []Component, made time.Time) ([]byte, error) {
	doc := &spdx.Document{
		SPDXVersion: spdx.Version, DataLicense: spdx.DataLicense, SPDXIdentifier: "DOCUMENT",
		DocumentName:    fmt.Sprintf("%s %s, %s for %s", image.Name, image.Version, image.Variant, image.Platform),
		DocumentComment: "The checksum of a Go module is the hash of its files that go.sum keeps, not that of an archive.",
		CreationInfo: &spdx.CreationInfo{
			Created:  made.UTC().Format(time.RFC3339),
			Creators: []common.Creator{{CreatorType: "Tool", Creator: "config-server-image"}},
		},
		Packages: []*spdx.Package{
			pkg(imageID, image.Name, image.Version, "CONTAINER"),
			pkg(programID, "config-server", image.Version, "APPLICATION"),
		},
		Relationships: []*spdx.Relationship{
			relation("DOCUMENT", common.TypeRelationshipDescribe, imageID),
			relation(imageID, common.TypeRelationshipContains, programID),
		},
	}
	program := doc.Packages[1]
	program.PackageChecksums = []common.Checksum{{Algorithm: common.SHA256, Value: image.Program}}
	program.PackageComment = "Built by " + image.GoVersion
	var references []string
	for _, component := range components {
		id := "Package-" + idOf(component.PURL)
		if slices.ContainsFunc(doc.Packages, func(p *spdx.Package) bool { return string(p.PackageSPDXIdentifier) == id }) {
			return nil, fmt.Errorf("list %s: another component has its identifier", component.PURL)
		}
		kind := "APPLICATION"
		if component.Linked {
			kind = "LIBRARY"
		}
		p := pkg(id, component.Name, component.Version, kind)
		p.PackageLicenseDeclared = expression(component.Licences)
		p.PackageExternalReferences = []*spdx.PackageExternalReference{{Category: common.CategoryPackageManager, RefType: common.TypePackageManagerPURL, Locator: component.PURL}}
		if component.SHA256 != "" {
			p.PackageChecksums = []common.Checksum{{Algorithm: common.SHA256, Value: component.SHA256}}
		}
		doc.Packages = append(doc.Packages, p)
		if component.Linked {
			doc.Relationships = append(doc.Relationships, relation(programID, common.TypeRelationshipStaticLink, id))
		} else {
			p.PackageLicenseComments = "Licences that the package's copyright file names for its parts."
			doc.Relationships = append(doc.Relationships, relation(imageID, common.TypeRelationshipContains, id))
		}
		for _, licence := range component.Licences {
			if strings.HasPrefix(licence, reference) {
				references = append(references, licence)
			}
		}
	}
	slices.Sort(references)
	for _, licence := range slices.Compact(references) {
		doc.OtherLicenses = append(doc.OtherLicenses, &spdx.OtherLicense{
			LicenseIdentifier: licence, LicenseName: strings.TrimPrefix(licence, reference),
			ExtractedText: "The text stands in THIRD_PARTY_LICENSES beside this document, among the texts of each component that names it.",
		})
	}
	return write(doc)
}

// write gives the document a namespace of its own, which changes with its content, and writes it.
func write(doc *spdx.Document) ([]byte, error) {
	var text bytes.Buffer
	if err := spdxjson.Write(doc, &text); err != nil {
		return nil, fmt.Errorf("write the bill of materials: %w", err)
	}
	sum := sha256.Sum256(text.Bytes())
	doc.DocumentNamespace = "https://spdx.org/spdxdocs/config-server-" + hex.EncodeToString(sum[:])
	text.Reset()
	if err := spdxjson.Write(doc, &text, spdxjson.Indent(" "), spdxjson.EscapeHTML(false)); err != nil {
		return nil, fmt.Errorf("write the bill of materials: %w", err)
	}
	return text.Bytes(), nil
}

func pkg(id, name, version, purpose string) *spdx.Package {
	return &spdx.Package{
		PackageSPDXIdentifier: common.ElementID(id), PackageName: name, PackageVersion: version, PrimaryPackagePurpose: purpose,
		PackageDownloadLocation: none, PackageLicenseConcluded: none, PackageLicenseDeclared: none, PackageCopyrightText: none,
	}
}

func relation(from, kind, to string) *spdx.Relationship {
	return &spdx.Relationship{RefA: common.MakeDocElementID("", from), RefB: common.MakeDocElementID("", to), Relationship: kind}
}

// idOf turns a package URL into an SPDX identifier, which may have letters, digits, dots and dashes only.
func idOf(purl string) string {
	purl, _, _ = strings.Cut(strings.TrimPrefix(purl, "pkg:"), "?")
	return strings.Map(func(r rune) rune {
		if r == '.' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' {
			return r
		}
		return '-'
	}, purl)
}

func expression(ids []string) string {
	if len(ids) == 0 {
		return none
	}
	return strings.Join(ids, " AND ")
}
