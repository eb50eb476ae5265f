package ledger

import (
	"strings"
	"sync"

	"config-server/internal/farm"
)

// IDKind says whether a number was a user's or a group's.
type IDKind string

// The kinds of number.
const (
	UID IDKind = "uid"
	GID IDKind = "gid"
)

// Retirement is a line of the retired file, kind:number:name: a number that was given once and is
// given to nobody else again.
type Retirement struct {
	Kind IDKind
	ID   farm.ID
	Name string
}

func (r Retirement) String() string { return string(r.Kind) + ":" + formatID(r.ID) + ":" + r.Name }

// retirements is the retired file, parsed.
type retirements struct {
	text string
	byID map[farm.ID][]Retirement
	// highest numbers ever retired inside the band; zero = none
	highestUID, highestGID farm.ID
}

func indexRetired(text string) *retirements {
	r := &retirements{text: text, byID: map[farm.ID][]Retirement{}}
	for line := range lines(text) {
		var field [3]string
		if !split(line, field[:]) {
			continue
		}
		id, ok := parseID(field[1])
		kind := IDKind(field[0])
		if !ok || kind != UID && kind != GID {
			continue
		}
		r.byID[id] = append(r.byID[id], Retirement{Kind: kind, ID: id, Name: field[2]})
		switch {
		case !id.InBand():
		case kind == UID:
			r.highestUID = max(r.highestUID, id)
		default:
			r.highestGID = max(r.highestGID, id)
		}
	}
	return r
}

// with returns the file's text with one more line, unless it has that line.
func (r *retirements) with(text string, retirement Retirement) string {
	line := retirement.String()
	if strings.HasPrefix(text, line+"\n") || strings.Contains(text, "\n"+line+"\n") {
		return text
	}
	return appendLine(text, line)
}

// retiredCache is the retired file as last read. The ledger's lock guards the file, mu the memory.
type retiredCache struct {
	mu      sync.Mutex
	id      identity
	settled bool // as in cache, when it was read
	index   *retirements
}

// loadRetired reads the retired file if it changed since it was read last.
func (l *Ledger) loadRetired() (*retirements, identity, error) {
	l.retired.mu.Lock()
	defer l.retired.mu.Unlock()
	id, err := l.openedIdentity(retiredFile)
	if err != nil {
		return nil, id, err
	}
	if l.retired.index != nil && l.retired.settled && l.retired.id == id {
		return l.retired.index, id, nil
	}
	text, id, err := l.readFile(retiredFile)
	if err != nil {
		return nil, id, err
	}
	if l.retired.index == nil || l.retired.index.text != text {
		l.retired.index = indexRetired(text)
	}
	l.retired.id, l.retired.settled = id, l.isSettled(id)
	return l.retired.index, id, nil
}
