package storm

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"

	"config-server/internal/testkit/history"
	"config-server/internal/testkit/world"
)

// The groups of a storm. Teams stay, because keeper is in all of them, so that who is in which can
// be told exactly. Crowds come and go with their members. The anchor lies above them all: groups that
// are made without a number get higher ones.
const (
	keeper     = "keeper"
	teams      = 3
	firstTeam  = 1_000_000
	crowds     = 4
	firstCrowd = 1_000_100
	anchor     = "anchor"
	anchorGID  = 1_100_000
)

func team(i int) string  { return fmt.Sprintf("team%d", i) }
func crowd(i int) string { return fmt.Sprintf("crowd%d", i) }

// name has the calls on one user, or on one group that nobody is in.
type name struct {
	mu    sync.Mutex
	calls []history.Call
	// mayLeaveHome: a deletion said that the home stays, or nobody knows what it said.
	mayLeaveHome bool
}

func (n *name) note(c history.Call) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.calls = append(n.calls, c)
}

// record notes a call of which the answer says what happened.
func (s *Storm) record(who string, r reply, c history.Call) {
	c.Begin, c.End = r.begin, r.end
	c.Label = fmt.Sprintf("%s %d [%d,%d] %d %v", c.Kind, c.Number, r.begin, r.end, r.Status, r.err)
	s.accounts[who].note(c)
}

// maybe notes a call of which nobody knows what happened.
func (s *Storm) maybe(who string, r reply, c history.Call) {
	c.Unknown = true
	s.record(who, r, c)
}

// foundation makes the user and the groups that stay.
func (s *Storm) foundation() {
	s.t.Helper()
	base := s.instances[0].process.URL
	world.Call(s.t, base, "PUT", "/accounts/groups", fmt.Sprintf(`{"name":%q,"gid":%d}`, anchor, anchorGID), 201)
	var supplementary []string
	for i := range teams {
		supplementary = append(supplementary, groupRef(team(i), firstTeam+i))
	}
	world.Call(s.t, base, "PUT", "/accounts/users",
		fmt.Sprintf(`{"name":%q,"passwd_base64":"cGFzc3dvcmQ=","supplementary_groups":[%s]}`, keeper, strings.Join(supplementary, ",")), 201)
}

func groupRef(group string, gid int) string { return fmt.Sprintf(`{"name":%q,"gid":%d}`, group, gid) }

// randomCall makes one call of a random kind on random names.
func (s *Storm) randomCall(ctx context.Context, random *rand.Rand) {
	user := s.users[random.IntN(len(s.users))]
	solo := s.solos[random.IntN(len(s.solos))]
	switch n := random.IntN(100); {
	case n < 20:
		s.putUser(ctx, random, user)
	case n < 29:
		s.deleteUser(ctx, random, user)
	case n < 51:
		s.getUser(ctx, random, user)
	case n < 53:
		s.listUsers(ctx, random)
	case n < 60:
		s.join(ctx, random, user)
	case n < 65:
		s.putSolo(ctx, random, solo)
	case n < 69:
		s.deleteSolo(ctx, random, solo)
	case n < 72:
		s.crowdCall(ctx, random)
	case n < 84:
		s.createPod(ctx, random, user)
	case n < 94:
		s.deletePod(ctx, random)
	default:
		s.migrate(ctx, random, user)
	}
}

func (s *Storm) putUser(ctx context.Context, random *rand.Rand, user string) {
	marks := history.Marks(random.IntN(1 << teams))
	var groups []string
	for i := range teams {
		if marks&(1<<i) != 0 {
			groups = append(groups, groupRef(team(i), firstTeam+i))
		}
	}
	if i := random.IntN(3 * crowds); i < crowds {
		groups = append(groups, groupRef(crowd(i), firstCrowd+i))
	}
	body := fmt.Sprintf(`{"name":%q,"passwd_base64":"cGFzc3dvcmQ=","gecos":"Sturm, 폭풍","supplementary_groups":[%s]}`, user, strings.Join(groups, ","))
	r := s.send(ctx, random, "PUT user", http.MethodPut, "/accounts/users", body)
	s.expect("PUT user "+user, r, 201, 409)
	switch {
	case r.unknown():
		s.maybe(user, r, history.Call{Kind: history.Put, Marks: marks})
	case r.nothing:
	case r.Status == 201:
		var said struct {
			User          struct{ UID, GID int }
			Group         struct{ GID int }
			Supplementary []struct{} `json:"supplementary_groups"`
		}
		s.read(r, &said)
		if said.User.UID == 0 || said.User.UID != said.User.GID || said.User.GID != said.Group.GID || len(said.Supplementary) != len(groups) {
			s.violate("PUT user %s: the answer is not of one piece: %s", user, r.Body)
		}
		s.own(said.User.UID, user, "PUT user")
		s.record(user, r, history.Call{Kind: history.Put, Number: said.User.UID, Marks: marks})
	case r.Status == 409 && !strings.Contains(string(r.Body), "user already exists"):
		s.violate("PUT user %s: %s", user, r.Body)
	case r.Status == 409:
		s.record(user, r, history.Call{Kind: history.Present})
	}
}

func (s *Storm) deleteUser(ctx context.Context, random *rand.Rand, user string) {
	r := s.send(ctx, random, "DELETE user", http.MethodDelete, "/accounts/users/"+user, "")
	s.expect("DELETE user "+user, r, 200, 404)
	if r.unknown() || r.JSON["warnings"] != nil {
		n := s.accounts[user]
		n.mu.Lock()
		n.mayLeaveHome = true
		n.mu.Unlock()
	}
	switch {
	case r.unknown():
		s.maybe(user, r, history.Call{Kind: history.Delete})
	case r.nothing:
	case r.Status == 200:
		s.record(user, r, history.Call{Kind: history.Delete, Rest: s.troubled(r.from, r.to)})
	case r.Status == 404:
		s.record(user, r, history.Call{Kind: history.Absent})
	}
}

// userAnswer is what GET says of a user.
type userAnswer struct {
	User   userLine
	Groups []struct {
		Name, Type string
		GID        int
	}
}

type userLine struct {
	Name, Home, Shell string
	UID, GID          int
}

func (s *Storm) getUser(ctx context.Context, random *rand.Rand, user string) {
	r := s.send(ctx, random, "GET user", http.MethodGet, "/accounts/users/"+user, "")
	s.expect("GET user "+user, r, 200, 404)
	switch {
	case r.err != nil || r.nothing:
	case r.Status == 200:
		var said userAnswer
		s.read(r, &said)
		marks := s.judgeUser(user, said)
		s.own(said.User.UID, user, "GET user")
		s.record(user, r, history.Call{Kind: history.Present, Number: said.User.UID, Marks: marks, Exact: true})
	case r.Status == 404:
		s.record(user, r, history.Call{Kind: history.Absent})
	default:
		s.violate("GET user %s: %d %s", user, r.Status, r.Body)
	}
}

// judgeUser reports half an account, and tells the teams of a whole one.
func (s *Storm) judgeUser(user string, said userAnswer) history.Marks {
	var marks history.Marks
	primary := 0
	seen := map[string]bool{}
	for _, group := range said.Groups {
		s.own(group.GID, group.Name, "GET user")
		if seen[group.Name] {
			s.violate("GET user %s: group %s twice", user, group.Name)
		}
		seen[group.Name] = true
		if group.Type == "primary" {
			primary++
		}
		for i := range teams {
			if group.Name == team(i) {
				marks |= 1 << i
			}
		}
	}
	if primary != 1 || !seen[user] || said.User.UID != said.User.GID || said.User.Name != user || said.User.Home != "/home/"+user {
		s.violate("GET user %s: half an account: %+v", user, said)
	}
	return marks
}

func (s *Storm) listUsers(ctx context.Context, random *rand.Rand) {
	r := s.send(ctx, random, "GET users", http.MethodGet, "/accounts/users", "")
	s.expect("GET users", r, 200)
	if r.err != nil || r.nothing || r.Status != 200 {
		return
	}
	var said struct{ Users []userLine }
	s.read(r, &said)
	listed := map[string]userLine{}
	for _, line := range said.Users {
		if _, twice := listed[line.Name]; twice {
			s.violate("GET users: %s twice", line.Name)
		}
		listed[line.Name] = line
	}
	for _, user := range s.users {
		if line, there := listed[user]; there {
			s.record(user, r, history.Call{Kind: history.Present, Number: line.UID})
			continue
		}
		s.record(user, r, history.Call{Kind: history.Absent})
	}
}

// join adds a user to a team, and sometimes to a crowd, which may not be there.
func (s *Storm) join(ctx context.Context, random *rand.Rand, user string) {
	i := random.IntN(teams)
	groups := []string{team(i)}
	if random.IntN(3) == 0 {
		groups = append(groups, crowd(random.IntN(crowds)))
	}
	body, _ := json.Marshal(map[string]any{"groups": groups})
	r := s.send(ctx, random, "PUT user groups", http.MethodPut, "/accounts/users/"+user+"/groups", string(body))
	s.expect("PUT groups of "+user, r, 200, 404)
	c := history.Call{Kind: history.Join, Marks: 1 << i}
	switch {
	case r.unknown():
		s.maybe(user, r, c)
	case r.nothing:
	case r.Status == 200:
		s.record(user, r, c)
	case r.Status == 404 && strings.Contains(string(r.Body), "user not found"):
		s.record(user, r, history.Call{Kind: history.Absent})
	case r.Status == 404 && (len(groups) == 1 || strings.Contains(string(r.Body), "team")):
		s.violate("PUT groups of %s: a group that stays was not found: %s", user, r.Body)
	case r.Status == 404:
		s.record(user, r, history.Call{Kind: history.Present})
	}
}

func (s *Storm) putSolo(ctx context.Context, random *rand.Rand, group string) {
	r := s.send(ctx, random, "PUT group", http.MethodPut, "/accounts/groups", fmt.Sprintf(`{"name":%q}`, group))
	s.expect("PUT group "+group, r, 201, 409)
	switch {
	case r.unknown():
		s.maybe(group, r, history.Call{Kind: history.Put})
	case r.nothing:
	case r.Status == 201:
		var said struct{ Group struct{ GID int } }
		s.read(r, &said)
		s.own(said.Group.GID, group, "PUT group")
		s.record(group, r, history.Call{Kind: history.Put, Number: said.Group.GID})
	case r.Status == 409:
		s.record(group, r, history.Call{Kind: history.Present})
	}
}

func (s *Storm) deleteSolo(ctx context.Context, random *rand.Rand, group string) {
	r := s.send(ctx, random, "DELETE group", http.MethodDelete, "/accounts/groups/"+group, "")
	s.expect("DELETE group "+group, r, 200, 404)
	switch {
	case r.unknown():
		s.maybe(group, r, history.Call{Kind: history.Delete})
	case r.nothing:
	case r.Status == 200:
		s.record(group, r, history.Call{Kind: history.Delete})
	case r.Status == 404:
		s.record(group, r, history.Call{Kind: history.Absent})
	}
}

// crowdCall makes or removes a group that users come into and that goes with its last member.
func (s *Storm) crowdCall(ctx context.Context, random *rand.Rand) {
	i := random.IntN(crowds)
	if random.IntN(2) == 0 {
		r := s.send(ctx, random, "DELETE crowd", http.MethodDelete, "/accounts/groups/"+crowd(i), "")
		s.expect("DELETE "+crowd(i), r, 200, 404)
		return
	}
	members, _ := json.Marshal([]string{s.users[random.IntN(len(s.users))], keeper})
	r := s.send(ctx, random, "PUT crowd", http.MethodPut, "/accounts/groups",
		fmt.Sprintf(`{"name":%q,"gid":%d,"members":%s}`, crowd(i), firstCrowd+i, members))
	s.expect("PUT "+crowd(i), r, 201, 400, 409)
	if r.Status == 400 && !strings.Contains(string(r.Body), "invalid members (users not found): user") {
		s.violate("PUT %s: %s", crowd(i), r.Body)
	}
}

func (s *Storm) read(r reply, into any) {
	if err := json.Unmarshal(r.Body, into); err != nil {
		s.violate("an answer is no JSON: %v: %s", err, r.Body)
	}
}

// judgeAccounts reads the files as everybody does and has every name's calls judged, with what the
// files say as the last of them.
func (s *Storm) judgeAccounts() {
	files, err := s.readFiles()
	if err != nil {
		s.violate("the files in the end: %v", err)
		return
	}
	for who, n := range s.accounts {
		last := reply{begin: s.clock.Add(1), end: s.clock.Add(1)}
		line, there := files.users[who]
		gid, group := files.groups[who]
		switch {
		case slices.Contains(s.solos, who) && group:
			s.record(who, last, history.Call{Kind: history.Present, Number: gid, Exact: true})
		case there:
			s.record(who, last, history.Call{Kind: history.Present, Number: line.uid, Marks: files.marks(who), Exact: true})
		default:
			s.record(who, last, history.Call{Kind: history.Absent})
		}
		if err := history.Check(n.calls); err != nil {
			s.violate("%s: %v", who, err)
		}
	}
	s.judgeWhole(files)
}
