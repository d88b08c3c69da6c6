package io.leafd.client;

/** The ids of one strict call. Immutable. */
public final class StrictIds {
    private final IdRange range;
    private final String key;
    private final boolean replayed;

    StrictIds(IdRange range, String key, boolean replayed) {
        this.range = range;
        this.key = key;
        this.replayed = replayed;
    }

    /**
     * The ids; those of one call follow each other.
     *
     * @return one range
     */
    public IdRange range() {
        return range;
    }

    /**
     * The smallest of the ids.
     *
     * @return 0 or more
     */
    public long first() {
        return range.first();
    }

    /**
     * The key that was sent: the same call with it gets the same ids, for a day.
     *
     * @return the caller's, or the one that the library made
     */
    public String key() {
        return key;
    }

    /**
     * Are these the ids of an earlier request with the same key, whose answer was lost maybe?
     *
     * @return what the server said
     */
    public boolean replayed() {
        return replayed;
    }

    /** The range and the key. */
    @Override
    public String toString() {
        return range + " key=" + key + (replayed ? " replayed" : "");
    }
}
