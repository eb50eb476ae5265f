package main

import (
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	"config-server/internal/app"
	"config-server/internal/obs"
	"config-server/internal/reconciler"
)

// reconcileReport is what reconcile prints with -o json. Error says why it could not go on.
type reconcileReport struct {
	reconciler.Report
	Error string `json:"error,omitempty"`
}

func reconcileCommand(in invocation) *cobra.Command {
	command := &cobra.Command{
		Use:   "reconcile",
		Short: "Mend by hand what was left over",
		Long: `Settle operations that a crash cut off, and remove what belongs to nothing: rows, pods and Services. The running service
does the same every RECONCILE_INTERVAL; beside it this is safe, because both take the same locks.

Exit code 1 if anything was found, mended or not, 2 if the configuration is wrong.`,
		Example: "  config-server reconcile --dry-run\n  config-server reconcile -o json\n  config-server reconcile --service-stopped",
		Args:    noArguments,
	}
	form := formFlag(command)
	flags := command.Flags()
	dryRun := flags.Bool("dry-run", false, "change nothing, show what would be done")
	stopped := flags.Bool("service-stopped", false, "no instance of the service runs anywhere; needed with LEDGER_LOCK=local when none is seen in this STATE_DIR")
	verbose := flags.BoolP("verbose", "v", false, "show the log on standard error")
	command.RunE = func(command *cobra.Command, _ []string) error {
		c, err := loadConfig(in)
		if err != nil {
			return err
		}
		var log *slog.Logger
		if *verbose {
			log = obs.NewLogger(in.errors, slog.LevelInfo)
		}
		report, err := app.Reconcile(command.Context(), c, app.ReconcileOptions{DryRun: *dryRun, ServiceStopped: *stopped, Log: log})
		printErr := printReconciled(in.out, *form, report, err)
		switch {
		case err != nil:
			return failed(err)
		case printErr != nil:
			return failed(fmt.Errorf("print the report: %w", printErr))
		}
		return found(len(report.Findings) > 0)
	}
	return command
}

// printReconciled prints what was found. After a failure that is not all there is, so the figures of
// the whole are left out.
func printReconciled(out io.Writer, form form, report reconciler.Report, failure error) error {
	if form == formJSON {
		told := reconcileReport{Report: report}
		if told.Findings == nil {
			told.Findings = []reconciler.Finding{} // a list also when it is empty
		}
		if failure != nil {
			told.Error = failure.Error()
		}
		return printJSON(out, told)
	}
	if len(report.Findings) > 0 {
		table := newLines("ACTION", "KIND", "OBJECT", "USER", "DETAIL")
		for _, f := range report.Findings {
			table.add(string(f.Action), string(f.Kind), f.Object, or(string(f.User)), f.Detail)
		}
		if err := table.print(out); err != nil {
			return err
		}
	}
	if failure != nil {
		return nil
	}
	_, err := fmt.Fprintf(out, "%d findings: %d mended, %d would be, %d left for later, %d for a person to decide, %d failed\n", len(report.Findings),
		report.Count(reconciler.ActionDone), report.Count(reconciler.ActionWould), report.Count(reconciler.ActionWait),
		report.Count(reconciler.ActionReported), report.Count(reconciler.ActionFailed))
	return err
}
