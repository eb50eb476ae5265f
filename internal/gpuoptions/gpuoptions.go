// Package gpuoptions finds out what GPUs a workspace can ask for: what PodTemplates of the namespace
// offer, else what the cluster's nodes and DRA DeviceClasses have, else what quotas grant, else what
// the service's own node has. docs/gpu.md has the rules and names the test of each.
//
// The rules are pure functions of API objects. The Scanner reads the objects, anew or from a short
// memory as the rules say, and never fails a listing for a right that is missing.
package gpuoptions

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"config-server/internal/farm"
)

// unknown is a count that nobody could make.
const unknown = -1

// Reader reads the objects that GPU options are made of, each time from the API server. Errors
// carry a *farm.APIError where it answered; farm.IsForbidden tells a missing right.
type Reader interface {
	// PodTemplates lists those of the namespace that bear a label with this key.
	PodTemplates(ctx context.Context, label string) ([]corev1.PodTemplate, error)
	// ResourceQuotas lists those of the namespace.
	ResourceQuotas(ctx context.Context) ([]corev1.ResourceQuota, error)
	// NodeResources lists the cluster's nodes with labels, spec and allocatable.
	NodeResources(ctx context.Context) ([]corev1.Node, error)
	// DeviceClasses lists DRA's; none on an API server that does not have them.
	DeviceClasses(ctx context.Context) ([]resourcev1.DeviceClass, error)
	// BoundPods lists the pods that have a node and have not ended, with what they ask for: those of
	// all namespaces, or of the namespace alone.
	BoundPods(ctx context.Context, everywhere bool) ([]corev1.Pod, error)
}

// Mode says what is offered.
type Mode string

// The modes.
const (
	Auto      Mode = "auto"      // PodTemplates, and without them what is detected
	Templates Mode = "templates" // PodTemplates alone
	Off       Mode = "off"       // nothing
)

// Defaults of Options.
const (
	DefaultLabel    = "ailab/gpu"
	DefaultInterval = 10 * time.Second
	// ListLimit bounds the listing of PodTemplates.
	ListLimit = 5 * time.Second
	// ScanLimit bounds a scan, and a count of what pods use.
	ScanLimit = 15 * time.Second
)

// Options of a Scanner. Reader is needed.
type Options struct {
	Reader Reader
	Mode   Mode // empty = Auto
	// Label is the key of the label that makes a PodTemplate an option; DefaultLabel.
	Label string
	// Interval is how long a scan serves; DefaultInterval.
	Interval time.Duration
	// Root is the folder below which the own node's /sys and /proc are; "/".
	Root string
	// Shape tells what quotas ask of workspaces, as the session's template makes them; nil = they have
	// neither a PriorityClass nor a deadline.
	Shape func(ctx context.Context) (Shape, error)
	Now   func() time.Time // nil = time.Now
	Log   *slog.Logger     // nil = discarded
}

// Scanner knows the GPU options of one namespace. It is safe for concurrent use.
type Scanner struct {
	opts Options

	// turn is taken by whoever reads the cluster; the others wait for what it finds. It guards the next
	// three.
	turn    chan struct{}
	scanned *facts    // the last that succeeded; nil = none yet
	tried   time.Time // when the last began, if it succeeded or not
	counted counts

	mu        sync.Mutex
	templates listing // the last that succeeded
	seen      *facts  // of the last scan
	seenPods  counts
	told      map[string]bool // log lines about missing rights, each of which is written once
}

// listing are the PodTemplates as one call gave them.
type listing struct {
	began     time.Time // zero = never
	templates []corev1.PodTemplate
}

// facts are what a scan has read. A slice that could not be read for want of a right is nil.
type facts struct {
	quotas  []corev1.ResourceQuota
	mayList bool // nodes
	nodes   []corev1.Node
	classes []resourcev1.DeviceClass
	own     []farm.GPUOption // of the own node; looked for where nodes may not be listed
}

// counts are what bound pods use.
type counts struct {
	at      time.Time // when the count began; zero = never
	used    usage
	partial bool  // of this namespace only
	err     error // nobody knows
}

// New returns a Scanner that has read nothing yet.
func New(opts Options) *Scanner {
	opts.Mode = cmp.Or(opts.Mode, Auto)
	opts.Label = cmp.Or(opts.Label, DefaultLabel)
	opts.Interval = cmp.Or(opts.Interval, DefaultInterval)
	opts.Root = cmp.Or(opts.Root, "/")
	if opts.Shape == nil {
		opts.Shape = func(context.Context) (Shape, error) { return Shape{}, nil }
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	return &Scanner{opts: opts, turn: make(chan struct{}, 1), told: map[string]bool{}}
}

// List tells what can be asked for now, sorted by ID, with what could not be found out. Missing
// rights are no error. The error says that nothing is known yet: the API server did not answer, and
// nothing was offered before.
func (s *Scanner) List(ctx context.Context) (farm.GPUOffer, error) {
	view, err := s.look(ctx, s.opts.Interval)
	if err != nil {
		return farm.GPUOffer{}, fmt.Errorf("list GPU options: %w", err)
	}
	offer := farm.GPUOffer{Warnings: view.warnings}
	for _, choice := range view.choices {
		offer.Options = append(offer.Options, choice.GPUOption)
	}
	return offer, nil
}

// Choose finds an option by its ID, with what each node has of it at this moment. The error wraps
// farm.ErrNotFound and names the options if there is no such one; every other error is one of List.
func (s *Scanner) Choose(ctx context.Context, id string) (farm.GPUChoice, error) {
	view, err := s.look(ctx, 0)
	if err != nil {
		return farm.GPUChoice{}, fmt.Errorf("find GPU option %q: %w", id, err)
	}
	names := make([]string, 0, len(view.choices))
	for _, choice := range view.choices {
		if choice.ID == id {
			return choice, nil
		}
		names = append(names, choice.ID)
	}
	return farm.GPUChoice{}, fmt.Errorf("GPU option %q: %w: %s", farm.CutText(id, 400), farm.ErrNotFound, s.instead(names))
}

// instead says what could be asked for.
func (s *Scanner) instead(names []string) string {
	switch {
	case s.opts.Mode == Off:
		return "the service offers no GPU options (GPU_DISCOVERY is off)"
	case len(names) == 0:
		return "there are no GPU options"
	}
	return "the options are " + strings.Join(names, ", ")
}

// Census counts the GPUs of the nodes by resource and model, sorted, each device once. What it tells may
// be maxAge old, or as old as a scan may be. It is empty where nodes or pods may not be listed.
func (s *Scanner) Census(ctx context.Context, maxAge time.Duration) ([]farm.GPUCount, error) {
	if s.opts.Mode == Off {
		return nil, nil
	}
	maxAge = max(maxAge, s.opts.Interval)
	found, used, err := s.scan(ctx, maxAge, maxAge)
	if err != nil {
		return nil, err
	}
	return censusOf(found, used), nil
}

// Known is Census without asking anybody: what the last look has found; none if that is older than maxAge.
func (s *Scanner) Known(maxAge time.Duration) []farm.GPUCount {
	s.mu.Lock()
	found, used := s.seen, s.seenPods
	s.mu.Unlock()
	if found == nil || s.opts.Now().Sub(used.at) > maxAge {
		return nil
	}
	return censusOf(found, used)
}

func censusOf(found *facts, used counts) []farm.GPUCount {
	if used.err != nil {
		return nil
	}
	var list []farm.GPUCount
	for what, there := range countNodes(found.nodes, used.used) {
		list = append(list, farm.GPUCount{Resource: what.resource, Model: what.model, GPURoom: there})
	}
	slices.SortFunc(list, func(a, b farm.GPUCount) int {
		return cmp.Or(strings.Compare(a.Resource, b.Resource), strings.Compare(a.Model, b.Model))
	})
	return list
}

// view is what is offered at one moment.
type view struct {
	choices  []farm.GPUChoice
	warnings []string
}

// look reads the PodTemplates anew, and scans if there are none. Counts are at most maxAge old.
func (s *Scanner) look(ctx context.Context, maxAge time.Duration) (view, error) {
	if s.opts.Mode == Off {
		return view{}, nil
	}
	templates, warnings, err := s.listTemplates(ctx)
	if err != nil {
		return view{}, err
	}
	if len(templates) == 0 && s.opts.Mode == Templates {
		return view{warnings: warnings}, nil
	}
	found, used, err := s.scan(ctx, s.opts.Interval, maxAge)
	if err != nil {
		if len(templates) == 0 {
			return view{}, err
		}
		// The templates are the options all the same.
		s.opts.Log.WarnContext(ctx, "the GPUs of GPU options cannot be counted", "error", err)
		warnings = append(warnings, fmt.Sprintf("free and total are not known: %v", err))
		found = new(facts)
	}
	shape, err := s.opts.Shape(ctx)
	if err != nil {
		return view{}, fmt.Errorf("read the session template: %w", err)
	}
	v := view{warnings: warnings}
	if len(templates) > 0 {
		v.choices = s.templateChoices(templates, found, used, shape)
	} else {
		v.choices = detectedChoices(found, used, shape)
	}
	if slices.ContainsFunc(v.choices, func(c farm.GPUChoice) bool { return len(c.Rooms) > 0 }) {
		v.warnings = append(v.warnings, used.warning()...)
	}
	return v, nil
}

// warning says what is to be known of what is free.
func (c counts) warning() []string {
	switch {
	case c.err != nil:
		return []string{fmt.Sprintf("free is not known: %v", c.err)}
	case c.partial:
		return []string{"free counts the pods of this namespace only: listing pods of all namespaces is not allowed"}
	}
	return nil
}

// listTemplates lists the templates, or returns what the last listing that succeeded gave: an API
// server that is slow must not put scanned GPUs in the place of templates, nor the other way round.
// Who may not list has none.
func (s *Scanner) listTemplates(ctx context.Context) ([]corev1.PodTemplate, []string, error) {
	began := s.opts.Now()
	limited, cancel := context.WithTimeout(ctx, ListLimit)
	defer cancel()
	found, err := s.opts.Reader.PodTemplates(limited, s.opts.Label)
	if farm.IsForbidden(err) {
		s.once(ctx, "PodTemplates may not be listed: no GPU options from them", err)
		found, err = nil, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		if began.After(s.templates.began) || s.templates.began.IsZero() {
			s.templates = listing{began: began, templates: found}
		}
		return found, nil, nil
	}
	if s.templates.began.IsZero() || ctx.Err() != nil {
		return nil, nil, err
	}
	s.opts.Log.WarnContext(ctx, "PodTemplates cannot be listed, the GPU options stay as they were", "error", err)
	return s.templates.templates, []string{fmt.Sprintf("the options are those of an earlier listing: %v", err)}, nil
}

// once logs a missing right the first time that it is felt.
func (s *Scanner) once(ctx context.Context, text string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.told[text] {
		s.told[text] = true
		s.opts.Log.WarnContext(ctx, text, "error", err)
	}
}

// templateChoices are the templates' options, without those that ask for a resource that a quota caps at zero.
func (s *Scanner) templateChoices(templates []corev1.PodTemplate, found *facts, used counts, shape Shape) []farm.GPUChoice {
	var choices []farm.GPUChoice
	for i := range templates {
		spec := templates[i].Template.Spec
		option, asked := templateOption(&templates[i], s.opts.Label)
		if cappedAny(allowance(found.quotas, shape.under(spec)), asked) {
			continue
		}
		choice := farm.GPUChoice{GPUOption: option, Asks: asked[option.Resource]}
		if found.mayList {
			choice.Rooms = templateRooms(option, spec, found.nodes, used.used)
			uncount(choice.Rooms, used.err)
		}
		if choice.Rooms != nil && option.Resource != "" {
			choice.Free, choice.Total = sum(choice.Rooms)
		}
		choices = append(choices, choice)
	}
	return sortedChoices(choices)
}

// detectedChoices are the options of nodes and DeviceClasses, or where nodes may not be listed those
// of the quotas, else of the own node; without what a quota caps at zero.
func detectedChoices(found *facts, used counts, shape Shape) []farm.GPUChoice {
	left := allowance(found.quotas, shape)
	var options []farm.GPUOption
	claimed := map[string]bool{} // resources that a DeviceClass has: where their devices are, nodes do not say
	if found.mayList {
		classes := classOptions(found.classes)
		options = sorted(append(scanNodes(found.nodes), classes...))
		for _, option := range classes {
			claimed[option.Resource] = true
		}
	} else if options = quotaOptions(left); len(options) == 0 {
		options = found.own
	}
	var choices []farm.GPUChoice
	for _, option := range options {
		if capped(left, option.Resource) {
			continue
		}
		choice := farm.GPUChoice{GPUOption: option}
		if found.mayList && (!claimed[option.Resource] || option.Model != "") {
			choice.Rooms = roomsOf(option, found.nodes, used.used)
			uncount(choice.Rooms, used.err)
			choice.Free, choice.Total = sum(choice.Rooms)
		}
		choices = append(choices, choice)
	}
	return choices
}

// uncount takes back what is free where nobody knows what pods use.
func uncount(rooms map[farm.NodeName]farm.GPURoom, err error) {
	if err == nil {
		return
	}
	for name, r := range rooms {
		r.Free = unknown
		rooms[name] = r
	}
}

func sortedChoices(choices []farm.GPUChoice) []farm.GPUChoice {
	slices.SortFunc(choices, func(a, b farm.GPUChoice) int { return strings.Compare(a.ID, b.ID) })
	return choices
}

// scan returns the facts of a scan that is at most scanAge old, and counts that are at most countAge old.
// Of callers at the same time one reads and the others take what it found. If the cluster cannot be
// read, for another reason than a missing right, the last facts serve on; the error says that there
// are none.
func (s *Scanner) scan(ctx context.Context, scanAge, countAge time.Duration) (*facts, counts, error) {
	asked := s.opts.Now()
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return nil, counts{}, fmt.Errorf("wait for a scan of the cluster: %w", context.Cause(ctx))
	}
	limited, cancel := context.WithTimeout(ctx, ScanLimit)
	defer cancel()
	now := s.opts.Now()
	if s.scanned == nil || now.Sub(s.tried) >= scanAge {
		found, err := s.read(limited)
		switch {
		case err == nil:
			s.scanned, s.tried = found, now
		case s.scanned == nil || ctx.Err() != nil:
			return nil, counts{}, err
		default:
			s.tried = now // the next caller need not run into the same at once
			s.opts.Log.WarnContext(ctx, "the cluster cannot be scanned for GPUs, the last scan serves on", "error", err)
		}
	}
	// A count that began after this call is as good as one of its own.
	if at := s.counted.at; at.IsZero() || at.Before(asked) && now.Sub(at) >= countAge {
		s.counted = s.countPods(limited, s.scanned)
		s.counted.at = now
	}
	s.mu.Lock()
	s.seen, s.seenPods = s.scanned, s.counted
	s.mu.Unlock()
	return s.scanned, s.counted, nil
}

// read makes a scan.
func (s *Scanner) read(ctx context.Context) (*facts, error) {
	found := new(facts)
	quotas, err := s.opts.Reader.ResourceQuotas(ctx)
	switch {
	case farm.IsForbidden(err):
		s.once(ctx, "ResourceQuotas may not be listed: GPU options know none", err)
	case err != nil:
		return nil, err
	}
	found.quotas = quotas
	nodes, err := s.opts.Reader.NodeResources(ctx)
	switch {
	case farm.IsForbidden(err):
		s.once(ctx, "nodes may not be listed: GPU options come from quotas, else from the own node", err)
		found.own = ownNode(s.opts.Root)
		return found, nil
	case err != nil:
		return nil, err
	}
	found.nodes, found.mayList = nodes, true
	classes, err := s.opts.Reader.DeviceClasses(ctx)
	switch {
	case farm.IsForbidden(err):
		s.once(ctx, "DeviceClasses may not be listed: no GPU options from them", err)
	case err != nil:
		return nil, err
	}
	found.classes = classes
	return found, nil
}

// countPods counts what pods use, if there is anything to count; those of the namespace alone where
// the others may not be listed.
func (s *Scanner) countPods(ctx context.Context, found *facts) counts {
	if !slices.ContainsFunc(found.nodes, func(node corev1.Node) bool { return len(gpusIn(node.Status.Allocatable)) > 0 }) {
		return counts{}
	}
	pods, err := s.opts.Reader.BoundPods(ctx, true)
	partial := farm.IsForbidden(err)
	if partial {
		s.once(ctx, "pods of all namespaces may not be listed: free GPUs count this namespace only", err)
		pods, err = s.opts.Reader.BoundPods(ctx, false)
	}
	if err != nil {
		s.opts.Log.WarnContext(ctx, "pods cannot be listed: free GPUs are not known", "error", err)
		return counts{err: err}
	}
	return counts{used: usageOf(pods), partial: partial}
}
