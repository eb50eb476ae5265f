package demo

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	description "config-server/api"
)

func TestTheJourneyNamesWhatIsNotAsTold(t *testing.T) {
	t.Parallel()
	s := start(t, Options{})
	liar := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"status":"fine"}`)
	}))
	defer liar.Close()
	var out bytes.Buffer
	err := Journey(t.Context(), Tour{URL: liar.URL, Around: s, Out: &out})
	if err == nil {
		t.Fatal("a service that does nothing was found to be as told")
	}
	for _, words := range []string{
		"GET /health answered without OK",
		"PUT /accounts/users answered 200, expected 201",
		"0 things are there of kim, expected 6",
		"DELETE /accounts/users/kim answered 200, expected 404",
	} {
		if !strings.Contains(err.Error(), words) {
			t.Errorf("the error does not say %q:\n%v", words, err)
		}
	}
	if strings.Contains(out.String(), "were as told") {
		t.Error("the journey says that all was as told")
	}
}

func TestTheJourneyEndsWhenNobodyAnswers(t *testing.T) {
	t.Parallel()
	s := start(t, Options{})
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	err := Journey(t.Context(), Tour{URL: gone.URL, Around: s, Out: io.Discard})
	if err == nil || !strings.Contains(err.Error(), "step 1") {
		t.Errorf("%v, want the first step named", err)
	}
}

// TestJourneyAndGuideKnowEveryEndpoint holds both to the API's description.
func TestJourneyAndGuideKnowEveryEndpoint(t *testing.T) {
	t.Parallel()
	text, err := description.JSON()
	if err != nil {
		t.Fatal(err)
	}
	var spec struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	if err := json.Unmarshal(text, &spec); err != nil {
		t.Fatal(err)
	}
	var guide bytes.Buffer
	start(t, Options{}).Guide(&guide, "http://farm")
	known := 0
	for path, methods := range spec.Paths {
		if slices.Contains([]string{"/readyz", "/metrics", "/apidocs", "/apidocs/", "/apispec_1.json", "/ui/"}, path) {
			continue
		}
		for method := range methods {
			method = strings.ToUpper(method)
			if method != "GET" && method != "PUT" && method != "POST" && method != "DELETE" {
				continue
			}
			known++
			call := callOf(method, path)
			if !slices.ContainsFunc(chapters(), func(c chapter) bool {
				return slices.ContainsFunc(c.steps, func(s step) bool { return call.MatchString(s.method + " " + s.path) })
			}) {
				t.Errorf("the journey does not call %s %s", method, path)
			}
			if !slices.ContainsFunc(strings.Split(guide.String(), "\n"), func(line string) bool {
				return call.MatchString(requestOf(line))
			}) {
				t.Errorf("the guide has no line for %s %s", method, path)
			}
		}
	}
	if known < 12 {
		t.Errorf("the description has %d endpoints, want 12 and more", known)
	}
}

var parameter = regexp.MustCompile(`\\\{\w+\\\}`)

// callOf matches a request of an endpoint.
func callOf(method, path string) *regexp.Regexp {
	return regexp.MustCompile(`\A` + method + " " + parameter.ReplaceAllString(regexp.QuoteMeta(path), `[^/]+`) + `(\?.*)?\z`)
}

// requestOf is the method and path of a line of the guide, "" if it calls something else.
func requestOf(line string) string {
	_, rest, found := strings.Cut(line, "http://farm")
	if !found || !strings.Contains(line, "curl -sS ") {
		return ""
	}
	path, _, _ := strings.Cut(rest, " ")
	for _, method := range []string{"PUT", "POST", "DELETE"} {
		if strings.Contains(line, "-X "+method+" ") {
			return method + " " + path
		}
	}
	return "GET " + path
}

func TestCloseRemovesTheFolder(t *testing.T) {
	t.Parallel()
	s, err := Start(Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(s.Dir()); !os.IsNotExist(err) {
		t.Errorf("%s: %v, want it gone", s.Dir(), err)
	}
}

func TestAnAddressThatIsTakenLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	first := start(t, Options{})
	second, err := Start(Options{StandIns: first.Address()})
	if err == nil {
		_ = second.Close()
		t.Fatal("two stand-ins listen on one address")
	}
	if !strings.Contains(err.Error(), first.Address()) {
		t.Errorf("%v does not name %s", err, first.Address())
	}
}
