package main

import (
	"testing"

	"github.com/prometheus/procfs"
)

// What the start has touched of the program is not mapped afterwards, and the program goes on.
func TestTheProgramIsUnmapped(t *testing.T) {
	before := mappedFiles(t)
	if err := unmapProgram(); err != nil {
		t.Fatal(err)
	}
	if after := mappedFiles(t); after > before/2 {
		t.Errorf("%d kB of files were mapped, and %d kB still are", before, after)
	}
}

// mappedFiles is how much of files the process has in memory, in kB.
func mappedFiles(t *testing.T) uint64 {
	t.Helper()
	self, err := procfs.Self()
	if err != nil {
		t.Fatal(err)
	}
	status, err := self.NewStatus()
	if err != nil {
		t.Fatal(err)
	}
	return status.RssFile / 1024
}
