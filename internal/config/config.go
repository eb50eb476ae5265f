// Package config turns the environment into a typed configuration: defaults, validation with all
// faults at once, and a print that hides secrets. README.md lists
// the names and defaults, which are the deployed chart's; an empty variable means its default.
package config

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"
)

// Config is the whole configuration of the service.
type Config struct {
	ListenAddr string `env:"LISTEN_ADDR" envDefault:":8000"` // host:port of the HTTP listener
	Namespace  string `env:"NAMESPACE" envDefault:"ailab-infra"`
	// StateDir holds lock files and the embedded database; it belongs to this replica alone.
	StateDir string `env:"STATE_DIR" envDefault:"./state"`
	APIToken string `env:"API_TOKEN" secret:"true"` // empty = callers need no token
	LogLevel string `env:"LOG_LEVEL" envDefault:"info"`

	// PromURL is the address of Prometheus, WASURLTemplate that of admin_be with {username} in it.
	PromURL        string `env:"PROM_URL" envDefault:"http://monitoring-kube-prometheus-prometheus.monitoring:9090"`
	WASURLTemplate string `env:"WAS_URL_TEMPLATE" envDefault:"http://admin-prod.default/api/requests/config/{username}"`
	// HTTPTimeout bounds one call to admin_be, and the whole round to Prometheus.
	HTTPTimeout Seconds `env:"HTTP_TIMEOUT_SEC" envDefault:"3.0"`

	Pods       Pods
	Self       Self
	GPU        GPU
	Share      Share
	NAS        NAS
	Database   Database
	Redis      Redis
	Kerberos   Kerberos
	Farm       Farm
	Images     Images
	NodePorts  NodePorts
	Reconciler Reconciler
	Audit      Audit
	Drain      Drain
	Projects   Projects
	Controller Controller
}

// Pods says what workspace pods get.
type Pods struct {
	CPURequest    string `env:"DEFAULT_CPU_REQUEST" envDefault:"1000m"` // Kubernetes quantity
	CPULimit      string `env:"DEFAULT_CPU_LIMIT" envDefault:"1000m"`
	MemoryRequest string `env:"DEFAULT_MEM_REQUEST" envDefault:"1024Mi"`
	MemoryLimit   string `env:"DEFAULT_MEM_LIMIT" envDefault:"1024Mi"`
	// PullPolicy is the imagePullPolicy of the workspace container: Never, IfNotPresent or Always.
	PullPolicy string `env:"IMAGE_PULL_POLICY" envDefault:"Never"`
	// HomeVolume is nfs (NFS_SERVER, NFS_USER_SHARE_PATH), hostPath (FARM_HOME_MOUNT_ROOT of the node) or self (Self).
	HomeVolume string  `env:"HOME_VOLUME" envDefault:"nfs"`
	HomeRoot   string  `env:"FARM_HOME_MOUNT_ROOT"`
	NFSServer  string  `env:"NFS_SERVER"`
	Ready      Seconds `env:"POD_READY_TIMEOUT" envDefault:"60s"`
	Gone       Seconds `env:"POD_DELETE_TIMEOUT" envDefault:"60s"`
	// Pending stands in for Ready where images may be pulled; Unschedulable and PullGrace bound a pod
	// that no node takes and a pull that fails. The request's budget caps all of them.
	Pending       Seconds `env:"POD_PENDING_TIMEOUT" envDefault:"240s"`
	Unschedulable Seconds `env:"POD_UNSCHEDULABLE_TIMEOUT" envDefault:"120s"`
	PullGrace     Seconds `env:"POD_PULL_GRACE" envDefault:"90s"`
	// Template is the PodTemplate of the namespace that lies under every workspace; empty = none.
	Template string `env:"POD_TEMPLATE"`
	// AccountSecret gives the pod a Secret with the account's shadow hash.
	AccountSecret bool `env:"ACCOUNT_SECRET" envDefault:"false"`
}

// Self says what workspaces have of the service's own volumes with HOME_VOLUME=self. The homes are those at
// FARM_HOME_MOUNT_ROOT of its own container; empty = /home.
type Self struct {
	// Paths are further folders of its own container, which workspaces have at the same path.
	Paths List `env:"SELF_PATHS"`
	// PodName and PodIP are those of its own pod; empty = the name and the addresses of the host, as its container sees them.
	PodName string `env:"POD_NAME"`
	PodIP   string `env:"POD_IP"`
}

// GPU says which GPU options there are, and which device files a workspace without one gets (docs/gpu.md).
type GPU struct {
	// Discovery is auto (PodTemplates, and without them what is detected), templates or off.
	Discovery string `env:"GPU_DISCOVERY" envDefault:"auto"`
	// TemplateLabel is the key of the label that makes a PodTemplate a GPU option.
	TemplateLabel string  `env:"GPU_TEMPLATE_LABEL" envDefault:"ailab/gpu"`
	ScanInterval  Seconds `env:"GPU_SCAN_INTERVAL" envDefault:"10s"`
	// Assignment is first (the first device files of the node), least-loaded or exclusive.
	Assignment string `env:"GPU_ASSIGNMENT" envDefault:"first"`
	// RuntimeClass is that of workspaces with an NVIDIA option unless a template sets one; NoRuntimeClass = none.
	RuntimeClass string `env:"GPU_RUNTIME_CLASS" envDefault:"nvidia"`
}

// NoRuntimeClass is the value of GPU_RUNTIME_CLASS that leaves the runtime class to templates alone.
const NoRuntimeClass = "none"

// Share is the directory of passwd, group, shadow and sudoers that pods mount.
type Share struct {
	Dir           string `env:"BASE_ETC_DIR" envDefault:"/kube_share"`
	SudoCommands  List   `env:"SUDO_ALLOWED_COMMANDS"` // absolute paths of commands; empty = no sudoers file
	ReservedNames List   `env:"RESERVED_NAMES" envDefault:"ubuntu,debian,docker,sshd,nvidia-persistenced"`
	// Lock is local (lock files under STATE_DIR, one replica) or mysql (named locks, several replicas).
	Lock string `env:"LEDGER_LOCK" envDefault:"local"`
	// KeepEmptyGroups keeps a shared group whose last member is deleted; by default it goes with that member.
	KeepEmptyGroups bool `env:"KEEP_EMPTY_GROUPS" envDefault:"false"`
}

// NAS is where homes are made, by SSH.
type NAS struct {
	Host       string `env:"NAS_SSH_HOST"`
	Port       int    `env:"NAS_SSH_PORT" envDefault:"22"`
	User       string `env:"NAS_SSH_USER"`
	KeyPath    string `env:"NAS_SSH_KEY_PATH"`
	KnownHosts string `env:"NAS_SSH_KNOWN_HOSTS"` // empty = any host key is accepted, with a warning
	SharePath  string `env:"NFS_USER_SHARE_PATH" envDefault:"/volume1/share/user"`
}

// Database is MySQL, or an embedded SQLite file if Host is empty.
type Database struct {
	Host     string `env:"DB_HOST"`
	Port     int    `env:"DB_PORT" envDefault:"3306"`
	User     string `env:"DB_USER"`
	Password string `env:"DB_PASSWORD" secret:"true"`
	Name     string `env:"DB_NAME"`
	Path     string `env:"DB_PATH"` // default config-server.db in STATE_DIR
}

// Redis keeps metadata of saved images; an empty Host turns it off.
type Redis struct {
	Host string `env:"REDIS_HOST"`
	Port int    `env:"REDIS_PORT" envDefault:"6379"`
	DB   int    `env:"REDIS_DB" envDefault:"0"`
}

// Kerberos is off while Realm is empty.
type Kerberos struct {
	Realm          string `env:"KRB5_REALM"`
	KDCHost        string `env:"KRB5_KDC_HOST"`
	AdminPrincipal string `env:"KRB5_ADMIN_PRINCIPAL"`
	AdminPassword  string `env:"KRB5_ADMIN_PASSWORD" secret:"true"`
	// ConfigFile is a krb5.conf; if it names the realm it says where the KDC is, else KDCHost does.
	ConfigFile string `env:"KRB5_CONFIG" envDefault:"/etc/krb5.conf"`
}

// Farm is how keytabs reach the farm nodes.
type Farm struct {
	SSHUser    string `env:"FARM_SSH_USER"`
	SSHKeyPath string `env:"FARM_SSH_KEY_PATH"`
	KnownHosts string `env:"FARM_SSH_KNOWN_HOSTS"`
	Nodes      Nodes  `env:"FARM_NODES_JSON" envDefault:"[]"`
}

// Images is where saved images lie, and how registries are asked.
type Images struct {
	StoreDir    string  `env:"IMAGE_STORE_DIR" envDefault:"/image-store/images"`
	DockerBin   string  `env:"DOCKER_BIN" envDefault:"/usr/bin/docker"`
	LoadTimeout Seconds `env:"IMAGE_LOAD_TIMEOUT" envDefault:"120s"`
	// SaveTimeout bounds the save script of a migration.
	SaveTimeout Seconds `env:"IMAGE_SAVE_TIMEOUT" envDefault:"120s"`
	// InsecureRegistries are hosts, as host or host:port, that may be asked for digests without TLS; this machine always is one.
	InsecureRegistries List `env:"IMAGE_REGISTRY_INSECURE"`
}

// NodePorts is the range from which ports are reserved, lowest free first.
type NodePorts struct {
	Min int `env:"NODEPORT_MIN" envDefault:"30000"`
	Max int `env:"NODEPORT_MAX" envDefault:"32767"`
}

// Reconciler looks for what was left over.
type Reconciler struct {
	Interval Seconds `env:"RECONCILE_INTERVAL" envDefault:"60s"` // 0 = never
	Grace    Seconds `env:"RECONCILE_GRACE" envDefault:"600s"`   // age below which nothing is left over
}

// Audit compares all parts now and then; what it finds is shown and nothing is changed.
type Audit struct {
	Interval Seconds `env:"AUDIT_INTERVAL" envDefault:"15m"` // 0 = never
}

// Drain bounds the end of the process and, with the callers' time-outs in view, of each request.
type Drain struct {
	Timeout       Seconds `env:"DRAIN_TIMEOUT" envDefault:"25s"` // running requests may finish this long after SIGTERM
	AccountBudget Seconds `env:"ACCOUNT_REQUEST_BUDGET" envDefault:"90s"`
	PodBudget     Seconds `env:"POD_REQUEST_BUDGET" envDefault:"240s"`
	UndoReserve   Seconds `env:"UNDO_RESERVE" envDefault:"25s"` // time that undo has beyond the budget
}

// Load reads the variables of environ ("NAME=value"). The error joins every fault that was found.
func Load(environ []string) (Config, error) { return load(environ, Config.faults) }

func load(environ []string, check func(Config) []error) (Config, error) {
	vars := map[string]string{}
	for _, pair := range environ {
		// An empty variable means its default, as the chart sets some of them empty.
		if name, value, ok := strings.Cut(pair, "="); ok && strings.TrimSpace(value) != "" {
			vars[name] = value
		}
	}
	var c Config
	unread := unreadable(vars)
	for name := range unread {
		delete(vars, name) // its default stands in, so that one fault is told once
	}
	faults := slices.Collect(maps.Values(unread))
	if err := env.ParseWithOptions(&c, env.Options{Environment: vars}); err != nil {
		faults = append(faults, err)
	}
	faults = append(faults, check(c)...)
	// A fixed order makes two starts with the same faults print the same.
	slices.SortFunc(faults, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return c, errors.Join(faults...)
}

// unreadable tries each variable alone, because the library names fields and not variables. The
// errors name the variable without its value, which may be a secret.
func unreadable(vars map[string]string) map[string]error {
	faults := map[string]error{}
	for _, name := range Names() {
		value, set := vars[name]
		if !set {
			continue
		}
		err := env.ParseWithOptions(new(Config), env.Options{Environment: map[string]string{name: value}})
		var parse env.ParseError
		switch {
		case err == nil:
		case errors.As(err, &parse):
			faults[name] = fmt.Errorf("%s: %s", name, plainly(parse.Err))
		default:
			faults[name] = fmt.Errorf("%s: cannot be read", name)
		}
	}
	return faults
}

// plainly says of the standard library's errors what an operator needs, without the value.
func plainly(err error) string {
	var number *strconv.NumError
	if !errors.As(err, &number) {
		return err.Error()
	}
	if number.Func == "ParseBool" {
		return "must be true or false"
	}
	return "must be a whole number"
}

// Names lists every variable that the service reads, sorted.
func Names() []string {
	var names []string
	walk(reflect.ValueOf(Config{}), func(field reflect.StructField, _ reflect.Value) {
		names = append(names, field.Tag.Get("env"))
	})
	sort.Strings(names)
	return names
}

// Redacted lists NAME=value lines, sorted, with secrets hidden. It is what logs may show.
func (c Config) Redacted() []string {
	var lines []string
	walk(reflect.ValueOf(c), func(field reflect.StructField, value reflect.Value) {
		text := fmt.Sprint(value.Interface())
		if field.Tag.Get("secret") == "true" && text != "" {
			text = "(hidden)"
		}
		lines = append(lines, field.Tag.Get("env")+"="+text)
	})
	sort.Strings(lines)
	return lines
}

// String is the redacted configuration on one line, so that no %v can show a secret.
func (c Config) String() string { return strings.Join(c.Redacted(), " ") }

// GoString is String, for %#v.
func (c Config) GoString() string { return c.String() }

func walk(v reflect.Value, visit func(reflect.StructField, reflect.Value)) {
	for i := range v.NumField() {
		field := v.Type().Field(i)
		if field.Tag.Get("env") == "" {
			walk(v.Field(i), visit)
			continue
		}
		visit(field, v.Field(i))
	}
}

// Duration gives the value as a time.Duration.
func (s Seconds) Duration() time.Duration { return time.Duration(s) }
