package leafd

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Source is what sources of numbers have in common: Segment, Strict and Snowflake.
type Source interface {
	Next(ctx context.Context) (int64, error)
}

// Fake is a cluster in memory, for a program's own tests: its clients are real ones, whose requests it answers.
// Every tag is there, its ids begin at 1 and follow each other; worker ids are granted as leafd does it.
//
// The happy path: fake := NewFake(), client, err := fake.Open(Settings{}), then SetNext and Fail as the test
// likes. Any goroutine may use it.
type Fake struct {
	mu         sync.Mutex
	next       map[string]int64  // by tag
	keys       map[string]string // answers by tag and Idempotency-Key
	generation int64
	failing    int // requests that are still to fail, with this status and code
	status     int
	code       string
	epoch      int64 // of the last worker id; each is granted once
	clients    []*Client
}

// NewFake makes a cluster.
func NewFake() *Fake {
	return &Fake{next: map[string]int64{}, keys: map[string]string{}, generation: 1}
}

// Open makes a client of it; Endpoints need not be given.
func (f *Fake) Open(settings Settings) (*Client, error) {
	if len(settings.Endpoints) == 0 {
		settings.Endpoints = []string{"http://127.0.0.1"}
	}
	c, err := Open(settings)
	if err != nil {
		return nil, err
	}
	c.trip = f
	f.mu.Lock()
	defer f.mu.Unlock()
	f.clients = append(f.clients, c)
	return c, nil
}

// SetNext says which id of the tag comes next. What segment sources hold of it is dropped.
func (f *Fake) SetNext(tag string, id int64) {
	f.mu.Lock()
	f.next[tag] = id
	f.generation++
	generation, clients := f.generation, append([]*Client(nil), f.clients...)
	f.mu.Unlock()
	for _, c := range clients {
		c.mu.Lock()
		for s := range c.segments {
			if s.tag == tag {
				s.mu.Lock()
				s.drop(func(*piece) bool { return true })
				s.given.newest, s.highest = generation, -1
				s.mu.Unlock()
			}
		}
		c.mu.Unlock()
	}
}

// Fail has so many requests from now on answered with this error, as (503, "no_leader") or (404, "unknown_tag").
// Clients ask again after some. Status 0 breaks the connection; 0 times end what was set before.
func (f *Fake) Fail(times, status int, code string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failing, f.status, f.code = times, status, code
}

// RoundTrip answers a request. It is how clients ask.
func (f *Fake) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
		r.Body.Close()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	header := http.Header{"Leafd-Generation": {strconv.FormatInt(f.generation, 10)}}
	status, text := 0, ""
	switch path := r.URL.EscapedPath(); {
	case path == "/api/nodes": // clients that look for nodes have this one
		status, text = refusal(http.StatusNotFound, "not_found")
	case f.failing > 0:
		f.failing--
		if f.status == 0 {
			return nil, fmt.Errorf("the connection broke")
		}
		status, text = refusal(f.status, f.code)
	case strings.HasPrefix(path, "/api/segment/get/"):
		status, text = f.ids(path[len("/api/segment/get/"):], r.URL.Query(), r.Header.Get("Idempotency-Key"), header)
	case strings.HasPrefix(path, "/api/segment/decode/"):
		status, text = decoded(r.URL.Query().Get("text"))
	case strings.HasPrefix(path, "/api/workers"):
		status, text = f.worker(r.Method, path, body)
	default:
		status, text = refusal(http.StatusNotFound, "unknown_path")
	}
	return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(strings.NewReader(text)),
		Request: r}, nil
}

func refusal(status int, code string) (int, string) {
	return status, fmt.Sprintf(`{"status":%d,"code":%q,"message":"as the test has it"}`, status, code)
}

func (f *Fake) ids(path string, query url.Values, key string, header http.Header) (int, string) {
	tag, err := url.PathUnescape(path)
	count, _ := strconv.ParseInt(query.Get("count"), 10, 64)
	if err != nil || count < 1 || count > countMost {
		return refusal(http.StatusBadRequest, "bad_request")
	}
	key = tag + "\n" + key
	if old, there := f.keys[key]; there {
		header.Set("Idempotency-Replayed", "true")
		return http.StatusOK, old
	}
	first, set := f.next[tag]
	if !set {
		first = 1
	}
	f.next[tag] = first + count
	text := fmt.Sprintf("%d %d\n", first, first+count-1)
	if query.Get("format") == "" {
		var lines strings.Builder
		for id := first; id < first+count; id++ {
			fmt.Fprintln(&lines, id)
		}
		text = lines.String()
	}
	if !strings.HasSuffix(key, "\n") {
		f.keys[key] = text
	}
	return http.StatusOK, text
}

func decoded(text string) (int, string) {
	if id, rest, ok := parseNumber([]byte(text)); ok && len(rest) == 0 {
		return http.StatusOK, fmt.Sprintf(`{"id":"%d","granted":true}`, id)
	}
	return refusal(http.StatusBadRequest, "bad_id")
}

// worker grants each worker id once, so that no two clients make the same ids.
func (f *Fake) worker(method, path string, body []byte) (int, string) {
	var asked workerBody
	if method == "DELETE" {
		return http.StatusNoContent, ""
	}
	if json.Unmarshal(body, &asked) != nil {
		return refusal(http.StatusBadRequest, "bad_json")
	}
	status := http.StatusOK
	worker, err := strconv.Atoi(strings.TrimPrefix(path, "/api/workers/"))
	if err != nil { // it acquires one
		if f.epoch == 1024 {
			return refusal(http.StatusServiceUnavailable, "no_worker_id")
		}
		worker = int(f.epoch)
		f.epoch++
		asked.Epoch, status = f.epoch, http.StatusCreated
	}
	return status, fmt.Sprintf(`{"worker_id":%d,"epoch":%d,"from_ms":0,"until_ms":%d,"layout":{"epoch_ms":1288834974657,`+
		`"time_bits":41,"worker_bits":10,"sequence_bits":12}}`, worker, asked.Epoch,
		time.Now().UnixMilli()+asked.WindowMs)
}
