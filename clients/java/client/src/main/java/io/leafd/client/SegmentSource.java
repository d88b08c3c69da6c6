package io.leafd.client;

import io.leafd.client.net.Call;
import io.leafd.client.net.Outcome;
import io.leafd.client.net.Request;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.LongAdder;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Consumer;

/**
 * Ids of one tag, handed out in this process from ranges that the cluster granted.
 *
 * <p>Happy path: {@link #next()} takes the next id of the range at hand, in some nanoseconds and
 * without a lock. Before it is used up the next range is asked for in the background. Ids rise;
 * where a node that is asked for the first time is behind the one before, what it gives below the
 * ids that were handed out is dropped. Failure modes: while no node can be reached, ids go on until
 * the ranges are used up; then a call waits, and gets an error by its deadline. Any thread, in any
 * number.
 */
public final class SegmentSource implements AutoCloseable {
    private static final long FORGET_ERROR_NANOS = 1_000_000_000;
    private static final long SWEEP_NANOS = 20_000_000;
    /** So many answers in a row may lie below what was handed out: 6 million ids. */
    private static final int MAX_BEHIND = 64;

    /** A call of nextAsync that waits. */
    private static final class Waiter {
        final long[] out;
        final long deadlineNanos;
        final CompletableFuture<long[]> future = new CompletableFuture<>();
        int filled;

        Waiter(long[] out, int filled, long deadlineNanos) {
            this.out = out;
            this.filled = filled;
            this.deadlineNanos = deadlineNanos;
        }
    }

    private final Core core;
    private final String tag;
    private final String target;
    private final Consumer<SegmentSource> onClose;
    private final LongAdder inRanges = new LongAdder();
    /** The range at hand. Written with the lock held, to one that follows it. */
    private volatile RangeBuffer current = new RangeBuffer();

    // With the lock held.
    private final ReentrantLock lock = new ReentrantLock();
    private final Condition changed = lock.newCondition();
    private final ArrayDeque<Waiter> pending = new ArrayDeque<>();
    private RangeBuffer spare;
    private long usedUp;
    private int waiting;
    private boolean closed;
    private LeafdException error;
    private long errorNanos;
    private Call call;
    private boolean underWay;

    // The loop's thread alone.
    private int size;
    private int fewer; // to be asked for at once; 0: what the rate says
    private long lastNanos;
    private long lastHandedOut;
    private long highest = -1;
    private int behind;
    private int behindCount;
    private boolean sweeping;

    /** onClose hears of it once. */
    SegmentSource(Core core, String tag, Consumer<SegmentSource> onClose) {
        this.core = core;
        this.onClose = onClose;
        this.tag = Names.check("the tag", tag);
        target = "/api/segment/get/" + Names.encode(tag) + "?count=";
    }

    /**
     * The tag.
     *
     * @return as it was given
     */
    public String tag() {
        return tag;
    }

    /**
     * The next id.
     *
     * @return 0 or more; larger than every one that this source gave before this call
     * @throws LeafdException no id came by the client's deadline
     */
    public long next() {
        RangeBuffer buffer = current;
        long at = buffer.take(1);
        if (at < buffer.count) {
            if (at == buffer.trigger) {
                core.loop.execute(this::refill);
            }
            return buffer.id(at);
        }
        return fill(new long[1], core.defaultDeadline())[0];
    }

    /**
     * The next id, by a deadline of its own.
     *
     * @param deadline 1 ms to 600000 ms
     * @return 0 or more
     * @throws LeafdException no id came by then
     */
    public long next(Duration deadline) {
        return fill(new long[1], Names.deadlineNanos(deadline))[0];
    }

    /**
     * The next n ids.
     *
     * @param n 1 to 100000
     * @return rising, with gaps maybe
     * @throws LeafdException so many did not come by the client's deadline; those that did are
     *     dropped
     */
    public long[] next(int n) {
        return fill(new long[Names.checkCount(n)], core.defaultDeadline());
    }

    /**
     * The next n ids, by a deadline of their own.
     *
     * @param n 1 to 100000
     * @param deadline 1 ms to 600000 ms
     * @return rising, with gaps maybe
     * @throws LeafdException so many did not come by then; those that did are dropped
     */
    public long[] next(int n, Duration deadline) {
        return fill(new long[Names.checkCount(n)], Names.deadlineNanos(deadline));
    }

    /**
     * The next id, without waiting for it.
     *
     * @return ends with the id, or with a {@link LeafdException} by the client's deadline
     */
    public CompletableFuture<Long> nextAsync() {
        RangeBuffer buffer = current;
        long at = buffer.take(1);
        if (at < buffer.count) {
            if (at == buffer.trigger) {
                core.loop.execute(this::refill);
            }
            return CompletableFuture.completedFuture(buffer.id(at));
        }
        return fillAsync(1).thenApply(ids -> ids[0]);
    }

    /**
     * The next n ids, without waiting for them.
     *
     * @param n 1 to 100000
     * @return ends with the ids, or with a {@link LeafdException} by the client's deadline
     */
    public CompletableFuture<long[]> nextAsync(int n) {
        return fillAsync(Names.checkCount(n));
    }

    /**
     * n ids that follow each other. They are asked for now; those at hand are not used.
     *
     * @param n 1 to 100000
     * @return one range
     * @throws LeafdException such as {@code not_contiguous}, where the cluster grants no so large
     *     ranges
     */
    public IdRange nextRange(int n) {
        return nextRange(n, Duration.ofMillis(core.settings.deadlineMs));
    }

    /**
     * n ids that follow each other, by a deadline of their own.
     *
     * @param n 1 to 100000
     * @param deadline 1 ms to 600000 ms
     * @return one range
     * @throws LeafdException such as {@code not_contiguous}
     */
    public IdRange nextRange(int n, Duration deadline) {
        long deadlineNanos = Names.deadlineNanos(deadline);
        return core.await(range(n, deadlineNanos), deadlineNanos);
    }

    /**
     * n ids that follow each other, without waiting for them.
     *
     * @param n 1 to 100000
     * @return ends with one range, or with a {@link LeafdException} by the client's deadline
     */
    public CompletableFuture<IdRange> nextRangeAsync(int n) {
        return core.handOut(range(n, core.defaultDeadline()));
    }

    private Asked<IdRange> range(int n, long deadlineNanos) {
        Names.checkCount(n);
        Asked<IdRange> future = new Asked<>();
        Request request = Request.get(target + n + "&format=range&contiguous=1", null);
        core.counters.waits.increment();
        core.submit(future, () -> {
            if (isClosed()) {
                future.completeExceptionally(LeafdException.closed());
                return;
            }
            future.call = Call.start(core.ids, () -> request, deadlineNanos, () -> true, end -> {
                try {
                    List<IdRange> ranges = Answers.ranges(end, n);
                    if (ranges.size() != 1) {
                        throw Answers.bad(end, "several ranges");
                    }
                    future.complete(ranges.get(0));
                    inRanges.add(n);
                } catch (LeafdException e) {
                    future.completeExceptionally(e);
                }
            });
        });
        return future;
    }

    /** Drops what is at hand; calls that wait, and later ones, get {@code closed}. */
    @Override
    public void close() {
        List<Waiter> failed;
        lock.lock();
        try {
            if (closed) {
                return;
            }
            closed = true;
            RangeBuffer last = current;
            long left = last.burn();
            usedUp += last.count - left;
            left += spare == null ? 0 : spare.burn();
            core.counters.burnt.add(left);
            spare = null;
            current = new RangeBuffer();
            failed = new ArrayList<>(pending);
            pending.clear();
            changed.signalAll();
        } finally {
            lock.unlock();
        }
        fail(failed, LeafdException.closed());
        onClose.accept(this);
    }

    private boolean isClosed() {
        lock.lock();
        try {
            return closed;
        } finally {
            lock.unlock();
        }
    }

    /** How many ids were handed out. */
    long handedOut() {
        lock.lock();
        try {
            return usedUp + current.count - current.left() + inRanges.sum();
        } finally {
            lock.unlock();
        }
    }

    // Callers.

    /** Takes what the range at hand has, behind the filled ones; how many are filled then. */
    private int take(long[] out, int filled) {
        RangeBuffer buffer = current;
        int want = out.length - filled;
        long at = buffer.take(want);
        int got = (int) Math.max(0, Math.min(want, buffer.count - at));
        for (int i = 0; i < got; i++) {
            out[filled + i] = buffer.id(at + i);
        }
        if (at <= buffer.trigger && buffer.trigger < at + got) {
            core.loop.execute(this::refill);
        }
        return filled + got;
    }

    private long[] fill(long[] out, long deadlineNanos) {
        int filled = 0;
        boolean waited = false;
        try {
            while ((filled = take(out, filled)) < out.length) {
                waited |= awaitMore(deadlineNanos, waited);
            }
            return out;
        } catch (LeafdException e) {
            core.counters.burnt.add(filled);
            throw core.counted(e);
        }
    }

    /** Until the range at hand has ids. True: that took waiting. */
    private boolean awaitMore(long deadlineNanos, boolean counted) {
        boolean waited = false;
        lock.lock();
        try {
            while (!advance()) {
                checkError();
                long left = deadlineNanos - System.nanoTime();
                if (left <= 0) {
                    throw Answers.late(call);
                }
                if (!waited && !counted) {
                    core.counters.waits.increment();
                }
                waited = true;
                waiting++;
                ask();
                try {
                    changed.awaitNanos(left);
                } finally {
                    waiting--;
                }
            }
            return waited;
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw LeafdException.interrupted();
        } finally {
            lock.unlock();
        }
    }

    private CompletableFuture<long[]> fillAsync(int n) {
        long[] out = new long[n];
        Waiter waiter;
        lock.lock();
        try {
            int filled = take(out, 0);
            while (filled < n && advance()) {
                filled = take(out, filled);
            }
            if (filled == n) {
                return CompletableFuture.completedFuture(out);
            }
            core.counters.waits.increment();
            waiter = new Waiter(out, filled, core.defaultDeadline());
            LeafdException refused = refused();
            if (refused != null) {
                core.counters.burnt.add(filled);
                return CompletableFuture.failedFuture(core.counted(refused));
            }
            pending.add(waiter);
            ask();
        } finally {
            lock.unlock();
        }
        core.loop.execute(this::sweepLater);
        return core.handOut(waiter.future);
    }

    // With the lock held.

    private LeafdException refused() {
        if (closed) {
            return LeafdException.closed();
        }
        if (error != null && System.nanoTime() - errorNanos < FORGET_ERROR_NANOS) {
            return error.again();
        }
        return pending.size() < Core.MAX_WAITING ? null
                : LeafdException.overloaded(Core.MAX_WAITING);
    }

    private void checkError() {
        LeafdException refused = refused();
        if (refused != null && !refused.code().equals("overloaded")) {
            throw refused;
        }
    }

    /** True: the range at hand has ids, now that a spare one may have taken its place. */
    private boolean advance() {
        if (current.left() > 0) {
            return true;
        }
        if (spare == null) {
            return false;
        }
        usedUp += current.count;
        current = spare;
        spare = null;
        return true;
    }

    private void ask() {
        if (!underWay) {
            core.loop.execute(this::refill);
        }
    }

    /** Those who wait may not have run yet since ids came: what counts is what there is. */
    private boolean isNeeded() {
        long left = current.left();
        boolean awaited = waiting > 0 || !pending.isEmpty();
        return spare == null && (left * 2 < current.count || (left == 0 && awaited));
    }

    // The loop's thread.

    /** Is anybody waiting, or is there anything left that is to be followed by more? */
    private boolean isWanted() {
        lock.lock();
        try {
            return !closed && (waiting > 0 || !pending.isEmpty() || current.left() > 0
                    || spare != null);
        } finally {
            lock.unlock();
        }
    }

    /** Sends a request unless one is under way, or none is needed. */
    private void refill() {
        int count;
        lock.lock();
        try {
            if (underWay || closed || core.isClosed() || !isNeeded()) {
                return;
            }
            underWay = true;
            error = null;
            count = fewer > 0 ? fewer : behind > 0 ? behindCount
                    : nextSize(usedUp + current.count - current.left());
            fewer = 0;
        } finally {
            lock.unlock();
        }
        Request request = Request.get(target + count + "&format=range", null);
        Call begun = Call.start(core.ids, () -> request, Call.NO_DEADLINE, this::isWanted,
                outcome -> done(outcome, count));
        lock.lock();
        try {
            call = underWay ? begun : null;
        } finally {
            lock.unlock();
        }
    }

    /** The rate between the last two requests, times what is to be covered. */
    private int nextSize(long handedOut) {
        long now = System.nanoTime();
        int least = core.settings.minCount;
        if (size == 0) {
            size = least;
        } else {
            double elapsed = Math.max(1, now - lastNanos);
            double wish = (handedOut - lastHandedOut) / elapsed * core.settings.coverMs * 1e6;
            double wanted = Math.max(least, Math.ceil(Math.max(size / 2.0, wish)));
            size = (int) Math.min(wanted, Math.min(size * 2L, core.settings.maxCount));
        }
        lastNanos = now;
        lastHandedOut = handedOut;
        return size;
    }

    private void done(Outcome outcome, int count) {
        List<IdRange> ranges = null;
        LeafdException failure = null;
        if (outcome.kind() != Outcome.Kind.UNWANTED) {
            try {
                ranges = rising(Answers.ranges(outcome, count), outcome, count);
            } catch (LeafdException e) {
                failure = e;
            }
        }
        List<Waiter> ready = new ArrayList<>();
        lock.lock();
        try {
            underWay = false;
            call = null;
            if (ranges != null && !ranges.isEmpty()) {
                install(new RangeBuffer(ranges), ready);
            } else if (failure != null && failure.code().equals("exhausted") && count > 1) {
                failure = null;
                fewer = size = count / 2; // of those that are left below the tag's max
            } else if (failure != null) {
                error = failure;
                errorNanos = System.nanoTime();
                ready.addAll(pending);
                pending.clear();
            }
            changed.signalAll();
            if (outcome.kind() == Outcome.Kind.UNWANTED && waiting == 0 && pending.isEmpty()) {
                return; // the next call asks
            }
        } finally {
            lock.unlock();
        }
        if (failure != null) {
            fail(ready, failure);
            return;
        }
        for (Waiter waiter : ready) {
            waiter.future.complete(waiter.out);
        }
        refill();
    }

    /** With the lock held: puts it behind what there is, and serves those who wait. */
    private void install(RangeBuffer buffer, List<Waiter> ready) {
        if (closed) {
            core.counters.burnt.add(buffer.count);
            return;
        }
        spare = buffer; // there was none, or no request would have been sent
        advance();
        while (!pending.isEmpty()) {
            Waiter waiter = pending.peek();
            waiter.filled = take(waiter.out, waiter.filled);
            if (waiter.filled == waiter.out.length) {
                ready.add(pending.poll());
            } else if (!advance()) {
                return;
            }
        }
    }

    /**
     * What lies above all that was handed out. Ids of a node rise, but the next node may be behind
     * the one before: that is passed over in larger and larger steps.
     */
    private List<IdRange> rising(List<IdRange> ranges, Outcome outcome, int count) {
        List<IdRange> above = new ArrayList<>(ranges.size());
        long dropped = 0;
        for (IdRange range : ranges) {
            if (range.first() > highest) {
                above.add(range);
            } else if (range.last() > highest) {
                above.add(new IdRange(highest + 1, range.last()));
                dropped += highest + 1 - range.first();
            } else {
                dropped += range.count();
            }
        }
        core.counters.burnt.add(dropped);
        if (!above.isEmpty()) {
            highest = above.get(above.size() - 1).last();
            behind = 0;
            return above;
        }
        behind++;
        behindCount = (int) Math.min(core.settings.maxCount, count * 2L);
        if (behind >= MAX_BEHIND) {
            behind = 0;
            core.ids.leave(outcome.node());
            throw Answers.bad(outcome, "ids that are not above " + highest
                    + ", which was handed out, for the " + MAX_BEHIND + "th time in a row");
        }
        return above;
    }

    private void sweepLater() {
        if (!sweeping) {
            sweeping = true;
            core.loop.schedule(System.nanoTime() + SWEEP_NANOS, this::sweep);
        }
    }

    /** Those whose deadline has come are told so. */
    private void sweep() {
        sweeping = false;
        List<Waiter> late = new ArrayList<>();
        LeafdException why;
        boolean more;
        lock.lock();
        try {
            long now = System.nanoTime();
            // They came one after the other, each with as much time: the first one's is over first.
            while (!pending.isEmpty() && pending.peek().deadlineNanos - now <= 0) {
                late.add(pending.poll());
            }
            why = late.isEmpty() ? null : Answers.late(call);
            more = !pending.isEmpty();
        } finally {
            lock.unlock();
        }
        fail(late, why);
        if (more) {
            sweepLater();
        }
    }

    private void fail(List<Waiter> waiters, LeafdException why) {
        for (Waiter waiter : waiters) {
            core.counters.burnt.add(waiter.filled);
            waiter.future.completeExceptionally(why.again());
        }
    }
}
