package nas

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"config-server/internal/farm"
	"config-server/internal/remote"
)

// answers is a Runner that answers a command line from a table and fails any other.
type answers struct {
	table map[string]answer
	mu    sync.Mutex
	sent  []string
}

type answer struct {
	out string
	err error
}

func (a *answers) Run(_ context.Context, argv []string, stdin []byte) (string, error) {
	line := strings.Join(argv, " ")
	a.mu.Lock()
	a.sent = append(a.sent, line)
	a.mu.Unlock()
	if stdin != nil {
		return "", errors.New("unexpected input")
	}
	reply, known := a.table[line]
	if !known {
		return "", errors.New("unexpected command: " + line)
	}
	return reply.out, reply.err
}

func exit(status int, stderr string) answer {
	return answer{err: &remote.ExitError{Status: status, Stderr: stderr}}
}

func newHomes(t *testing.T, table map[string]answer) (*Homes, *answers) {
	t.Helper()
	runner := &answers{table: table}
	homes, err := New(Options{Runner: runner, Host: "nas1", SharePath: "/volume1/share/user"})
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	return homes, runner
}

func TestSharePath(t *testing.T) {
	t.Parallel()
	cases := []struct {
		path string
		home string // of user kim; empty = refused
	}{
		{"/volume1/share/user", "/volume1/share/user/kim"},
		{"/volume1/share/user/", "/volume1/share/user/kim"},
		{"/volume1//share", "/volume1/share/kim"},
		{"/a..b", "/a..b/kim"},
		{"/volume 1", "/volume 1/kim"},
		{"", ""},
		{"/", ""},
		{"//", ""},
		{"/.", ""},
		{"volume1/share", ""},
		{"/volume1/../etc", ""},
		{"/volume1/..", ""},
		{"/volume1\n/etc", ""},
		{"/volume1\x00", ""},
	}
	for _, c := range cases {
		t.Run(c.path, func(t *testing.T) {
			t.Parallel()
			homes, err := New(Options{Runner: &answers{}, Host: "nas1", SharePath: c.path})
			if c.home == "" {
				if err == nil {
					t.Fatal("the path was accepted")
				}
				return
			}
			if err != nil {
				t.Fatalf("New: %v", err)
			}
			if home, err := homes.path("kim"); home != c.home || err != nil {
				t.Errorf("home %q, %v, want %q", home, err, c.home)
			}
		})
	}
}

func TestNamesThatMayNotBeInACommandAreRefusedBeforeAnythingIsSent(t *testing.T) {
	t.Parallel()
	calls := map[string]func(*Homes, farm.UserName) error{
		"Owner": func(h *Homes, u farm.UserName) error { _, _, err := h.Owner(t.Context(), u); return err },
		"Empty": func(h *Homes, u farm.UserName) error { _, err := h.Empty(t.Context(), u); return err },
		"Make":  func(h *Homes, u farm.UserName) error { return h.Make(t.Context(), u, 20000, 20000) },
		"Remove": func(h *Homes, u farm.UserName) error {
			return h.Remove(t.Context(), u)
		},
	}
	for name, call := range calls {
		for _, user := range []farm.UserName{"", ".", "..", "a/b", "../x", "-rf", ".ssh", "a b", "a;id", "a\nb", "$(id)", "김철수", "a\x00"} {
			homes, runner := newHomes(t, nil)
			if err := call(homes, user); !errors.Is(err, farm.ErrBadName) {
				t.Errorf("%s(%q): error %v, want ErrBadName", name, user, err)
			}
			if len(runner.sent) != 0 {
				t.Errorf("%s(%q) sent %q", name, user, runner.sent)
			}
		}
	}
}

func TestOwner(t *testing.T) {
	t.Parallel()
	const (
		home = "/volume1/share/user/kim"
		look = "stat -c %u " + home
		list = "ls -n /volume1/share/user"
	)
	without := answer{out: "total 4\ndrwx------ 2 20001 20001 4096 Jan 31 10:00 lee\n"}
	with := answer{out: "total 4\ndrwx------ 2 20001 20001 4096 Jan 31 10:00 kim\n"}
	cases := map[string]struct {
		table map[string]answer
		owner farm.ID
		found bool
		fails bool
		sends int
	}{
		"there": {table: map[string]answer{look: {out: "20001\n"}}, owner: 20001, found: true, sends: 1},
		"root's": {
			table: map[string]answer{look: {out: "0\n"}}, owner: 0, found: true, sends: 1,
		},
		"stat says it is absent": {
			table: map[string]answer{look: exit(1, "stat: cannot statx '"+home+"': No such file or directory")}, sends: 1,
		},
		"busybox says it is absent": {
			table: map[string]answer{look: exit(1, "stat: can't stat '"+home+"': No such file or directory")}, sends: 1,
		},
		"another language, not listed": {
			table: map[string]answer{look: exit(1, "stat: '"+home+"'를 statx할 수 없음: 그런 파일이나 디렉터리가 없습니다"), list: without}, sends: 2,
		},
		"no words at all, not listed": {
			table: map[string]answer{look: exit(1, ""), list: without}, sends: 2,
		},
		"denied, though listed": {
			table: map[string]answer{look: exit(1, "stat: cannot statx '"+home+"': Permission denied"), list: with}, fails: true, sends: 2,
		},
		"the login shell misses its own home, and stat is denied": {
			table: map[string]answer{
				look: exit(1, "Could not chdir to home directory /homes/nas: No such file or directory stat: cannot statx '"+home+"': Permission denied"),
				list: with,
			}, fails: true, sends: 2,
		},
		"the login shell misses its own home, and stat says nothing": {
			table: map[string]answer{look: exit(1, "Could not chdir to home directory /homes/nas: No such file or directory"), list: with}, fails: true, sends: 2,
		},
		"the listing fails too": {
			table: map[string]answer{look: exit(1, ""), list: exit(2, "ls: cannot access")}, fails: true, sends: 2,
		},
		"the listing cannot be read": {
			table: map[string]answer{look: exit(1, ""), list: {out: "drwx------ kim\n"}}, fails: true, sends: 2,
		},
		"no stat there": {table: map[string]answer{look: exit(127, "sh: stat: not found")}, fails: true, sends: 1},
		"not reached":   {table: map[string]answer{look: {err: errors.New("connect")}}, fails: true, sends: 1},
		"no number":     {table: map[string]answer{look: {out: "welcome\n20001\n"}}, fails: true, sends: 1},
		"no answer":     {table: map[string]answer{look: {}}, fails: true, sends: 1},
		"too large":     {table: map[string]answer{look: {out: "4294967296"}}, fails: true, sends: 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			homes, runner := newHomes(t, c.table)
			owner, found, err := homes.Owner(t.Context(), "kim")
			if owner != c.owner || found != c.found || (err != nil) != c.fails {
				t.Errorf("Owner = %d, %v, %v", owner, found, err)
			}
			if err != nil && !strings.Contains(err.Error(), "nas1:"+home) {
				t.Errorf("the error does not name host and path: %v", err)
			}
			if len(runner.sent) != c.sends {
				t.Errorf("sent %q, want %d commands", runner.sent, c.sends)
			}
		})
	}
}

func TestMakeSendsTheThreeCommandsOneByOne(t *testing.T) {
	t.Parallel()
	commands := []string{
		"sudo mkdir -p /volume1/share/user/kim",
		"sudo chown 20001:20002 /volume1/share/user/kim",
		"sudo chmod 700 /volume1/share/user/kim",
	}
	homes, runner := newHomes(t, map[string]answer{commands[0]: {}, commands[1]: {}, commands[2]: {}})
	if err := homes.Make(t.Context(), "kim", 20001, 20002); err != nil {
		t.Fatalf("Make: %v", err)
	}
	if !slices.Equal(runner.sent, commands) {
		t.Errorf("sent %q, want %q", runner.sent, commands)
	}
	for i, failing := range commands {
		table := map[string]answer{commands[0]: {}, commands[1]: {}, commands[2]: {}}
		table[failing] = exit(1, "sudo: a password is required")
		homes, runner := newHomes(t, table)
		err := homes.Make(t.Context(), "kim", 20001, 20002)
		var status *remote.ExitError
		if !errors.As(err, &status) || len(runner.sent) != i+1 {
			t.Errorf("%s fails: error %v after %q", failing, err, runner.sent)
		}
	}
}

func TestMakeNeverGivesAHomeToTheBaseSystem(t *testing.T) {
	t.Parallel()
	for _, id := range [][2]farm.ID{{0, 20001}, {20001, 0}, {-1, 20001}, {65534, 65534}, {999, 20001}} {
		homes, runner := newHomes(t, nil)
		if err := homes.Make(t.Context(), "kim", id[0], id[1]); err == nil || len(runner.sent) != 0 {
			t.Errorf("Make with %v: error %v, sent %q", id, err, runner.sent)
		}
	}
}

func TestEmpty(t *testing.T) {
	t.Parallel()
	const look = "ls -A /volume1/share/user/kim"
	cases := map[string]struct {
		answer answer
		empty  bool
		fails  bool
	}{
		"nothing":  {answer: answer{out: ""}, empty: true},
		"one file": {answer: answer{out: ".bashrc\n"}},
		"absent":   {answer: exit(2, "ls: cannot access"), fails: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			homes, _ := newHomes(t, map[string]answer{look: c.answer})
			empty, err := homes.Empty(t.Context(), "kim")
			if empty != c.empty || (err != nil) != c.fails {
				t.Errorf("Empty = %v, %v", empty, err)
			}
		})
	}
}

func TestListing(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		out  string
		want map[string]farm.ID // nil = an error
	}{
		"coreutils": {
			out:  "total 12\ndrwx------  5 20001 20001 4096 Jan 31 10:00 kim\ndrwx------+ 2 20002   100  512 Jan  1  2025 lee-2\n",
			want: map[string]farm.ID{"kim": 20001, "lee-2": 20002},
		},
		"other language": {
			out:  "합계 12\ndrwx------. 5 20001 20001 4096  1월 31 10:00 kim\n",
			want: map[string]farm.ID{"kim": 20001},
		},
		"iso dates": {
			out:  "total 0\ndrwx------ 1 20001 20001 0 2026-01-31 10:00 kim\ndrwx------ 1 20002 20002 0 2026-01-31 10:00:00.000000000 +0900 lee\n",
			want: map[string]farm.ID{"kim": 20001, "lee": 20002},
		},
		"names with spaces and links": {
			out:  "drwxr-xr-x 2 0 0 4096 Jan 31 10:00 old kim\nlrwxrwxrwx 1 0 0 3 Jan 31 10:00 lee -> kim\n-rw-r--r-- 1 7 7 0 Jan 31 10:00 file\n",
			want: map[string]farm.ID{"old kim": 0, "lee": 0, "file": 7},
		},
		"device": {
			out:  "crw-rw-rw- 1 0 0 1, 3 Jan 31 10:00 null\n",
			want: map[string]farm.ID{"null": 0},
		},
		"empty share":        {out: "total 0\n", want: map[string]farm.ID{}},
		"nothing":            {out: "", want: map[string]farm.ID{}},
		"entry without date": {out: "drwx------ 5 20001 20001 4096 kim\n"},
		"cut off":            {out: "drwx------ 5 200\n"},
		"uid too large":      {out: "drwx------ 5 99999999999 20001 4096 Jan 31 10:00 kim\n"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := parseListing(c.out)
			if (err != nil) != (c.want == nil) || !maps.Equal(got, c.want) {
				t.Errorf("parseListing = %v, %v, want %v", got, err, c.want)
			}
		})
	}
}

func FuzzParseListing(f *testing.F) {
	f.Add("total 4\ndrwx------ 2 20001 20001 4096 Jan 31 10:00 kim\n")
	f.Add("lrwxrwxrwx 1 0 0 3 2026-01-31 10:00 a -> b\n")
	f.Add("crw-rw-rw- 1 0 0 1, 3 Jan 31 10:00 null")
	f.Fuzz(func(t *testing.T, out string) {
		entries, err := parseListing(out)
		if err != nil && entries != nil {
			t.Errorf("both an error and %d entries", len(entries))
		}
		for name, owner := range entries {
			if name == "" || owner < 0 || !strings.Contains(out, name) {
				t.Errorf("entry %q of %d is not in the listing", name, owner)
			}
		}
	})
}
