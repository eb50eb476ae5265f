package audit_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"config-server/internal/audit"
	"config-server/internal/farm"
)

// run gives a finding's command to a real shell, with stand-ins for openssl and sudo in its PATH.
func run(t *testing.T, f audit.Finding, stdin string) {
	t.Helper()
	tools := t.TempDir()
	for name, text := range map[string]string{
		"openssl": "#!/bin/sh\necho '$6$salt$new'\n",
		"ssh":     "#!/bin/sh\nfor last; do :; done\nexec sh -c \"$last\"\n",
		"sudo":    "#!/bin/sh\n[ \"$1\" = chown ] && exec true\nexec \"$@\"\n",
	} {
		if err := os.WriteFile(filepath.Join(tools, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	command := exec.CommandContext(t.Context(), "/bin/sh", "-c", f.Remedy)
	command.Env = []string{"PATH=" + tools + ":" + os.Getenv("PATH")}
	command.Stdin = strings.NewReader(stdin)
	if out, err := command.CombinedOutput(); err != nil {
		t.Logf("%s: %v\n%s", f.Remedy, err, out)
	}
}

// mended finds one fault, runs its command twice, and returns the file afterwards.
func mended(t *testing.T, kind audit.Kind, file, text string, breaks func(in *audit.Input)) string {
	t.Helper()
	in := whole()
	in.Places.Share = t.TempDir()
	path := filepath.Join(in.Places.Share, file)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	breaks(&in)
	for _, f := range audit.Compare(in).Findings {
		if f.Kind == kind {
			run(t, f, "")
			run(t, f, "")
			after, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			return string(after)
		}
	}
	t.Fatalf("no %s was found", kind)
	return ""
}

func TestCommandsMendTheShare(t *testing.T) {
	t.Parallel()
	member := func(name farm.UserName) func(in *audit.Input) {
		return func(in *audit.Input) { in.Groups[3].Members = append(in.Groups[3].Members, name) }
	}
	for name, tc := range map[string]struct {
		kind         audit.Kind
		file         string
		before, want string
		breaks       func(in *audit.Input)
	}{
		"the only member goes":            {audit.MemberOfNothing, "group", "team:x:20002:gone\nteam2:x:3:gone\n", "team:x:20002:\nteam2:x:3:gone\n", member("gone")},
		"the first member goes":           {audit.MemberOfNothing, "group", "team:x:20002:gone,lee\n", "team:x:20002:lee\n", member("gone")},
		"the last member goes":            {audit.MemberOfNothing, "group", "team:x:20002:kim,gone\n", "team:x:20002:kim\n", member("gone")},
		"the middle member goes":          {audit.MemberOfNothing, "group", "team:x:20002:kim,gone,lee\n", "team:x:20002:kim,lee\n", member("gone")},
		"a longer name stays":             {audit.MemberOfNothing, "group", "team:x:20002:goner,gone,bygone\n", "team:x:20002:goner,bygone\n", member("gone")},
		"a name with a dot is no pattern": {audit.MemberOfNothing, "group", "team:x:20002:gone,g.ne\n", "team:x:20002:gone\n", member("g.ne")},
		"a password line goes": {audit.ShadowOfNobody, "shadow", "goner:*:1::::::\ngone:$6$a$b:1::::::\nkim:*:1::::::\n", "goner:*:1::::::\nkim:*:1::::::\n",
			func(in *audit.Input) { in.Shadow = append(in.Shadow, "gone") }},
		"a name that a shell would like": {audit.ShadowOfNobody, "shadow", "kim:*:\n$(id)'x:*:\n", "kim:*:\n",
			func(in *audit.Input) { in.Shadow = append(in.Shadow, "$(id)'x") }},
		"a group is added once": {audit.NoPrimaryGroup, "group", "kim:x:20000:\n", "kim:x:20000:\nlee:x:20001:\n",
			func(in *audit.Input) { in.Groups = append(in.Groups[:2:2], in.Groups[3]) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := mended(t, tc.kind, tc.file, tc.before, tc.breaks); got != tc.want {
				t.Errorf("got\n%swant\n%s", got, tc.want)
			}
		})
	}
}

func TestANewPasswordLineIsWrittenOnce(t *testing.T) {
	t.Parallel()
	got := mended(t, audit.NoShadow, "shadow", "kim:*:1:0:99999:7:::\n", func(in *audit.Input) { in.Shadow = in.Shadow[:2] })
	if !strings.HasPrefix(got, "kim:*:1:0:99999:7:::\nlee:$6$salt$new:") || strings.Count(got, "lee:") != 1 || !strings.HasSuffix(got, ":0:99999:7:::\n") {
		t.Errorf("got\n%s", got)
	}
}

// The commands on the NAS look first: they make what is absent and remove only what a person names.
func TestCommandsOnTheNASLookFirst(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		kind   audit.Kind
		breaks func(in *audit.Input)
		home   string // made beforehand, with a file in it
		stdin  string
		stands string
		want   bool
	}{
		"an absent home is made":               {audit.NoHome, func(in *audit.Input) { delete(in.Homes, "lee") }, "", "", "lee", true},
		"a home that came meanwhile is left":   {audit.NoHome, func(in *audit.Input) { delete(in.Homes, "lee") }, "lee", "", "lee/file", true},
		"a home of nobody stays without yes":   {audit.HomeOfNobody, func(in *audit.Input) { in.Homes["gone"] = 5000 }, "gone", "yes\n", "gone/file", true},
		"a home of nobody stays unasked":       {audit.HomeOfNobody, func(in *audit.Input) { in.Homes["gone"] = 5000 }, "gone", "", "gone/file", true},
		"a home of nobody goes when named":     {audit.HomeOfNobody, func(in *audit.Input) { in.Homes["gone"] = 5000 }, "gone", "gone\n", "gone", false},
		"a home of somebody else is only seen": {audit.ForeignHome, func(in *audit.Input) { in.Homes["lee"] = 20000 }, "lee", "lee\n", "lee/file", true},
		"a home of root that is in use stays":  {audit.ForeignHome, func(in *audit.Input) { in.Homes["lee"] = 0 }, "lee", "lee\n", "lee/file", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := whole()
			in.Places.NASShare = t.TempDir()
			if tc.home != "" {
				if err := os.Mkdir(filepath.Join(in.Places.NASShare, tc.home), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(in.Places.NASShare, tc.home, "file"), nil, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			tc.breaks(&in)
			found := audit.Compare(in).Findings
			if len(found) != 1 || found[0].Kind != tc.kind {
				t.Fatalf("found %+v", found)
			}
			run(t, found[0], tc.stdin)
			if _, err := os.Stat(filepath.Join(in.Places.NASShare, tc.stands)); (err == nil) != tc.want {
				t.Errorf("%s: %v, want it there: %v", tc.stands, err, tc.want)
			}
		})
	}
}

func TestTheTokenIsInNoArgumentList(t *testing.T) {
	t.Parallel()
	in := whole()
	in.Places.Token = true
	in.Pods[1].Phase = "Failed"
	got := audit.Compare(in).Findings[0].Remedy
	want := `printf 'X-Internal-Token: %s\n' "$API_TOKEN" | curl -sS -H @- -X POST http://127.0.0.1:8000/delete-pod -d '{"pod_name":"ailab-lee-0000000b"}'`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
