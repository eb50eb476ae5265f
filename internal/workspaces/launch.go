package workspaces

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"

	"config-server/internal/farm"
	"config-server/internal/podspec"
	"config-server/internal/saga"
	"config-server/internal/selfvolumes"
	"config-server/internal/templates"
)

// launch is the making of one workspace: what create and migrate share. Its fields are filled by
// its steps, in their order; the attempted flags tell undo what may exist.
type launch struct {
	*Service

	user      farm.UserName
	pod       farm.PodName
	operation farm.Operation
	warnings  []string

	option  string           // the ID of the GPU option that the request names; empty = the user configuration's
	gpu     *farm.GPUChoice  // nil = none
	blind   bool             // the nodes may not be read
	self    *selfvolumes.Set // of the service's own volumes; nil = nothing
	kept    Kept             // which nodes are others'
	config  farm.UserConfig
	node    farm.NodeName
	account farm.Account
	primary farm.Group
	image   string
	ranked  []farm.NodeName // where it may run, the best first; only where GPUs are assigned
	given   farm.GPUSet     // the GPUs that were assigned
	pin     *farm.Pin       // of image; nil = none
	ports   []farm.Port
	layers  []templates.Layer // the lowest first
	spec    *corev1.Pod
	created farm.Pod

	recorded       bool // the operation's record may exist
	begun          bool // it does, or did
	closed         bool // the operation's record may be gone already
	assigning      bool // rows of GPUs may exist
	reserved       bool // rows may exist
	deployed       bool // the keytab may be on the node
	keytabLies     bool // it is
	posted         bool // the pod may exist
	touched        bool // migrate: the record may say that the old pod was touched
	undecided      bool // migrate: the record may or may not say that the old pod was touched
	foreign        bool // a pod of that name exists and is not ours
	refused        bool // the API server said no: there is no pod
	secretive      bool // the Secret with the password hash may exist
	serving        bool // Services may exist
	servicesRemain bool // undo could not remove them: their rows must stay
	leftover       bool // something could not be undone: the record must stay
}

func (s *Service) newLaunch(user farm.UserName, kind farm.OperationKind) (*launch, error) {
	pod, err := newPodName(user)
	if err != nil {
		return nil, err
	}
	return &launch{
		Service: s, user: user, pod: pod,
		operation: farm.Operation{
			ID: uuid.NewString(), Kind: kind, User: user, Pod: pod, Stage: farm.RecordRunning, Instance: s.Instance,
		},
	}, nil
}

func (l *launch) warn(ctx context.Context, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	l.warnings = append(l.warnings, text)
	l.Log.WarnContext(ctx, text, "user", l.user, "pod", l.pod)
}

// fail makes the pod family's error of a step, with the pod's name in it.
func (l *launch) fail(kind farm.Kind, step farm.Step, code farm.Code, cause error) *farm.Error {
	e := farm.Failf(kind, step, code, cause, "%v", cause)
	e.Pod = l.pod
	return e
}

func (l *launch) buildFailed(kind farm.Kind, cause error) *farm.Error {
	return l.fail(kind, farm.StepBuildPodSpec, farm.PodSpecBuildFailed, cause)
}

// fetchConfig is FETCH_USER_CONFIG.
func (l *launch) fetchConfig(ctx context.Context) (err error) {
	l.config, err = l.UserConfigs.UserConfig(ctx, l.user)
	return err
}

// buildSteps reserve and prepare everything that the pod's spec needs, in the contract's order:
// account, saved image, NodePorts, keytab.
func (l *launch) buildSteps() []saga.Step {
	steps := []saga.Step{
		{
			Name: string(farm.StepBuildPodSpec) + ":account",
			// Undone last: first the record, which stays if anything else stayed, and the rows before it.
			Undos: []saga.Undo{
				{What: farm.WhatRecord, Run: l.undoRecord},
				{Key: farm.KeyNodePortsReleased, What: farm.WhatPorts, Run: l.undoPorts},
			},
			Do: func(ctx context.Context) error {
				if err := l.readAccount(ctx); err != nil {
					return err
				}
				return l.readLayers(ctx)
			},
		},
		{Name: string(farm.StepBuildPodSpec) + ":image", Do: l.resolveImage},
		{Name: string(farm.StepBuildPodSpec) + ":record", Do: l.record},
		{Name: string(farm.StepBuildPodSpec) + ":ports", Do: l.reservePorts},
		{
			Name:  string(farm.StepBuildPodSpec) + ":keytab",
			Undos: []saga.Undo{{What: farm.WhatKeytab, Run: l.undoKeytab}},
			Do:    l.deployKeytab,
		},
		{Name: string(farm.StepBuildPodSpec) + ":spec", Do: l.buildSpec},
	}
	return l.withGPUs(steps)
}

// podSteps make the pod, wait for it and open its ports.
func (l *launch) podSteps() []saga.Step {
	steps := []saga.Step{
		{
			Name: string(farm.StepCreatePod),
			Undos: []saga.Undo{
				{Key: farm.KeyPodDeleted, What: farm.WhatPod, Run: l.undoPod},
				{Key: farm.KeyServicesDeleted, What: farm.WhatServices, Run: l.undoServices},
			},
			Do: l.createPod,
		},
	}
	if l.Settings.AccountSecret {
		steps = append(steps, saga.Step{
			Name: stepAccountSecret, Undos: []saga.Undo{{What: farm.WhatSecret, Run: l.undoAccountSecret}}, Do: l.putAccountSecret,
		})
	}
	return append(steps,
		saga.Step{Name: string(farm.StepWaitPodReady), Do: l.waitReady},
		saga.Step{Name: string(farm.StepCreateNodePortService), Do: l.createServices},
		// Kubelet calls a container without a probe Ready as soon as it runs. One that ended meanwhile is
		// no workspace; the shared watch knows it without another call.
		saga.Step{Name: string(farm.StepWaitPodReady) + ":again", Do: l.waitReady})
}

func (l *launch) readAccount(ctx context.Context) (err error) {
	l.account, l.primary, err = l.Accounts.Account(ctx, l.user)
	switch {
	case errors.Is(err, farm.ErrNotFound):
		return l.buildFailed(farm.Invalid, fmt.Errorf(
			"user '%s' not found in passwd: create the account first with PUT /accounts/users", l.user))
	case err != nil:
		return l.buildFailed(farm.Internal, fmt.Errorf("read account %s: %w", l.user, err))
	case l.account.IsBase():
		return l.buildFailed(farm.Invalid, fmt.Errorf("user '%s' (uid %d) is an account of the base system", l.user, l.account.UID))
	}
	return nil
}

func (l *launch) resolveImage(ctx context.Context) error {
	image, warning := l.Images.Resolve(ctx, l.user, l.config.Image)
	l.image = image
	if warning != "" {
		l.warn(ctx, "%s", warning)
	}
	if image != l.config.Image {
		return nil // a saved image has no digest
	}
	return l.pinImage(ctx)
}

// record writes the operation's record: from here on a crash is mended by recovery.
func (l *launch) record(ctx context.Context) error {
	l.operation.Node = l.node
	l.recorded = true
	if err := l.begin(ctx, l.operation); err != nil {
		return l.buildFailed(farm.Internal, err)
	}
	l.begun = true
	return nil
}

// undoRecord removes the record, unless something stayed behind: then it stays too, and recovery
// works from it.
func (l *launch) undoRecord(ctx context.Context) (bool, error) {
	if !l.recorded || l.leftover {
		return false, nil
	}
	return l.begun, l.Operations.End(ctx, l.operation.ID)
}

func (l *launch) owner() farm.PortOwner {
	return farm.PortOwner{User: l.user, Pod: l.pod, Node: l.node}
}

func (l *launch) reservePorts(ctx context.Context) (err error) {
	taken, _ := l.Cluster.TakenPorts()
	l.reserved = true
	l.ports, err = l.Ports.Reserve(ctx, l.owner(), farm.WantedPorts(l.config.Ports), taken)
	switch {
	case errors.Is(err, farm.ErrPortsExhausted):
		return l.buildFailed(farm.Invalid, err)
	case err != nil:
		return l.buildFailed(farm.Internal, err)
	}
	return nil
}

// undoPorts gives the rows back, but only after the Services that use them are gone.
func (l *launch) undoPorts(ctx context.Context) (bool, error) {
	if !l.reserved || l.servicesRemain || l.undecided {
		return false, nil
	}
	n, err := l.Ports.Release(ctx, l.pod)
	if err != nil {
		l.leftover = true
		return false, err
	}
	return n > 0, nil
}

func (l *launch) deployKeytab(ctx context.Context) error {
	l.deployed = l.Kerberos.Enabled()
	if err := l.Kerberos.Deploy(ctx, l.node, l.user, l.account.UID); err != nil {
		l.deployed = l.deployed && !errors.Is(err, farm.ErrNotFound)
		return l.buildFailed(farm.Internal, err)
	}
	l.keytabLies = l.deployed
	return nil
}

func (l *launch) undoKeytab(ctx context.Context) (bool, error) {
	if !l.deployed || l.undecided {
		return false, nil
	}
	removed, err := l.dropKeytab(ctx, l.node, l.user, l.pod)
	if err != nil && !errors.Is(err, farm.ErrDeferred) {
		l.leftover = true
	}
	return removed && l.keytabLies, err
}

func (l *launch) buildSpec(ctx context.Context) error {
	groups, err := l.Accounts.GroupNames(ctx, l.config.GroupIDs)
	if err != nil {
		return l.buildFailed(farm.Internal, fmt.Errorf("read groups of %s: %w", l.user, err))
	}
	l.spec, err = podspec.Build(podspec.Input{
		Settings: l.Settings, Pod: l.pod, Account: l.account, PrimaryGroup: l.primary.Name, Groups: groups,
		Config: l.config, Node: l.node, Ports: l.ports, Image: l.image, Pin: l.pin, GPU: l.gpuOption(), Assigned: l.given, Self: l.self,
	})
	if err == nil {
		l.spec, err = templates.Apply(l.spec, l.layers...)
	}
	if err != nil {
		return l.buildFailed(farm.Internal, fmt.Errorf("write spec of pod %s: %w", l.pod, err))
	}
	// After the templates, none of which can take a workspace's place away.
	l.spec.Spec.Tolerations = append(l.spec.Spec.Tolerations, l.kept.Tolerations[l.node]...)
	return nil
}

func (l *launch) createPod(ctx context.Context) (err error) {
	l.posted = true
	l.created, err = l.Cluster.CreatePod(ctx, l.spec)
	if l.withoutRuntimeClass(ctx, err) {
		l.spec.Spec.RuntimeClassName = nil
		l.created, err = l.Cluster.CreatePod(ctx, l.spec)
	}
	switch {
	case errors.Is(err, farm.ErrExists):
		l.foreign = true
		return l.fail(farm.Conflict, farm.StepCheckExistingPod, farm.PodAlreadyExists, err)
	case err != nil:
		l.refused = refused(err)
		return l.fail(farm.Internal, farm.StepCreatePod, farm.PodCreateFailed, err)
	}
	return nil
}

// refused tells that the API server said no: then it has made nothing.
func refused(err error) bool {
	var api *farm.APIError
	return errors.As(err, &api) && api.Status >= 400 && api.Status < 500
}

// undoPod removes the pod and waits until it is gone, so that the answer tells the truth. A POST
// that ended without an answer may have made the pod: then it is looked up by its name, which was
// drawn for this operation.
func (l *launch) undoPod(ctx context.Context) (bool, error) {
	if !l.posted || l.foreign || l.undecided {
		return false, nil
	}
	uid := l.created.UID
	if uid == "" {
		pod, found, err := l.Cluster.Pod(ctx, l.pod)
		if err != nil {
			l.leftover = true
			return false, err
		}
		if !found {
			// The API server may still be working on the request; recovery looks again.
			l.leftover = l.leftover || !l.refused
			return false, nil
		}
		if !pod.Guest || pod.User != l.user {
			return false, nil
		}
		uid = pod.UID
	}
	existed, err := l.removePod(ctx, l.pod, uid)
	if err != nil {
		l.leftover = true
	}
	return existed && err == nil, err
}

// removePod deletes a pod and waits for its end.
func (s *Service) removePod(ctx context.Context, pod farm.PodName, uid string) (existed bool, err error) {
	existed, err = s.Cluster.DeletePod(ctx, pod, uid)
	if err != nil || !existed {
		return existed, err
	}
	return true, s.Cluster.WaitGone(ctx, pod, uid, s.GoneLimit)
}

func (l *launch) waitReady(ctx context.Context) error {
	err := l.Cluster.WaitReady(ctx, l.created, l.readyLimits(ctx))
	if err == nil {
		return nil
	}
	if ctx.Err() == nil {
		l.Meter.ReadyFailed(farm.ReadyReasonOf(err))
	}
	switch {
	case errors.Is(err, farm.ErrNeverReady), errors.Is(err, farm.ErrWaitTimeout):
		return l.neverReady(ctx, err)
	default:
		return l.fail(farm.Internal, farm.StepWaitPodReady, farm.PodReadyCheckFailed, err)
	}
}

// maxDetail bounds the detail of a pod that did not become Ready, in characters.
const maxDetail = 8000

// neverReady is the failure of a pod that did not become Ready: what kubelet said, and the end of
// what the container wrote. Both are gone with the pod.
func (l *launch) neverReady(ctx context.Context, cause error) *farm.Error {
	e := l.fail(farm.Internal, farm.StepWaitPodReady, farm.PodReadyTimeout, cause)
	if log := l.Cluster.LastLog(ctx, l.created); log != "" {
		e.Detail += "; " + l.withoutHash(ctx, log)
	}
	e.Detail = farm.CutText(e.Detail, maxDetail)
	return e
}

// withoutHash takes the user's password hash out of a text, whatever its form.
func (l *launch) withoutHash(ctx context.Context, text string) string {
	const shortest = 8 // what is shorter locks an account and is no secret
	hash, err := l.Accounts.ShadowHash(ctx, l.user)
	if hash = strings.TrimLeft(hash, "!"); err != nil || len(hash) < shortest {
		return text
	}
	return strings.ReplaceAll(text, hash, "***")
}

// createServices opens the ports one after the other. A NodePort that turns out to be somebody
// else's is exchanged for the next one; the pod stays as it is, because it knows none of them.
func (l *launch) createServices(ctx context.Context) error {
	l.serving = true
	for i := range l.ports {
		if err := l.createService(ctx, i); err != nil {
			return l.fail(farm.Internal, farm.StepCreateNodePortService, farm.NodePortServiceCreateFailed, err)
		}
	}
	return nil
}

// maxExchanges bounds how many NodePorts are tried for one port before giving up.
const maxExchanges = 100

func (l *launch) createService(ctx context.Context, i int) error {
	tried := map[int]bool{}
	for range maxExchanges {
		port := l.ports[i]
		err := l.Cluster.CreateService(ctx, podspec.Service(l.Settings.Namespace, l.user, l.pod, port))
		if !errors.Is(err, farm.ErrPortTaken) && !errors.Is(err, farm.ErrExists) {
			// The API server may still be working on a request that had no answer; recovery looks again.
			l.leftover = l.leftover || err != nil && !refused(err)
			return err
		}
		l.Meter.PortTaken()
		l.Log.InfoContext(ctx, "NodePort belongs to another Service, taking the next", "port", port.External, "pod", l.pod)
		tried[port.External] = true
		taken, _ := l.Cluster.TakenPorts()
		avoid := make(map[int]bool, len(taken)+len(tried))
		for _, set := range []map[int]bool{taken, tried} {
			for p := range set {
				avoid[p] = true
			}
		}
		if l.ports[i], err = l.Ports.Replace(ctx, l.owner(), port, avoid); err != nil {
			l.ports[i] = port
			return err
		}
	}
	return fmt.Errorf("open port %d of pod %s: %d NodePorts in a row belong to other Services: %w",
		l.ports[i].Internal, l.pod, maxExchanges, farm.ErrPortTaken)
}

func (l *launch) undoServices(ctx context.Context) (bool, error) {
	if !l.serving || l.undecided {
		return false, nil
	}
	n, err := l.Cluster.DeleteServicesOf(ctx, l.pod)
	if err != nil {
		l.servicesRemain, l.leftover = true, true
		return false, err
	}
	return n > 0, nil
}

// close removes the operation's record: the workspace stands and is the caller's. If that cannot
// be written, recovery would later take away a workspace that somebody was told of, so then it is
// undone at once.
func (l *launch) close(ctx context.Context) error {
	l.closed = true
	if err := l.Operations.End(ctx, l.operation.ID); err != nil {
		return l.fail(farm.Internal, farm.StepCreatePod, farm.CreatePodFailed, err)
	}
	return nil
}

// undoClose writes the record back before anything else is undone: its removal may have happened
// without an answer, and what undo then leaves behind nobody would know of. One that is still there
// stays as it is.
func (l *launch) undoClose(ctx context.Context) (bool, error) {
	if !l.closed {
		return false, nil
	}
	return true, l.Operations.Begin(ctx, l.operation)
}
