package app_test

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"config-server/internal/cluster"
	"config-server/internal/farm"
	"config-server/internal/testkit"
	"config-server/internal/testkit/kubelet"
	"config-server/internal/testkit/world"
)

const registryPassword = "s3cret-of-the-registry"

// imageRegistry is a real registry. Once it is locked, it wants a login.
type imageRegistry struct {
	*httptest.Server
	locked atomic.Bool
}

func newImageRegistry(t *testing.T) *imageRegistry {
	t.Helper()
	r := &imageRegistry{}
	real := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if user, password, _ := request.BasicAuth(); r.locked.Load() && (user != "robot" || password != registryPassword) {
			w.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		real.ServeHTTP(w, request)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *imageRegistry) host() string { return strings.TrimPrefix(r.URL, "http://") }

// push puts a new image under a tag and returns its digest.
func (r *imageRegistry) push(t *testing.T, tag string) string {
	t.Helper()
	image, err := random.Image(10, 1)
	if err != nil {
		t.Fatal(err)
	}
	at, err := name.NewTag(r.host() + "/team/decs:" + tag)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(at, image); err != nil {
		t.Fatal(err)
	}
	digest, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return digest.String()
}

// runs is image and pull policy of a workspace, and the image whose pin chose it.
func runs(pod *corev1.Pod) string {
	shell := pod.Spec.Containers[0]
	return strings.TrimSpace(fmt.Sprintf("%s %s %s", shell.Image, shell.ImagePullPolicy, pod.Annotations[farm.AnnotationImage]))
}

func pinBody(image string) string { return fmt.Sprintf(`{"image":%q}`, image) }

// TestImagesHoldWorkspaces: a pin made at one replica holds the workspaces that another makes, until it is made anew or
// taken back; a saved image is left alone.
func TestImagesHoldWorkspaces(t *testing.T) {
	t.Parallel()
	r := newImageRegistry(t)
	f := shapedFarm{world.New(t, world.Options{Cluster: testkit.Cluster(t), Env: map[string]string{"LEDGER_LOCK": "mysql"}})}
	one, two := f.Service(t, nil), f.Service(t, nil)
	image, repository := r.host()+"/team/decs:1.0", r.host()+"/team/decs"
	first := r.push(t, "1.0")
	for _, user := range []string{"kim", "lee"} {
		f.user(t, one.URL, user, "")
		f.AdminBE.SetConfig(user, map[string]any{"image": image})
	}
	create := func(user string) string {
		t.Helper()
		pod := f.create(t, two.URL, user)
		told := runs(pod)
		world.Call(t, two.URL, "POST", "/delete-pod", fmt.Sprintf(`{"pod_name":%q}`, pod.Name), 200)
		return told
	}
	if got := create("kim"); got != image+" Never" {
		t.Errorf("without a pin: %s", got)
	}
	pinned := world.Call(t, one.URL, "POST", "/images/pin", pinBody(image), 200)
	if pinned.Text("digest") != first || pinned.Text("image") != image || pinned.Text("request_id") != pinned.Header.Get("X-Request-Id") {
		t.Errorf("pinned: %s", pinned.Body)
	}
	held := func(digest string) string { return repository + "@" + digest + " IfNotPresent " + image }
	testkit.WaitFor(t, testLimit, "the other replica to see the pin", func(context.Context) error {
		if got := create("kim"); got != held(first) {
			return errors.New(got)
		}
		return nil
	})
	second := r.push(t, "1.0")
	if got := create("kim"); got != held(first) {
		t.Errorf("the tag has moved: %s", got)
	}

	// Who runs it, from the watch; a saved image has no pin.
	if err := os.WriteFile(filepath.Join(f.Images, "user-lee.tar"), []byte("tar"), 0o644); err != nil {
		t.Fatal(err)
	}
	engine := filepath.Join(t.TempDir(), "docker")
	if err := os.WriteFile(engine, []byte("#!/bin/sh\necho 'Loaded image: user-lee:latest'\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	loading := f.Service(t, map[string]string{"DOCKER_BIN": engine})
	kims, lees := f.create(t, loading.URL, "kim"), f.create(t, loading.URL, "lee")
	if got := []string{runs(kims), runs(lees)}; got[0] != held(first) || got[1] != "user-lee:latest Never" {
		t.Errorf("pods run %q", got)
	}
	want := map[string]string{image: first + ": kim " + first, "user-lee:latest": "<nil>: lee <nil>"}
	testkit.WaitFor(t, testLimit, "the list of images", func(context.Context) error {
		if diff := cmp.Diff(want, listedImages(t, one.URL)); diff != "" {
			return errors.New(diff)
		}
		return nil
	})

	again := world.Call(t, two.URL, "POST", "/images/pin", pinBody(image), 200)
	if again.Text("digest") != second || again.Text("before") != first {
		t.Errorf("pinned anew: %s", again.Body)
	}
	if got := create("kim"); got != held(second) {
		t.Errorf("pinned anew at this replica: %s", got)
	}
	world.Call(t, two.URL, "DELETE", "/images/pin?image="+image, "", 200)
	world.Call(t, two.URL, "DELETE", "/images/pin?image="+image, "", 404)
	if got := create("kim"); got != image+" Never" {
		t.Errorf("no longer pinned: %s", got)
	}
	for body, status := range map[string]int{
		pinBody(r.host() + "/team/decs:9"): 404, pinBody("user-kim:latest"): 400, pinBody(repository + "@" + first): 400, pinBody("https://" + image): 400,
		pinBody("127.0.0.1:1/a"): 502,
	} {
		if answer := world.Call(t, one.URL, "POST", "/images/pin", body, status); answer.Text("error") == "" {
			t.Errorf("%s: %s", body, answer.Body)
		}
	}
}

// listedImages maps each image to its pin and to who runs what.
func listedImages(t *testing.T, base string) map[string]string {
	t.Helper()
	list := map[string]string{}
	for _, one := range looked(t, base, "/images", 200).JSON["images"].([]any) {
		image := one.(map[string]any)
		text := fmt.Sprint(image["digest"], ":")
		for _, w := range image["workspaces"].([]any) {
			run := w.(map[string]any)
			text += fmt.Sprintf(" %s %v", run["username"], run["digest"])
		}
		list[fmt.Sprint(image["image"])] = text
	}
	return list
}

// TestImagesWithoutTheRightToSecrets: the registry is asked as anybody may, and check names the right; with it, the pull
// secrets of the session template are used, and nothing of them is told.
func TestImagesWithoutTheRightToSecrets(t *testing.T) {
	t.Parallel()
	r := newImageRegistry(t)
	image, digest := r.host()+"/team/decs:1.0", r.push(t, "1.0")
	f := newShapedFarm(t, map[string]string{"POD_TEMPLATE": "session", "LOG_LEVEL": "debug"})
	f.store(t, "session", `{spec: {imagePullSecrets: [{name: lab}], containers: [{name: shell, image: unused}]}}`)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "lab"}, Type: corev1.SecretTypeDockerConfigJson, Data: map[string][]byte{
		corev1.DockerConfigJsonKey: fmt.Appendf(nil, `{"auths":{%q:{"username":"robot","password":%q}}}`, r.host(), registryPassword),
	}}
	if _, err := f.Cluster.Admin(t).CoreV1().Secrets(f.Cluster.Namespace).Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	service := f.Service(t, nil)
	const warning = "pull secret lab may not be read (get secrets)"
	if open := world.Call(t, service.URL, "POST", "/images/pin", pinBody(image), 200); !strings.Contains(string(open.Body), warning) || open.Text("digest") != digest {
		t.Errorf("a registry for anybody: %s", open.Body)
	}
	r.locked.Store(true)
	if denied := world.Call(t, service.URL, "POST", "/images/pin", pinBody(image), 502); !strings.Contains(denied.Text("error"), warning) {
		t.Errorf("without the right: %s", denied.Body)
	}
	if _, out, errs := byHand(t, f.World, nil, "check"); !strings.Contains(out+errs, "missing: get secrets") {
		t.Errorf("check does not name the right: %s%s", out, errs)
	}
	service.Kill()

	rbac, meta := f.Cluster.Admin(t).RbacV1(), metav1.ObjectMeta{Name: "pull-secrets"}
	role := &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}}}}
	if _, err := rbac.Roles(f.Cluster.Namespace).Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: testkit.ServiceAccount, Namespace: f.Cluster.Namespace}},
	}
	if _, err := rbac.RoleBindings(f.Cluster.Namespace).Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	testkit.WaitFor(t, testLimit, "the API server to know the right", func(ctx context.Context) error {
		allowed, err := asServiceAccount(f.Cluster).May(ctx, cluster.Right{Verb: "get", Resource: "secrets"})
		if err == nil && !allowed {
			err = errors.New("not yet")
		}
		return err
	})
	service = f.Service(t, nil)
	allowed := world.Call(t, service.URL, "POST", "/images/pin", pinBody(image), 200)
	if allowed.Text("digest") != digest || allowed.JSON["warnings"] != nil {
		t.Errorf("with the right: %s", allowed.Body)
	}
	if _, out, errs := byHand(t, f.World, nil, "check"); strings.Contains(out+errs, "missing: get secrets") {
		t.Errorf("check still names the right: %s%s", out, errs)
	}
	for _, text := range []string{service.Log(t), string(allowed.Body)} {
		if strings.Contains(text, registryPassword) || strings.Contains(text, base64.StdEncoding.EncodeToString([]byte("robot:"+registryPassword))) {
			t.Error("the password is told")
		}
	}
}

// exportPods lists the pods of exports that are there and not going.
func exportPods(ctx context.Context, t *testing.T, w *world.World) []corev1.Pod {
	t.Helper()
	list, err := w.Cluster.Admin(t).CoreV1().Pods(w.Cluster.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + farm.AppExport})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// TestImagesExport brings a tar from the log of a pod that the API server has made, and looks at what is left of the pod:
// nothing, however the export ends.
func TestImagesExport(t *testing.T) {
	t.Parallel()
	f := newShapedFarm(t, map[string]string{"POD_TEMPLATE": "session", "DRAIN_TIMEOUT": "1s"})
	f.store(t, "session", `{spec: {nodeSelector: {farm: other}, tolerations: [{key: gpu, operator: Exists}], containers: [{name: shell, image: unused}]}}`)
	service := f.Service(t, nil)
	var content bytes.Buffer
	files := tar.NewWriter(&content)
	text := strings.Repeat("Port 22\n", 20_000)
	if err := errors.Join(files.WriteHeader(&tar.Header{Name: "etc/ssh/sshd_config", Mode: 0o644, Size: int64(len(text))}), write(files, text), files.Close()); err != nil {
		t.Fatal(err)
	}
	body := base64.StdEncoding.EncodeToString(content.Bytes())
	whole := fmt.Sprintf("%s\n\n=done %d\n", body, content.Len())
	gone := func() {
		t.Helper()
		testkit.WaitFor(t, testLimit, "the end of the export's pod", func(ctx context.Context) error {
			if pods := exportPods(ctx, t, f.World); len(pods) > 0 {
				return fmt.Errorf("pod %s is there", pods[0].Name)
			}
			return nil
		})
	}

	const request = `{"image":"dguailab/decs:1.0","path":"/etc/ssh","node":"farm5"}`
	f.Cluster.OnLogs(t, kubelet.Log{Contains: "image-export-", Text: whole})
	got := world.Call(t, service.URL, "POST", "/images/export", request, 200)
	if !bytes.Equal(got.Body, content.Bytes()) || got.Header.Get("Content-Type") != "application/x-tar" {
		t.Errorf("%d bytes of %d, %v", len(got.Body), content.Len(), got.Header)
	}
	gone()

	for name, log := range map[string]string{"cut": whole[:len(whole)/2], "a part is lost": whole[:1000] + whole[2000:]} {
		f.Cluster.OnLogs(t, kubelet.Log{Contains: "image-export-", Text: log})
		if answer, err := world.Send(t.Context(), service.URL, "POST", "/images/export", request); err == nil {
			t.Errorf("%s: the caller takes %d bytes for the whole", name, len(answer.Body))
		}
		gone()
	}
	fails := strings.Replace(request, "decs:1.0", "decs:"+testkit.ImageFails, 1)
	f.Cluster.OnLogs(t, kubelet.Log{Contains: "image-export-", Text: ""})
	if answer := world.Call(t, service.URL, "POST", "/images/export", fails, 502); !strings.Contains(answer.Text("error"), "status 1") {
		t.Errorf("a pod that fails: %s", answer.Body)
	}
	gone()
	config := strings.Replace(request, "decs:1.0", "decs:"+testkit.ImageConfigError, 1)
	if answer := world.Call(t, service.URL, "POST", "/images/export", config, 502); !strings.Contains(answer.Text("error"), "CreateContainerConfigError") {
		t.Errorf("a pod that cannot start: %s", answer.Body)
	}
	gone()

	// The caller goes in the midst, and after that the service ends.
	f.Cluster.OnLogs(t, kubelet.Log{Contains: "image-export-", Text: whole[:150_000], Hang: true})
	begin := func(ctx context.Context) *http.Response {
		t.Helper()
		ask, err := http.NewRequestWithContext(ctx, "POST", service.URL+"/images/export", strings.NewReader(request))
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(ask)
		if err != nil {
			t.Fatal(err)
		}
		if pods := exportPods(t.Context(), t, f.World); response.StatusCode != 200 || len(pods) != 1 {
			t.Errorf("status %d, %d pods", response.StatusCode, len(pods))
		}
		return response
	}
	ctx, cancel := context.WithCancel(t.Context())
	response := begin(ctx)
	pod := exportPods(t.Context(), t, f.World)[0]
	if spec := pod.Spec; spec.NodeSelector["farm"] != "other" || *spec.ActiveDeadlineSeconds != 900 || !*spec.Containers[0].SecurityContext.ReadOnlyRootFilesystem {
		t.Errorf("pod %+v", spec)
	}
	cancel()
	_ = response.Body.Close()
	gone()
	response = begin(t.Context())
	service.Term()
	service.Wait(t, testLimit)
	_, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if err == nil {
		t.Error("the service ends, and the caller takes a part for the whole")
	}
	gone()
}

// TestImagesPageNamesTestsThatThereAre holds the page's table to what is tested.
func TestImagesPageNamesTestsThatThereAre(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/images.md")
	if err != nil {
		t.Fatal(err)
	}
	sources, err := exec.CommandContext(t.Context(), "grep", "-rhoE", `^func Test[A-Za-z0-9]+\(`, "--include=*_test.go", "../..").Output()
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile("`(Test[A-Za-z0-9]+)`").FindAllSubmatch(page, -1)
	if len(names) < 30 {
		t.Errorf("only %d tests are named", len(names))
	}
	for _, name := range names {
		if !bytes.Contains(sources, []byte("func "+string(name[1])+"(")) {
			t.Errorf("the page names %s, which there is not", name[1])
		}
	}
}

func write(w io.Writer, text string) error {
	_, err := io.WriteString(w, text)
	return err
}
