package leafd

import (
	"context"
	"sync/atomic"
)

// Strict is a source of ids of a strict tag: each is greater than all whose answer had come, at any client,
// before it was asked for. A call is one request; nothing is fetched ahead.
type Strict struct {
	client  *Client
	tag     string
	stepped atomic.Bool
	newest  atomic.Int64 // generation that an answer had; 0: none
	closed  atomic.Bool
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
	ids, err := s.Repeatable(ctx, 1, NewKey())
	if err != nil {
		return 0, err
	}
	return ids.Ranges[0].First, nil
}

// NextN gives the next count ids, by one request.
func (s *Strict) NextN(ctx context.Context, count int) ([]int64, error) {
	ids, err := s.Repeatable(ctx, count, NewKey())
	if err != nil {
		return nil, err
	}
	return ids.IDs(), nil
}

// Repeatable gives count ids for a key of the caller's: the same tag, key and count get the same ids, for a
// day, at any node. So a call that failed at its deadline can be repeated, also by another process.
func (s *Strict) Repeatable(ctx context.Context, count int, key string) (StrictIDs, error) {
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
	ranges, got, err := c.ranges(ctx, &rangesCall{tag: s.tag, count: count, key: key, stepped: &s.stepped,
		trail: &trail{}, takes: s.takes})
	if err != nil {
		return StrictIDs{}, c.endedBy(err.keyed(key))
	}
	c.stats.strict.Add(int64(count))
	return StrictIDs{Ranges: ranges, Replayed: got.replayed}, nil
}

// takes says whether no answer before was of a newer generation.
func (s *Strict) takes(got *answer) bool {
	for {
		newest := s.newest.Load()
		if got.generation <= newest {
			return got.generation == 0 || got.generation == newest
		}
		if s.newest.CompareAndSwap(newest, got.generation) {
			return true
		}
	}
}

// Close ends this source alone: its calls are refused from then on.
func (s *Strict) Close() { s.closed.Store(true) }
