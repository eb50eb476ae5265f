package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	// gcPercent is how much of the live heap may be garbage before it is collected. Memory is what the
	// pod's limit counts, and at the service's rate of allocation collections cost next to nothing.
	gcPercent = 40
	// startTime is how long after its start the service has made what it keeps: connections and watches.
	startTime = 2 * time.Second
)

// keepHeapSmall sets gcPercent unless the environment says otherwise.
func keepHeapSmall(environ []string) {
	if !slices.ContainsFunc(environ, func(line string) bool { return strings.HasPrefix(line, "GOGC=") }) {
		debug.SetGCPercent(gcPercent)
	}
}

// handBackStart gives back, once, what only the start has needed: its garbage, and the pages of the
// program itself in which packages set themselves up and register every type that Kubernetes has.
func handBackStart(ctx context.Context, log *slog.Logger) {
	select {
	case <-ctx.Done():
		return
	case <-time.After(startTime):
	}
	debug.FreeOSMemory()
	if err := unmapProgram(); err != nil {
		log.Debug("the memory that the start needed stays", "error", err)
	}
}

// unmapProgram tells the kernel that the code and the constants of this program are not needed now. The
// kernel maps each page again, out of its cache, at the next access. Only mappings are given back that
// are as they stand in the file: what a loader has relocated would be lost.
func unmapProgram() error {
	path, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the program: %w", err)
	}
	text, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return fmt.Errorf("list the mapped files: %w", err)
	}
	for _, m := range unchangedMappings(string(text), path) {
		if _, _, failed := syscall.Syscall(syscall.SYS_MADVISE, m.start, m.end-m.start, syscall.MADV_DONTNEED); failed != 0 {
			return fmt.Errorf("madvise %s: %w", path, failed)
		}
	}
	return nil
}

// mapping is a range of addresses; end is the first one behind it.
type mapping struct{ start, end uintptr }

// unchangedMappings finds the read-only, private mappings of a file of which no page differs from the
// file, in a text like that of /proc/self/smaps (proc_pid_smaps(5)): a line with the range, the rights and
// the file, and behind it one line for each figure, among them the pages that are not the file's.
func unchangedMappings(smaps, path string) []mapping {
	var found []mapping
	var last mapping
	ours := false
	for line := range strings.Lines(smaps) {
		line = strings.TrimSuffix(line, "\n")
		var next mapping
		var rights string
		if n, _ := fmt.Sscanf(line, "%x-%x %4s", &next.start, &next.end, &rights); n == 3 {
			last = next
			ours = (rights == "r-xp" || rights == "r--p") && strings.HasSuffix(line, " "+path)
			continue
		}
		if figure, ok := strings.CutPrefix(line, "Anonymous:"); ok && ours && strings.TrimSpace(figure) == "0 kB" {
			found = append(found, last)
		}
	}
	return found
}
