package workspaces

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"config-server/internal/farm"
	"config-server/internal/podspec"
	"config-server/internal/saga"
)

// Cluster is the Kubernetes API as far as workspaces need it. Every error names its operation and
// object and carries a *farm.APIError where the API server answered.
type Cluster interface {
	// Nodes lists the cluster's nodes.
	Nodes(ctx context.Context) ([]farm.Node, error)
	// Pod reads one pod, live. The second result is false if there is none.
	Pod(ctx context.Context, name farm.PodName) (farm.Pod, bool, error)
	// PodsOf lists the workspace pods of a user.
	PodsOf(ctx context.Context, user farm.UserName) ([]farm.Pod, error)
	// CreatePod sends a pod. The error wraps farm.ErrExists if there is one of that name.
	CreatePod(ctx context.Context, pod *corev1.Pod) (farm.Pod, error)
	// PodTemplate reads one PodTemplate of the workspaces' namespace, live. The second result is false if
	// there is none; farm.IsForbidden tells a missing right.
	PodTemplate(ctx context.Context, name string) (corev1.PodTemplate, bool, error)
	// WaitReady returns nil once the pod is Ready; farm.ErrNeverReady if it cannot become so,
	// farm.ErrWaitTimeout at a limit, both with what kubelet says.
	WaitReady(ctx context.Context, pod farm.Pod, limits farm.ReadyLimits) error
	// LastLog is the bounded end of what the pod's container wrote; empty if there is none to be had.
	LastLog(ctx context.Context, pod farm.Pod) string
	// DeletePod asks for the removal of the pod of that name and UID, never of another that has the name;
	// false if there is none.
	DeletePod(ctx context.Context, name farm.PodName, uid string) (bool, error)
	// WaitGone returns nil once there is no such pod, farm.ErrWaitTimeout at the limit.
	WaitGone(ctx context.Context, name farm.PodName, uid string, limit time.Duration) error
	// CreateService sends a Service. The error wraps farm.ErrPortTaken or farm.ErrExists.
	CreateService(ctx context.Context, service *corev1.Service) error
	// ServicesOf lists the Services of a pod, live.
	ServicesOf(ctx context.Context, pod farm.PodName) ([]farm.Service, error)
	// DeleteServicesOf removes the Services of a pod and tells how many there were. Without an
	// error none is left.
	DeleteServicesOf(ctx context.Context, pod farm.PodName) (int, error)
	// TakenPorts are the NodePorts of the cluster's Services; false if they are not known.
	TakenPorts() (map[int]bool, bool)
	// PutSecret creates a Secret, or replaces the one that has its name.
	PutSecret(ctx context.Context, secret farm.Secret) error
	// DeleteSecret removes a Secret; false if there was none.
	DeleteSecret(ctx context.Context, name string) (bool, error)
}

// UserConfigs asks admin_be. Its errors are *farm.Error of the step FETCH_USER_CONFIG.
type UserConfigs interface {
	UserConfig(ctx context.Context, user farm.UserName) (farm.UserConfig, error)
}

// Load tells how busy nodes are. A node without data is absent from the map.
type Load interface {
	Scores(ctx context.Context, nodes []farm.NodeName) (map[farm.NodeName]float64, error)
	// Choose returns the node with the lowest score; the first in order on a tie, unscored last.
	Choose(order []farm.NodeName, scores map[farm.NodeName]float64) (farm.NodeName, bool)
}

// Ports reserves NodePorts in the database. Reserve and Replace wrap farm.ErrPortsExhausted.
type Ports interface {
	Reserve(ctx context.Context, owner farm.PortOwner, wants []farm.PortWant, taken map[int]bool) ([]farm.Port, error)
	Replace(ctx context.Context, owner farm.PortOwner, old farm.Port, taken map[int]bool) (farm.Port, error)
	Release(ctx context.Context, pod farm.PodName) (int, error)
	RowsOf(ctx context.Context, pod farm.PodName) ([]farm.Row, error)
}

// Accounts reads the ledger. Account wraps farm.ErrNotFound.
type Accounts interface {
	Account(ctx context.Context, user farm.UserName) (farm.Account, farm.Group, error)
	// GroupNames names those of the groups that exist, in the order asked.
	GroupNames(ctx context.Context, ids []farm.ID) ([]farm.GroupRef, error)
	// ShadowHash is the account's password field, a secret. It wraps farm.ErrNotFound.
	ShadowHash(ctx context.Context, user farm.UserName) (string, error)
}

// Images knows saved images.
type Images interface {
	// Resolve names the image of a new workspace, with a warning if a saved one could not be used.
	Resolve(ctx context.Context, user farm.UserName, base string) (image, warning string)
	// Save has a running workspace saved by the script in its image; its exit status counts.
	Save(ctx context.Context, pod farm.Pod) error
}

// Kerberos brings keytabs to farm nodes and takes them away.
type Kerberos interface {
	// Enabled reports whether there is anything to do.
	Enabled() bool
	// Deploy brings a keytab to a node. The error wraps farm.ErrNotFound if no such node is known and
	// nothing was done.
	Deploy(ctx context.Context, node farm.NodeName, user farm.UserName, uid farm.ID) error
	// Remove takes a keytab away. The error wraps farm.ErrDeferred if it is noted for later.
	Remove(ctx context.Context, node farm.NodeName, user farm.UserName) error
	// Left lists the removals that are noted, Keep strikes one out.
	Left(ctx context.Context) ([]farm.KeytabLeft, error)
	Keep(ctx context.Context, left farm.KeytabLeft) error
}

// GPUs knows the GPU options.
type GPUs interface {
	// Choose finds an option by its ID, with what each node has of it now. The error wraps
	// farm.ErrNotFound, and names the options, if there is no such one.
	Choose(ctx context.Context, id string) (farm.GPUChoice, error)
}

// DeviceFiles assigns GPUs by their device files.
type DeviceFiles interface {
	// Assign gives the owner's pod GPUs of the first of the wishes that can be fulfilled. The error wraps
	// farm.ErrGPUsTaken, and says who has what, if none can.
	Assign(ctx context.Context, owner farm.PortOwner, wishes []farm.GPUWish) (farm.GPUPlace, error)
	// Release takes back what a pod was given, and tells how many there were.
	Release(ctx context.Context, pod farm.PodName) (int, error)
}

// Locks hands out named locks. The error wraps farm.ErrLockTimeout when the context ends first.
type Locks interface {
	Lock(ctx context.Context, name string) (farm.Lock, error)
	// TryLock returns false at once if somebody holds the lock.
	TryLock(ctx context.Context, name string) (farm.Lock, bool, error)
}

// Operations keeps a record of every operation that is under way, so that a crash can be mended.
type Operations interface {
	// Begin writes a record as this instance's.
	Begin(ctx context.Context, operation farm.Operation) error
	// Advance notes how far the operation has come. The error wraps farm.ErrNotFound if the record is
	// not this instance's any more: then the operation must not go on.
	Advance(ctx context.Context, id, stage string) error
	// Place notes another node of the operation's pod. It fails like Advance.
	Place(ctx context.Context, id string, node farm.NodeName) error
	// End removes this instance's record. The error wraps farm.ErrNotFound if another instance has
	// claimed it; a record that is gone is no error.
	End(ctx context.Context, id string) error
	// Claim makes a record of another instance this one's; false if it no longer is from's.
	Claim(ctx context.Context, id, from string) (bool, error)
	// List reads the records of all instances, the oldest first.
	List(ctx context.Context) ([]farm.Operation, error)
}

// Meter counts what only figures tell. Its methods must not block.
type Meter interface {
	// ReadyFailed is told why a new workspace did not get Ready.
	ReadyFailed(reason farm.ReadyReason)
	// PortTaken is told of a reserved NodePort that turned out to be somebody else's.
	PortTaken()
}

// Options of the use cases. Every part is required but DeviceFiles, Homes, Observer, Progress, RequestID and Meter.
type Options struct {
	Cluster     Cluster
	UserConfigs UserConfigs
	Load        Load
	Ports       Ports
	Accounts    Accounts
	Images      Images
	Pins        Pins
	Kerberos    Kerberos
	GPUs        GPUs
	DeviceFiles DeviceFiles // nil = a workspace gets the first GPUs of its node
	// Homes is nil where workspaces have nothing of the service's own volumes.
	Homes      Homes
	Teams      Teams // nil = nodes are kept for nobody
	Locks      Locks
	Operations Operations
	Observer   saga.Observer
	Progress   Progress
	// RequestID is the id of the request that a context belongs to.
	RequestID func(context.Context) string
	Meter     Meter // nil = nobody counts
	Log       *slog.Logger

	Settings podspec.Settings
	// SessionTemplate is the PodTemplate that lies under every workspace; empty = none.
	SessionTemplate string
	// Instance names this process in operation records; it holds the lock InstanceLock(Instance).
	Instance string
	// DeadAfter is how long the lock of another instance must have been free before that instance
	// counts as gone; zero where only its end can free it.
	DeadAfter time.Duration
	// ReadyLimit bounds the wait for Ready where no image is pulled, PendingLimit where one may be.
	// UnschedulableLimit bounds the time in which no node takes the pod, PullGrace that of a failing pull.
	ReadyLimit, PendingLimit, UnschedulableLimit, PullGrace time.Duration
	// GoneLimit bounds the wait for a pod's end.
	GoneLimit time.Duration
	// SaveLimit bounds the save script of a migration.
	SaveLimit time.Duration
	// Budget bounds a whole use case, UndoLimit the undo that may follow it.
	Budget, UndoLimit time.Duration
}

// Service has the use cases on workspaces. It is safe for concurrent use.
type Service struct {
	Options

	noRuntimeClass sync.Once // has said so

	mu sync.Mutex
	// running has the ids of this process's operations that are under way. A record of ours that is
	// not in it was given up, and recovery takes it.
	running map[string]bool
}

// New returns the use cases over their parts.
func New(opts Options) *Service {
	if opts.Progress == nil {
		opts.Progress = untold{}
	}
	if opts.Meter == nil {
		opts.Meter = noMeter{}
	}
	return &Service{Options: opts, running: map[string]bool{}}
}

type noMeter struct{}

func (noMeter) ReadyFailed(farm.ReadyReason) {}
func (noMeter) PortTaken()                   {}

// begin writes the record of an operation, which from then on counts as running until finish.
func (s *Service) begin(ctx context.Context, operation farm.Operation) error {
	s.mu.Lock()
	s.running[operation.ID] = true
	s.mu.Unlock()
	return s.Operations.Begin(ctx, operation)
}

// finish says that this process does no more on an operation. If its record is still there by
// then, recovery goes on with it.
func (s *Service) finish(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.running, id)
}

func (s *Service) isRunning(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running[id]
}

// InstanceLock is the lock that a process holds for as long as it lives. Who can take it knows
// that the process is gone and that its operation records are to be recovered.
func InstanceLock(instance string) string { return "instance/" + instance }

// podLock stands in where no user is known of a pod.
func podLock(pod farm.PodName) string { return "pod/" + string(pod) }

// checkUser applies the rules on who may have a workspace. The error is an Invalid one with the
// rule in its detail, or the ledger's failure.
func (s *Service) checkUser(ctx context.Context, name string) (farm.UserName, error) {
	user := farm.UserName(name)
	if err := user.CheckPod(); err != nil {
		return "", farm.Errorf(farm.Invalid, "%v", err)
	}
	if (farm.Account{Name: user, UID: farm.MinID}).IsBase() {
		return "", farm.Errorf(farm.Invalid, "%q is an account of the base system", name)
	}
	if farm.IsNew(name) {
		return user, nil
	}
	// The rule for new names is younger than many accounts: a name outside it may go on if it stands
	// in the ledger, and cannot exist otherwise.
	_, _, err := s.Accounts.Account(ctx, user)
	if errors.Is(err, farm.ErrNotFound) {
		return "", farm.Errorf(farm.Invalid, "%v", farm.CheckNew(name))
	}
	if err != nil {
		return "", err
	}
	return user, nil
}

// newPodName draws the eight hexadecimal digits.
func newPodName(user farm.UserName) (farm.PodName, error) {
	var suffix [4]byte
	if _, err := rand.Read(suffix[:]); err != nil {
		return "", fmt.Errorf("draw a pod name for %s: %w", user, err)
	}
	return farm.NewPodName(user, suffix), nil
}

// detach gives deletions a context that outlives the caller: once begun they run to their end,
// within the budget.
func (s *Service) detach(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), s.Budget)
}

func (s *Service) sagaOptions(useCase string) saga.Options {
	return saga.Options{UseCase: useCase, UndoLimit: s.UndoLimit, Observer: s.Observer}
}
