package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"config-server/internal/testkit"
	"config-server/internal/testkit/world"
)

// hostileName is a name that nobody may get. Impossible ones are 400 everywhere; the others could
// stand in an old ledger, so that asking for them may be 404, and making them is 400.
type hostileName struct {
	text       string
	impossible bool
}

func hostileNames() []hostileName {
	var names []hostileName
	for _, text := range []string{
		"", ".", "..", "../..", "../../etc/passwd", "/", "/etc", "a/b", "a/../b", "./a", "a/.", "..\\..\\x",
		"a,b", "a:b", ":", "root:x:0:0", "a\nb:x:0:0::/:/bin/sh", "a\rb", "a\x00b", "\x00", "a\tb", "a b", " a", "a ", "\x1b[2J", "\x7f",
		"a\u00a0b", "a\u2028b", "a\u3000b", "a\u0085b", strings.Repeat("x", 256), strings.Repeat("한", 100),
		"$(reboot) x", "`id` x", "; rm -rf /volume1", "|| true", "& x", "> /etc/x",
	} {
		names = append(names, hostileName{text, text != "..\\..\\x"})
	}
	for _, text := range []string{
		"-rf", "--", "-", ".ssh", ".bashrc", "...", "Capital", "ROOT", "Root", "한글", "a\u200bb", "a\u202eb", "ａ", "e\u0301", "😀", "a.b", "1abc", "123", "0",
		"$(id)", "`id`", "$HOME", "${IFS}", "a;id", "a|id", "a&id", "a>x", "a<x", "a'b", `a"b`, `a\b`, "a*", "a?", "[a]", "{a}", "~", "~root", "!x", "#x", "a=b", "a@b", "a%b", "a+b",
		"%2e%2e", "%00", "..%2f", "a%0ab", strings.Repeat("x", 33), strings.Repeat("x", 64), strings.Repeat("x", 255),
	} {
		names = append(names, hostileName{text: text})
	}
	return names
}

// baseNames are accounts and groups of the base system: never made, changed, joined or given a pod.
var baseNames = []string{"root", "daemon", "bin", "nobody", "www-data", "_apt", "sudo", "nogroup", "users", "systemd-journal", "messagebus"}

// place is where a request has a name.
type place struct {
	name   string
	method string
	path   string // {} stands for the name, escaped
	body   string // {} stands for the name as a JSON string
	makes  bool   // it would make something of that name
}

// places lists every endpoint and field that takes a name. kim and team exist.
var places = []place{
	{"create-pod", "POST", "/create-pod", `{"username":{}}`, true},
	{"delete-pod", "POST", "/delete-pod", `{"pod_name":{}}`, true},
	{"migrate", "POST", "/migrate", `{"username":{},"nodes":["farm5"]}`, false},
	{"migrate, node", "POST", "/migrate", `{"username":"kim","nodes":[{}]}`, false},
	{"GET user", "GET", "/accounts/users/{}", "", false},
	{"DELETE user", "DELETE", "/accounts/users/{}", "", false},
	{"PUT user", "PUT", "/accounts/users", `{"name":{},"passwd_base64":"YQ=="}`, true},
	{"PUT user, primary group", "PUT", "/accounts/users", `{"name":"fine","passwd_base64":"YQ==","primary_group_name":{}}`, true},
	{"PUT user, further group", "PUT", "/accounts/users", `{"name":"fine","passwd_base64":"YQ==","supplementary_groups":[{"name":{},"gid":23456}]}`, true},
	{"PUT group", "PUT", "/accounts/groups", `{"name":{}}`, true},
	{"PUT group, member", "PUT", "/accounts/groups", `{"name":"fine","members":["kim",{}]}`, true},
	{"DELETE group", "DELETE", "/accounts/groups/{}", "", false},
	{"join, user", "PUT", "/accounts/users/{}/groups", `{"groups":["team"]}`, false},
	{"join, group", "PUT", "/accounts/users/kim/groups", `{"groups":[{}]}`, false},
}

func (p place) request(name string) (path, body string) {
	text, err := json.Marshal(name)
	if err != nil {
		panic(err) // a string is always JSON
	}
	return strings.Replace(p.path, "{}", url.PathEscape(name), 1), strings.Replace(p.body, "{}", string(text), 1)
}

// wants tells whether a status is right for a hostile name in this place.
func (p place) wants(name hostileName, status int) bool {
	switch {
	case p.name == "migrate, node": // a node is no name of ours: unknown, or kim has no pod
		return status == 400 || status == 404
	case p.name == "PUT user, primary group" && name.text == "":
		return status == 400 || status == 201 // empty may mean left out
	case name.impossible || p.makes:
		return status == 400
	}
	return status == 400 || status == 404
}

// hostileFarm is a farm with an account and a group, and folders of the machine that must not change.
func hostileFarm(t *testing.T) (*world.World, *testkit.ServiceProcess) {
	t.Helper()
	w := world.New(t, world.Options{})
	service := w.Service(t, nil)
	world.Call(t, service.URL, "PUT", "/accounts/users", world.UserBody("kim"), 201)
	world.Call(t, service.URL, "PUT", "/accounts/groups", `{"name":"team","members":["kim"]}`, 201)
	return w, service
}

// beside lists what stands beside share and homes: nothing may ever appear there.
func beside(t *testing.T, w *world.World) []string {
	t.Helper()
	var all []string
	for _, folder := range []string{filepath.Dir(w.Share), filepath.Dir(w.NAS.ShareDir)} {
		entries, err := os.ReadDir(folder)
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			info, err := entry.Info()
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, fmt.Sprint(folder, "/", entry.Name(), " ", info.Mode()))
		}
	}
	return all
}

// mayRun is what the NAS may be asked for: the contract's commands on one name below the share, and
// the look at the share itself.
func mayRun(share string) *regexp.Regexp {
	home := regexp.QuoteMeta(share) + `/[A-Za-z0-9_][A-Za-z0-9._-]*`
	return regexp.MustCompile(`\A(sudo (mkdir -p|chown \d+:\d+|chmod 700|rm -rf) ` + home + `|stat -c %u ` + home + `|ls -A ` + home + `|ls -n ` + regexp.QuoteMeta(share) + `)\z`)
}

func checkCommands(t *testing.T, w *world.World) {
	t.Helper()
	allowed := mayRun(w.NAS.Share)
	for _, command := range w.NAS.Commands(t) {
		if !allowed.MatchString(command) {
			t.Errorf("the NAS was sent %q", command)
		}
	}
}

func TestHostileNamesChangeNothingAnywhere(t *testing.T) {
	t.Parallel()
	w, service := hostileFarm(t)
	before, around := farmState(t, w), beside(t, w)
	w.NAS.ForgetCommands(t)
	asked := 0
	for _, p := range places {
		for _, name := range hostileNames() {
			if p.name == "PUT user, primary group" && name.text == "" {
				continue // a field that is left out
			}
			path, body := p.request(name.text)
			answer, err := world.Send(t.Context(), service.URL, p.method, path, body)
			asked++
			if err != nil {
				t.Fatalf("%s %q: %v", p.name, name.text, err)
			}
			if !p.wants(name, answer.Status) || answer.JSON == nil {
				t.Errorf("%s %q: %d %s", p.name, name.text, answer.Status, answer.Body)
			}
		}
	}
	wantSame(t, before, farmState(t, w))
	if now := beside(t, w); !slices.Equal(now, around) {
		t.Errorf("beside share and homes there is now %v, was %v", now, around)
	}
	if commands := w.NAS.Commands(t); len(commands) > 0 {
		t.Errorf("the NAS was sent %q", commands)
	}
	if len(w.AdminBE.Asked()) > 0 {
		t.Errorf("admin_be was asked for %q", w.AdminBE.Asked())
	}
	t.Logf("hostile: %d requests (%d names, %d places), 0 changes", asked, len(hostileNames()), len(places))
}

func TestHostileBaseAccountsStayAsTheyAre(t *testing.T) {
	t.Parallel()
	w, service := hostileFarm(t)
	before := farmState(t, w)
	w.NAS.ForgetCommands(t)
	for _, p := range places {
		for _, name := range baseNames {
			if p.name == "GET user" || p.name == "delete-pod" || p.name == "migrate, node" {
				continue // a look is allowed; and these take no names of accounts
			}
			path, body := p.request(name)
			answer, err := world.Send(t.Context(), service.URL, p.method, path, body)
			if err != nil {
				t.Fatalf("%s %q: %v", p.name, name, err)
			}
			// Names that are a group alone are no accounts, and the other way round.
			if answer.Status != 400 && answer.Status != 404 && answer.Status != 409 {
				t.Errorf("%s %q: %d %s", p.name, name, answer.Status, answer.Body)
			}
		}
	}
	for _, number := range []string{"0", "-1", "27", "999", "65534", "65535", "19999", "2000000001", "4294967296", "1e3", "20000.5", `"0"`, `"-5"`, `"20000x"`, "true", "{}", "[]", "99999999999999999999"} {
		for _, p := range []place{
			{"gid of a group", "PUT", "/accounts/groups", `{"name":"fine","gid":{}}`, true},
			{"gid of a further group", "PUT", "/accounts/users", `{"name":"fine","passwd_base64":"YQ==","supplementary_groups":[{"name":"mine","gid":{}}]}`, true},
		} {
			answer, err := world.Send(t.Context(), service.URL, p.method, p.path, strings.Replace(p.body, "{}", number, 1))
			if err != nil || answer.Status != 400 && answer.Status != 409 {
				t.Errorf("%s %s: %v %d %s", p.name, number, err, answer.Status, answer.Body)
			}
		}
	}
	wantSame(t, before, farmState(t, w))
	if commands := w.NAS.Commands(t); len(commands) > 0 {
		t.Errorf("the NAS was sent %q", commands)
	}
}

// The path as it is sent, without a client that tidies it up.
func TestHostilePathsAsTheyAreSent(t *testing.T) {
	t.Parallel()
	w, service := hostileFarm(t)
	before := farmState(t, w)
	address := strings.TrimPrefix(service.URL, "http://")
	for _, target := range []string{
		"/accounts/users/../../etc", "/accounts/users/..", "/accounts/users/.", "/accounts/users//", "/accounts/users/%2e%2e", "/accounts/users/%2E%2E%2Fetc",
		"/accounts/users/%00", "/accounts/users/a%00b", "/accounts/users/%0a", "/accounts/users/a%2fb", "/accounts/users/%252e%252e", "/accounts/users/%ff%fe", "/accounts/users/%zz",
		"/accounts/users/kim%2f..%2fkim", "/accounts/users/kim/", "/accounts/users/kim/../kim", "/accounts/users/;kim", "/accounts/users/kim;x=1", "/accounts//users/kim",
		"/accounts/groups/..", "/accounts/groups/%2e%2e", "/accounts/groups/a%2fb", "/accounts/groups//", "//accounts/groups/team", "/./accounts/groups/team", "/accounts/groups/team%20", "/accounts/groups/%20team",
	} {
		connection, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(connection, "DELETE %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", target)
		buffer := make([]byte, 512)
		n, _ := connection.Read(buffer)
		_ = connection.Close()
		fields := strings.Fields(string(buffer[:n]))
		if len(fields) < 2 {
			t.Errorf("%s: no answer", target)
			continue
		}
		if status, err := strconv.Atoi(fields[1]); err != nil || status < 300 || status >= 500 {
			t.Errorf("%s: %s", target, buffer[:n])
		}
		if decoded, err := url.PathUnescape(target); err == nil && strings.HasPrefix(target, "/accounts/users/") && strings.ContainsAny(strings.TrimPrefix(decoded, "/accounts/users/"), "/\x00\n") && fields[1] != "400" {
			t.Errorf("%s: %s, want 400", target, fields[1])
		}
	}
	wantSame(t, before, farmState(t, w))
	checkCommands(t, w)
}

// Names that the original let in stay usable, within what commands and objects can take.
func TestHostileLegacyNamesStayUsable(t *testing.T) {
	t.Parallel()
	w, service := hostileFarm(t)
	legacy := []struct {
		name  string
		pod   int // status of create-pod
		homed bool
	}{
		{"20231234", 201, true}, {strings.Repeat("l", 40), 201, true}, {strings.Repeat("m", 60), 400, true},
		{"Capital", 400, true}, {"dotted.name", 400, true}, {"한국", 400, false}, {"-dash", 400, false}, {".hidden", 400, false}, {"$(id)", 400, false},
	}
	for i, l := range legacy {
		uid := strconv.Itoa(21000 + i)
		appendTo(t, w.Share+"/passwd", l.name+":x:"+uid+":"+uid+"::/home/"+l.name+":/bin/bash\n")
		appendTo(t, w.Share+"/group", l.name+":x:"+uid+":\n")
		appendTo(t, w.Share+"/shadow", l.name+":!:1:0:99999:7:::\n")
		home := filepath.Join(w.NAS.ShareDir, l.name)
		if err := os.Mkdir(home, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(home, 21000+i, 21000+i); err != nil {
			t.Fatal(err)
		}
	}
	w.NAS.ForgetCommands(t)
	for _, l := range legacy {
		path := "/accounts/users/" + url.PathEscape(l.name)
		name, err := json.Marshal(l.name)
		if err != nil {
			t.Fatal(err)
		}
		world.Call(t, service.URL, "GET", path, "", 200)
		world.Call(t, service.URL, "PUT", path+"/groups", `{"groups":["team"]}`, 200)
		pod := world.Call(t, service.URL, "POST", "/create-pod", `{"username":`+string(name)+`}`, l.pod).Text("pod_name")
		if l.pod == 201 {
			world.Call(t, service.URL, "POST", "/delete-pod", `{"pod_name":"`+pod+`"}`, 200)
		}
		// A new account must keep the rule, whatever stands there.
		body := fmt.Sprintf(`{"name":%s,"passwd_base64":"YQ=="}`, name)
		if answer, err := world.Send(t.Context(), service.URL, http.MethodPut, "/accounts/users", body); err != nil || answer.Status != 400 && answer.Status != 409 {
			t.Errorf("PUT of %q: %v %d", l.name, err, answer.Status)
		}
		world.Call(t, service.URL, "DELETE", path, "", 200)
		if _, err := os.Stat(filepath.Join(w.NAS.ShareDir, l.name)); os.IsNotExist(err) != l.homed {
			t.Errorf("home of %q after the deletion: %v", l.name, err)
		}
		for file, text := range w.ShareFiles(t) {
			if slices.Contains([]string{"passwd", "group", "shadow"}, file) && strings.Contains("\n"+text, "\n"+l.name+":") {
				t.Errorf("%s still has %q", file, l.name)
			}
		}
	}
	checkCommands(t, w)
}

// Free text of admin_be reaches Service, port and label names in a valid form only.
func TestHostilePurposesNeverReachObjectNames(t *testing.T) {
	t.Parallel()
	w, service := hostileFarm(t)
	purposes := []string{"한글 포트", "a b", "UPPER", "-x-", "$(id)", "../..", strings.Repeat("p", 300), "\u202e", "a\nb", "'; DROP TABLE nodeport_allocations; --", "", "ssh"}
	var ports []any
	for i, purpose := range purposes {
		ports = append(ports, map[string]any{"internal_port": 5000 + i, "usage_purpose": purpose})
	}
	w.AdminBE.SetConfig("kim", map[string]any{"additional_ports": ports})
	answer := world.Call(t, service.URL, "POST", "/create-pod", `{"username":"kim"}`, 201)
	valid := regexp.MustCompile(`\A[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\z`)
	names := map[string]bool{}
	for _, s := range w.Services(t) {
		names[s.Name] = true
		if !valid.MatchString(s.Name) || !valid.MatchString(s.Spec.Ports[0].Name) || len(s.Spec.Ports[0].Name) > 15 {
			t.Errorf("Service %q port %q", s.Name, s.Spec.Ports[0].Name)
		}
	}
	if len(names) != len(purposes)+2 || len(w.Rows(t)) != len(purposes)+2 {
		t.Errorf("%d Services, %d rows, want %d", len(names), len(w.Rows(t)), len(purposes)+2)
	}
	world.Call(t, service.URL, "POST", "/delete-pod", `{"pod_name":"`+answer.Text("pod_name")+`"}`, 200)
	if len(w.Rows(t)) > 0 || len(w.Services(t)) > 0 {
		t.Error("rows or Services are left")
	}
}

// What is asked for all at once is no different.
func TestHostileNamesAllAtOnce(t *testing.T) {
	t.Parallel()
	w, service := hostileFarm(t)
	before := farmState(t, w)
	results := make(chan string)
	for _, p := range places {
		go func() {
			bad := ""
			for _, name := range hostileNames() {
				path, body := p.request(name.text)
				ctx, cancel := context.WithTimeout(t.Context(), testLimit)
				answer, err := world.Send(ctx, service.URL, p.method, path, body)
				cancel()
				if err != nil || answer.Status >= 500 {
					bad = fmt.Sprintf("%s %q: %v %d", p.name, name.text, err, answer.Status)
				}
			}
			results <- bad
		}()
	}
	for range places {
		if bad := <-results; bad != "" {
			t.Error(bad)
		}
	}
	after := farmState(t, w)
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if strings.HasPrefix(name, "homes/") && before[name] == "" && name != "homes/fine" {
			t.Errorf("%s was made", name)
		}
	}
	checkCommands(t, w)
}
