package leafd

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Nodes: an endpoint stands for as many as its host has addresses. A name is resolved with the first call, after a
// round in which all nodes failed, and when a call finds that the last time is long ago. Whatever the resolver
// does, a call waits for it as for a connection; without its answer the name is one node, and the system chooses.

const (
	nodesMost    = 64
	resolveAgain = 30 * time.Second
	resolveMost  = 5 * time.Second
)

// node is one address of an endpoint.
type node struct {
	base string // URL of the endpoint
	ip   string // empty: the host's own, or what the system resolves
	tier int    // those of lower ones are asked first
	id   int64  // of a node that was listed; 0: of an endpoint
	of   string // the endpoint whose SRV record it is in; empty: none
}

func (n node) String() string {
	if n.ip == "" {
		return n.base
	}
	return n.base + " (" + n.ip + ")"
}

// nodeList is nodes by tier, and the one of them that is asked first.
type nodeList struct {
	nodes []node
	first atomic.Uint32
}

func newNodeList(nodes []node, first int) *nodeList {
	l := &nodeList{nodes: nodes}
	l.first.Store(uint32(first))
	return l
}

// door is the nodes that serve something.
type door struct {
	urls  []string
	named bool // some host is a name
	list  atomic.Pointer[nodeList]

	discover, forSnowflake bool // see discover.go; never changed

	mu        sync.Mutex // guards what follows, and who changes list
	resolving bool
	resolved  time.Time
	hidden    []node        // of endpoints that are listed as well
	asking    bool          // a goroutine asks for nodes
	ended     bool          // one of them has ended
	drawn     bool          // a node of a listing was chosen
	asked     time.Time     // when the last one began
	again     time.Duration // after so long the next one
	changed   chan struct{} // closed and made anew with the list
}

func newDoor(urls []string, r *random) *door {
	d := &door{urls: urls, changed: make(chan struct{})}
	var nodes []node
	for _, base := range urls {
		nodes = append(nodes, node{base: base, tier: lastTier})
		_, err := netip.ParseAddr(hostOf(base))
		d.named = d.named || err != nil
	}
	d.list.Store(newNodeList(nodes, int(r.below(uint64(len(urls))))))
	return d
}

// leave has all calls begin at another node, unless they do not begin at this one any more. The nodes may be of an
// older list.
func (d *door) leave(from, to node) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	list := d.list.Load()
	if list.nodes[list.first.Load()].place() != from.place() {
		return false
	}
	for i, n := range list.nodes {
		if n.place() == to.place() {
			list.first.Store(uint32(i))
			return true
		}
	}
	return false
}

func hostOf(base string) string {
	u, err := url.Parse(base)
	if err != nil {
		return base // settings were checked
	}
	return u.Hostname()
}

// nodes are those of now. failed: all of them just did.
func (c *Client) nodes(ctx context.Context, d *door, failed bool) *nodeList {
	c.discover(ctx, d, failed)
	return c.addresses(ctx, d, failed)
}

// addresses has names resolved.
func (c *Client) addresses(ctx context.Context, d *door, failed bool) *nodeList {
	if !d.named {
		return d.list.Load()
	}
	d.mu.Lock()
	wait := failed || d.resolved.IsZero()
	begin := !d.resolving && (wait || time.Since(d.resolved) >= resolveAgain)
	d.resolving = d.resolving || begin
	d.mu.Unlock()
	if !begin {
		return d.list.Load()
	}
	done := make(chan struct{})
	c.background(func(ctx context.Context) {
		defer close(done)
		d.resolve(ctx, c.random)
	})
	if wait {
		within, cancel := context.WithTimeout(ctx, c.settings.Connect)
		defer cancel()
		select {
		case <-done:
		case <-within.Done():
		case <-c.context.Done():
		}
	}
	return d.list.Load()
}

// resolve makes the list anew. Of a name that cannot be resolved what was known stays.
func (d *door) resolve(ctx context.Context, r *random) {
	ctx, cancel := context.WithTimeout(ctx, resolveMost)
	defer cancel()
	d.mu.Lock()
	old := append(append([]node(nil), d.list.Load().nodes...), d.hidden...)
	d.mu.Unlock()
	var nodes []node
	for _, base := range d.urls {
		host := hostOf(base)
		_, err := netip.ParseAddr(host)
		var ips []netip.Addr
		services := lookUpService(ctx, base)
		nodes = append(nodes, services...)
		if isService(base) {
			err = nil
		}
		if err != nil {
			ips, _ = net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}
		sort.Slice(ips, func(i, j int) bool { return ips[i].Less(ips[j]) })
		for _, ip := range ips {
			nodes = append(nodes, node{base: base, ip: ip.Unmap().String(), tier: lastTier})
		}
		if len(ips)+len(services) == 0 {
			for _, n := range old {
				if (n.base == base || n.of == base) && n.id == 0 {
					nodes = append(nodes, n)
				}
			}
		}
	}
	if len(nodes) > nodesMost {
		nodes = nodes[:nodesMost]
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.set(nodes, false, nil, r)
	d.resolving, d.resolved = false, time.Now()
}

// isService: of an SRV record, as http+srv://NAME.
func isService(base string) bool { return strings.Contains(base, "+srv://") }

// lookUpService gives the hosts and ports of an SRV record; its priorities and weights are not used.
func lookUpService(ctx context.Context, base string) (nodes []node) {
	if !isService(base) {
		return nil
	}
	scheme, name, _ := strings.Cut(base, "+srv://")
	_, found, _ := net.DefaultResolver.LookupSRV(ctx, "", "", name)
	for _, one := range found {
		host := strings.TrimSuffix(one.Target, ".")
		if address := net.JoinHostPort(host, strconv.Itoa(int(one.Port))); isAddress(address) {
			nodes = append(nodes, node{base: scheme + "://" + address, tier: lastTier, of: base})
		}
	}
	return nodes
}

// target is where the context of an attempt has what its connection is for.
type target struct {
	connect time.Duration // for a new connection, without TLS
	ip      string        // to connect to; empty: what the address says
	name    string        // that the certificate must have
}

type targetKey struct{}

// dial connects within the time of the attempt that asks for it.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := net.Dialer{KeepAlive: 15 * time.Second}
	t, has := ctx.Value(targetKey{}).(target)
	if !has {
		return dialer.DialContext(ctx, network, address)
	}
	if _, port, err := net.SplitHostPort(address); err == nil && t.ip != "" {
		address = net.JoinHostPort(t.ip, port)
	}
	of, cancel := context.WithTimeout(ctx, t.connect)
	defer cancel()
	conn, err := dialer.DialContext(of, network, address)
	if err != nil && of.Err() != nil && ctx.Err() == nil {
		return nil, fmt.Errorf("no connection within %d ms", t.connect.Milliseconds())
	}
	return conn, err
}

// dialTLS also has the server show that it is the one of that name.
func dialTLS(trust *trust) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		of := trust.current().Clone()
		of.ServerName, _, _ = net.SplitHostPort(address)
		if t, has := ctx.Value(targetKey{}).(target); has {
			of.ServerName = t.name
		}
		secure := tls.Client(conn, of)
		if err := secure.HandshakeContext(ctx); err != nil {
			conn.Close()
			return nil, err
		}
		return secure, nil
	}
}

// asHost is a host of its own for each address of a name, so that connections to it are kept apart.
func (n node) asHost(u *url.URL) string {
	if n.ip == "" {
		return u.Host
	}
	host := strings.NewReplacer(":", "-", ".", "-", "%", "-").Replace(n.ip) + "." + u.Hostname()
	if port := u.Port(); port != "" {
		return host + ":" + port
	}
	return host
}
