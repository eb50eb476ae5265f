package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"config-server/internal/app"
	"config-server/internal/audit"
)

func auditCommand(in invocation) *cobra.Command {
	command := &cobra.Command{
		Use:   "audit",
		Short: "Compare ledger, homes, table and cluster, and change nothing",
		Long: `Compare account files, homes, table of NodePorts, pods and Services, and print what does not fit together, each with a
command that mends it. Nothing is changed. docs/operations.md, "Audit findings", tells what each kind means.

Exit code 1 if anything was found, 2 if the configuration is wrong.`,
		Example: "  config-server audit\n  config-server audit -o json\n  config-server audit --url http://config.example:30082",
		Args:    noArguments,
	}
	form := formFlag(command)
	url := command.Flags().String("url", "", "`ADDRESS` of the service in the commands of the report (default as LISTEN_ADDR says, on this machine)")
	command.RunE = func(command *cobra.Command, _ []string) error {
		c, err := loadConfig(in)
		if err != nil {
			return err
		}
		if *url == "" {
			*url = app.ServiceURL(c)
		}
		report, err := app.Audit(command.Context(), c, *url)
		if err != nil {
			return failed(err)
		}
		print := printAudit
		if *form == formJSON {
			print = func(out io.Writer, report audit.Report) error { return printJSON(out, report) }
		}
		if err := print(in.out, report); err != nil {
			return failed(fmt.Errorf("print the report: %w", err))
		}
		return found(len(report.Findings) > 0)
	}
	return command
}

func printAudit(out io.Writer, report audit.Report) error {
	if len(report.Findings) > 0 {
		table := newLines("KIND", "OBJECT", "USER", "DETAIL")
		for _, f := range report.Findings {
			table.add(string(f.Kind), f.Object, or(string(f.User)), f.Detail)
		}
		if err := table.print(out); err != nil {
			return err
		}
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
