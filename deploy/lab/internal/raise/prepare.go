package raise

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"config-server/deploy/lab/internal/traces"
)

// prepare writes every file that the parts read.
func (l *Lab) prepare(ctx context.Context) error {
	if os.Geteuid() != 0 {
		return errors.New("the lab needs root: it makes interfaces, mounts and containers")
	}
	if err := l.makeFolders(); err != nil {
		return err
	}
	if err := l.note(ctx); err != nil {
		return err
	}
	if err := l.makeCertificates(); err != nil {
		return err
	}
	if err := l.tokens(); err != nil {
		return err
	}
	for _, name := range []string{"nas", "nas-host", "farm"} {
		if _, err := l.sshKey(name); err != nil {
			return err
		}
	}
	for _, node := range l.Site.Nodes {
		if _, err := l.sshKey(node.Name + "-host"); err != nil {
			return err
		}
	}
	if err := l.firstLoads(); err != nil {
		return err
	}
	return l.makeImages(ctx)
}

// firstLoads gives every node some load, the real ones the least.
func (l *Lab) firstLoads() error {
	if _, err := os.Stat(l.Site.Path("loads.json")); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	loads := map[string]any{}
	util := 10
	for _, node := range l.Site.Nodes {
		loads[node.Name] = map[string]any{"gpus": node.GPUs, "util": util, "used": 1000, "temp": 40}
		util += 10
	}
	for _, name := range l.Site.Kwok {
		loads[name] = map[string]any{"gpus": 2, "util": util, "used": 8000, "temp": 60}
		util += 5
	}
	text, err := json.Marshal(loads)
	if err != nil {
		return fmt.Errorf("write the first loads: %w", err)
	}
	return l.write(l.Site.Path("loads.json"), string(text), 0o600)
}

// note keeps how the machine was before the lab's first start, for its end. A machine that is a
// Kubernetes node already is left alone.
func (l *Lab) note(ctx context.Context) error {
	path := l.Site.Path("before.json")
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	before, err := traces.Look(ctx, l.Site.Dir)
	if err != nil {
		return err
	}
	for _, rule := range before["rule"] {
		if strings.Contains(rule, ":KUBE-") {
			return errors.New("this machine has rules of Kubernetes already; the lab would mix with them (a lab in another folder? lab down removes it)")
		}
	}
	text, err := json.MarshalIndent(before, "", "  ")
	if err != nil {
		return fmt.Errorf("note the machine's state: %w", err)
	}
	return l.write(path, string(text), 0o600)
}

// before is what note has kept.
func (l *Lab) before() (traces.Traces, error) {
	text, err := os.ReadFile(l.Site.Path("before.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the machine's former state: %w", err)
	}
	var before traces.Traces
	if err := json.Unmarshal(text, &before); err != nil {
		return nil, fmt.Errorf("read the machine's former state: %w", err)
	}
	return before, nil
}
