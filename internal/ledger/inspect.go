package ledger

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Inspection is everything that the share says of accounts, for whoever looks for contradictions.
// It has no password hash.
type Inspection struct {
	View *View
	// Fresh: the share is not seeded yet, and View shows what it will be seeded with.
	Fresh bool
	// Interrupted: a commit is decided and not complete.
	Interrupted bool
	// Shadow has the names of shadow in file order, doubles included.
	Shadow []string
	// Damaged are the lines that are no account, group or password line, and no comment.
	Damaged []Place
	// Sudoers are the names of the policy files, Entries the journal, Retired the numbers that were
	// given once. Each is nil if the error beside it says that it could not be read.
	Sudoers    []string
	SudoersErr error
	Entries    []Entry
	EntriesErr error
	Retired    []Retirement
	RetiredErr error
}

// Place is a line of a file.
type Place struct {
	File string
	Line int // from 1
}

// Inspect reads all files of the ledger without the lock; it never writes. passwd, group and shadow
// are of one state. The error is that of View, or says that shadow cannot be read.
func (l *Ledger) Inspect(ctx context.Context) (Inspection, error) {
	for range maxReads {
		view, err := l.View(ctx)
		if err != nil {
			return Inspection{}, err
		}
		found := Inspection{View: view, Fresh: view.fresh, Interrupted: l.Interrupted()}
		if view.fresh {
			return found, nil
		}
		shadow, id, err := l.readFile(shadowFile)
		if err != nil {
			return Inspection{}, err
		}
		if id != view.state.shadow {
			continue // replaced since
		}
		found.lines(shadow)
		found.Sudoers, found.SudoersErr = readNames(l.path(sudoersDir))
		slices.Sort(found.Sudoers)
		found.Entries, found.EntriesErr = l.Entries(ctx)
		var retired *retirements
		if retired, _, found.RetiredErr = l.loadRetired(); found.RetiredErr == nil {
			found.Retired = retired.all()
		}
		return found, nil
	}
	return Inspection{}, fmt.Errorf("%w: the files in %s do not hold still", ErrDamaged, l.opts.Dir)
}

// lines goes through the three files line by line.
func (i *Inspection) lines(shadow string) {
	i.damaged(passwdFile, i.View.passwd.text, func(line string) bool {
		_, ok := parseAccount(line)
		return ok
	})
	i.damaged(groupFile, i.View.group.text, func(line string) bool {
		_, ok := parseGroup(line)
		return ok
	})
	i.damaged(shadowFile, shadow, func(line string) bool {
		var field [9]string
		if !split(line, field[:]) || !isName(field[0]) {
			return false
		}
		i.Shadow = append(i.Shadow, field[0])
		return true
	})
}

func (i *Inspection) damaged(file, text string, understood func(line string) bool) {
	number := 0
	for line := range lines(text) {
		number++
		blank := strings.TrimSpace(line) == ""
		if !understood(line) && !blank && line[0] != '#' && line[0] != '+' && line[0] != '-' {
			i.Damaged = append(i.Damaged, Place{file, number})
		}
	}
}

// all lists the retirements by number.
func (r *retirements) all() []Retirement {
	var list []Retirement
	for _, of := range r.byID {
		list = append(list, of...)
	}
	slices.SortFunc(list, func(a, b Retirement) int {
		if a.ID != b.ID {
			return int(a.ID - b.ID)
		}
		return strings.Compare(a.String(), b.String())
	})
	return list
}
