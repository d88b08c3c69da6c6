package leafd

import (
	"errors"
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
	if e := wantCode(t, <-failed, CodeClosed, 0); len(e.Key) != 26 {
		t.Errorf("%#v", e)
	}
}

func TestAFailureTellsTheKeyToComeAgainWith(t *testing.T) {
	n := newFake(t)
	n.setFault(func(w http.ResponseWriter, r *http.Request) bool { return n.loseAnswer(w, r, "1 2\n") })
	c := openFor(t, Settings{}, n.URL)
	s, _ := c.Strict("t")
	_, err := s.NextN(soon(t, 300*time.Millisecond), 2)
	var failed *Error
	if !errors.As(err, &failed) || !regexp.MustCompile(`^[A-Z2-7]{26}$`).MatchString(failed.Key) {
		t.Fatalf("%#v", err)
	}
	n.setFault(nil)
	ids, err := s.Repeatable(soon(t, 10*time.Second), 2, failed.Key)
	if err != nil || !ids.Replayed || ids.Ranges[0] != (Range{1, 2, 1}) {
		t.Error(ids, err)
	}
	if _, err = s.Repeatable(soon(t, time.Second), 0, "k"); !errors.As(err, &failed) || failed.Key != "" {
		t.Errorf("%#v", err)
	}
}
