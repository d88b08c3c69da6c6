package io.leafd.client;

import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Makes snowflake ids with one worker id, within its window.
 *
 * <p>One word holds the last time and sequence, and only rises; an id is made by setting it. So no
 * two ids of this object are the same, and none has a time outside from &lt; t &lt;= until: what
 * counts is the time in the word, whenever it is set. Once frozen it makes none any more, and the
 * last time is known for good. No lock, no allocation, no network; any thread.
 */
final class Generator {
    /** The last millisecond is used up: the next one is near. */
    static final long USED_UP = -1;
    /** The clock is behind times that were used, or may not be used. */
    static final long CLOCK_BEHIND = -2;
    /** The clock is past the window. */
    static final long WINDOW_OVER = -3;
    /** The layout has no more times. */
    static final long LAYOUT_OVER = -4;
    /** It was frozen. */
    static final long FROZEN = -5;

    static final int SHORT_STEP_MS = 5;
    private static final long FROZEN_WORD = Long.MAX_VALUE;

    final Layout layout;
    final int worker;
    final long epoch;
    final long fromMs;
    private final long mask;
    private final long untouched;
    private final AtomicLong word;
    private volatile long untilMs;

    /** aboveMs: a time that was used by this source before, or 0. */
    Generator(Layout layout, int worker, long epoch, long fromMs, long untilMs, long aboveMs) {
        this.layout = layout;
        this.worker = worker;
        this.epoch = epoch;
        this.fromMs = fromMs;
        this.untilMs = untilMs;
        mask = (1L << layout.sequenceBits) - 1;
        long floor = Math.max(0, Math.max(fromMs, aboveMs) - layout.epochMs);
        // Nobody stamped this time here: its sequence counts as used up.
        untouched = floor << layout.sequenceBits | mask;
        word = new AtomicLong(untouched);
    }

    /** An id, or one of the negative numbers above. */
    long next(long nowMs) {
        for (;;) {
            long seen = word.get();
            if (seen == FROZEN_WORD) {
                return FROZEN;
            }
            long last = seen >>> layout.sequenceBits;
            long now = nowMs - layout.epochMs;
            long made;
            if (now > last) {
                if (nowMs > untilMs) {
                    return WINDOW_OVER;
                }
                if (now >>> layout.timeBits != 0) {
                    return LAYOUT_OVER;
                }
                made = now << layout.sequenceBits | start(seen, now == last + 1);
            } else if (now < last && last - now <= SHORT_STEP_MS) {
                return CLOCK_BEHIND;
            } else if ((seen & mask) == mask) {
                return now == last ? USED_UP : CLOCK_BEHIND;
            } else {
                made = seen + 1;
            }
            if (word.compareAndSet(seen, made)) {
                return id(made);
            }
        }
    }

    /** Behind a millisecond that was used up the next one begins at 0, so that nothing is lost. */
    private long start(long seen, boolean follows) {
        if (follows && (seen & mask) == mask && seen != untouched) {
            return 0;
        }
        return ThreadLocalRandom.current().nextLong(mask + 1);
    }

    private long id(long made) {
        long time = made >>> layout.sequenceBits;
        return time << layout.workerBits + layout.sequenceBits
                | (long) worker << layout.sequenceBits | made & mask;
    }

    /** A renewal was granted; the bound never falls. One thread at a time. */
    void extend(long newUntilMs) {
        untilMs = Math.max(untilMs, newUntilMs);
    }

    long untilMs() {
        return untilMs;
    }

    /** The highest time that was used, or 0. */
    long lastMs() {
        return lastMs(word.get());
    }

    /** Makes no id from now on: the highest time that was used, or 0. Once. */
    long freeze() {
        return lastMs(word.getAndSet(FROZEN_WORD));
    }

    private long lastMs(long seen) {
        return seen == untouched ? 0 : (seen >>> layout.sequenceBits) + layout.epochMs;
    }
}
