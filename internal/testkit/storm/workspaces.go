package storm

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"config-server/internal/testkit/history"
)

// workspaces has what the answers promise of workspaces.
type workspaces struct {
	mu      sync.Mutex
	byName  map[string]*pod
	names   []string          // of all that were ever given
	holders map[int]*pod      // whom each port was given to last
	of      map[string]*tally // by user
	moves   map[string][]*move
}

// move is a call of migrate. It may take away any workspace that its user has before it ends, also
// one of which nobody was told yet when it began.
type move struct {
	pods []*pod
	// until is when it can no longer take anything away; zero = it is under way.
	until time.Time
	// nothing: it has ended, and took nothing away.
	nothing bool
}

// pod is a workspace that a caller was told of.
type pod struct {
	name, user string
	ports      []int
	given      int64 // when the answer came
	// touched counts the calls that have begun to take it away and may have done so.
	touched int
	gone    bool // a caller was told so
}

// certain: it was given, and nobody has begun to take it away.
func (p *pod) certain() bool { return p.touched == 0 && !p.gone }

// tally bounds how many workspaces a user has in the end.
type tally struct{ least, most int }

type portsAnswer []struct {
	External int    `json:"external_port"`
	Internal int    `json:"internal_port"`
	Purpose  string `json:"usage_purpose"`
}

// give notes a new workspace, made by a migration or (nil) a creation, and its ports, which nobody
// else may hold.
func (s *Storm) give(user, podName string, ports portsAnswer, r reply, by *move) {
	s.pods.mu.Lock()
	defer s.pods.mu.Unlock()
	p := &pod{name: podName, user: user, given: r.end}
	if _, twice := s.pods.byName[podName]; twice || !strings.HasPrefix(podName, "ailab-"+user+"-") || len(ports) < 2 {
		s.violate("workspace %s of %s: %s", podName, user, r.Body)
	}
	for _, m := range s.pods.moves[user] {
		if m != by && (m.until.IsZero() || m.until.After(r.from) && !m.nothing) {
			p.touched++
			m.pods = append(m.pods, p)
		}
	}
	for _, port := range ports {
		p.ports = append(p.ports, port.External)
		other := s.pods.holders[port.External]
		switch {
		case other == nil || !other.certain():
			s.pods.holders[port.External] = p
		case p.certain():
			s.violate("port %d was given to %s while %s has it", port.External, podName, other.name)
		}
	}
	s.pods.byName[podName] = p
	s.pods.names = append(s.pods.names, podName)
}

// add changes the bounds of a user's workspaces.
func (s *Storm) add(user string, least, most int) {
	s.pods.mu.Lock()
	defer s.pods.mu.Unlock()
	t := s.pods.of[user]
	t.least += least
	t.most += most
}

// touch notes that a call begins to take workspaces away; untouch that it did not.
func (s *Storm) touch(pods ...*pod) (untouch func()) {
	s.pods.mu.Lock()
	defer s.pods.mu.Unlock()
	for _, p := range pods {
		p.touched++
	}
	return func() {
		s.pods.mu.Lock()
		defer s.pods.mu.Unlock()
		for _, p := range pods {
			p.touched--
		}
	}
}

// stood tells whether a workspace stood from before the call to its end, apart from what the call
// itself, which has touched it once, may have done. The caller holds the mutex.
func (p *pod) stood(r reply) bool { return p.touched == 1 && !p.gone && p.given < r.begin }

func (s *Storm) createPod(ctx context.Context, random *rand.Rand, user string) {
	if s.pods.count() >= s.opts.MaxPods {
		s.deletePod(ctx, random)
		return
	}
	r := s.send(ctx, random, "create-pod", http.MethodPost, "/create-pod", fmt.Sprintf(`{"username":%q}`, user))
	s.expect("create-pod "+user, r, 201, 400)
	switch {
	case r.unknown():
		s.add(user, 0, 1)
	case r.nothing:
	case r.Status == 201:
		var said struct {
			Pod   string `json:"pod_name"`
			Node  string
			Ports portsAnswer
		}
		s.read(r, &said)
		s.give(user, said.Pod, said.Ports, r, nil)
		s.add(user, 1, 1)
		s.record(user, r, history.Call{Kind: history.Present})
	case strings.Contains(string(r.Body), "not found in passwd"):
		s.record(user, r, history.Call{Kind: history.Absent})
	default:
		s.violate("create-pod %s: %d %s", user, r.Status, r.Body)
	}
}

// count tells how many workspaces there are, as far as callers were told.
func (w *workspaces) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, p := range w.byName {
		if !p.gone {
			n++
		}
	}
	return n
}

// pick chooses a workspace, mostly one of the last.
func (w *workspaces) pick(random *rand.Rand) *pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.names) == 0 {
		return nil
	}
	from := 0
	if random.IntN(4) > 0 {
		from = max(0, len(w.names)-60)
	}
	return w.byName[w.names[from+random.IntN(len(w.names)-from)]]
}

func (s *Storm) deletePod(ctx context.Context, random *rand.Rand) {
	p := s.pods.pick(random)
	if p == nil {
		return
	}
	untouch := s.touch(p)
	r := s.send(ctx, random, "delete-pod", http.MethodPost, "/delete-pod", fmt.Sprintf(`{"pod_name":%q}`, p.name))
	s.expect("delete-pod "+p.name, r, 200)
	switch {
	case r.unknown():
		s.add(p.user, -1, 0)
	case r.nothing || r.Status != 200:
		untouch()
	case r.JSON["already_absent"] == true:
		if s.tookAway(p, r) {
			s.violate("delete-pod %s: it was not there, and nobody had taken it away", p.name)
		}
	default:
		s.tookAway(p, r)
		s.add(p.user, -1, -1)
	}
}

// tookAway notes that a caller was told that the workspace is gone, and tells whether it had stood.
func (s *Storm) tookAway(p *pod, r reply) (stood bool) {
	s.pods.mu.Lock()
	defer s.pods.mu.Unlock()
	stood = p.stood(r)
	p.gone = true
	return stood
}

// nodes are those between which workspaces move.
const nodes = `["farm5","farm6","FARM7","farm8"]`

// beginMove notes that a migration may take away what its user has.
func (s *Storm) beginMove(user string) *move {
	s.pods.mu.Lock()
	defer s.pods.mu.Unlock()
	m := &move{}
	for _, p := range s.pods.byName {
		if p.user == user && !p.gone {
			p.touched++
			m.pods = append(m.pods, p)
		}
	}
	s.pods.moves[user] = append(s.pods.moves[user], m)
	return m
}

// straggling is how long a call whose caller has gone may go on.
const straggling = 15 * time.Second

// endMove notes its end, and whether it may have taken anything away.
func (s *Storm) endMove(m *move, r reply, moved bool) {
	s.pods.mu.Lock()
	defer s.pods.mu.Unlock()
	m.until, m.nothing = time.Now(), !moved
	if r.unknown() {
		m.until = m.until.Add(straggling)
	}
	if moved {
		return
	}
	for _, p := range m.pods {
		p.touched--
	}
}

func (s *Storm) migrate(ctx context.Context, random *rand.Rand, user string) {
	m := s.beginMove(user)
	r := s.send(ctx, random, "migrate", http.MethodPost, "/migrate", fmt.Sprintf(`{"username":%q,"nodes":%s}`, user, nodes))
	s.expect("migrate "+user, r, 200, 400, 404)
	moved := r.unknown() || r.Status == 200 && r.Text("status") == "migrated"
	defer s.endMove(m, r, moved)
	switch {
	case r.nothing || r.unknown():
	case r.Status == 200 && r.Text("status") == "migrated":
		var said struct {
			Pod      string `json:"new_pod"`
			From, To string
			Ports    portsAnswer
		}
		s.read(r, &said)
		s.count("workspaces: moved by migrate")
		s.give(user, said.Pod, said.Ports, r, m)
		s.record(user, r, history.Call{Kind: history.Present})
	case r.Status == 200 && r.Text("status") == "skipped":
	case r.Status == 404 && strings.Contains(string(r.Body), "no running pod"):
		s.pods.mu.Lock()
		i := slices.IndexFunc(m.pods, func(p *pod) bool { return p.stood(r) })
		if i >= 0 {
			s.violate("migrate %s: no running pod, but %s was given and nobody took it away", user, m.pods[i].name)
		}
		s.pods.mu.Unlock()
	case r.Status == 400 && strings.Contains(string(r.Body), "not found in passwd"):
		s.record(user, r, history.Call{Kind: history.Absent})
	default:
		s.violate("migrate %s: %d %s", user, r.Status, r.Body)
	}
}
