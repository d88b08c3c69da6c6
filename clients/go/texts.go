package leafd

import (
	"context"
	"hash/fnv"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
)

// Texts is a source of ids as the cluster writes them: in the shape of the tag, if it has one. A call is
// one request with an Idempotency-Key; nothing is fetched ahead. A tag of mode trend takes no key: the
// first call finds that out, and the source keeps it.
type Texts struct {
	client  *Client
	tag     string
	keyless atomic.Bool
	closed  atomic.Bool

	mu    sync.Mutex
	given given // of each answer the first text
}

// TextIDs is the answer of Texts.Repeatable.
type TextIDs struct {
	Texts    []string
	Replayed bool // the cluster had answered this key before
}

// Texts makes a source of a tag's ids as texts.
func (c *Client) Texts(tag string) (*Texts, error) {
	if err := checkName("tag", tag); err != nil {
		return nil, err
	}
	if c.isClosed() {
		return nil, errClosed()
	}
	return &Texts{client: c, tag: tag}, nil
}

// Next gives the next id.
func (s *Texts) Next(ctx context.Context) (string, error) {
	texts, err := s.NextN(ctx, 1)
	if err != nil {
		return "", err
	}
	return texts[0], nil
}

// NextN gives the next 1 to 1000 ids, by one request.
func (s *Texts) NextN(ctx context.Context, count int) ([]string, error) {
	ids, err := s.take(ctx, count, "")
	return ids.Texts, err
}

// Repeatable gives 1 to 1000 ids for a key of the caller's, as Strict.Repeatable does. A tag of mode trend
// takes none: bad_key. With an empty key the call has one of its own, as Next has.
func (s *Texts) Repeatable(ctx context.Context, count int, key string) (TextIDs, error) {
	if key != "" {
		if err := checkKey(key); err != nil {
			return TextIDs{}, err
		}
	}
	return s.take(ctx, count, key)
}

// Decode gives the number of a text of this tag, whether or not it was granted to anyone; it asks the
// AdminEndpoints. What is no text of the tag's shape, or has a wrong check, is a bad_id.
func (s *Texts) Decode(ctx context.Context, text string) (int64, error) {
	if !isText([]byte(text)) {
		return 0, badSetting("text=%q must be 1 to %d visible ASCII characters", shown(text, 200), textMost)
	}
	c := s.client
	if s.closed.Load() {
		return 0, c.counted(errClosed())
	}
	ctx, end := c.single(ctx)
	defer end()
	var id int64
	path := "/api/segment/decode/" + url.PathEscape(s.tag) + "?text=" + url.QueryEscape(text)
	_, err := c.call(ctx, c.admin, &request{method: "GET", path: path}, &trail{}, nil, c.readTextID(&id))
	if err != nil {
		return 0, c.endedBy(err)
	}
	return id, nil
}

// Close ends this source alone: its calls are refused from then on.
func (s *Texts) Close() { s.closed.Store(true) }

// take asks by the caller's key, or, without one, by one of the call's own if the tag takes keys.
func (s *Texts) take(ctx context.Context, count int, key string) (TextIDs, error) {
	if err := checkTextCount(count); err != nil {
		return TextIDs{}, err
	}
	c := s.client
	if s.closed.Load() {
		return TextIDs{}, c.counted(errClosed())
	}
	ctx, end := c.single(ctx)
	defer end()
	own := key == ""
	if own && !s.keyless.Load() {
		key = NewKey()
	}
	ids, err := s.ask(ctx, count, key)
	if err != nil && own && key != "" && err.Code == "bad_key" {
		s.keyless.Store(true)
		ids, err = s.ask(ctx, count, "")
	}
	if err != nil {
		return TextIDs{}, c.endedBy(err)
	}
	c.stats.strict.Add(int64(count))
	return ids, nil
}

func (s *Texts) ask(ctx context.Context, count int, key string) (TextIDs, *Error) {
	c := s.client
	var ids TextIDs
	path := "/api/segment/get/" + url.PathEscape(s.tag) + "?count=" + strconv.Itoa(count)
	got, err := c.call(ctx, c.ids, &request{method: "GET", path: path, key: key}, &trail{}, nil,
		func(got *answer, base string) *outcome {
			texts, ok := parseTexts(got.body, count)
			if got.status != http.StatusOK || !ok {
				return &outcome{err: badAnswer(got.status, "%s: status %d with %q is not %d ids", base,
					got.status, c.excerpt(got.body), count)}
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			if why := s.given.refuses(got, []Range{rangeOf(texts[0])}, key); why != "" {
				return &outcome{elsewhere: true, err: failure(CodeUnreachable, true, "%s: %q", why, texts[0])}
			}
			ids.Texts = texts
			return nil
		})
	if err != nil {
		return TextIDs{}, err.keyed(key)
	}
	ids.Replayed = got.replayed
	return ids, nil
}

// rangeOf is what stands for a text: two have the same only once in 2^63.
func rangeOf(text string) Range {
	hash := fnv.New64a()
	hash.Write([]byte(text))
	id := int64(hash.Sum64() >> 1)
	return Range{First: id, Last: id, Increment: 1}
}
