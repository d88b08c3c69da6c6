package io.leafd.client.net;

/**
 * How long attempts may take. In the first round a node has {@value #PATIENCE_MS} ms for its answer,
 * or a quarter of attemptMs if that is longer, and connectMs for a new connection; both twice as
 * long after each round, up to attemptMs. And it has an equal share of the call's time with the
 * nodes that the round has not asked yet, and one of one and a half times the time with
 * those of its tier, where there is another tier. Immutable.
 */
public final class Limits {
    private static final long PATIENCE_MS = 1000;

    private final long connectMs;
    private final long attemptMs;
    private final long deadlineMs;

    /** deadlineMs: of a call that has no deadline of its own. */
    public Limits(long connectMs, long attemptMs, long deadlineMs) {
        this.connectMs = connectMs;
        this.attemptMs = attemptMs;
        this.deadlineMs = deadlineMs;
    }

    /** Of a connection in the first round. */
    long connectMs() {
        return connectMs;
    }

    private long doubledNanos(long firstMs, int rounds) {
        return Math.min(firstMs << Math.min(rounds, 20), attemptMs) * 1_000_000;
    }

    /** What a new connection may take, without TLS, after so many rounds. */
    long connectNanos(int rounds) {
        return doubledNanos(connectMs, rounds);
    }

    /** What an attempt may take of what its call has left, or of {@link Call#NO_DEADLINE}. sharers: of
     * its tier's time. */
    long attemptNanos(int rounds, long leftNanos, int nodesLeft, int sharers) {
        long left = leftNanos == Call.NO_DEADLINE ? deadlineMs * 1_000_000 : leftNanos;
        long nanos = doubledNanos(Math.max(PATIENCE_MS, attemptMs / 4), rounds);
        return Math.min(Math.min(nanos, nanos * 3 / 2 / sharers), left / nodesLeft);
    }
}
