package history_test

import (
	"errors"
	"testing"

	"config-server/internal/testkit/history"
)

// at makes a call that lasts from begin to end.
func at(begin, end int64, c history.Call) history.Call {
	c.Begin, c.End = begin, end
	return c
}

var (
	made    = history.Call{Kind: history.Put, Number: 1, Label: "PUT 201"}
	again   = history.Call{Kind: history.Put, Number: 2, Label: "PUT 201"}
	exists  = history.Call{Kind: history.Present, Label: "PUT 409"}
	one     = history.Call{Kind: history.Present, Number: 1, Exact: true, Label: "GET 200"}
	two     = history.Call{Kind: history.Present, Number: 2, Exact: true, Label: "GET 200"}
	none    = history.Call{Kind: history.Absent, Label: "GET 404"}
	gone    = history.Call{Kind: history.Delete, Label: "DELETE 200"}
	rest    = history.Call{Kind: history.Delete, Rest: true, Label: "DELETE 200"}
	join    = history.Call{Kind: history.Join, Marks: 2, Label: "JOIN 200"}
	joined  = history.Call{Kind: history.Present, Number: 1, Exact: true, Marks: 2, Label: "GET 200"}
	perhaps = history.Call{Kind: history.Put, Unknown: true, Label: "PUT broken"}
	maybe   = history.Call{Kind: history.Delete, Unknown: true, Label: "DELETE broken"}
)

func TestAnswersThatAnOrderExplains(t *testing.T) {
	t.Parallel()
	for name, calls := range map[string][]history.Call{
		"one after the other":               {at(1, 2, made), at(3, 4, one), at(5, 6, exists), at(7, 8, gone), at(9, 10, none), at(11, 12, again)},
		"a read beside a creation sees one": {at(1, 6, made), at(2, 3, none), at(4, 5, one)},
		"crossing creations and a deletion": {at(1, 10, made), at(2, 11, again), at(3, 12, gone)},
		"what is read before it is told":    {at(1, 10, made), at(2, 3, one), at(4, 9, gone), at(5, 6, one), at(7, 8, none)},
		"an unknown creation happened":      {at(1, 0, perhaps), at(2, 3, none), at(4, 5, one), at(6, 7, one)},
		"an unknown creation did not":       {at(1, 0, perhaps), at(2, 3, again), at(4, 5, two)},
		"an unknown deletion in the middle": {at(1, 2, made), at(3, 0, maybe), at(4, 5, one), at(6, 7, again), at(8, 9, two)},
		"a deletion finishes another":       {at(1, 2, made), at(3, 0, maybe), at(4, 5, none), at(6, 7, gone), at(8, 9, none)},
		"a deletion that left something":    {at(1, 2, made), at(3, 4, rest), at(5, 6, gone), at(7, 8, none)},
		"marks are added":                   {at(1, 2, made), at(3, 4, join), at(5, 6, joined)},
		"a broken creation seen by a read":  {at(1, 0, perhaps), at(2, 9, one), at(3, 4, gone), at(5, 6, made)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := history.Check(calls); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestAnswersThatNoOrderExplains(t *testing.T) {
	t.Parallel()
	for name, calls := range map[string][]history.Call{
		"made twice":                          {at(1, 2, made), at(3, 4, again)},
		"gone without a deletion":             {at(1, 2, made), at(3, 4, none)},
		"gone twice":                          {at(1, 2, made), at(3, 4, gone), at(5, 6, gone)},
		"back again":                          {at(1, 2, made), at(3, 4, gone), at(5, 6, one)},
		"a number changes":                    {at(1, 2, made), at(3, 4, two)},
		"a membership is lost":                {at(1, 2, made), at(3, 4, join), at(5, 6, one)},
		"a membership is inherited":           {at(1, 2, made), at(3, 4, join), at(5, 6, gone), at(7, 8, made), at(9, 10, joined)},
		"a membership from nowhere":           {at(1, 2, made), at(3, 4, joined)},
		"crossing creations, both succeed":    {at(1, 10, made), at(2, 11, again)},
		"reads go back in time":               {at(1, 10, made), at(2, 3, one), at(4, 5, none)},
		"two creations of one unknown call":   {at(1, 0, perhaps), at(2, 3, one), at(4, 5, gone), at(6, 7, one)},
		"an unknown call before it was made":  {at(1, 2, one), at(3, 0, perhaps)},
		"an unknown number is two numbers":    {at(1, 0, perhaps), at(2, 3, one), at(4, 5, two)},
		"a conflict with nobody":              {at(1, 2, exists)},
		"a second deletion of one that ended": {at(1, 2, made), at(3, 4, rest), at(5, 6, gone), at(7, 8, gone)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var wrong *history.WrongAnswer
			if err := history.Check(calls); !errors.As(err, &wrong) {
				t.Errorf("not found: %v", err)
			}
		})
	}
}
