// Package machine plays the machines of the farm (its nodes and the NAS) on the one machine that
// there is. A played machine is a mount namespace whose root is an overlay of the real root with a
// file tree in memory on top: it has its own /run, /dev and /etc, and what its programs write
// outside the folders that it shares with the lab vanishes with the last of them.
package machine

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"config-server/deploy/lab/internal/daemon"
)

// Spec says what a machine has beside the programs of the real one.
type Spec struct {
	Name string
	// Scratch is an empty folder on which the machine's memory is mounted, seen by nobody else.
	Scratch string
	// Shared are folders that look the same inside and outside.
	Shared []string
	// Binds maps folders of the machine to real ones.
	Binds map[string]string
	Files []File
	// Cgroup, when set, is the part of each cgroup hierarchy of the first version in which the
	// machine's containers are, in place of the folder that containerd uses on every machine. With the
	// second version alone they are in that.
	Cgroup string
	// Devices are character device files, by name below /dev. They lead nowhere: they stand for GPUs
	// where only their presence counts.
	Devices []string
}

// File is a file that the machine has at its start.
type File struct {
	Path string
	Text string
	Mode os.FileMode
}

// Daemon describes the process that keeps a machine: program is this program, which calls Keep when
// its arguments are those given here.
func Daemon(program string, spec Spec, runDir, logDir string) (*daemon.Daemon, error) {
	file := filepath.Join(runDir, spec.Name+".machine")
	ready := filepath.Join(runDir, spec.Name+".up")
	text, err := json.Marshal(spec)
	if err != nil {
		return nil, fmt.Errorf("describe machine %s: %w", spec.Name, err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return nil, fmt.Errorf("describe machine %s: %w", spec.Name, err)
	}
	d := &daemon.Daemon{
		Name: spec.Name, Path: program, Args: []string{"machine", file, ready}, RunDir: runDir, LogDir: logDir, NewNamespace: true,
		// Another description is another machine.
		Env: []string{fmt.Sprintf("LAB_MACHINE=%x", sha256.Sum256(text))},
	}
	d.Ready = func(context.Context) error {
		text, err := os.ReadFile(ready)
		if err != nil {
			return err
		}
		if strings.TrimSpace(string(text)) != strconv.Itoa(d.Running()) {
			return errors.New("its root is not mounted yet")
		}
		return nil
	}
	return d, nil
}

// Namespace is the file of the mount namespace of a running machine, "" when it does not run.
func Namespace(d *daemon.Daemon) string {
	pid := d.Running()
	if pid == 0 {
		return ""
	}
	return fmt.Sprintf("/proc/%d/ns/mnt", pid)
}

// Run runs a command inside a machine and returns what it prints.
func Run(ctx context.Context, namespace string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "/usr/bin/nsenter", append([]string{"--mount=" + namespace, "--"}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("%s: %w: %s", args[0], err, out)
	}
	return string(out), nil
}

// Members lists the processes of every machine that was ever started on that scratch folder, also of
// those whose keeper is gone.
func Members(scratch string) []int {
	var pids []int
	files, _ := filepath.Glob("/proc/[0-9]*/mountinfo")
	for _, file := range files {
		pid, err := strconv.Atoi(strings.Split(file, "/")[2])
		if err == nil && rootIsOn(file, scratch) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// rootIsOn tells whether the root of a process's file tree is the overlay on that scratch folder.
func rootIsOn(mountinfo, scratch string) bool {
	text, err := os.ReadFile(mountinfo)
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) > 4 && fields[4] == "/" && strings.Contains(line, "upperdir="+scratch+"/upper,") {
			return true
		}
	}
	return false
}

// Keep makes the machine in the mount namespace of this process, which must be its own, says so in
// the ready file, and stays until SIGTERM.
func Keep(specFile, ready string) error {
	text, err := os.ReadFile(specFile)
	if err != nil {
		return fmt.Errorf("keep a machine: %w", err)
	}
	var spec Spec
	if err := json.Unmarshal(text, &spec); err != nil {
		return fmt.Errorf("keep a machine: %w", err)
	}
	mine, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		return fmt.Errorf("keep a machine: %w", err)
	}
	if parent, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/mnt", os.Getppid())); err == nil && parent == mine {
		return errors.New("keep a machine: this is the mount namespace of the caller; lab up starts machines")
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	if err := spec.mount(); err != nil {
		return fmt.Errorf("keep machine %s: %w", spec.Name, err)
	}
	if err := os.WriteFile(ready, []byte(strconv.Itoa(os.Getpid())+"\n"), 0o644); err != nil {
		return fmt.Errorf("keep machine %s: %w", spec.Name, err)
	}
	<-signals
	return nil
}

func (s Spec) mount() error {
	// From here on nothing that is mounted is seen outside.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("part from the real machine: %w", err)
	}
	if err := unix.Mount("tmpfs", s.Scratch, "tmpfs", 0, "mode=0755"); err != nil {
		return fmt.Errorf("mount memory: %w", err)
	}
	upper, work, root := filepath.Join(s.Scratch, "upper"), filepath.Join(s.Scratch, "work"), filepath.Join(s.Scratch, "root")
	for _, dir := range []string{upper, work, root} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	if err := unix.Mount("overlay", root, "overlay", 0, "lowerdir=/,upperdir="+upper+",workdir="+work); err != nil {
		return fmt.Errorf("mount the root: %w", err)
	}
	in := func(path string) string { return filepath.Join(root, path) }
	if err := unix.Mount("proc", in("/proc"), "proc", 0, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	if err := unix.Mount("/sys", in("/sys"), "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("mount /sys: %w", err)
	}
	if err := s.cgroups(in("/sys/fs/cgroup")); err != nil {
		return err
	}
	for dir, mode := range map[string]string{"/run": "mode=0755", "/tmp": "mode=1777", "/dev": "mode=0755"} {
		if err := unix.Mount("tmpfs", in(dir), "tmpfs", 0, mode); err != nil {
			return fmt.Errorf("mount %s: %w", dir, err)
		}
	}
	if err := s.devices(in("/dev")); err != nil {
		return err
	}
	binds := map[string]string{}
	for _, dir := range s.Shared {
		binds[dir] = dir
	}
	for inside, outside := range s.Binds {
		binds[inside] = outside
	}
	for inside, outside := range binds {
		if err := os.MkdirAll(in(inside), 0o755); err != nil {
			return err
		}
		if err := unix.Mount(outside, in(inside), "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("share %s: %w", outside, err)
		}
	}
	for _, file := range s.Files {
		if err := os.MkdirAll(filepath.Dir(in(file.Path)), 0o755); err != nil {
			return err
		}
		// Removed first: a link would lead to the real machine's file.
		if err := os.RemoveAll(in(file.Path)); err != nil {
			return err
		}
		if err := os.WriteFile(in(file.Path), []byte(file.Text), file.Mode); err != nil {
			return err
		}
		if err := os.Chmod(in(file.Path), file.Mode); err != nil {
			return err
		}
	}
	return enter(root)
}

// CRICgroup is where containerd puts the containers of pods for which kubelet names no place.
const CRICgroup = "/k8s.io"

// cgroups lays the machine's part of each hierarchy over containerd's folder.
func (s Spec) cgroups(mounted string) error {
	if s.Cgroup == "" {
		return nil
	}
	hierarchies, err := filepath.Glob("/sys/fs/cgroup/*/cgroup.procs")
	if err != nil {
		return fmt.Errorf("find the cgroups: %w", err)
	}
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.procs"); err == nil {
		return nil
	}
	for _, procs := range hierarchies {
		name := filepath.Base(filepath.Dir(procs))
		part := filepath.Join("/sys/fs/cgroup", name)
		if err := os.MkdirAll(filepath.Join(part, CRICgroup), 0o755); err != nil {
			return fmt.Errorf("make cgroup %s: %w", part, err)
		}
		for step := range strings.SplitSeq(strings.Trim(s.Cgroup, "/"), "/") {
			above := part
			part = filepath.Join(part, step)
			if err := os.Mkdir(part, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
				return fmt.Errorf("make cgroup %s: %w", part, err)
			}
			if err := inheritCpuset(above, part); err != nil {
				return err
			}
		}
		if err := unix.Mount(part, filepath.Join(mounted, name, CRICgroup), "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("lay cgroup %s over containerd's: %w", part, err)
		}
	}
	return nil
}

// inheritCpuset copies processors and memory nodes, without which a cpuset takes no process.
func inheritCpuset(above, part string) error {
	for _, name := range []string{"cpuset.cpus", "cpuset.mems"} {
		value, err := os.ReadFile(filepath.Join(above, name))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(part, name), value, 0)
		}
		if err != nil {
			return fmt.Errorf("prepare cgroup %s: %w", part, err)
		}
	}
	return nil
}

// devices fills /dev with what programs and containers need.
func (s Spec) devices(dev string) error {
	standard := []struct {
		name         string
		major, minor uint32
	}{
		{"null", 1, 3}, {"zero", 1, 5}, {"full", 1, 7}, {"random", 1, 8}, {"urandom", 1, 9}, {"kmsg", 1, 11}, {"tty", 5, 0}, {"ptmx", 5, 2},
	}
	for _, d := range standard {
		if err := mknod(filepath.Join(dev, d.name), unix.Mkdev(d.major, d.minor)); err != nil {
			return err
		}
	}
	for i, name := range s.Devices {
		// The major number of NVIDIA's driver; nobody opens them.
		if err := mknod(filepath.Join(dev, name), unix.Mkdev(195, uint32(i))); err != nil {
			return err
		}
	}
	for name, target := range map[string]string{"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"} {
		if err := os.Symlink(target, filepath.Join(dev, name)); err != nil {
			return err
		}
	}
	for _, name := range []string{"pts", "shm"} {
		if err := os.Mkdir(filepath.Join(dev, name), 0o755); err != nil {
			return err
		}
	}
	if err := unix.Mount("/dev/pts", filepath.Join(dev, "pts"), "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount /dev/pts: %w", err)
	}
	if err := unix.Mount("tmpfs", filepath.Join(dev, "shm"), "tmpfs", 0, "mode=1777"); err != nil {
		return fmt.Errorf("mount /dev/shm: %w", err)
	}
	return nil
}

func mknod(path string, device uint64) error {
	if err := unix.Mknod(path, unix.S_IFCHR|0o666, int(device)); err != nil {
		return fmt.Errorf("make %s: %w", path, err)
	}
	return os.Chmod(path, 0o666)
}

// enter makes root the root of the namespace, and forgets the real one.
func enter(root string) error {
	old := filepath.Join(root, ".real")
	if err := os.Mkdir(old, 0o700); err != nil {
		return err
	}
	if err := unix.PivotRoot(root, old); err != nil {
		return fmt.Errorf("change the root: %w", err)
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	if err := unix.Unmount("/.real", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("leave the real root: %w", err)
	}
	if err := os.Remove("/.real"); err != nil {
		return err
	}
	// Kubelet wants mounts of the host to reach its containers.
	return unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, "")
}
