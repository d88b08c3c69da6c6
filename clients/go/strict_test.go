package leafd

import (
	"net/http"
	"regexp"
	"testing"
	"time"
)

func TestAStrictCallIsOneRequestWithAKey(t *testing.T) {
	n := newFake(t)
	c := openFor(t, Settings{}, n.URL)
	s, _ := c.Strict("t")
	keys := map[string]bool{}
	for want := int64(1); want <= 20; want++ {
		id, err := s.Next(soon(t, 10*time.Second))
		if err != nil || id != want {
			t.Fatal(id, err)
		}
		key := n.headers.Get("Idempotency-Key")
		if !regexp.MustCompile(`^[A-Z2-7]{26}$`).MatchString(key) || keys[key] {
			t.Errorf("key %q", key)
		}
		keys[key] = true
	}
	ids, err := s.NextN(soon(t, 10*time.Second), 3)
	if err != nil || len(ids) != 3 || ids[2] != 23 || len(n.requests()) != 21 || c.Stats().IDsStrict != 23 {
		t.Error(ids, err, c.Stats())
	}
}

func TestARetryGetsTheIdsOfTheLostAnswer(t *testing.T) {
	n := newFake(t)
	n.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		if len(n.requests()) == 1 {
			n.mu.Lock()
			n.keys[r.Header.Get("Idempotency-Key")] = "1 2\n"
			n.next = 3
			n.mu.Unlock()
			cut(w, "")
			return true
		}
		return false
	})
	c := openFor(t, Settings{}, n.URL)
	s, _ := c.Strict("t")
	ids, err := s.Repeatable(soon(t, 10*time.Second), 2, NewKey())
	if err != nil || !ids.Replayed || ids.Ranges[0] != (Range{1, 2}) {
		t.Error(ids, err)
	}
	again, err := s.Repeatable(soon(t, 10*time.Second), 2, "mine")
	if err != nil || again.Replayed || again.IDs()[1] != 4 || n.headers.Get("Idempotency-Key") != "mine" {
		t.Error(again, err)
	}
	again, err = s.Repeatable(soon(t, 10*time.Second), 2, "mine")
	if err != nil || !again.Replayed || again.IDs()[1] != 4 {
		t.Error(again, err)
	}
}

func TestAStrictCallEndsWithTheClient(t *testing.T) {
	n := newFake(t)
	n.setFault(func(_ http.ResponseWriter, r *http.Request) bool { <-r.Context().Done(); return true })
	c := openFor(t, Settings{}, n.URL)
	s, _ := c.Strict("t")
	failed := make(chan error)
	go func() {
		_, err := s.Next(soon(t, 10*time.Second))
		failed <- err
	}()
	eventually(t, "it waits", func() bool { return n.atOnce.Load() == 1 })
	c.Close(soon(t, 10*time.Second))
	wantCode(t, <-failed, CodeClosed, 0)
}
