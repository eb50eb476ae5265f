package bill

import (
	"bytes"
	"fmt"
	"strings"
)

const rule = "================================================================================\n"

// Notices is the text with every licence and notice of the components. A text that several ship alike stands there once,
// under the names of all of them.
func Notices(image Image, components []Component) []byte {
	var b bytes.Buffer
	_, _ = fmt.Fprintf(&b, "Works of others in %s %s, %s for %s\n\n", image.Name, image.Version, image.Variant, image.Platform)
	b.WriteString("First each with its licences as SPDX names them, then the texts word for word.\n\n")
	type text struct {
		content string
		owners  []string
	}
	var texts []*text
	known := map[string]*text{}
	for _, component := range components {
		name := component.Name + " " + component.Version
		_, _ = fmt.Fprintf(&b, "%s: %s\n", name, names(component.Licences))
		for _, t := range component.Texts {
			content := string(bytes.TrimSpace(t.Content))
			if known[content] == nil {
				known[content] = &text{content: content}
				texts = append(texts, known[content])
			}
			known[content].owners = append(known[content].owners, name+", "+t.Path)
		}
	}
	for _, t := range texts {
		b.WriteString("\n" + rule + strings.Join(t.owners, "\n") + "\n" + rule + "\n" + t.content + "\n")
	}
	return b.Bytes()
}

func names(ids []string) string {
	if len(ids) == 0 {
		return "see its text"
	}
	return strings.Join(ids, ", ")
}
