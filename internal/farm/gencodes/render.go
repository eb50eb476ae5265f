package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
)

// code is one row of the page.
type code struct{ value, meaning, step, status, todo string }

// group is a const declaration with codes; its comment is the heading.
type group struct {
	title string
	codes []code
}

const header = `# Codes of failures

Generated from the comments in ` + "`internal/farm/codes.go`" + ` by ` + "`go generate ./internal/farm/...`" + `; do not edit.

A failure of /create-pod or /delete-pod names its step in ` + "`step`" + ` and its code in ` + "`error`" + `; ` + "`detail`" + ` says it in words. A NAS or
Kerberos failure of PUT /accounts/users does the same. Every other endpoint answers ` + "`error`" + ` as text. Each answer carries
` + "`X-Request-Id`" + `; the log has the whole story under that id.
`

// render makes the page from the Go source of the codes. A code whose comment lacks a part is an error.
func render(source []byte) ([]byte, error) {
	file, err := parser.ParseFile(token.NewFileSet(), "codes.go", source, parser.ParseComments)
	if err != nil {
		return nil, fmt.Errorf("parse codes: %w", err)
	}
	var page bytes.Buffer
	page.WriteString(header)
	for _, decl := range file.Decls {
		g, err := groupOf(decl)
		if err != nil {
			return nil, err
		}
		if len(g.codes) == 0 {
			continue
		}
		fmt.Fprintf(&page, "\n## %s\n\n| code | step | status | meaning | what to do |\n|---|---|---|---|---|\n", g.title)
		for _, c := range g.codes {
			fmt.Fprintf(&page, "| `%s` | %s | %s | %s | %s |\n", c.value, c.step, c.status, c.meaning, c.todo)
		}
	}
	return page.Bytes(), nil
}

func groupOf(decl ast.Decl) (group, error) {
	constants, ok := decl.(*ast.GenDecl)
	if !ok || constants.Tok != token.CONST {
		return group{}, nil
	}
	g := group{title: strings.TrimSuffix(strings.TrimSpace(constants.Doc.Text()), ".")}
	for _, spec := range constants.Specs {
		value := spec.(*ast.ValueSpec)
		if kind, ok := value.Type.(*ast.Ident); !ok || kind.Name != "Code" {
			continue
		}
		c, err := codeOf(value)
		if err != nil {
			return group{}, err
		}
		g.codes = append(g.codes, c)
	}
	return g, nil
}

func codeOf(spec *ast.ValueSpec) (code, error) {
	name := spec.Names[0].Name
	literal, ok := spec.Values[0].(*ast.BasicLit)
	if !ok {
		return code{}, fmt.Errorf("%s is no literal", name)
	}
	value, err := strconv.Unquote(literal.Value)
	if err != nil {
		return code{}, fmt.Errorf("%s is no string: %w", name, err)
	}
	parts := map[string]string{}
	for paragraph := range strings.SplitSeq(spec.Doc.Text(), "\n\n") {
		key, text, _ := strings.Cut(strings.TrimSpace(paragraph), ": ")
		parts[key] = cell(text)
	}
	for _, key := range []string{name, "Step", "Status", "To do"} {
		if parts[key] == "" {
			return code{}, fmt.Errorf("the comment of %s has no part %q", name, key)
		}
	}
	return code{value: value, meaning: parts[name], step: parts["Step"], status: parts["Status"], todo: parts["To do"]}, nil
}

// cell puts a text on one line of a table.
func cell(text string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "|", `\|`)
}
