package io.leafd.client;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.util.List;

/** Keeps what stands before the counter in memory off its cache line. */
abstract class RangeBufferPadding {
    long p1;
    long p2;
    long p3;
    long p4;
    long p5;
    long p6;
    long p7;
    long p8;
    long p9;
    long p10;
    long p11;
    long p12;
    long p13;
    long p14;
    long p15;
}

/** The only field that is written while ids are handed out. */
abstract class RangeBufferCounter extends RangeBufferPadding {
    static final VarHandle TAKEN;

    static {
        try {
            TAKEN = MethodHandles.lookup()
                    .findVarHandle(RangeBufferCounter.class, "taken", long.class);
        } catch (ReflectiveOperationException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    volatile long taken;
}

/** Keeps what stands behind the counter off its cache line, the fields that all readers share. */
abstract class RangeBufferPaddingBehind extends RangeBufferCounter {
    long q1;
    long q2;
    long q3;
    long q4;
    long q5;
    long q6;
    long q7;
    long q8;
    long q9;
    long q10;
    long q11;
    long q12;
    long q13;
    long q14;
    long q15;
}

/**
 * The ids of one answer while they are handed out: positions 0 to count - 1, which one atomic
 * addition takes. Positions are taken at most once, whatever threads do; the count of them that
 * were asked for may rise beyond the end, and never comes near 2^63.
 *
 * <p>Any thread, no lock, no allocation.
 */
final class RangeBuffer extends RangeBufferPaddingBehind {
    /** How many ids there are. */
    final long count;
    /** Whoever takes this position leaves less than half behind it: time to ask for more. */
    final long trigger;
    private final long first;
    private final long firstCount;
    private final long firstStep;
    private final long[] firsts;
    private final long[] steps;
    private final long[] starts;
    /** Of the data of the node that granted it; -1: it named none. */
    final long generation;
    /** When it was asked for, by System.nanoTime(). */
    final long askedNanos;

    /** Without ids. */
    RangeBuffer() {
        count = 0;
        trigger = 0;
        first = 0;
        firstCount = 0;
        firstStep = 1;
        firsts = new long[0];
        steps = firsts;
        starts = firsts;
        generation = -1;
        askedNanos = 0;
    }

    /** With one range or more, in their order. */
    RangeBuffer(List<IdRange> ranges, long generation, long askedNanos) {
        this.generation = generation;
        this.askedNanos = askedNanos;
        firsts = new long[ranges.size()];
        steps = new long[ranges.size()];
        starts = new long[ranges.size()];
        long sum = 0;
        for (int i = 0; i < firsts.length; i++) {
            firsts[i] = ranges.get(i).first();
            steps[i] = ranges.get(i).increment();
            starts[i] = sum;
            sum += ranges.get(i).count();
        }
        count = sum;
        trigger = sum / 2;
        first = firsts[0];
        firstCount = ranges.get(0).count();
        firstStep = steps[0];
    }

    /** Takes so many positions: the first of them, which may lie at or beyond count. */
    long take(int n) {
        return (long) TAKEN.getAndAdd(this, (long) n);
    }

    /** The id at a position below count. */
    long id(long position) {
        if (position < firstCount) {
            return first + position * firstStep;
        }
        int i = starts.length - 1;
        while (starts[i] > position) {
            i--;
        }
        return firsts[i] + (position - starts[i]) * steps[i];
    }

    /** How many ids are left now. */
    long left() {
        return Math.max(0, count - taken);
    }

    /** Takes all that is left; how many that were. */
    long burn() {
        return Math.max(0, count - take((int) count));
    }
}
