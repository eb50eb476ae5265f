// Package audit compares what the ledger, the homes on the NAS, the table of NodePorts and the
// cluster say of accounts and workspaces, and names each thing that does not fit together with the
// command that mends it.
//
// Compare is pure: whoever calls it has read the parts. A part that could not be read is a finding
// of its own, and whatever needs it is not compared. What an operation is working on is left out,
// because it is half done by nature.
package audit

import (
	"cmp"
	"slices"
	"time"

	"config-server/internal/farm"
)

// Part is one of the places that are compared.
type Part string

// The parts.
const (
	PartLedger     Part = "ledger"     // passwd, group and shadow
	PartSudoers    Part = "sudoers"    // sudoers.d
	PartJournal    Part = "journal"    // unfinished account operations
	PartRetired    Part = "retired"    // numbers that were given once
	PartHomes      Part = "homes"      // the folder of homes on the NAS
	PartRows       Part = "rows"       // nodeport_allocations
	PartGPUs       Part = "gpus"       // config_server_gpus
	PartOperations Part = "operations" // unfinished workspace operations
	PartPods       Part = "pods"
	PartServices   Part = "services"
)

// Entry is an unfinished account operation of the journal.
type Entry struct {
	ID        string
	Kind      string // create or delete
	User      farm.UserName
	StartedAt time.Time
}

// Retired is a number that was given once.
type Retired struct {
	ID    farm.ID
	Name  string
	Group bool // it was a group's, not an account's
}

// Damage is a line of an account file that no program understands. It has the line's place and not
// its text, which may be a password's hash.
type Damage struct {
	File string // passwd, group or shadow
	Line int    // from 1
}

// Input is one reading of everything. The zero value of a list is an empty one; a part that could
// not be read stands in Unreadable.
type Input struct {
	// Fresh: the share is not seeded yet and has no files to compare.
	Fresh    bool
	Accounts []farm.Account
	Groups   []farm.Group
	// Shadow and Sudoers are the names in file order, doubles included.
	Shadow  []string
	Sudoers []string
	Damaged []Damage
	// Interrupted: a commit of the account files is decided and not complete.
	Interrupted bool
	Entries     []Entry
	Retired     []Retired

	Homes map[string]farm.ID // name -> uid of the owner

	Rows       []farm.Row
	Pods       []farm.Pod
	Services   []farm.Service
	Operations []farm.Operation
	// GPUs are the assigned GPUs. AssignsGPUs: workspaces are given theirs; ExclusiveGPUs: and share none.
	GPUs                       []farm.GPURow
	AssignsGPUs, ExclusiveGPUs bool

	Unreadable map[Part]error

	Now time.Time
	// Overdue is the age from which an unfinished operation is no longer just running.
	Overdue time.Duration
	Places  Places
}

// Checked counts what was compared.
type Checked struct {
	Accounts   int `json:"accounts"`
	Groups     int `json:"groups"`
	Homes      int `json:"homes"`
	Rows       int `json:"rows"`
	Pods       int `json:"pods"`
	Services   int `json:"services"`
	Operations int `json:"operations"` // unfinished ones, of accounts and of workspaces
}

// Report is the outcome of an audit.
type Report struct {
	Findings []Finding `json:"findings"`
	Checked  Checked   `json:"checked"`
}

// Outcome is what is kept of the last audit.
type Outcome struct {
	// CheckedAt is when the findings were found; the zero time = no audit has come to its end yet.
	CheckedAt time.Time
	// Findings are the first ones; Counts has how many there are of each kind.
	Findings []Finding
	Counts   map[Kind]int
	// Error says why the latest audit did not come to its end; empty = it did.
	Error string
}

// Total is the number of findings, those that are not kept included.
func (o Outcome) Total() int {
	total := 0
	for _, count := range o.Counts {
		total += count
	}
	return total
}

// Compare lists what does not fit together, ordered by kind, object and detail.
func Compare(in Input) Report {
	c := newComparison(in)
	c.unreadable()
	if c.has(PartLedger) && !in.Fresh {
		c.accounts()
		c.numbers()
		c.groups()
		c.homes()
	}
	c.workspaces()
	c.unfinished()
	findings := append([]Finding{}, c.findings...) // a list in JSON also when it is empty
	slices.SortStableFunc(findings, byKind)
	return Report{Findings: findings, Checked: Checked{
		Accounts: len(in.Accounts), Groups: len(in.Groups), Homes: len(in.Homes), Rows: len(in.Rows),
		Pods: len(in.Pods), Services: len(in.Services), Operations: len(in.Operations) + len(in.Entries),
	}}
}

// Confirm keeps of the second report what the first one found too: the parts cannot be read at one
// instant, and what only one reading saw was in the making.
func Confirm(first, second Report) Report {
	seen := make(map[Finding]bool, len(first.Findings))
	for _, f := range first.Findings {
		seen[f.identity()] = true
	}
	second.Findings = slices.DeleteFunc(slices.Clone(second.Findings), func(f Finding) bool { return !seen[f.identity()] })
	return second
}

func byKind(a, b Finding) int {
	return cmp.Or(
		cmp.Compare(slices.Index(order, a.Kind), slices.Index(order, b.Kind)),
		cmp.Compare(a.Object, b.Object), cmp.Compare(a.Detail, b.Detail))
}
