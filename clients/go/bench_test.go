package leafd

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"
)

// The path of an id, without the cost of a node: each source holds one endless piece.
func endless(b *testing.B) *Segment {
	n := newFake(b)
	c := openFor(b, Settings{}, n.URL)
	s := segmentOf(b, c, "t")
	s.mu.Lock()
	s.first = []*piece{{first: 1, count: 1 << 62, total: 1 << 62}}
	s.advance()
	s.current.Load().refillAt.Store(never)
	s.mu.Unlock()
	return s
}

func BenchmarkSegmentNext(b *testing.B) {
	s := endless(b)
	ctx := context.Background()
	b.ReportAllocs()
	b.ResetTimer()
	for i := 0; i < b.N; i++ {
		if _, err := s.Next(ctx); err != nil {
			b.Fatal(err)
		}
	}
}

const benchGoroutines = 32

func benchMany(b *testing.B, source func(int) func(context.Context) (int64, error)) {
	ctx := context.Background()
	var all sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	for g := 0; g < benchGoroutines; g++ {
		all.Add(1)
		go func(g int) {
			defer all.Done()
			next := source(g)
			for i := 0; i < b.N/benchGoroutines+1; i++ {
				if _, err := next(ctx); err != nil {
					b.Error(err)
					return
				}
			}
		}(g)
	}
	all.Wait()
}

func BenchmarkSegment32OwnSources(b *testing.B) {
	var sources []*Segment
	for g := 0; g < benchGoroutines; g++ {
		sources = append(sources, endless(b))
	}
	benchMany(b, func(g int) func(context.Context) (int64, error) { return sources[g].Next })
}

func BenchmarkSegment32SharedSource(b *testing.B) {
	s := endless(b)
	benchMany(b, func(int) func(context.Context) (int64, error) { return s.Next })
}

// With requests, to a node in this process that costs as good as nothing.
func BenchmarkSegmentNextWithRequests(b *testing.B) {
	n := newFake(b)
	c := openFor(b, Settings{}, n.URL)
	s := segmentOf(b, c, "t")
	ctx := context.Background()
	for i := 0; i < b.N; i++ {
		if _, err := s.Next(ctx); err != nil {
			b.Fatal(err)
		}
	}
}

// The clock moves on so that no millisecond is used up: 4096 ids in each is all that there can be.
func BenchmarkSnowflakeMake(b *testing.B) {
	m := leafGenerator(0, timeMostMs)
	now := time.Now().UnixMilli()
	b.ReportAllocs()
	for i := 0; i < b.N; i++ {
		if _, done, _ := m.make(now + int64(i)/2048); done != madeID {
			b.Fatal(done)
		}
	}
}

func BenchmarkSnowflakeNext(b *testing.B) {
	n := newFake(b)
	c := openFor(b, Settings{}, n.URL)
	s := snowflakeOf(b, c, "")
	ctx := context.Background()
	b.ReportAllocs()
	for i := 0; i < b.N; i++ {
		if _, err := s.Next(ctx); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkStrictNext(b *testing.B) {
	n := newFake(b)
	n.setFault(func(w http.ResponseWriter, _ *http.Request) bool { fmt.Fprint(w, "1 1\n"); return true })
	c := openFor(b, Settings{}, n.URL)
	s, _ := c.Strict("t")
	for i := 0; i < b.N; i++ {
		if _, err := s.Next(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
}
