package accounts

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"config-server/internal/farm"
)

// Many callers, two instances, the same few names: whatever the order, every account is whole, every
// number has one owner for ever, and all locks are free in the end.
func TestStorm(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	instances := []*Service{w.service(withSudo), w.service(withSudo)}
	owners := &ledgerOfOwners{uids: map[farm.ID]string{}}
	const workers, operations = 16, 40
	var wg sync.WaitGroup
	for worker := range workers {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(7, uint64(worker)))
			for range operations {
				if err := randomCall(instances[random.IntN(2)], random, owners); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if report, err := instances[0].Recover(t.Context()); err != nil || len(report.Busy)+len(report.Failed)+len(report.Undone)+len(report.Finished) > 0 {
		t.Errorf("something was left: %+v %v", report, err)
	}
	w.clean(t)
	consistent(t, w, instances[1])
}

func randomCall(s *Service, random *rand.Rand, owners *ledgerOfOwners) error {
	ctx := context.Background()
	user := fmt.Sprintf("u%d", random.IntN(10))
	group := fmt.Sprintf("g%d", random.IntN(4))
	var err error
	switch random.IntN(8) {
	case 0, 1, 2:
		var created Created
		created, err = s.CreateUser(ctx, newUser(user, farm.GroupRef{Name: "shared", GID: 21000}))
		if err == nil {
			err = owners.add(created.Account.UID, user)
		}
	case 3, 4:
		_, err = s.DeleteUser(ctx, user)
	case 5:
		_, err = s.CreateGroup(ctx, NewGroup{Name: group})
	case 6:
		_, err = s.DeleteGroup(ctx, group)
	default:
		_, err = s.JoinGroups(ctx, user, []string{group})
	}
	if told, ok := farm.AsError(err); ok && (told.Kind == farm.Conflict || told.Kind == farm.NotFound) {
		return nil
	}
	return err
}

// ledgerOfOwners remembers who ever got a uid.
type ledgerOfOwners struct {
	mu   sync.Mutex
	uids map[farm.ID]string
}

func (l *ledgerOfOwners) add(uid farm.ID, user string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if other, twice := l.uids[uid]; twice && other != user {
		return fmt.Errorf("uid %d was given to %s and to %s", uid, other, user)
	}
	l.uids[uid] = user
	return nil
}

// consistent checks the final state of passwd, group, shadow, sudoers and the NAS against each other.
func consistent(t *testing.T, w *world, s *Service) {
	t.Helper()
	users, err := s.Users(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	numbers := map[farm.ID]farm.UserName{}
	shadow := w.read(t, "shadow")
	files := w.files(t)
	for _, account := range users.Accounts {
		if other, twice := numbers[account.UID]; twice {
			t.Errorf("uid %d belongs to %s and %s", account.UID, other, account.Name)
		}
		numbers[account.UID] = account.Name
		if !strings.HasPrefix(string(account.Name), "u") {
			continue
		}
		if n := strings.Count("\n"+shadow, "\n"+string(account.Name)+":"); n != 1 {
			t.Errorf("%s has %d shadow lines", account.Name, n)
		}
		if files["sudoers.d/"+string(account.Name)] == "" {
			t.Errorf("%s has no policy", account.Name)
		}
		if w.nas.homes[account.Name].owner != account.UID {
			t.Errorf("the home of %s belongs to %d", account.Name, w.nas.homes[account.Name].owner)
		}
		_, groups, err := s.User(t.Context(), string(account.Name))
		primary := func(m Membership) bool { return m.Type == Primary && string(m.Name) == string(account.Name) }
		shared := func(m Membership) bool { return m.Name == "shared" && m.GID == 21000 }
		if err != nil || !slices.ContainsFunc(groups, primary) || !slices.ContainsFunc(groups, shared) {
			t.Errorf("%s is in %v (%v)", account.Name, groups, err)
		}
	}
	for user := range w.nas.homes {
		if !slices.ContainsFunc(users.Accounts, func(a farm.Account) bool { return a.Name == user }) {
			t.Errorf("the home of %s is left", user)
		}
	}
	for line := range strings.Lines(w.read(t, "group")) {
		if strings.TrimSpace(line) == "" {
			continue
		}
		for member := range strings.SplitSeq(strings.TrimSpace(line[strings.LastIndex(line, ":")+1:]), ",") {
			if member != "" && !slices.ContainsFunc(users.Accounts, func(a farm.Account) bool { return string(a.Name) == member }) {
				t.Errorf("%q lists %s, who is not there", strings.TrimSpace(line), member)
			}
		}
	}
}
