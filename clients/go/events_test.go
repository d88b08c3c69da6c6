package leafd

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"
)

// seen keeps events, and panics behind each: which must harm nothing.
type seen struct {
	mu     sync.Mutex
	events []Event
}

func (s *seen) add(e Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, e)
	panic("of the program's")
}

func (s *seen) first(kind string) (Event, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.events {
		if e.Kind == kind {
			return e, true
		}
	}
	return Event{}, false
}

func (s *seen) await(t *testing.T, kind string) (found Event) {
	t.Helper()
	eventually(t, kind, func() bool {
		e, there := s.first(kind)
		found = e
		return there
	})
	return found
}

func TestEventsOfAnOutage(t *testing.T) {
	n := newFake(t)
	var got seen
	c := openFor(t, Settings{OnEvent: got.add, MinCount: 10, MaxCount: 10}, closedPort, n.URL)
	s := segmentOf(t, c, "t")
	next(t, s)
	if e := got.await(t, "failover"); e.From != closedPort || e.To != n.URL {
		t.Errorf("%+v", e)
	}
	n.setFault(func(w http.ResponseWriter, _ *http.Request) bool { cut(w, ""); return true })
	for i := 0; i < 9; i++ {
		next(t, s)
	}
	_, err := s.Next(soon(t, 200*time.Millisecond))
	wantCode(t, err, CodeUnreachable, 0)
	if e := got.await(t, "refill_failed"); e.Name != "t" || e.Code != CodeUnreachable {
		t.Errorf("%+v", e)
	}
	if _, there := got.first("recovered"); there {
		t.Error("it has not recovered yet")
	}
	n.setFault(nil)
	next(t, s)
	if e := got.await(t, "recovered"); e.Name != "t" {
		t.Errorf("%+v", e)
	}
}

func TestEventsOfWhatIsDropped(t *testing.T) {
	n := newFake(t)
	var got seen
	generation := make(chan int, 8)
	n.setFault(func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Leafd-Generation", fmt.Sprint(<-generation))
		return false
	})
	c := openFor(t, Settings{OnEvent: got.add}, n.URL)
	s := segmentOf(t, c, "t")
	generation <- 7
	generation <- 8
	next(t, s)
	if _, err := s.NextRange(soon(t, 10*time.Second), 5); err != nil {
		t.Fatal(err)
	}
	if e := got.await(t, "generation"); e.Name != "t" || e.IDs != 99 {
		t.Errorf("%+v", e)
	}
	n.setFault(nil)
	next(t, segmentOf(t, openFor(t, Settings{OnEvent: got.add, MaxAge: time.Millisecond}, n.URL), "t"))
	if e := got.await(t, "aged"); e.Name != "t" || e.IDs < 1 || e.IDs > 100 {
		t.Errorf("%+v", e)
	}
}

func TestASourceOfWorkerIdsIsClosedAlone(t *testing.T) {
	n := newFake(t)
	c := openFor(t, Settings{}, n.URL)
	s, err := c.Snowflake("mine")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Next(soon(t, 10*time.Second)); err != nil {
		t.Fatal(err)
	}
	if windows := c.Stats().Windows; len(windows) != 1 || windows[0].Name != "mine" ||
		time.Until(windows[0].End) <= 0 {
		t.Errorf("%+v", windows)
	}
	for i := 0; i < 2; i++ {
		if err := s.Close(soon(t, 10*time.Second)); err != nil {
			t.Error(err)
		}
	}
	_, err = s.Next(soon(t, 10*time.Second))
	wantCode(t, err, CodeClosed, 0)
	if seen := n.requests(); len(seen) != 2 {
		t.Error(seen)
	}
	n.mu.Lock()
	n.until = map[string]int64{} // as the release has it
	n.mu.Unlock()
	other, err := c.Snowflake("mine")
	if err != nil || other == s {
		t.Fatal("it is the closed one", err)
	}
	if _, err := other.Next(soon(t, 10*time.Second)); err != nil {
		t.Error(err)
	}
	if got := c.Stats().IDsSnowflake; got != 2 {
		t.Error(got)
	}
}

// The hook closes the client, in a goroutine for which Close waits.
func TestTheHookClosesTheClient(t *testing.T) {
	n := newFake(t)
	n.setFault(func(w http.ResponseWriter, _ *http.Request) bool { cut(w, ""); return true })
	var c *Client
	done := make(chan error, 1)
	hook := func(e Event) {
		if e.Kind == "refill_failed" {
			done <- c.Close(context.Background())
		}
	}
	c = openFor(t, Settings{OnEvent: hook}, n.URL)
	_, err := segmentOf(t, c, "t").Next(soon(t, time.Minute))
	wantCode(t, err, CodeClosed, 0)
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("Close waits for its own caller")
	}
}
