package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"config-server/internal/app"
)

// checkReport is what check prints with -o json.
type checkReport struct {
	OK    bool        `json:"ok"`
	Parts []checkPart `json:"parts"`
}

type checkPart struct {
	Part   string `json:"part"`
	Object string `json:"object"`
	OK     bool   `json:"ok"`
	// Minor: the part fails, and the service does its work all the same.
	Minor  bool   `json:"minor,omitempty"`
	Error  string `json:"error,omitempty"`
	Remedy string `json:"remedy,omitempty"`
}

func checkCommand(in invocation) *cobra.Command {
	command := &cobra.Command{
		Use:   "check",
		Short: "Read the configuration and try each outside part",
		Long: `Read the configuration and try each outside part once: share, database, API server, Prometheus, admin_be, NAS and
what else is configured. Nothing is changed. A part that fails is told with what to do.

A part that is LIMITED costs something without which the service does its work all the same.

Exit code 1 if a part failed, 2 if the configuration is wrong.`,
		Example: "  config-server check\n  config-server check -o json",
		Args:    noArguments,
	}
	form := formFlag(command)
	command.RunE = func(command *cobra.Command, _ []string) error {
		report, err := check(command.Context(), in)
		if err != nil {
			return err
		}
		print := printChecked
		if *form == formJSON {
			print = func(out io.Writer, report checkReport) error { return printJSON(out, report) }
		}
		if err := print(in.out, report); err != nil {
			return failed(fmt.Errorf("print the report: %w", err))
		}
		return found(!report.OK)
	}
	return command
}

// check tries each outside part once.
func check(ctx context.Context, in invocation) (checkReport, error) {
	c, err := loadConfig(in)
	if err != nil {
		return checkReport{}, err
	}
	results, err := app.Check(ctx, c)
	if err != nil {
		return checkReport{}, failed(fmt.Errorf("cannot start: %w", err))
	}
	report := checkReport{OK: true, Parts: []checkPart{{Part: "configuration", Object: "environment", OK: true}}}
	for _, r := range results {
		part := checkPart{Part: r.Part, Object: r.Object, OK: r.Err == nil}
		if r.Err != nil {
			report.OK = report.OK && r.Minor
			part.Error, part.Remedy, part.Minor = r.Err.Error(), r.Remedy, r.Minor
		}
		report.Parts = append(report.Parts, part)
	}
	return report, nil
}

func printChecked(out io.Writer, report checkReport) error {
	table := newLines("RESULT", "PART", "OBJECT")
	for _, part := range report.Parts {
		result := "ok"
		switch {
		case part.Minor:
			result = "LIMITED"
		case !part.OK:
			result = "FAILED"
		}
		table.add(result, part.Part, part.Object)
	}
	if err := table.print(out); err != nil {
		return err
	}
	for _, part := range report.Parts {
		if part.OK {
			continue
		}
		if _, err := fmt.Fprintf(out, "\n%s (%s): %s\n    %s\n", part.Part, part.Object, part.Error, part.Remedy); err != nil {
			return err
		}
	}
	return nil
}
