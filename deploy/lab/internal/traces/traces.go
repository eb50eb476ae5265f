// Package traces looks at what a lab can leave on the machine: processes, mounts, interfaces,
// packet filter rules, cgroups and kernel settings.
package traces

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Traces are lines, by kind.
type Traces map[string][]string

// Settings are the kernel settings that kubelet and kube-proxy change.
var Settings = []string{
	"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
	"net/ipv4/ip_forward", "net/ipv4/conf/all/route_localnet", "net/ipv4/conf/default/route_localnet", "net/ipv4/vs/conntrack",
	"net/bridge/bridge-nf-call-iptables", "net/netfilter/nf_conntrack_max", "net/netfilter/nf_conntrack_tcp_timeout_established",
	"net/netfilter/nf_conntrack_tcp_timeout_close_wait", "net/netfilter/nf_conntrack_tcp_be_liberal",
}

// Look looks at the machine. Of processes and mounts only those count that have to do with the lab
// in dir: others come and go meanwhile.
func Look(ctx context.Context, dir string) (Traces, error) {
	rules, err := Rules(ctx)
	if err != nil {
		return nil, err
	}
	mounts, err := Mounts(dir)
	if err != nil {
		return nil, err
	}
	interfaces, err := names("/sys/class/net/*")
	if err != nil {
		return nil, err
	}
	t := Traces{"rule": rules, "mount": mounts, "interface": interfaces, "process": processes(dir), "setting": settings()}
	for _, pattern := range []string{"/run/netns/*", "/var/lib/cni/*", "/run/containerd/*", "/var/log/pods", "/var/log/containers", "/var/lib/kubelet", "/opt/cni", "/opt/containerd", "/dev/nvidia*", "/volume1"} {
		found, err := names(pattern)
		if err != nil {
			return nil, err
		}
		t["file"] = append(t["file"], found...)
	}
	if t["cgroup"], err = names("/sys/fs/cgroup/*"); err != nil {
		return nil, err
	}
	inner, err := names("/sys/fs/cgroup/*/*")
	if err != nil {
		return nil, err
	}
	for _, path := range inner {
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			t["cgroup"] = append(t["cgroup"], path)
		}
	}
	return t, nil
}

// Beyond lists what is in t and not in before, one line each.
func (t Traces) Beyond(before Traces) []string {
	var lines []string
	for kind, found := range t {
		for _, line := range found {
			if !slices.Contains(before[kind], line) {
				lines = append(lines, kind+" "+line)
			}
		}
	}
	slices.Sort(lines)
	return lines
}

func names(pattern string) ([]string, error) {
	found, err := filepath.Glob(pattern)
	if err != nil {
		return nil, fmt.Errorf("look at the machine: %w", err)
	}
	return found, nil
}

// Rules lists the packet filter's rules and chains of our own making; counters and the policies of
// built-in chains are left out.
func Rules(ctx context.Context) ([]string, error) {
	var rules []string
	for _, program := range []string{"iptables-save", "ip6tables-save"} {
		out, err := exec.CommandContext(ctx, program).Output()
		if err != nil {
			return nil, fmt.Errorf("look at the machine: %s: %w", program, err)
		}
		table := ""
		for line := range strings.Lines(string(out)) {
			line = strings.TrimSpace(line)
			switch {
			case strings.HasPrefix(line, "*"):
				table = line[1:]
			case strings.HasPrefix(line, "-A"):
				rules = append(rules, program+" "+table+" "+line)
			case strings.HasPrefix(line, ":"):
				if chain, policy, _ := strings.Cut(line[1:], " "); strings.HasPrefix(policy, "-") {
					rules = append(rules, program+" "+table+" :"+chain)
				}
			}
		}
	}
	return rules, nil
}

// Mounts lists the mount points below dir that this process sees, deepest first.
func Mounts(dir string) ([]string, error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("look at the machine: %w", err)
	}
	var found []string
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) > 4 && (fields[4] == dir || strings.HasPrefix(fields[4], dir+"/") || strings.HasPrefix(fields[4], "/run/netns/cni-")) {
			found = append(found, fields[4])
		}
	}
	slices.Reverse(found)
	return found, nil
}

// processes lists those whose command line names dir.
func processes(dir string) []string {
	var found []string
	paths, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range paths {
		pid := strings.Split(path, "/")[2]
		text, err := os.ReadFile(path)
		if err != nil || pid == fmt.Sprint(os.Getpid()) {
			continue
		}
		if line := strings.ReplaceAll(string(text), "\x00", " "); strings.Contains(line, dir+"/") {
			found = append(found, pid+" "+line)
		}
	}
	return found
}

func settings() []string {
	var found []string
	for _, name := range Settings {
		if text, err := os.ReadFile("/proc/sys/" + name); err == nil {
			found = append(found, name+"="+strings.TrimSpace(string(text)))
		}
	}
	return found
}
