package config_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"config-server/internal/config"
)

// minimal is the least that serve needs beside its defaults.
var minimal = []string{
	"NAS_SSH_HOST=nas", "NAS_SSH_USER=ops", "NAS_SSH_KEY_PATH=/etc/nas-ssh/id", "NFS_SERVER=192.0.2.30",
}

func TestDefaultsAreTheContract(t *testing.T) {
	t.Parallel()
	c, err := config.Load(minimal)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"NAMESPACE": "ailab-infra", "PROM_URL": "http://monitoring-kube-prometheus-prometheus.monitoring:9090",
		"WAS_URL_TEMPLATE": "http://admin-prod.default/api/requests/config/{username}", "HTTP_TIMEOUT_SEC": "3s",
		"DEFAULT_CPU_REQUEST": "1000m", "DEFAULT_CPU_LIMIT": "1000m", "DEFAULT_MEM_REQUEST": "1024Mi", "DEFAULT_MEM_LIMIT": "1024Mi",
		"NFS_USER_SHARE_PATH": "/volume1/share/user", "NAS_SSH_PORT": "22", "DB_PORT": "3306", "REDIS_PORT": "6379", "REDIS_DB": "0",
		"BASE_ETC_DIR": "/kube_share", "IMAGE_STORE_DIR": "/image-store/images", "DOCKER_BIN": "/usr/bin/docker",
		"STATE_DIR": "./state", "LEDGER_LOCK": "local", "ACCOUNT_SECRET": "false", "IMAGE_LOAD_TIMEOUT": "2m0s",
		"IMAGE_PULL_POLICY": "Never", "HOME_VOLUME": "nfs", "POD_READY_TIMEOUT": "1m0s", "POD_DELETE_TIMEOUT": "1m0s",
		"NODEPORT_MIN": "30000", "NODEPORT_MAX": "32767", "LISTEN_ADDR": ":8000", "API_TOKEN": "", "KRB5_REALM": "",
		"SUDO_ALLOWED_COMMANDS": "", "REDIS_HOST": "", "DB_HOST": "",
	}
	got := map[string]string{}
	for _, line := range c.Redacted() {
		name, value, _ := strings.Cut(line, "=")
		if _, asked := want[name]; asked {
			got[name] = value
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
	if got := c.DatabasePath(); got != "state/config-server.db" {
		t.Errorf("DatabasePath = %q", got)
	}
}

func TestValues(t *testing.T) {
	t.Parallel()
	c, err := config.Load(append([]string{
		"HTTP_TIMEOUT_SEC=1.5", "POD_READY_TIMEOUT=90", "POD_DELETE_TIMEOUT=2m", "SUDO_ALLOWED_COMMANDS= /usr/bin/apt , ,/usr/bin/ls",
		`FARM_NODES_JSON=[{"name":"farm5","host":"192.0.2.5"},{"name":"farm6","host":"192.0.2.6","port":2222}]`,
		"NAMESPACE=", "DB_HOST=mysql", "DB_USER=u", "DB_NAME=d", "DB_PASSWORD=p",
	}, minimal...))
	if err != nil {
		t.Fatal(err)
	}
	for name, pair := range map[string][2]any{
		"a fraction of seconds":     {c.HTTPTimeout.Duration(), 1500 * time.Millisecond},
		"whole seconds":             {c.Pods.Ready.Duration(), 90 * time.Second},
		"a duration":                {c.Pods.Gone.Duration(), 2 * time.Minute},
		"a list":                    {c.Share.SudoCommands.String(), "/usr/bin/apt,/usr/bin/ls"},
		"farm nodes":                {fmt.Sprint(c.Farm.Nodes), "[{farm5 192.0.2.5 22} {farm6 192.0.2.6 2222}]"},
		"empty means the default":   {c.Namespace, "ailab-infra"},
		"a password is taken as is": {c.Database.Password, "p"},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s: got %v, want %v", name, pair[0], pair[1])
		}
	}
}

func TestFaultsNameTheVariable(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ set, want string }{
		"share at the root":             {"NFS_USER_SHARE_PATH=/", "NFS_USER_SHARE_PATH"},
		"share at the root, disguised":  {"NFS_USER_SHARE_PATH=//", "NFS_USER_SHARE_PATH"},
		"share path relative":           {"NFS_USER_SHARE_PATH=volume1", "NFS_USER_SHARE_PATH"},
		"share path with dots":          {"NFS_USER_SHARE_PATH=/volume1/../etc", "NFS_USER_SHARE_PATH"},
		"share path for a shell":        {"NFS_USER_SHARE_PATH=/a;reboot", "NFS_USER_SHARE_PATH"},
		"ledger dir relative":           {"BASE_ETC_DIR=etc", "BASE_ETC_DIR"},
		"registry with a scheme":        {"IMAGE_REGISTRY_INSECURE=http://a:5000", "IMAGE_REGISTRY_INSECURE"},
		"registry with a path":          {"IMAGE_REGISTRY_INSECURE=a:5000/team", "IMAGE_REGISTRY_INSECURE"},
		"unknown lock":                  {"LEDGER_LOCK=redis", "LEDGER_LOCK"},
		"lock without its database":     {"LEDGER_LOCK=mysql", "DB_HOST"},
		"database without a user":       {"DB_HOST=db", "DB_USER"},
		"range upside down":             {"NODEPORT_MIN=32768", "NODEPORT_MIN"},
		"port no number":                {"NAS_SSH_PORT=ssh", "NAS_SSH_PORT"},
		"database port no number":       {"DB_PORT=x", "DB_PORT: must be a whole number"},
		"redis port no number":          {"REDIS_PORT=x", "REDIS_PORT: must be a whole number"},
		"switch no boolean":             {"KEEP_EMPTY_GROUPS=maybe", "KEEP_EMPTY_GROUPS: must be true or false"},
		"port out of range":             {"DB_PORT=70000", "DB_PORT"},
		"timeout no number":             {"HTTP_TIMEOUT_SEC=soon", "HTTP_TIMEOUT_SEC"},
		"timeout negative":              {"HTTP_TIMEOUT_SEC=-1", "HTTP_TIMEOUT_SEC"},
		"timeout zero":                  {"POD_READY_TIMEOUT=0", "POD_READY_TIMEOUT"},
		"ready wait over the budget":    {"POD_READY_TIMEOUT=10m", "POD_READY_TIMEOUT"},
		"bad quantity":                  {"DEFAULT_CPU_LIMIT=lots", "DEFAULT_CPU_LIMIT"},
		"bad policy":                    {"IMAGE_PULL_POLICY=Sometimes", "IMAGE_PULL_POLICY"},
		"host path without a directory": {"HOME_VOLUME=hostPath", "FARM_HOME_MOUNT_ROOT"},
		"own homes with dots":           {"HOME_VOLUME=self\nFARM_HOME_MOUNT_ROOT=/home/../etc", "FARM_HOME_MOUNT_ROOT"},
		"own homes at the root":         {"HOME_VOLUME=self\nFARM_HOME_MOUNT_ROOT=/", "FARM_HOME_MOUNT_ROOT"},
		"own paths without own homes":   {"SELF_PATHS=/sets", "SELF_PATHS: needs HOME_VOLUME=self"},
		"an own path that is relative":  {"HOME_VOLUME=self\nSELF_PATHS=sets", "SELF_PATHS"},
		"an own path with dots":         {"HOME_VOLUME=self\nSELF_PATHS=/a/../b", "SELF_PATHS"},
		"an own path twice":             {"HOME_VOLUME=self\nSELF_PATHS=/sets,/sets/", "SELF_PATHS: workspaces would have /sets twice"},
		"an own path with a colon":      {"HOME_VOLUME=self\nSELF_PATHS=/a:b", "SELF_PATHS"},
		"an own path that is the homes": {"HOME_VOLUME=self\nSELF_PATHS=/home", "SELF_PATHS: workspaces would have /home twice"},
		"a pod's name that is none":     {"POD_NAME=Config_Server", "POD_NAME"},
		"a pod's address that is none":  {"POD_IP=localhost", "POD_IP"},
		"template without a user":       {"WAS_URL_TEMPLATE=http://was/api", "WAS_URL_TEMPLATE"},
		"nodes that are no list":        {`FARM_NODES_JSON={"name":"a"}`, "FARM_NODES_JSON"},
		"realm alone":                   {"KRB5_REALM=EXAMPLE.ORG", "KRB5_KDC_HOST"},
		"sudo command with a separator": {"SUDO_ALLOWED_COMMANDS=/bin/a=b", "SUDO_ALLOWED_COMMANDS"},
		"sudo command relative":         {"SUDO_ALLOWED_COMMANDS=apt", "SUDO_ALLOWED_COMMANDS"},
		"listen address without a port": {"LISTEN_ADDR=localhost", "LISTEN_ADDR"},
		"namespace that is none":        {"NAMESPACE=Ailab_infra", "NAMESPACE"},
		"template that is none":         {"POD_TEMPLATE=Team/A", "POD_TEMPLATE"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := config.Load(append(strings.Split(tc.set, "\n"), minimal...))
			if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Count(err.Error(), "\n") > 4 {
				t.Errorf("Load with %s: error %v does not name %s", tc.set, err, tc.want)
			}
		})
	}
}

func TestStorageSettings(t *testing.T) {
	t.Parallel()
	for root, want := range map[string]string{"": "/home", "/srv/homes": "/srv/homes"} {
		c, err := config.Load(append([]string{"HOME_VOLUME=self", "FARM_HOME_MOUNT_ROOT=" + root, "SELF_PATHS=/datasets, /home/shared"}, minimal...))
		if err != nil || c.OwnHomes() != want || c.Self.Paths.String() != "/datasets,/home/shared" {
			t.Errorf("FARM_HOME_MOUNT_ROOT=%s: homes %s, paths %s, %v", root, c.OwnHomes(), c.Self.Paths, err)
		}
	}
	// Neither server nor folder of the nodes is asked for.
	if _, err := config.Load(append([]string{"HOME_VOLUME=self"}, minimal[:3]...)); err != nil {
		t.Error(err)
	}
}

func TestAllFaultsAtOnce(t *testing.T) {
	t.Parallel()
	_, err := config.Load([]string{"DB_HOST=db", "LEDGER_LOCK=x", "NODEPORT_MIN=abc", "HTTP_TIMEOUT_SEC=abc"})
	if err == nil {
		t.Fatal("no error")
	}
	for _, name := range []string{"NAS_SSH_HOST", "NAS_SSH_USER", "NAS_SSH_KEY_PATH", "NFS_SERVER", "DB_USER", "DB_NAME", "LEDGER_LOCK", "NODEPORT_MIN", "HTTP_TIMEOUT_SEC"} {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("%s is not among the faults:\n%v", name, err)
		}
	}
}

func TestSecretsAreNeverShown(t *testing.T) {
	t.Parallel()
	const marker = "marker-5up3r"
	c, err := config.Load(append([]string{"API_TOKEN=" + marker, "DB_PASSWORD=" + marker, "KRB5_ADMIN_PASSWORD=" + marker}, minimal...))
	if err != nil {
		t.Fatal(err)
	}
	for verb, text := range map[string]string{
		"%v": fmt.Sprintf("%v", c), "%+v": fmt.Sprintf("%+v", c), "%#v": fmt.Sprintf("%#v", c), "Redacted": strings.Join(c.Redacted(), "\n"),
	} {
		if strings.Contains(text, marker) {
			t.Errorf("%s shows a secret: %s", verb, text)
		}
	}
}

func TestEveryNameIsSpelledInCapitals(t *testing.T) {
	t.Parallel()
	rule := regexp.MustCompile(`^[A-Z][A-Z0-9_]+$`)
	for _, name := range config.Names() {
		if !rule.MatchString(name) {
			t.Errorf("odd name %q", name)
		}
	}
}

// The README's table is the operator's list of variables: each must stand there.
func TestReadmeListsEveryVariable(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"../../README.md", "../../README.ko.md"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range config.Names() {
			if !strings.Contains(string(text), "`"+name+"`") {
				t.Errorf("%s does not list %s", file, name)
			}
		}
	}
}
