package io.leafd.client;

/** A snowflake id, taken apart. Immutable. */
public final class SnowflakeId {
    private final long timeMs;
    private final int worker;
    private final int sequence;

    SnowflakeId(long timeMs, int worker, int sequence) {
        this.timeMs = timeMs;
        this.worker = worker;
        this.sequence = sequence;
    }

    /**
     * When it was made.
     *
     * @return Unix milliseconds
     */
    public long timeMs() {
        return timeMs;
    }

    /**
     * Who made it.
     *
     * @return a worker id
     */
    public int worker() {
        return worker;
    }

    /**
     * Which one of its millisecond it was.
     *
     * @return 0 or more
     */
    public int sequence() {
        return sequence;
    }

    /** As the driver of the conformance suite shows it. */
    @Override
    public String toString() {
        return timeMs + " " + worker + " " + sequence;
    }
}
