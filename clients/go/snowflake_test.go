package leafd

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

func snowflakeOf(t testing.TB, c *Client, name string) *Snowflake {
	t.Helper()
	s, err := c.Snowflake(name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func mustNext(t testing.TB, s *Snowflake) int64 {
	t.Helper()
	id, err := s.Next(soon(t, 20*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// nameOf is the name in the body of a request.
func (n *fakeNode) nameOf(at int) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	var body struct{ Name string }
	json.Unmarshal([]byte(n.bodies[at]), &body)
	return body.Name
}

func TestIdsAreMadeWithAWorkerId(t *testing.T) {
	n := newFake(t)
	c := openFor(t, Settings{Window: 30 * time.Second}, n.URL)
	s := snowflakeOf(t, c, "")
	_, err := s.Decode(1)
	wantCode(t, err, CodeLayoutUnknown, 0)
	met := map[int64]bool{}
	begin := time.Now().UnixMilli()
	last := int64(0)
	for i := 0; i < 10000; i++ {
		id := mustNext(t, s)
		p, err := s.Decode(id)
		if err != nil || met[id] || id <= last || p.Worker != 3 || p.TimeMs < begin {
			t.Fatalf("%d: %+v %v", id, p, err)
		}
		met[id], last = true, id
	}
	if got := n.requests(); len(got) != 1 || got[0] != "POST /api/workers" ||
		!strings.Contains(n.bodies[0], `"window_ms":30000`) {
		t.Errorf("%v %v", got, n.bodies)
	}
	if stats := c.Stats(); stats.IDsSnowflake != 10000 || stats.Waits != 1 {
		t.Errorf("%+v", stats)
	}
	if snowflakeOf(t, c, "") != s {
		t.Error("one name is one source")
	}
	// The time is true: all of it comes back but what was used.
	c.Close(soon(t, 10*time.Second))
	used, _ := s.Decode(last)
	seen := n.requests()
	if got := seen[len(seen)-1]; got != fmt.Sprintf("DELETE /api/workers/3?epoch=1&last_timestamp_ms=%d",
		used.TimeMs) {
		t.Error(got)
	}
	_, err = s.Next(soon(t, 10*time.Second))
	wantCode(t, err, CodeClosed, 0)
	if stats := c.Stats(); stats.IDsSnowflake != 10000 {
		t.Errorf("%+v", stats)
	}
}

func TestWorkerIdsComeFromTheAdminDoor(t *testing.T) {
	ids, admin := newFake(t), newFake(t)
	c := openFor(t, Settings{AdminEndpoints: []string{admin.URL}}, ids.URL)
	mustNext(t, snowflakeOf(t, c, "mine"))
	if len(ids.requests()) != 0 || admin.nameOf(0) != "mine" {
		t.Error(ids.requests(), admin.requests())
	}
}

func TestManyGoroutinesAcquireOnce(t *testing.T) {
	n := newFake(t)
	c := openFor(t, Settings{}, n.URL)
	s := snowflakeOf(t, c, "")
	var all sync.WaitGroup
	var met sync.Map
	for g := 0; g < 32; g++ {
		all.Add(1)
		go func() {
			defer all.Done()
			for i := 0; i < 1000; i++ {
				id, err := s.Next(soon(t, 20*time.Second))
				if _, there := met.LoadOrStore(id, true); there || err != nil {
					t.Error(id, err)
					return
				}
			}
		}()
	}
	all.Wait()
	if got := n.requests(); len(got) != 1 {
		t.Error(got)
	}
}

// handClocked is a client with a window of 30 s, whose generator has given an id, and the clock of both
// sides.
func handClocked(t *testing.T) (*handClock, *fakeNode, *Client, *Snowflake) {
	clock := newHandClock()
	n := newFake(t)
	n.clock = clock.Now
	c := openFor(t, Settings{Window: 30 * time.Second}, n.URL)
	c.clock = clock
	s := snowflakeOf(t, c, "")
	mustNext(t, s)
	return clock, n, c, s
}

func TestAWindowIsRenewedAtAThird(t *testing.T) {
	clock, n, c, s := handClocked(t)
	eventually(t, "it waits for the renewal", func() bool { return clock.pending() == 1 })
	clock.move(10*time.Second - 1)
	if len(n.requests()) != 1 {
		t.Error(n.requests())
	}
	clock.move(1)
	eventually(t, "it renews", func() bool { return c.Stats().Renewals == 1 })
	if got := n.requests()[1]; got != "PUT /api/workers/3" || !strings.Contains(n.bodies[1], `"epoch":1,`) ||
		!strings.Contains(n.bodies[1], `"last_timestamp_ms":1800000000000`) {
		t.Error(got, n.bodies[1])
	}
	eventually(t, "it waits again", func() bool { return clock.pending() == 1 })
	clock.move(25 * time.Second) // beyond the first window, within the second
	mustNext(t, s)
}

func TestAWindowThatIsOverNamesWhatTheRenewalGot(t *testing.T) {
	clock, n, _, s := handClocked(t)
	eventually(t, "it waits for the renewal's time", func() bool { return clock.pending() == 1 })
	n.setFault(func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusForbidden)
		io.WriteString(w, `{"code":"client_cut","message":"for the audit"}`)
		return true
	})
	clock.move(31 * time.Second)
	eventually(t, "it says so", func() bool {
		_, err := s.Next(soon(t, 100*time.Millisecond))
		wantCode(t, err, CodeWindowOver, 0)
		return strings.Contains(err.Error(), "client_cut")
	})
}

func TestIdsGoOnUpToTheWindowsEndAndNoFurther(t *testing.T) {
	clock, n, _, s := handClocked(t)
	n.setFault(func(w http.ResponseWriter, _ *http.Request) bool { cut(w, ""); return true })
	clock.move(30 * time.Second)
	mustNext(t, s)
	clock.move(time.Millisecond)
	_, err := s.Next(soon(t, 100*time.Millisecond))
	wantCode(t, err, CodeWindowOver, 0)
	n.setFault(nil)
	got := make(chan error)
	go func() {
		_, err := s.Next(soon(t, 10*time.Second))
		got <- err
	}()
	eventually(t, "a renewal, and the id", func() bool {
		clock.move(100 * time.Millisecond)
		select {
		case err := <-got:
			return err == nil
		default:
			return false
		}
	})
}

func TestAClockBeyondTheWindowIsSeen(t *testing.T) {
	clock := newHandClock()
	n := newFake(t)
	n.clock = clock.Now
	c := openFor(t, Settings{Window: time.Hour}, n.URL)
	c.clock = clock
	s := snowflakeOf(t, c, "")
	mustNext(t, s)
	eventually(t, "it waits for the renewal", func() bool { return clock.pending() == 1 })
	// The process slept for a day, in which its timers stood still.
	clock.mu.Lock()
	clock.now = clock.now.Add(24 * time.Hour)
	clock.mu.Unlock()
	mustNext(t, s)
	if stats := c.Stats(); stats.Renewals != 1 || stats.ClockWaits != 1 {
		t.Errorf("%+v", stats)
	}
}

func TestFencedOffItAcquiresAnewUnderAnotherName(t *testing.T) {
	for _, code := range []string{"fenced", "unknown_worker"} {
		for _, name := range []string{"", "mine"} {
			clock := newHandClock()
			n := newFake(t)
			n.clock = clock.Now
			c := openFor(t, Settings{Window: 30 * time.Second}, n.URL)
			c.clock = clock
			s := snowflakeOf(t, c, name)
			mustNext(t, s)
			eventually(t, "it waits for the renewal", func() bool { return clock.pending() == 1 })
			n.setFault(func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method == "PUT" {
					refuse(w, map[string]int{"fenced": 409}[code]|map[string]int{"unknown_worker": 404}[code], code, "x")
				}
				return r.Method == "PUT"
			})
			clock.move(10 * time.Second)
			eventually(t, "it is dropped", func() bool { return s.current.Load() == nil })
			clock.move(25 * time.Second) // the old window is over
			mustNext(t, s)
			if again := n.nameOf(2) == n.nameOf(0); again != (name == "mine") {
				t.Errorf("%q then %q", n.nameOf(0), n.nameOf(2))
			}
		}
	}
}

func TestWhoWaitsWhenItIsFencedIsTold(t *testing.T) {
	clock := newHandClock()
	n := newFake(t)
	n.clock = clock.Now
	n.fenced = true
	c := openFor(t, Settings{Window: 30 * time.Second}, n.URL)
	c.clock = clock
	s := snowflakeOf(t, c, "")
	mustNext(t, s)
	eventually(t, "it waits for the renewal", func() bool { return clock.pending() == 1 })
	clock.mu.Lock()
	clock.now = clock.now.Add(time.Hour)
	clock.mu.Unlock()
	_, err := s.Next(soon(t, 20*time.Second))
	wantCode(t, err, CodeFenced, 0)
	mustNext(t, s)
}

func TestALostAcquireIsNotWaitedFor(t *testing.T) {
	n := newFake(t)
	n.setFault(func(w http.ResponseWriter, _ *http.Request) bool {
		if len(n.requests()) > 1 {
			return false
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		var body struct{ Name string }
		json.Unmarshal([]byte(n.bodies[0]), &body)
		n.until[body.Name] = time.Now().UnixMilli() + 60000
		cut(w, "")
		return true
	})
	c := openFor(t, Settings{}, n.URL)
	begin := time.Now()
	if _, err := snowflakeOf(t, c, "").Next(soon(t, 30*time.Second)); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took > 20*time.Second {
		t.Error(took)
	}
	if n.nameOf(0) == n.nameOf(3) || !strings.HasPrefix(n.requests()[2], "DELETE ") {
		t.Error(n.requests())
	}
}

func TestAGivenNameWaitsForItsOldWindow(t *testing.T) {
	n := newFake(t)
	n.until["mine"] = time.Now().UnixMilli() + 60000
	c := openFor(t, Settings{}, n.URL)
	s := snowflakeOf(t, c, "mine")
	_, err := s.Next(soon(t, time.Second)) // by then it has the worker id
	wantCode(t, err, CodeWindowOver, 0)
	// Nothing was used: all of it is given back.
	c.Close(soon(t, 10*time.Second))
	seen := n.requests()
	if got, want := seen[len(seen)-1], fmt.Sprintf("last_timestamp_ms=%d", n.until["mine"]); got == want {
		t.Error(got)
	}
}

func TestALayoutIsAskedOfAnotherNode(t *testing.T) {
	dumb, good := newFake(t), newFake(t)
	dumb.layout = "null"
	c := openFor(t, Settings{}, dumb.URL, good.URL)
	mustNext(t, snowflakeOf(t, c, ""))
	if got := good.requests(); len(got) != 1 || got[0] != "PUT /api/workers/3" {
		t.Error(got)
	}
	good.layout = "null"
	c = openFor(t, Settings{}, dumb.URL, good.URL)
	_, err := snowflakeOf(t, c, "").Next(soon(t, 20*time.Second))
	wantCode(t, err, CodeLayoutUnknown, 0)
	seen := dumb.requests()
	if got := seen[len(seen)-1]; !strings.Contains(got, "DELETE /api/workers/3?epoch=1&last_timestamp_ms=1") {
		t.Error(got)
	}
}

func TestAnAcquireThatIsRefused(t *testing.T) {
	n := newFake(t)
	n.setFault(refuseAs(409, "no_worker_id"))
	c := openFor(t, Settings{}, n.URL)
	s := snowflakeOf(t, c, "")
	_, err := s.Next(soon(t, 10*time.Second))
	if e := wantCode(t, err, "no_worker_id", 409); !e.Retryable {
		t.Error(e)
	}
	n.setFault(func(w http.ResponseWriter, _ *http.Request) bool { fmt.Fprint(w, "{}"); return true })
	_, err = s.Next(soon(t, 10*time.Second))
	wantCode(t, err, CodeBadAnswer, 200)
	n.setFault(func(w http.ResponseWriter, _ *http.Request) bool { cut(w, ""); return true })
	_, err = s.Next(soon(t, 50*time.Millisecond))
	wantCode(t, err, CodeUnreachable, 0)
	n.setFault(nil)
	mustNext(t, s)
}
