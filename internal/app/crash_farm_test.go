package app_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	admission "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"config-server/internal/farm"
	"config-server/internal/testkit"
	"config-server/internal/testkit/world"
)

// crashFarm is a world with a process that can be told where to die.
type crashFarm struct {
	world   *world.World
	db      *sql.DB
	kube    kubernetes.Interface
	service *testkit.ServiceProcess
	dir     string // of the orders, the log of points and the state

	names  int
	gids   map[string]int
	owners map[int]string  // who was ever seen with a number
	known  map[string]bool // leftovers that were told already

	// krb5 tells what there is of one name beside the world, and what belongs to nobody; nil = Kerberos
	// and account Secrets are off, and every Secret is one too many.
	krb5 func(ctx context.Context, p picture, name string) (facts, strays []string, err error)

	tried, leftovers, retries int
	table                     []string
}

func newCrashFarm(t *testing.T, opts world.Options) *crashFarm {
	t.Helper()
	f := &crashFarm{dir: t.TempDir(), gids: map[string]int{}, owners: map[int]string{}, known: map[string]bool{}}
	env := map[string]string{
		"STATE_DIR": filepath.Join(f.dir, "state"), "CRASH_FILE": filepath.Join(f.dir, "order"), "CRASH_LOG": filepath.Join(f.dir, "points"),
		"SUDO_ALLOWED_COMMANDS": "/usr/bin/apt-get,/usr/bin/apt",
	}
	maps.Copy(env, opts.Env)
	opts.Env = env
	f.world = world.New(t, opts)
	f.db, f.kube = f.world.MariaDB.Open(t, f.world.Database), f.world.Cluster.Admin(t)
	f.refuseServices(t)
	f.service = f.world.NewService(t, testkit.Build{Tags: "crashpoints", NoRace: true}, nil)
	f.service.Start(t)
	f.must(t, crashCall{"PUT", "/accounts/groups", fmt.Sprintf(`{"name":%q,"gid":%d}`, crashTeam, crashTeamGID)}, 201)
	f.must(t, crashCall{"PUT", "/accounts/users", fmt.Sprintf(
		`{"name":%q,"passwd_base64":"cGFzc3dvcmQ=","supplementary_groups":[{"name":%q,"gid":%d}]}`, crashKeeper, crashTeam, crashTeamGID)}, 201)
	return f
}

// refuseServices has the API server refuse Services of one purpose, and waits until it does.
func (f *crashFarm) refuseServices(t *testing.T) {
	t.Helper()
	const name = "refuse-some-services"
	fail := admission.Fail
	policy := &admission.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admission.ValidatingAdmissionPolicySpec{
			FailurePolicy: &fail,
			MatchConstraints: &admission.MatchResources{ResourceRules: []admission.NamedRuleWithOperations{{RuleWithOperations: admission.RuleWithOperations{
				Operations: []admission.OperationType{admission.Create},
				Rule:       admission.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"services"}},
			}}}},
			Validations: []admission.Validation{{
				Expression: fmt.Sprintf("!has(object.metadata.labels) || !('purpose' in object.metadata.labels) || object.metadata.labels['purpose'] != '%s'", crashRefused),
				Message:    "this purpose is refused",
			}},
		},
	}
	binding := &admission.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admission.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: name, ValidationActions: []admission.ValidationAction{admission.Deny},
		},
	}
	client := f.kube.AdmissionregistrationV1()
	if _, err := client.ValidatingAdmissionPolicies().Create(t.Context(), policy, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.ValidatingAdmissionPolicyBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	testkit.WaitFor(t, time.Minute, "the refusal of Services", func(ctx context.Context) error {
		service := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: "probe", Labels: map[string]string{farm.LabelPurpose: crashRefused}},
			Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
		}
		_, err := f.kube.CoreV1().Services(f.world.Cluster.Namespace).Create(ctx, service, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil {
			return errors.New("it is still accepted")
		}
		if !strings.Contains(err.Error(), "this purpose is refused") {
			return err
		}
		return nil
	})
}

func (f *crashFarm) newName() string {
	f.names++
	return fmt.Sprintf("c%04d", f.names)
}

// gidOf chooses the number of a name's group once. Numbers lie far apart, because those that the
// service chooses follow the highest.
func (f *crashFarm) gidOf(name string) int {
	if f.gids[name] == 0 {
		f.gids[name] = 1_000_000 + 1000*f.names
	}
	return f.gids[name]
}

// order tells the process where to die; "" = nowhere.
func (f *crashFarm) order(t *testing.T, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(f.dir, "order"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (f *crashFarm) forgetPoints(t *testing.T) {
	t.Helper()
	if err := os.Remove(filepath.Join(f.dir, "points")); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
}

// passed lists the points that were passed since forgetPoints, each with its count.
func (f *crashFarm) passed(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(f.dir, "points"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	count := map[string]int{}
	var points []string
	for line := range strings.Lines(string(text)) {
		name := strings.TrimSpace(line)
		count[name]++
		points = append(points, fmt.Sprintf("%s#%d", name, count[name]))
	}
	return points
}

// waitHeld waits until the process has stopped at its point.
func (f *crashFarm) waitHeld(t *testing.T, what string) {
	t.Helper()
	testkit.WaitFor(t, crashLimit, what, func(context.Context) error {
		points := f.passed(t)
		if len(points) == 0 || !strings.HasPrefix(points[len(points)-1], "held at ") {
			return errors.New("the process is not there yet")
		}
		return nil
	})
}

// account is a line of passwd.
type account struct{ uid, gid int }

// share is the account files, read.
type share struct {
	passwd  map[string]account
	group   map[string]int
	members map[string][]string
	shadow  []string
	sudoers map[string]string
	strays  []string
}

// readShare parses the files; what does not belong there is a stray.
func (f *crashFarm) readShare() (share, error) {
	s := share{passwd: map[string]account{}, group: map[string]int{}, members: map[string][]string{}, sudoers: map[string]string{}}
	err := filepath.WalkDir(f.world.Share, func(path string, entry os.DirEntry, err error) error {
		if errors.Is(err, os.ErrNotExist) {
			return nil // it was replaced or removed meanwhile
		}
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		name, _ := filepath.Rel(f.world.Share, path)
		s.take(name, string(content))
		return err
	})
	return s, err
}

func (s *share) take(name, content string) {
	switch {
	case name == "bashrc", name == "bash.bash_logout", name == ".config-server/retired":
	case name == "passwd":
		s.lines(content, 7, func(fields []string) {
			if _, twice := s.passwd[fields[0]]; twice {
				s.strays = append(s.strays, "second line of "+fields[0]+" in passwd")
			}
			s.passwd[fields[0]] = account{number(fields[2]), number(fields[3])}
		})
	case name == "group":
		s.lines(content, 4, func(fields []string) {
			if _, twice := s.group[fields[0]]; twice {
				s.strays = append(s.strays, "second line of "+fields[0]+" in group")
			}
			s.group[fields[0]] = number(fields[2])
			s.members[fields[0]] = strings.Split(fields[3], ",")
		})
	case name == "shadow":
		s.lines(content, 9, func(fields []string) { s.shadow = append(s.shadow, fields[0]) })
	case filepath.Dir(name) == "sudoers.d" && !strings.Contains(filepath.Base(name), "."):
		s.sudoers[filepath.Base(name)] = content
	default:
		s.strays = append(s.strays, "file "+name+" on the share")
	}
}

func (s *share) lines(content string, count int, take func([]string)) {
	for line := range strings.Lines(content) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), ":")
		if len(fields) != count {
			s.strays = append(s.strays, fmt.Sprintf("line %q", line))
			continue
		}
		take(fields)
	}
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		return -1
	}
	return n
}

// managed tells whether the service made the account.
func (a account) managed() bool { return a.uid >= 20000 && a.uid != 65534 }

// homes maps each home to its owner and mode.
func (f *crashFarm) homes() (map[string]string, error) {
	entries, err := os.ReadDir(f.world.NAS.ShareDir)
	if err != nil {
		return nil, err
	}
	homes := map[string]string{}
	for _, entry := range entries {
		info, err := entry.Info()
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		homes[entry.Name()] = fmt.Sprintf("%d %v", info.Sys().(*syscall.Stat_t).Uid, info.Mode().Perm())
	}
	return homes, nil
}

// checkOwners holds that a number has one owner for ever.
func (f *crashFarm) checkOwners(t *testing.T, what string) {
	t.Helper()
	s, err := f.readShare()
	if err != nil {
		t.Fatal(err)
	}
	check := func(id int, name string) {
		if id < 20000 || id == 65534 { // of the base system
			return
		}
		if owner, seen := f.owners[id]; seen && owner != name {
			f.leftovers++
			t.Errorf("%s: number %d of %s was given to %s", what, id, owner, name)
		}
		f.owners[id] = name
	}
	for name, a := range s.passwd {
		check(a.uid, name)
	}
	for name, gid := range s.group {
		check(gid, name)
	}
}

// lockFiles lists the files of locks that nobody should hold now: all but the living instance's.
func (f *crashFarm) lockFiles() ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(f.dir, "state", "locks"))
	if err != nil {
		return nil, err
	}
	var others []string
	instances := 0
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), "instance") {
			instances++
			continue
		}
		others = append(others, "lock file "+entry.Name())
	}
	if instances != 1 {
		others = append(others, fmt.Sprintf("%d lock files of instances", instances))
	}
	slices.Sort(others)
	return others, nil
}
