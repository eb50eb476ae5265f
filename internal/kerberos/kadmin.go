package kerberos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"config-server/internal/farm"
)

const (
	// maxSaid bounds what is kept of kadmin's output, in bytes.
	maxSaid = 64 << 10
	// maxComplaint bounds what is told of it in an error, in bytes.
	maxComplaint = 500
	// maxKadmins is how many kadmin processes run at once.
	maxKadmins = 8
)

// kadmin asks the KDC's administration server through MIT's program of that name. The program ends
// with status 0 whether or not it did what it was asked, so nothing counts but what it says and what
// is there afterwards.
type kadmin struct {
	program    string
	realm      string
	kdcHost    string
	configFile string
	admin      string
	password   string
	limit      time.Duration
	turns      chan struct{}
	point      func(string)
	called     farm.CallObserver
}

func newKadmin(opts Options, admin, password string) *kadmin {
	k := &kadmin{
		program: opts.Kadmin, realm: opts.Realm, kdcHost: opts.KDCHost, configFile: opts.ConfigFile, admin: admin, password: password,
		limit: opts.Limit, turns: make(chan struct{}, maxKadmins), point: opts.Point, called: opts.Called,
	}
	if k.program == "" {
		k.program = "kadmin"
	}
	if k.limit == 0 {
		k.limit = DefaultLimit
	}
	return k
}

// found is what the KDC knows of a principal.
type found struct {
	exists bool
	kvno   int // the newest key's version; 0 = no key
}

var keyLine = regexp.MustCompile(`(?m)^Key: vno (\d+),`)

// change is run for a query that changes something, file as there.
func (k *kadmin) change(ctx context.Context, query string, file *os.File) (said, error) {
	verb, _, _ := strings.Cut(query, " ")
	k.point("kadmin " + verb + " before")
	said, err := k.run(ctx, query, file)
	k.point("kadmin " + verb + " after")
	return said, err
}

// find looks a principal up.
func (k *kadmin) find(ctx context.Context, principal string) (found, error) {
	said, err := k.run(ctx, "getprinc "+principal, nil)
	if err != nil {
		return found{}, fmt.Errorf("look for principal %s: %w", principal, err)
	}
	switch {
	case said.hasLine("Principal: " + principal):
		f := found{exists: true}
		for _, match := range keyLine.FindAllStringSubmatch(said.out, -1) {
			if kvno, err := strconv.Atoi(match[1]); err == nil {
				f.kvno = max(f.kvno, kvno)
			}
		}
		return f, nil
	case strings.Contains(said.err, "Principal does not exist"):
		return found{}, nil
	}
	return found{}, fmt.Errorf("look for principal %s: %w", principal, k.refusal(said))
}

// create makes a principal with a random key, or gives the one that is there a new one, and returns
// its keytab.
func (k *kadmin) create(ctx context.Context, principal string) ([]byte, error) {
	before, err := k.find(ctx, principal)
	if err != nil {
		return nil, err
	}
	if !before.exists {
		if err := k.add(ctx, principal); err != nil {
			return nil, err
		}
	}
	return k.export(ctx, principal)
}

// add makes a principal. Another administrator may be quicker; that one is as good.
func (k *kadmin) add(ctx context.Context, principal string) error {
	said, err := k.change(ctx, "addprinc -randkey "+principal, nil)
	if err != nil {
		return fmt.Errorf("make principal %s: %w", principal, err)
	}
	after, err := k.find(ctx, principal)
	switch {
	case err != nil:
		return err
	case !after.exists:
		return fmt.Errorf("make principal %s: %w", principal, k.refusal(said))
	}
	return nil
}

// export gives a principal a new random key and returns it as a keytab, after making sure that it is
// the key that the KDC has.
func (k *kadmin) export(ctx context.Context, principal string) ([]byte, error) {
	file, err := namelessFile(keytabBeginning)
	if err != nil {
		return nil, fmt.Errorf("make keytab of %s: %w", principal, err)
	}
	defer file.Close()
	said, err := k.change(ctx, "ktadd -k FILE:"+passedFile+" "+principal, file)
	if err != nil {
		return nil, fmt.Errorf("make keytab of %s: %w", principal, err)
	}
	keytab, err := readAll(file)
	if err != nil {
		return nil, fmt.Errorf("read keytab of %s: %w", principal, err)
	}
	kvno, err := checkKeytab(keytab, principal)
	if err != nil {
		return nil, fmt.Errorf("make keytab of %s: %w: %w", principal, err, k.refusal(said))
	}
	after, err := k.find(ctx, principal)
	switch {
	case err != nil:
		return nil, err
	case after.kvno != kvno:
		return nil, fmt.Errorf("make keytab of %s: it holds key version %d, and the KDC has version %d", principal, kvno, after.kvno)
	}
	return keytab, nil
}

// remove deletes a principal; one that does not exist is no error.
func (k *kadmin) remove(ctx context.Context, principal string) error {
	before, err := k.find(ctx, principal)
	if err != nil || !before.exists {
		return err
	}
	said, err := k.change(ctx, "delprinc -force "+principal, nil)
	if err != nil {
		return fmt.Errorf("delete principal %s: %w", principal, err)
	}
	after, err := k.find(ctx, principal)
	switch {
	case err != nil:
		return err
	case after.exists:
		return fmt.Errorf("delete principal %s: %w", principal, k.refusal(said))
	}
	return nil
}

// said is what kadmin wrote.
type said struct{ out, err string }

func (s said) hasLine(line string) bool {
	for got := range strings.Lines(s.out) {
		if strings.TrimRight(got, "\r\n") == line {
			return true
		}
	}
	return false
}

// refusal makes an error of what kadmin complained about.
func (k *kadmin) refusal(s said) error {
	var lines []string
	for line := range strings.Lines(s.err) {
		line = strings.TrimPrefix(strings.TrimSpace(line), "kadmin: ")
		if line != "" && !strings.HasPrefix(line, "No policy specified") && !strings.HasPrefix(line, "WARNING: no policy") {
			lines = append(lines, line)
		}
	}
	text := strings.Join(lines, "; ")
	if text == "" {
		text = "kadmin did not do it and says nothing about it"
	}
	if strings.Contains(text, k.password) {
		text = "kadmin's message is withheld, because it repeats the password"
	}
	if len(text) > maxComplaint {
		text = strings.ToValidUTF8(text[:maxComplaint], "")
	}
	return errors.New(text)
}

// passedFile is how kadmin opens the file that it is passed beside its standard ones.
const (
	passedFile   = "/proc/self/fd/3"
	passedConfig = "/proc/self/fd/4"
)

// run has kadmin answer one query within the limit. The password goes through standard input, and
// files through descriptors: nothing secret is in an argument, in the environment or, under a name,
// on disk. file may be nil.
func (k *kadmin) run(ctx context.Context, query string, file *os.File) (said, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, k.limit, fmt.Errorf("no answer within %v: %w", k.limit, context.DeadlineExceeded))
	defer cancel()
	select {
	case k.turns <- struct{}{}:
		defer func() { <-k.turns }()
	case <-ctx.Done():
		return said{}, fmt.Errorf("wait for a turn: %w", context.Cause(ctx))
	}
	program, err := exec.LookPath(k.program)
	if err != nil {
		return said{}, fmt.Errorf("find kadmin (is this the image variant with tools?): %w", err)
	}
	config, err := k.config()
	if err != nil {
		return said{}, err
	}
	configPath := k.configFile
	if config != nil {
		defer config.Close()
		configPath = passedConfig
	}
	out, complaints := &boundedBuffer{}, &boundedBuffer{}
	cmd := exec.CommandContext(ctx, program, "-r", k.realm, "-p", k.admin, "-q", query)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "KRB5_CONFIG=" + configPath, "KRB5CCNAME=MEMORY:"}
	cmd.Dir = "/"
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(k.password+"\n"), out, complaints
	cmd.ExtraFiles = []*os.File{file, config} // nil ones are closed in the child
	// What kadmin may have started ends with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	begin := time.Now()
	err = cmd.Run()
	s := said{out: out.String(), err: complaints.String()}
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case errors.As(err, &exit):
		err = fmt.Errorf("kadmin: %w", k.refusal(s))
	case err != nil:
		err = fmt.Errorf("run kadmin: %w", err)
	}
	k.called.Tell(ctx, "kadmin "+query, begin, err)
	return s, err
}

// config returns a krb5.conf of our own, or nil if the given one names the realm. It is looked at
// each time, because a mounted ConfigMap may change.
func (k *kadmin) config() (*os.File, error) {
	text, err := os.ReadFile(k.configFile)
	names := regexp.MustCompile(`(?m)^\s*` + regexp.QuoteMeta(k.realm) + `\s*=`)
	if err == nil && names.Match(text) {
		return nil, nil
	}
	host := k.kdcHost
	admin := strings.TrimSuffix(host, portOf(host))
	file, err := namelessFile([]byte("[libdefaults]\n default_realm = " + k.realm + "\n dns_lookup_kdc = false\n dns_lookup_realm = false\n" +
		" dns_canonicalize_hostname = false\n[realms]\n " + k.realm + " = {\n  kdc = " + host + "\n  admin_server = " + admin + "\n }\n"))
	if err != nil {
		return nil, fmt.Errorf("write krb5.conf: %w", err)
	}
	return file, nil
}

var portRule = regexp.MustCompile(`:\d+\z`)

// portOf is the :port at the end of an address, which New has checked; "" if there is none.
func portOf(address string) string { return portRule.FindString(address) }

// namelessFile makes a file that has no name any more, so that it is gone with its last descriptor
// whatever happens to the process.
func namelessFile(content []byte) (*os.File, error) {
	file, err := os.CreateTemp("", "config-server-krb5-")
	if err != nil {
		return nil, err
	}
	err = os.Remove(file.Name())
	if err == nil {
		_, err = file.Write(content)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

func readAll(file *os.File) ([]byte, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	content := make([]byte, min(info.Size(), maxSaid))
	n, err := file.ReadAt(content, 0)
	if n < len(content) {
		return nil, err
	}
	return content, nil
}

// boundedBuffer keeps the first maxSaid bytes and lets the rest go, so that the writer never blocks.
type boundedBuffer struct{ kept bytes.Buffer }

func (b *boundedBuffer) Write(p []byte) (int, error) {
	room := maxSaid - b.kept.Len()
	b.kept.Write(p[:min(len(p), room)])
	return len(p), nil
}

func (b *boundedBuffer) String() string { return b.kept.String() }
