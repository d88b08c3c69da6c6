package leafd

import (
	"context"
	"crypto/tls"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Client is what sources of one cluster share. Use it from any goroutine.
type Client struct {
	settings Settings
	ids      *door // of ids
	admin    *door // of worker ids
	trip     http.RoundTripper
	token    *token
	clock    clock
	stats    counters
	random   *random
	made     time.Time
	usual    atomic.Int64 // nanoseconds of range requests that were answered; 0: none was

	context context.Context // ends with the client: what runs in the background hangs from it
	cancel  context.CancelFunc
	workMu  sync.Mutex // guards what follows; taken last
	ended   bool       // nothing more is begun in the background
	work    int        // what runs there
	telling int        // calls of the hook under way, each of which may be by what runs there, and close the client
	less    *sync.Cond // work is less, or telling more

	mu         sync.Mutex // guards what follows; taken before a source's
	closed     bool
	segments   map[*Segment]struct{}
	snowflakes map[string]*Snowflake
	cluster    string      // the uid of the first listing that had one; "": not known yet
	others     []otherNode // nodesMost at most, the oldest first
	foreign    bool        // the hook was told of a listing of another
}

// clock is the time; tests have their own. Deadlines of contexts are real ones always.
type clock interface {
	Now() time.Time
	After(time.Duration) <-chan time.Time
	AfterFunc(time.Duration, func()) stopper
}

type stopper interface{ Stop() bool }

type realClock struct{}

func (realClock) Now() time.Time                              { return time.Now() }
func (realClock) After(d time.Duration) <-chan time.Time      { return time.After(d) }
func (realClock) AfterFunc(d time.Duration, f func()) stopper { return time.AfterFunc(d, f) }

// Open makes a client. It sends nothing. A setting that breaks its rule is a bad_setting.
func Open(settings Settings) (*Client, error) {
	settings, err := settings.checked()
	if err != nil {
		return nil, err
	}
	trip, err := newTransport(&settings)
	if err != nil {
		return nil, err
	}
	bearer, err := newToken(&settings)
	if err != nil {
		return nil, err
	}
	c := &Client{
		token:      bearer,
		settings:   settings,
		trip:       trip,
		clock:      realClock{},
		random:     newRandom(),
		made:       time.Now(),
		segments:   map[*Segment]struct{}{},
		snowflakes: map[string]*Snowflake{},
	}
	c.less = sync.NewCond(&c.workMu)
	c.ids = newDoor(settings.Endpoints, c.random)
	c.admin = newDoor(settings.AdminEndpoints, c.random)
	c.ids.discover, c.admin.discover = *settings.Discover, *settings.Discover && settings.adminIsIDs
	c.admin.forSnowflake = true
	c.context, c.cancel = context.WithCancel(context.Background())
	return c, nil
}

const (
	headMost = 16 * 1024        // bytes of an answer's head
	idleTime = 50 * time.Second // before a proxy or a node closes it
	idleMost = 32               // connections to a node that are kept
)

// newTransport knows no proxies, redirects, cookies, compression or HTTP/2.
func newTransport(settings *Settings) (http.RoundTripper, error) {
	trust, err := newTrust(settings)
	if err != nil {
		return nil, err
	}
	return &http.Transport{
		DialContext:            dial,
		DialTLSContext:         dialTLS(trust),
		TLSNextProto:           map[string]func(string, *tls.Conn) http.RoundTripper{},
		DisableCompression:     true,
		MaxIdleConns:           idleMost * endpointsMost,
		MaxIdleConnsPerHost:    idleMost,
		IdleConnTimeout:        idleTime,
		MaxResponseHeaderBytes: headMost,
	}, nil
}

// deadline is the call's: the context's own, or else that of the settings.
func (c *Client) deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, has := ctx.Deadline(); has {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, c.settings.Deadline)
}

// background runs f until it is done or the client is closed, which waits for it. Nothing happens when it
// is closed, which false says.
func (c *Client) background(f func(context.Context)) bool {
	c.workMu.Lock()
	defer c.workMu.Unlock()
	if c.ended {
		return false
	}
	c.work++
	go func() {
		defer c.working(func() { c.work-- })
		f(c.context)
	}()
	return true
}

// working notes what runs in the background, or tells the program.
func (c *Client) working(note func()) {
	c.workMu.Lock()
	defer c.workMu.Unlock()
	note()
	c.less.Broadcast()
}

// Close drops the ids that are held, releases worker ids and closes connections. Calls under way, and
// those that come, are refused as closed. Settings.OnEvent may call it. The error is that of a release:
// nothing has to be done about it, since the worker id is free when its window is over.
func (c *Client) Close(ctx context.Context) error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	segments, snowflakes := c.segments, c.snowflakes
	c.segments, c.snowflakes = nil, nil
	c.mu.Unlock()

	for s := range segments {
		s.close()
	}
	c.workMu.Lock()
	c.ended = true
	c.cancel()
	for c.work > c.telling {
		c.less.Wait()
	}
	c.workMu.Unlock()
	ctx, cancel := c.deadline(ctx)
	defer cancel()
	var first error
	for _, s := range snowflakes {
		if err := s.close(ctx); err != nil && first == nil {
			first = err
		}
	}
	if t, ok := c.trip.(*http.Transport); ok {
		t.CloseIdleConnections()
	}
	return first
}

func (c *Client) isClosed() bool { return c.context.Err() != nil }

func errClosed() *Error {
	return failure(CodeClosed, false, "the client, or this source of it, was closed")
}

// until is a context that also ends with the client.
func (c *Client) until(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	if c.isClosed() {
		cancel() // at once: an answer could be faster than the goroutine
		return ctx, cancel
	}
	done := make(chan struct{})
	go func() {
		select {
		case <-c.context.Done():
			cancel()
		case <-done:
		}
	}()
	return ctx, func() { close(done); cancel() }
}
