package config

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
)

var (
	namespaceRule = regexp.MustCompile(`\A[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\z`)
	sharePathRule = regexp.MustCompile(`\A[A-Za-z0-9._/-]+\z`)
)

// faults checks what the types cannot: each rule that is broken gives one error that names the
// variable and what to set.
func (c Config) faults() []error {
	var list []error
	add := func(name, format string, args ...any) {
		list = append(list, fmt.Errorf("%s: %s", name, fmt.Sprintf(format, args...)))
	}
	need := func(name, value, why string) {
		if value == "" {
			add(name, "is not set; %s", why)
		}
	}

	if _, port, err := net.SplitHostPort(c.ListenAddr); err != nil {
		add("LISTEN_ADDR", "%q is not host:port", c.ListenAddr)
	} else if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		add("LISTEN_ADDR", "%q has no port in 0..65535", c.ListenAddr)
	}
	if !namespaceRule.MatchString(c.Namespace) {
		add("NAMESPACE", "%q is not a DNS label", c.Namespace)
	}
	var level slog.Level
	if level.UnmarshalText([]byte(c.LogLevel)) != nil {
		add("LOG_LEVEL", "%q is not debug, info, warn or error", c.LogLevel)
	}
	checkURL := func(name, value string) {
		if u, err := url.Parse(value); err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
			add(name, "is not an http or https URL")
		}
	}
	checkURL("PROM_URL", c.PromURL)
	checkURL("WAS_URL_TEMPLATE", strings.ReplaceAll(c.WASURLTemplate, "{username}", "u"))
	if !strings.Contains(c.WASURLTemplate, "{username}") {
		add("WAS_URL_TEMPLATE", "has no {username} in it")
	}
	for name, value := range map[string]Seconds{
		"HTTP_TIMEOUT_SEC": c.HTTPTimeout, "POD_READY_TIMEOUT": c.Pods.Ready, "POD_DELETE_TIMEOUT": c.Pods.Gone,
		"POD_PENDING_TIMEOUT": c.Pods.Pending, "POD_UNSCHEDULABLE_TIMEOUT": c.Pods.Unschedulable, "POD_PULL_GRACE": c.Pods.PullGrace,
		"IMAGE_LOAD_TIMEOUT": c.Images.LoadTimeout, "IMAGE_SAVE_TIMEOUT": c.Images.SaveTimeout, "ACCOUNT_REQUEST_BUDGET": c.Drain.AccountBudget,
		"POD_REQUEST_BUDGET": c.Drain.PodBudget, "UNDO_RESERVE": c.Drain.UndoReserve,
		"GPU_SCAN_INTERVAL": c.GPU.ScanInterval,
	} {
		if value <= 0 {
			add(name, "must be above zero")
		}
	}

	checkQuantity := func(name, value string) {
		if q, err := resource.ParseQuantity(value); err != nil || q.Sign() <= 0 {
			add(name, "%q is not a positive Kubernetes quantity", value)
		}
	}
	checkQuantity("DEFAULT_CPU_REQUEST", c.Pods.CPURequest)
	checkQuantity("DEFAULT_CPU_LIMIT", c.Pods.CPULimit)
	checkQuantity("DEFAULT_MEM_REQUEST", c.Pods.MemoryRequest)
	checkQuantity("DEFAULT_MEM_LIMIT", c.Pods.MemoryLimit)
	oneOf := func(name, value string, allowed ...string) {
		for _, a := range allowed {
			if value == a {
				return
			}
		}
		add(name, "%q is not one of %s", value, strings.Join(allowed, ", "))
	}
	if c.Pods.Template != "" && len(validation.IsDNS1123Subdomain(c.Pods.Template)) > 0 {
		add("POD_TEMPLATE", "%q is no name of a PodTemplate", c.Pods.Template)
	}
	oneOf("IMAGE_PULL_POLICY", c.Pods.PullPolicy, "Never", "IfNotPresent", "Always")
	oneOf("HOME_VOLUME", c.Pods.HomeVolume, "nfs", "hostPath", "self")
	oneOf("GPU_ASSIGNMENT", c.GPU.Assignment, "first", "least-loaded", "exclusive")
	oneOf("GPU_DISCOVERY", c.GPU.Discovery, "auto", "templates", "off")
	for _, fault := range validation.IsQualifiedName(c.GPU.TemplateLabel) {
		add("GPU_TEMPLATE_LABEL", "%q is not the key of a label: %s", c.GPU.TemplateLabel, fault)
	}
	for _, fault := range validation.IsDNS1123Subdomain(c.GPU.RuntimeClass) {
		add("GPU_RUNTIME_CLASS", "%q is not the name of a RuntimeClass: %s", c.GPU.RuntimeClass, fault)
	}
	oneOf("LEDGER_LOCK", c.Share.Lock, "local", "mysql")
	switch c.Pods.HomeVolume {
	case "nfs":
		need("NFS_SERVER", c.Pods.NFSServer, "HOME_VOLUME=nfs mounts homes from it")
	case "hostPath":
		if err := checkDir(c.Pods.HomeRoot); err != nil {
			add("FARM_HOME_MOUNT_ROOT", "%v; HOME_VOLUME=hostPath mounts homes from there", err)
		}
	case "self":
		if err := checkDir(c.Pods.HomeRoot); err != nil && c.Pods.HomeRoot != "" {
			add("FARM_HOME_MOUNT_ROOT", "%v; HOME_VOLUME=self looks it up among the volumes of this service's pod", err)
		}
	}
	for name, fault := range c.selfFaults() {
		add(name, "%s", fault)
	}

	if err := checkDir(c.Share.Dir); err != nil {
		add("BASE_ETC_DIR", "%v", err)
	}
	for _, command := range c.Share.SudoCommands {
		if !strings.HasPrefix(command, "/") || strings.ContainsAny(command, "\n\r\x00:=\\,") {
			add("SUDO_ALLOWED_COMMANDS", "%q is not an absolute path of a command (sudoers(5))", command)
		}
	}

	for _, host := range c.Images.InsecureRegistries {
		if u, err := url.Parse("http://" + host); err != nil || u.Host != host || u.Hostname() == "" {
			add("IMAGE_REGISTRY_INSECURE", "%q is no host or host:port", host)
		}
	}

	need("NAS_SSH_HOST", c.NAS.Host, "homes are made there")
	need("NAS_SSH_USER", c.NAS.User, "it logs in to the NAS")
	need("NAS_SSH_KEY_PATH", c.NAS.KeyPath, "it logs in to the NAS")
	checkPort := func(name string, port int) {
		if port < 1 || port > 65535 {
			add(name, "%d is not in 1..65535", port)
		}
	}
	checkPort("NAS_SSH_PORT", c.NAS.Port)
	if err := checkDir(c.NAS.SharePath); err != nil {
		add("NFS_USER_SHARE_PATH", "%v", err)
	} else if !sharePathRule.MatchString(c.NAS.SharePath) {
		add("NFS_USER_SHARE_PATH", "%q has characters outside letters, digits, '.', '_', '-' and '/'", c.NAS.SharePath)
	}

	if c.Database.Host != "" {
		need("DB_USER", c.Database.User, "DB_HOST is set")
		need("DB_NAME", c.Database.Name, "DB_HOST is set")
	}
	checkPort("DB_PORT", c.Database.Port)
	if c.Share.Lock == "mysql" && c.Database.Host == "" {
		add("LEDGER_LOCK", "mysql needs DB_HOST; an embedded database serves one replica")
	}
	checkPort("REDIS_PORT", c.Redis.Port)
	if c.Kerberos.Realm != "" {
		need("KRB5_KDC_HOST", c.Kerberos.KDCHost, "KRB5_REALM is set")
		need("KRB5_ADMIN_PRINCIPAL", c.Kerberos.AdminPrincipal, "KRB5_REALM is set")
		need("KRB5_ADMIN_PASSWORD", c.Kerberos.AdminPassword, "KRB5_REALM is set")
		need("FARM_SSH_USER", c.Farm.SSHUser, "KRB5_REALM is set")
		need("FARM_SSH_KEY_PATH", c.Farm.SSHKeyPath, "KRB5_REALM is set")
	}
	checkPort("NODEPORT_MIN", c.NodePorts.Min)
	checkPort("NODEPORT_MAX", c.NodePorts.Max)
	if c.NodePorts.Min > c.NodePorts.Max {
		add("NODEPORT_MIN", "%d is above NODEPORT_MAX %d", c.NodePorts.Min, c.NodePorts.Max)
	}
	if c.Pods.Ready > c.Drain.PodBudget {
		add("POD_READY_TIMEOUT", "%v is above POD_REQUEST_BUDGET %v", c.Pods.Ready, c.Drain.PodBudget)
	}
	if c.Pods.Gone > c.Drain.PodBudget {
		add("POD_DELETE_TIMEOUT", "%v is above POD_REQUEST_BUDGET %v", c.Pods.Gone, c.Drain.PodBudget)
	}
	if c.Projects.Isolation != "off" && c.Projects.Show != ProjectsOn {
		add("NODE_ISOLATION", "needs PROJECTS=on: for every workspace it is looked up which projects the user is in")
	}
	return slices.Concat(list, c.Projects.faults(), c.Controller.faults())
}

// checkDir refuses what would make a command or a write hit the wrong tree .
func checkDir(dir string) error {
	switch {
	case dir == "":
		return errors.New("is not set")
	case !path.IsAbs(dir):
		return fmt.Errorf("%q is relative", dir)
	case path.Clean(dir) == "/":
		return fmt.Errorf("%q is the root directory", dir)
	}
	for _, part := range strings.Split(dir, "/") {
		if part == ".." {
			return fmt.Errorf("%q has .. in it", dir)
		}
	}
	return nil
}

// DatabasePath is the file of the embedded database: DB_PATH, else config-server.db in STATE_DIR.
func (c Config) DatabasePath() string {
	if c.Database.Path != "" {
		return c.Database.Path
	}
	return path.Join(c.StateDir, "config-server.db")
}
