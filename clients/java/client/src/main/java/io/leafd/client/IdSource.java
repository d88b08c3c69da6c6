package io.leafd.client;

import java.time.Duration;

/** What sources of numbers have in common, those of {@link FakeLeafd} too. */
public interface IdSource extends AutoCloseable {
    /**
     * The next id.
     *
     * @return 0 or more
     * @throws LeafdException none came by the client's deadline
     */
    long next();

    /**
     * The next id, by a deadline of its own.
     *
     * @param deadline 1 ms to 600000 ms
     * @return 0 or more
     * @throws LeafdException none came by then
     */
    long next(Duration deadline);

    /** Later calls get {@code closed}. */
    @Override
    void close();
}
