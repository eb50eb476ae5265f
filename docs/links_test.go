package docs_test

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// Every link within the repository leads to a file, and to a heading of it.
func TestLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	pages = append(pages, filepath.Join(root, "README.md"), filepath.Join(root, "README.ko.md"))
	for _, page := range pages {
		document := strings.TrimPrefix(filepath.ToSlash(page), root+"/")
		for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(withoutBlocks(read(t, document)), ""), -1) {
			target, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			file := document
			if target != "" {
				file = path.Join(path.Dir(document), target)
			}
			if _, err := os.Stat(filepath.Join(root, file)); errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: %s is not there", document, m[1])
				continue
			}
			if anchor != "" && !slices.Contains(anchors(read(t, file)), anchor) {
				t.Errorf("%s: %s has no heading %q", document, file, anchor)
			}
		}
	}
}

// code is a text in a line that is shown as it is.
var code = regexp.MustCompile("`[^`]*`")

// withoutBlocks is the text between the fences.
func withoutBlocks(text string) string {
	var b strings.Builder
	inside := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			inside = !inside
			continue
		}
		if !inside {
			b.WriteString(line)
		}
	}
	return b.String()
}

// headings lists the headings of a document with their number signs.
func headings(text string) []string {
	var list []string
	inside := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			inside = !inside
		}
		if !inside && strings.HasPrefix(line, "#") {
			list = append(list, strings.TrimSpace(line))
		}
	}
	return list
}

var named = regexp.MustCompile(`<a id="([^"]+)"></a>`)

// anchors are the names by which a link finds a heading, as GitHub makes them, and those that the
// document gives itself.
func anchors(text string) []string {
	var list []string
	for _, heading := range headings(text) {
		var b strings.Builder
		for _, r := range strings.ToLower(strings.TrimSpace(strings.TrimLeft(heading, "#"))) {
			switch {
			case unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-' || r == '_':
				b.WriteRune(r)
			case r == ' ':
				b.WriteRune('-')
			}
		}
		list = append(list, b.String())
	}
	for _, m := range named.FindAllStringSubmatch(text, -1) {
		list = append(list, m[1])
	}
	return list
}
