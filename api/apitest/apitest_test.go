package apitest_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"config-server/api/apitest"
)

func TestValidateAnswer(t *testing.T) {
	t.Parallel()
	validator, err := apitest.New(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const found = `{"user":{"name":"u","uid":20000,"gid":20000,"gecos":"","home":"/home/u","shell":"/bin/bash"},"groups":[]}`
	cases := []struct {
		name, method, path string
		status             int
		kind, body         string
		fits               bool
	}{
		{"as described", "GET", "/accounts/users/u", 200, "application/json", found, true},
		{"wherever it listens", "GET", "http://127.0.0.1:8000/accounts/users/u", 200, "application/json", found, true},
		{"a page as described", "GET", "/health", 200, "text/html; charset=utf-8", "OK", true},
		{"another page", "GET", "/health", 200, "text/html; charset=utf-8", "KO", false},
		{"a field too many", "GET", "/accounts/users/u", 200, "application/json", strings.Replace(found, `"groups"`, `"x":1,"groups"`, 1), false},
		{"a field too few", "GET", "/accounts/users/u", 200, "application/json", `{"groups":[]}`, false},
		{"another type", "GET", "/accounts/users/u", 200, "application/json", strings.Replace(found, "20000", `"20000"`, 1), false},
		{"another media type", "GET", "/accounts/users/u", 200, "text/plain", found, false},
		{"unknown status", "GET", "/accounts/users/u", 418, "application/json", `{"error":"x"}`, false},
		{"unknown code", "POST", "/create-pod", 500, "application/json", `{"step":"CREATE_POD","error":"X","detail":"","progress":{}}`, false},
		{"unknown route", "GET", "/nothing", 404, "application/json", `{"error":"x"}`, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			response := &http.Response{StatusCode: c.status, Header: http.Header{"Content-Type": {c.kind}}, Body: io.NopCloser(strings.NewReader(c.body))}
			err := validator.ValidateAnswer(httptest.NewRequest(c.method, c.path, nil), response)
			if (err == nil) != c.fits {
				t.Errorf("fits is %v, want %v: %v", err == nil, c.fits, err)
			}
			if again, _ := io.ReadAll(response.Body); c.status != 404 && string(again) != c.body {
				t.Errorf("the body cannot be read again: %q", again)
			}
		})
	}
}
