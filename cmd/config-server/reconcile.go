package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"text/tabwriter"

	"config-server/internal/app"
	"config-server/internal/obs"
	"config-server/internal/reconciler"
)

// runReconcile mends by hand what was left over. Its exit code is exitFailed if anything was found,
// mended or not.
func runReconcile(ctx context.Context, in invocation) int {
	set := flag.NewFlagSet("config-server reconcile", flag.ContinueOnError)
	form := formFlag(set)
	dryRun := set.Bool("dry-run", false, "change nothing, show what would be done")
	stopped := set.Bool("service-stopped", false, "no instance of the service runs anywhere; needed with LEDGER_LOCK=local when none is seen in this STATE_DIR")
	verbose := set.Bool("v", false, "show the log on standard error")
	if code, ok := parseFlags(in, set); !ok {
		return code
	}
	c, ok := loadConfig(in)
	if !ok {
		return exitUsage
	}
	var log *slog.Logger
	if *verbose {
		log = obs.NewLogger(in.errors, slog.LevelInfo)
	}
	report, err := app.Reconcile(ctx, c, app.ReconcileOptions{DryRun: *dryRun, ServiceStopped: *stopped, Log: log})
	if report.Findings == nil {
		report.Findings = []reconciler.Finding{} // a list in JSON also when it is empty
	}
	print := printReconciled
	if *form == formJSON {
		print = func(out io.Writer, report reconciler.Report) error { return printJSON(out, report) }
	}
	if printErr := print(in.out, report); printErr != nil {
		fmt.Fprintf(in.errors, "config-server reconcile: print the report: %v\n", printErr)
		return exitFailed
	}
	if err != nil {
		fmt.Fprintf(in.errors, "config-server reconcile: %v\n", err)
		return exitFailed
	}
	if len(report.Findings) > 0 {
		return exitFailed
	}
	return exitOK
}

func printReconciled(out io.Writer, report reconciler.Report) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, f := range report.Findings {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", f.Action, f.Kind, printable(f.Object), printable(string(f.User)), printable(f.Detail))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "%d findings: %d mended, %d would be, %d left for later, %d for a person to decide, %d failed\n", len(report.Findings),
		report.Count(reconciler.ActionDone), report.Count(reconciler.ActionWould), report.Count(reconciler.ActionWait),
		report.Count(reconciler.ActionReported), report.Count(reconciler.ActionFailed))
	return err
}
