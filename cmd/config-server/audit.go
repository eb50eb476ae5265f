package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"

	"config-server/internal/app"
	"config-server/internal/audit"
)

// Forms of a report.
const (
	formTable = "table"
	formJSON  = "json"
)

// formFlag reads -o.
func formFlag(set *flag.FlagSet) *string {
	form := formTable
	set.Func("o", "`form` of the report: table or json (default table)", func(value string) error {
		if value != formTable && value != formJSON {
			return errors.New("must be table or json")
		}
		form = value
		return nil
	})
	return &form
}

// parseFlags reads a command line that has flags only. It reports false with the exit code if the
// subcommand shall not run.
func parseFlags(in invocation, set *flag.FlagSet) (int, bool) {
	set.SetOutput(in.errors)
	switch err := set.Parse(in.args); {
	case errors.Is(err, flag.ErrHelp):
		return exitOK, false
	case err != nil:
		return exitUsage, false
	}
	if set.NArg() > 0 {
		fmt.Fprintf(in.errors, "%s: unexpected argument %q\n", set.Name(), set.Arg(0))
		return exitUsage, false
	}
	return exitOK, true
}

// runAudit compares all parts, changing nothing. Its exit code is exitFailed if anything was found.
func runAudit(ctx context.Context, in invocation) int {
	set := flag.NewFlagSet("config-server audit", flag.ContinueOnError)
	form := formFlag(set)
	url := set.String("url", "", "`address` of the service in the commands of the report (default: as LISTEN_ADDR says, on this machine)")
	if code, ok := parseFlags(in, set); !ok {
		return code
	}
	c, ok := loadConfig(in)
	if !ok {
		return exitUsage
	}
	if *url == "" {
		*url = app.ServiceURL(c)
	}
	report, err := app.Audit(ctx, c, *url)
	if err != nil {
		fmt.Fprintf(in.errors, "config-server audit: %v\n", err)
		return exitFailed
	}
	if *form == formJSON {
		err = printJSON(in.out, report)
	} else {
		err = printAudit(in.out, report)
	}
	if err != nil {
		fmt.Fprintf(in.errors, "config-server audit: print the report: %v\n", err)
		return exitFailed
	}
	if len(report.Findings) > 0 {
		return exitFailed
	}
	return exitOK
}

func printAudit(out io.Writer, report audit.Report) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, f := range report.Findings {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", f.Kind, printable(f.Object), printable(string(f.User)), printable(f.Detail))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if len(report.Findings) > 0 {
		fmt.Fprint(out, "\nCommands, in the same order; docs/operations.md, \"Audit findings\", says when not to run them:\n\n")
	}
	for _, f := range report.Findings {
		fmt.Fprintf(out, "# %s %s\n%s\n", f.Kind, printable(f.Object), f.Remedy)
	}
	n := report.Checked
	_, err := fmt.Fprintf(out, "%d findings in %d accounts, %d groups, %d homes, %d rows, %d pods, %d Services, %d unfinished operations\n",
		len(report.Findings), n.Accounts, n.Groups, n.Homes, n.Rows, n.Pods, n.Services, n.Operations)
	return err
}

// printable keeps names that stand on the share from playing with the terminal.
func printable(text string) string {
	odd := strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
	if odd {
		return strconv.QuoteToGraphic(text)
	}
	return text
}

func printJSON(out io.Writer, report any) error {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(report)
}
