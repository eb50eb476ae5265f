package storm

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"config-server/internal/farm"
	"config-server/internal/testkit/history"
)

// files is one reading of the account files, by a program that knows nothing of us.
type files struct {
	users   map[string]userEntry
	groups  map[string]int
	members map[string][]string
	shadow  map[string]bool
}

type userEntry struct{ uid, gid int }

func (f files) marks(user string) history.Marks {
	var marks history.Marks
	for i := range teams {
		if slices.Contains(f.members[team(i)], user) {
			marks |= 1 << i
		}
	}
	return marks
}

// readFile reads one file and refuses a part of one: every line whole, with this many fields, the
// last one ended.
func (s *Storm) readFile(name string, fields int, take func([]string) error) error {
	text, err := os.ReadFile(filepath.Join(s.world.Share, name))
	if err != nil {
		return err
	}
	if len(text) == 0 || text[len(text)-1] != '\n' {
		return fmt.Errorf("%s ends in the middle: %d bytes", name, len(text))
	}
	seen := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		parts := strings.Split(strings.TrimSuffix(line, "\n"), ":")
		if len(parts) != fields {
			return fmt.Errorf("%s has a line that is not whole: %q", name, line)
		}
		if seen[parts[0]] {
			return fmt.Errorf("%s has %s twice", name, parts[0])
		}
		seen[parts[0]] = true
		if err := take(parts); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func (s *Storm) readUsers(f *files) error {
	f.users = map[string]userEntry{}
	numbers := map[int]string{}
	return s.readFile("passwd", 7, func(parts []string) error {
		uid, err := strconv.Atoi(parts[2])
		gid, err2 := strconv.Atoi(parts[3])
		if err := errors.Join(err, err2); err != nil {
			return err
		}
		if other, twice := numbers[uid]; twice {
			return fmt.Errorf("%s and %s both have uid %d", other, parts[0], uid)
		}
		numbers[uid] = parts[0]
		f.users[parts[0]] = userEntry{uid, gid}
		if uid >= int(farm.MinID) && uid != int(farm.NobodyID) {
			s.own(uid, parts[0], "passwd")
			s.own(gid, parts[0], "passwd")
		}
		return nil
	})
}

func (s *Storm) readGroups(f *files) error {
	f.groups, f.members = map[string]int{}, map[string][]string{}
	numbers := map[int]string{}
	return s.readFile("group", 4, func(parts []string) error {
		gid, err := strconv.Atoi(parts[2])
		if err != nil {
			return err
		}
		if other, twice := numbers[gid]; twice {
			return fmt.Errorf("%s and %s both have gid %d", other, parts[0], gid)
		}
		numbers[gid] = parts[0]
		f.groups[parts[0]] = gid
		if gid >= int(farm.MinID) && gid != int(farm.NobodyID) {
			s.own(gid, parts[0], "group")
		}
		if parts[3] == "" {
			return nil
		}
		f.members[parts[0]] = strings.Split(parts[3], ",")
		if again := slices.Compact(slices.Sorted(slices.Values(f.members[parts[0]]))); len(again) != len(f.members[parts[0]]) {
			return fmt.Errorf("group %s has a member twice: %s", parts[0], parts[3])
		}
		return nil
	})
}

func (s *Storm) readShadow(f *files) error {
	f.shadow = map[string]bool{}
	return s.readFile("shadow", 9, func(parts []string) error {
		f.shadow[parts[0]] = true
		return nil
	})
}

func (s *Storm) readFiles() (files, error) {
	var f files
	err := errors.Join(s.readUsers(&f), s.readGroups(&f), s.readShadow(&f))
	return f, err
}

// watches are the looks past the service.
func (s *Storm) watches() []func(context.Context) {
	return []func(context.Context){
		func(ctx context.Context) { s.watch(ctx, 2*time.Millisecond, s.watchFiles) },
		func(ctx context.Context) { s.watch(ctx, 250*time.Millisecond, s.watchPorts) },
	}
}

func (s *Storm) watch(ctx context.Context, every time.Duration, look func(context.Context) error) {
	for ctx.Err() == nil {
		if err := look(ctx); err != nil && ctx.Err() == nil {
			s.violate("watch: %v", err)
		}
		pause(ctx, every)
	}
}

// watchFiles reads the files as a pod does. A user who stands in passwd before and after the other
// files are read, with the same number, stood there meanwhile: then group and password do too.
func (s *Storm) watchFiles(context.Context) error {
	var before, after files
	if err := s.readUsers(&before); err != nil {
		return err
	}
	if err := errors.Join(s.readGroups(&after), s.readShadow(&after)); err != nil {
		return err
	}
	if err := s.readUsers(&after); err != nil {
		return err
	}
	s.count("watch: files read")
	for user, entry := range before.users {
		if after.users[user] != entry {
			continue
		}
		if gid, there := after.groups[user]; entry.uid >= int(farm.MinID) && entry.uid != int(farm.NobodyID) && (!there || gid != entry.gid) {
			return fmt.Errorf("user %s (%d) has no group of its own: %d", user, entry.uid, gid)
		}
		if !after.shadow[user] {
			return fmt.Errorf("user %s (%d) is not in shadow", user, entry.uid)
		}
	}
	return nil
}

// watchPorts compares Services and rows: a Service that is there before and after the rows are read
// has its row. What cannot be read while a part is down is read the next time.
func (s *Storm) watchPorts(ctx context.Context) error {
	before, err := s.servicePorts(ctx)
	if err != nil {
		return nil
	}
	rows, err := s.rows(ctx)
	if err != nil {
		return nil
	}
	after, err := s.servicePorts(ctx)
	if err != nil {
		return nil
	}
	s.count("watch: ports compared")
	var errs []error
	for port, held := range before {
		if after[port] != held {
			continue
		}
		if rows[port] != held.pod {
			errs = append(errs, fmt.Errorf("port %d is open for %s, and its row is of %q", port, held.pod, rows[port]))
		}
	}
	return errors.Join(errs...)
}

// held is who has a port in the cluster.
type held struct{ pod, service string }

func (s *Storm) servicePorts(ctx context.Context) (map[int]held, error) {
	limited, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	list, err := s.kube.CoreV1().Services(s.world.Cluster.Namespace).List(limited, metav1.ListOptions{LabelSelector: farm.LabelApp + "=" + farm.AppNodePort})
	if err != nil {
		return nil, err
	}
	ports := map[int]held{}
	for _, service := range list.Items {
		for _, port := range service.Spec.Ports {
			if other, twice := ports[int(port.NodePort)]; twice {
				s.violate("watch: port %d is open twice: %s, %s", port.NodePort, other.service, service.Name)
			}
			ports[int(port.NodePort)] = held{service.Labels[farm.LabelPod], string(service.UID)}
		}
	}
	return ports, nil
}

func (s *Storm) rows(ctx context.Context) (map[int]string, error) {
	limited, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	result, err := s.db.QueryContext(limited, "SELECT node_port, pod_name FROM nodeport_allocations")
	if err != nil {
		return nil, err
	}
	defer func() { _ = result.Close() }()
	rows := map[int]string{}
	for result.Next() {
		var port int
		var pod string
		if err := result.Scan(&port, &pod); err != nil {
			return nil, err
		}
		rows[port] = pod
	}
	return rows, result.Err()
}

// strayFiles lists what only an operation under way has on the share: journal entries, commit
// records and staged files.
func (s *Storm) strayFiles() ([]string, error) {
	var strays []string
	err := filepath.WalkDir(s.world.Share, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil || entry.IsDir():
			return err
		}
		if filepath.Base(filepath.Dir(path)) == "journal" || strings.HasSuffix(path, ".cs-tmp") || strings.HasPrefix(entry.Name(), ".") {
			strays = append(strays, path)
		}
		return nil
	})
	return strays, err
}
