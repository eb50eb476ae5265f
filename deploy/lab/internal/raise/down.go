package raise

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"config-server/deploy/lab/internal/daemon"
	"config-server/deploy/lab/internal/machine"
	"config-server/deploy/lab/internal/site"
	"config-server/deploy/lab/internal/traces"
)

// Down ends every program of the lab and removes what it made, its folder last. It returns what is
// still there that was not before.
func (l *Lab) Down(ctx context.Context) ([]string, error) {
	before, err := l.before()
	if err != nil {
		return nil, err
	}
	var faults []error
	note := func(err error) {
		if err != nil {
			faults = append(faults, err)
		}
	}
	for _, name := range l.running() {
		d := &daemon.Daemon{Name: name, RunDir: l.Site.RunDir(), LogDir: l.Site.LogDir()}
		if isMachine(l.Site, name) {
			continue
		}
		l.Say("%-24s ends", name)
		note(d.Stop())
	}
	tops := []string{"/" + site.CgroupRoot}
	if !slices.ContainsFunc(before["cgroup"], func(path string) bool { return filepath.Base(path) == filepath.Base(machine.CRICgroup) }) {
		tops = append(tops, machine.CRICgroup)
	}
	for _, top := range tops {
		note(clearCgroup(ctx, top))
	}
	for _, name := range machines(l.Site) {
		note(l.endMachine(ctx, name))
	}
	for _, node := range l.Site.Nodes {
		if _, err := run(ctx, "ip", "link", "show", node.Bridge()); err == nil {
			_, err := run(ctx, "ip", "link", "del", node.Bridge())
			note(err)
		}
	}
	note(removeRules(ctx))
	note(unmountBelow(ctx, l.Site.Dir))
	note(removeCgroups(ctx, tops))
	note(restoreSettings(before["setting"]))
	if err := errors.Join(faults...); err != nil {
		return nil, fmt.Errorf("take the lab down (its folder stays, run lab down again): %w", err)
	}
	if err := os.RemoveAll(l.Site.Dir); err != nil {
		return nil, fmt.Errorf("remove the lab's folder: %w", err)
	}
	if before == nil {
		return nil, nil
	}
	var left []string
	// The kernel takes its time with the interfaces of containers.
	err = daemon.Wait(limit(ctx, 5*time.Second), func(ctx context.Context) error {
		now, err := traces.Look(ctx, l.Site.Dir)
		if err != nil {
			return daemon.Final(err)
		}
		if left = now.Beyond(before); len(left) > 0 {
			return errors.New("something is left")
		}
		return nil
	})
	if len(left) > 0 {
		return left, nil
	}
	return nil, err
}

func limit(ctx context.Context, d time.Duration) context.Context {
	// The wait ends before the time does, or with it; the timer is freed then.
	limited, cancel := context.WithTimeout(ctx, d)
	context.AfterFunc(limited, cancel)
	return limited
}

// endings is the order in which programs end: first who would react to the end of the others.
var endings = []string{"config-server", "kwok", "kube-controller-manager", "kube-proxy", "kubelet", "containerd", "sshd", "kube-apiserver", "etcd"}

// running lists the programs that have a pid file, in the order of their ends.
func (l *Lab) running() []string {
	files, _ := filepath.Glob(filepath.Join(l.Site.RunDir(), "*.pid"))
	var names []string
	for _, file := range files {
		names = append(names, strings.TrimSuffix(filepath.Base(file), ".pid"))
	}
	rank := func(name string) int {
		i := slices.IndexFunc(endings, func(part string) bool { return strings.HasSuffix(name, part) })
		if i < 0 {
			return len(endings)
		}
		return i
	}
	slices.SortStableFunc(names, func(a, b string) int { return rank(a) - rank(b) })
	return names
}

func machines(s *site.Site) []string {
	names := []string{"nas"}
	for _, node := range s.Nodes {
		names = append(names, node.Name)
	}
	return names
}

func isMachine(s *site.Site, name string) bool { return slices.Contains(machines(s), name) }

// clearCgroup kills whatever runs in a cgroup: containers, and what they started.
func clearCgroup(ctx context.Context, cgroup string) error {
	err := daemon.Wait(limit(ctx, 20*time.Second), func(context.Context) error {
		pids := cgroupMembers(cgroup)
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		if len(pids) > 0 {
			return fmt.Errorf("%d processes of containers still run", len(pids))
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("clear cgroup %s: %w", cgroup, err)
	}
	return nil
}

// cgroupMembers lists the processes in a cgroup and those below it, in every hierarchy.
func cgroupMembers(cgroup string) []int {
	var pids []int
	for _, top := range cgroupDirs(cgroup) {
		_ = filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.IsDir() {
				return nil //nolint:nilerr // cgroups vanish while they are walked
			}
			text, _ := os.ReadFile(filepath.Join(path, "cgroup.procs"))
			for _, field := range strings.Fields(string(text)) {
				if pid, err := strconv.Atoi(field); err == nil && pid > 1 && !slices.Contains(pids, pid) {
					pids = append(pids, pid)
				}
			}
			return nil
		})
	}
	return pids
}

// cgroupDirs are the folders of a cgroup: one with cgroup v2, one a hierarchy with v1.
func cgroupDirs(cgroup string) []string {
	dirs, _ := filepath.Glob("/sys/fs/cgroup/*" + cgroup)
	if _, err := os.Stat("/sys/fs/cgroup" + cgroup); err == nil {
		dirs = append(dirs, "/sys/fs/cgroup"+cgroup)
	}
	return dirs
}

// endMachine kills every process of a machine, its keeper last; its mounts go with it.
func (l *Lab) endMachine(ctx context.Context, name string) error {
	keeper := &daemon.Daemon{Name: name, RunDir: l.Site.RunDir(), LogDir: l.Site.LogDir()}
	err := daemon.Wait(limit(ctx, 20*time.Second), func(context.Context) error {
		others := 0
		for _, pid := range machine.Members(l.Site.Scratch(name)) {
			if pid != keeper.Running() {
				_ = syscall.Kill(pid, syscall.SIGKILL)
				others++
			}
		}
		if others > 0 {
			return fmt.Errorf("%d processes of %s still run", others, name)
		}
		return nil
	})
	return errors.Join(err, keeper.Kill())
}

// removeRules removes the chains of kube-proxy and CNI and every rule that leads to them.
func removeRules(ctx context.Context) error {
	var faults []error
	for _, program := range []string{"iptables", "ip6tables"} {
		out, err := exec.CommandContext(ctx, program+"-save").Output()
		if err != nil {
			return fmt.Errorf("remove the packet filter's rules: %w", err)
		}
		script := removalOf(string(out))
		if script == "" {
			continue
		}
		restore := exec.CommandContext(ctx, program+"-restore", "--noflush")
		restore.Stdin = strings.NewReader(script)
		if out, err := restore.CombinedOutput(); err != nil {
			faults = append(faults, fmt.Errorf("remove the rules of %s: %w: %s", program, err, out))
		}
	}
	return errors.Join(faults...)
}

// removalOf is what iptables-restore has to be told to remove our chains from what iptables-save
// says; "" when there are none.
func removalOf(saved string) string {
	ours := func(word string) bool { return strings.HasPrefix(word, "KUBE-") || strings.HasPrefix(word, "CNI-") }
	var script strings.Builder
	for _, table := range tables(saved) {
		var flush, remove, drop []string
		for _, line := range table.lines {
			words := strings.Fields(line)
			switch {
			case strings.HasPrefix(line, ":") && ours(words[0][1:]):
				flush, drop = append(flush, "-F "+words[0][1:]), append(drop, "-X "+words[0][1:])
			case strings.HasPrefix(line, "-A") && !ours(words[1]) && slices.ContainsFunc(words, ours):
				remove = append(remove, "-D"+line[2:])
			}
		}
		if len(flush)+len(remove) > 0 {
			// Rules that lead to a chain go first, then its own, then the chain.
			script.WriteString("*" + table.name + "\n" + strings.Join(slices.Concat(remove, flush, drop), "\n") + "\nCOMMIT\n")
		}
	}
	return script.String()
}

type table struct {
	name  string
	lines []string
}

func tables(saved string) []table {
	var all []table
	for line := range strings.Lines(saved) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "*"):
			all = append(all, table{name: line[1:]})
		case len(all) > 0 && line != "":
			all[len(all)-1].lines = append(all[len(all)-1].lines, line)
		}
	}
	return all
}

// unmountBelow unmounts what is mounted below dir, in case a part was run outside of its machine.
func unmountBelow(ctx context.Context, dir string) error {
	return daemon.Wait(limit(ctx, 10*time.Second), func(context.Context) error {
		mounts, err := traces.Mounts(dir)
		if err != nil {
			return daemon.Final(err)
		}
		for _, mount := range mounts {
			if err := unix.Unmount(mount, unix.MNT_DETACH); err != nil {
				return fmt.Errorf("unmount %s: %w", mount, err)
			}
		}
		return nil
	})
}

// removeCgroups removes the lab's cgroups, the innermost first.
func removeCgroups(ctx context.Context, tops []string) error {
	return daemon.Wait(limit(ctx, 10*time.Second), func(context.Context) error {
		for _, top := range tops {
			var dirs []string
			for _, dir := range cgroupDirs(top) {
				_ = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
					if err == nil && entry.IsDir() {
						dirs = append(dirs, path)
					}
					return nil
				})
			}
			for _, dir := range slices.Backward(dirs) {
				if err := unix.Rmdir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
					return fmt.Errorf("remove cgroup %s: %w", dir, err)
				}
			}
		}
		return nil
	})
}

// restoreSettings gives the kernel back the settings that kubelet and kube-proxy have changed.
func restoreSettings(before []string) error {
	var faults []error
	for _, line := range before {
		name, value, _ := strings.Cut(line, "=")
		path := "/proc/sys/" + name
		if now, err := os.ReadFile(path); err != nil || strings.TrimSpace(string(now)) == value {
			continue
		}
		if err := os.WriteFile(path, []byte(value), 0); err != nil {
			faults = append(faults, fmt.Errorf("restore %s: %w", name, err))
		}
	}
	return errors.Join(faults...)
}
