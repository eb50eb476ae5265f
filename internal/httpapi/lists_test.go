package httpapi_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"testing"
)

func TestListsAreToldOncePerState(t *testing.T) {
	t.Parallel()
	const etag = `W/"state-1"`
	lists := map[string]string{
		"/accounts/users":  `{"users":[{"name":"user2100","uid":20000,"gid":20000,"gecos":"GPU User","home":"/home/user2100","shell":"/bin/bash"}]}` + "\n",
		"/accounts/groups": `{"groups":[{"name":"sudo","gid":27,"members":[]},{"name":"ailab","gid":20005,"members":["kim","user2100"]}]}` + "\n",
	}
	for name, tc := range map[string]struct {
		header map[string]string
		status int
		zipped bool
	}{
		"plain":                            {nil, 200, false},
		"zipped when asked for":            {map[string]string{"Accept-Encoding": "br;q=1.0, gzip;q=0.5"}, 200, true},
		"not zipped when refused":          {map[string]string{"Accept-Encoding": "gzip;q=0, identity"}, 200, false},
		"refused with a capital Q":         {map[string]string{"Accept-Encoding": "gzip;Q=0"}, 200, false},
		"refused to three decimals":        {map[string]string{"Accept-Encoding": "gzip ; q=0.000"}, 200, false},
		"accepted a little, in capitals":   {map[string]string{"Accept-Encoding": "GZip;Q=0.001"}, 200, true},
		"a weight that is none":            {map[string]string{"Accept-Encoding": "gzip;q=much"}, 200, true},
		"a star":                           {map[string]string{"Accept-Encoding": "*"}, 200, true},
		"a star refused":                   {map[string]string{"Accept-Encoding": "*;q=0"}, 200, false},
		"all but gzip refused":             {map[string]string{"Accept-Encoding": "*;q=0, gzip"}, 200, true},
		"all but gzip accepted":            {map[string]string{"Accept-Encoding": "gzip;q=0, *"}, 200, false},
		"plain refused":                    {map[string]string{"Accept-Encoding": "identity;q=0, gzip;q=0.1"}, 200, true},
		"plain refused, a star":            {map[string]string{"Accept-Encoding": "identity;q=0, *;q=0.5"}, 200, true},
		"plain refused, and nothing else":  {map[string]string{"Accept-Encoding": "identity;q=0"}, 200, false},
		"plain is better":                  {map[string]string{"Accept-Encoding": "gzip;q=0.5, identity"}, 200, false},
		"plain is as good":                 {map[string]string{"Accept-Encoding": "identity;q=0.5, gzip;q=0.5"}, 200, true},
		"of two weights the first":         {map[string]string{"Accept-Encoding": "gzip;q=0, gzip"}, 200, false},
		"the same list is not sent again":  {map[string]string{"If-None-Match": etag}, 304, false},
		"nor for the strong form":          {map[string]string{"If-None-Match": `"other", "state-1"`}, 304, false},
		"nor for a star":                   {map[string]string{"If-None-Match": "*"}, 304, false},
		"another list is sent":             {map[string]string{"If-None-Match": `W/"state-0"`}, 200, false},
		"another list is sent, and zipped": {map[string]string{"If-None-Match": `W/"state-0"`, "Accept-Encoding": "gzip"}, 200, true},
	} {
		for path, list := range lists {
			t.Run(path+" "+name, func(t *testing.T) {
				t.Parallel()
				server := serve(t, newService())
				request, err := http.NewRequestWithContext(t.Context(), "GET", server.URL+path, nil)
				if err != nil {
					t.Fatal(err)
				}
				request.Header.Set("Accept-Encoding", "identity") // or the client zips by itself
				for key, value := range tc.header {
					request.Header.Set(key, value)
				}
				response, err := server.Client().Do(request)
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = response.Body.Close() }()
				if response.StatusCode != tc.status || response.Header.Get("ETag") != etag || response.Header.Get("Vary") != "Accept-Encoding" {
					t.Errorf("status %d, header %v", response.StatusCode, response.Header)
				}
				body := io.Reader(response.Body)
				if zipped := response.Header.Get("Content-Encoding") == "gzip"; zipped != tc.zipped {
					t.Fatalf("zipped %v", zipped)
				} else if zipped {
					if body, err = gzip.NewReader(body); err != nil {
						t.Fatal(err)
					}
				}
				text, err := io.ReadAll(body)
				if err != nil {
					t.Fatal(err)
				}
				if want := map[int]string{200: list, 304: ""}[tc.status]; string(text) != want {
					t.Errorf("body %q", text)
				}
			})
		}
	}
}
