package leafd

import (
	"context"
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Segment is a source of ids of a tag that were fetched ahead. They rise within one source.
//
// The happy path: Next takes an id from the current piece with one atomic addition. When less than half of
// what was fetched at once is left, a goroutine asks for as much again, and ends when it has it. Under the
// lock are only the change from one piece to the next, and that goroutine's comings and goings.
//
// Failure modes: with nothing left Next waits for the request, by its deadline. An error that makes no
// sense to repeat goes to those who wait, and to those who come within a second.
//
// To keep the order, ids below the highest one that was fetched are dropped (burnt): another node may
// still have such, when the one that was asked so far fails.
type Segment struct {
	current atomic.Pointer[piece] // nil: none
	_       [56]byte              // current is read by all, what follows is written

	client *Client
	tag    string

	mu      sync.Mutex
	first   []*piece      // of what is handed out now, behind the current one
	spare   []*piece      // what was fetched ahead
	highest int64         // that was fetched
	passed  int64         // ids of pieces that were left: given or burnt
	asking  bool          // a request is under way
	waiting int           // calls that wait for it
	failed  *Error        // goes to those who ask, until failedTil
	timer   stopper       // forgets it
	changed chan struct{} // closed and made anew when something that is waited for happened
	closed  bool
	trail   trail // of the request under way
	size    int   // of the last request; 0: none yet
	askedAt time.Time
	askedAs int64 // ids given when it began
}

// piece is one range while it is handed out.
type piece struct {
	used atomic.Uint64 // ids that were asked of it; those beyond count got none
	_    [56]byte
	// From this offset on more is to be fetched; never: it is not, or is under way.
	refillAt atomic.Uint64
	first    int64
	count    uint64
	before   uint64 // ids of the pieces before it, of the same answer
	total    uint64 // ids of that answer
}

const (
	never      = math.MaxUint64
	failedTime = time.Second // so long an error is kept
	// So many answers in a row that are below what was given are dropped. Two full buffers of a node, with
	// the largest segment that a tag has by default, are some twenty.
	droppedMost = 256
)

// Segment makes a source of ids of a tag. Sources of one tag are apart: ids rise within each.
func (c *Client) Segment(tag string) (*Segment, error) {
	if err := checkName("tag", tag); err != nil {
		return nil, err
	}
	s := &Segment{client: c, tag: tag, highest: -1, changed: make(chan struct{})}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, errClosed()
	}
	c.segments[s] = struct{}{}
	return s, nil
}

// Next gives an id that no other call gets, greater than those that this source gave before.
func (s *Segment) Next(ctx context.Context) (int64, error) {
	if p := s.current.Load(); p != nil {
		at := p.used.Add(1) - 1
		if at < p.count {
			if at >= p.refillAt.Load() {
				s.low(p)
			}
			return p.first + int64(at), nil
		}
	}
	r, err := s.take(ctx, 1)
	return r.First, err
}

// NextN gives count ids, rising.
func (s *Segment) NextN(ctx context.Context, count int) ([]int64, error) {
	if err := checkCount(count); err != nil {
		return nil, err
	}
	ctx, cancel := s.client.deadline(ctx)
	defer cancel()
	ids := make([]int64, 0, count)
	for len(ids) < count {
		r, err := s.take(ctx, uint64(count-len(ids)))
		if err != nil {
			s.client.stats.burnt.Add(int64(len(ids)))
			s.client.stats.segment.Add(-int64(len(ids)))
			return nil, err
		}
		for id := r.First; ; id++ {
			ids = append(ids, id)
			if id == r.Last {
				break
			}
		}
	}
	return ids, nil
}

// NextRange gives count ids in one range, from a request of its own.
func (s *Segment) NextRange(ctx context.Context, count int) (Range, error) {
	if err := checkCount(count); err != nil {
		return Range{}, err
	}
	ctx, end := s.client.single(ctx)
	defer end()
	var ranges []Range
	read := s.client.readRanges(count, &ranges)
	rq := &request{method: "GET", path: idsPath(s.tag, count, "&contiguous=1")}
	_, err := s.client.call(ctx, s.client.ids, rq, &trail{}, nil, func(got *answer, base string) *outcome {
		if out := read(got, base); out != nil {
			return out
		}
		if len(ranges) != 1 {
			return &outcome{err: badAnswer(got.status, "%s: %d ranges where one was asked for", base,
				len(ranges))}
		}
		return nil
	})
	if err != nil {
		return Range{}, s.client.endedBy(err)
	}
	s.client.stats.segment.Add(int64(count))
	return ranges[0], nil
}

// Close drops what the source holds. Its calls are refused from then on.
func (s *Segment) Close() {
	s.close()
	c := s.client
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, there := c.segments[s]; there {
		delete(c.segments, s)
	}
}

// take takes up to want ids of one piece, waiting for one where there is none.
func (s *Segment) take(ctx context.Context, want uint64) (Range, error) {
	waited := false
	for {
		if p := s.current.Load(); p != nil {
			at := p.used.Add(want) - want
			if at < p.count {
				if want > p.count-at {
					want = p.count - at
				}
				if at+want > p.refillAt.Load() {
					s.low(p)
				}
				return Range{p.first + int64(at), p.first + int64(at+want-1)}, nil
			}
		}
		if !waited {
			waited = true
			var cancel context.CancelFunc
			ctx, cancel = s.client.deadline(ctx)
			defer cancel()
		}
		if err := s.more(ctx); err != nil {
			return Range{}, s.client.counted(err)
		}
	}
}

// more makes the next piece the current one, or waits until there may be one.
func (s *Segment) more(ctx context.Context) *Error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return errClosed()
	}
	if p := s.current.Load(); p != nil && p.used.Load() < p.count || s.advance() {
		s.mu.Unlock()
		return nil
	}
	if s.failed != nil {
		defer s.mu.Unlock()
		return s.failed
	}
	s.ask()
	changed := s.changed
	s.waiting++
	s.mu.Unlock()
	s.client.stats.waits.Add(1)
	over := false
	select {
	case <-changed:
	case <-ctx.Done():
		over = true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting--
	switch {
	case s.closed:
		return errClosed()
	case s.failed != nil && s.current.Load() == nil:
		return s.failed
	case over && s.current.Load() == nil:
		return s.trail.end(ctx, s.client.ids)
	}
	return nil
}

// advance makes the next piece the current one; false: there is none. Under the lock.
func (s *Segment) advance() bool {
	s.leave()
	if len(s.first) == 0 {
		s.first, s.spare = s.spare, nil
	}
	if len(s.first) == 0 {
		return false
	}
	p := s.first[0]
	s.first = s.first[1:]
	s.arm(p)
	s.current.Store(p)
	return true
}

// leave ends the current piece: what nobody has taken of it is burnt. Under the lock.
func (s *Segment) leave() {
	if p := s.current.Load(); p != nil {
		used := p.used.Swap(p.count) // those who come late get nothing
		if used < p.count {
			s.client.stats.burnt.Add(int64(p.count - used))
		} else {
			used = p.count
		}
		s.passed += int64(used)
		s.current.Store(nil)
	}
}

// arm sets when more is to be fetched. Under the lock.
func (s *Segment) arm(p *piece) {
	at := uint64(never)
	if !s.asking && s.failed == nil && len(s.spare) == 0 && !s.closed {
		at = 0
		if p.total/2 > p.before {
			at = p.total/2 - p.before
		}
	}
	p.refillAt.Store(at)
}

// low is called when less than half is left.
func (s *Segment) low(p *piece) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current.Load() == p && p.refillAt.Load() != never {
		s.ask()
	}
}

// ask has a request begun, unless one is under way. Under the lock.
func (s *Segment) ask() {
	if s.asking || s.closed || s.failed != nil || len(s.spare) > 0 {
		return
	}
	s.asking = true
	s.trail.clear()
	s.resize()
	if p := s.current.Load(); p != nil {
		p.refillAt.Store(never)
	}
	size := s.size
	s.client.background(func(ctx context.Context) { s.fetch(ctx, size) })
}

// resize sets the size of the next request. Under the lock.
func (s *Segment) resize() {
	set := &s.client.settings
	now, given := s.client.clock.Now(), s.givenLocked()
	if s.size == 0 {
		s.size = set.MinCount
	} else {
		took := now.Sub(s.askedAt).Seconds()
		want := float64(given-s.askedAs) * set.Cover.Seconds() / math.Max(took, 1e-6)
		want = math.Max(math.Max(want, float64(s.size)/2), float64(set.MinCount))
		s.size = int(math.Min(math.Min(want, 2*float64(s.size)), float64(set.MaxCount)))
	}
	s.askedAt, s.askedAs = now, given
}

// fetch asks for ids until there are some. It is the goroutine of a source.
func (s *Segment) fetch(ctx context.Context, size int) {
	for dropped := 0; ; {
		var ranges []Range
		rq := &request{method: "GET", path: idsPath(s.tag, size, "")}
		_, err := s.client.call(ctx, s.client.ids, rq, &s.trail, s.wanted,
			s.client.readRanges(size, &ranges))
		if err != nil && err.Code == codeExhausted && size > 1 {
			size = s.fewer(size)
			continue
		}
		if s.arrived(ranges, err, dropped) {
			return
		}
		dropped++
		if size *= 2; size > s.client.settings.MaxCount {
			size = s.client.settings.MaxCount
		}
	}
}

// fewer is what to ask for where fewer than size are left below the tag's max.
func (s *Segment) fewer(size int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.size = size / 2
	return s.size
}

// wanted: whether it makes sense to ask on.
func (s *Segment) wanted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	p := s.current.Load()
	return s.waiting > 0 || len(s.first) > 0 || p != nil && p.used.Load() < p.count
}

// arrived takes what a request brought, or its error; neither: it was given up. False: all of it had to be
// dropped, and it is to be asked for again.
func (s *Segment) arrived(ranges []Range, err *Error, dropped int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	pieces, burnt := s.pieces(ranges)
	s.client.stats.burnt.Add(burnt)
	if s.closed {
		for _, p := range pieces {
			s.client.stats.burnt.Add(int64(p.count))
		}
		s.asking = false
		return true
	}
	if len(ranges) > 0 && len(pieces) == 0 {
		if dropped < droppedMost {
			return false
		}
		err = badAnswer(200, "%d answers in a row had ids below %d, which were fetched before", dropped,
			s.highest)
	}
	s.asking = false
	if err != nil {
		s.failed = err
		s.timer = s.client.clock.AfterFunc(failedTime, s.forget)
	}
	s.spare = append(s.spare, pieces...)
	if p := s.current.Load(); p == nil || p.used.Load() >= p.count {
		s.advance()
	} else if len(pieces) == 0 {
		s.arm(p)
	}
	close(s.changed)
	s.changed = make(chan struct{})
	return true
}

// forget lets the next call ask again after an error.
func (s *Segment) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = nil
	if p := s.current.Load(); p != nil {
		s.arm(p)
	}
}

// pieces makes ranges ready to be handed out, without what is not above all that was fetched before.
// Under the lock.
func (s *Segment) pieces(ranges []Range) (pieces []*piece, burnt int64) {
	total := uint64(0)
	for _, r := range ranges {
		if r.Last <= s.highest {
			burnt += r.Count()
			continue
		}
		if r.First <= s.highest {
			burnt += s.highest - r.First + 1
			r.First = s.highest + 1
		}
		s.highest = r.Last
		p := &piece{first: r.First, count: uint64(r.Count()), before: total}
		p.refillAt.Store(never)
		total += p.count
		pieces = append(pieces, p)
	}
	for _, p := range pieces {
		p.total = total
	}
	return pieces, burnt
}

// close drops all that is held.
func (s *Segment) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	if s.timer != nil {
		s.timer.Stop()
	}
	s.leave()
	for _, p := range append(s.first, s.spare...) {
		s.client.stats.burnt.Add(int64(p.count))
	}
	s.first, s.spare = nil, nil
	s.client.stats.segment.Add(s.passed)
	s.passed = 0
	close(s.changed)
	s.changed = make(chan struct{})
}

// given is how many ids were taken of the source, and are not in the client's counter yet.
func (s *Segment) given() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.givenLocked()
}

func (s *Segment) givenLocked() int64 {
	given := s.passed
	if p := s.current.Load(); p != nil {
		used := p.used.Load()
		if used > p.count {
			used = p.count
		}
		given += int64(used)
	}
	return given
}

// String is for messages.
func (s *Segment) String() string { return "segment source of " + strconv.Quote(s.tag) }
