package source_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"

	"config-server/internal/farm"
	"config-server/internal/projects"
	"config-server/internal/projects/source"
)

// groups are those of a ledger.
type groups struct {
	all     []farm.Group
	version atomic.Int64
	err     error
}

func (g *groups) Groups(context.Context) ([]farm.Group, string, error) {
	return g.all, string(rune('a' + g.version.Load())), g.err
}

func write(t *testing.T, file, text string, at time.Time) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(file, at, at); err != nil {
		t.Fatal(err)
	}
}

func TestCheckProjectsOfGroups(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "projects.json")
	write(t, file, `{"vision":{"managers":["alice","guest"],"binding":{"nodes":["farm5"],"nodeGroups":["a100"]},"quota":{"hard":{"requests.nvidia.com/gpu":"4"}}}}`, time.Now())
	ledger := &groups{all: []farm.Group{
		{Name: "sudo", GID: 27, Members: []farm.UserName{"alice"}},
		{Name: "vision", GID: 20001, Members: []farm.UserName{"bob", "alice"}},
		{Name: "vision", GID: 20009},
		{Name: "audio", GID: 20002, Members: []farm.UserName{"bob"}},
		{Name: "unlisted", GID: 20003},
	}}
	l, err := source.New(source.Options{Groups: ledger, Names: []string{"audio", "vision", "sudo", "missing"}, Settings: file})
	if err != nil {
		t.Fatal(err)
	}
	got, err := l.Projects(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []projects.Project{
		{Name: "vision", Members: []projects.Member{
			{User: "alice", Role: projects.Manager}, {User: "guest", Role: projects.Manager}, {User: "bob", Role: projects.PlainMember},
		}, Binding: projects.Binding{Nodes: []string{"farm5"}, NodeGroups: []string{"a100"}}, Quota: map[string]resource.Quantity{"requests.nvidia.com/gpu": resource.MustParse("4")}},
		{Name: "audio", Members: []projects.Member{{User: "bob", Role: projects.PlainMember}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("projects (-want +got)\n%s", diff)
	}
	ledger.err = errors.New("the share is away")
	if _, err := l.Projects(t.Context()); !errors.Is(err, ledger.err) {
		t.Errorf("error %v", err)
	}
}

func TestCheckSettingsAreStrict(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		text string
		want []string // in the error; none = it is good
	}{
		"empty":         {`{}`, nil},
		"no object":     {`[]`, []string{"projects.json"}},
		"not JSON":      {`{`, []string{"projects.json"}},
		"unknown field": {`{"vision":{"manager":["a"]}}`, []string{`unknown field`, "manager"}},
		"another case":  {`{"vision":{"Managers":["a"]}}`, []string{"Managers"}},
		"twice":         {`{"vision":{},"vision":{}}`, []string{"duplicate field"}},
		"no quantity":   {`{"vision":{"quota":{"hard":{"cpu":"many"}}}}`, []string{"projects.json"}},
		"all faults at once": {`{"audio":{},"vision":{"managers":["a b"],"binding":{"nodes":["FARM"],"nodeGroups":["_"]},"quota":{"hard":{"cpu":"-1"}}}}`,
			[]string{`"audio": PROJECT_GROUPS does not list it`, "managers: bad name", `binding.nodes: "FARM"`, `binding.nodeGroups: "_"`, "quota.hard: cpu is below zero"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "projects.json")
			write(t, file, tc.text, time.Now())
			_, err := source.New(source.Options{Groups: &groups{}, Names: []string{"vision"}, Settings: file})
			if (err != nil) != (len(tc.want) > 0) {
				t.Fatalf("error %v", err)
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %v does not say %q", err, want)
				}
			}
		})
	}
	if _, err := source.New(source.Options{Groups: &groups{}, Settings: filepath.Join(t.TempDir(), "none")}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is missing: %v", err)
	}
}

// Settings are read again when they change, and faulty ones change nothing.
func TestCheckSettingsAreReadAgain(t *testing.T) {
	t.Parallel()
	file, began := filepath.Join(t.TempDir(), "projects.json"), time.Now().Truncate(time.Second)
	write(t, file, `{"vision":{"managers":["alice"]}}`, began)
	l, err := source.New(source.Options{Groups: &groups{all: []farm.Group{{Name: "vision", GID: 20001}}}, Names: []string{"vision"}, Settings: file})
	if err != nil {
		t.Fatal(err)
	}
	manager := func() string {
		all, err := l.Projects(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(all[0].Members) == 0 {
			return ""
		}
		return all[0].Members[0].User
	}
	steps := []struct{ name, text, want string }{
		{"as it was", `{"vision":{"managers":["alice"]}}`, "alice"},
		{"another", `{"vision":{"managers":["bob"]}}`, "bob"},
		{"a faulty one", `{"vision":{"managers":1}}`, "bob"},
		{"a good one", `{}`, ""},
		{"gone", "", ""},
		{"there again", `{"vision":{"managers":["carol"]}}`, "carol"},
	}
	for i, step := range steps {
		if step.text == "" {
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
		} else {
			write(t, file, step.text, began.Add(time.Duration(i)*time.Second))
		}
		for range 2 { // the second look finds it unchanged
			if got := manager(); got != step.want {
				t.Errorf("%s: the manager is %q, want %q", step.name, got, step.want)
			}
		}
	}
}

func TestCheckSourceTellsChanges(t *testing.T) {
	t.Parallel()
	file, began := filepath.Join(t.TempDir(), "projects.json"), time.Now().Truncate(time.Second)
	write(t, file, `{}`, began)
	synctest.Test(t, func(t *testing.T) {
		ledger := &groups{}
		l, err := source.New(source.Options{Groups: ledger, Names: []string{"vision"}, Settings: file})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var told atomic.Int64
		go l.Watch(ctx, time.Second, func() { told.Add(1) })
		look := func(what string, want int) {
			t.Helper()
			time.Sleep(3 * time.Second) // of the bubble's own clock
			synctest.Wait()
			if told.Load() != int64(want) {
				t.Errorf("%s: told %d times, want %d", what, told.Load(), want)
			}
		}
		look("nothing has changed", 0)
		ledger.version.Add(1)
		look("a group has", 1)
		write(t, file, `{"vision":{}}`, began.Add(time.Second))
		look("the settings have", 2)
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		look("the settings are gone", 3)
	})
}
