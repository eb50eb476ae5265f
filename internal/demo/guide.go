package demo

import (
	"fmt"
	"io"
	"strings"
)

// Guide prints what a developer can do with a service at url that lives in these surroundings: a
// curl line for every endpoint, and the names that make things fail.
func (s *Surroundings) Guide(out io.Writer, url string) {
	json := func(method, path, body string) string {
		return fmt.Sprintf("curl -sS -X %s %s%s -H 'Content-Type: application/json' -d '%s'", method, url, path, body)
	}
	plain := func(method, path string) string {
		if method == "GET" {
			return "curl -sS " + url + path
		}
		return fmt.Sprintf("curl -sS -X %s %s%s", method, url, path)
	}
	section := func(title string, lines ...string) {
		fmt.Fprintf(out, "\n%s\n  %s\n", title, strings.Join(lines, "\n  "))
	}
	fmt.Fprintf(out, "config-server demo: the service listens on %s\n", url)
	fmt.Fprintf(out, "Swagger UI: %s/apidocs/\n", url)
	section("Accounts",
		plain("GET", "/health"),
		json("PUT", "/accounts/groups", `{"name":"ailab","gid":20005}`),
		json("PUT", "/accounts/users", `{"name":"kim","passwd_base64":"ZGVtby1wYXNzd29yZA==","gecos":"김민수","supplementary_groups":[{"name":"ailab","gid":20005}]}`),
		plain("GET", "/accounts/users"),
		plain("GET", "/accounts/users/kim"),
		plain("GET", "/accounts/groups"),
		json("PUT", "/accounts/users/kim/groups", `{"groups":["ailab"]}`),
	)
	section("Workspaces (delete-pod wants the pod_name that create-pod answered)",
		plain("GET", "/gpu-options"),
		json("POST", "/create-pod", `{"username":"kim"}`),
		json("POST", "/create-pod", `{"username":"kim","gpu_option":"nvidia.com/gpu/NVIDIA-L40S"}`),
		json("POST", "/migrate", `{"username":"kim","nodes":["farm5","farm6","farm7"]}`),
		json("POST", "/delete-pod", `{"pod_name":"ailab-kim-00000000"}`),
	)
	section("What stands and what was done",
		plain("GET", "/pods/kim/status")+"   # with -N -H 'Accept: text/event-stream' it goes on telling",
		plain("GET", "/operations"),
		plain("GET", "/workspaces"),
		plain("GET", "/nodes"),
		plain("GET", "/findings"),
		plain("GET", "/projects"),
		plain("GET", "/projects/vision/check"),
		plain("GET", "/projects/vision/queue"),
		plain("GET", "/images"),
	)
	section("Images (their registry and what is in them are played too)",
		json("POST", "/images/pin", `{"image":"dguailab/decs:1.0"}`),
		plain("DELETE", "/images/pin?image=dguailab/decs:1.0"),
		json("POST", "/images/export", `{"image":"dguailab/decs:1.0","path":"/etc/ssh"}`),
	)
	section("The same for people",
		"bin/config-server pods list --server "+url,
		"bin/config-server pods status kim --watch --server "+url,
		"bin/config-server nodes list --server "+url,
		"bin/config-server operations list --server "+url,
		url+"/ui/ in a browser",
	)
	section("The end",
		plain("DELETE", "/accounts/groups/ailab"), // first: an empty group goes with its last member
		plain("DELETE", "/accounts/users/kim"),
	)
	standIns := "http://" + s.webAddr
	section("admin_be, as it is played here: any user has a configuration; change or reset one",
		"curl -sS "+standIns+userConfigPath+"kim",
		fmt.Sprintf("curl -sS -X PUT %s%skim -d '%s'", standIns, userConfigPath,
			`{"username":"kim","image":"dguailab/decs:1.0","groups":[{"gid":20005,"name":"ailab"}],"gpu_nodes":[{"node_name":"farm5","num_gpu":1,"cpu_limit":"2000m","memory_limit":"4096Mi"}],"additional_ports":[{"internal_port":7860,"usage_purpose":"시연"}]}`),
		"curl -sS -X DELETE "+standIns+userConfigPath+"kim",
	)
	section("Load of the GPUs, as Prometheus tells it",
		"curl -sS "+standIns+"/load",
		fmt.Sprintf("curl -sS -X PUT %s/load/farm6 -d '%s'", standIns, `{"util":97,"fb_used":22000,"temp":82}`),
		fmt.Sprintf("curl -sS -X DELETE %s/load/farm6   # no metrics, as if its exporter were down", standIns),
	)
	section("User names that begin like this behave like this",
		fmt.Sprintf("%-9s its pods take %s to become Ready", slowUsers+"*", s.opts.Slow),
		fmt.Sprintf("%-9s its pods never become Ready: create-pod gives up after %s and undoes all", neverUsers+"*", s.opts.ReadyLimit),
		fmt.Sprintf("%-9s its pods end at once: create-pod fails without waiting", failedUsers+"*"),
		fmt.Sprintf("%-9s the node lacks the image: create-pod fails without waiting", noImageUsers+"*"),
		fmt.Sprintf("%-9s the save script fails: migrate leaves the old pod as it is", unsavedUsers+"*"),
		"nouser*   admin_be answers 404; soft404*: 200 with status 404; err500*: 500; badjson*: HTML",
		"badnode*  admin_be names a node that the cluster does not have",
		"*port*    has an additional port 6006",
	)
	fmt.Fprintf(out, "\nState is kept while this runs: %s has passwd in etc and the homes of the NAS in homes.\n", s.dir)
	fmt.Fprintf(out, "The service's log: %s (--verbose shows it here).\n", s.LogPath())
	fmt.Fprintln(out, "Ctrl-C ends it and removes the folder.")
}
