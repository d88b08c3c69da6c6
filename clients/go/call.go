package leafd

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A call: one request that is sent to one node after another until it has an answer.
//
// It begins at the node that answered last. A node that cannot be reached, is slow or answers 502 to 504 is
// left for the next; after a round in which all failed the call waits. Any other refusal ends it.

const (
	roundFirst = 20 * time.Millisecond // the wait after the first round; it doubles
	roundMost  = time.Second
	// What a node has for an answer in the first round, or a quarter of Attempt, if that is longer; it doubles.
	attemptTime = time.Second
	waitLongest = 24 * time.Hour // a longer Retry-After is taken for this
	stoodStill  = 50 * time.Millisecond
	readsMost   = 500 * time.Millisecond
)

// leave has all calls begin at another node. Of many calls that saw the one fail only one moves on.
func (c *Client) leave(d *door, list *nodeList, from, to int) {
	if from == to {
		return
	}
	c.stats.failovers.Add(1)
	if d.leave(list.nodes[from], list.nodes[to]) {
		c.event(Event{Kind: "failover", From: list.nodes[from].String(), To: list.nodes[to].String()})
	}
}

type request struct {
	method string
	path   string // escaped, with its query
	key    string // Idempotency-Key; empty: none
	body   []byte

	isRange  bool      // the usual time is made of such
	progress *progress // for others to read; may be nil
	isSecond bool      // beside another one: a single round of its tier, without the node notAt
	notAt    *node

	uncounted bool // none that a call has sent
}

type answer struct {
	status     int
	body       []byte
	replayed   bool
	generation int64     // Leafd-Generation; 0: not said
	asked      time.Time // when the request was sent
}

// outcome is how one attempt failed.
type outcome struct {
	err       *Error
	elsewhere bool          // the next node may do it
	untrusted bool          // its certificate is not trusted; then elsewhere, too
	again     bool          // the same node will do it, after the wait
	wait      time.Duration // Retry-After
}

// trail is what a call met: the last failure of each node. Those who wait for a call of another
// goroutine read it, too.
type trail struct {
	mu       sync.Mutex
	failures map[string]*Error
	last     *Error
}

// add notes a failure. Of an attempt that the call's deadline cut short the one before says more.
func (t *trail) add(ctx context.Context, base string, err *Error) {
	end, has := ctx.Deadline()
	cut := ctx.Err() != nil || has && !time.Now().Before(end)
	t.mu.Lock()
	defer t.mu.Unlock()
	if cut && t.failures[base] != nil {
		return
	}
	if t.failures == nil {
		t.failures = map[string]*Error{}
	}
	t.failures[base] = err
	t.last = err
}

func (t *trail) clear() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failures, t.last = nil, nil
}

// end is the error of a call whose context is over.
func (t *trail) end(ctx context.Context, d *door) *Error {
	if errors.Is(ctx.Err(), context.Canceled) {
		e := failure(CodeCanceled, true, "the caller's context was cancelled")
		e.Cause = ctx.Err()
		return e
	}
	code, status := t.late()
	e := failure(code, true, "no node gave an answer by the deadline: %s", t.list(d))
	e.Status, e.Cause = status, ctx.Err()
	return e
}

// late is the code and the status of a call that ends now. A quota is the client's own.
func (t *trail) late() (string, int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last != nil && t.last.Status == http.StatusTooManyRequests {
		return t.last.Code, t.last.Status
	}
	return CodeUnreachable, 0
}

// list is the last failure of each node.
func (t *trail) list(d *door) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var parts []string
	for _, n := range d.list.Load().nodes {
		if err := t.failures[n.String()]; err != nil {
			code := ""
			if err.Status != 0 {
				code = err.Code + ": "
			}
			parts = append(parts, n.String()+": "+code+err.Message)
		}
	}
	if len(parts) == 0 {
		parts = append(parts, "no answer yet")
	}
	return strings.Join(parts, "; ")
}

// call sends the request until read has taken an answer. goOn is asked before each attempt but the first, with
// the number of rounds that are over: false ends the call with a nil answer; nil is always true. read may be
// nil.
func (c *Client) call(ctx context.Context, d *door, rq *request, t *trail, goOn func(int) bool,
	read func(*answer, string) *outcome) (*answer, *Error) {
	list := c.nodes(ctx, d, false)
	nodes, at, first := list.nodes, int(list.first.Load()), 0
	following := func(at int) int { return (at + 1) % len(nodes) }
	if rq.isSecond {
		following = func(at int) int { return beside(nodes, at) }
		for i := range nodes {
			if rq.notAt != nil && nodes[i] == *rq.notAt {
				at = i
			}
		}
		at = beside(nodes, at)
		first = len(nodes) - 1
		if others := inTier(nodes, at) - 1; others > 0 {
			first = len(nodes) - others
		}
	}
	attempts := 0
	for round := 0; ; round++ {
		var wait time.Duration
		untrusted := 0
		i := first
		for ; i < len(nodes); i++ {
			if ctx.Err() != nil {
				return nil, t.end(ctx, d)
			}
			why, all := c.foreignTo(nodes, at)
			if all {
				return nil, failure(CodeOtherCluster, false, "the nodes are of %s: ids of the two may be the "+
					"same. If that is meant, make a new client; else correct Endpoints", why)
			}
			if why != "" {
				t.add(ctx, nodes[at].String(), failure(CodeUnreachable, true, "it is of %s", why))
				c.leave(d, list, at, following(at))
				at = following(at)
				continue
			}
			if attempts++; attempts > 1 {
				if goOn != nil && !goOn(round) {
					return nil, nil
				}
				c.stats.retries.Add(1)
			}
			if rq.progress != nil {
				rq.progress.at.Store(&nodes[at])
				rq.progress.since.Store(int64(time.Since(c.made)))
			}
			got, out, from := c.attempts(ctx, d, list, at, rq, c.limits(ctx, round, len(nodes)-i, nodes, at))
			if rq.progress != nil {
				rq.progress.since.Store(0)
			}
			at = from
			if out == nil && rq.isRange {
				c.learn(time.Since(got.asked))
			}
			if out == nil && read != nil {
				out = read(got, nodes[at].String())
			}
			if out == nil {
				return got, nil
			}
			if !out.elsewhere && !out.again {
				if out.err.Status >= 300 && out.err.Code == CodeBadAnswer { // it is no leafd: the next call begins elsewhere
					c.leave(d, list, at, following(at))
				}
				return nil, out.err
			}
			t.add(ctx, nodes[at].String(), out.err)
			if out.again {
				wait = out.wait
				break
			}
			if out.wait > wait {
				wait = out.wait
			}
			if out.untrusted {
				untrusted++
			}
			next := following(at)
			c.leave(d, list, at, next)
			at = next
		}
		if rq.isSecond {
			return nil, nil
		}
		if untrusted == len(nodes) { // which no other round would change
			return nil, failure(CodeUntrusted, false,
				"no node has a certificate that is trusted here (ca_file): %s", t.list(d))
		}
		if !c.pause(ctx, round, wait) {
			return nil, t.end(ctx, d)
		}
		if (d.named || d.discover) && i == len(nodes) {
			list = c.nodes(ctx, d, true)
			nodes, at = list.nodes, int(list.first.Load())
		}
	}
}

// pause waits after a round; false: the context was over first.
func (c *Client) pause(ctx context.Context, round int, least time.Duration) bool {
	wait := roundMost
	if round < 6 && roundFirst<<round < roundMost {
		wait = roundFirst << round
	}
	wait = wait/2 + time.Duration(c.random.below(uint64(wait/2)+1))
	if wait < least {
		wait = least
	}
	select {
	case <-ctx.Done():
		return false
	case <-c.clock.After(wait):
		return ctx.Err() == nil
	}
}

// limits are the times of one attempt.
type limits struct {
	connect time.Duration // for a new connection, without TLS
	within  time.Duration // for all of it
}

// limits are longer in each round. A node that is silent leaves time for the others of the round: left are
// so many, it included.
// The nodes of a tier share the time until the next one is asked.
func (c *Client) limits(ctx context.Context, round, left int, nodes []node, at int) limits {
	doubled := func(first time.Duration) time.Duration {
		if round < 20 && first<<round < c.settings.Attempt {
			return first << round
		}
		return c.settings.Attempt
	}
	share := c.settings.Deadline
	if end, has := ctx.Deadline(); has {
		share = time.Until(end)
	}
	first := attemptTime
	if c.settings.Attempt/4 > first {
		first = c.settings.Attempt / 4
	}
	l := limits{connect: doubled(c.settings.Connect), within: doubled(first)}
	if share /= time.Duration(left); share < l.within {
		l.within = share
	}
	if round == 0 && nodes[len(nodes)-1].tier > nodes[at].tier {
		if share = first * 3 / 2 / time.Duration(inTier(nodes, at)); share < l.within {
			l.within = share
		}
	}
	return l
}

// isOver is whether a context that has ended does end what waits for news. Where its deadline is seen late, the
// program stood still: there is as long again, half a second at most, to read what had come.
func isOver(ctx context.Context, news <-chan struct{}) bool {
	end, has := ctx.Deadline()
	late := time.Since(end)
	if !has || ctx.Err() != context.DeadlineExceeded || late < stoodStill {
		return true
	}
	if late > readsMost {
		late = readsMost
	}
	select {
	case <-news:
		return false
	case <-time.After(late):
		return true
	}
}

// lasting is a context without its end.
type lasting struct{ context.Context }

func (lasting) Deadline() (end time.Time, has bool) { return }
func (lasting) Done() <-chan struct{}               { return nil }
func (lasting) Err() error                          { return nil }

// limited is a context for so long, or until ctx is over. It ends as isOver has it, by being cancelled.
func limited(ctx context.Context, limit time.Duration) (context.Context, time.Time, context.CancelFunc) {
	outer, cancelOuter := context.WithTimeout(ctx, limit)
	inner, cancel := context.WithCancel(lasting{ctx})
	end, _ := outer.Deadline()
	go func() {
		defer cancelOuter()
		select {
		case <-outer.Done():
			isOver(outer, inner.Done())
			cancel()
		case <-inner.Done():
		}
	}()
	return inner, end, cancel
}

// attempt sends the request to one node, once.
func (c *Client) attempt(ctx context.Context, n node, rq *request, l limits) (*answer, *outcome) {
	if isService(n.base) {
		return nil, &outcome{err: failure(CodeUnreachable, true, "no SRV record of this name was found"), elsewhere: true}
	}
	ctx, end, cancel := limited(ctx, l.within)
	defer cancel()
	h, err := http.NewRequestWithContext(ctx, rq.method, n.base+rq.path, bytes.NewReader(rq.body))
	if err != nil {
		return nil, &outcome{err: badSetting("%s", shown(err.Error(), messageMost))}
	}
	h = h.WithContext(context.WithValue(ctx, targetKey{}, target{l.connect, n.ip, h.URL.Hostname()}))
	h.Host, h.URL.Host = h.URL.Host, n.asHost(h.URL)
	if rq.body != nil {
		h.Header.Set("Content-Type", "application/json")
	}
	if rq.key != "" {
		h.Header.Set("Idempotency-Key", rq.key)
	} else {
		// Not sent: it allows the transport to ask again at once when the node closed a connection that
		// was idle. All that this library asks may be asked twice.
		h.Header["Idempotency-Key"] = []string{}
	}
	if bearer := c.token.current(); bearer != "" {
		h.Header.Set("Authorization", "Bearer "+bearer)
	}
	h.Header.Set("User-Agent", "leafd-go/"+Version)
	if !rq.uncounted {
		c.stats.requests.Add(1)
	}
	asked := time.Now()
	response, err := c.trip.RoundTrip(h)
	if err != nil {
		return nil, c.broken(end, err, l)
	}
	defer response.Body.Close()
	coded := len(response.TransferEncoding) > 0
	switch { // the end of such a body is not to be waited for, or could be that of the connection
	case response.StatusCode == http.StatusSwitchingProtocols:
		return nil, c.broken(end, errUpgrade, l)
	case response.ContentLength < 0 && !coded:
		return nil, c.broken(end, errNoLength, l)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, answerMost+1))
	if err != nil {
		return nil, c.broken(end, err, l)
	}
	got := &answer{status: response.StatusCode, body: body, asked: asked}
	if len(body) > answerMost {
		return nil, &outcome{err: badAnswer(got.status, "an answer of more than %d bytes", answerMost)}
	}
	if got.status >= 200 && got.status < 300 {
		got.replayed = response.Header.Get("Idempotency-Replayed") == "true"
		if text, said := response.Header["Leafd-Generation"]; said {
			g, rest, ok := parseNumber([]byte(text[0]))
			if !ok || len(rest) > 0 {
				return nil, &outcome{err: badAnswer(got.status, "Leafd-Generation: %q is no number", text[0])}
			}
			got.generation = g
		}
		return got, nil
	}
	return nil, c.refused(got, response.Header.Get("Retry-After"))
}

var (
	errUpgrade  = errors.New("a protocol that nobody asked for")
	errNoLength = errors.New("an answer that does not say its length")
)

// broken is an attempt that brought no answer.
func (c *Client) broken(end time.Time, err error, l limits) *outcome {
	text := err.Error()
	if errors.Is(err, context.Canceled) && !time.Now().Before(end) {
		text = fmt.Sprintf("no answer within %d ms", l.within.Milliseconds())
	}
	e := failure(CodeUnreachable, true, "%s", c.clean(text))
	e.Cause = err
	return &outcome{err: e, elsewhere: true, untrusted: isUntrusted(err)}
}

// isUntrusted: the node's certificate is not signed by an authority, has ended or is of another name.
func isUntrusted(err error) bool {
	var authority x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	return errors.As(err, &authority) || errors.As(err, &name) || errors.As(err, &invalid)
}

// clean makes a text fit for a message: no token, one line, not too long.
func (c *Client) clean(text string) string {
	if bearer := c.token.current(); bearer != "" {
		text = strings.ReplaceAll(text, bearer, "(token)")
	}
	return shown(text, messageMost)
}

// excerpt is the beginning of an answer that is none of leafd.
func (c *Client) excerpt(body []byte) string { return shown(c.clean(string(body)), 100) }

// refused is an answer that is an error.
func (c *Client) refused(got *answer, retryAfter string) *outcome {
	wait := time.Duration(0)
	if retryAfter != "" && strings.Trim(retryAfter, "0123456789") == "" {
		wait = waitLongest
		if seconds, err := strconv.ParseUint(retryAfter, 10, 64); err == nil && seconds < uint64(waitLongest/time.Second) {
			wait = time.Duration(seconds) * time.Second
		}
	}
	code, message, ok := parseRefusal(got.body)
	away := got.status >= http.StatusBadGateway && got.status <= http.StatusGatewayTimeout
	if !ok && !away {
		return &outcome{err: badAnswer(got.status, "status %d with %q", got.status, c.excerpt(got.body))}
	}
	if !ok { // of what stands before the nodes
		code, message = "unavailable", "status "+strconv.Itoa(got.status)
	}
	if got.status == http.StatusBadRequest && code == "bad_request" && strings.Contains(message, shaped) {
		message += "; use texts() of the client"
	}
	e := &Error{Code: code, Status: got.status, Message: c.clean(message)}
	out := &outcome{err: e, wait: wait}
	switch {
	case away:
		e.Retryable, out.elsewhere = true, true
	case got.status == http.StatusTooManyRequests && code == "quota":
		e.Retryable, out.again = true, true
	case got.status == http.StatusRequestTimeout || got.status == http.StatusLocked || code == "no_worker_id" || code == CodeFenced:
		e.Retryable = true
	}
	return out
}

// single is the context of a call of a source that fetches nothing ahead: it ends by the call's deadline,
// and with the client. Such a call always waits for a request.
func (c *Client) single(ctx context.Context) (context.Context, context.CancelFunc) {
	c.stats.waits.Add(1)
	ctx, cancel := c.deadline(ctx)
	ctx, stop := c.until(ctx)
	return ctx, func() { stop(); cancel() }
}

// endedBy is the error of such a call, for the caller.
func (c *Client) endedBy(err *Error) error {
	if c.isClosed() {
		err = errClosed().keyed(err.Key)
	}
	return c.counted(err)
}

// counted counts an error on its way to the caller; a nil one stays nil.
func (c *Client) counted(e *Error) error {
	if e == nil {
		return nil
	}
	c.stats.errors.Add(1)
	return e
}

func idsPath(tag string, count int, options string) string {
	return "/api/segment/get/" + url.PathEscape(tag) + "?count=" + strconv.Itoa(count) +
		"&format=range" + options
}

// shaped is in the refusal of ranges of a tag whose ids are texts.
const shaped = " has a shape, "

// readTextID takes an answer that must be the number of a text.
func (c *Client) readTextID(into *int64) func(*answer, string) *outcome {
	return func(got *answer, base string) *outcome {
		id, ok := parseTextID(got.body)
		if got.status != http.StatusOK || !ok {
			return &outcome{err: badAnswer(got.status, "%s: status %d with %q is no id", base, got.status,
				c.excerpt(got.body))}
		}
		*into = id
		return nil
	}
}
