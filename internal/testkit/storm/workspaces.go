package storm

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"

	"config-server/internal/testkit/history"
)

// workspaces has what the answers promise of workspaces.
type workspaces struct {
	mu      sync.Mutex
	byName  map[string]*pod
	names   []string          // of all that were ever given
	holders map[int]*pod      // whom each port was given to last
	of      map[string]*tally // by user
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

// give notes a new workspace and its ports, which nobody else may hold.
func (s *Storm) give(user, podName string, ports portsAnswer, r reply) {
	s.pods.mu.Lock()
	defer s.pods.mu.Unlock()
	p := &pod{name: podName, user: user, given: r.end}
	if _, twice := s.pods.byName[podName]; twice || !strings.HasPrefix(podName, "ailab-"+user+"-") || len(ports) < 2 {
		s.violate("workspace %s of %s: %s", podName, user, r.Body)
	}
	for _, port := range ports {
		p.ports = append(p.ports, port.External)
		if other := s.pods.holders[port.External]; other != nil && other.certain() {
			s.violate("port %d was given to %s while %s has it", port.External, podName, other.name)
		}
		s.pods.holders[port.External] = p
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

// untouchedByOthers finds a workspace that stood from before the call to its end, apart from what the
// call itself, which has touched it once, may have done.
func (s *Storm) untouchedByOthers(pods []*pod, r reply) *pod {
	s.pods.mu.Lock()
	defer s.pods.mu.Unlock()
	for _, p := range pods {
		if p.touched == 1 && !p.gone && p.given < r.begin {
			return p
		}
	}
	return nil
}

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
		s.give(user, said.Pod, said.Ports, r)
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
		if stood := s.untouchedByOthers([]*pod{p}, r); stood != nil {
			s.violate("delete-pod %s: it was not there, and nobody had taken it away", p.name)
		}
		s.tookAway(p)
	default:
		s.pods.mu.Lock()
		twice := p.gone
		s.pods.mu.Unlock()
		// Two crossing calls may both have seen it; then one of them ended before the other's answer.
		if twice && p.touched == 1 {
			s.violate("delete-pod %s: it was there again", p.name)
		}
		s.tookAway(p)
		s.add(p.user, -1, -1)
	}
}

func (s *Storm) tookAway(p *pod) {
	s.pods.mu.Lock()
	defer s.pods.mu.Unlock()
	p.gone = true
}

// nodes are those between which workspaces move.
const nodes = `["farm5","farm6","FARM7","farm8"]`

func (s *Storm) migrate(ctx context.Context, random *rand.Rand, user string) {
	s.pods.mu.Lock()
	var before []*pod
	for _, p := range s.pods.byName {
		if p.user == user && !p.gone {
			before = append(before, p)
		}
	}
	s.pods.mu.Unlock()
	untouch := s.touch(before...)
	r := s.send(ctx, random, "migrate", http.MethodPost, "/migrate", fmt.Sprintf(`{"username":%q,"nodes":%s}`, user, nodes))
	s.expect("migrate "+user, r, 200, 400, 404)
	switch {
	case r.unknown():
	case r.nothing:
		untouch()
	case r.Status == 200 && r.Text("status") == "migrated":
		var said struct {
			Pod      string `json:"new_pod"`
			From, To string
			Ports    portsAnswer
		}
		s.read(r, &said)
		s.count("workspaces: moved by migrate")
		s.give(user, said.Pod, said.Ports, r)
		s.record(user, r, history.Call{Kind: history.Present})
	case r.Status == 200 && r.Text("status") == "skipped":
		untouch()
	case r.Status == 404 && strings.Contains(string(r.Body), "no running pod"):
		if stood := s.untouchedByOthers(before, r); stood != nil {
			s.violate("migrate %s: no running pod, but %s was given and nobody took it away", user, stood.name)
		}
		untouch()
	case r.Status == 400 && strings.Contains(string(r.Body), "not found in passwd"):
		s.record(user, r, history.Call{Kind: history.Absent})
		untouch()
	default:
		s.violate("migrate %s: %d %s", user, r.Status, r.Body)
	}
}
