package io.leafd.client;

/** Ids that follow each other, both ends included. Immutable. */
public final class IdRange {
    private final long first;
    private final long last;

    IdRange(long first, long last) {
        this.first = first;
        this.last = last;
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
     * How many there are.
     *
     * @return 1 or more
     */
    public int count() {
        return (int) (last - first + 1);
    }

    /** As {@code 1005-2000}. */
    @Override
    public String toString() {
        return first + "-" + last;
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof IdRange && first == ((IdRange) other).first
                && last == ((IdRange) other).last;
    }

    @Override
    public int hashCode() {
        return Long.hashCode(first * 31 + last);
    }
}
