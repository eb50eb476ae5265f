package main

import (
	"context"
	"fmt"

	"config-server/internal/app"
)

// check tries each outside part once and prints one line each.
func check(ctx context.Context, in invocation) int {
	c, ok := loadConfig(in)
	if !ok {
		return exitUsage
	}
	fmt.Fprintln(in.out, "ok      configuration")
	results, err := app.Check(ctx, c)
	if err != nil {
		fmt.Fprintf(in.out, "FAILED  start: %v\n", err)
		return exitFailed
	}
	code := exitOK
	for _, r := range results {
		if r.Err == nil {
			fmt.Fprintf(in.out, "ok      %s (%s)\n", r.Part, r.Object)
			continue
		}
		code = exitFailed
		fmt.Fprintf(in.out, "FAILED  %s (%s): %v\n        %s\n", r.Part, r.Object, r.Err, r.Remedy)
	}
	return code
}
