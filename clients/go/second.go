package leafd

import (
	"context"
	"sync/atomic"
	"time"
)

// A second request beside one that takes long, so that a node that hangs costs little. Of a call with a key
// both requests have the same ids, so the slower one is ended; a source of segments sends its second request
// itself (Segment.second).

const (
	hedgeLeast = 20 * time.Millisecond // no second request before
	usualParts = 8                     // of the usual time, one of which is the last one's
)

// progress is where a call stands that others wait for.
type progress struct {
	since atomic.Int64         // when the attempt under way began, since the client was made; 0: none is
	at    atomic.Pointer[node] // that it asks
}

// patience is how long a range request may take before a second one is sent beside it.
func (c *Client) patience() time.Duration {
	usual := time.Duration(c.usual.Load())
	switch {
	case usual == 0:
		return c.settings.Connect
	case 2*usual < hedgeLeast:
		return hedgeLeast
	}
	return 2 * usual
}

// learn makes the usual time of those of range requests. Of two at the same moment one may not count.
func (c *Client) learn(took time.Duration) {
	usual := c.usual.Load()
	if usual == 0 {
		c.usual.Store(int64(took) + 1)
	} else {
		c.usual.Store(usual - usual/usualParts + int64(took)/usualParts)
	}
}

// attempts asks the node at, and, where that takes long and the request has a key, the next one, too. It gives
// the first good answer and which node that is from; else how the first node failed.
func (c *Client) attempts(ctx context.Context, d *door, list *nodeList, at int, rq *request, l limits) (*answer,
	*outcome, int) {
	nodes := list.nodes
	other := beside(nodes, at)
	if foreign, _ := c.foreignTo(nodes, other); rq.key == "" || other == at || foreign != "" {
		got, out := c.attempt(ctx, nodes[at], rq, l)
		return got, out, at
	}
	type result struct {
		got *answer
		out *outcome
		at  int
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results := make(chan result, 2)
	ask := func(at int) {
		got, out := c.attempt(ctx, nodes[at], rq, l)
		results <- result{got, out, at}
	}
	go ask(at)
	late := time.NewTimer(c.patience())
	defer late.Stop()
	var first *result
	for pending := 1; pending > 0; {
		select {
		case <-late.C:
			if first == nil {
				pending++
				c.stats.hedges.Add(1)
				go ask(other)
			}
		case r := <-results:
			pending--
			if r.out == nil {
				c.leave(d, list, at, r.at)
				return r.got, nil, r.at
			}
			if r.at == at {
				first = &r
				if !r.out.elsewhere {
					return nil, r.out, at
				}
			}
		}
	}
	return nil, first.out, at
}
