package leafd

import "time"

// Event is something that happened to a client, for Settings.OnEvent. Kind says what: "failover" (From, To),
// "refill_failed" (Name, Code), "recovered" (Name), "fenced" (Name), "clock_back" (Name, Back), "aged" and
// "generation" (Name, IDs), "other_cluster" (From). docs/clients.md says when.
type Event struct {
	Kind     string
	Name     string // of the tag, or of the holder of the worker id
	From, To string // endpoints
	Code     string // of the error
	IDs      int64  // that were dropped
	Back     time.Duration
}

// event calls the hook. Without a lock.
func (c *Client) event(e Event) {
	if c.settings.OnEvent != nil {
		c.working(func() { c.telling++ })
		defer c.working(func() { c.telling-- })
		defer func() { _ = recover() }()
		c.settings.OnEvent(e)
	}
}
