package leafd

import (
	"context"
	"math"
	"net/http"
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
// still have such, when the one that was asked so far fails. Those of a second request may be lower. Ranges that are too old, or of an older
// generation than an answer had, are dropped, too: by leaving the piece, which the path of an id does not see.
type Segment struct {
	current atomic.Pointer[piece] // nil: none
	_       [56]byte              // current is read by all, what follows is written

	client *Client
	tag    string

	mu        sync.Mutex
	first     []*piece      // of what is handed out now, behind the current one
	spare     []*piece      // what was fetched ahead
	highest   int64         // that was fetched
	kept      int64         // id of the last answer of which something was kept, of a second request, too
	passed    int64         // ids of pieces that were left: given or burnt
	asking    bool          // a request is under way
	hedging   bool          // and a second one beside it
	hedged    time.Duration // the progress of the attempt beside which that was sent
	hedgeFrom int64         // answers that had come then
	answers   int64         // that brought ids
	askFrom   int64         // of these, when the request was begun
	given     given         // newest: the generation, of which alone it holds ids
	pausedAt  time.Time     // when a node said last that the tag is; zero: none did
	aging     *time.Timer   // drops what is too old; nil: nothing is held
	told      bool          // refill_failed was reported, recovered was not yet
	waiting   int           // calls that wait for it
	failed    *Error        // goes to those who ask, until failedTil
	timer     stopper       // forgets it
	changed   chan struct{} // closed and made anew when something that is waited for happened
	closed    bool
	trail     trail // of the request under way
	size      int   // of the last request; 0: none yet
	askedAt   time.Time
	askedAs   int64         // ids given when it began
	dry       time.Duration // time since then in which calls waited with nothing held
	dryFrom   time.Time     // they do since then; zero: they do not

	stepped  atomic.Bool
	progress progress // of the request under way
}

// piece is one range while it is handed out.
type piece struct {
	used atomic.Uint64 // ids that were asked of it; those beyond count got none
	_    [56]byte
	// From this offset on more is to be fetched; never: it is not, or is under way.
	refillAt atomic.Uint64
	first    int64
	step     int64
	count    uint64
	before   uint64    // ids of the pieces before it, of the same answer
	total    uint64    // ids of that answer
	asked    time.Time // when that was asked for
}

// at is one of the ids.
func (p *piece) at(offset uint64) int64 { return p.first + int64(offset)*p.step }

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
			return p.at(at), nil
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
		ids = r.appendIDs(ids)
	}
	return ids, nil
}

// NextRange gives count ids in one range, from a request of its own.
func (s *Segment) NextRange(ctx context.Context, count int) (Range, error) {
	if err := checkCount(count); err != nil {
		return Range{}, err
	}
	if s.isClosed() {
		return Range{}, s.client.counted(errClosed())
	}
	ctx, end := s.client.single(ctx)
	defer end()
	ranges, _, err := s.client.ranges(ctx, &rangesCall{tag: s.tag, count: count, options: "&contiguous=1",
		stepped: &s.stepped, trail: &trail{}, refuses: s.refuses, one: true})
	if err != nil {
		s.paused(err)
		return Range{}, s.client.endedBy(err)
	}
	s.client.stats.segment.Add(int64(count))
	return ranges[0], nil
}

func (s *Segment) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
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
				return Range{p.at(at), p.at(at + want - 1), p.step}, nil
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
	if s.waiting++; s.waiting == 1 {
		s.setDry(true)
	}
	s.client.stats.waits.Add(1)
	over := s.await(ctx)
	if s.waiting--; s.waiting == 0 {
		s.setDry(false)
	}
	defer s.mu.Unlock()
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

// await waits for news of the source, and has a second request begun when the first takes long; true: the
// context was over before. Under the lock, which is let go meanwhile.
func (s *Segment) await(ctx context.Context) bool {
	changed := s.changed
	for {
		var late <-chan time.Time // never, where no second one makes sense
		if wait, wanted := s.hedge(); wanted {
			timer := time.NewTimer(wait)
			defer timer.Stop()
			late = timer.C
		}
		s.mu.Unlock()
		over, again := false, false
		select {
		case <-changed:
		case <-ctx.Done():
			over = isOver(ctx, changed)
		case <-late:
			again = true
		}
		s.mu.Lock()
		if !again {
			return over
		}
	}
}

// hedge begins a second request if the first has taken so long. It says when to come again, if at all. Under
// the lock.
func (s *Segment) hedge() (wait time.Duration, wanted bool) {
	c := s.client
	list := c.ids.list.Load()
	if s.hedging || !s.asking || inTier(list.nodes, int(list.first.Load())) == 1 {
		return 0, false
	}
	wait = c.patience()
	since := time.Duration(s.progress.since.Load())
	if since == 0 {
		return wait, true
	}
	if took := time.Since(c.made) - since; took < wait {
		return wait - took, true
	}
	if s.hedged == since && s.hedgeFrom == s.answers { // one beside each attempt, unless it has brought something
		return wait, true
	}
	s.hedging, s.hedged, s.hedgeFrom = true, since, s.answers
	c.stats.hedges.Add(1)
	notAt, from, size := s.progress.at.Load(), s.answers, s.size
	if s.answers != s.askFrom { // the first one is late for what another second one has brought
		s.resize()
		size = s.size
	}
	goOn := func(int) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return !s.closed && s.answers == from && s.waiting > 0
	}
	c.background(func(ctx context.Context) {
		s.fetch(ctx, &fetching{size: size, from: from, goOn: goOn, trail: &trail{}, second: true, notAt: notAt})
	})
	return wait, true
}

// setDry notes that calls wait with nothing held, or that they do not any more. Under the lock.
func (s *Segment) setDry(dry bool) {
	now := s.client.clock.Now()
	if !s.dryFrom.IsZero() {
		s.dry += now.Sub(s.dryFrom)
	}
	s.dryFrom = time.Time{}
	if dry {
		s.dryFrom = now
	}
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
func (s *Segment) leave() (burnt int64) {
	if p := s.current.Load(); p != nil {
		used := p.used.Swap(p.count) // those who come late get nothing
		if used < p.count {
			burnt = int64(p.count - used)
			s.client.stats.burnt.Add(burnt)
		} else {
			used = p.count
		}
		s.passed += int64(used)
		s.current.Store(nil)
	}
	return burnt
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
	s.askFrom = s.answers
	how := &fetching{size: s.size, from: s.answers, goOn: s.wanted, trail: &s.trail}
	s.client.background(func(ctx context.Context) { s.fetch(ctx, how) })
}

// resize sets the size of the next request. Under the lock.
func (s *Segment) resize() {
	set := &s.client.settings
	now, given := s.client.clock.Now(), s.givenLocked()
	if s.size == 0 {
		s.size = set.MinCount
	} else {
		s.setDry(!s.dryFrom.IsZero())
		took := (now.Sub(s.askedAt) - s.dry).Seconds()
		want := float64(given-s.askedAs) * set.Cover.Seconds() / math.Max(took, 1e-6)
		want = math.Max(math.Max(want, float64(s.size)/2), float64(set.MinCount))
		s.size = int(math.Min(math.Min(want, 2*float64(s.size)), float64(set.MaxCount)))
	}
	s.askedAt, s.askedAs, s.dry = now, given, 0
}

// fetching is a request of a source in the background, or the second one beside it.
type fetching struct {
	size    int
	from    int64 // answers that had come when it began
	dropped int   // answers in a row
	goOn    func(rounds int) bool
	trail   *trail
	second  bool
	notAt   *node
}

// fetch asks for ids until there are some.
func (s *Segment) fetch(ctx context.Context, f *fetching) {
	for done := false; !done; {
		call := &rangesCall{tag: s.tag, count: f.size, stepped: &s.stepped, trail: f.trail, goOn: f.goOn,
			refuses: s.refuses, with: func(rq *request) {
				rq.isSecond, rq.notAt = f.second, f.notAt
				if !f.second {
					rq.progress = &s.progress
				}
			}}
		ranges, got, err := s.client.ranges(ctx, call)
		s.paused(err)
		if err != nil && err.Code == codeExhausted && f.size > 1 {
			f.size = s.fewer(f.size)
			continue
		}
		if err != nil && f.second {
			ranges, err = nil, nil // the first one goes on, and says what is wrong
		}
		done = s.arrived(f, ranges, got, err)
		if f.size *= 2; f.size > s.client.settings.MaxCount {
			f.size = s.client.settings.MaxCount
		}
	}
}

// paused has what is held, or was asked for by now, not handed out, if that is the error.
func (s *Segment) paused(err *Error) {
	if err != nil && err.Code == codePaused {
		s.mu.Lock()
		s.pausedAt = time.Now()
		s.drop(func(*piece) bool { return true })
		s.mu.Unlock()
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
func (s *Segment) wanted(rounds int) bool {
	// After a quota the same node is asked again: no round of nodes has failed.
	if code, status := s.trail.late(); rounds > 0 && status != http.StatusTooManyRequests {
		s.tell(code)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.answers != s.askFrom {
		return false
	}
	p := s.current.Load()
	return s.waiting > 0 || len(s.first) > 0 || p != nil && p.used.Load() < p.count
}

// tell reports once that the source gets no new ranges, by the code of the error, and once that it does again.
// Without the lock.
func (s *Segment) tell(code string) {
	s.mu.Lock()
	news := s.told != (code != "")
	s.told = code != ""
	s.mu.Unlock()
	switch {
	case news && code != "":
		s.client.event(Event{Kind: "refill_failed", Name: s.tag, Code: code})
	case news:
		s.client.event(Event{Kind: "recovered", Name: s.tag})
	}
}

// refuses is as of given: an answer of a newer generation than any before ends what is held.
func (s *Segment) refuses(got *answer, ranges []Range) string {
	s.mu.Lock()
	before := s.given.newest
	why := s.given.refuses(got, ranges, "")
	var burnt int64
	if s.given.newest > before && before > 0 { // what came when no answer had one yet is as good as this
		burnt = s.drop(func(*piece) bool { return true })
	}
	s.mu.Unlock()
	if burnt > 0 {
		s.client.event(Event{Kind: "generation", Name: s.tag, IDs: burnt})
	}
	return why
}

// drop burns the pieces that are held and are so. Under the lock.
func (s *Segment) drop(so func(*piece) bool) int64 {
	var burnt int64
	if p := s.current.Load(); p != nil && so(p) {
		burnt = s.leave()
	}
	keep := func(pieces []*piece) (kept []*piece) {
		for _, p := range pieces {
			if so(p) {
				burnt += int64(p.count)
				s.client.stats.burnt.Add(int64(p.count))
			} else {
				kept = append(kept, p)
			}
		}
		return kept
	}
	s.first, s.spare = keep(s.first), keep(s.spare)
	return burnt
}

// oldest is when what is held was asked for; zero: nothing is. Under the lock.
func (s *Segment) oldest() time.Time {
	var oldest time.Time
	note := func(p *piece) {
		if oldest.IsZero() || p.asked.Before(oldest) {
			oldest = p.asked
		}
	}
	if p := s.current.Load(); p != nil && p.used.Load() < p.count {
		note(p)
	}
	for _, pieces := range [][]*piece{s.first, s.spare} {
		for _, p := range pieces {
			note(p)
		}
	}
	return oldest
}

// age drops what is too old by now. By a timer, which is there while anything is held.
func (s *Segment) age() {
	most := s.client.settings.MaxAge
	s.mu.Lock()
	burnt := s.drop(func(p *piece) bool { return time.Since(p.asked) >= most })
	s.aging = nil
	s.watch()
	s.mu.Unlock()
	if burnt > 0 {
		s.client.event(Event{Kind: "aged", Name: s.tag, IDs: burnt})
	}
}

// watch starts the timer of age. Under the lock.
func (s *Segment) watch() {
	if oldest := s.oldest(); s.aging == nil && !oldest.IsZero() {
		s.aging = time.AfterFunc(s.client.settings.MaxAge-time.Since(oldest), s.age)
	}
}

// arrived takes what a request brought, or its error; neither: it was given up. False: all of it had to be
// dropped, and it is to be asked for again.
func (s *Segment) arrived(f *fetching, ranges []Range, got *answer, err *Error) bool {
	c := s.client
	s.mu.Lock()
	last := s.answers != f.from // the other request was faster
	if s.closed || len(s.spare) > 0 || len(ranges) > 0 && (last && ranges[0].First < s.kept ||
		got.generation > 0 && got.generation < s.given.newest || !got.asked.After(s.pausedAt)) {
		for _, r := range ranges {
			c.stats.burnt.Add(r.Count())
		}
		ranges = nil
	}
	pieces, burnt := s.pieces(ranges, got, f.second)
	c.stats.burnt.Add(burnt)
	if len(ranges) > 0 && len(pieces) == 0 && !last {
		if f.dropped++; f.dropped <= droppedMost {
			s.mu.Unlock()
			return false
		}
		err = badAnswer(200, "%d answers in a row had ids below %d, which were fetched before", droppedMost,
			s.highest)
	}
	if f.second {
		s.hedging = false
	} else {
		s.asking = false
	}
	if err != nil && !s.closed {
		s.failed = err
		s.timer = c.clock.AfterFunc(failedTime, s.forget)
	}
	if len(pieces) > 0 {
		s.answers++
		s.kept = ranges[len(ranges)-1].Last
		s.setDry(false)
	}
	s.spare = append(s.spare, pieces...)
	if p := s.current.Load(); p == nil || p.used.Load() >= p.count {
		s.advance()
	} else if len(pieces) == 0 {
		s.arm(p)
	}
	s.watch()
	close(s.changed)
	s.changed = make(chan struct{})
	s.mu.Unlock()
	if err != nil {
		s.tell(err.Code)
	} else if len(pieces) > 0 {
		s.tell("")
	}
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

// pieces makes ranges ready to be handed out, without what is not above all that was fetched before; of a
// second request all of it, which stands beside that order: the ids of another node may be far from those of
// the one that is asked, to which the source comes back. Under the lock.
func (s *Segment) pieces(ranges []Range, got *answer, second bool) (pieces []*piece, burnt int64) {
	total, highest := uint64(0), s.highest
	if second {
		highest = -1
	}
	defer func() {
		if !second {
			s.highest = highest
		}
	}()
	for _, r := range ranges {
		if r.First <= highest {
			burnt += r.Count()
			continue
		}
		highest = r.Last
		p := &piece{first: r.First, step: r.Increment, count: uint64(r.Count()), before: total, asked: got.asked}
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
	if s.aging != nil {
		s.aging.Stop()
	}
	s.drop(func(*piece) bool { return true })
	s.client.stats.segment.Add(s.passed)
	s.passed = 0
	close(s.changed)
	s.changed = make(chan struct{})
}

// held is how many ids were taken of the source, and are not in the client's counter yet; how many it holds, and
// how old the oldest range is.
func (s *Segment) held() (given, left int64, age time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.current.Load(); p != nil {
		if used := p.used.Load(); used < p.count {
			left = int64(p.count - used)
		}
	}
	for _, pieces := range [][]*piece{s.first, s.spare} {
		for _, p := range pieces {
			left += int64(p.count)
		}
	}
	if oldest := s.oldest(); !oldest.IsZero() {
		age = time.Since(oldest)
	}
	return s.givenLocked(), left, age
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
