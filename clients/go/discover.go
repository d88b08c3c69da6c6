package leafd

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sort"
	"strconv"
	"strings"
	"time"
)

// Nodes that a client finds by asking one that it knows (docs/clients.md, Zones).
//
// The happy path: a goroutine asks GET /api/nodes; the nodes of the answer become the door's, by tiers, each once
// it has shown to be of the same cluster. Failure modes: nodes that answer 404 (older servers), whose endpoints alone
// are asked then for a minute; an answer that is no listing, or none, after which what was known stays; a node of
// another cluster than the first listing's, which gets no other request.

const (
	listedMost    = 48 // nodes of a listing that are kept; others of nodesMost are for endpoints
	lastTier      = 3  // that of endpoints; the best is 1
	discoverAgain = 5 * time.Second
	olderAgain    = time.Minute
	listingTime   = time.Second     // for one node's answer
	listingsTime  = 5 * time.Second // for all that are asked for a listing, and then for those of it
	weightMost    = 1000
	addressMost   = 255
	uidMost       = 64
)

// row is a node as another one lists it.
type row struct {
	id      int64
	address string
	tier    int
	weight  uint64
}

// listing is what a node says of itself and others.
type listing struct {
	self int64
	uid  string // of the cluster; "": it has none
	rows []row
}

// otherNode is one whose last listing was of another cluster than the client's.
type otherNode struct{ place, uid string }

// parseListing leaves out rows that cannot be; ok is false where none is left.
func parseListing(body []byte, zone string, forSnowflake bool) (l listing, ok bool) {
	var read struct {
		Self  json.RawMessage   `json:"self"`
		UID   json.RawMessage   `json:"uid"`
		Nodes []json.RawMessage `json:"nodes"`
	}
	if json.Unmarshal(body, &read) != nil || json.Unmarshal(read.Self, &l.self) != nil || l.self < 1 {
		return l, false
	}
	if json.Unmarshal(read.UID, &l.uid) != nil {
		l.uid = ""
	}
	for _, text := range read.Nodes {
		var one struct {
			ID        int64   `json:"id"`
			Address   string  `json:"http_address"`
			Zone      *string `json:"zone"`
			Weight    *int64  `json:"weight"`
			State     string  `json:"state"`
			Snowflake *bool   `json:"snowflake"`
		}
		if json.Unmarshal(text, &one) != nil || one.ID < 1 || !isAddress(one.Address) || one.State == "" ||
			!within(one.Weight, 0, weightMost) {
			continue
		}
		r := row{id: one.ID, address: one.Address, tier: 2, weight: uint64(*one.Weight)}
		switch {
		case one.State != "ready" || r.weight == 0 || forSnowflake && one.Snowflake != nil && !*one.Snowflake:
			r.tier = lastTier
		case zone == "" || one.Zone != nil && *one.Zone == zone:
			r.tier = 1
		}
		if r.weight == 0 {
			r.weight = 1
		}
		l.rows = append(l.rows, r)
	}
	return l, len(l.rows) > 0
}

// isAddress: host:port, and nothing that means more in a URL.
func isAddress(text string) bool {
	host, port, err := net.SplitHostPort(text)
	if err != nil || host == "" || len(text) > addressMost || strings.ContainsAny(text, "/?#@\\\"'<>{}|^`,%") {
		return false
	}
	for _, c := range []byte(text) {
		if c <= ' ' || c > '~' {
			return false
		}
	}
	number, err := strconv.ParseUint(port, 10, 16)
	return err == nil && number > 0
}

// isSame: of that number, and of the same cluster, since both know a third node by the same address.
func (l listing) isSame(other listing, id int64) bool {
	for _, mine := range l.rows {
		for _, its := range other.rows {
			if other.self == id && mine.id != id && mine.id == its.id && mine.address == its.address {
				return true
			}
		}
	}
	return false
}

// draw gives the nodes by tier, within a tier by chance and weight.
func (l listing) draw(scheme string, r *random) (nodes []node) {
	rows := append([]row(nil), l.rows...)
	for tier := 1; tier <= lastTier; tier++ {
		for len(nodes) < listedMost {
			var total uint64
			for _, one := range rows {
				if one.tier == tier {
					total += one.weight
				}
			}
			if total == 0 {
				break
			}
			at := r.below(total)
			for i := range rows {
				if rows[i].tier != tier || at >= rows[i].weight {
					if rows[i].tier == tier {
						at -= rows[i].weight
					}
					continue
				}
				nodes = append(nodes, node{base: scheme + "://" + rows[i].address, tier: tier, id: rows[i].id})
				rows[i].weight = 0
				break
			}
		}
	}
	return nodes
}

// discover has the nodes found if it is time, or failed: all just did. It waits for them where none were asked yet,
// and if failed.
func (c *Client) discover(ctx context.Context, d *door, failed bool) {
	if !d.discover {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	first := !d.ended
	if !d.asking && (d.asked.IsZero() || time.Since(d.asked) >= d.again || failed && d.again == discoverAgain) {
		d.asked = time.Now()
		d.asking = c.background(func(ctx context.Context) { c.ask(ctx, d) })
	}
	if !first && !failed {
		return
	}
	wait := c.settings.Connect
	if first {
		wait = c.settings.Deadline / 4
		if end, has := ctx.Deadline(); has {
			wait = time.Until(end) / 4
		}
	}
	within, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	before := d.list.Load()
	for d.asking && within.Err() == nil && c.context.Err() == nil &&
		(first && !d.drawn || !first && d.list.Load() == before) {
		changed := d.changed
		d.mu.Unlock()
		select {
		case <-changed:
		case <-within.Done():
		case <-c.context.Done():
		}
		d.mu.Lock()
	}
}

// news wakes those who wait for nodes. Under the lock.
func (d *door) news() {
	close(d.changed)
	d.changed = make(chan struct{})
}

// ask is the goroutine: it asks one node after another for a listing, from the one that calls go to.
func (c *Client) ask(ctx context.Context, d *door) {
	known := c.addresses(ctx, d, false)
	of, cancel := context.WithTimeout(ctx, listingsTime)
	defer cancel()
	nodes, first := known.nodes, int(known.first.Load())
	older, found := false, false
	for i := 0; i < len(nodes) && of.Err() == nil && !found; i++ {
		n := nodes[(first+i)%len(nodes)]
		var l listing
		var out *outcome
		if l, found, out = c.listingOf(of, d, n, true); found {
			c.meet(ctx, d, known, n, l)
		}
		older = older || out != nil && out.err.Status == http.StatusNotFound
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.again = discoverAgain
	if older && !found {
		d.again = olderAgain
		if d.drawn {
			d.set(nil, true, nil, c.random)
			d.drawn = false
		}
	}
	d.asking, d.ended = false, true
	d.news()
}

// listingOf asks one node. learns: which cluster the client's is, if that is not known yet.
func (c *Client) listingOf(ctx context.Context, d *door, n node, learns bool) (l listing, ok bool, out *outcome) {
	within := limits{connect: c.settings.Connect, within: listingTime}
	got, out := c.attempt(ctx, n, &request{method: "GET", path: "/api/nodes", uncounted: true}, within)
	if out == nil && got.status == http.StatusOK {
		l, ok = parseListing(got.body, c.settings.Zone, d.forSnowflake)
		ok = ok && !c.isForeign(n, l.uid, learns)
	}
	return l, ok, out
}

// isForeign: the listing is of another cluster than the client's, which is that of the first one with a uid.
func (c *Client) isForeign(n node, uid string, learns bool) bool {
	c.mu.Lock()
	if learns && c.cluster == "" {
		c.cluster = uid
	}
	foreign := uid != "" && c.cluster != "" && uid != c.cluster
	tell := foreign && !c.foreign
	c.foreign = c.foreign || foreign
	if at := c.otherAt(n); at < len(c.others) {
		c.others = append(c.others[:at], c.others[at+1:]...)
	}
	if foreign && len(c.others) == nodesMost {
		c.others = c.others[1:]
	}
	if foreign {
		c.others = append(c.others, otherNode{n.place(), shown(uid, uidMost)})
	}
	c.mu.Unlock()
	if tell {
		c.event(Event{Kind: "other_cluster", From: n.String()})
	}
	return foreign
}

// otherAt is where others has the node; their number: it has not. Under the lock.
func (c *Client) otherAt(n node) int {
	place := n.place()
	for i := range c.others {
		if c.others[i].place == place {
			return i
		}
	}
	return len(c.others)
}

// foreignTo: of which cluster the node at is, if its last listing was of another one than the client's; all: so are
// all others.
func (c *Client) foreignTo(nodes []node, at int) (why string, all bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.others) == 0 {
		return "", false
	}
	all = true
	for _, n := range nodes {
		all = all && c.otherAt(n) < len(c.others)
	}
	if i := c.otherAt(nodes[at]); i < len(c.others) {
		why = fmt.Sprintf("cluster %s, and this client's is %s", c.others[i].uid, c.cluster)
	}
	return why, all
}

// meet asks the nodes of a listing, from the node asked, that are not known yet; and, where calls go to a worse
// tier, those of better ones until one answers, to which they go then.
func (c *Client) meet(ctx context.Context, d *door, known *nodeList, asked node, l listing) {
	scheme, _, _ := strings.Cut(asked.base, "://")
	nodes := l.draw(scheme, c.random)
	current := known.nodes[known.first.Load()]
	met := make([]bool, len(nodes))
	nowTier := lastTier + 1
	d.mu.Lock()
	drawn := d.drawn
	d.mu.Unlock()
	for i, n := range nodes {
		for _, old := range known.nodes {
			if old.place() == n.place() && (old.id == n.id || old == asked && n.id == l.self) {
				met[i] = true
			}
		}
		if met[i] && drawn && current.place() == n.place() {
			nowTier = n.tier
		}
	}
	of, cancel := context.WithTimeout(ctx, listingsTime)
	defer cancel()
	var chosen *node
	for i := range nodes {
		n := &nodes[i]
		better := chosen == nil && n.tier < nowTier
		fresh := met[i] && n.id == l.self
		if !fresh && (better || !met[i]) && n.tier < lastTier && of.Err() == nil {
			if other, ok, _ := c.listingOf(of, d, *n, false); ok && l.isSame(other, n.id) {
				fresh, met[i] = true, true
			}
		}
		if better && fresh {
			chosen = n
		}
		if i+1 == len(nodes) || nodes[i+1].tier != n.tier {
			c.publish(d, nodes, met, chosen)
			if chosen != nil { // calls that leave it from now on are not brought back
				nowTier, chosen = 0, nil
			}
		}
	}
}

// publish makes the nodes that were met the door's.
func (c *Client) publish(d *door, nodes []node, met []bool, chosen *node) {
	var listed []node
	for i, n := range nodes {
		if met[i] {
			listed = append(listed, n)
		}
	}
	d.mu.Lock()
	from, to := d.set(listed, true, chosen, c.random)
	told := d.drawn && from.place() != to.place()
	d.drawn = d.drawn || chosen != nil
	d.news()
	d.mu.Unlock()
	if told {
		c.stats.failovers.Add(1)
		c.event(Event{Kind: "failover", From: from.String(), To: to.String()})
	}
}

// place is where a connection is made to.
func (n node) place() string {
	u, err := url.Parse(n.base)
	if err != nil {
		return n.base // settings and listings were checked
	}
	host, port := u.Hostname(), u.Port()
	if n.ip != "" {
		host = n.ip
	}
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return net.JoinHostPort(host, port)
}

// set makes these the nodes that are listed, or else those of the endpoints; the others stay, but for endpoints that
// are listed as well. chosen is asked from now on; nil: the one that was asked before, if it is still there. It
// comes first in its tier, as it is kept to. Under the lock.
func (d *door) set(part []node, areListed bool, chosen *node, r *random) (from, to node) {
	old := d.list.Load()
	from = old.nodes[old.first.Load()]
	listed, endpoints := []node{}, append([]node(nil), d.hidden...)
	for _, n := range old.nodes {
		if n.id > 0 {
			listed = append(listed, n)
		} else {
			endpoints = append(endpoints, n)
		}
	}
	if areListed {
		listed = part
	} else {
		endpoints = part
	}
	nodes := append([]node(nil), listed...)
	places := map[string]bool{}
	for _, n := range listed {
		places[n.place()] = true
	}
	d.hidden = nil
	for _, n := range endpoints {
		n.tier = lastTier
		switch {
		case places[n.place()]:
			d.hidden = append(d.hidden, n)
		case len(nodes) < nodesMost:
			nodes = append(nodes, n)
		}
	}
	sort.SliceStable(nodes, func(i, k int) bool { return nodes[i].tier < nodes[k].tier })
	if chosen == nil {
		chosen = &from
	}
	at, place := int(r.below(uint64(inTier(nodes, 0)))), chosen.place()
	for i, n := range nodes {
		if n.place() == place {
			for at = i; at > 0 && nodes[at-1].tier == n.tier; {
				at--
			}
			nodes[at], nodes[i] = nodes[i], nodes[at]
			break
		}
	}
	d.list.Store(newNodeList(nodes, at))
	return from, nodes[at]
}

// inTier is how many nodes the tier of this one has.
func inTier(nodes []node, at int) (count int) {
	for _, n := range nodes {
		if n.tier == nodes[at].tier {
			count++
		}
	}
	return count
}

// beside is the next node of the same tier; the same one if it is alone there.
func beside(nodes []node, at int) int {
	for i := 1; i < len(nodes); i++ {
		if other := (at + i) % len(nodes); nodes[other].tier == nodes[at].tier {
			return other
		}
	}
	return at
}
