package leafd

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func next(t testing.TB, s *Segment) int64 {
	t.Helper()
	id, err := s.Next(soon(t, 10*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func (s *Segment) isAsking() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asking
}

func TestIdsComeFromRanges(t *testing.T) {
	n := newFake(t)
	c := openFor(t, Settings{}, n.URL)
	s := segmentOf(t, c, "a/b c.ä")
	for want := int64(1); want <= 1000; want++ {
		if id := next(t, s); id != want {
			t.Fatalf("%d, not %d", id, want)
		}
	}
	seen := n.requests()
	if seen[0] != "GET /api/segment/get/a%2Fb%20c.%C3%A4?count=100&format=range" {
		t.Error(seen[0])
	}
	if stats := c.Stats(); stats.IDsSegment != 1000 || len(seen) > 8 {
		t.Errorf("%+v, %d requests", stats, len(seen))
	}
}

func TestMoreIsFetchedWhenLessThanHalfIsLeft(t *testing.T) {
	n := newFake(t)
	c := openFor(t, Settings{}, n.URL)
	s := segmentOf(t, c, "t")
	for i := 0; i < 50; i++ {
		next(t, s)
	}
	if s.isAsking() || len(n.requests()) != 1 {
		t.Fatalf("%d requests with half left", len(n.requests()))
	}
	next(t, s)
	eventually(t, "a second answer", func() bool { return len(n.requests()) == 2 && !s.isAsking() })
	for i := 0; i < 49; i++ { // the rest of the first range: the spare one is there
		next(t, s)
	}
	if s.isAsking() || len(n.requests()) != 2 {
		t.Fatalf("%d requests with a spare range", len(n.requests()))
	}
	if waits := c.Stats().Waits; waits != 1 {
		t.Errorf("%d waits", waits)
	}
}

func TestASourceHasOneRequestAtATime(t *testing.T) {
	n := newFake(t)
	n.setFault(func(http.ResponseWriter, *http.Request) bool { time.Sleep(2 * time.Millisecond); return false })
	c := openFor(t, Settings{MaxCount: 200, Attempt: time.Minute}, n.URL)
	s := segmentOf(t, c, "t")
	var all sync.WaitGroup
	for g := 0; g < 32; g++ {
		all.Add(1)
		go func() {
			defer all.Done()
			for i := 0; i < 300; i++ {
				if _, err := s.Next(context.Background()); err != nil {
					t.Error(err)
					return
				}
			}
		}()
	}
	all.Wait()
	if most := n.most.Load(); most != 1 {
		t.Errorf("%d requests at once", most)
	}
}

func TestManyGoroutinesNeverShareAnId(t *testing.T) {
	n := newFake(t)
	c := openFor(t, Settings{MinCount: 10, MaxCount: 5000}, n.URL)
	s := segmentOf(t, c, "t")
	const goroutines, each = 32, 5000
	var got [goroutines][]int64
	var all sync.WaitGroup
	for g := 0; g < goroutines; g++ {
		all.Add(1)
		go func(g int) {
			defer all.Done()
			for i := 0; i < each; i++ {
				if g%4 == 0 && i%10 == 0 {
					ids, err := s.NextN(context.Background(), 10)
					if err != nil {
						t.Error(err)
						return
					}
					got[g] = append(got[g], ids...)
					i += 9
					continue
				}
				id, err := s.Next(context.Background())
				if err != nil {
					t.Error(err)
					return
				}
				got[g] = append(got[g], id)
			}
		}(g)
	}
	all.Wait()
	met := make(map[int64]bool, goroutines*each)
	for g := range got {
		last := int64(0)
		for _, id := range got[g] {
			if met[id] || id <= last {
				t.Fatalf("goroutine %d: %d behind %d, met %v", g, id, last, met[id])
			}
			met[id], last = true, id
		}
	}
	if stats := c.Stats(); stats.IDsSegment != goroutines*each || len(met) != goroutines*each {
		t.Errorf("%d ids, counted %d", len(met), stats.IDsSegment)
	}
}

func TestTheSizeFollowsTheRate(t *testing.T) {
	c := openFor(t, Settings{Cover: 10 * time.Second, MinCount: 100, MaxCount: 1000}, "http://a")
	clock := newHandClock()
	c.clock = clock
	s := segmentOf(t, c, "t")
	s.resize()
	for i, step := range []struct {
		took  time.Duration
		given int64
		size  int
	}{
		{time.Second, 1000, 200},     // would be 10000: at most twice
		{time.Second, 25, 250},       // 25 a second for 10 s
		{time.Second, 1000, 500},     // twice
		{time.Second, 1000, 1000},    // max_count
		{0, 1, 1000},                 // no time at all
		{time.Second, 0, 500},        // at least half
		{time.Hour, 1, 250},          // again
		{time.Hour, 1, 125},          // again
		{time.Hour, 1, 100},          // min_count
		{10 * time.Second, 110, 110}, // 11 a second
	} {
		clock.move(step.took)
		s.passed += step.given
		if s.resize(); s.size != step.size {
			t.Errorf("step %d: %d, not %d", i, s.size, step.size)
		}
	}
	s.passed = 0
}

func TestEachRangeOfAnAnswerIsUsed(t *testing.T) {
	n := newFake(t)
	n.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		if len(n.requests()) == 1 {
			fmt.Fprint(w, "5 9\n20 20\n30 33\n")
			return true
		}
		refuse(w, 503, "no_leader", "none")
		return true
	})
	c := openFor(t, Settings{MinCount: 10}, n.URL)
	s := segmentOf(t, c, "t")
	for _, want := range []int64{5, 6, 7, 8, 9, 20, 30, 31, 32, 33} {
		if id := next(t, s); id != want {
			t.Fatalf("%d, not %d", id, want)
		}
		if want == 7 && len(n.requests()) != 1 {
			t.Error("asked with more than half left")
		}
	}
	eventually(t, "a second request", func() bool { return len(n.requests()) > 1 })
	_, err := s.Next(soon(t, 100*time.Millisecond))
	wantCode(t, err, CodeUnreachable, 0)
}

func TestLowerIdsAreDropped(t *testing.T) {
	n := newFake(t)
	answers := []string{"1001 1100\n", "1 200\n", "401 800\n", "801 900\n1201 1500\n"}
	n.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		at := len(n.requests()) - 1
		if at >= len(answers) {
			refuse(w, 404, "unknown_tag", "over")
			return true
		}
		count := 0
		fmt.Sscan(r.URL.Query().Get("count"), &count)
		text := answers[at]
		var a, b, d, e int
		if k, _ := fmt.Sscan(text, &a, &b, &d, &e); k == 2 { // as many as were asked for
			text = fmt.Sprintf("%d %d\n", a, a+count-1)
		} else {
			text = fmt.Sprintf("%d %d\n%d %d\n", a, b, d, d+count-(b-a+1)-1)
		}
		fmt.Fprint(w, text)
		return true
	})
	c := openFor(t, Settings{}, n.URL)
	s := segmentOf(t, c, "t")
	last := int64(1000)
	got := map[int64]bool{}
	for i := 0; i < 150; i++ {
		id := next(t, s)
		if id <= last || got[id] {
			t.Fatalf("%d behind %d", id, last)
		}
		last, got[id] = id, true
	}
	if burnt := c.Stats().Burnt; burnt == 0 {
		t.Error("nothing was dropped")
	}
}

func TestATagThatWasLoweredIsAnErrorAtLast(t *testing.T) {
	n := newFake(t)
	n.next = 1 << 40
	c := openFor(t, Settings{MaxCount: 100}, n.URL)
	s := segmentOf(t, c, "t")
	next(t, s)
	n.mu.Lock()
	n.next = 1
	n.mu.Unlock()
	var err error
	for i := 0; i < 200 && err == nil; i++ {
		_, err = s.Next(soon(t, 10*time.Second))
	}
	wantCode(t, err, CodeBadAnswer, 200)
	if got := len(n.requests()); got != droppedMost+2 {
		t.Errorf("%d requests", got)
	}
}

func TestIdsGoOnWhileNoNodeAnswers(t *testing.T) {
	n := newFake(t)
	c := openFor(t, Settings{}, n.URL)
	s := segmentOf(t, c, "t")
	next(t, s)
	n.setFault(func(w http.ResponseWriter, _ *http.Request) bool { cut(w, ""); return true })
	for i := 0; i < 99; i++ {
		next(t, s)
	}
	begin := time.Now()
	_, err := s.Next(soon(t, 100*time.Millisecond))
	wantCode(t, err, CodeUnreachable, 0)
	if took := time.Since(begin); took > 100*time.Millisecond+slack {
		t.Error(took)
	}
	n.setFault(nil)
	next(t, s)
}

func TestNothingIsAskedForWhereNobodyWaits(t *testing.T) {
	n := newFake(t)
	n.setFault(func(w http.ResponseWriter, _ *http.Request) bool { cut(w, ""); return true })
	c := openFor(t, Settings{}, n.URL)
	s := segmentOf(t, c, "t")
	_, err := s.Next(soon(t, 50*time.Millisecond))
	wantCode(t, err, CodeUnreachable, 0)
	eventually(t, "the request is given up", func() bool { return !s.isAsking() })
}

func TestAnErrorIsForgottenAfterASecond(t *testing.T) {
	n := newFake(t)
	n.setFault(refuseAs(404, "unknown_tag"))
	c := openFor(t, Settings{}, n.URL)
	clock := newHandClock()
	c.clock = clock
	s := segmentOf(t, c, "t")
	for i := 0; i < 3; i++ {
		_, err := s.Next(soon(t, 10*time.Second))
		wantCode(t, err, "unknown_tag", 404)
	}
	if got := len(n.requests()); got != 1 {
		t.Fatalf("%d requests", got)
	}
	n.setFault(nil)
	clock.move(failedTime)
	if id := next(t, s); id != 1 {
		t.Error(id)
	}
}

func TestAnErrorInTheBackgroundKeepsWhatIsHeld(t *testing.T) {
	n := newFake(t)
	c := openFor(t, Settings{}, n.URL)
	clock := newHandClock()
	c.clock = clock
	s := segmentOf(t, c, "t")
	next(t, s)
	n.setFault(refuseAs(403, "forbidden"))
	for i := 0; i < 60; i++ {
		next(t, s)
	}
	eventually(t, "the error came", func() bool { return clock.pending() == 1 })
	n.setFault(nil)
	for i := 0; i < 10; i++ {
		next(t, s)
	}
	if got := len(n.requests()); got != 2 {
		t.Fatalf("%d requests within the second", got)
	}
	clock.move(failedTime)
	next(t, s)
	eventually(t, "it is asked again", func() bool { return len(n.requests()) == 3 })
	if c.Stats().Errors != 0 {
		t.Error("nobody waited")
	}
}

func TestEachCallWaitsByItsOwnDeadline(t *testing.T) {
	n := newFake(t)
	let := make(chan struct{})
	n.setFault(func(http.ResponseWriter, *http.Request) bool { <-let; return false })
	c := openFor(t, Settings{Attempt: 20 * time.Second}, n.URL)
	s := segmentOf(t, c, "t")
	patient := make(chan error)
	go func() {
		_, err := s.Next(soon(t, 20*time.Second))
		patient <- err
	}()
	_, err := s.Next(soon(t, 50*time.Millisecond))
	wantCode(t, err, CodeUnreachable, 0)
	close(let)
	if err := <-patient; err != nil {
		t.Error(err)
	}
}

func TestARangeIsARequestOfItsOwn(t *testing.T) {
	n := newFake(t)
	c := openFor(t, Settings{}, n.URL)
	s := segmentOf(t, c, "t")
	next(t, s)
	r, err := s.NextRange(soon(t, 10*time.Second), 7)
	if err != nil || r != (Range{101, 107, 1}) {
		t.Error(r, err)
	}
	if got := n.requests()[1]; got != "GET /api/segment/get/t?count=7&format=range&contiguous=1" {
		t.Error(got)
	}
	n.setFault(func(w http.ResponseWriter, _ *http.Request) bool { fmt.Fprint(w, "1 3\n5 8\n"); return true })
	_, err = s.NextRange(soon(t, 10*time.Second), 7)
	wantCode(t, err, CodeBadAnswer, 200)
	n.setFault(refuseAs(409, "not_contiguous"))
	_, err = s.NextRange(soon(t, 10*time.Second), 7)
	wantCode(t, err, "not_contiguous", 409)
	if id := next(t, s); id != 2 {
		t.Error(id)
	}
}

func TestIdsUpToTheLastOneThereIs(t *testing.T) {
	n := newFake(t)
	n.setFault(func(w http.ResponseWriter, _ *http.Request) bool {
		if len(n.requests()) == 1 {
			fmt.Fprint(w, "9223372036854775806 9223372036854775807\n")
			return true
		}
		refuse(w, 409, "exhausted", "over")
		return true
	})
	c := openFor(t, Settings{MinCount: 2}, n.URL)
	s := segmentOf(t, c, "t")
	if id := next(t, s); id != 9223372036854775806 {
		t.Error(id)
	}
	ids, err := s.NextN(soon(t, 10*time.Second), 1)
	if err != nil || ids[0] != 9223372036854775807 {
		t.Error(ids, err)
	}
	for i := 0; i < 100; i++ { // nothing wraps
		_, err := s.Next(soon(t, 10*time.Second))
		wantCode(t, err, "exhausted", 409)
	}
}

func TestClosingBurnsAndRefuses(t *testing.T) {
	n := newFake(t)
	c := openFor(t, Settings{}, n.URL)
	s, other := segmentOf(t, c, "t"), segmentOf(t, c, "t")
	next(t, s)
	next(t, other)
	other.Close()
	other.Close()
	if stats := c.Stats(); stats.Burnt != 99 || stats.IDsSegment != 2 {
		t.Errorf("%+v", stats)
	}
	_, err := other.Next(soon(t, 10*time.Second))
	wantCode(t, err, CodeClosed, 0)
	next(t, s)
	let := make(chan struct{})
	n.setFault(func(http.ResponseWriter, *http.Request) bool { <-let; return false })
	waiting := segmentOf(t, c, "w")
	failed := make(chan error)
	go func() {
		_, err := waiting.Next(context.Background())
		failed <- err
	}()
	generator := snowflakeOf(t, c, "")
	go func() {
		_, err := generator.Next(context.Background())
		failed <- err
	}()
	eventually(t, "both wait", func() bool { return n.atOnce.Load() == 2 })
	if err := c.Close(soon(t, 10*time.Second)); err != nil {
		t.Error(err)
	}
	wantCode(t, <-failed, CodeClosed, 0)
	wantCode(t, <-failed, CodeClosed, 0)
	close(let)
	_, err = s.Next(soon(t, 10*time.Second))
	wantCode(t, err, CodeClosed, 0)
	_, err = s.NextRange(soon(t, 10*time.Second), 1)
	wantCode(t, err, CodeClosed, 0)
	_, err = c.Segment("x")
	wantCode(t, err, CodeClosed, 0)
	_, err = c.Strict("x")
	wantCode(t, err, CodeClosed, 0)
	_, err = c.Snowflake("")
	wantCode(t, err, CodeClosed, 0)
	if stats := c.Stats(); stats.Burnt != 99+98 || stats.IDsSegment != 3 {
		t.Errorf("%+v", stats)
	}
	if err := c.Close(soon(t, 10*time.Second)); err != nil {
		t.Error(err)
	}
}

func TestErrorsAreOfOneType(t *testing.T) {
	c := openFor(t, Settings{}, closedPort)
	_, err := segmentOf(t, c, "t").Next(soon(t, 20*time.Millisecond))
	var e *Error
	if !errors.As(err, &e) || !strings.HasPrefix(err.Error(), "leafd: unreachable: ") {
		t.Error(err)
	}
}

func TestIdsAreGivenUnderChaos(t *testing.T) {
	var nodes []*fakeNode
	var urls []string
	var next atomic.Int64
	var turn atomic.Uint64
	for i := 0; i < 3; i++ {
		n := newFake(t)
		n.setFault(func(w http.ResponseWriter, r *http.Request) bool {
			var count int64
			fmt.Sscan(r.URL.Query().Get("count"), &count)
			first := next.Add(count) - count + 1
			text := fmt.Sprintf("%d %d\n", first, first+count-1)
			switch turn.Add(1) % 7 {
			case 0:
				cut(w, "")
			case 1:
				cut(w, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n"+text)
			case 2:
				w.Header().Set("Retry-After", "0")
				refuse(w, 503, "timeout", "none")
			default:
				fmt.Fprint(w, text)
			}
			return true
		})
		nodes, urls = append(nodes, n), append(urls, n.URL)
	}
	c := openFor(t, Settings{MinCount: 10, MaxCount: 300}, urls...)
	s := segmentOf(t, c, "t")
	var all sync.WaitGroup
	var met sync.Map
	for g := 0; g < 8; g++ {
		all.Add(1)
		go func() {
			defer all.Done()
			last := int64(0)
			for i := 0; i < 3000; i++ {
				id, err := s.Next(context.Background())
				if err != nil {
					t.Error(err)
					return
				}
				if _, there := met.LoadOrStore(id, true); there || id <= last {
					t.Errorf("%d came behind %d", id, last)
					return
				}
				last = id
			}
		}()
	}
	all.Wait()
	if stats := c.Stats(); stats.IDsSegment != 8*3000 || stats.Failovers == 0 || stats.Errors != 0 {
		t.Errorf("%+v", stats)
	}
}
