// Package bill lists what an image is made of: as an SPDX 2.3 document, and as one text with every licence.
package bill

import "config-server/deploy/image/internal/licences"

// Component is one thing in an image that somebody else has made.
type Component struct {
	Name    string
	Version string
	// PURL is the package URL, by which scanners find what is known about the component.
	PURL string
	// SHA256 is the component's checksum in hex, "" where there is none: of a Go module, the hash that go.sum keeps.
	SHA256 string
	// Licences are SPDX identifiers or LicenseRef- names that all hold; none: what Texts say could not be put in names.
	Licences []string
	// Texts are its licences and notices, word for word.
	Texts []licences.Text
	// Linked: it is part of the program itself; otherwise it lies beside it.
	Linked bool
}

// Image is what the lists are about.
type Image struct {
	Name     string // repository, without a tag
	Version  string
	Variant  string
	Platform string // linux/amd64
	// GoVersion is the compiler's, go1.26.0.
	GoVersion string
	// Program is the SHA-256 of the program in hex.
	Program string
}
