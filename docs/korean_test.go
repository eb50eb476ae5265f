package docs_test

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// chapter is a section of a document from one heading to the next, whatever its level.
type chapter struct {
	level  int
	anchor string // given before the heading; the Korean form has it, for links that lead here
	title  string
	text   string // without fences
}

// chapters splits a document at its headings; what stands before the first is left out.
func chapters(text string) []chapter {
	var list []chapter
	inside, anchor := false, ""
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			inside = !inside
			continue
		}
		if inside {
			continue
		}
		if m := named.FindStringSubmatch(line); m != nil {
			anchor = m[1]
			continue
		}
		if strings.HasPrefix(line, "#") {
			title := strings.TrimLeft(line, "#")
			list = append(list, chapter{level: len(line) - len(title), anchor: anchor, title: strings.TrimSpace(title)})
			anchor = ""
			continue
		}
		if len(list) > 0 {
			list[len(list)-1].text += line
		}
	}
	return list
}

// The Korean form of a document has the same headings, in the same order, and each bears the anchor
// that the English heading has, so that a link works in both.
func TestKoreanHasTheSameHeadings(t *testing.T) {
	t.Parallel()
	for english, document := range korean {
		en, ko := chapters(read(t, english)), chapters(read(t, document))
		if len(en) != len(ko) {
			t.Errorf("%s has %d headings, %s %d:\n%s", english, len(en), document, len(ko), cmp.Diff(titles(en), titles(ko)))
			continue
		}
		for i := range en {
			if en[i].level != ko[i].level {
				t.Errorf("%s: %q has level %d, and %q in %s %d", document, ko[i].title, ko[i].level, en[i].title, english, en[i].level)
			}
			if anchor := anchors("# " + en[i].title)[0]; en[i].level > 1 && anchor != ko[i].anchor && anchor != anchors("# " + ko[i].title)[0] {
				t.Errorf("%s: %q has the anchor %q, and is called %q in %s", document, ko[i].title, ko[i].anchor, anchor, english)
			}
		}
	}
}

func titles(list []chapter) []string {
	var all []string
	for _, c := range list {
		all = append(all, strings.Repeat("#", c.level)+" "+c.title)
	}
	return all
}

var comment = regexp.MustCompile(`(?m)\s*(^|\s)#.*$`)

// Commands and data are the same, and so is what is not run; only comments are in Korean.
func TestKoreanHasTheSameCommands(t *testing.T) {
	t.Parallel()
	for english, document := range korean {
		if diff := cmp.Diff(uncommented(blocks(t, english)), uncommented(blocks(t, document))); diff != "" {
			t.Errorf("%s and %s (-English +Korean):\n%s", english, document, diff)
		}
	}
}

func uncommented(list []fence) []string {
	var all []string
	for _, f := range list {
		all = append(all, f.language+"\n"+comment.ReplaceAllString(f.text, "")+"not run: "+f.notRun)
	}
	return all
}

var (
	span      = regexp.MustCompile("`[^`]+`")
	separator = regexp.MustCompile(`^\|[-|]+\|$`)
)

// tables lists the tables of a text, each as the code in the first column of its rows.
func tables(text string) [][]string {
	var list [][]string
	open := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case separator.MatchString(line):
			list, open = append(list, []string{}), true
		case open && strings.HasPrefix(line, "|"):
			first, _, _ := strings.Cut(strings.ReplaceAll(line[1:], `\|`, ""), "|")
			last := len(list) - 1
			list[last] = append(list[last], strings.Join(span.FindAllString(first, -1), " "))
		default:
			open = false
		}
	}
	return list
}

// No setting, alert, finding or file is missing in Korean: the tables have the same keys, and each
// chapter names the same things.
func TestKoreanNamesTheSameThings(t *testing.T) {
	t.Parallel()
	for english, document := range korean {
		en, ko := chapters(read(t, english)), chapters(read(t, document))
		for i := range min(len(en), len(ko)) {
			if diff := cmp.Diff(tables(en[i].text), tables(ko[i].text)); diff != "" {
				t.Errorf("%s: the tables of %q (-English +Korean):\n%s", document, ko[i].title, diff)
			}
			if diff := cmp.Diff(things(en[i].text), things(ko[i].text)); diff != "" {
				t.Errorf("%s: what %q names (-English +Korean):\n%s", document, ko[i].title, diff)
			}
			if diff := cmp.Diff(targets(en[i].text), targets(ko[i].text)); diff != "" {
				t.Errorf("%s: where %q leads (-English +Korean):\n%s", document, ko[i].title, diff)
			}
		}
	}
}

// things lists what a text shows as code, each once.
func things(text string) []string {
	list := span.FindAllString(strings.Join(strings.Fields(text), " "), -1)
	slices.Sort(list)
	return slices.Compact(list)
}

// targets lists where the links of a text lead, each once; the Korean form of a document counts as
// the document.
func targets(text string) []string {
	var list []string
	for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(text, ""), -1) {
		target, anchor, _ := strings.Cut(m[1], "#")
		if _, isForm := strings.CutSuffix(target, ".ko.md"); isForm {
			target = strings.TrimSuffix(target, ".ko.md") + ".md"
		}
		if target == "README.md" {
			continue // the two forms lead to one another
		}
		list = append(list, path.Clean(target)+"#"+anchor)
	}
	slices.Sort(list)
	return slices.Compact(list)
}
