package workspaces

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"config-server/internal/farm"
	"config-server/internal/saga"
	"config-server/internal/selfvolumes"
)

// stepSaveImage has the old workspace save itself.
const stepSaveImage = "SAVE_IMAGE"

// The texts of failed migrations, as callers know them.
const (
	textNoPod         = "no running pod"
	textNotInList     = "current node is not in given nodes list"
	textSaveFailed    = "image_commit_failed"
	textNotStarted    = "new pod failed to start"
	textServicesLost  = "service creation failed"
	textRatio         = "min_improvement_ratio must be a number in [0,1)"
	textMissingInput  = "username and nodes(list) are required"
	textMigrateFailed = "migration failed"
)

// Migrate moves a user's running workspace to a better node: the old pod saves its image, a new
// workspace is made, and only when that stands is the old one taken down. Until then a failure, or
// the caller's going away, leaves the old workspace as it was; after that the migration is
// finished, and what stays of the old workspace is a warning. The error is a *farm.Error.
func (s *Service) Migrate(ctx context.Context, request MigrateRequest) (Migrated, error) {
	if request.User == "" || len(request.Nodes) == 0 {
		return Migrated{}, farm.Errorf(farm.Invalid, textMissingInput)
	}
	if !(request.Ratio >= 0 && request.Ratio < 1) { // NaN is not either
		return Migrated{}, farm.Errorf(farm.Invalid, textRatio)
	}
	user, err := s.checkUser(ctx, request.User)
	if err != nil {
		if e, ok := farm.AsError(err); ok {
			return Migrated{}, e
		}
		return Migrated{}, migrateError(textMigrateFailed, err)
	}
	lock, err := s.Locks.Lock(ctx, farm.UserLock(user))
	if err != nil {
		return Migrated{}, migrateError(textMigrateFailed, fmt.Errorf("another operation on user '%s' is still running: %w", user, err))
	}
	defer lock.Unlock()

	// The half-made pod of a migration that was cut off runs too; it must not pass for the workspace.
	unsettled := s.settle(ctx, user)
	choice, err := s.choose(ctx, user, request)
	if err != nil {
		return Migrated{}, err
	}
	if choice.skip != nil {
		return *choice.skip, nil
	}
	if unsettled != nil {
		return Migrated{}, migrateError(textMigrateFailed, fmt.Errorf("recover an earlier operation on user '%s': %w", user, unsettled))
	}
	return s.move(ctx, lock, user, choice)
}

// choice is where a workspace shall go, or why it stays.
type choice struct {
	old    farm.Pod
	better []farm.NodeName  // the nodes that are better enough, the best first
	self   *selfvolumes.Set // what the new workspace has of the service's own volumes; nil = nothing
	kept   Kept             // which nodes are others'
	skip   *Migrated
}

// choose finds the running pod and the best candidate.
func (s *Service) choose(ctx context.Context, user farm.UserName, request MigrateRequest) (choice, error) {
	cluster, err := s.Cluster.Nodes(ctx)
	if err != nil {
		return choice{}, migrateError("failed to list nodes", err)
	}
	byName := indexNodes(cluster)
	listed := map[farm.NodeName]bool{}
	var nodes []farm.Node
	for _, name := range request.Nodes {
		node, found := byName[foldNode(farm.NodeName(name))]
		if !found {
			return choice{}, farm.Errorf(farm.Invalid, "%v", unknownNode(farm.NodeName(strings.TrimSpace(name))))
		}
		if !listed[node.Name] {
			listed[node.Name] = true
			nodes = append(nodes, node)
		}
	}
	old, found, err := s.runningPod(ctx, user)
	if err != nil {
		return choice{}, migrateError("failed to look up the running pod", err)
	}
	if !found {
		return choice{}, farm.Errorf(farm.NotFound, textNoPod)
	}
	if !listed[old.Node] {
		return choice{}, farm.Errorf(farm.Invalid, textNotInList)
	}
	self, err := s.selfVolumes(ctx)
	if err != nil {
		return choice{}, migrateError(textMigrateFailed, err)
	}
	kept, err := s.keptFrom(ctx, user)
	if err != nil {
		return choice{}, migrateError("failed to list nodes", err)
	}
	var others []farm.NodeName
	for _, node := range nodes {
		if node.Name != old.Node && firstReason(node, []rule{unfit, reaches(self), kept.fits}) == "" {
			others = append(others, node.Name)
		}
	}
	if len(others) == 0 {
		return choice{skip: &Migrated{Status: StatusSkipped, Reason: ReasonNoCandidate}}, nil
	}
	scores, err := s.Load.Scores(ctx, append([]farm.NodeName{old.Node}, others...))
	if err != nil {
		if ctx.Err() != nil {
			return choice{}, migrateError(textMigrateFailed, err)
		}
		s.Log.WarnContext(ctx, "no GPU load known, nothing is moved", "user", user, "error", err)
	}
	best, _ := s.Load.Choose(others, scores)
	current, currentKnown := scores[old.Node]
	score, scoreKnown := scores[best]
	if better := betterThan(current*(1-request.Ratio), others, scores); currentKnown && len(better) > 0 {
		return choice{old: old, better: better, self: self, kept: kept}, nil
	}
	skip := &Migrated{
		Status: StatusSkipped, Reason: ReasonNoSignificantImprovement, CurrentNode: old.Node, BestCandidate: best,
	}
	if currentKnown {
		skip.CurrentScore = &current
	}
	if scoreKnown {
		skip.BestScore = &score
	}
	return choice{skip: skip}, nil
}

// betterThan lists the nodes whose score is known and below the limit, the lowest first and in order on
// a tie.
func betterThan(limit float64, order []farm.NodeName, scores map[farm.NodeName]float64) []farm.NodeName {
	var better []farm.NodeName
	for _, name := range order {
		if score, known := scores[name]; known && score < limit {
			better = append(better, name)
		}
	}
	slices.SortStableFunc(better, func(a, b farm.NodeName) int { return cmp.Compare(scores[a], scores[b]) })
	return better
}

// runningPod finds the newest pod of a user that runs and is not being deleted.
func (s *Service) runningPod(ctx context.Context, user farm.UserName) (farm.Pod, bool, error) {
	pods, err := s.Cluster.PodsOf(ctx, user)
	if err != nil {
		return farm.Pod{}, false, err
	}
	var newest farm.Pod
	found := false
	for _, pod := range pods {
		if !pod.Guest || pod.User != user || pod.Terminating || pod.Phase != "Running" {
			continue
		}
		if !found || pod.CreatedAt.After(newest.CreatedAt) || (pod.CreatedAt.Equal(newest.CreatedAt) && pod.Name > newest.Name) {
			newest, found = pod, true
		}
	}
	return newest, found, nil
}

// move makes the new workspace and then takes the old one down.
func (s *Service) move(ctx context.Context, lock farm.Lock, user farm.UserName, choice choice) (Migrated, error) {
	launch, err := s.newLaunch(user, farm.OperationMigrate)
	if err != nil {
		return Migrated{}, migrateError(textMigrateFailed, err)
	}
	launch.node, launch.ranked, launch.self, launch.kept = choice.better[0], choice.better, choice.self, choice.kept
	launch.operation.OldPod, launch.operation.OldNode = choice.old.Name, choice.old.Node
	defer s.finish(launch.operation.ID)

	build := launch.buildSteps()
	// The saved image is looked up after the old pod has saved it.
	account, image, rest := build[0], build[1], build[2:]
	early := launch.reservations()
	found := false
	config := saga.Step{Name: string(farm.StepFetchUserConfig), Do: func(ctx context.Context) (err error) {
		if err := launch.fetchConfig(ctx); err != nil {
			return err
		}
		found, err = launch.chooseRoom(ctx, choice.better)
		return err
	}}
	steps := []saga.Step{account}
	steps = append(steps, rest[:early]...) // record, GPUs and ports, so that a full farm is told before anything is saved
	steps = append(steps, saga.Step{Name: stepSaveImage, Do: func(ctx context.Context) error {
		return s.save(ctx, choice.old)
	}}, saga.Step{Name: image.Name, Do: func(ctx context.Context) error {
		err := image.Do(ctx)
		if err == nil && launch.image == launch.config.Image {
			// Whoever stores images may not have brought the tar yet; the home moves all the same.
			s.Log.WarnContext(ctx, "no saved image is used: the new workspace starts from the base image, without what was installed in the old one",
				"user", user, "from", choice.old.Name, "image", launch.image)
		}
		return err
	}})
	steps = append(steps, rest[early:]...)
	steps = append(steps, launch.podSteps()...)
	steps = append(steps, saga.Step{
		Name: "TOUCH_OLD_POD", Undos: []saga.Undo{{What: farm.WhatRecord, Run: launch.undoTouch}},
		Do: func(ctx context.Context) error { return launch.touch(ctx, lock) },
	})
	told := s.tell(ctx, launch.operation, launch.words, launch.refresh)
	err = saga.Run(ctx, told.observed("migrate"), []saga.Step{config})
	stays := func() (Migrated, error) {
		launch.node = choice.old.Node
		told.ready(fmt.Sprintf("the workspace stays on %s: no better node has its GPUs", choice.old.Node))
		return Migrated{Status: StatusSkipped, Reason: ReasonNoCandidate}, nil
	}
	if err == nil && !found {
		return stays()
	}
	if err == nil {
		err = saga.Run(ctx, told.observed("migrate"), steps)
	}
	if noGPUs(err) {
		return stays()
	}
	if err != nil {
		answer := migrateFailed(err)
		told.failed("migrate", err, answer)
		return Migrated{}, answer
	}
	left := s.leaveOld(ctx, told, launch.operation, choice.old)
	warnings := append(launch.warnings, left...)
	message := fmt.Sprintf("the workspace has moved from %s to %s", choice.old.Node, launch.node)
	if len(left) > 0 {
		message += "; something of the old one is left and is tried again"
	}
	told.ready(message)
	return Migrated{
		Status: StatusMigrated, From: choice.old.Node, To: launch.node, NewPod: launch.pod, Ports: launch.ports, Warnings: warnings,
	}, nil
}

// touch notes that the new workspace stands and that the old one goes: from here on the migration
// is finished, by recovery if need be.
func (l *launch) touch(ctx context.Context, lock farm.Lock) error {
	if err := lock.Err(); err != nil {
		return migrateError(textMigrateFailed, fmt.Errorf("lock of user %s was lost: %w", l.user, err))
	}
	l.touched = true
	if err := l.Operations.Advance(ctx, l.operation.ID, farm.RecordOldPodTouched); err != nil {
		return migrateError(textMigrateFailed, err)
	}
	return nil
}

// undoTouch takes the note back before anything else is undone. If that cannot be written, nobody
// knows what the record says: then nothing is undone here, both workspaces stay whole, and
// recovery reads the record and does what it says.
func (l *launch) undoTouch(ctx context.Context) (bool, error) {
	if !l.touched {
		return false, nil
	}
	if err := l.Operations.Advance(ctx, l.operation.ID, farm.RecordRunning); err != nil {
		l.undecided, l.leftover = true, true
		return false, err
	}
	return true, nil
}

// save runs the save script. A script that fails, or that does not end, leaves the old pod running.
func (s *Service) save(ctx context.Context, old farm.Pod) error {
	ctx, cancel := context.WithTimeout(ctx, s.SaveLimit)
	defer cancel()
	if err := s.Images.Save(ctx, old); err != nil {
		return migrateError(textSaveFailed, err)
	}
	return nil
}

// leaveOld takes down the old workspace after a successful migration. It runs whether the caller
// waits or not, and its failures are warnings: the new workspace stands. What stays is left to recovery.
func (s *Service) leaveOld(ctx context.Context, told *told, operation farm.Operation, old farm.Pod) []string {
	ctx, cancel := s.detach(ctx)
	defer cancel()
	run := s.newRemoval(operation.User, old.Name, old, true)
	told.words = run.words
	if err := saga.Run(ctx, told.observed("migrate-old-pod"), run.steps()); err != nil {
		s.Log.WarnContext(ctx, "old workspace is left to recovery", "user", operation.User, "pod", old.Name, "error", err)
		return []string{fmt.Sprintf("the old workspace %s could not be removed and is left to recovery: %v", old.Name, err)}
	}
	warnings, err := s.releaseGPUs(ctx, old.Name)
	if err != nil {
		return warnings // recovery goes on with the record
	}
	warnings, err = s.removeKeytab(ctx, old.Node, operation.User, old.Name)
	if err != nil {
		return warnings
	}
	return append(warnings, s.endRecord(ctx, operation)...)
}

// migrateError makes an error of /migrate: its text for the caller, why it happened beside it.
func migrateError(text string, cause error) *farm.Error {
	return &farm.Error{Kind: farm.Internal, Detail: text, Reason: cause.Error(), Cause: cause}
}

// migrateFailed turns the failure of a launch into the texts of /migrate.
func migrateFailed(err error) error {
	failure, ok := saga.AsFailure(err)
	if !ok {
		return err
	}
	told, ok := farm.AsError(failure.Err)
	if !ok {
		e := migrateError(textMigrateFailed, errors.New(unforeseen(failure.Err)))
		e.Cause = err
		return e
	}
	if told.Code == "" {
		e := *told
		e.Cause = err
		return &e
	}
	e := &farm.Error{Kind: told.Kind, Detail: told.Detail, Cause: err}
	switch told.Step {
	case farm.StepCheckExistingPod, farm.StepCreatePod, farm.StepWaitPodReady:
		e.Kind, e.Detail, e.Reason = farm.Internal, textNotStarted, told.Detail
	case farm.StepCreateNodePortService:
		e.Kind, e.Detail, e.Reason = farm.Internal, textServicesLost, told.Detail
	}
	return e
}
