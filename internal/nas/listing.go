package nas

import (
	"fmt"
	"regexp"
	"strings"

	"config-server/internal/farm"
)

// entryLine is a line of ls -n: mode, links, uid, gid, size (or the numbers of a device), and the
// rest, which is date and name.
var entryLine = regexp.MustCompile(`^([-bcdlps])[-rwxsStT]{9}[.+@]? +\d+ +(\d+) +\d+ +(?:\d+, *)?\d+ (.*)$`)

// The date has two, three or three words: 2026-01-31 10:00, with seconds and zone, or Jan 31 10:00
// and the like in other languages.
var (
	isoDate  = regexp.MustCompile(`^\d{4}-\d\d-\d\d +\d\d:\d\d (.*)$`)
	fullDate = regexp.MustCompile(`^\d{4}-\d\d-\d\d +\d\d:\d\d:\d\d\S* +[-+]\d{4} (.*)$`)
	wordDate = regexp.MustCompile(`^ *\S+ +\S+ +\S+ (.*)$`)
)

// parseListing reads the output of ls -n. Lines that are no entry, as the sum at the top, are
// passed over; a line that is an entry and cannot be read is an error, because a caller takes a
// name that is not in the map for absent.
func parseListing(out string) (map[string]farm.ID, error) {
	entries := map[string]farm.ID{}
	for line := range strings.Lines(out) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || !strings.ContainsRune("-bcdlps", rune(line[0])) {
			continue
		}
		match := entryLine.FindStringSubmatch(line)
		if match == nil {
			return nil, fmt.Errorf("cannot read line %q of the listing", farm.CutText(line, 128))
		}
		owner, err := parseID(match[2])
		if err != nil {
			return nil, fmt.Errorf("line %q of the listing: %w", farm.CutText(line, 128), err)
		}
		name, ok := cutDate(match[3])
		if !ok {
			return nil, fmt.Errorf("cannot read the date in line %q of the listing", farm.CutText(line, 128))
		}
		if match[1] == "l" {
			name, _, _ = strings.Cut(name, " -> ")
		}
		entries[name] = owner
	}
	return entries, nil
}

func cutDate(rest string) (name string, ok bool) {
	for _, date := range []*regexp.Regexp{isoDate, fullDate, wordDate} {
		if match := date.FindStringSubmatch(rest); match != nil {
			return match[1], match[1] != ""
		}
	}
	return "", false
}
