package main

import (
	"context"
	"fmt"
)

func runDemo(_ context.Context, in invocation) int {
	fmt.Fprintln(in.errors, "config-server demo: being built")
	return exitFailed
}
