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

	"github.com/prometheus/procfs"
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

// unmapProgram tells the kernel that the code and the constants of this program are not needed now.
// They are read-only pages of a file: the kernel maps each again, out of its cache, at the next access.
func unmapProgram() error {
	path, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the program: %w", err)
	}
	self, err := procfs.Self()
	if err != nil {
		return fmt.Errorf("look at the process: %w", err)
	}
	maps, err := self.ProcMaps()
	if err != nil {
		return fmt.Errorf("list the mapped files: %w", err)
	}
	for _, m := range maps {
		if m.Pathname != path || m.Perms.Write || m.Perms.Shared {
			continue
		}
		if _, _, failed := syscall.Syscall(syscall.SYS_MADVISE, m.StartAddr, m.EndAddr-m.StartAddr, syscall.MADV_DONTNEED); failed != 0 {
			return fmt.Errorf("madvise %s: %w", path, failed)
		}
	}
	return nil
}
