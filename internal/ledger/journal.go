package ledger

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"config-server/internal/farm"
)

// EntryKind says what an unfinished operation was about to do.
type EntryKind string

// The kinds of journal entry.
const (
	// Creating: the account does not stand in the files yet; its names and numbers are reserved.
	Creating EntryKind = "create"
	// Deleting: the account no longer stands in the files; its home may still be there.
	Deleting EntryKind = "delete"
)

// Entry is a journal entry: an operation on an account that also touches the NAS or the KDC, and so
// cannot be one commit. It is written before the first side effect and goes with the last one.
type Entry struct {
	ID   string        `json:"id"`
	Kind EntryKind     `json:"kind"`
	User farm.UserName `json:"user"`
	UID  farm.ID       `json:"uid"`
	// Groups are the names and numbers that the operation will make, the private group first.
	Groups []farm.GroupRef `json:"groups,omitempty"`
	// MakesHome says that there was no home before, so that undo may remove what is there now.
	MakesHome bool `json:"makes_home,omitempty"`
	// MakesPrincipal and MakesKeytab say the same of the Kerberos principal and its keytab's Secret.
	MakesPrincipal bool `json:"makes_principal,omitempty"`
	MakesKeytab    bool `json:"makes_keytab,omitempty"`

	Instance  string    `json:"instance"`
	StartedAt time.Time `json:"started_at"`
}

// NewEntry makes an entry with an identity of its own.
func (l *Ledger) NewEntry(kind EntryKind, user farm.UserName, uid farm.ID) Entry {
	return Entry{
		ID: rand.Text(), Kind: kind, User: user, UID: uid,
		Instance: l.opts.Instance, StartedAt: l.opts.Now().UTC().Truncate(time.Second),
	}
}

func entryFile(id string) string { return journalDir + "/" + id + ".json" }

// Entries lists the journal, oldest first. It takes no lock; entries may come and go meanwhile. The
// error wraps ErrDamaged if an entry cannot be read.
func (l *Ledger) Entries(ctx context.Context) ([]Entry, error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("read the journal: %w", context.Cause(ctx))
	}
	names, err := readNames(l.path(journalDir))
	if err != nil {
		return nil, fmt.Errorf("read the journal: %w", err)
	}
	var entries []Entry
	for _, name := range names {
		if path.Ext(name) != ".json" || strings.HasPrefix(name, ".") {
			continue
		}
		file := l.path(journalDir + "/" + name)
		text, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read journal entry: %w", err)
		}
		var entry Entry
		if err := json.Unmarshal(text, &entry); err != nil || entryFile(entry.ID) != journalDir+"/"+name {
			return nil, fmt.Errorf("%w: %s is no journal entry; look at it and remove it", ErrDamaged, file)
		}
		entries = append(entries, entry)
	}
	slices.SortFunc(entries, func(a, b Entry) int {
		if c := a.StartedAt.Compare(b.StartedAt); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	return entries, nil
}

// readNames lists a directory; one that does not exist, or is none, is empty.
func readNames(dir string) ([]string, error) {
	file, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	names, err := file.Readdirnames(-1)
	if errors.Is(err, syscall.ENOTDIR) {
		return nil, nil
	}
	return names, err
}
