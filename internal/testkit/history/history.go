// Package history judges what many crossing callers were told of one name, an account or a group:
// is there an order of the calls, each between its beginning and its answer, in which all answers are
// right?
//
// The search goes through the calls' beginnings and ends in time and keeps every state in which the
// name may be. A call whose outcome nobody knows (its connection broke, its process was killed, it
// was answered with a failure) may have happened at any time after its beginning, once, or never.
package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Kind says what a call did, or what it saw.
type Kind int

// The kinds of call, named after what their answer says.
const (
	Put     Kind = iota // it was absent and was made
	Delete              // it was there and is gone
	Join                // it is there and has got marks
	Present             // it is there
	Absent              // it is not there
)

func (k Kind) String() string { return [...]string{"put", "delete", "join", "present", "absent"}[k] }

// Marks are up to eight memberships of the name, a bit each.
type Marks uint8

// Call is one call on the name. Begin and End are instants of one clock on which no two events are
// equal.
type Call struct {
	Kind       Kind
	Begin, End int64
	// Unknown says that nobody knows whether the call took effect; End does not count. It is for Put,
	// Delete and Join.
	Unknown bool
	// Number is what Put gave or Present saw; 0 = not told.
	Number int
	// Marks are those that Put and Join gave; or that Present saw, if Exact, and no others.
	Marks Marks
	Exact bool
	// Rest says that something of a deletion may have stayed behind, so that another deletion of the
	// name, absent by then, is answered as one too.
	Rest bool
	// Label names the call in messages.
	Label string
}

// state is one way in which the name may stand.
type state struct {
	number int // 0 = absent, unnamed = there, with a number that nobody was told
	marks  Marks
	rest   bool
}

const unnamed = -1

func (s state) String() string {
	switch {
	case s.number == 0 && s.rest:
		return "absent, with rests"
	case s.number == 0:
		return "absent"
	case s.number == unnamed:
		return fmt.Sprintf("there, marks %03b", s.marks)
	}
	return fmt.Sprintf("there with number %d, marks %03b", s.number, s.marks)
}

// after lists the states that the call may leave; none = its answer is wrong in this state.
func (s state) after(c *Call) []state {
	switch c.Kind {
	case Put:
		if s.number != 0 {
			return nil
		}
		number := c.Number
		if number == 0 {
			number = unnamed
		}
		return []state{{number: number, marks: c.Marks}}
	case Delete:
		if s.number == 0 && !s.rest {
			return nil
		}
		gone := []state{{}}
		if c.Rest || c.Unknown {
			gone = append(gone, state{rest: true})
		}
		return gone
	case Join:
		if s.number == 0 {
			return nil
		}
		s.marks |= c.Marks
		return []state{s}
	case Absent:
		if s.number != 0 {
			return nil
		}
		return []state{s}
	default:
		if s.number == 0 || c.Exact && s.marks != c.Marks {
			return nil
		}
		if c.Number != 0 && s.number == unnamed {
			s.number = c.Number
		}
		if c.Number != 0 && s.number != c.Number {
			return nil
		}
		return []state{s}
	}
}

// reads tells whether the call leaves the state as it is.
func (s state) reads(c *Call) bool {
	next := s.after(c)
	return (c.Kind == Present || c.Kind == Absent) && len(next) == 1 && next[0] == s
}

// classes of unknown calls: those of one class are alike. Delete, then Put and Join by their marks.
const (
	maxMarks = 8 // of the marks that unknown calls give, three bits
	classes  = 1 + 2*maxMarks
)

func class(c *Call) int {
	switch c.Kind {
	case Put:
		return 1 + int(c.Marks)
	case Join:
		return 1 + maxMarks + int(c.Marks)
	}
	return 0
}

// config is one way in which everything until now may have happened.
type config struct {
	state state
	done  uint64          // calls under way, by slot, that have taken effect already
	used  [classes]uint16 // unknown calls that have taken effect
}

// WrongAnswer says that no order explains an answer.
type WrongAnswer struct {
	Call Call
	// May are the states in which the name may have stood before.
	May []string
	// Before are the last calls that ended before it.
	Before []string
}

// Error tells the answer and what may have been true.
func (e *WrongAnswer) Error() string {
	return fmt.Sprintf("%s (%s) cannot be right: the name may have been: %s; before it: %s",
		e.Call.Label, e.Call.Kind, strings.Join(e.May, " | "), strings.Join(e.Before, "; "))
}

// maxConfigs bounds the search. Real histories need some dozens.
const maxConfigs = 200_000

// plenty is the number of alike unknown calls above which they are not counted any more: any of them
// may then take effect as often as it likes. That can only excuse an answer, never accuse one, and it
// keeps a name that many faults hit from having more ways than can be searched.
const plenty = 2

type search struct {
	slots     [64]*Call // known calls under way
	available [classes]uint16
	examples  [classes]*Call
	configs   map[config]bool
	before    []string
}

type event struct {
	at    int64
	call  *Call
	begin bool
}

// Check returns nil if an order explains all calls on a name that was absent at first, else a
// *WrongAnswer; another error says that the calls are not fit to be judged.
func Check(calls []Call) error {
	s := &search{configs: map[config]bool{{}: true}}
	for _, e := range events(calls) {
		var err error
		switch {
		case !e.begin:
			err = s.end(e.call)
		case e.call.Unknown:
			s.available[class(e.call)]++
			s.examples[class(e.call)] = e.call
		default:
			err = s.begin(e.call)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func events(calls []Call) []event {
	var all []event
	for i := range calls {
		all = append(all, event{calls[i].Begin, &calls[i], true})
		if !calls[i].Unknown {
			all = append(all, event{calls[i].End, &calls[i], false})
		}
	}
	slices.SortFunc(all, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	return all
}

func (s *search) begin(call *Call) error {
	slot := slices.Index(s.slots[:], nil)
	if slot < 0 {
		return fmt.Errorf("more than %d calls at once", len(s.slots))
	}
	s.slots[slot] = call
	s.replace(s.configs)
	return nil
}

// end keeps the ways in which the call has taken effect by now with its answer.
func (s *search) end(call *Call) error {
	slot := slices.Index(s.slots[:], call)
	next := map[config]bool{}
	seen := map[config]bool{}
	for c := range s.configs {
		s.explore(c, slot, seen, next)
		if len(seen) > maxConfigs {
			return fmt.Errorf("%s: too many ways to have come here", call.Label)
		}
	}
	s.slots[slot] = nil
	if len(next) == 0 {
		return &WrongAnswer{Call: *call, May: s.states(), Before: slices.Clone(s.before)}
	}
	s.replace(next)
	s.before = append(s.before, call.Label)
	if len(s.before) > 8 {
		s.before = s.before[1:]
	}
	return nil
}

// explore lets calls take effect until the one in slot has.
func (s *search) explore(c config, slot int, seen, next map[config]bool) {
	if seen[c] || len(seen) > maxConfigs {
		return
	}
	seen[c] = true
	if c.done&(1<<slot) != 0 {
		c.done &^= 1 << slot
		next[c] = true
		return
	}
	for i, call := range s.slots {
		if call == nil || c.done&(1<<i) != 0 {
			continue
		}
		for _, after := range c.state.after(call) {
			n := c
			n.state = after
			n.done |= 1 << i
			s.explore(s.withReads(n), slot, seen, next)
		}
	}
	for i, call := range s.examples {
		if call == nil || s.available[i] <= plenty && c.used[i] == s.available[i] {
			continue
		}
		for _, after := range c.state.after(call) {
			n := c
			n.state = after
			if s.available[i] <= plenty {
				n.used[i]++
			}
			s.explore(s.withReads(n), slot, seen, next)
		}
	}
}

// withReads lets all reads that fit take effect, for that costs nothing.
func (s *search) withReads(c config) config {
	for i, call := range s.slots {
		if call != nil && c.done&(1<<i) == 0 && c.state.reads(call) {
			c.done |= 1 << i
		}
	}
	return c
}

// replace takes over configs without those that allow less than another one: who stands where
// another stands and has used up more unknown calls.
func (s *search) replace(configs map[config]bool) {
	type place struct {
		state state
		done  uint64
	}
	best := map[place][]config{}
	for c := range configs {
		c = s.withReads(c)
		at := place{c.state, c.done}
		if slices.ContainsFunc(best[at], func(o config) bool { return noMore(o, c) }) {
			continue
		}
		best[at] = append(slices.DeleteFunc(best[at], func(o config) bool { return noMore(c, o) }), c)
	}
	s.configs = map[config]bool{}
	for _, list := range best {
		for _, c := range list {
			s.configs[c] = true
		}
	}
}

func noMore(a, b config) bool {
	for i := range a.used {
		if a.used[i] > b.used[i] {
			return false
		}
	}
	return true
}

func (s *search) states() []string {
	var texts []string
	for c := range s.configs {
		texts = append(texts, c.state.String())
	}
	slices.Sort(texts)
	return slices.Compact(texts)
}
