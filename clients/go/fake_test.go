package leafd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A node that the tests make up. It answers as leafd does, unless a fault says otherwise.
type fakeNode struct {
	*httptest.Server
	mu      sync.Mutex
	next    int64                                             // id
	seen    []string                                          // requests: method and target
	keys    map[string]string                                 // answers by Idempotency-Key
	headers http.Header                                       // of the last request
	fault   func(w http.ResponseWriter, r *http.Request) bool // true: it has answered
	workers map[string]int64                                  // epochs by name
	until   map[string]int64
	fenced  bool
	layout  string
	clock   func() time.Time
	bodies  []string
	atOnce  atomic.Int32 // requests that are being answered
	most    atomic.Int32
}

const leafLayout = `{"epoch_ms":1288834974657,"time_bits":41,"worker_bits":10,"sequence_bits":12}`

func newFake(t testing.TB) *fakeNode {
	n := &fakeNode{next: 1, keys: map[string]string{}, workers: map[string]int64{}, until: map[string]int64{},
		layout: leafLayout, clock: time.Now}
	n.Server = httptest.NewServer(n)
	t.Cleanup(n.Server.Close)
	return n
}

func (n *fakeNode) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	now := n.atOnce.Add(1)
	defer n.atOnce.Add(-1)
	for most := n.most.Load(); now > most && !n.most.CompareAndSwap(most, now); most = n.most.Load() {
	}
	body, _ := io.ReadAll(r.Body)
	n.mu.Lock()
	n.seen = append(n.seen, r.Method+" "+r.RequestURI)
	n.bodies = append(n.bodies, string(body))
	n.headers = r.Header
	fault := n.fault
	n.mu.Unlock()
	if fault != nil && fault(w, r) {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if strings.HasPrefix(r.URL.Path, "/api/workers") {
		n.serveWorkers(w, r, body)
		return
	}
	count, _ := strconv.ParseInt(r.URL.Query().Get("count"), 10, 64)
	text := fmt.Sprintf("%d %d\n", n.next, n.next+count-1)
	if r.URL.Query().Get("format") == "" {
		text = ""
		for id := n.next; id < n.next+count; id++ {
			text += fmt.Sprintf("INV-%d\n", id)
		}
	}
	if key := r.Header.Get("Idempotency-Key"); key != "" {
		if strings.HasSuffix(r.URL.Path, "/trend") {
			refuse(w, http.StatusBadRequest, "bad_key", "of mode trend")
			return
		}
		if old, there := n.keys[key]; there {
			w.Header().Set("Idempotency-Replayed", "true")
			io.WriteString(w, old)
			return
		}
		n.keys[key] = text
	}
	n.next += count
	io.WriteString(w, text)
}

// serveWorkers lends worker id 3, by the rules of windows.
func (n *fakeNode) serveWorkers(w http.ResponseWriter, r *http.Request, body []byte) {
	var asked struct {
		Name   string `json:"name"`
		Epoch  int64  `json:"epoch"`
		Window int64  `json:"window_ms"`
		Last   int64  `json:"last_timestamp_ms"`
	}
	if r.Method == "DELETE" {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	if json.Unmarshal(body, &asked) != nil {
		refuse(w, 400, "bad_json", "no JSON")
		return
	}
	if r.Method == "PUT" && n.fenced {
		refuse(w, 409, "fenced", "worker id 3 is at epoch 9")
		return
	}
	until := n.clock().UnixMilli() + asked.Window
	from := int64(0)
	if r.Method == "POST" {
		from = n.until[asked.Name]
		n.workers[asked.Name]++
		asked.Epoch = n.workers[asked.Name]
		n.until[asked.Name] = until
		if from >= until {
			until = from + asked.Window
		}
		w.WriteHeader(http.StatusCreated)
	}
	fmt.Fprintf(w, `{"worker_id":3,"epoch":%d,"from_ms":%d,"until_ms":%d,"layout":%s}`, asked.Epoch, from, until,
		n.layout)
}

func refuse(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", "application/json")
	if status == 503 && w.Header().Get("Retry-After") == "" {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"status":%d,"code":%q,"message":%q}`, status, code, message)
}

func (n *fakeNode) setFault(f func(w http.ResponseWriter, r *http.Request) bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.fault = f
}

func (n *fakeNode) requests() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]string(nil), n.seen...)
}

// cut answers with these bytes, which need not be HTTP, and closes the connection.
func cut(w http.ResponseWriter, bytes string) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err == nil {
		io.WriteString(conn, bytes)
		conn.Close()
	}
}

// loseAnswer takes two ids for a request with a key, and closes instead of answering: this text.
func (n *fakeNode) loseAnswer(w http.ResponseWriter, r *http.Request, answer string) bool {
	n.mu.Lock()
	n.keys[r.Header.Get("Idempotency-Key")] = answer
	n.next = 3
	n.mu.Unlock()
	cut(w, "")
	return true
}

func refuseAs(status int, code string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, _ *http.Request) bool {
		refuse(w, status, code, "made up")
		return true
	}
}

// The URLs of a port where nobody listens. No system gives port 1 to anyone: a port that was free a
// moment ago may be the server of another test by now.
const (
	closedPort      = "http://127.0.0.1:1"
	otherClosedPort = "http://127.0.0.2:1"
)

// openFor opens a client that begins with the first of the addresses.
func openFor(t testing.TB, settings Settings, urls ...string) *Client {
	t.Helper()
	if urls != nil {
		settings.Endpoints = urls
	}
	if settings.Attempt == 0 {
		settings.Attempt = time.Minute // one that is not the point of a test ends by its faults alone
	}
	c, err := Open(settings)
	if err != nil {
		t.Fatal(err)
	}
	c.ids.list.Load().first.Store(0)
	c.admin.list.Load().first.Store(0)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
		defer cancel()
		c.Close(ctx)
	})
	return c
}

func segmentOf(t testing.TB, c *Client, tag string) *Segment {
	t.Helper()
	s, err := c.Segment(tag)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// within is a context for a call of a test.
func soon(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

func wantCode(t testing.TB, err error, code string, status int) *Error {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("got %v, not an Error with %s", err, code)
	}
	if e.Code != code || e.Status != status {
		t.Fatalf("got %s %d (%s), not %s %d", e.Code, e.Status, e.Message, code, status)
	}
	return e
}

// eventually waits for a condition.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// hurriedClock lets every wait be over at once, and notes it; its time moves on by the waits alone.
type hurriedClock struct {
	mu    sync.Mutex
	now   time.Time
	waits []time.Duration
}

func newHurriedClock() *hurriedClock { return &hurriedClock{now: time.Now()} }

func (c *hurriedClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *hurriedClock) After(d time.Duration) <-chan time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	c.waits = append(c.waits, d)
	over := make(chan time.Time, 1)
	over <- c.now
	return over
}

func (c *hurriedClock) AfterFunc(d time.Duration, f func()) stopper { return time.AfterFunc(d, f) }

func (c *hurriedClock) waited() []time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]time.Duration(nil), c.waits...)
}

// handClock moves when the test says so.
type handClock struct {
	mu     sync.Mutex
	now    time.Time
	timers []handTimer
}

type handTimer struct {
	at time.Time
	do func(time.Time)
}

func newHandClock() *handClock { return &handClock{now: time.UnixMilli(1800000000000)} }

func (c *handClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *handClock) After(d time.Duration) <-chan time.Time {
	over := make(chan time.Time, 1)
	c.AfterFunc(d, func() { over <- time.Time{} })
	return over
}

type noStop struct{}

func (noStop) Stop() bool { return false }

func (c *handClock) AfterFunc(d time.Duration, f func()) stopper {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timers = append(c.timers, handTimer{c.now.Add(d), func(time.Time) { f() }})
	return noStop{}
}

// pending is how many wait for the clock.
func (c *handClock) pending() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.timers)
}

func (c *handClock) move(d time.Duration) {
	c.mu.Lock()
	c.now = c.now.Add(d)
	var due []handTimer
	var left []handTimer
	for _, timer := range c.timers {
		if timer.at.After(c.now) {
			left = append(left, timer)
		} else {
			due = append(due, timer)
		}
	}
	c.timers = left
	now := c.now
	c.mu.Unlock()
	for _, timer := range due {
		timer.do(now)
	}
}
