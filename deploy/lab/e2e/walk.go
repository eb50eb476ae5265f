package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"config-server/deploy/lab/internal/daemon"
	"config-server/deploy/lab/internal/raise"
	"config-server/deploy/lab/internal/site"
	"config-server/deploy/lab/internal/standin"
)

// walk is the state of one walk.
type walk struct {
	lab     *raise.Lab
	site    *site.Site
	admin   kubernetes.Interface
	spaces  map[string]workspace // the standing workspace of each user
	release release              // of the container image
}

// workspace is what create-pod has answered.
type workspace struct {
	Node    string `json:"node"`
	PodName string `json:"pod_name"`
	Ports   []port `json:"ports"`
}

type port struct {
	Internal int    `json:"internal_port"`
	External int    `json:"external_port"`
	Purpose  string `json:"usage_purpose"`
}

// external is the NodePort of an internal port, 0 when the workspace has none.
func (s workspace) external(internal int) int {
	for _, p := range s.Ports {
		if p.Internal == internal {
			return p.External
		}
	}
	return 0
}

// The users of the walk. Their names begin with one word, so that clean finds what an earlier walk
// left.
const (
	prefix = "walk-"
	alice  = prefix + "alice"
	bob    = prefix + "bob"
	carol  = prefix + "carol"
	dora   = prefix + "dora"
)

func passwordOf(user string) string { return "pass word of " + user + " 비밀" }

// encoded is the password as PUT user wants it.
func encoded(user string) string { return base64.StdEncoding.EncodeToString([]byte(passwordOf(user))) }

func newWalk(_ context.Context, lab *raise.Lab) (*walk, error) {
	admin, _, err := lab.Admin()
	if err != nil {
		return nil, err
	}
	return &walk{lab: lab, site: lab.Site, admin: admin, spaces: map[string]workspace{}}, nil
}

// clean removes users and workspaces that an earlier walk left, and puts the loads back.
func (w *walk) clean(ctx context.Context) error {
	if err := w.resetLoads(ctx); err != nil {
		return err
	}
	pods, err := w.admin.CoreV1().Pods(site.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, pod := range pods.Items {
		if strings.HasPrefix(pod.Labels["username"], prefix) {
			if _, err := w.call(ctx, http.MethodPost, "/delete-pod", map[string]any{"pod_name": pod.Name}); err != nil {
				return err
			}
		} else if strings.HasPrefix(pod.Name, prefix) {
			_ = w.admin.CoreV1().Pods(site.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{})
		}
	}
	if err := w.dropTemplates(ctx); err != nil {
		return err
	}
	for _, user := range []string{alice, bob, carol, dora} {
		if _, err := w.call(ctx, http.MethodDelete, "/accounts/users/"+user, nil); err != nil {
			return err
		}
	}
	for _, node := range w.site.Nodes {
		if err := w.cordon(ctx, node.Name, false); err != nil {
			return err
		}
	}
	return nil
}

// answer is what the service said.
type answer struct {
	status int
	body   map[string]any
	raw    []byte
	took   time.Duration
}

func (a answer) text(key string) string {
	if a.body[key] == nil {
		return ""
	}
	return fmt.Sprint(a.body[key])
}

// call sends a request to the service; the error is that of the connection.
func (w *walk) call(ctx context.Context, method, path string, body any) (answer, error) {
	return send(ctx, method, w.site.URL(site.Service)+path, body)
}

func send(ctx context.Context, method, url string, body any) (answer, error) {
	var sent io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return answer{}, err
		}
		sent = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, url, sent)
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	begin := time.Now()
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = res.Body.Close() }()
	a := answer{status: res.StatusCode}
	if a.raw, err = io.ReadAll(res.Body); err != nil {
		return answer{}, err
	}
	a.took = time.Since(begin)
	_ = json.Unmarshal(a.raw, &a.body)
	return a, nil
}

// want is call that fails on another status.
func (w *walk) want(ctx context.Context, status int, method, path string, body any) (answer, error) {
	a, err := w.call(ctx, method, path, body)
	if err == nil && a.status != status {
		err = fmt.Errorf("%s %s: status %d, want %d: %s", method, path, a.status, status, a.raw)
	}
	return a, err
}

// userConfig is admin_be's answer about a user whose workspaces may go to the real nodes.
func userConfig(user string) map[string]any {
	return map[string]any{
		"username": user, "image": site.WorkspaceImage, "groups": []any{map[string]any{"gid": 20500, "name": "walkers"}},
		"gpu_nodes": []any{
			map[string]any{"node_name": "farm1", "num_gpu": 1, "cpu_limit": "1000m", "memory_limit": "512Mi"},
			map[string]any{"node_name": "farm2", "num_gpu": 2, "cpu_limit": "1000m", "memory_limit": "512Mi"},
		},
		"additional_ports": []any{},
	}
}

// configure sets what admin_be says about a user; fields replace those of userConfig.
func (w *walk) configure(ctx context.Context, user string, fields map[string]any) error {
	config := userConfig(user)
	for name, value := range fields {
		config[name] = value
	}
	a, err := send(ctx, http.MethodPut, w.site.URL(site.AdminBE)+"/api/requests/config/"+user, config)
	if err == nil && a.status != http.StatusOK {
		err = fmt.Errorf("configure %s: status %d: %s", user, a.status, a.raw)
	}
	return err
}

// onNode is the configuration's list with one node.
func onNode(name string, gpus int) map[string]any {
	return map[string]any{"gpu_nodes": []any{map[string]any{"node_name": name, "num_gpu": gpus}}}
}

// addUser makes an account.
func (w *walk) addUser(ctx context.Context, user string) error {
	if err := w.configure(ctx, user, nil); err != nil {
		return err
	}
	_, err := w.want(ctx, http.StatusCreated, http.MethodPut, "/accounts/users", map[string]any{
		"name": user, "gecos": "Walker 걷는 사람", "passwd_base64": encoded(user),
		"supplementary_groups": []any{map[string]any{"name": "walkers", "gid": 20500}},
	})
	return err
}

// create makes the user's workspace and remembers it.
func (w *walk) create(ctx context.Context, user string) (workspace, error) {
	a, err := w.want(ctx, http.StatusCreated, http.MethodPost, "/create-pod", map[string]any{"username": user})
	if err != nil {
		return workspace{}, err
	}
	s, err := decode(a)
	if err != nil {
		return workspace{}, err
	}
	w.spaces[user] = s
	return s, nil
}

func decode(a answer) (workspace, error) {
	var s workspace
	if err := json.Unmarshal(a.raw, &s); err != nil {
		return workspace{}, fmt.Errorf("read the workspace: %w: %s", err, a.raw)
	}
	return s, nil
}

// remove removes the user's remembered workspace.
func (w *walk) remove(ctx context.Context, user string) error {
	s, found := w.spaces[user]
	if !found {
		return errors.New("an earlier check has made no workspace for " + user)
	}
	delete(w.spaces, user)
	_, err := w.want(ctx, http.StatusOK, http.MethodPost, "/delete-pod", map[string]any{"pod_name": s.PodName})
	return err
}

// space is the user's standing workspace.
func (w *walk) space(user string) (workspace, error) {
	s, found := w.spaces[user]
	if !found {
		return s, errors.New("an earlier check has made no workspace for " + user)
	}
	return s, nil
}

// account is an account as the service tells it.
type account struct {
	User struct {
		UID, GID int
		Home     string
	}
	Groups []struct {
		Name string
		GID  int
	}
}

func (w *walk) account(ctx context.Context, user string) (account, error) {
	a, err := w.want(ctx, http.StatusOK, http.MethodGet, "/accounts/users/"+user, nil)
	if err != nil {
		return account{}, err
	}
	var got account
	return got, json.Unmarshal(a.raw, &got)
}

// home is the user's home as this machine sees it.
func (w *walk) home(user string) string { return filepath.Join(w.site.Homes(), user) }

// nothingOf tells what is left of a user's workspaces: pods, Services, Secrets, rows.
func (w *walk) nothingOf(ctx context.Context, user string) error {
	var left []string
	selector := metav1.ListOptions{LabelSelector: "username=" + user}
	pods, err := w.admin.CoreV1().Pods(site.Namespace).List(ctx, selector)
	if err != nil {
		return err
	}
	for _, pod := range pods.Items {
		left = append(left, "pod "+pod.Name)
	}
	services, err := w.admin.CoreV1().Services(site.Namespace).List(ctx, selector)
	if err != nil {
		return err
	}
	for _, service := range services.Items {
		left = append(left, "service "+service.Name)
	}
	secrets, err := w.admin.CoreV1().Secrets(site.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, secret := range secrets.Items {
		if strings.HasPrefix(secret.Name, "ailab-account-") && strings.Contains(secret.Name, user) {
			left = append(left, "secret "+secret.Name)
		}
	}
	db := raise.OpenDatabase(w.site)
	defer func() { _ = db.Close() }()
	for _, table := range []string{"nodeport_allocations", "config_server_operations"} {
		var rows int
		if err := db.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+table+" WHERE username = ?", user).Scan(&rows); err != nil {
			return err
		}
		if rows > 0 {
			left = append(left, fmt.Sprintf("%d rows of %s", rows, table))
		}
	}
	if len(left) > 0 {
		return fmt.Errorf("of %s there is still: %s", user, strings.Join(left, ", "))
	}
	return nil
}

// cordon makes a node refuse new pods, or take them again.
func (w *walk) cordon(ctx context.Context, name string, on bool) error {
	return daemon.Wait(ctx, func(ctx context.Context) error {
		node, err := w.admin.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if node.Spec.Unschedulable == on {
			return nil
		}
		node.Spec.Unschedulable = on
		_, err = w.admin.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{})
		return err
	})
}

// resetLoads gives the real nodes a low load, farm1 the lowest, and waits until Prometheus says so.
func (w *walk) resetLoads(ctx context.Context) error {
	return w.setLoads(ctx, map[string]float64{"farm1": 10, "farm2": 20})
}

// setLoads sets the utilisation of nodes and waits until Prometheus knows it.
func (w *walk) setLoads(ctx context.Context, utils map[string]float64) error {
	for node, util := range utils {
		load := standin.Load{GPUs: 2, Util: util, Used: 1000, Temp: 40}
		a, err := send(ctx, http.MethodPut, w.site.URL(site.Exporter)+"/loads/"+node, load)
		if err != nil {
			return err
		}
		if a.status != http.StatusOK {
			return fmt.Errorf("set the load of %s: status %d", node, a.status)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	return daemon.Wait(ctx, func(ctx context.Context) error {
		for node, util := range utils {
			a, err := send(ctx, http.MethodGet, w.site.URL(site.Prometheus)+`/api/v1/query?query=avg(DCGM_FI_DEV_GPU_UTIL{Hostname="`+node+`"})`, nil)
			if err != nil {
				return err
			}
			if want := fmt.Sprintf(`"%g"`, util); !bytes.Contains(a.raw, []byte(want)) {
				return fmt.Errorf("prometheus does not say %s for %s yet: %s", want, node, a.raw)
			}
		}
		return nil
	})
}

// pod is the pod of a workspace, nil when it is gone.
func (w *walk) pod(ctx context.Context, name string) (*corev1.Pod, error) {
	return w.admin.CoreV1().Pods(site.Namespace).Get(ctx, name, metav1.GetOptions{})
}

// ours is a program of the lab, by its name.
func (w *walk) ours(name string) *daemon.Daemon {
	return &daemon.Daemon{Name: name, RunDir: w.site.RunDir(), LogDir: w.site.LogDir()}
}

// up starts again what a check has ended.
func (w *walk) up(ctx context.Context) error {
	return w.lab.Up(ctx)
}

// until asks until ask says yes, for a bounded time.
func until(ctx context.Context, limit time.Duration, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return daemon.Wait(ctx, ask)
}

func mustNotExist(path string) error {
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s is still there (%w)", path, err)
	}
	return nil
}
