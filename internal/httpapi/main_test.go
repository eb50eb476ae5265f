package httpapi_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"config-server/api/apitest"
	"config-server/internal/accounts"
	"config-server/internal/audit"
	"config-server/internal/catalog"
	"config-server/internal/farm"
	"config-server/internal/httpapi"
	"config-server/internal/overview"
	"config-server/internal/workspaces"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeWorkspaces plays the use cases on pods. A function that is nil answers like a farm where all goes well.
type fakeWorkspaces struct {
	create  func(ctx context.Context, req workspaces.CreateRequest) (workspaces.Created, error)
	delete  func(ctx context.Context, pod string) (workspaces.Deleted, error)
	migrate func(ctx context.Context, req workspaces.MigrateRequest) (workspaces.Migrated, error)
	calls   calls
}

func (f *fakeWorkspaces) Create(ctx context.Context, req workspaces.CreateRequest) (workspaces.Created, error) {
	f.calls.add(strings.TrimSpace("create " + req.User + " " + req.GPUOption))
	if f.create != nil {
		return f.create(ctx, req)
	}
	return workspaces.Created{Node: "farm6", Pod: farm.NewPodName(farm.UserName(req.User), [4]byte{1, 2, 3, 4}), Ports: twoPorts()}, nil
}

func (f *fakeWorkspaces) Delete(ctx context.Context, pod string) (workspaces.Deleted, error) {
	f.calls.add("delete " + pod)
	if f.delete != nil {
		return f.delete(ctx, pod)
	}
	return workspaces.Deleted{Pod: farm.PodName(pod), Progress: map[string]bool{
		farm.KeyServicesDeleted: true, farm.KeyNodePortsReleased: true, farm.KeyPodDeleteRequested: true, farm.KeyPodDeleted: true,
	}}, nil
}

func (f *fakeWorkspaces) Migrate(ctx context.Context, req workspaces.MigrateRequest) (workspaces.Migrated, error) {
	f.calls.add("migrate " + req.User)
	if f.migrate != nil {
		return f.migrate(ctx, req)
	}
	return workspaces.Migrated{Status: workspaces.StatusSkipped, Reason: workspaces.ReasonNoCandidate}, nil
}

// fakeAccounts plays the use cases on users and groups.
type fakeAccounts struct {
	users       func(ctx context.Context) ([]farm.Account, error)
	user        func(ctx context.Context, name string) (farm.Account, []accounts.Membership, error)
	createUser  func(ctx context.Context, user accounts.NewUser) (accounts.Created, error)
	deleteUser  func(ctx context.Context, name string) (accounts.Deleted, error)
	groups      func(ctx context.Context) ([]farm.Group, error)
	joinGroups  func(ctx context.Context, user string, groups []string) ([]string, error)
	createGroup func(ctx context.Context, group accounts.NewGroup) (farm.GroupRef, error)
	deleteGroup func(ctx context.Context, name string) (farm.GroupRef, error)
	calls       calls
}

func (f *fakeAccounts) Users(ctx context.Context) (accounts.UserList, error) {
	f.calls.add("users")
	list := accounts.UserList{Accounts: []farm.Account{oneAccount("user2100")}, Version: "state-1", Memo: f.memo}
	if f.users != nil {
		var err error
		list.Accounts, err = f.users(ctx)
		return list, err
	}
	return list, nil
}

func (f *fakeAccounts) Groups(ctx context.Context) (accounts.GroupList, error) {
	f.calls.add("groups")
	list := accounts.GroupList{Version: "state-1", Memo: f.memo, Groups: []farm.Group{
		{Name: "sudo", GID: 27}, {Name: "ailab", GID: 20005, Members: []farm.UserName{"kim", "user2100"}},
	}}
	if f.groups != nil {
		var err error
		list.Groups, err = f.groups(ctx)
		return list, err
	}
	return list, nil
}

// memo remembers nothing, and counts what is built.
func (f *fakeAccounts) memo(key string, build func() any) any {
	f.calls.add("encode " + key)
	return build()
}

func (f *fakeAccounts) User(ctx context.Context, name string) (farm.Account, []accounts.Membership, error) {
	f.calls.add("user " + name)
	if f.user != nil {
		return f.user(ctx, name)
	}
	return oneAccount(name), []accounts.Membership{{Name: farm.GroupName(name), GID: 20000, Type: accounts.Primary}}, nil
}

func (f *fakeAccounts) CreateUser(ctx context.Context, user accounts.NewUser) (accounts.Created, error) {
	f.calls.add("create user " + user.Name)
	if f.createUser != nil {
		return f.createUser(ctx, user)
	}
	return accounts.Created{
		Account: oneAccount(user.Name), Group: farm.GroupRef{Name: farm.GroupName(user.Name), GID: 20000}, Supplementary: user.Supplementary,
	}, nil
}

func (f *fakeAccounts) DeleteUser(ctx context.Context, name string) (accounts.Deleted, error) {
	f.calls.add("delete user " + name)
	if f.deleteUser != nil {
		return f.deleteUser(ctx, name)
	}
	return accounts.Deleted{}, nil
}

func (f *fakeAccounts) JoinGroups(ctx context.Context, user string, groups []string) ([]string, error) {
	f.calls.add("join " + user)
	if f.joinGroups != nil {
		return f.joinGroups(ctx, user, groups)
	}
	return groups, nil
}

func (f *fakeAccounts) CreateGroup(ctx context.Context, group accounts.NewGroup) (farm.GroupRef, error) {
	f.calls.add("create group " + group.Name)
	if f.createGroup != nil {
		return f.createGroup(ctx, group)
	}
	return farm.GroupRef{Name: farm.GroupName(group.Name), GID: 20006}, nil
}

func (f *fakeAccounts) DeleteGroup(ctx context.Context, name string) (farm.GroupRef, error) {
	f.calls.add("delete group " + name)
	if f.deleteGroup != nil {
		return f.deleteGroup(ctx, name)
	}
	return farm.GroupRef{Name: farm.GroupName(name), GID: 20300}, nil
}

// fakeProgress plays what is known of operations. A function that is nil knows of a workspace that
// stands.
type fakeProgress struct {
	status     func(ctx context.Context, user farm.UserName) (farm.Status, error)
	operations func(ctx context.Context, user farm.UserName, limit int) ([]farm.Progress, error)
	changes    chan struct{}
}

func (f *fakeProgress) Status(ctx context.Context, user farm.UserName) (farm.Status, error) {
	if f.status != nil {
		return f.status(ctx, user)
	}
	return farm.Status{User: user, Stage: farm.StageReady, Message: "it stands"}, nil
}

func (f *fakeProgress) Changes(farm.UserName) (<-chan struct{}, func()) { return f.changes, func() {} }

func (f *fakeProgress) Operations(ctx context.Context, user farm.UserName, limit int) ([]farm.Progress, error) {
	if f.operations != nil {
		return f.operations(ctx, user, limit)
	}
	return nil, nil
}

// fakeOverview plays the looks at what stands.
type fakeOverview struct {
	workspaces func(ctx context.Context) ([]overview.Workspace, error)
	nodes      func(ctx context.Context) (overview.Nodes, error)
	findings   func(ctx context.Context) (audit.Outcome, error)
	calls      calls
}

func (f *fakeOverview) Workspaces(ctx context.Context) ([]overview.Workspace, error) {
	f.calls.add("workspaces")
	if f.workspaces != nil {
		return f.workspaces(ctx)
	}
	return nil, nil
}

func (f *fakeOverview) Nodes(ctx context.Context) (overview.Nodes, error) {
	f.calls.add("nodes")
	if f.nodes != nil {
		return f.nodes(ctx)
	}
	return overview.Nodes{}, nil
}

func (f *fakeOverview) Findings(ctx context.Context) (audit.Outcome, error) {
	f.calls.add("findings")
	if f.findings != nil {
		return f.findings(ctx)
	}
	return audit.Outcome{}, nil
}

// fakeGPUs offers one GPU.
type fakeGPUs struct {
	list  func(ctx context.Context) (farm.GPUOffer, error)
	calls calls
}

func (f *fakeGPUs) List(ctx context.Context) (farm.GPUOffer, error) {
	f.calls.add("gpu options")
	if f.list != nil {
		return f.list(ctx)
	}
	return farm.GPUOffer{}, nil
}

// fakeImages plays the use cases on images. A function that is nil answers like a farm where all goes well.
type fakeImages struct {
	list   func(ctx context.Context) ([]catalog.Entry, error)
	pin    func(ctx context.Context, image string) (catalog.Pinned, error)
	unpin  func(ctx context.Context, image string) (farm.Pin, error)
	export func(ctx context.Context, request catalog.ExportRequest) (io.ReadCloser, error)
	calls  calls
}

func (f *fakeImages) List(ctx context.Context) ([]catalog.Entry, error) {
	f.calls.add("images")
	if f.list != nil {
		return f.list(ctx)
	}
	return nil, nil
}

func (f *fakeImages) Pin(ctx context.Context, image string) (catalog.Pinned, error) {
	f.calls.add("pin " + image)
	if f.pin != nil {
		return f.pin(ctx, image)
	}
	return catalog.Pinned{Pin: onePin(image)}, nil
}

func (f *fakeImages) Unpin(ctx context.Context, image string) (farm.Pin, error) {
	f.calls.add("unpin " + image)
	if f.unpin != nil {
		return f.unpin(ctx, image)
	}
	return onePin(image), nil
}

func (f *fakeImages) Export(ctx context.Context, request catalog.ExportRequest) (io.ReadCloser, error) {
	f.calls.add(strings.TrimSpace("export " + request.Image + " " + request.Path + " " + request.Node))
	if f.export != nil {
		return f.export(ctx, request)
	}
	return io.NopCloser(strings.NewReader("a tar")), nil
}

func onePin(image string) farm.Pin {
	return farm.Pin{Image: image, Digest: "sha256:" + strings.Repeat("0", 64), PinnedAt: time.Unix(1_800_000_000, 0).UTC(), RequestID: "r-1"}
}

// calls remembers which use cases were asked.
type calls struct {
	mu   sync.Mutex
	list []string
}

func (c *calls) add(call string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = append(c.list, call)
}

func (c *calls) all() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.list...)
}

func oneAccount(name string) farm.Account {
	return farm.Account{Name: farm.UserName(name), UID: 20000, GID: 20000, Gecos: "GPU User", Home: "/home/" + name, Shell: "/bin/bash"}
}

func twoPorts() []farm.Port {
	return []farm.Port{{Internal: 22, External: 30000, Purpose: "ssh"}, {Internal: 8888, External: 30001, Purpose: "jupyter"}}
}

// service is the API under test with its fakes.
type service struct {
	*httpapi.API
	pods     *fakeWorkspaces
	users    *fakeAccounts
	progress *fakeProgress
	look     *fakeOverview
	gpus     *fakeGPUs
	images   *fakeImages
}

// newService builds the API; the functions change its options or fakes first.
func newService(change ...func(*httpapi.Options, *service)) *service {
	s := &service{pods: &fakeWorkspaces{}, users: &fakeAccounts{}, progress: &fakeProgress{}, look: &fakeOverview{}, gpus: &fakeGPUs{}, images: &fakeImages{}}
	opts := httpapi.Options{Workspaces: s.pods, Accounts: s.users, Progress: s.progress, Overview: s.look, GPUs: s.gpus, Images: s.images}
	for _, f := range change {
		f(&opts, s)
	}
	s.API = httpapi.New(opts)
	return s
}

// worked lists the use cases that were asked.
func (s *service) worked() []string {
	return slices.Concat(s.pods.calls.all(), s.users.calls.all(), s.look.calls.all(), s.gpus.calls.all(), s.images.calls.all())
}

// answer is what came back.
type answer struct {
	Status int
	Header http.Header
	Text   string
}

// call sends one request.
func (s *service) call(method, target, body string) answer {
	return s.send(newRequest(method, target, body))
}

func (s *service) send(req *http.Request) answer {
	recorder := httptest.NewRecorder()
	s.ServeHTTP(recorder, req)
	return answer{Status: recorder.Code, Header: recorder.Header(), Text: recorder.Body.String()}
}

// newRequest is a request as a client would send it.
func newRequest(method, target, body string) *http.Request {
	return httptest.NewRequest(method, target, strings.NewReader(body))
}

// described sends one request and compares the answer with the API description.
func (s *service) described(t *testing.T, method, target, body string) answer {
	t.Helper()
	got := s.call(method, target, body)
	got.fits(t, method, target)
	return got
}

var validator = sync.OnceValues(func() (*apitest.Validator, error) { return apitest.New(context.Background()) })

// fits fails the test unless the answer is as the API description has it.
func (a answer) fits(t *testing.T, method, target string) {
	t.Helper()
	v, err := validator()
	if err != nil {
		t.Fatal(err)
	}
	response := &http.Response{StatusCode: a.Status, Header: a.Header, Body: io.NopCloser(strings.NewReader(a.Text))}
	if err := v.ValidateAnswer(httptest.NewRequest(method, target, nil), response); err != nil {
		t.Error(err)
	}
}

// object decodes the answer, which must be a JSON object.
func (a answer) object(t *testing.T) map[string]any {
	t.Helper()
	if got := a.Header.Get("Content-Type"); got != "application/json" {
		t.Errorf("content type is %q", got)
	}
	var body map[string]any
	if err := json.Unmarshal([]byte(a.Text), &body); err != nil {
		t.Fatalf("no JSON object: %v\n%s", err, a.Text)
	}
	return body
}

// object decodes an expectation that is written as JSON.
func object(t *testing.T, text string) map[string]any {
	t.Helper()
	var body map[string]any
	if err := json.Unmarshal([]byte(text), &body); err != nil {
		t.Fatalf("expectation is no JSON object: %v\n%s", err, text)
	}
	return body
}

// quoteJSON writes a text as a JSON string.
func quoteJSON(text string) string {
	raw, err := json.Marshal(text)
	if err != nil {
		panic(err) // strings always encode
	}
	return string(raw)
}
