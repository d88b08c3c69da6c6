package leafd

import (
	"fmt"
	"sort"
	"strings"
	"sync/atomic"
	"time"
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
	Hedges                              int64 // second requests beside one that took long

	Tags    []TagGauge    // of tags that have an open segment source
	Windows []WindowGauge // of open snowflake sources
}

// TagGauge is what the segment sources of a tag hold.
type TagGauge struct {
	Tag  string
	Left int64         // ids
	Age  time.Duration // of the oldest range; 0: none is held
}

// WindowGauge is the worker id of a snowflake source.
type WindowGauge struct {
	Name string
	End  time.Time // of its window; zero: it has no worker id
}

// counters are those that are counted when it happens; the path of an id has none of its own.
type counters struct {
	segment, strict, requests, retries, failovers, errors, waits, burnt, clockWaits, renewals,
	snowflake, hedges atomic.Int64
}

// Stats gives the counters.
func (c *Client) Stats() Stats {
	s := Stats{
		IDsSegment: c.stats.segment.Load(), IDsStrict: c.stats.strict.Load(),
		IDsSnowflake: c.stats.snowflake.Load(), Requests: c.stats.requests.Load(),
		Retries: c.stats.retries.Load(), Failovers: c.stats.failovers.Load(),
		Errors: c.stats.errors.Load(), Waits: c.stats.waits.Load(), Burnt: c.stats.burnt.Load(),
		ClockWaits: c.stats.clockWaits.Load(), Renewals: c.stats.renewals.Load(),
		Hedges: c.stats.hedges.Load(),
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	tags := map[string]TagGauge{}
	for source := range c.segments {
		given, left, age := source.held()
		s.IDsSegment += given
		gauge := tags[source.tag]
		gauge.Tag, gauge.Left = source.tag, gauge.Left+left
		if age > gauge.Age {
			gauge.Age = age
		}
		tags[source.tag] = gauge
	}
	for _, gauge := range tags {
		s.Tags = append(s.Tags, gauge)
	}
	sort.Slice(s.Tags, func(i, j int) bool { return s.Tags[i].Tag < s.Tags[j].Tag })
	for _, source := range c.snowflakes {
		s.IDsSnowflake += source.given()
		s.Windows = append(s.Windows, source.window())
	}
	sort.Slice(s.Windows, func(i, j int) bool { return s.Windows[i].Name < s.Windows[j].Name })
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
	f("hedges", s.Hedges)
}

// label is a text as the value of a label of Prometheus; names have no control characters.
var label = strings.NewReplacer("\\", "\\\\", "\"", "\\\"")

// Text is the counters and gauges as Prometheus reads them.
func (s Stats) Text() string {
	var text strings.Builder
	s.Each(func(name string, value int64) {
		fmt.Fprintf(&text, "# TYPE leafd_client_%s_total counter\nleafd_client_%s_total %d\n", name, name,
			value)
	})
	gauge := func(name string, lines func()) {
		fmt.Fprintf(&text, "# TYPE leafd_client_%s gauge\n", name)
		lines()
	}
	gauge("ids_left", func() {
		for _, g := range s.Tags {
			fmt.Fprintf(&text, "leafd_client_ids_left{tag=\"%s\"} %d\n", label.Replace(g.Tag), g.Left)
		}
	})
	gauge("range_age_seconds", func() {
		for _, g := range s.Tags {
			fmt.Fprintf(&text, "leafd_client_range_age_seconds{tag=\"%s\"} %.3f\n", label.Replace(g.Tag),
				g.Age.Seconds())
		}
	})
	gauge("window_end_seconds", func() {
		for _, g := range s.Windows {
			end := 0.0
			if !g.End.IsZero() {
				end = float64(g.End.UnixMilli()) / 1000
			}
			fmt.Fprintf(&text, "leafd_client_window_end_seconds{name=\"%s\"} %.3f\n", label.Replace(g.Name),
				end)
		}
	})
	return text.String()
}
