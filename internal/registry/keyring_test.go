package registry

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"config-server/internal/farm"
)

func TestImagesLogins(t *testing.T) {
	t.Parallel()
	const auths = `{"auths":{
		"registry.example.org":{"username":"all","password":"1"},
		"https://registry.example.org/v2/team":{"auth":"dGVhbTp0OnQ="},
		"registry.example.org/team/decs":{"username":"decs","password":"2","auth":"aWdub3JlZDp4"},
		"*.example.net:5000":{"username":"any","password":"3"},
		"eu.example.net:5000":{"username":"eu","password":"4"},
		"https://index.docker.io/v1/":{"username":"hub","password":"5"},
		"empty.example.org":{}},
		"credHelpers":{"x":"y"}}`
	var ring Keyring
	if err := ring.Add([]byte(auths)); err != nil {
		t.Fatal(err)
	}
	for image, want := range map[string][]Login{
		"registry.example.org/team/decs:1":     {{"decs", "2"}, {"team", "t:t"}, {"all", "1"}},
		"registry.example.org/team/base":       {{"team", "t:t"}, {"all", "1"}},
		"registry.example.org/teams/base":      {{"all", "1"}},
		"registry.example.org:5000/team/decs":  nil,
		"eu.example.net:5000/a":                {{"eu", "4"}, {"any", "3"}},
		"us.example.net:5000/a":                {{"any", "3"}},
		"a.us.example.net:5000/a":              nil,
		"us.example.net/a":                     nil,
		"debian:12":                            {{"hub", "5"}},
		"dguailab/decs:1.0":                    {{"hub", "5"}},
		"empty.example.org/a":                  nil,
		"evil-registry.example.org.attacker/a": nil,
	} {
		named, err := farm.ParseImage(image)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, ring.For(named), cmp.AllowUnexported(Login{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", image, diff)
		}
	}
}

// What cannot be read says so and shows nothing; the rest is used.
func TestImagesLoginsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	var ring Keyring
	for _, text := range []string{"", "s3cret", `{"auths":["s3cret"]}`, `{"auths":{"a":{"password":1}}}`} {
		if err := ring.Add([]byte(text)); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: %v", text, err)
		}
	}
	err := ring.Add([]byte(`{"auths":{"a.example.org":{"auth":"s3cret!"},"b.example.org":{"auth":"czNjcmV0"},"c.example.org":{"username":"u","password":"s3cret"}}}`))
	if err == nil || strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "czNjcmV0") {
		t.Errorf("%v", err)
	}
	image, parseErr := farm.ParseImage("c.example.org/x")
	if parseErr != nil {
		t.Fatal(parseErr)
	}
	found := ring.For(image)
	if len(found) != 1 {
		t.Fatalf("%d logins", len(found))
	}
	var logged strings.Builder
	slog.New(slog.NewTextHandler(&logged, nil)).Info("x", "login", found[0], "ring", fmt.Sprint(found))
	if text := fmt.Sprintf("%v %+v %#v %s", found[0], found, found[0], logged.String()); strings.Contains(text, "s3cret") {
		t.Errorf("printed: %s", text)
	}
}

func TestImagesChallenges(t *testing.T) {
	t.Parallel()
	for header, want := range map[string][]challenge{
		`Bearer realm="https://a/t",service="s",scope="repository:x:pull,push"`: {{"bearer", map[string]string{"realm": "https://a/t", "service": "s", "scope": "repository:x:pull,push"}}},
		`BEARER Realm = "a\"b\\c" , service=s`:                                  {{"bearer", map[string]string{"realm": `a"b\c`, "service": "s"}}},
		`Basic realm="x, y", Bearer realm="z"`:                                  {{"basic", map[string]string{"realm": "x, y"}}, {"bearer", map[string]string{"realm": "z"}}},
		`Negotiate, Basic realm=x`:                                              {{"negotiate", map[string]string{}}, {"basic", map[string]string{"realm": "x"}}},
		`Negotiate`:                                                             {{"negotiate", map[string]string{}}},
		`Bearer realm="never ends`:                                              {{"bearer", map[string]string{"realm": "never ends"}}},
		`Bearer realm="a\`:                                                      {{"bearer", map[string]string{"realm": "a"}}},
		`realm="x"`:                                                             nil,
		`"Bearer"`:                                                              nil,
		`=`:                                                                     nil,
		``:                                                                      nil,
	} {
		if diff := cmp.Diff(want, parseChallenges([]string{header}), cmp.AllowUnexported(challenge{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", header, diff)
		}
	}
}

func FuzzImagesChallenges(f *testing.F) {
	f.Add(`Bearer realm="https://a/t",service="s"`)
	f.Add(`Basic realm="x, y", Bearer realm="\`)
	f.Fuzz(func(t *testing.T, header string) {
		for _, one := range parseChallenges([]string{header}) {
			if one.scheme == "" || one.parameters == nil {
				t.Errorf("%q: %+v", header, one)
			}
		}
	})
}
