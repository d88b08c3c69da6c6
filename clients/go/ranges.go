package leafd

import (
	"context"
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
	goOn    func(int) bool     // as of Client.call
	takes   func(*answer) bool // false: another node is to be asked; nil: all are taken
	one     bool               // the answer must be one range
	with    func(*request)     // sets more of the request; may be nil
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
		if r.takes != nil && !r.takes(got) {
			c.stats.burnt.Add(int64(r.count))
			return &outcome{elsewhere: true, err: failure(CodeUnreachable, true,
				"its answer is of generation %d, older than one before", got.generation)}
		}
		return nil
	})
	if got == nil { // what the last answer had was not taken
		return nil, nil, err
	}
	return ranges, got, nil
}
