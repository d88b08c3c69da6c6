package leafd

import "sync/atomic"

// generator makes snowflake ids within one worker id's window. It sends nothing and never waits; the clock is
// a parameter. Any number of goroutines use it, without a lock.
//
// All that changes with an id is one word: the time of the last id, by the layout's epoch, and its sequence.
// It only rises, so no id comes twice; and no id has a time outside of the window, whatever the clock says
// and however long a goroutine was stopped between two steps: what is checked is the number that the
// compare-and-swap puts into the word.
type generator struct {
	word atomic.Uint64 // time << sequenceBits | sequence; frozen: no id is made any more
	_    [56]byte
	// The last time that may be stamped, by the epoch; renewals raise it.
	until  atomic.Int64
	layout Layout
	worker uint64
	name   string
	epoch  int64         // of the grant
	floor  uint64        // the word at the beginning
	over   chan struct{} // of 1: the clock is beyond the window, which should be renewed
	random *random
}

const (
	frozen      = 1 << 63
	smallStepMs = 5 // a clock that goes back so far is waited for
)

// made says what make did.
type made int

const (
	madeID     made = iota
	madeWait        // for the clock, ms milliseconds
	madeOver        // the clock is beyond the window
	madeFrozen      // there are none from this generator any more
)

func newGenerator(g *grant, name string, random *random) *generator {
	m := &generator{layout: *g.layout, worker: uint64(g.worker), epoch: g.epoch, name: name, random: random,
		over: make(chan struct{}, 1)}
	last := g.fromMs - m.layout.EpochMs
	if last < 0 {
		last = 0
	}
	// No sequence of that time is left: the times of this grant begin behind it.
	m.floor = uint64(last)<<m.layout.SequenceBits | m.lastSequence()
	m.word.Store(m.floor)
	m.extend(g.untilMs)
	return m
}

func (m *generator) lastSequence() uint64 { return 1<<m.layout.SequenceBits - 1 }

// extend raises the bound of the window; it never falls.
func (m *generator) extend(untilMs int64) {
	until := untilMs - m.layout.EpochMs
	if most := int64(1)<<m.layout.TimeBits - 1; until > most {
		until = most
	}
	for {
		old := m.until.Load()
		if until <= old || m.until.CompareAndSwap(old, until) {
			return
		}
	}
}

// renewNow asks whoever renews to do it without waiting for its time.
func (m *generator) renewNow() {
	select {
	case m.over <- struct{}{}:
	default:
	}
}

// make makes an id at the time nowMs, or says why not.
func (m *generator) make(nowMs int64) (id int64, done made, waitMs int64) {
	now := nowMs - m.layout.EpochMs
	bits := m.layout.SequenceBits
	for {
		old := m.word.Load()
		if old&frozen != 0 {
			return 0, madeFrozen, 0
		}
		last := int64(old >> bits)
		next := old + 1
		switch {
		case now > last:
			if now > m.until.Load() {
				return 0, madeOver, 0
			}
			next = uint64(now)<<bits | m.begin(old, now == last+1)
		case now < last && last-now <= smallStepMs:
			return 0, madeWait, last - now
		case old&m.lastSequence() == m.lastSequence():
			return 0, madeWait, last - now + 1
		}
		if m.word.CompareAndSwap(old, next) {
			return int64(next>>bits<<(bits+m.layout.WorkerBits) | m.worker<<bits | next&m.lastSequence()),
				madeID, 0
		}
	}
}

// begin is the first sequence of a new millisecond; follows: of the next one after old's.
func (m *generator) begin(old uint64, follows bool) uint64 {
	if follows && old != m.floor && old&m.lastSequence() == m.lastSequence() {
		return 0 // under full load nothing is left out
	}
	return m.random.below(m.lastSequence() + 1)
}

// used is the highest time that was stamped, in Unix milliseconds; 0: none was.
func (m *generator) used() int64 { return m.usedOf(m.word.Load()) }

func (m *generator) usedOf(word uint64) int64 {
	if word &^= frozen; word != m.floor {
		return int64(word>>m.layout.SequenceBits) + m.layout.EpochMs
	}
	return 0
}

// freeze ends the generator and gives the highest time that was stamped; 0: none was.
func (m *generator) freeze() int64 {
	for {
		old := m.word.Load()
		if old&frozen != 0 || m.word.CompareAndSwap(old, old|frozen) {
			return m.usedOf(old)
		}
	}
}
