package leafd

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
)

// Strict is a source of ids of a strict tag: each is greater than all whose answer had come, at any client,
// before it was asked for. A call is one request; nothing is fetched ahead.
type Strict struct {
	client  *Client
	tag     string
	stepped atomic.Bool
	closed  atomic.Bool

	mu    sync.Mutex
	given given
}

// StrictIDs is the answer of Strict.Repeatable.
type StrictIDs struct {
	Ranges   []Range
	Replayed bool // the cluster had answered this key before
}

// IDs is all of them.
func (s StrictIDs) IDs() []int64 {
	var ids []int64
	for _, r := range s.Ranges {
		ids = r.appendIDs(ids)
	}
	return ids
}

// Strict makes a source of ids of a strict tag.
func (c *Client) Strict(tag string) (*Strict, error) {
	if err := checkName("tag", tag); err != nil {
		return nil, err
	}
	if c.isClosed() {
		return nil, errClosed()
	}
	return &Strict{client: c, tag: tag}, nil
}

// Next gives the next id.
func (s *Strict) Next(ctx context.Context) (int64, error) {
	ids, err := s.ask(ctx, 1, NewKey(), true)
	if err != nil {
		return 0, err
	}
	return ids.Ranges[0].First, nil
}

// NextN gives the next count ids, by one request.
func (s *Strict) NextN(ctx context.Context, count int) ([]int64, error) {
	ids, err := s.ask(ctx, count, NewKey(), true)
	if err != nil {
		return nil, err
	}
	return ids.IDs(), nil
}

// Repeatable gives count ids for a key of the caller's: the same tag, key and count get the same ids, for a
// day, at any node. So a call that failed at its deadline can be repeated, also by another process.
func (s *Strict) Repeatable(ctx context.Context, count int, key string) (StrictIDs, error) {
	return s.ask(ctx, count, key, false)
}

// ask: own is whether nobody else knows the key. An id is above all that had come before it was asked for; that of
// a key is older.
func (s *Strict) ask(ctx context.Context, count int, key string, own bool) (StrictIDs, error) {
	if err := checkCount(count); err != nil {
		return StrictIDs{}, err
	}
	if err := checkKey(key); err != nil {
		return StrictIDs{}, err
	}
	c := s.client
	if s.closed.Load() {
		return StrictIDs{}, c.counted(errClosed())
	}
	ctx, end := c.single(ctx)
	defer end()
	s.mu.Lock()
	generation, above := s.given.newest, s.given.above
	s.mu.Unlock()
	refuses := func(got *answer, ranges []Range) string {
		first := ranges[0].First
		if (own || !got.replayed) && got.generation == generation && uint64(first) < above {
			return fmt.Sprintf("its answer has id %d, and %d came before it was asked for", first, above-1)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.given.refuses(got, ranges, key)
	}
	ranges, got, err := c.ranges(ctx, &rangesCall{tag: s.tag, count: count, key: key, stepped: &s.stepped,
		trail: &trail{}, refuses: refuses})
	if err != nil {
		return StrictIDs{}, c.endedBy(err.keyed(key))
	}
	c.stats.strict.Add(int64(count))
	return StrictIDs{Ranges: ranges, Replayed: got.replayed}, nil
}

// Close ends this source alone: its calls are refused from then on.
func (s *Strict) Close() { s.closed.Store(true) }
