package farm_test

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"config-server/internal/farm"
)

func TestNameRules(t *testing.T) {
	t.Parallel()
	long32, long33 := strings.Repeat("a", 32), strings.Repeat("a", 33)
	for _, tc := range []struct {
		what                     string
		name                     string
		isNew, possible, command bool
		pod                      bool
	}{
		{"plain", "user2100", true, true, true, true},
		{"underscore inside", "a_b", true, true, true, true},
		{"begins with underscore", "_svc", true, true, true, false},
		{"ends in underscore", "a_", true, true, true, false},
		{"ends in dash", "a-", true, true, true, false},
		{"longest new name", long32, true, true, true, true},
		{"one too long for a new name", long33, false, true, true, true},
		{"forty characters, as the original let in", strings.Repeat("b", 40), false, true, true, true},
		{"longest that gives a pod", strings.Repeat("c", 48), false, true, true, true},
		{"too long for a pod", strings.Repeat("c", 49), false, true, true, false},
		{"student number", "20231234", false, true, true, true},
		{"capitals", "Alice", false, true, true, false},
		{"a dot", "a.b", false, true, true, false},
		{"begins with a dot", ".ssh", false, true, false, false},
		{"begins with a dash", "-rf", false, true, false, false},
		{"korean", "홍길동", false, true, false, false},
		{"shell", "a;reboot", false, true, false, false},
		{"backslash", `dom\user`, false, true, false, false},
		{"empty", "", false, false, false, false},
		{"dot", ".", false, false, false, false},
		{"dots", "..", false, false, false, false},
		{"slash", "a/b", false, false, false, false},
		{"path", "../etc", false, false, false, false},
		{"comma", "a,b", false, false, false, false},
		{"colon", "a:b", false, false, false, false},
		{"space", "a b", false, false, false, false},
		{"no-break space", "a\u00a0b", false, false, false, false},
		{"newline at the end", "root\n", false, false, false, false},
		{"newline", "a\nb", false, false, false, false},
		{"carriage return", "a\rb", false, false, false, false},
		{"NUL", "a\x00b", false, false, false, false},
		{"escape", "a\x1b[2Jb", false, false, false, false},
		{"not UTF-8", "a\xff", false, false, false, false},
		{"huge", strings.Repeat("x", 300), false, false, true, false},
	} {
		t.Run(tc.what, func(t *testing.T) {
			t.Parallel()
			for rule, got := range map[string][2]bool{
				"new":         {farm.CheckNew(tc.name) == nil, tc.isNew},
				"possible":    {farm.CheckPossible(tc.name) == nil, tc.possible},
				"commandable": {farm.UserName(tc.name).Commandable(), tc.command},
				"pod":         {farm.UserName(tc.name).CheckPod() == nil, tc.pod},
			} {
				if got[0] != got[1] {
					t.Errorf("%s(%q) = %v, want %v", rule, tc.name, got[0], got[1])
				}
			}
			if err := farm.CheckNew(tc.name); err != nil && !errors.Is(err, farm.ErrBadName) {
				t.Errorf("%v does not wrap ErrBadName", err)
			}
		})
	}
}

func TestObjectNames(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ what, got, want string }{
		{"pod", string(farm.NewPodName("user2100", [4]byte{0xde, 0xad, 0xbe, 0xef})), "ailab-user2100-deadbeef"},
		{"pod of a name with underscore", string(farm.NewPodName("a_b", [4]byte{0, 0, 0, 1})), "ailab-a-b-00000001"},
		{"Service", farm.ServiceName("user2100", "ssh", 30000), "ailab-user2100-ssh-30000"},
		{"Service of a name with underscore", farm.ServiceName("a_b", "jupyter", 30001), "ailab-a-b-jupyter-30001"},
		{"Secret", farm.SecretName("krb5-keytab", "user2100"), "krb5-keytab-user2100"},
		{"plain purpose", farm.PurposeLabel("tensorboard"), "tensorboard"},
		{"plain purpose of 15", farm.PurposeLabel("abcdefghijklmno"), "abcdefghijklmno"},
	} {
		if tc.got != tc.want {
			t.Errorf("%s: %q, want %q", tc.what, tc.got, tc.want)
		}
	}
	if a, b := farm.SecretName("k", "a_b"), farm.SecretName("k", "a-b"); a == b || b != "k-a-b" || !strings.HasPrefix(a, "k-a-b-") || len(a) != len("k-a-b-")+8 {
		t.Errorf("Secrets of a_b and a-b: %q, %q", a, b)
	}
}

var label = regexp.MustCompile(`\A[a-z0-9]([a-z0-9-]*[a-z0-9])?\z`)

// checkDerived holds for any purpose and any user that can have a pod.
func checkDerived(t *testing.T, user farm.UserName, purpose string, port int) {
	t.Helper()
	name := farm.PurposeLabel(purpose)
	if len(name) > farm.MaxPlainPurpose || !label.MatchString(name) {
		t.Errorf("PurposeLabel(%q) = %q is no port name", purpose, name)
	}
	if !farm.IsLabelValue(name) {
		t.Errorf("PurposeLabel(%q) = %q is no label value", purpose, name)
	}
	service := farm.ServiceName(user, purpose, port)
	if len(service) > farm.MaxLabel || !label.MatchString(service) || !strings.HasSuffix(service, fmt.Sprintf("-%d", port)) {
		t.Errorf("ServiceName(%q, %q, %d) = %q", user, purpose, port, service)
	}
}

func TestDerivedNamesAreValid(t *testing.T) {
	t.Parallel()
	for _, user := range []farm.UserName{"u", "a_b", farm.UserName(strings.Repeat("z", 48)), "20231234"} {
		for _, purpose := range []string{
			"ssh", "텐서보드", "Jupyter Notebook", "a b", "-", "--a--", "", " ", "🙂", strings.Repeat("x", 400), "UPPER", "tensor_board", "1", "a\nb", "../x",
		} {
			checkDerived(t, user, purpose, 30000)
			checkDerived(t, user, purpose, 32767)
		}
	}
	if farm.PurposeLabel("텐서보드") == farm.PurposeLabel("노트북") || farm.PurposeLabel("A b") == farm.PurposeLabel("a b") {
		t.Error("different purposes give the same label")
	}
}

func FuzzDerivedNames(f *testing.F) {
	f.Add("user2100", "텐서보드", uint16(7))
	f.Add("a_b", "a--b--c--d--e--f", uint16(2767))
	f.Fuzz(func(t *testing.T, user, purpose string, offset uint16) {
		if farm.UserName(user).CheckPod() != nil {
			return
		}
		checkDerived(t, farm.UserName(user), purpose, 30000+int(offset%2768))
	})
}

func FuzzNameRules(f *testing.F) {
	for _, seed := range []string{"user2100", "..", "a\nb", "-rf", "홍", "a:b", "_x", "A"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		user := farm.UserName(name)
		isNew, possible := farm.CheckNew(name) == nil, farm.CheckPossible(name) == nil
		if isNew && (!possible || !user.Commandable()) {
			t.Errorf("%q may be made but not used", name)
		}
		if possible && strings.ContainsAny(name, ":/,\n\r\x00 \t") {
			t.Errorf("%q has a separator and is called possible", name)
		}
		if user.Commandable() && strings.ContainsAny(name, " ;&|<>$`\"'\\*?[]{}()!#~\n\r\x00/") {
			t.Errorf("%q may be in a command", name)
		}
		if user.CheckPod() == nil {
			pod := farm.NewPodName(user, [4]byte{1, 2, 3, 4})
			if err := farm.CheckPodName(string(pod)); err != nil || !farm.IsLabelValue(name) {
				t.Errorf("%q gives the pod name %q: %v", name, pod, err)
			}
		}
	})
}

func TestWantedPorts(t *testing.T) {
	t.Parallel()
	got := farm.WantedPorts([]farm.PortWant{
		{Internal: 6006, Purpose: "tensorboard"}, {Internal: 22, Purpose: "again"}, {Internal: 8888, Purpose: "again"},
		{Internal: 6006, Purpose: "second"}, {Internal: 9000, Purpose: "custom"},
	})
	if want := "[{22 ssh} {8888 jupyter} {6006 tensorboard} {9000 custom}]"; fmt.Sprint(got) != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

func TestIDs(t *testing.T) {
	t.Parallel()
	for id, want := range map[farm.ID][2]bool{ // in the band, of the base system
		0: {false, true}, 999: {false, true}, 1000: {false, false}, 19999: {false, false}, 20000: {true, false},
		65533: {true, false}, 65534: {false, true}, 65535: {false, false}, 65536: {true, false},
		2000000000: {true, false}, 2000000001: {false, false}, -1: {false, true},
	} {
		if got := [2]bool{id.InBand(), id.IsBase()}; got != want {
			t.Errorf("%d: in band, base = %v, want %v", id, got, want)
		}
	}
}
