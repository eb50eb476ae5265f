package ledger

import (
	"iter"
	"strings"
)

// A file is kept as its whole text. Edits touch single lines and leave every other byte as it is,
// so comments, blank and short lines, odd encodings and order survive.

// lines yields the lines of a text without their terminators.
func lines(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for len(text) > 0 {
			line, rest := cutLine(text)
			if !yield(body(line)) {
				return
			}
			text = rest
		}
	}
}

// cutLine splits off the first line with its terminator. The last line may have none.
func cutLine(text string) (line, rest string) {
	if i := strings.IndexByte(text, '\n'); i >= 0 {
		return text[:i+1], text[i+1:]
	}
	return text, ""
}

// body is a line without its terminator, which is \n or \r\n.
func body(line string) string {
	return strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
}

// rewrite gives every line's body to edit and puts its answer in the place of the body; keep false
// takes the whole line out. Terminators stay. A text that no edit changes is returned as it is.
func rewrite(text string, edit func(body string) (replacement string, keep bool)) string {
	var out strings.Builder
	clean := 0 // text[clean:at] is unchanged and not yet in out
	for at := 0; at < len(text); {
		line, _ := cutLine(text[at:])
		old := body(line)
		replacement, keep := edit(old)
		next := at + len(line)
		switch {
		case !keep:
			out.WriteString(text[clean:at])
			clean = next
		case replacement != old:
			out.WriteString(text[clean:at])
			out.WriteString(replacement)
			clean = at + len(old)
		}
		at = next
	}
	if clean == 0 {
		return text
	}
	out.WriteString(text[clean:])
	return out.String()
}

// appendLine puts a line at the end. A last line without a terminator gets one first.
func appendLine(text, line string) string {
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return text + line + "\n"
}

// dropNamed takes out every line whose first field is name, however many fields it has.
func dropNamed(text, name string) string {
	prefix := name + ":"
	if !strings.HasPrefix(text, prefix) && !strings.Contains(text, "\n"+prefix) {
		return text
	}
	return rewrite(text, func(body string) (string, bool) {
		return body, !strings.HasPrefix(body, prefix)
	})
}
