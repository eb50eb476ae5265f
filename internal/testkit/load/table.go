package load

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// Row is one figure beside its target.
type Row struct {
	Measure string `json:"measure"`
	Target  string `json:"target"` // in words; empty = none, the figure is for comparison
	Figure  string `json:"figure"`
	Met     bool   `json:"met"`
	// Runs are the values of which the figure is the median, in Unit.
	Runs []float64 `json:"runs,omitempty"`
	Unit string    `json:"unit,omitempty"`
	// Original is what the service that this one replaces needed; empty = not known.
	Original string `json:"original,omitempty"`
}

// Table is the outcome of a benchmark.
type Table struct {
	Title   string `json:"title"`
	Machine string `json:"machine"`
	Setting string `json:"setting"` // date, program and number of runs
	Rows    []Row  `json:"rows"`
}

// Add puts a row at the end.
func (t *Table) Add(row Row) { t.Rows = append(t.Rows, row) }

// Markdown is the table for people.
func (t *Table) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s; %s.\n\n", t.Machine, t.Setting)
	b.WriteString("| measure | target | figure | met | the original |\n|---|---|---|---|---|\n")
	for _, row := range t.Rows {
		met := "met"
		switch {
		case row.Target == "":
			met = ""
		case !row.Met:
			met = "**not met**"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", cell(row.Measure), cell(row.Target), cell(row.Figure), met, cell(row.Original))
	}
	return b.String()
}

// cell keeps text within its column.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ").Replace(text)
}

// JSON is the table for programs, one row a line.
func (t *Table) JSON() (string, error) {
	head, err := json.Marshal(map[string]string{"title": t.Title, "machine": t.Machine, "setting": t.Setting})
	if err != nil {
		return "", fmt.Errorf("encode the table: %w", err)
	}
	lines := make([]string, len(t.Rows))
	for i, row := range t.Rows {
		line, err := json.Marshal(row)
		if err != nil {
			return "", fmt.Errorf("encode the table: %w", err)
		}
		lines[i] = "  " + string(line)
	}
	return strings.TrimSuffix(string(head), "}") + ",\"rows\":[\n" + strings.Join(lines, ",\n") + "\n]}\n", nil
}

// Embed replaces what stands in the file between the comments "name: begin" and "name: end". It
// fails when it does not find them.
func Embed(path, name, text string) error {
	old, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("write figures: %w", err)
	}
	begin, end := "<!-- "+name+": begin -->\n", "<!-- "+name+": end -->"
	before, rest, found := strings.Cut(string(old), begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		return fmt.Errorf("write figures: %s lacks the comments %q and %q", path, strings.TrimSpace(begin), end)
	}
	if err := os.WriteFile(path, []byte(before+begin+"\n"+text+"\n"+end+after), 0o644); err != nil {
		return fmt.Errorf("write figures: %w", err)
	}
	return nil
}
