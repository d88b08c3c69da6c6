package io.leafd.client;

import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;

/**
 * Sources without a cluster, for a program's own tests: the ids of a tag, or of a name, are counted
 * from 1 in memory. Failure modes: those that {@link #fail} says. Any thread.
 */
public final class FakeLeafd {
    private final Map<String, Long> next = new HashMap<>();
    private final Map<String, ArrayDeque<String>> failures = new HashMap<>();

    /** Without a tag that was asked for. */
    public FakeLeafd() {
    }

    /**
     * As {@link LeafdClient#segment}.
     *
     * @param tag 1 to 128 bytes of UTF-8 without control characters
     * @return a source whose ids follow each other
     */
    public IdSource segment(String tag) {
        return new Source(Names.check("the tag", tag));
    }

    /**
     * As {@link LeafdClient#strict}.
     *
     * @param tag 1 to 128 bytes of UTF-8 without control characters
     * @return a source whose ids follow each other
     */
    public IdSource strict(String tag) {
        return new Source(Names.check("the tag", tag));
    }

    /**
     * As {@link LeafdClient#snowflake(String)}.
     *
     * @param name 1 to 128 bytes of UTF-8 without control characters
     * @return a source whose ids follow each other
     */
    public IdSource snowflake(String name) {
        return new Source(Names.check("the name", name));
    }

    /**
     * Says where the ids go on.
     *
     * @param tag or the name of a snowflake source
     * @param id the next one
     */
    public synchronized void setNext(String tag, long id) {
        next.put(tag, id);
    }

    /**
     * Lets calls of all sources of a tag fail, before they give ids again.
     *
     * @param tag or the name of a snowflake source
     * @param code of the {@link LeafdException}, such as {@code unreachable}
     * @param times so many calls
     */
    public synchronized void fail(String tag, String code, int times) {
        failures.computeIfAbsent(tag, any -> new ArrayDeque<>())
                .addAll(Collections.nCopies(times, code));
    }

    private synchronized long take(String tag) {
        ArrayDeque<String> codes = failures.get(tag);
        if (codes != null && !codes.isEmpty()) {
            throw new LeafdException(codes.poll(), 0, true, "the test says so", null);
        }
        long id = next.getOrDefault(tag, 1L);
        next.put(tag, id + 1);
        return id;
    }

    private final class Source implements IdSource {
        private final String tag;
        private volatile boolean closed;

        Source(String tag) {
            this.tag = tag;
        }

        @Override
        public long next() {
            if (closed) {
                throw LeafdException.closed();
            }
            return take(tag);
        }

        @Override
        public long next(Duration deadline) {
            Names.deadlineNanos(deadline);
            return next();
        }

        @Override
        public void close() {
            closed = true;
        }
    }
}
