package leafd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// one asks for three ids in a range: one request, nothing in the background.
func one(t testing.TB, c *Client, ctx context.Context) (Range, error) {
	return segmentOf(t, c, "t").NextRange(ctx, 3)
}

func TestACallGoesOnAtTheNextNode(t *testing.T) {
	for name, fault := range map[string]func(http.ResponseWriter, *http.Request) bool{
		"503":         refuseAs(503, "no_leader"),
		"503 of none": func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(503); return true },
		"closed":      func(w http.ResponseWriter, _ *http.Request) bool { cut(w, ""); return true },
		"cut head":    func(w http.ResponseWriter, _ *http.Request) bool { cut(w, "HTTP/1.1 200 O"); return true },
		"cut body": func(w http.ResponseWriter, _ *http.Request) bool {
			cut(w, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n1 3")
			return true
		},
		"slow head": func(_ http.ResponseWriter, r *http.Request) bool { <-r.Context().Done(); return true },
		"slow body": func(w http.ResponseWriter, r *http.Request) bool {
			io.WriteString(w, "1 ")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			return true
		},
	} {
		bad, good := newFake(t), newFake(t)
		bad.setFault(fault)
		attempt := time.Minute // so that the good node is never the slow one, but where that is the fault
		if strings.HasPrefix(name, "slow") {
			attempt = time.Second
		}
		c := openFor(t, Settings{Attempt: attempt}, bad.URL, good.URL)
		for i := 0; i < 2; i++ {
			if r, err := one(t, c, soon(t, 30*time.Second)); err != nil || r.Count() != 3 {
				t.Fatalf("%s: %v %v", name, r, err)
			}
		}
		stats := c.Stats()
		if stats.Requests != 3 || stats.Failovers != 1 || stats.Retries != 1 || stats.Errors != 0 ||
			len(bad.requests()) != 1 { // the second call begins where the first one ended
			t.Errorf("%s: %+v", name, stats)
		}
	}
}

func TestARefusedConnectionIsLeftForTheNextNode(t *testing.T) {
	good := newFake(t)
	c := openFor(t, Settings{}, closedPort, good.URL)
	if r, err := one(t, c, soon(t, 30*time.Second)); err != nil || r != (Range{1, 3, 1}) {
		t.Fatal(r, err)
	}
}

func TestARefusalGoesToTheCallerAtOnce(t *testing.T) {
	for code, status := range map[string]int{"bad_request": 400, "unauthorized": 401, "forbidden": 403,
		"unknown_tag": 404, "exhausted": 409, "too_slow": 408, "body_too_large": 413, "share": 429,
		"internal_error": 500, "state_full": 507} {
		n := newFake(t)
		n.setFault(refuseAs(status, code))
		c := openFor(t, Settings{}, n.URL, n.URL)
		_, err := one(t, c, soon(t, 30*time.Second))
		e := wantCode(t, err, code, status)
		if len(n.requests()) != 1 || e.Retryable != (code == "too_slow") || c.Stats().Errors != 1 {
			t.Errorf("%s: %d requests, retryable %v", code, len(n.requests()), e.Retryable)
		}
	}
}

func TestWhatIsNoAnswerOfLeafdIsSaid(t *testing.T) {
	for text, status := range map[string]int{
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello":         200,
		"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n1 2\n":         200, // too few
		"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n1 2\n2 2\n":    200, // twice
		"HTTP/1.1 204 No Content\r\n\r\n":                           204,
		"HTTP/1.1 404 Not Found\r\nContent-Length: 6\r\n\r\n<html>": 404,
		fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", answerMost+4) +
			strings.Repeat("1 1\n", answerMost/4+1): 200,
	} {
		n := newFake(t)
		n.setFault(func(w http.ResponseWriter, _ *http.Request) bool { cut(w, text); return true })
		c := openFor(t, Settings{}, n.URL)
		_, err := one(t, c, soon(t, 30*time.Second))
		if e := wantCode(t, err, CodeBadAnswer, status); e.Retryable || len(e.Message) > 2000 {
			t.Errorf("%.40q: %v", text, e)
		}
	}
}

func TestWhatIsNoHTTPIsABrokenConnection(t *testing.T) {
	for _, text := range []string{
		"nonsense\r\n\r\n",
		"HTTP/1.1 200 OK\r\nno header\r\n\r\n",
		"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 3*headMost) + "\r\n",
		"HTTP/1.1 200 OK\r\n\r\n1 3\n",
		"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n",
	} {
		n := newFake(t)
		n.setFault(func(w http.ResponseWriter, _ *http.Request) bool { cut(w, text); return true })
		good := newFake(t)
		c := openFor(t, Settings{}, n.URL, good.URL)
		if r, err := one(t, c, soon(t, 30*time.Second)); err != nil || r != (Range{1, 3, 1}) {
			t.Errorf("%.40q: %v %v", text, r, err)
		}
	}
}

func TestTheDeadlineEndsACallInTime(t *testing.T) {
	busy := newFake(t)
	busy.setFault(refuseAs(503, "no_leader"))
	deaf := newFake(t)
	deaf.setFault(func(_ http.ResponseWriter, r *http.Request) bool { <-r.Context().Done(); return true })
	for _, c := range []struct {
		urls   []string
		code   string
		status int
		says   string
	}{
		{[]string{closedPort}, CodeUnreachable, 0, "refused"},
		{[]string{deaf.URL}, CodeUnreachable, 0, "no answer"},
		{[]string{closedPort, busy.URL}, CodeUnreachable, 0, "no_leader: made up"},
	} {
		client := openFor(t, Settings{Attempt: 10 * time.Second}, c.urls...)
		begin := time.Now()
		_, err := one(t, client, soon(t, time.Second))
		took := time.Since(begin)
		e := wantCode(t, err, c.code, c.status)
		if !e.Retryable || !strings.Contains(e.Message, c.says) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", e)
		}
		if took < 990*time.Millisecond || took > time.Second+slack {
			t.Errorf("%s took %v", c.code, took)
		}
	}
}

func TestTheSettingsDeadlineHoldsForAContextWithoutOne(t *testing.T) {
	c := openFor(t, Settings{Deadline: 100 * time.Millisecond}, closedPort)
	begin := time.Now()
	_, err := one(t, c, context.Background())
	wantCode(t, err, CodeUnreachable, 0)
	if took := time.Since(begin); took > 100*time.Millisecond+slack {
		t.Error(took)
	}
}

func TestACancelledContextEndsACall(t *testing.T) {
	c := openFor(t, Settings{}, closedPort)
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(50*time.Millisecond, cancel)
	_, err := one(t, c, ctx)
	wantCode(t, err, CodeCanceled, 0)
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestWaitsDoubleUpToASecond(t *testing.T) {
	n := newFake(t)
	c := openFor(t, Settings{}, closedPort, otherClosedPort, n.URL)
	clock := newHurriedClock()
	c.clock = clock
	rounds := 0
	n.setFault(func(w http.ResponseWriter, _ *http.Request) bool {
		rounds++
		if rounds < 10 {
			cut(w, "")
			return true
		}
		return false
	})
	if _, err := one(t, c, soon(t, 30*time.Second)); err != nil {
		t.Fatal(err)
	}
	waits := clock.waited()
	if len(waits) != 9 {
		t.Fatalf("%v", waits)
	}
	for i, wait := range waits {
		most := time.Second
		if i < 6 {
			most = 20 * time.Millisecond << i
		}
		if wait < most/2 || wait > most {
			t.Errorf("wait %d is %v, not %v to %v", i, wait, most/2, most)
		}
	}
}

func TestRetryAfterIsWaitedFor(t *testing.T) {
	n := newFake(t)
	c := openFor(t, Settings{}, n.URL)
	clock := newHurriedClock()
	c.clock = clock
	n.setFault(func(w http.ResponseWriter, _ *http.Request) bool {
		if len(n.requests()) <= 1 {
			w.Header().Set("Retry-After", "7")
			refuse(w, 503, "overloaded", "made up")
			return true
		}
		return false
	})
	if _, err := one(t, c, soon(t, 30*time.Second)); err != nil {
		t.Fatal(err)
	}
	if waits := clock.waited(); len(waits) != 1 || waits[0] != 7*time.Second {
		t.Errorf("%v", waits)
	}
}

func TestAQuotaIsWaitedForAtTheSameNode(t *testing.T) {
	n, other := newFake(t), newFake(t)
	c := openFor(t, Settings{}, n.URL, other.URL)
	clock := newHurriedClock()
	c.clock = clock
	n.setFault(func(w http.ResponseWriter, _ *http.Request) bool {
		if len(n.requests()) == 1 {
			w.Header().Set("Retry-After", "3")
			refuse(w, 429, "quota", "made up")
			return true
		}
		return false
	})
	if _, err := one(t, c, soon(t, 30*time.Second)); err != nil {
		t.Fatal(err)
	}
	if waits := clock.waited(); len(waits) != 1 || waits[0] != 3*time.Second || len(n.requests()) != 2 ||
		len(other.requests()) != 0 || c.Stats().Failovers != 0 {
		t.Errorf("%v, %d and %d requests", waits, len(n.requests()), len(other.requests()))
	}
}

func TestATokenIsInNoMessage(t *testing.T) {
	n := newFake(t)
	n.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		refuse(w, 403, "forbidden", "you said "+r.Header.Get("Authorization"))
		return true
	})
	c := openFor(t, Settings{Token: "hush"}, n.URL)
	_, err := one(t, c, soon(t, 30*time.Second))
	if e := wantCode(t, err, "forbidden", 403); strings.Contains(e.Message, "hush") {
		t.Error(e)
	}
	n.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		io.WriteString(w, strings.Repeat("x", 97)+r.Header.Get("Authorization"))
		return true
	})
	_, err = one(t, c, soon(t, 30*time.Second))
	if e := wantCode(t, err, CodeBadAnswer, 200); strings.Contains(e.Message, "hu") {
		t.Error(e)
	}
}

func TestProxiesOfTheEnvironmentAreNotUsed(t *testing.T) {
	t.Setenv("HTTP_PROXY", closedPort)
	t.Setenv("http_proxy", closedPort)
	c := openFor(t, Settings{}, "http://leafd.invalid:1")
	if c.trip.(*http.Transport).Proxy != nil {
		t.Error("there is a proxy")
	}
}

func TestAConnectionThatWasClosedWhileIdleCountsForNoFailure(t *testing.T) {
	n := newFake(t)
	c := openFor(t, Settings{}, n.URL, closedPort)
	strict, _ := c.Strict("t")
	for i := 0; i < 5; i++ {
		if _, err := strict.Next(soon(t, 30*time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err := one(t, c, soon(t, 30*time.Second)); err != nil {
			t.Fatal(err)
		}
		n.CloseClientConnections()
	}
	if stats := c.Stats(); stats.Failovers != 0 || stats.Retries != 0 {
		t.Errorf("%+v", stats)
	}
}

func TestConnectionsAreKept(t *testing.T) {
	n := newFake(t)
	var mu sync.Mutex
	opened := map[string]bool{}
	n.setFault(func(_ http.ResponseWriter, r *http.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		opened[r.RemoteAddr] = true
		return false
	})
	c := openFor(t, Settings{}, n.URL)
	for i := 0; i < 20; i++ {
		if _, err := one(t, c, soon(t, 30*time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(opened) != 1 {
		t.Errorf("%d connections", len(opened))
	}
}

func TestClientsBeginAtDifferentNodes(t *testing.T) {
	urls := []string{"http://a", "http://b", "http://c"}
	met := map[uint32]bool{}
	for i := 0; i < 200; i++ {
		c, err := Open(Settings{Endpoints: urls})
		if err != nil {
			t.Fatal(err)
		}
		met[c.ids.list.Load().first.Load()] = true
		c.Close(context.Background())
	}
	if len(met) != 3 {
		t.Errorf("%v", met)
	}
}

func TestTheCountersAreToldToPrometheus(t *testing.T) {
	n := newFake(t)
	c := openFor(t, Settings{}, n.URL)
	if _, err := one(t, c, soon(t, 30*time.Second)); err != nil {
		t.Fatal(err)
	}
	next(t, segmentOf(t, c, `a"b`))
	text := c.Stats().Text()
	if !strings.Contains(text, "# TYPE leafd_client_ids_segment_total counter\nleafd_client_ids_segment_total 4\n") ||
		!strings.Contains(text, "\nleafd_client_ids_left{tag=\"a\\\"b\"} 99\n") || strings.Count(text, "\n") != 31 {
		t.Error(text)
	}
}

// slack is for machines on which much else runs. Without its deadline each call would take far longer.
const slack = 3 * time.Second

// quiet is where a server says what it thinks of clients that hang up.
var quiet = log.New(io.Discard, "", 0)
