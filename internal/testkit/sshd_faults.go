package testkit

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// SSHFault is what happens to a command in place of, or after, its run.
type SSHFault struct {
	Contains string // the commands it hits are those with this text; "" = all
	Times    int    // how many it hits; 0 = all
	After    bool   // the command runs first: its effect is there, its answer is not
	// One of the following; none of them is exit status 0 without an answer.
	Exit   int    // exit status
	Stderr string // text on standard error, before anything else
	Hang   bool   // no answer, ever
	Drop   bool   // the connection breaks, with all its sessions
}

// Fail makes the server treat commands as the faults say, the first that fits winning, until Fail is
// called again. Without faults it is well again.
func (s *SSHDServer) Fail(t testing.TB, faults ...SSHFault) {
	t.Helper()
	folder := filepath.Join(s.dir, "faults")
	old, err := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range old {
		if err := os.RemoveAll(path); err != nil {
			t.Fatalf("forget the faults of the ssh server: %v", err)
		}
	}
	var rules strings.Builder
	for i, fault := range faults {
		rules.WriteString(fault.rule(i))
	}
	// Renamed into place, so that a session never reads half of the rules.
	draft := filepath.Join(s.dir, "rules.draft")
	if err := os.WriteFile(draft, []byte(rules.String()), 0o644); err != nil {
		t.Fatalf("write the faults of the ssh server: %v", err)
	}
	if err := os.Rename(draft, filepath.Join(folder, "rules")); err != nil {
		t.Fatalf("write the faults of the ssh server: %v", err)
	}
}

// rule is the fault as shell text, run by the session with the command in $SSH_ORIGINAL_COMMAND.
func (f SSHFault) rule(number int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "hit%d() {\n", number)
	fmt.Fprintf(&b, "  case \"$SSH_ORIGINAL_COMMAND\" in *%s*) ;; *) return 1 ;; esac\n", shellQuote(f.Contains))
	if f.Times > 0 {
		// Making a folder succeeds for one session only, so that crossing sessions count right.
		fmt.Fprintf(&b, "  n=0\n  while [ $n -lt %d ]; do mkdir \"$faults/hit%d.$n\" 2>/dev/null && return 0; n=$((n+1)); done\n  return 1\n", f.Times, number)
	}
	fmt.Fprintf(&b, "}\nif hit%d; then\n", number)
	if f.After {
		b.WriteString("  \"$answer\" >/dev/null\n")
	}
	if f.Stderr != "" {
		fmt.Fprintf(&b, "  printf '%%s\\n' %s >&2\n", shellQuote(f.Stderr))
	}
	switch {
	case f.Hang:
		b.WriteString("  exec sleep infinity\n")
	case f.Drop:
		// The nearest ancestor named sshd is the connection's own server process; shells may lie between.
		b.WriteString("  pid=$PPID\n  until [ \"$(cat /proc/$pid/comm)\" = sshd ]; do pid=$(sed 's/.*) . //; s/ .*//' /proc/$pid/stat); done\n  kill -9 $pid\n  exec sleep infinity\n")
	}
	fmt.Fprintf(&b, "  exit %d\nfi\n", f.Exit)
	return b.String()
}

// shellQuote quotes text for a POSIX shell.
func shellQuote(text string) string {
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
