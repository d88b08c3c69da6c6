package io.leafd.client;

/** Ids that follow each other, or are a step apart, both ends included. Immutable. */
public final class IdRange {
    private final long first;
    private final long last;
    private final long increment;

    IdRange(long first, long last) {
        this(first, last, 1);
    }

    /** last is reached from first by the increment, which is 1 or more. */
    IdRange(long first, long last, long increment) {
        this.first = first;
        this.last = last;
        this.increment = increment;
    }

    /**
     * The smallest one.
     *
     * @return 0 or more
     */
    public long first() {
        return first;
    }

    /**
     * The largest one.
     *
     * @return first or more
     */
    public long last() {
        return last;
    }

    /**
     * From one id to the next.
     *
     * @return 1, unless the tag has another increment
     */
    public long increment() {
        return increment;
    }

    /**
     * How many there are.
     *
     * @return 1 or more
     */
    public int count() {
        return (int) ((last - first) / increment + 1);
    }

    /** As {@code 1005-2000}. */
    @Override
    public String toString() {
        return first + "-" + last;
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof IdRange && first == ((IdRange) other).first
                && last == ((IdRange) other).last && increment == ((IdRange) other).increment;
    }

    @Override
    public int hashCode() {
        return Long.hashCode(first * 31 + last);
    }
}
