// Package load measures: it sends calls in a closed loop (so many clients, each with one call at a
// time) or an open one (calls at fixed times, whether earlier ones have ended or not), and tells
// times, rates and outcomes. It also reads what a process uses, counts the calls that pass a proxy,
// and prints figures beside their targets.
package load

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Call does the i-th call, counted from 0, and returns its status. An error means that there was no
// answer.
type Call func(ctx context.Context, i int) (status int, err error)

// Result is the outcome of a run.
type Result struct {
	// Took is the time from the first call's beginning to the last one's end.
	Took time.Duration
	// Times are those of all calls that had an answer, ascending. In an open loop they count from when
	// the call was due, so that a slow answer also shows in the calls that it delays.
	Times []time.Duration
	// Codes counts the calls by status; "no answer" counts those without one.
	Codes map[string]int
	// Example has, for each code, what the first such call's error said; statuses without error have none.
	Example map[string]string
}

// NoAnswer is the code of a call that had none.
const NoAnswer = "no answer"

// Calls counts all calls.
func (r Result) Calls() int {
	n := 0
	for _, count := range r.Codes {
		n += count
	}
	return n
}

// Count counts the calls with this status.
func (r Result) Count(status int) int { return r.Codes[strconv.Itoa(status)] }

// Rate is the number of calls with this status in a second.
func (r Result) Rate(status int) float64 {
	if r.Took <= 0 {
		return 0
	}
	return float64(r.Count(status)) / r.Took.Seconds()
}

// Quantile is the time within which this part (0 to 1) of the calls had their answers, by nearest
// rank; 0 if none had one.
func (r Result) Quantile(q float64) time.Duration {
	if len(r.Times) == 0 {
		return 0
	}
	rank := int(math.Ceil(q * float64(len(r.Times))))
	return r.Times[min(max(rank, 1), len(r.Times))-1]
}

// Unexpected describes all calls whose status is not among those wanted; empty = none.
func (r Result) Unexpected(wanted ...int) string {
	var lines []string
	for _, code := range slices.Sorted(maps.Keys(r.Codes)) {
		status, err := strconv.Atoi(code)
		if err == nil && slices.Contains(wanted, status) {
			continue
		}
		line := fmt.Sprintf("%d x %s", r.Codes[code], code)
		if text := r.Example[code]; text != "" {
			line += " (" + text + ")"
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "; ")
}

// String is a line with rate, quantiles and codes.
func (r Result) String() string {
	var codes []string
	for _, code := range slices.Sorted(maps.Keys(r.Codes)) {
		codes = append(codes, fmt.Sprintf("%s: %d", code, r.Codes[code]))
	}
	short := func(q float64) time.Duration { return r.Quantile(q).Round(10 * time.Microsecond) }
	return fmt.Sprintf("%d calls in %v, p50 %v, p90 %v, p99 %v, max %v; %s",
		r.Calls(), r.Took.Round(time.Millisecond), short(0.5), short(0.9), short(0.99), short(1), strings.Join(codes, ", "))
}

// recorder collects the outcomes of calls that run at once.
type recorder struct {
	mu     sync.Mutex
	result Result
}

func newRecorder() *recorder {
	return &recorder{result: Result{Codes: map[string]int{}, Example: map[string]string{}}}
}

func (r *recorder) run(ctx context.Context, i int, due time.Time, do Call) {
	status, err := do(ctx, i)
	took := time.Since(due)
	r.mu.Lock()
	defer r.mu.Unlock()
	code := NoAnswer
	if status != 0 {
		code = strconv.Itoa(status)
		r.result.Times = append(r.result.Times, took)
	}
	r.result.Codes[code]++
	if err != nil && r.result.Example[code] == "" {
		r.result.Example[code] = err.Error()
	}
}

func (r *recorder) end(begin time.Time) Result {
	r.result.Took = time.Since(begin)
	slices.Sort(r.result.Times)
	return r.result
}

// Closed has clients do calls in total, each client one at a time. It ends early with ctx.
func Closed(ctx context.Context, clients, calls int, do Call) Result {
	recorder := newRecorder()
	var next atomic.Int64
	var all sync.WaitGroup
	begin := time.Now()
	for range clients {
		all.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= calls {
					return
				}
				recorder.run(ctx, i, time.Now(), do)
			}
		})
	}
	all.Wait()
	return recorder.end(begin)
}

// Open begins so many calls a second for the given time and waits for their ends. It begins no
// further ones after ctx has ended.
func Open(ctx context.Context, perSecond float64, length time.Duration, do Call) Result {
	recorder := newRecorder()
	var all sync.WaitGroup
	begin := time.Now()
	calls := int(perSecond * length.Seconds())
	for i := range calls {
		due := begin.Add(time.Duration(float64(i) / perSecond * float64(time.Second)))
		if !until(ctx, due) {
			break
		}
		all.Go(func() { recorder.run(ctx, i, due, do) })
	}
	all.Wait()
	return recorder.end(begin)
}

// until waits for a time; it reports false if ctx ended first.
func until(ctx context.Context, at time.Time) bool {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Median is the middle of the values; of an even number of them the higher one of the two.
func Median[T ~int64 | ~float64](values []T) T {
	if len(values) == 0 {
		var zero T
		return zero
	}
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	return sorted[len(sorted)/2]
}
