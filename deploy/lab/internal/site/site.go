// Package site is the lab's plan: where everything lies, which address each part has, and with which
// words one gets in. It is written once, when the lab is raised for the first time, and read by
// whoever starts, looks at or uses the lab.
package site

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
)

// Defaults of the flags.
const (
	DefaultDir  = "/var/lib/config-server-lab"
	DefaultPort = 21000
)

// Fixed names of the lab.
const (
	Namespace       = "ailab-infra"
	Domain          = "LAB.INTERNAL" // Kerberos realm
	CgroupRoot      = "config-server-lab"
	SharePath       = "/volume1/share/user" // of the homes, on the NAS and on each node
	NASUser         = "nas"
	FarmUser        = "root" // its key can do nothing but the forced command
	ServiceCIDR     = "10.214.0.0/16"
	PodCIDR         = "10.213.0.0/16"
	Database        = "pod_port_db"
	DBUser          = "pod_port_user"
	KadminPrincipal = "config-server/admin@" + Domain
)

// Images of the lab, all made here.
const (
	PauseImage     = "lab.local/pause:1"
	WorkspaceImage = "lab.local/workspace:1"
	// ExitingImage is a workspace whose command ends at once, with status 3.
	ExitingImage = "lab.local/workspace-exiting:1"
	// MissingImage is on no node.
	MissingImage = "lab.local/nowhere:1"
)

// Site is one lab.
type Site struct {
	Dir  string // everything that the lab writes, but the cache of built parts and images
	Port int    // the lowest port; the others follow
	Boot string // names the start of the machine that the processes belong to
	// Owner is the folder of the checkout that raised the lab and alone may change it; "" = nobody has said so.
	Owner string
	Nodes []Node // the real ones
	Kwok  []string
	// UserConfigs is the template of the real admin_be's address; "" = the stand-in is asked.
	UserConfigs string
	// Kerberos: the service runs with a realm.
	Kerberos bool

	AdminToken    string
	KubeletTokens map[string]string // by node
	ProxyToken    string
	ManagerToken  string
	DBPassword    string
	KadminPass    string
	MasterPass    string // of the KDC's database
}

// Node is a node with a real kubelet.
type Node struct {
	Name   string
	Number int
	GPUs   int
}

// Load reads the plan of the lab in dir. fs.ErrNotExist: no lab was raised there.
func Load(dir string) (*Site, error) {
	text, err := os.ReadFile(file(dir))
	if err != nil {
		return nil, fmt.Errorf("read the lab's plan: %w", err)
	}
	s := new(Site)
	if err := json.Unmarshal(text, s); err != nil {
		return nil, fmt.Errorf("read the lab's plan: %w", err)
	}
	if s.Dir != dir {
		return nil, fmt.Errorf("read the lab's plan: it is the plan of %s, not of %s", s.Dir, dir)
	}
	return s, nil
}

// LoadOrPlan reads the plan of the lab in dir, or makes and writes one. The folder must be new,
// empty or a lab's, because lab down removes it.
func LoadOrPlan(dir string, port int) (*Site, error) {
	s, err := Load(dir)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return s, err
	}
	if !filepath.IsAbs(dir) || filepath.Clean(dir) != dir || dir == "/" {
		return nil, fmt.Errorf("plan the lab: %q is no clean absolute path", dir)
	}
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return nil, fmt.Errorf("plan the lab: %s has something in it that is no lab", dir)
	}
	s = &Site{
		Dir: dir, Port: port,
		Nodes:         []Node{{Name: "farm1", Number: 1, GPUs: 2}, {Name: "farm2", Number: 2, GPUs: 2}},
		KubeletTokens: map[string]string{},
	}
	for number := len(s.Nodes) + 1; number <= 10; number++ {
		s.Kwok = append(s.Kwok, "farm"+strconv.Itoa(number))
	}
	for _, secret := range []*string{&s.AdminToken, &s.ProxyToken, &s.ManagerToken, &s.DBPassword, &s.KadminPass, &s.MasterPass} {
		*secret = random()
	}
	for _, node := range s.Nodes {
		s.KubeletTokens[node.Name] = random()
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("plan the lab: %w", err)
	}
	return s, s.Save()
}

// CheckOwner returns an error, which says whose the lab is, unless it is the checkout's. A lab of no checkout, or
// of one that is gone, is anybody's.
func (s *Site) CheckOwner(checkout string) error {
	checkout, err := folder(checkout)
	if err != nil {
		return err
	}
	if s.Owner == "" || s.Owner == checkout {
		return nil
	}
	if _, err := os.Stat(s.Owner); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return fmt.Errorf("the lab in %s belongs to the checkout %s: use it from there, or take it over on purpose, with LABFLAGS=-take-over for make lab or make lab-down",
		s.Dir, s.Owner)
}

// Own makes the lab the checkout's, in memory, if CheckOwner lets it, or if it is taken over on purpose.
func (s *Site) Own(checkout string, takeOver bool) error {
	if err := s.CheckOwner(checkout); err != nil && !takeOver {
		return err
	}
	owner, err := folder(checkout)
	if err != nil {
		return err
	}
	s.Owner = owner
	return nil
}

// folder is the one name of a folder that may be reached by several.
func folder(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		return "", fmt.Errorf("find the checkout: %w", err)
	}
	return path, nil
}

// Save writes the plan.
func (s *Site) Save() error {
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("write the lab's plan: %w", err)
	}
	// It has every password of the lab.
	draft := file(s.Dir) + ".draft"
	if err := os.WriteFile(draft, text, 0o600); err != nil {
		return fmt.Errorf("write the lab's plan: %w", err)
	}
	if err := os.Rename(draft, file(s.Dir)); err != nil {
		return fmt.Errorf("write the lab's plan: %w", err)
	}
	return nil
}

func file(dir string) string { return filepath.Join(dir, "lab.json") }

func random() string {
	bytes := make([]byte, 16)
	// Read never fails.
	_, _ = rand.Read(bytes)
	return hex.EncodeToString(bytes)
}

// Path is a path below the lab's folder.
func (s *Site) Path(parts ...string) string {
	return filepath.Join(append([]string{s.Dir}, parts...)...)
}

// RunDir holds pid files, LogDir the logs.
func (s *Site) RunDir() string { return s.Path("run") }

// LogDir holds one log a program.
func (s *Site) LogDir() string { return s.Path("log") }

// Part is a part with an address of its own.
type Part int

// The parts, in the order of their ports.
const (
	Etcd Part = iota
	EtcdPeer
	APIServer
	Manager
	ProxyHealth
	ProxyMetrics
	Kwok
	MariaDB
	Redis
	Prometheus
	Exporter
	AdminBE
	NAS
	KDC
	Kadmind
	Kpasswd
	Service
)

// PortOf is the port of a part on 127.0.0.1.
func (s *Site) PortOf(part Part) int { return s.Port + int(part) }

// Address is the host:port of a part.
func (s *Site) Address(part Part) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.PortOf(part)))
}

// URL is the address of a part that speaks plain HTTP.
func (s *Site) URL(part Part) string { return "http://" + s.Address(part) }

// Ports of a node on 127.0.0.1.
func (s *Site) nodePort(node Node, offset int) int { return s.Port + 20 + 10*node.Number + offset }

// HealthPort is where the node's kubelet tells its health.
func (s *Site) HealthPort(node Node) int { return s.nodePort(node, 0) }

// SSHPort is where the node's sshd listens.
func (s *Site) SSHPort(node Node) int { return s.nodePort(node, 1) }

// KubeletPort is the node's kubelet's own port, on the node's address.
func (s *Site) KubeletPort() int { return s.Port + 20 }

// Gateway is the address of the node: that of its bridge, which is on this machine only. Kubelet
// refuses an address of the loopback interface.
func (n Node) Gateway() string { return fmt.Sprintf("10.213.%d.1", n.Number) }

// Subnet is that of the node's pods.
func (n Node) Subnet() string { return fmt.Sprintf("10.213.%d.0/24", n.Number) }

// Bridge is the interface that joins the node's pods.
func (n Node) Bridge() string { return fmt.Sprintf("cslab%d", n.Number) }

// Cgroup is the node's cgroup, as a path below each hierarchy.
func (n Node) Cgroup() string { return "/" + CgroupRoot + "/" + n.Name }

// Scratch is the folder on which a played machine mounts its memory.
func (s *Site) Scratch(machine string) string { return s.Path("machines", machine) }

// Homes is the folder of the homes.
func (s *Site) Homes() string { return s.Path("homes") }

// Share is the folder of passwd, group and shadow.
func (s *Site) Share() string { return s.Path("share") }

// Kubeconfig is the file with which the named party reaches the API server.
func (s *Site) Kubeconfig(who string) string { return s.Path("kube", who+".kubeconfig") }

// Containerd is the socket of a node's containerd.
func (s *Site) Containerd(node Node) string { return s.Path("nodes", node.Name, "containerd.sock") }
