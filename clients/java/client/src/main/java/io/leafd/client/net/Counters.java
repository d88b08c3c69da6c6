package io.leafd.client.net;

import java.util.concurrent.atomic.LongAdder;

/** What a client counts, from any thread. */
public final class Counters {
    /** Requests that were sent. */
    public final LongAdder requests = new LongAdder();
    /** Attempts of a call beyond its first. */
    public final LongAdder retries = new LongAdder();
    /** Times that the client left a node for the next one. */
    public final LongAdder failovers = new LongAdder();
    /** Errors that callers were given. */
    public final LongAdder errors = new LongAdder();
    /** Calls that had to wait for a request. */
    public final LongAdder waits = new LongAdder();
    /** Ids that were dropped unused. */
    public final LongAdder burnt = new LongAdder();
    /** Calls that had to wait for the clock. */
    public final LongAdder clockWaits = new LongAdder();
    /** Renewals of worker ids. */
    public final LongAdder renewals = new LongAdder();
    /** Second requests, sent while a caller waited for the first. */
    public final LongAdder hedges = new LongAdder();
    /** Strict ids that callers were given. */
    public final LongAdder strictIds = new LongAdder();
    /** Snowflake ids that callers were given. */
    public final LongAdder snowflakeIds = new LongAdder();

    /** All of them 0. */
    public Counters() {
    }
}
