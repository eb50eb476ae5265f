package ledger

import (
	"errors"
	"testing"
)

func TestLastSizeIsThatOfTheLastRead(t *testing.T) {
	t.Parallel()
	files := small()
	dir := share(t, files)
	l := newLedger(t, dir)
	if size, known := l.LastSize(); known {
		t.Errorf("before the first read: %+v", size)
	}
	v := view(t, l)
	want := Size{
		Users: len(v.Users()), Groups: len(v.Groups()),
		Passwd: int64(len(files["passwd"])), Group: int64(len(files["group"])), Shadow: int64(len(files["shadow"])),
	}
	if size, known := l.LastSize(); !known || size != want || size.Users == 0 || size.Groups == 0 {
		t.Errorf("size %+v, known %t, want %+v", size, known, want)
	}

	line := "late:x:20999:20999::/home/late:/bin/bash\n"
	writeShare(t, dir, "passwd", files["passwd"]+line)
	if size, _ := l.LastSize(); size != want {
		t.Errorf("size %+v was told before it was read", size)
	}
	view(t, l)
	want.Users++
	want.Passwd += int64(len(line))
	if size, _ := l.LastSize(); size != want {
		t.Errorf("size %+v, want %+v", size, want)
	}

	// A share that cannot be read any more leaves the last size.
	writeShare(t, dir, "passwd", "")
	if _, err := l.View(t.Context()); !errors.Is(err, ErrDamaged) {
		t.Fatalf("View: %v", err)
	}
	if size, known := l.LastSize(); !known || size != want {
		t.Errorf("size %+v, known %t, want %+v", size, known, want)
	}
}
