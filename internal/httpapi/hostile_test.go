package httpapi_test

import (
	"fmt"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// bodied are the endpoints that take a body, each with one that it accepts.
var bodied = []struct{ method, path, good string }{
	{"POST", "/create-pod", `{"username":"user2100"}`},
	{"POST", "/delete-pod", `{"pod_name":"ailab-user2100-1a2b3c4d"}`},
	{"POST", "/migrate", `{"username":"user2100","nodes":["farm5"]}`},
	{"PUT", "/accounts/users", `{"name":"user2100","passwd_base64":"YQ=="}`},
	{"PUT", "/accounts/users/user2100/groups", `{"groups":["a"]}`},
	{"PUT", "/accounts/groups", `{"name":"a"}`},
}

// No body that cannot be read as a JSON object reaches a use case; each is 400 in the family's shape.
func TestUnreadableBodies(t *testing.T) {
	t.Parallel()
	bodies := []struct{ name, text string }{
		{"nothing", ""},
		{"white space", " \n"},
		{"text", "nonsense"},
		{"HTML", "<html>"},
		{"a string", `"username"`},
		{"a number", "5"},
		{"a bool", "true"},
		{"null", "null"},
		{"a list", `[{"username":"user2100"}]`},
		{"an open object", `{"username":"user2100"`},
		{"text behind the object", `{"username":"user2100"} x`},
		{"two objects", `{"username":"user2100"}{}`},
		{"a comma too many", `{"username":"user2100",}`},
		{"single quotes", `{'username':'user2100'}`},
		{"no UTF-8", "{\"username\":\"\xff\xfe\"}"},
		{"a byte order mark", "\xef\xbb\xbf{}"},
		{"a raw control character", "{\"username\":\"a\x00b\"}"},
		{"NaN", `{"username":NaN}`},
		{"nested beyond reason", strings.Repeat(`{"a":`, 20000)},
		{"UTF-16", "{\x00}\x00"},
	}
	for _, e := range bodied {
		for _, b := range bodies {
			t.Run(e.path+" "+b.name, func(t *testing.T) {
				t.Parallel()
				s := newService()
				got := s.described(t, e.method, e.path, b.text)
				if got.Status != 400 {
					t.Errorf("status is %d: %s", got.Status, got.Text)
				}
				checkFamily(t, e.path, got)
				if worked := s.worked(); len(worked) > 0 {
					t.Errorf("a use case was asked: %v", worked)
				}
			})
		}
	}
}

// The Content-Type of a request does not matter.
func TestContentTypeDoesNotMatter(t *testing.T) {
	t.Parallel()
	for _, e := range bodied {
		for _, kind := range []string{"", "text/plain", "application/x-www-form-urlencoded", "application/json; charset=utf-8", "nonsense"} {
			t.Run(e.path+" "+kind, func(t *testing.T) {
				t.Parallel()
				req := newRequest(e.method, e.path, e.good)
				if kind != "" {
					req.Header.Set("Content-Type", kind)
				}
				if got := newService().send(req); got.Status >= 300 {
					t.Errorf("%d %s", got.Status, got.Text)
				}
			})
		}
	}
}

func TestBodyLimit(t *testing.T) {
	t.Parallel()
	const limit = 1 << 20
	for _, e := range bodied {
		fill := func(size int) string { return e.good + strings.Repeat(" ", size-len(e.good)) }
		t.Run(e.path+" at the limit", func(t *testing.T) {
			t.Parallel()
			if got := newService().described(t, e.method, e.path, fill(limit)); got.Status >= 300 {
				t.Errorf("%d %s", got.Status, got.Text)
			}
		})
		t.Run(e.path+" over the limit", func(t *testing.T) {
			t.Parallel()
			s := newService()
			got := s.described(t, e.method, e.path, fill(limit+1))
			if got.Status != 413 {
				t.Errorf("%d %s", got.Status, got.Text)
			}
			checkFamily(t, e.path, got)
			if worked := s.worked(); len(worked) > 0 {
				t.Errorf("a use case was asked: %v", worked)
			}
		})
	}
}

// Methods that need no body have the same limit, and do nothing when it is passed.
func TestBodyLimitWhereNobodyReads(t *testing.T) {
	t.Parallel()
	const limit = 1 << 20
	for _, c := range []struct{ method, path string }{
		{"GET", "/accounts/users"}, {"DELETE", "/accounts/users/kim"}, {"DELETE", "/accounts/groups/ailab"}, {"GET", "/readyz"}, {"GET", "/nothing"},
	} {
		for _, size := range []struct {
			name    string
			bytes   int
			unknown bool // the caller does not say how long it is
			want413 bool
		}{
			{"at the limit", limit, false, false}, {"at the limit, of unknown length", limit, true, false},
			{"over the limit", limit + 1, false, true}, {"over the limit, of unknown length", limit + 1, true, true},
		} {
			t.Run(c.method+" "+c.path+" "+size.name, func(t *testing.T) {
				t.Parallel()
				s := newService()
				req := newRequest(c.method, c.path, strings.Repeat(" ", size.bytes))
				if size.unknown {
					req.ContentLength = -1
				}
				got := s.send(req)
				if (got.Status == 413) != size.want413 {
					t.Errorf("%d %s", got.Status, got.Text)
				}
				if worked := s.worked(); size.want413 && len(worked) > 0 {
					t.Errorf("a use case was asked: %v", worked)
				}
			})
		}
	}
}

// checkFamily looks whether an error has the shape of its route's family.
func checkFamily(t *testing.T, path string, got answer) {
	t.Helper()
	body := got.object(t)
	_, hasStep := body["step"]
	_, hasProgress := body["progress"].(map[string]any)
	if pod := strings.HasSuffix(path, "-pod"); hasStep != pod || hasProgress != pod {
		t.Errorf("not the family of %s: %s", path, got.Text)
	}
	if text, _ := body["error"].(string); text == "" {
		t.Errorf("no error: %s", got.Text)
	}
}

// impossible are names that can stand in no ledger and no cluster.
var impossible = []string{
	"", ".", "..", "a/b", "../../etc", "/", "a,b", "a:b", "a b", "a\tb", "a\nb", "a\rb", "a\x00b", "\x7f", "\u00a0", "\u2028", "a/", "/a",
	strings.Repeat("x", 256),
}

// A name in a path that cannot exist is 400 on every endpoint that takes one, never 404: callers
// read 404 on DELETE as "already gone".
func TestImpossibleNamesInPaths(t *testing.T) {
	t.Parallel()
	endpoints := []struct{ method, before, after, body string }{
		{"GET", "/accounts/users/", "", ""},
		{"DELETE", "/accounts/users/", "", ""},
		{"PUT", "/accounts/users/", "/groups", `{"groups":["a"]}`},
		{"DELETE", "/accounts/groups/", "", ""},
	}
	for _, e := range endpoints {
		for _, name := range impossible {
			t.Run(fmt.Sprintf("%s %s%q%s", e.method, e.before, name, e.after), func(t *testing.T) {
				t.Parallel()
				s := newService()
				got := s.call(e.method, e.before+url.PathEscape(name)+e.after, e.body)
				if got.Status != 400 {
					t.Errorf("%d %s", got.Status, got.Text)
				}
				got.object(t)
				if worked := s.worked(); len(worked) > 0 {
					t.Errorf("a use case was asked: %v", worked)
				}
			})
		}
	}
}

func TestHostilePaths(t *testing.T) {
	t.Parallel()
	cases := []struct {
		method, path string
		status       int
	}{
		{"DELETE", "/accounts/users/a/b", 400},
		{"DELETE", "/accounts/users//a", 400},
		{"DELETE", "/accounts/users/a/", 400},
		{"DELETE", "/accounts/users/", 400},
		{"DELETE", "/accounts/users/a/groups", 400},
		{"DELETE", "/accounts/groups/a/b", 400},
		{"DELETE", "/accounts/groups/", 400},
		{"GET", "/accounts/users/..%2f..%2fetc", 400},
		{"GET", "/accounts/users/%2e%2e", 400},
		{"PUT", "/accounts/users//groups", 400},
		{"PUT", "/accounts/users/groups", 400},
		{"PUT", "/accounts/users/a/b/groups", 400},
		{"PUT", "/accounts/users/a", 405},
		{"PUT", "/accounts/users/a/b", 405},
		{"GET", "//accounts/users", 404},
		{"DELETE", "/accounts/users", 405},
	}
	for _, c := range cases {
		t.Run(c.method+" "+c.path, func(t *testing.T) {
			t.Parallel()
			s := newService()
			got := s.call(c.method, c.path, `{"groups":["a"]}`)
			if got.Status != c.status {
				t.Errorf("status is %d, want %d: %s", got.Status, c.status, got.Text)
			}
			got.object(t)
			if worked := s.worked(); len(worked) > 0 {
				t.Errorf("a use case was asked: %v", worked)
			}
		})
	}
}

// Names are unescaped exactly once, however the client wrote them.
func TestNamesInPathsAreUnescapedOnce(t *testing.T) {
	t.Parallel()
	cases := []struct{ path, want string }{
		{"/accounts/users/user2100", "user user2100"},
		{"/accounts/users/%75ser2100", "user user2100"},
		{"/accounts/users/20231234", "user 20231234"},
		{"/accounts/users/%ED%99%8D", "user 홍"},
		{"/accounts/users/a%2541", "user a%41"},
		{"/accounts/users/a%2541%21", "user a%41!"},
		{"/accounts/users/a%2Bb+c", "user a+b+c"},
		{"/accounts/users/a%3Fb", "user a?b"},
		{"/accounts/users/a%23b?x=y", "user a#b"},
		{"/accounts/users/a%25", "user a%"},
	}
	for _, c := range cases {
		t.Run(c.path, func(t *testing.T) {
			t.Parallel()
			s := newService()
			if got := s.call("GET", c.path, ""); got.Status != 200 {
				t.Errorf("%d %s", got.Status, got.Text)
			}
			if worked := s.worked(); !slices.Equal(worked, []string{c.want}) {
				t.Errorf("use cases asked: %q", worked)
			}
		})
	}
}

// A name that no pod can bear is 400 before a use case is asked.
func TestImpossibleNamesInBodies(t *testing.T) {
	t.Parallel()
	names := append(slices.Clone(impossible[1:]), "_a", "a_", "a-", "-a", "A", "a.b", "홍길동", strings.Repeat("a", 60), "$(id)", "a;b", "a'b")
	for _, name := range names {
		quoted := quoteJSON(name)
		for _, body := range []struct{ path, text string }{
			{"/create-pod", `{"username":` + quoted + `}`},
			{"/migrate", `{"username":` + quoted + `,"nodes":["farm5"]}`},
			{"/delete-pod", `{"pod_name":` + quoted + `}`},
		} {
			t.Run(fmt.Sprintf("%s %q", body.path, name), func(t *testing.T) {
				t.Parallel()
				s := newService()
				got := s.described(t, "POST", body.path, body.text)
				if got.Status != 400 {
					t.Errorf("%d %s", got.Status, got.Text)
				}
				checkFamily(t, body.path, got)
				if worked := s.worked(); len(worked) > 0 {
					t.Errorf("a use case was asked: %v", worked)
				}
			})
		}
	}
}

// FuzzBody: whatever the body, an endpoint answers JSON in its family's shape and never 5xx.
func FuzzBody(f *testing.F) {
	for i, e := range bodied {
		f.Add(i, []byte(e.good))
	}
	f.Add(3, []byte(`{"name":"x","passwd_base64":"YQ==","supplementary_groups":[{"name":"a","gid":1e3}]}`))
	f.Add(5, []byte(`{"name":"x","gid":"\ud800","members":[null]}`))
	f.Fuzz(func(t *testing.T, endpoint int, body []byte) {
		e := bodied[abs(endpoint)%len(bodied)]
		got := newService().send(httptest.NewRequest(e.method, e.path, strings.NewReader(string(body))))
		if got.Status >= 500 {
			t.Fatalf("%s %s %q: %d %s", e.method, e.path, body, got.Status, got.Text)
		}
		got.object(t)
		if got.Status >= 400 {
			checkFamily(t, e.path, got)
		}
	})
}

// FuzzPathName: whatever the name in a path, the answer is JSON, and the use case sees either
// nothing or a name that can stand in a ledger.
func FuzzPathName(f *testing.F) {
	for _, name := range impossible {
		f.Add(name)
	}
	f.Add("user2100")
	f.Fuzz(func(t *testing.T, name string) {
		s := newService()
		got := s.call("DELETE", "/accounts/users/"+url.PathEscape(name), "")
		got.object(t)
		if got.Status != 200 && got.Status != 400 {
			t.Fatalf("%q: %d %s", name, got.Status, got.Text)
		}
		if worked := s.worked(); len(worked) > 0 && worked[0] != "delete user "+name {
			t.Fatalf("%q became %q", name, worked)
		}
	})
}

func abs(n int) int { return max(n, -(n + 1)) }
