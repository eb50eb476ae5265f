// Package licences tells under which licences a text puts a component, and which of them may be in the image.
// Licences are SPDX identifiers, or LicenseRef- names where SPDX has none.
package licences

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"

	"github.com/google/licensecheck"
)

// Text is a file with a licence or a notice, as a component ships it.
type Text struct {
	Path    string // from the component's top
	Content []byte
}

// Errors of Of.
var (
	ErrNone    = errors.New("no licence is recognised")
	ErrRefused = errors.New("the licence is not among those that may be in the image")
)

// PublicDomain is for texts that give up every right, in words that SPDX does not list.
const PublicDomain = "LicenseRef-public-domain"

// allowed asks no more of whoever passes the image on than the texts beside it, and for MPL-2.0 that changed files be
// shown; none here are.
var allowed = []string{
	"0BSD", "Apache-2.0", "BSD-1-Clause", "BSD-2-Clause", "BSD-3-Clause", "BSL-1.0", "CC0-1.0", "ISC", "MIT", "MIT-0", "MPL-2.0", PublicDomain,
	"Unlicense", "Zlib",
}

// reviewed are texts that no pattern matches well and that a person has read, by their SHA-256. A new edition of one has
// to be read again.
var reviewed = map[string][]string{
	// modernc.org/memory, LICENSE-LOGO: the address of a picture that is not part of the program.
	"5ae5bee3072a841376451b48d8cfcec7188e10543926d5870828d36c8a750dc5": nil,
	// github.com/opencontainers/go-digest, LICENSE.docs: of its documents, which are not part of the program.
	"a1d1adec3ba691ef6e377a78bbe9e9e2501f2f4a1723d08857da1ac6564e4fed": nil,
	// modernc.org/sqlite, LICENSE-SQLITE: SQLite's authors have given up their rights.
	"8438c9c89b849131ead81d5435cb97fcf052df5b0b286dda8a2d4c29e6cb3fd0": {PublicDomain},
	// modernc.org/sqlite, LICENSE-3RD-PARTY.md: what its first chapter lists is linked, the rest is used by its tests.
	"f4a00ade8f4057ab0ea49097d9c459df8559fcf10ca78da0c950343fb7428d37": {"BSD-3-Clause", "MIT", PublicDomain},
	// modernc.org/libc, LICENSE-3RD-PARTY.md: Go, musl with its list of authors, go-netdb, nixpkgs.
	"f597097efe3d97021f89170746bd3a0fb9a8b6fb26b82043ed68a4e0283bee6c": {"BSD-2-Clause", "BSD-3-Clause", "MIT"},
}

// enough is the share of a text, in percent of its words, that has to be words of known licences.
const enough = 75

var (
	licenceName = regexp.MustCompile(`(?i)^(un)?licen[cs]e|^copying`)
	noticeName  = regexp.MustCompile(`(?i)^(notice|patents)`)
	sourceName  = regexp.MustCompile(`(?i)\.(go|s|c|h|sh|py|js)$`)
)

// IsText tells whether a file of that name has to go with the image: a licence, or a notice that a licence asks for.
func IsText(name string) bool {
	return (licenceName.MatchString(name) || noticeName.MatchString(name)) && !sourceName.MatchString(name)
}

// Of returns the licences of a component's texts, sorted; all of them hold. Every licence file has to be recognised, and
// every licence allowed: ErrNone, ErrRefused.
func Of(texts []Text) ([]string, error) {
	var all []string
	for _, text := range texts {
		if !licenceName.MatchString(path.Base(text.Path)) {
			continue
		}
		found, err := of(text)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	if len(all) == 0 {
		return nil, ErrNone
	}
	for _, id := range all {
		if !slices.Contains(allowed, id) {
			return nil, fmt.Errorf("%w: %s", ErrRefused, id)
		}
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

func of(text Text) ([]string, error) {
	sum := sha256.Sum256(text.Content)
	if ids, known := reviewed[hex.EncodeToString(sum[:])]; known {
		return ids, nil
	}
	coverage := licensecheck.Scan(text.Content)
	if coverage.Percent < enough {
		return nil, fmt.Errorf("%w: %s is covered by known licences to %.0f %%; read it, and add what it says under its SHA-256 %x to the reviewed ones",
			ErrNone, text.Path, coverage.Percent, sum)
	}
	return Names(coverage), nil
}

// Names are the licences whose text, not just whose address, was found.
func Names(coverage licensecheck.Coverage) []string {
	var ids []string
	for _, match := range coverage.Match {
		if !match.IsURL {
			ids = append(ids, match.ID)
		}
	}
	return ids
}
