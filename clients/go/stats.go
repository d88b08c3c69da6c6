package leafd

import (
	"fmt"
	"strings"
	"sync/atomic"
)

// Stats is numbers since the client was made.
type Stats struct {
	IDsSegment, IDsStrict, IDsSnowflake int64 // ids that were given
	Requests                            int64 // that were sent
	Retries                             int64 // of them: what was asked before, in the same call
	Failovers                           int64 // a call went on at another node
	Errors                              int64 // calls that failed
	Waits                               int64 // calls that had to wait for a request
	Burnt                               int64 // ids that were dropped unused
	ClockWaits                          int64 // ids of snowflake that had to wait for the clock
	Renewals                            int64 // of worker ids
}

// counters are those that are counted when it happens; the path of an id has none of its own.
type counters struct {
	segment, strict, requests, retries, failovers, errors, waits, burnt, clockWaits, renewals,
	snowflake atomic.Int64
}

// Stats gives the counters.
func (c *Client) Stats() Stats {
	s := Stats{
		IDsSegment: c.stats.segment.Load(), IDsStrict: c.stats.strict.Load(),
		IDsSnowflake: c.stats.snowflake.Load(), Requests: c.stats.requests.Load(),
		Retries: c.stats.retries.Load(), Failovers: c.stats.failovers.Load(),
		Errors: c.stats.errors.Load(), Waits: c.stats.waits.Load(), Burnt: c.stats.burnt.Load(),
		ClockWaits: c.stats.clockWaits.Load(), Renewals: c.stats.renewals.Load(),
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for source := range c.segments {
		s.IDsSegment += source.given()
	}
	for _, source := range c.snowflakes {
		s.IDsSnowflake += source.given()
	}
	return s
}

// Each calls f with every counter, by the name that all libraries share.
func (s Stats) Each(f func(name string, value int64)) {
	f("ids_segment", s.IDsSegment)
	f("ids_strict", s.IDsStrict)
	f("ids_snowflake", s.IDsSnowflake)
	f("requests", s.Requests)
	f("retries", s.Retries)
	f("failovers", s.Failovers)
	f("errors", s.Errors)
	f("waits", s.Waits)
	f("burnt", s.Burnt)
	f("clock_waits", s.ClockWaits)
	f("renewals", s.Renewals)
}

// Text is the counters as Prometheus reads them.
func (s Stats) Text() string {
	var text strings.Builder
	s.Each(func(name string, value int64) {
		fmt.Fprintf(&text, "# TYPE leafd_client_%s_total counter\nleafd_client_%s_total %d\n", name, name,
			value)
	})
	return text.String()
}
