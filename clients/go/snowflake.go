package leafd

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Snowflake is a source of ids by time. They are made in this process, with a worker id that the cluster
// lends for a window of time and that is renewed in the background.
//
// The happy path: the first Next acquires the worker id; from then on an id costs a look at the clock and one
// compare-and-swap.
//
// Failure modes: a renewal that fails is tried again while ids go on up to the window's end. Fenced off: the
// next call acquires anew. A clock that stands still or went back is waited for, by the call's deadline.
type Snowflake struct {
	current atomic.Pointer[generator] // nil: no worker id is held
	_       [56]byte

	client *Client
	name   string // empty: made by this library

	mu      sync.Mutex
	asking  bool          // an acquire is under way
	waiting int           // calls that wait for it
	failed  *Error        // how the last one ended, or the last renewal
	renewal chan struct{} // ends the renewing of the current generator
	changed chan struct{} // closed and made anew when a worker id came, was renewed or lost
	layout  atomic.Pointer[Layout]
	closed  bool
	trail   trail
	told    atomic.Bool       // that the clock is back was reported
	made    [stripes]struct { // ids that were given, counted apart so that goroutines do not meet
		n atomic.Int64
		_ [56]byte
	}
}

const stripes = 8 // a power of two

// Snowflake gives the source of a name, which says who holds the worker id: one name, one running process.
// The empty one is made by the library, and is what most need: a process that comes back under its name
// after a crash waits until its old window is over.
func (c *Client) Snowflake(name string) (*Snowflake, error) {
	if name != "" {
		if err := checkName("name", name); err != nil {
			return nil, err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, errClosed()
	}
	s := c.snowflakes[name]
	if s == nil {
		s = &Snowflake{client: c, name: name, changed: make(chan struct{})}
		c.snowflakes[name] = s
	}
	return s, nil
}

// Next gives an id that no other call gets, anywhere.
func (s *Snowflake) Next(ctx context.Context) (int64, error) {
	m := s.current.Load()
	// Twice, as another goroutine may use a later time than the one that was read here.
	for try := 0; try < 2 && m != nil; try++ {
		if id, done, _ := m.make(s.client.clock.Now().UnixMilli()); done == madeID {
			s.made[uint64(id)&(stripes-1)].n.Add(1)
			return id, nil
		}
	}
	ctx, cancel := s.client.deadline(ctx)
	defer cancel()
	id, err := s.wait(ctx)
	if err != nil {
		return 0, s.client.counted(err)
	}
	s.made[uint64(id)&(stripes-1)].n.Add(1)
	return id, nil
}

// Decode takes an id apart by the cluster's layout, which the first Next learns.
func (s *Snowflake) Decode(id int64) (Parts, error) {
	if id < 0 {
		return Parts{}, badSetting("id %d is below 0", id)
	}
	layout, err := s.known()
	if err != nil {
		return Parts{}, err
	}
	return layout.Decode(id), nil
}

// At gives the smallest id of a time in Unix milliseconds, for scans of ids by time.
func (s *Snowflake) At(timeMs int64) (int64, error) {
	layout, err := s.known()
	if err != nil {
		return 0, err
	}
	if timeMs < layout.EpochMs || timeMs > layout.LastMs() {
		return 0, badSetting("time %d is not from %d to %d", timeMs, layout.EpochMs, layout.LastMs())
	}
	return layout.At(timeMs), nil
}

func (s *Snowflake) known() (*Layout, error) {
	layout := s.layout.Load()
	if layout == nil {
		return nil, s.client.counted(failure(CodeLayoutUnknown, true,
			"no worker id has been acquired, and the layout comes with the first one"))
	}
	return layout, nil
}

// Layout is how the cluster's ids are made; nil before the first Next.
func (s *Snowflake) Layout() *Layout { return s.layout.Load() }

// Close ends this source alone and releases its worker id. Its calls are refused from then on. The error is that
// of the release, as of Client.Close.
func (s *Snowflake) Close(ctx context.Context) error {
	c := s.client
	c.mu.Lock()
	open := c.snowflakes[s.name] == s
	if open {
		delete(c.snowflakes, s.name)
	}
	c.mu.Unlock()
	if !open {
		return nil
	}
	ctx, cancel := c.deadline(ctx)
	defer cancel()
	return s.close(ctx)
}

// window is what the source holds.
func (s *Snowflake) window() WindowGauge {
	s.mu.Lock()
	defer s.mu.Unlock()
	gauge := WindowGauge{Name: s.name}
	if m := s.current.Load(); m != nil {
		gauge.Name, gauge.End = m.name, time.UnixMilli(m.until.Load()+m.layout.EpochMs)
	}
	return gauge
}

// lookBack reports once that the clock is behind by more than is waited for, until it is not.
func (s *Snowflake) lookBack(m *generator) {
	back := m.used() - s.client.clock.Now().UnixMilli()
	if is := back > smallStepMs; s.told.Swap(is) != is && is {
		s.client.event(Event{Kind: "clock_back", Name: m.name, Back: time.Duration(back) * time.Millisecond})
	}
}

// wait makes an id, and waits for what it takes.
func (s *Snowflake) wait(ctx context.Context) (int64, *Error) {
	var seen *generator
	clockWaited := false
	for {
		s.mu.Lock()
		m, changed := s.current.Load(), s.changed
		s.mu.Unlock()
		if seen != nil && m != seen {
			return 0, s.lost()
		}
		if m == nil {
			if err := s.held(ctx); err != nil {
				return 0, err
			}
			continue
		}
		seen = m
		s.lookBack(m)
		id, done, waitMs := m.make(s.client.clock.Now().UnixMilli())
		switch done {
		case madeID:
			return id, nil
		case madeFrozen:
			return 0, s.lost()
		case madeOver:
			waitMs = windowAgainMs
			m.renewNow() // which ends the wait sooner
		}
		if !clockWaited {
			clockWaited = true
			s.client.stats.clockWaits.Add(1)
		}
		if !s.pause(ctx, changed, waitMs) {
			return 0, s.over(ctx, m)
		}
	}
}

const (
	windowAgainMs = 1000 // so often a clock that is beyond the window is looked at
	pauseMostMs   = 1000 // and one that is behind
)

// pause waits for the clock, or for news of the worker id; false: the context was over.
func (s *Snowflake) pause(ctx context.Context, changed chan struct{}, waitMs int64) bool {
	wait := time.Millisecond
	if waitMs > pauseMostMs {
		waitMs = pauseMostMs
	}
	if waitMs > 1 {
		wait = time.Duration(waitMs) * time.Millisecond
	} else { // only to the beginning of the next one
		wait -= time.Duration(s.client.clock.Now().UnixNano() % int64(time.Millisecond))
	}
	select {
	case <-ctx.Done():
		return false
	case <-changed:
	case <-s.client.clock.After(wait):
	}
	return true
}

// over is the error of a call whose clock did not come into the window by the deadline.
func (s *Snowflake) over(ctx context.Context, m *generator) *Error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return s.trail.end(ctx, s.client.admin)
	}
	word := m.word.Load() &^ frozen
	why := ""
	s.mu.Lock()
	if s.failed != nil {
		why = "; the renewal failed: " + s.failed.Error()
	}
	s.mu.Unlock()
	e := failure(CodeWindowOver, true,
		"the clock says %d; worker id %d may stamp times above %d up to %d%s", s.client.clock.Now().UnixMilli(),
		m.worker, int64(word>>m.layout.SequenceBits)+m.layout.EpochMs, m.until.Load()+m.layout.EpochMs, why)
	e.Cause = ctx.Err()
	return e
}

// lost is why the generator of a call is no more.
func (s *Snowflake) lost() *Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosed()
	}
	return failure(CodeFenced, true, "another client holds the worker id now")
}

// held waits until a worker id is held, and has it acquired.
func (s *Snowflake) held(ctx context.Context) *Error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return errClosed()
	}
	if s.current.Load() != nil {
		s.mu.Unlock()
		return nil
	}
	if !s.asking {
		s.asking = true
		s.trail.clear()
		s.client.background(s.acquire)
	}
	changed := s.changed
	s.waiting++
	s.mu.Unlock()
	s.client.stats.waits.Add(1)
	over := false
	select {
	case <-changed:
	case <-ctx.Done():
		over = isOver(ctx, changed)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting--
	switch {
	case s.closed:
		return errClosed()
	case s.current.Load() != nil:
		return nil
	case over:
		return s.trail.end(ctx, s.client.admin)
	}
	return s.failed // nil: given up as nobody waited, just before this call came
}

func (s *Snowflake) wanted(int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting > 0
}

// news wakes those who wait. Under the lock.
func (s *Snowflake) news() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// acquire is a goroutine while a worker id is asked for, once for all who wait.
func (s *Snowflake) acquire(ctx context.Context) {
	g, name, err := s.grant(ctx)
	if g == nil && s.client.isClosed() {
		err = errClosed() // it is not the caller who has cancelled
	}
	s.mu.Lock()
	late := g != nil && s.closed
	defer func() {
		s.mu.Unlock()
		if late { // the source was closed meanwhile: nothing was stamped
			s.giveBack(ctx, g)
		}
	}()
	s.asking = false
	s.failed = err
	if g != nil && !s.closed {
		m := newGenerator(g, name, s.client.random)
		ended := make(chan struct{})
		s.layout.Store(g.layout)
		s.renewal = ended
		s.current.Store(m)
		s.client.background(func(ctx context.Context) { s.renew(ctx, m, ended) })
	}
	s.news()
}

// grant acquires a worker id whose window has begun, with the layout.
func (s *Snowflake) grant(ctx context.Context) (*grant, string, *Error) {
	for tries := 0; ; tries++ {
		name := s.name
		if name == "" {
			name = madeName()
		}
		g, err := s.acquireAs(ctx, name)
		if g == nil {
			return nil, "", err
		}
		ahead := g.fromMs - s.client.clock.Now().UnixMilli()
		if s.name != "" || ahead <= smallStepMs || tries == grantTries {
			return g, name, nil
		}
		// An earlier try had an answer that was lost: what it was granted has to pass first. Another name has
		// nothing to wait for.
		s.giveBack(ctx, g)
	}
}

// giveBack releases a worker id of which nothing was used, if that goes at once.
func (s *Snowflake) giveBack(ctx context.Context, g *grant) {
	ctx, cancel := context.WithTimeout(ctx, s.client.settings.Attempt)
	defer cancel()
	s.release(ctx, g.worker, g.epoch, g.fromMs)
}

const grantTries = 3

type workerBody struct {
	Name     string `json:"name,omitempty"`
	Address  string `json:"address,omitempty"`
	Epoch    int64  `json:"epoch,omitempty"`
	WindowMs int64  `json:"window_ms"`
	LastMs   int64  `json:"last_timestamp_ms,omitempty"`
}

func (s *Snowflake) body(b workerBody) []byte {
	b.WindowMs = s.client.settings.Window.Milliseconds()
	text, err := json.Marshal(b)
	if err != nil {
		panic(err) // texts and numbers always can be
	}
	return text
}

// acquireAs asks for a worker id. A node that does not know the layout is not asked for another id, since that
// would have a window behind this one: other nodes are asked by a renewal, whose answer has it, too.
func (s *Snowflake) acquireAs(ctx context.Context, name string) (*grant, *Error) {
	c := s.client
	host, _ := os.Hostname()
	if checkName("address", host) != nil {
		host = ""
	}
	var g *grant
	rq := &request{method: "POST", path: "/api/workers", body: s.body(workerBody{Name: name, Address: host})}
	_, err := c.call(ctx, c.admin, rq, &s.trail, s.wanted, c.readGrant(http.StatusCreated, &g))
	if g == nil || g.layout != nil {
		return g, err
	}
	rq = &request{method: "PUT", path: "/api/workers/" + strconv.Itoa(g.worker),
		body: s.body(workerBody{Epoch: g.epoch})}
	for _, n := range c.admin.list.Load().nodes {
		var other *grant
		alone := &door{}
		alone.list.Store(newNodeList([]node{n}, 0))
		one, cancel := context.WithTimeout(ctx, c.settings.Attempt)
		_, err = c.call(one, alone, rq, &trail{}, func(int) bool { return false },
			c.readGrant(0, &other))
		cancel()
		if err == nil && other != nil && other.layout != nil && other.worker == g.worker {
			g.layout = other.layout
			if other.untilMs > g.untilMs {
				g.untilMs = other.untilMs
			}
			return g, nil
		}
	}
	s.giveBack(ctx, g)
	return nil, failure(CodeLayoutUnknown, false,
		"none of the %d nodes knows the layout of the cluster's ids", len(c.admin.list.Load().nodes))
}

// readGrant takes an answer that must be a worker id; status 0: of any success.
func (c *Client) readGrant(status int, into **grant) func(*answer, string) *outcome {
	return func(got *answer, base string) *outcome {
		g, ok := parseGrant(got.body)
		if !ok || status != 0 && got.status != status {
			return &outcome{err: badAnswer(got.status, "%s: status %d with %q is no worker id", base,
				got.status, c.excerpt(got.body))}
		}
		*into = g
		return nil
	}
}

// renew is the goroutine of a generator: it raises the window's end at every third of it.
func (s *Snowflake) renew(ctx context.Context, m *generator, ended chan struct{}) {
	c := s.client
	wait := c.settings.Window / 3
	for asked := c.clock.Now(); ; {
		now := false
		select {
		case <-ctx.Done():
			return
		case <-ended:
			return
		case <-c.clock.After(wait):
		case <-m.over:
			now = true
		}
		if since := c.clock.Now().Sub(asked); now && since < renewAgain {
			wait = renewAgain - since
			continue
		}
		asked = c.clock.Now()
		var g *grant
		var t trail
		rq := &request{method: "PUT", path: "/api/workers/" + strconv.FormatUint(m.worker, 10),
			body: s.body(workerBody{Epoch: m.epoch, LastMs: m.used()})}
		one, cancel := context.WithTimeout(ctx, c.settings.Window/3)
		_, err := c.call(one, c.admin, rq, &t, nil, c.readGrant(http.StatusOK, &g))
		cancel()
		s.mu.Lock()
		s.failed = err
		s.mu.Unlock()
		switch {
		case err == nil && g.worker == int(m.worker) && g.epoch == m.epoch:
			m.extend(g.untilMs)
			c.stats.renewals.Add(1)
			s.mu.Lock()
			s.news()
			s.mu.Unlock()
			wait = c.settings.Window / 3
		case err != nil && (err.Code == CodeFenced || err.Code == "unknown_worker"):
			s.drop(m)
			return
		default: // ids go on up to the window's end
			wait = renewAgain
			if wait > c.settings.Window/3 {
				wait = c.settings.Window / 3
			}
		}
	}
}

const renewAgain = time.Second

// drop gives up a generator whose worker id is another's.
func (s *Snowflake) drop(m *generator) {
	m.freeze()
	s.mu.Lock()
	s.current.CompareAndSwap(m, nil)
	s.news()
	s.mu.Unlock()
	s.client.event(Event{Kind: "fenced", Name: m.name})
}

// release gives a worker id back: times above last can be granted to others at once.
func (s *Snowflake) release(ctx context.Context, worker int, epoch, last int64) *Error {
	if last == 0 {
		last = 1 // 0 would say that the whole window was used
	}
	rq := &request{method: "DELETE", path: fmt.Sprintf("/api/workers/%d?epoch=%d&last_timestamp_ms=%d", worker,
		epoch, last)}
	c := s.client
	_, err := c.call(ctx, c.admin, rq, &trail{}, nil, func(got *answer, base string) *outcome {
		if got.status != http.StatusNoContent {
			return &outcome{err: badAnswer(got.status, "%s: status %d for a release", base, got.status)}
		}
		return nil
	})
	return err
}

// close ends the source and releases its worker id.
func (s *Snowflake) close(ctx context.Context) error {
	s.mu.Lock()
	m := s.current.Load()
	s.closed = true
	s.current.Store(nil)
	if s.renewal != nil {
		close(s.renewal)
		s.renewal = nil
	}
	s.news()
	s.mu.Unlock()
	s.client.stats.snowflake.Add(s.given())
	if m == nil {
		return nil
	}
	last := m.freeze()
	if last == 0 {
		last = int64(m.floor>>m.layout.SequenceBits) + m.layout.EpochMs
	}
	if err := s.release(ctx, int(m.worker), m.epoch, last); err != nil {
		return err
	}
	return nil
}

// given is how many ids were made.
func (s *Snowflake) given() int64 {
	var n int64
	for i := range s.made {
		n += s.made[i].n.Load()
	}
	return n
}

const nameBytes = 8

// madeName names a holder: the host, the process, and what makes it one of a kind.
func madeName() string {
	host, err := os.Hostname()
	if err != nil || checkName("name", host) != nil {
		host = "host"
	}
	if len(host) > 64 {
		host = strings.ToValidUTF8(host[:64], "")
	}
	return fmt.Sprintf("%s-%d-%s", host, os.Getpid(), hex.EncodeToString(secret(nameBytes)))
}
