// Package images knows the saved images of users: it looks for one, loads it into the engine, has a
// running workspace saved, and tells a cache what it did.
package images

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"config-server/internal/farm"
)

// Defaults of Options.
const (
	DefaultLoadTimeout = 120 * time.Second
	DefaultSaveTimeout = 180 * time.Second
)

const (
	// SaveScript is the program in the workspace that saves it. Its exit status tells the outcome.
	SaveScript = "/usr/local/bin/save_image.sh"

	lookTimeout = 5 * time.Second // of a look into the store, which may be a network mount
	maxText     = 300             // characters of a program's output that are told
)

// Options of a Store.
type Options struct {
	StoreDir    string        // IMAGE_STORE_DIR
	DockerBin   string        // DOCKER_BIN: a program that understands load -i <tar>
	LoadTimeout time.Duration // IMAGE_LOAD_TIMEOUT, of one load; 0 = DefaultLoadTimeout
	SaveTimeout time.Duration // of the save script; 0 = DefaultSaveTimeout
	Cache       *Cache        // nil = no metadata is kept
	// Called is told of each load by the engine; nil = nobody.
	Called farm.CallObserver
}

// Executor runs a command in a container of a pod. It returns the command's exit status and what it
// wrote to standard error; err is for a command that could not be run or followed to its end.
type Executor func(ctx context.Context, pod farm.PodName, container string, command []string) (exitStatus int, stderr string, err error)

// Store is the folder of saved images. It is safe for concurrent use.
type Store struct {
	opts Options

	mu    sync.Mutex
	turns map[farm.UserName]*turn
}

// turn lets one load of a user's image run at a time. users counts who holds or waits.
type turn struct {
	held  chan struct{}
	users int
}

// New returns a store.
func New(opts Options) *Store {
	if opts.LoadTimeout == 0 {
		opts.LoadTimeout = DefaultLoadTimeout
	}
	if opts.SaveTimeout == 0 {
		opts.SaveTimeout = DefaultSaveTimeout
	}
	return &Store{opts: opts, turns: map[farm.UserName]*turn{}}
}

// Resolve names the image of a user's new workspace: the saved one if it is there and loads, else
// base. warning says, for the log and the caller, why a saved image is not used; it is empty if all
// went well or nothing is saved. Resolve never fails a workspace.
func (s *Store) Resolve(ctx context.Context, user farm.UserName, base string) (image, warning string) {
	image, info, err := s.load(ctx, user)
	switch {
	case errors.Is(err, errNotSaved):
		s.tell(ctx, user, Metadata{Status: StatusBaseUsed, Version: base})
		return base, ""
	case err != nil:
		s.tell(ctx, user, Metadata{Status: StatusLoadFailed, Version: base, Path: s.tar(user), SizeMB: sizeMB(info)})
		warning = farm.CutText(fmt.Sprintf("saved image of user '%s' is not used, the base image is: %v", user, err), 2*maxText)
		return base, warning
	}
	s.tell(ctx, user, Metadata{Status: StatusLoaded, Version: image, Path: s.tar(user), SizeMB: sizeMB(info)})
	return image, ""
}

// repository is the form of an image name that engines accept: lower-case words with single
// separators.
var repository = regexp.MustCompile(`\A[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*\z`)

// errNotSaved: the store has no image of the user.
var errNotSaved = errors.New("no image is saved")

// load looks for the saved image and loads it, or returns errNotSaved.
func (s *Store) load(ctx context.Context, user farm.UserName) (image string, info fs.FileInfo, err error) {
	if !user.Commandable() {
		return "", nil, errNotSaved // No file is looked for under such a name.
	}
	info, err = look(ctx, s.tar(user))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil, errNotSaved
	case err != nil:
		return "", nil, err
	case !info.Mode().IsRegular():
		return "", info, fmt.Errorf("%s is no regular file", s.tar(user))
	}
	name := "user-" + string(user)
	if !repository.MatchString(name) {
		return "", info, fmt.Errorf("%s is no valid image name", name)
	}
	done, err := s.await(ctx, user)
	if err != nil {
		return "", info, err
	}
	defer done()
	image = name + ":latest"
	return image, info, s.dockerLoad(ctx, s.tar(user), image)
}

// Save has the pod saved by its own script. Any exit status but 0 is an error, and so is a script
// that takes longer than the limit. The pod's user is the one whose metadata is kept.
func (s *Store) Save(ctx context.Context, run Executor, pod farm.Pod) error {
	limited, cancel := context.WithTimeoutCause(ctx, s.opts.SaveTimeout,
		fmt.Errorf("not done within %v: %w", s.opts.SaveTimeout, context.DeadlineExceeded))
	defer cancel()
	status, stderr, err := run(limited, pod.Name, farm.ContainerName, []string{SaveScript})
	switch {
	case err != nil && limited.Err() != nil:
		err = context.Cause(limited)
	case err == nil && status != 0:
		err = fmt.Errorf("%s ended with exit status %d: %s", SaveScript, status, bounded(stderr))
	}
	if err != nil {
		s.tell(ctx, pod.User, Metadata{Status: StatusError, Version: pod.Image, Path: s.tar(pod.User)})
		return fmt.Errorf("save image of pod %s: %w", pod.Name, err)
	}
	info, _ := look(ctx, s.tar(pod.User)) // Whoever stores images may put the file there later.
	s.tell(ctx, pod.User, Metadata{Status: StatusSuccess, Version: "user-" + string(pod.User) + ":latest", Path: s.tar(pod.User), SizeMB: sizeMB(info)})
	return nil
}

// Check tries whether the store is a folder that can be looked at and the engine's client a program.
func (s *Store) Check(ctx context.Context) error {
	info, err := look(ctx, s.opts.StoreDir)
	switch {
	case err != nil:
		return fmt.Errorf("image store: %w", err)
	case !info.IsDir():
		return fmt.Errorf("image store: %s is no folder", s.opts.StoreDir)
	}
	if _, err := exec.LookPath(s.opts.DockerBin); err != nil {
		return fmt.Errorf("program that loads images: %w", err)
	}
	return nil
}

func (s *Store) tar(user farm.UserName) string {
	return filepath.Join(s.opts.StoreDir, "user-"+string(user)+".tar")
}

func (s *Store) tell(ctx context.Context, user farm.UserName, data Metadata) {
	if s.opts.Cache != nil {
		s.opts.Cache.Put(ctx, user, data)
	}
}

// await waits for the turn to load the user's image: two loads of one file at once would only slow
// each other down.
func (s *Store) await(ctx context.Context, user farm.UserName) (done func(), err error) {
	s.mu.Lock()
	t := s.turns[user]
	if t == nil {
		t = &turn{held: make(chan struct{}, 1)}
		s.turns[user] = t
	}
	t.users++
	s.mu.Unlock()
	leave := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if t.users--; t.users == 0 {
			delete(s.turns, user)
		}
	}
	select {
	case t.held <- struct{}{}:
		return func() { <-t.held; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, fmt.Errorf("wait for another load: %w", context.Cause(ctx))
	}
}

// look is a stat that returns in time even if the file system, a network mount, does not.
func look(ctx context.Context, path string) (fs.FileInfo, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, lookTimeout, fmt.Errorf("no answer within %v: %w", lookTimeout, context.DeadlineExceeded))
	defer cancel()
	type result struct {
		info fs.FileInfo
		err  error
	}
	answer := make(chan result, 1)
	go func() {
		info, err := os.Stat(path)
		answer <- result{info, err}
	}()
	select {
	case got := <-answer:
		return got.info, got.err
	case <-ctx.Done():
		return nil, fmt.Errorf("look at %s: %w", path, context.Cause(ctx))
	}
}

func sizeMB(info fs.FileInfo) float64 {
	if info == nil {
		return 0
	}
	return float64(info.Size()*100/(1<<20)) / 100
}

// bounded makes a program's output fit for a message: one line, and not too long.
func bounded(output string) string {
	return farm.CutText(strings.Join(strings.Fields(strings.ToValidUTF8(output, "?")), " "), maxText)
}
