// Command gencodes writes docs/CODES.md from the doc comments of the codes in package farm.
//
// The comment of each constant of type Code has four parts: "Name: meaning", "Step: ...",
// "Status: ..." and "To do: ...".
package main

import (
	"flag"
	"fmt"
	"os"
)

//go:generate go run . -from ../codes.go -to ../../../docs/CODES.md

func main() {
	from := flag.String("from", "../codes.go", "Go file with the codes")
	to := flag.String("to", "../../../docs/CODES.md", "page to write")
	flag.Parse()
	if err := run(*from, *to); err != nil {
		fmt.Fprintln(os.Stderr, "gencodes:", err)
		os.Exit(1)
	}
}

func run(from, to string) error {
	source, err := os.ReadFile(from)
	if err != nil {
		return fmt.Errorf("read codes: %w", err)
	}
	page, err := render(source)
	if err != nil {
		return err
	}
	if err := os.WriteFile(to, page, 0o644); err != nil {
		return fmt.Errorf("write page: %w", err)
	}
	return nil
}
