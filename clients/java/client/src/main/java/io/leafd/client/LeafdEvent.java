package io.leafd.client;

/** Something that a program may want to hear of, beside errors and counters. Immutable. */
public final class LeafdEvent {
    /** What happened, and what else is given then. */
    public enum Kind {
        /** Requests begin with another node now: {@link #from}, {@link #to}. */
        FAILOVER,
        /** No ids came: {@link #name}, {@link #code}. Not given again before RECOVERED. */
        REFILL_FAILED,
        /** Ids come again: {@link #name}. */
        RECOVERED,
        /** The worker id is another's: {@link #name}. */
        FENCED,
        /** The clock is over 5 ms behind the ids made: {@link #name}, {@link #amount} in ms. */
        CLOCK_BACK,
        /** Ids were dropped, since they were too old: {@link #name}, {@link #amount}. */
        AGED,
        /** Ids were dropped, being of an older generation: {@link #name}, {@link #amount}. */
        GENERATION,
        /** The node {@link #from} listed nodes of another cluster. Given once. */
        OTHER_CLUSTER
    }

    private final Kind kind;
    private final String name;
    private final String code;
    private final long amount;
    private final String from;
    private final String to;

    private LeafdEvent(Kind kind, String name, String code, long amount, String from, String to) {
        this.kind = kind;
        this.name = name;
        this.code = code;
        this.amount = amount;
        this.from = from;
        this.to = to;
    }

    static LeafdEvent failover(String from, String to) {
        return new LeafdEvent(Kind.FAILOVER, null, null, 0, from, to);
    }

    static LeafdEvent otherCluster(String from) {
        return new LeafdEvent(Kind.OTHER_CLUSTER, null, null, 0, from, null);
    }

    static LeafdEvent refillFailed(String tag, String code) {
        return new LeafdEvent(Kind.REFILL_FAILED, tag, code, 0, null, null);
    }

    static LeafdEvent of(Kind kind, String name, long amount) {
        return new LeafdEvent(kind, name, null, amount, null, null);
    }

    /**
     * What happened.
     *
     * @return one of the kinds
     */
    public Kind kind() {
        return kind;
    }

    /**
     * The tag of a segment source, or the name that holds a worker id.
     *
     * @return null of a failover and OTHER_CLUSTER
     */
    public String name() {
        return name;
    }

    /**
     * The code of the error.
     *
     * @return null but of REFILL_FAILED
     */
    public String code() {
        return code;
    }

    /**
     * Ids, or milliseconds.
     *
     * @return 0 where neither is given
     */
    public long amount() {
        return amount;
    }

    /**
     * The address that was left, or whose answer was ignored.
     *
     * @return null but of a failover and OTHER_CLUSTER
     */
    public String from() {
        return from;
    }

    /**
     * The address that is asked now.
     *
     * @return null but of a failover
     */
    public String to() {
        return to;
    }

    /** As {@code AGED order 57}. */
    @Override
    public String toString() {
        return kind + (name == null ? "" : " " + name) + (code == null ? "" : " " + code)
                + (amount == 0 ? "" : " " + amount) + (from == null ? "" : " " + from)
                + (to == null ? "" : " " + to);
    }
}
