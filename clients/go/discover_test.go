package leafd

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestAddressesOfListings(t *testing.T) {
	for text, good := range map[string]bool{"10.0.0.1:80": true, "[::1]:8080": true, "node-1.example:65535": true,
		strings.Repeat("h", addressMost-3) + ":80": true, strings.Repeat("h", addressMost-2) + ":80": false, "": false,
		"a": false, ":80": false, "a:0": false, "a:65536": false, "a:+1": false, "a:x": false, "::1:80": false,
		"u@a:80": false, "a:80/x": false, "a b:80": false, "a:80\r\nX: y": false, "ä:80": false, "a%41:80": false} {
		if isAddress(text) != good {
			t.Errorf("%q: %v", text, !good)
		}
	}
}

func TestTiersOfAListing(t *testing.T) {
	text := `{"self":1,"nodes":[
		{"id":1,"http_address":"a:1","zone":"x","weight":7,"state":"ready","snowflake":false},
		{"id":2,"http_address":"a:2","zone":"y","weight":100,"state":"ready","snowflake":true},
		{"id":3,"http_address":"a:3","zone":null,"weight":1000,"state":"ready","snowflake":true,"new":[]},
		{"id":4,"http_address":"a:4","zone":"x","weight":0,"state":"ready","snowflake":true},
		{"id":5,"http_address":"a:5","zone":"x","weight":1001,"state":"ready","snowflake":true},
		{"id":6,"http_address":"a:6","zone":"x","weight":1,"state":"drained","snowflake":true}]}`
	for _, one := range []struct {
		zone      string
		snowflake bool
		want      string
	}{{"x", false, "1:1 2:2 3:2 4:3 6:3"}, {"x", true, "1:3 2:2 3:2 4:3 6:3"}, {"", false, "1:1 2:1 3:1 4:3 6:3"}} {
		l, ok := parseListing([]byte(text), one.zone, one.snowflake)
		var got []string
		for _, r := range l.rows {
			got = append(got, fmt.Sprintf("%d:%d", r.id, r.tier))
		}
		if !ok || strings.Join(got, " ") != one.want {
			t.Errorf("%+v: %v %v", one, ok, got)
		}
	}
}

// However many are listed, so many are kept, the better ones first.
func TestADrawHasABound(t *testing.T) {
	l := listing{self: 1}
	for i := int64(1); i <= 100; i++ {
		l.rows = append(l.rows, row{id: i, address: fmt.Sprintf("a:%d", i), tier: 1 + int(i%3), weight: 1})
	}
	nodes := l.draw("https", newRandom())
	seen := map[int64]bool{}
	for i, n := range nodes {
		if seen[n.id] || i > 0 && n.tier < nodes[i-1].tier || !strings.HasPrefix(n.base, "https://a:") {
			t.Errorf("%d: %+v", i, n)
		}
		seen[n.id] = true
	}
	if len(nodes) != listedMost || nodes[32].tier != 1 || nodes[33].tier != 2 {
		t.Errorf("%d nodes", len(nodes))
	}
}

// Both parts of a list have room, and an endpoint that is listed is there once.
func TestTheListOfADoorHasABound(t *testing.T) {
	var urls []string
	for i := 0; i < endpointsMost; i++ {
		urls = append(urls, fmt.Sprintf("http://127.0.0.1:%d", 1000+i))
	}
	d := newDoor(urls, newRandom())
	d.set([]node{{base: "http://127.0.0.1:1000", tier: 1, id: 1}, {base: "http://127.0.0.1:9", tier: 2, id: 2}}, true, nil,
		newRandom())
	list := d.list.Load()
	if len(list.nodes) != nodesMost || len(d.hidden) != 1 || list.nodes[0].id != 1 || list.nodes[1].id != 2 {
		t.Errorf("%d nodes, %d hidden: %+v", len(list.nodes), len(d.hidden), list.nodes[:3])
	}
}

// The one that was found the longest ago makes room for a new one, and no other.
func TestNodesOfOtherClustersHaveABound(t *testing.T) {
	c := openFor(t, Settings{}, "http://127.0.0.1:1")
	var nodes []node
	for i := 0; i <= nodesMost; i++ {
		nodes = append(nodes, node{base: fmt.Sprintf("http://127.0.0.1:%d", 1000+i)})
	}
	c.isForeign(nodes[0], "own", true)
	for _, n := range nodes[:nodesMost] {
		c.isForeign(n, "another", true)
	}
	c.isForeign(nodes[1], "a third", true)
	if why, all := c.foreignTo(nodes[:nodesMost], 1); !all || !strings.Contains(why, "a third") {
		t.Errorf("%v %q", all, why)
	}
	c.isForeign(nodes[nodesMost], "another", true)
	if _, all := c.foreignTo(nodes[1:], 0); !all {
		t.Error("more than the oldest one are forgotten")
	}
	if why, _ := c.foreignTo(nodes, 0); why != "" || len(c.others) != nodesMost {
		t.Errorf("%d nodes, and of the first %q", len(c.others), why)
	}
	c.isForeign(nodes[2], "own", true)
	if why, _ := c.foreignTo(nodes, 2); why != "" || len(c.others) != nodesMost-1 {
		t.Errorf("%d nodes, and of one that is back %q", len(c.others), why)
	}
}

func TestAPausedTagIsRetryable(t *testing.T) {
	n := newFake(t)
	c := openFor(t, Settings{}, n.URL)
	s := segmentOf(t, c, "t")
	if _, err := s.Next(soon(t, 30*time.Second)); err != nil {
		t.Fatal(err)
	}
	n.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusLocked)
		io.WriteString(w, `{"code":"paused","message":"for the audit"}`)
		return true
	})
	_, err := s.NextRange(soon(t, 30*time.Second), 5)
	wantCode(t, err, "paused", http.StatusLocked)
	if e, is := err.(*Error); !is || !e.Retryable || e.Message != "for the audit" {
		t.Errorf("%+v", err)
	}
	_, err = s.Next(soon(t, 30*time.Second))
	wantCode(t, err, "paused", http.StatusLocked)
	if stats := c.Stats(); stats.IDsSegment+stats.Burnt != 100 {
		t.Errorf("%+v", stats)
	}
}

func FuzzListing(f *testing.F) {
	f.Add([]byte(`{"self":1,"nodes":[{"id":1,"http_address":"a:1","zone":"x","weight":7,"state":"ready"}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		l, ok := parseListing(text, "x", true)
		if ok && (l.self < 1 || len(l.rows) == 0) {
			t.Fatalf("%q gives %+v", text, l)
		}
		for _, n := range l.draw("http", newRandom()) {
			if n.place() == n.base || n.id < 1 || n.tier < 1 || n.tier > lastTier {
				t.Fatalf("%q gives %+v", text, n)
			}
		}
	})
}
