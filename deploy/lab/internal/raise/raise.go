// Package raise starts, looks at and ends the parts of a lab.
package raise

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"config-server/deploy/lab/internal/daemon"
	"config-server/deploy/lab/internal/machine"
	"config-server/deploy/lab/internal/site"
)

// Lab is a lab with the programs that it is made of.
type Lab struct {
	Site *site.Site
	// Checkout is the folder of the service's sources: recipes, chart, go.mod.
	Checkout string
	// Program is this program's own binary.
	Program string
	// Settings are variables of the service over the lab's own; nil = none.
	Settings map[string]string
	// Say tells the person who waits what is going on.
	Say func(format string, args ...any)

	mu sync.Mutex // of the notes that status reads
}

// New is the lab of a plan; nothing is started yet.
func New(s *site.Site, checkout, program string, say func(string, ...any)) *Lab {
	return &Lab{Site: s, Checkout: checkout, Program: program, Say: say}
}

// part is what status knows of a program.
type part struct {
	Name    string
	Address string
	// Probe is a URL that answers while the part is well: http, https, tcp or unix; "" = it is enough
	// that it runs.
	Probe string
}

// daemon completes the description of a program and notes it for status.
func (l *Lab) daemon(d *daemon.Daemon, address, probe string) (*daemon.Daemon, error) {
	d.RunDir, d.LogDir = l.Site.RunDir(), l.Site.LogDir()
	if d.Ready == nil && probe != "" {
		d.Ready = ask(probe)
	}
	text, err := json.Marshal(part{Name: d.Name, Address: address, Probe: probe})
	if err != nil {
		return nil, fmt.Errorf("describe %s: %w", d.Name, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return d, l.write(filepath.Join(l.Site.RunDir(), d.Name+".part"), string(text), 0o644)
}

// startAll starts programs, one after the other.
func (l *Lab) startAll(ctx context.Context, parts ...described) error {
	for _, p := range parts {
		d, err := l.daemon(p.Daemon, p.address, p.probe)
		if err != nil {
			return err
		}
		if err := l.start(ctx, d); err != nil {
			return err
		}
	}
	return nil
}

type described struct {
	*daemon.Daemon
	address, probe string
}

// Up starts whatever of the lab does not run.
func (l *Lab) Up(ctx context.Context) error {
	begin := time.Now()
	if err := l.prepare(ctx); err != nil {
		return err
	}
	first, firstCtx := errgroup.WithContext(ctx)
	first.Go(func() error { return l.startControlPlane(firstCtx) })
	first.Go(func() error { return l.startMariaDB(firstCtx) })
	first.Go(func() error { return l.startSmallParts(firstCtx) })
	first.Go(func() error { return l.startKDC(firstCtx) })
	first.Go(func() error { return l.startNAS(firstCtx) })
	for _, node := range l.Site.Nodes {
		first.Go(func() error { return l.startRuntime(firstCtx, node) })
	}
	if err := first.Wait(); err != nil {
		return err
	}
	second, secondCtx := errgroup.WithContext(ctx)
	second.Go(func() error { return l.startControllers(secondCtx) })
	second.Go(func() error { return l.startKwok(secondCtx) })
	for _, node := range l.Site.Nodes {
		second.Go(func() error { return l.startKubelet(secondCtx, node) })
		second.Go(func() error { return l.startNodeSSH(secondCtx, node) })
	}
	if err := second.Wait(); err != nil {
		return err
	}
	if err := l.waitForNodes(ctx); err != nil {
		return err
	}
	if err := l.startService(ctx); err != nil {
		return err
	}
	l.Say("the lab is up after %.0f s", time.Since(begin).Seconds())
	return nil
}

// start starts a program and says so if it did not run.
func (l *Lab) start(ctx context.Context, d *daemon.Daemon) error {
	was := d.Running()
	begin := time.Now()
	if err := d.Start(ctx); err != nil {
		return err
	}
	if d.Running() != was {
		l.Say("%-24s started in %.1f s", d.Name, time.Since(begin).Seconds())
	}
	return nil
}

// folders are made before anything else.
func (l *Lab) makeFolders() error {
	for dir, mode := range map[string]os.FileMode{
		"run": 0o755, "log": 0o755, "kube": 0o700, "homes": 0o755, "share": 0o755, "images": 0o755, "keys": 0o700, "machines": 0o755, "image-store": 0o755,
	} {
		if err := os.MkdirAll(l.Site.Path(dir), mode); err != nil {
			return fmt.Errorf("make the lab's folders: %w", err)
		}
	}
	return nil
}

// write writes a file below the lab's folder if its content changes.
func (l *Lab) write(path, text string, mode os.FileMode) error {
	if old, err := os.ReadFile(path); err == nil && string(old) == text {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// run runs a command to its end; its output is in the error.
func run(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("%s %s: %w: %s", filepath.Base(name), first(args), err, strings.TrimSpace(string(out)))
	}
	return string(out), nil
}

func first(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

// ask turns a probe's URL into a question.
func ask(probe string) func(context.Context) error {
	kind, rest, _ := strings.Cut(probe, "://")
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
		defer cancel()
		if kind == "http" || kind == "https" {
			return answers(ctx, probe)
		}
		var dialer net.Dialer
		conn, err := dialer.DialContext(ctx, kind, rest)
		if err != nil {
			return err
		}
		return conn.Close()
	}
}

func answers(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	// The parts of the lab sign their certificates themselves, and all are on this machine.
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}
	res, err := transport.RoundTrip(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	text, _ := io.ReadAll(io.LimitReader(res.Body, 512))
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", res.Status, text)
	}
	return nil
}

// namespaceOf is the mount namespace of a played machine that has to run.
func namespaceOf(d *daemon.Daemon) (string, error) {
	namespace := machine.Namespace(d)
	if namespace == "" {
		return "", errors.New("machine " + d.Name + " does not run")
	}
	return namespace, nil
}
