package debian

import (
	"bytes"
	"regexp"
	"slices"
	"strings"

	"github.com/github/go-spdx/v2/spdxexp"
	"github.com/google/licensecheck"
	"pault.ag/go/debian/control"

	"config-server/deploy/image/internal/licences"
)

// names turns Debian's short names that differ from SPDX's into those.
var names = map[string]string{
	"Expat": "MIT", "public-domain": licences.PublicDomain, "Artistic": "Artistic-1.0-Perl", "GFDL-NIV-1.3+": "GFDL-1.3-no-invariants-or-later",
	"zlib": "Zlib", "BSD-3-clause": "BSD-3-Clause", "BSD-2-clause": "BSD-2-Clause", "BSD-4-clause": "BSD-4-Clause",
}

var (
	// versioned is a licence of the GNU family, in Debian's way.
	versioned = regexp.MustCompile(`^(A?L?GPL|GFDL)-([0-9]+(?:\.[0-9]+)?)(\+?)$`)
	// common is a text that Debian keeps once for all packages.
	common = regexp.MustCompile(`/usr/share/common-licenses/([A-Za-z0-9.-]*[A-Za-z0-9])`)
	// separators stand between the names of one License field.
	separators = regexp.MustCompile(`,|\s(?:and|or|and/or)\s`)
	// exceptions widen a licence and stand behind its name.
	exceptions = regexp.MustCompile(`(?i)\s+with\s.*$`)
	word       = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.+/:~_-]*$`)
	odd        = regexp.MustCompile(`[^A-Za-z0-9.-]+`)
)

// licencesOf are the licences that a copyright file names, sorted. Parts of the package may be under one of them each, or
// under any of several, so the list says what occurs, no more. A file in free prose may give none.
func licencesOf(copyright []byte) []string {
	ids := declared(copyright)
	if len(ids) == 0 {
		for _, id := range licences.Names(licensecheck.Scan(copyright)) {
			ids = append(ids, listed(id))
		}
		for _, match := range common.FindAllSubmatch(copyright, -1) {
			// The file GPL-2 is named by what is under that version alone and by what is under any later one.
			ids = append(ids, listed(string(match[1])))
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// declared reads the License fields of a file in Debian's machine-readable form.
func declared(copyright []byte) []string {
	if !bytes.HasPrefix(copyright, []byte("Format:")) {
		return nil
	}
	reader, err := control.NewParagraphReader(bytes.NewReader(copyright), nil)
	if err != nil {
		return nil
	}
	var ids []string
	for {
		paragraph, err := reader.Next()
		if err != nil {
			// At the end, or where somebody did not keep to the form: what was read until then counts.
			return ids
		}
		field, _, _ := strings.Cut(paragraph.Values["License"], "\n")
		for _, name := range separators.Split(field, -1) {
			// Some write a sentence where a name belongs.
			if name = exceptions.ReplaceAllString(strings.TrimSpace(name), ""); word.MatchString(name) {
				ids = append(ids, spdx(name))
			}
		}
	}
}

// spdx is SPDX's name for a licence, or a LicenseRef- name for one that SPDX does not list.
func spdx(name string) string {
	if known := names[name]; known != "" {
		return known
	}
	if gnu := versioned.FindStringSubmatch(name); gnu != nil {
		number, ending := gnu[2], "-only"
		if !strings.Contains(number, ".") {
			number += ".0"
		}
		if gnu[3] == "+" {
			ending = "-or-later"
		}
		name = gnu[1] + "-" + number + ending
	}
	return listed(name)
}

// listed is a name as SPDX writes it, or a LicenseRef- name.
func listed(name string) string {
	if active, id := spdxexp.ActiveLicense(name); active {
		return id
	}
	return "LicenseRef-" + strings.Trim(odd.ReplaceAllString(name, "-"), "-")
}
