package remote

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
)

func newECDSAKey(t *testing.T) ssh.Signer {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatalf("generate key: %v", err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatalf("signer: %v", err)
	}
	return signer
}

// hostileArguments is what a shell would like to misread.
var hostileArguments = []string{
	"", " ", "a b", "$HOME", "$(id)", "`id`", "a;id", "a&&id", "a|id", "a>b", "a<b", "*", "?", "[a]", "{a,b}", "~", "~root",
	"'", `"`, `\`, `\'`, "''", "'; id; '", "a\nb", "\n", "\t", "#x", "!x", "=ls", "A=b", "-rf", "--", "한글", "\xff\xfe", "\x01", "%s", "a'b\"c`d$e",
}

func TestQuoteKeepsPlainWordsAndQuotesTheRest(t *testing.T) {
	t.Parallel()
	cases := []struct {
		argv []string
		want string
	}{
		{[]string{"sudo", "chown", "20001:20001", "/volume1/share/user/kim"}, "sudo chown 20001:20001 /volume1/share/user/kim"},
		{[]string{"stat", "-c", "%u", "/volume1/share/user/kim"}, "stat -c %u /volume1/share/user/kim"},
		{[]string{""}, "''"},
		{[]string{"it's"}, `'it'\''s'`},
		{[]string{"a", "$b"}, "a '$b'"},
		{nil, ""},
	}
	for _, c := range cases {
		if got := Quote(c.argv...); got != c.want {
			t.Errorf("Quote(%q) = %s, want %s", c.argv, got, c.want)
		}
	}
}

func TestShellSplitsIntoTheSameArguments(t *testing.T) {
	t.Parallel()
	if got := shellSplit(t, hostileArguments); !slices.Equal(got, hostileArguments) {
		t.Errorf("the shell saw\n%q\nwant\n%q", got, hostileArguments)
	}
}

// shellSplit lets a real shell split the quoted arguments.
func shellSplit(t *testing.T, argv []string) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "/bin/sh", "-c", `printf '%s\0' `+Quote(argv...)).Output()
	if err != nil {
		t.Fatalf("sh: %v", err)
	}
	return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
}

func FuzzQuote(f *testing.F) {
	for _, arg := range hostileArguments {
		f.Add(arg, "x")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		argv := []string{a, b}
		if strings.ContainsRune(a+b, 0) {
			if _, err := commandLine(argv); err == nil {
				t.Fatal("NUL was accepted")
			}
			return
		}
		if got := shellSplit(t, argv); !slices.Equal(got, argv) {
			t.Fatalf("the shell saw %q, want %q", got, argv)
		}
	})
}
