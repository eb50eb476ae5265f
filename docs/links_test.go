package docs_test

import (
	"regexp"
	"strings"
	"unicode"
)

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

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
