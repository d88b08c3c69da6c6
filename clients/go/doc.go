// Package leafd gives unique ids of a leafd cluster to a program in Go.
//
// A Client has what its sources share: addresses, token, TLS, connections, counters. It makes three
// kinds of sources:
//
//   - Segment: ids of a tag, fetched ahead in ranges. One costs nanoseconds.
//   - Strict: ids of a strict tag, which rise over all clients. One costs a request.
//   - Snowflake: ids by time, made in this process with a worker id that the cluster lends.
//
// The happy path: Open, then Segment("order"), then Next as often as needed, from any goroutine, then
// Close. Every call takes a context: its deadline is the call's, and without one Settings.Deadline is.
//
// Failure modes: what goes wrong is an *Error, for errors.As. A node that fails is left for the next
// one within the call; ids that are here already are given out whatever the cluster does. An id is never
// given twice: what is in doubt is skipped.
//
// What all client libraries of leafd promise is in docs/clients.md.
package leafd

// Version of this library, which each request names.
const Version = "0.2.0"
