package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
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

func TestUnchangedMappings(t *testing.T) {
	t.Parallel()
	const smaps = `00400000-00500000 r-xp 00000000 fe:00 11700495                           /opt/config server
Size:               1024 kB
Anonymous:             0 kB
VmFlags: rd ex mr mw me
00500000-00600000 r--p 00100000 fe:00 11700495                           /opt/config server
Rss:                1024 kB
Anonymous:             0 kB
00600000-00601000 r--p 00200000 fe:00 11700495                           /opt/config server
Anonymous:             4 kB
00601000-00602000 rw-p 00201000 fe:00 11700495                           /opt/config server
Anonymous:             0 kB
00602000-00603000 r--s 00201000 fe:00 11700495                           /opt/config server
Anonymous:             0 kB
7f0000000000-7f0000001000 r-xp 00000000 fe:00 326269                     /usr/lib/libc.so.6
Anonymous:             0 kB
7f0000001000-7f0000002000 r--p 00000000 00:00 0
Anonymous:             0 kB
7f0000002000-7f0000003000 r--p 00000000 fe:00 11700495                   /opt/config server (deleted)
Anonymous:             0 kB
`
	want := []mapping{{0x400000, 0x500000}, {0x500000, 0x600000}}
	if diff := cmp.Diff(want, unchangedMappings(smaps, "/opt/config server"), cmp.AllowUnexported(mapping{})); diff != "" {
		t.Errorf("mappings (-want +got):\n%s", diff)
	}
}
