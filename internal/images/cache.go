package images

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"config-server/internal/farm"
)

// The values of Metadata.Status.
const (
	StatusBaseUsed   = "base_used"   // nothing is saved; the base image was taken
	StatusLoaded     = "loaded"      // the saved image was loaded
	StatusLoadFailed = "load_failed" // the saved image could not be loaded; the base image was taken
	StatusSuccess    = "success"     // the save script succeeded
	StatusError      = "error"       // the save script failed
)

// Metadata is what the cache keeps of a user's image under the key img:<username>, as JSON.
type Metadata struct {
	Status     string  `json:"status"`
	SizeMB     float64 `json:"size_mb"`     // of the saved file; 0 = unknown
	Version    string  `json:"version"`     // name of the image that is meant
	Path       string  `json:"path"`        // of the saved file; empty = none
	LastUpdate string  `json:"last_update"` // RFC 3339, UTC; Put sets it
}

// DefaultCacheLimit is the limit of one write.
const DefaultCacheLimit = 500 * time.Millisecond

const maxWaiting = 64 // writes; what comes on top is dropped

// CacheOptions of a Cache.
type CacheOptions struct {
	Addr  string        // host:port of Redis
	DB    int           // REDIS_DB
	Limit time.Duration // of one write; 0 = DefaultCacheLimit
	Log   *slog.Logger  // nil = slog.Default
	// Called is told of each write; nil = nobody.
	Called farm.CallObserver
	Now    func() time.Time
}

// Cache tells Redis what is known of users' images. It is safe for concurrent use.
//
// Nobody waits for it and nothing fails by it: Put hands over to one worker, and what the worker
// cannot write in time is lost.
type Cache struct {
	client *redis.Client
	limit  time.Duration
	log    *slog.Logger
	called farm.CallObserver
	now    func() time.Time

	mu      sync.Mutex
	closed  bool
	waiting chan entry
	stop    context.CancelFunc // ends the write that is under way
	ended   chan struct{}      // closed when the worker has ended
}

// The client's library writes lines of its own to standard error, between those of the service's
// log. Its errors come back to the worker, which logs them once.
func init() { redis.SetLogger(silence{}) }

type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}

type entry struct {
	// request is the context of the request that told it, for nothing but what log lines take from it:
	// the entry is written whether or not the request still runs.
	request context.Context
	key     string
	data    Metadata
}

// NewCache starts the worker; Close ends it. Redis need not be there.
func NewCache(opts CacheOptions) *Cache {
	if opts.Limit == 0 {
		opts.Limit = DefaultCacheLimit
	}
	if opts.Log == nil {
		opts.Log = slog.Default()
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	ctx, stop := context.WithCancel(context.Background())
	c := &Cache{
		client: redis.NewClient(&redis.Options{
			Addr: opts.Addr, DB: opts.DB, Protocol: 2, PoolSize: 2,
			DialTimeout: opts.Limit, ReadTimeout: opts.Limit, WriteTimeout: opts.Limit, PoolTimeout: opts.Limit,
			MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true, DisableIdentity: true,
			// Plain SETs need none of the commands that the client would send at connect.
			MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		}),
		limit: opts.Limit, log: opts.Log, called: opts.Called, now: opts.Now,
		waiting: make(chan entry, maxWaiting), stop: stop, ended: make(chan struct{}),
	}
	go c.work(ctx)
	return c
}

// Put hands the metadata of a user's image over. It never blocks; what does not fit is dropped. The
// end of ctx changes nothing: its values stand in the log lines of the write.
func (c *Cache) Put(ctx context.Context, user farm.UserName, data Metadata) {
	data.LastUpdate = c.now().UTC().Format(time.RFC3339)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	select {
	case c.waiting <- entry{request: ctx, key: "img:" + string(user), data: data}:
	default:
		c.log.DebugContext(ctx, "image metadata dropped, because Redis is slow", "user", user)
	}
}

// Check tries whether Redis answers, within the limit of a write.
func (c *Cache) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.limit)
	defer cancel()
	if err := c.client.Ping(ctx).Err(); err != nil {
		return fmt.Errorf("ping Redis: %w", err)
	}
	return nil
}

// Close writes what is waiting, as far as ctx lets it, and ends the worker and the connection. It
// may be called more than once. The error tells that something was not written for want of time.
func (c *Cache) Close(ctx context.Context) error {
	c.mu.Lock()
	if !c.closed {
		c.closed = true
		close(c.waiting)
	}
	c.mu.Unlock()

	var late error
	select {
	case <-c.ended:
	case <-ctx.Done():
		late = fmt.Errorf("flush image metadata: %w", context.Cause(ctx))
	}
	c.stop()
	<-c.ended
	if err := c.client.Close(); err != nil && !errors.Is(err, redis.ErrClosed) {
		return errors.Join(late, fmt.Errorf("close Redis client: %w", err))
	}
	return late
}

// work writes one entry after the other. It logs a change between working and failing, not each
// failure.
func (c *Cache) work(ctx context.Context) {
	defer close(c.ended)
	failing := false
	for e := range c.waiting {
		if ctx.Err() != nil {
			continue
		}
		begin := time.Now()
		err := c.write(ctx, e)
		c.called.Tell(e.request, "set "+e.key, begin, err)
		switch {
		case err != nil && !failing:
			c.log.WarnContext(e.request, "image metadata is not written", "error", err)
		case err == nil && failing:
			c.log.InfoContext(e.request, "image metadata is written again")
		}
		failing = err != nil
	}
}

func (c *Cache) write(ctx context.Context, e entry) error {
	value, err := json.Marshal(e.data)
	if err != nil {
		return fmt.Errorf("encode %s: %w", e.key, err)
	}
	ctx, cancel := context.WithTimeout(ctx, c.limit)
	defer cancel()
	if err := c.client.Set(ctx, e.key, value, 0).Err(); err != nil {
		return fmt.Errorf("set %s in Redis: %w", e.key, err)
	}
	return nil
}
