package leafd

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
)

// rangesCall is one request for ranges of a tag's ids, with all its retries.
type rangesCall struct {
	tag     string
	count   int
	options string // more of them, from & on
	key     string // empty: none
	stepped *atomic.Bool
	trail   *trail
	goOn    func(int) bool // as of Client.call
	one     bool           // the answer must be one range
	with    func(*request) // sets more of the request; may be nil

	// Why an answer is not taken: another node is to be asked. Empty: it is.
	refuses func(*answer, []Range) string
}

// given is what the last answers to a source had. Whose it is guards it.
type given struct {
	newest int64  // generation that an answer had; 0: none
	above  uint64 // all ids of that generation that came
	ranges [rangesKept]givenRange
	count  int // of ranges, ever
}

type givenRange struct {
	generation  int64
	key         string // by which they were asked for; empty: none
	first, last int64
}

const rangesKept = 64

// refuses says why an answer is not taken: it is of an older generation than one before, or has ids that one of the
// last ranges had, which was asked for without this key, as an answer has that a cache or a proxy gives again.
// Empty: it is taken, and noted.
func (g *given) refuses(got *answer, ranges []Range, key string) string {
	if got.generation > 0 && got.generation < g.newest {
		return fmt.Sprintf("its answer is of generation %d, older than one before", got.generation)
	}
	if got.generation > g.newest {
		g.newest, g.above = got.generation, 0
	}
	for _, r := range ranges {
		for at, old := range g.ranges {
			if at < g.count && old.generation == got.generation && (key == "" || key != old.key) &&
				r.First <= old.last && r.Last >= old.first {
				return "its answer has ids that came before"
			}
		}
	}
	for _, r := range ranges {
		g.ranges[g.count%rangesKept] = givenRange{got.generation, key, r.First, r.Last}
		g.count++
		if got.generation == g.newest && uint64(r.Last) >= g.above {
			g.above = uint64(r.Last) + 1
		}
	}
	return ""
}

// ranges sends it. A tag whose ids do not follow each other refuses the first request of a source; that is sent
// again at once with stepped=1, and so are all later ones.
func (c *Client) ranges(ctx context.Context, r *rangesCall) ([]Range, *answer, *Error) {
	stepped := r.stepped.Load()
	ranges, got, err := c.rangesAs(ctx, r, stepped)
	if err != nil && !stepped && err.Code == codeStepped {
		r.stepped.Store(true)
		return c.rangesAs(ctx, r, true)
	}
	return ranges, got, err
}

func (c *Client) rangesAs(ctx context.Context, r *rangesCall, stepped bool) ([]Range, *answer, *Error) {
	options := r.options
	if stepped {
		options += "&stepped=1"
	}
	rq := &request{method: "GET", path: idsPath(r.tag, r.count, options), key: r.key, isRange: true}
	if r.with != nil {
		r.with(rq)
	}
	var ranges []Range
	got, err := c.call(ctx, c.ids, rq, r.trail, r.goOn, func(got *answer, base string) *outcome {
		var ok bool
		ranges, ok = parseRanges(got.body, r.count, stepped)
		if got.status != http.StatusOK || !ok {
			return &outcome{err: badAnswer(got.status, "%s: status %d with %q is not %d ids", base,
				got.status, c.excerpt(got.body), r.count)}
		}
		if r.one && len(ranges) != 1 {
			return &outcome{err: badAnswer(got.status, "%s: %d ranges where one was asked for", base,
				len(ranges))}
		}
		if why := r.refuses(got, ranges); why != "" {
			c.stats.burnt.Add(int64(r.count))
			return &outcome{elsewhere: true, err: failure(CodeUnreachable, true, "%s", why)}
		}
		return nil
	})
	if got == nil { // what the last answer had was not taken
		return nil, nil, err
	}
	return ranges, got, nil
}
