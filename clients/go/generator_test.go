package leafd

import (
	"sync"
	"testing"
	"time"
)

func leafGenerator(from, until int64) *generator {
	layout := Layout{EpochMs: 1288834974657, TimeBits: 41, WorkerBits: 10, SequenceBits: 12}
	return newGenerator(&grant{worker: 3, epoch: 1, fromMs: from, untilMs: until, layout: &layout}, "x", newRandom())
}

const noon = 1795176000000

func mustMake(t *testing.T, m *generator, now int64) Parts {
	t.Helper()
	id, done, _ := m.make(now)
	if done != madeID {
		t.Fatalf("at %d: %v", now, done)
	}
	return m.layout.Decode(id)
}

// useUp takes all ids of a millisecond, so that the next one begins at 0.
func useUp(m *generator, now int64) (last int64, wait int64) {
	for {
		id, done, ms := m.make(now)
		if done != madeID {
			return last, ms
		}
		last = id
	}
}

func TestAnIdHasTimeWorkerAndSequence(t *testing.T) {
	// The example of docs/snowflake.md.
	m := leafGenerator(0, noon+30000)
	useUp(m, noon)
	first := mustMake(t, m, noon+1)
	if first.TimeMs != noon+1 || first.Worker != 3 || first.Sequence != 0 {
		t.Errorf("%+v", first)
	}
	if second := mustMake(t, m, noon+1); second.Sequence != first.Sequence+1 || second.TimeMs != noon+1 {
		t.Errorf("%+v", second)
	}
}

func TestNoTimeIsOutsideOfTheWindow(t *testing.T) {
	m := leafGenerator(noon, noon+100)
	for _, now := range []int64{0, noon - 1000000, noon - 5, noon} {
		if _, done, wait := m.make(now); done != madeWait || wait < 1 {
			t.Errorf("%d: %v %d", now, done, wait)
		}
	}
	if p := mustMake(t, m, noon+1); p.TimeMs != noon+1 {
		t.Errorf("%+v", p)
	}
	if p := mustMake(t, m, noon+100); p.TimeMs != noon+100 {
		t.Errorf("%+v", p)
	}
	if _, done, _ := m.make(noon + 101); done != madeOver {
		t.Error(done)
	}
	m.extend(noon + 50) // it never falls
	if _, done, _ := m.make(noon + 51); done == madeOver {
		t.Error(done)
	}
	m.extend(noon + 101)
	mustMake(t, m, noon+101)
}

func TestAMillisecondThatIsUsedUpIsWaitedFor(t *testing.T) {
	m := leafGenerator(0, noon+100)
	if last, wait := useUp(m, noon); wait != 1 || m.layout.Decode(last).Sequence != 4095 {
		t.Errorf("wait %d after %d", wait, last)
	}
	if p := mustMake(t, m, noon+1); p.Sequence != 0 {
		t.Errorf("%+v: under full load a millisecond begins at 0", p)
	}
}

func TestMillisecondsBeginAtRandom(t *testing.T) {
	m := leafGenerator(0, noon+100000)
	met := map[int]bool{}
	for i := int64(0); i < 2000; i++ {
		met[mustMake(t, m, noon+i).Sequence] = true
	}
	if len(met) < 1000 { // of 4096; some 1580
		t.Errorf("%d beginnings", len(met))
	}
	small := newGenerator(&grant{worker: 1, untilMs: noon + 100000,
		layout: &Layout{EpochMs: 0, TimeBits: 45, WorkerBits: 4, SequenceBits: 4}}, "x", newRandom())
	for i := int64(0); i < 1000; i++ {
		if id, done, _ := small.make(noon + i); done != madeID || small.layout.Decode(id).TimeMs != noon+i {
			t.Fatal(id, done)
		}
	}
}

func TestAClockThatGoesBack(t *testing.T) {
	m := leafGenerator(0, noon+100)
	at := mustMake(t, m, noon)
	if _, done, wait := m.make(noon - 5); done != madeWait || wait != 5 {
		t.Error("5 ms are waited for", done, wait)
	}
	// Further back: on within the last time.
	for i := at.Sequence + 1; i <= 4095; i++ {
		if p := mustMake(t, m, noon-3600000); p.TimeMs != noon || p.Sequence != i {
			t.Fatalf("%+v", p)
		}
	}
	if _, done, wait := m.make(noon - 3600000); done != madeWait || wait != 3600001 {
		t.Error(done, wait)
	}
	mustMake(t, m, noon+1)
}

func TestTheEndOfTheLayoutsTime(t *testing.T) {
	m := newGenerator(&grant{worker: 1, untilMs: timeMostMs,
		layout: &Layout{EpochMs: 1700000000000, TimeBits: 39, WorkerBits: 10, SequenceBits: 12}}, "x", newRandom())
	end := int64(1700000000000 + 1<<39 - 1)
	if p := mustMake(t, m, end); p.TimeMs != end {
		t.Errorf("%+v", p)
	}
	if _, done, _ := m.make(end + 1); done != madeOver {
		t.Error(done)
	}
}

func TestAFrozenGeneratorMakesNothing(t *testing.T) {
	m := leafGenerator(noon, noon+100)
	if m.used() != 0 {
		t.Error(m.used())
	}
	mustMake(t, m, noon+7)
	if m.used() != noon+7 || m.freeze() != noon+7 || m.freeze() != noon+7 || m.used() != noon+7 {
		t.Error(m.used())
	}
	if _, done, _ := m.make(noon + 8); done != madeFrozen {
		t.Error(done)
	}
}

func TestGoroutinesShareAGenerator(t *testing.T) {
	m := leafGenerator(0, noon+1000000000)
	const goroutines, each = 16, 20000
	var got [goroutines][]int64
	var all sync.WaitGroup
	begin := time.Now()
	for g := 0; g < goroutines; g++ {
		all.Add(1)
		go func(g int) {
			defer all.Done()
			for len(got[g]) < each {
				// A clock of its own each, so that they cross: some are behind by more than 5 ms.
				now := noon + time.Since(begin).Milliseconds() - int64(g%3)*7
				if id, done, _ := m.make(now); done == madeID {
					got[g] = append(got[g], id)
				}
			}
		}(g)
	}
	all.Wait()
	last := m.freeze()
	met := map[int64]bool{}
	for g := range got {
		before := int64(0)
		for _, id := range got[g] {
			if met[id] || id <= before || m.layout.Decode(id).TimeMs > last {
				t.Fatalf("%d behind %d, met %v", id, before, met[id])
			}
			met[id], before = true, id
		}
	}
}
