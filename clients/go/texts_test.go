package leafd

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

func textsOf(t *testing.T, c *Client, tag string) *Texts {
	s, err := c.Texts(tag)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestTextsAreOneRequestWithAKey(t *testing.T) {
	n := newFake(t)
	c := openFor(t, Settings{}, n.URL)
	s := textsOf(t, c, "t")
	text, err := s.Next(soon(t, 10*time.Second))
	if err != nil || text != "INV-1" || len(n.headers.Get("Idempotency-Key")) != 26 {
		t.Error(text, err, n.headers)
	}
	texts, err := s.NextN(soon(t, 10*time.Second), 2)
	if err != nil || strings.Join(texts, " ") != "INV-2 INV-3" || len(n.requests()) != 2 {
		t.Error(texts, err, n.requests())
	}
	for _, replayed := range []bool{false, true} {
		ids, err := s.Repeatable(soon(t, 10*time.Second), 1, "mine")
		if err != nil || ids.Texts[0] != "INV-4" || ids.Replayed != replayed {
			t.Error(ids, err)
		}
	}
	if c.Stats().IDsStrict != 5 || c.Stats().Errors != 0 {
		t.Error(c.Stats())
	}
}

func TestATagOfModeTrendTakesNoKeyWhichIsFoundOutOnce(t *testing.T) {
	n := newFake(t)
	c := openFor(t, Settings{}, n.URL)
	s := textsOf(t, c, "trend")
	for _, want := range []string{"INV-1", "INV-2"} {
		if text, err := s.Next(soon(t, 10*time.Second)); err != nil || text != want {
			t.Error(text, err)
		}
	}
	if len(n.requests()) != 3 || n.headers.Get("Idempotency-Key") != "" || c.Stats().Errors != 0 {
		t.Error(n.requests(), n.headers, c.Stats())
	}
	_, err := s.Repeatable(soon(t, 10*time.Second), 1, "mine")
	wantCode(t, err, "bad_key", 400)
}

func TestTheNumberOfAText(t *testing.T) {
	n := newFake(t)
	n.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		if r.RequestURI != "/api/segment/decode/t?text=A%26b%3D%2B%2542" {
			return refuseAs(http.StatusBadRequest, "bad_id")(w, r)
		}
		io.WriteString(w, `{"tag":"t","id":"42","granted":true}`)
		return true
	})
	c := openFor(t, Settings{}, n.URL)
	s := textsOf(t, c, "t")
	if id, err := s.Decode(soon(t, 10*time.Second), "A&b=+%42"); err != nil || id != 42 {
		t.Error(id, err)
	}
	_, err := s.Decode(soon(t, 10*time.Second), "B")
	wantCode(t, err, "bad_id", 400)
	n.setFault(nil)
	_, err = s.Decode(soon(t, 10*time.Second), "B")
	wantCode(t, err, CodeBadAnswer, 200)
}

func TestWhatBreaksARuleOfTextsIsNotSent(t *testing.T) {
	n := newFake(t)
	c := openFor(t, Settings{}, n.URL)
	s := textsOf(t, c, "t")
	for _, count := range []int{0, 1001} {
		_, err := s.NextN(soon(t, 10*time.Second), count)
		wantCode(t, err, CodeBadSetting, 0)
	}
	_, err := s.Repeatable(soon(t, 10*time.Second), 1, " a")
	wantCode(t, err, CodeBadSetting, 0)
	for _, text := range []string{"", "a b", "\u00e4", strings.Repeat("x", 131)} {
		_, err := s.Decode(soon(t, 10*time.Second), text)
		wantCode(t, err, CodeBadSetting, 0)
	}
	if _, err := c.Texts(""); err == nil || len(n.requests()) != 0 {
		t.Error(err, n.requests())
	}
	c.Close(soon(t, 10*time.Second))
	_, err = s.Next(soon(t, 10*time.Second))
	wantCode(t, err, CodeClosed, 0)
	_, err = s.Decode(soon(t, 10*time.Second), "A1")
	wantCode(t, err, CodeClosed, 0)
}
