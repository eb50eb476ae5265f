package main

import (
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"
	"unicode"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"
)

// form is how a subcommand prints its data.
type form string

// The forms.
const (
	formTable form = "table"
	formJSON  form = "json"
)

// Set takes the value of the flag.
func (f *form) Set(value string) error {
	if form(value) != formTable && form(value) != formJSON {
		return errors.New("it has to be table or json")
	}
	*f = form(value)
	return nil
}

// String is the value of the flag.
func (f *form) String() string { return string(*f) }

// Type is how help calls the value.
func (f *form) Type() string { return "FORM" }

// formFlag gives a subcommand the flag -o.
func formFlag(command *cobra.Command) *form {
	f := formTable
	command.Flags().VarP(&f, "output", "o", "how to print: table or json")
	// The error says that the flag is not there or has a function already.
	_ = command.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]cobra.Completion{"table", "json"}, cobra.ShellCompDirectiveNoFileComp))
	return &f
}

// lines is a table in the making. Columns are aligned by the width that a terminal gives their
// characters, of which a Korean one has two.
type lines struct{ writer table.Writer }

// newLines begins a table with the names of its columns.
func newLines(columns ...string) lines {
	writer := table.NewWriter()
	writer.SetStyle(table.Style{Box: table.BoxStyle{PaddingRight: "  "}, Options: table.OptionsNoBordersAndSeparators})
	writer.SuppressTrailingSpaces()
	header := make(table.Row, len(columns))
	for i, name := range columns {
		header[i] = name
	}
	writer.AppendHeader(header)
	return lines{writer}
}

// add adds a line. Texts are made printable; numbers stand at the right of their column.
func (l lines) add(cells ...any) {
	row := make(table.Row, len(cells))
	for i, cell := range cells {
		if text, ok := cell.(string); ok {
			cell = printable(text)
		}
		row[i] = cell
	}
	l.writer.AppendRow(row)
}

// right puts columns whose cells are no plain numbers at their right ends.
func (l lines) right(columns ...string) {
	var configs []table.ColumnConfig
	for _, column := range columns {
		configs = append(configs, table.ColumnConfig{Name: column, Align: text.AlignRight, AlignHeader: text.AlignRight})
	}
	l.writer.SetColumnConfigs(configs)
}

// print writes the table.
func (l lines) print(out io.Writer) error {
	_, err := io.WriteString(out, l.writer.Render()+"\n")
	return err
}

// printable keeps texts that others wrote from playing with the terminal.
func printable(text string) string {
	odd := strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
	if odd {
		return strconv.QuoteToGraphic(text)
	}
	return text
}

// printableLines is printable for a text of several lines, which stay lines and are set in.
func printableLines(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = printable(line)
	}
	return strings.Join(lines, "\n    ")
}

// none stands in a table where there is nothing to tell.
const none = "-"

// or is the text, or none.
func or(text string) string {
	if text == "" {
		return none
	}
	return text
}

func printJSON(out io.Writer, data any) error {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(data)
}
