package io.leafd.client;

import io.leafd.client.net.Call;
import io.leafd.client.net.Endpoint;
import io.leafd.client.net.Outcome;
import io.leafd.client.net.Request;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.LongAdder;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Consumer;
import java.util.function.Predicate;

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
public final class SegmentSource implements IdSource {
    private static final long FORGET_ERROR_NANOS = 1_000_000_000;
    private static final long SWEEP_NANOS = 20_000_000;
    /**
     * So many answers in a row may lie below what was handed out, and more until so many ids were
     * asked for: both buffers of a node, with the largest segment that a tag has by default.
     */
    private static final int MAX_BEHIND = 64;
    private static final long MAX_BEHIND_IDS = 2_000_000;

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

    /** A request under way. */
    private static final class Refill {
        final boolean second;
        int count;
        boolean stepped;
        volatile Call call;
        boolean wanted = true; // with the lock held; false: another one brought what it is for

        Refill(int count, boolean second) {
            this.count = count;
            this.second = second;
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
    private long pausedNanos = System.nanoTime(); // when a node said last that the tag is; or began
    private Call call;
    private final List<Refill> underWay = new ArrayList<>(2);
    private boolean starving; // callers wait, and nothing is held
    private long starvingSince;
    private long starvedNanos; // since the last request

    // The loop's thread alone.
    private final Known known = new Known();
    private boolean looking;
    private boolean failing;
    private int size;
    private int fewer; // to be asked for at once; 0: what the rate says
    private long lastNanos;
    private long lastHandedOut;
    private long highest = -1;
    private int behind;
    private int behindCount;
    private long behindIds;
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
    @Override
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
    @Override
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
        core.counters.waits.increment();
        core.submit(future, () -> askRange(future, n, deadlineNanos, known.stepped));
        return future;
    }

    private void askRange(Asked<IdRange> future, int n, long deadlineNanos, boolean stepped) {
        if (isClosed()) {
            future.completeExceptionally(LeafdException.closed());
            return;
        }
        Request request = Request.get(target + n + Known.options(stepped) + "&contiguous=1", null);
        future.call = Call.start(core.ids, () -> request, deadlineNanos, () -> true, end -> {
            try {
                List<IdRange> ranges = Answers.ranges(end, n, stepped);
                if (ranges.size() != 1) {
                    throw Answers.bad(end, "several ranges");
                }
                note(end, ranges);
                inRanges.add(n); // before the caller can look
                future.complete(ranges.get(0));
            } catch (LeafdException e) {
                if (known.repeats(e, stepped)) {
                    askRange(future, n, deadlineNanos, true);
                } else {
                    dropPaused(e);
                    future.completeExceptionally(e);
                }
            }
        }, null, outcome -> known.check(outcome, new Known.Question(n, stepped, true),
                () -> core.counters.burnt.add(n)), () -> { });
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
            drop(buffer -> true);
            failed = new ArrayList<>(pending);
            pending.clear();
            changed.signalAll();
        } finally {
            lock.unlock();
        }
        fail(failed, LeafdException.closed());
        core.forget(this);
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

    /** Adds what it holds, and how old that is, to those of its tag. */
    void measure(Map<String, Long> idsLeft, Map<String, Long> rangeAgeMs) {
        long left = 0;
        long ageMs = 0;
        lock.lock();
        try {
            long now = System.nanoTime();
            for (RangeBuffer one : new RangeBuffer[] {current, spare}) {
                if (one != null && one.left() > 0) {
                    left += one.left();
                    ageMs = Math.max(ageMs, (now - one.askedNanos) / 1_000_000);
                }
            }
        } finally {
            lock.unlock();
        }
        idsLeft.merge(tag, left, Long::sum);
        rangeAgeMs.merge(tag, ageMs, Math::max);
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
                starve();
                core.loop.execute(this::refill);
                try {
                    Core.awaitNews(changed, left);
                } finally {
                    waiting--;
                    endStarving();
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
            starve();
            core.loop.execute(this::refill);
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

    private boolean isAwaited() {
        return waiting > 0 || !pending.isEmpty();
    }

    private void starve() {
        if (!starving) {
            starving = true;
            starvingSince = System.nanoTime();
        }
    }

    /** There are ids, or nobody waits for them. */
    private void endStarving() {
        if (starving && (current.left() > 0 || !isAwaited())) {
            starving = false;
            starvedNanos += System.nanoTime() - starvingSince;
        }
    }

    /** How many ids were dropped. Those that a thread has taken already are its own. */
    private long drop(Predicate<RangeBuffer> isGone) {
        long dropped = 0;
        if (current.left() > 0 && isGone.test(current)) {
            dropped = current.burn();
            usedUp += current.count - dropped;
            current = new RangeBuffer();
        }
        if (spare != null && isGone.test(spare)) {
            dropped += spare.burn();
            spare = null;
        }
        core.counters.burnt.add(dropped);
        return dropped;
    }

    /** Those who wait may not have run yet since ids came: what counts is what there is. */
    private boolean isNeeded() {
        long left = current.left();
        return spare == null && (left * 2 < current.count || (left == 0 && isAwaited()));
    }

    // The loop's thread.

    /** Is anybody waiting, or is there anything left that is to be followed by more? */
    private boolean isWanted(Refill refill) {
        lock.lock();
        try {
            return !closed && refill.wanted
                    && (isAwaited() || current.left() > 0 || spare != null);
        } finally {
            lock.unlock();
        }
    }

    /**
     * Sends a request unless none is needed, or one is under way: where that takes long while
     * callers wait, a second one beside it.
     */
    private void refill() {
        Refill first;
        lock.lock();
        try {
            if (closed || core.isClosed() || underWay.size() == 2 || !isNeeded()) {
                return;
            }
            first = wanted();
            if (first == null) {
                error = null;
                int count = fewer > 0 ? fewer : behind > 0 ? behindCount
                        : nextSize(usedUp + current.count - current.left());
                fewer = 0;
                underWay.add(first = new Refill(count, false));
            }
        } finally {
            lock.unlock();
        }
        if (first.call == null) {
            start(first, null);
        }
        lookForSecond(first);
    }

    /** With the lock held: the request under way whose answer is waited for, or null. */
    private Refill wanted() {
        for (Refill refill : underWay) {
            if (refill.wanted) {
                return refill;
            }
        }
        return null;
    }

    private void lookForSecond(Refill first) {
        Refill second;
        Endpoint node = core.ids.after(first.call.node());
        long due = first.call.secondNanos();
        lock.lock();
        try {
            boolean starves = isAwaited() && current.left() == 0 && spare == null;
            if (closed || !starves || underWay.size() != 1 || !underWay.contains(first)
                    || !first.wanted || node == null) {
                return;
            }
            if (due - System.nanoTime() > 0) {
                if (!looking) {
                    looking = true;
                    core.loop.schedule(due, () -> {
                        looking = false;
                        refill();
                    });
                }
                return;
            }
            underWay.add(second = new Refill(first.count, true));
        } finally {
            lock.unlock();
        }
        core.counters.hedges.increment();
        start(second, node);
    }

    private void start(Refill refill, Endpoint node) {
        refill.stepped = known.stepped;
        Request request = Request.get(target + refill.count + Known.options(refill.stepped), null);
        Call begun = Call.start(core.ids, () -> request, Call.NO_DEADLINE, () -> isWanted(refill),
                outcome -> done(outcome, refill), node,
                outcome -> known.check(outcome,
                        new Known.Question(refill.count, refill.stepped, false),
                        () -> core.counters.burnt.add(refill.count)),
                () -> tellFailure("unreachable"));
        refill.call = begun;
        lock.lock();
        try {
            if (!refill.second) {
                call = underWay.contains(refill) ? begun : null;
            }
        } finally {
            lock.unlock();
        }
    }

    /** The rate between the last two requests, times what is to be covered. */
    private int nextSize(long handedOut) {
        long now = System.nanoTime();
        int least = core.settings.minCount;
        if (starving) {
            starvedNanos += now - starvingSince;
            starvingSince = now;
        }
        if (size == 0) {
            size = least;
        } else {
            double elapsed = Math.max(1, now - lastNanos - starvedNanos);
            double wish = (handedOut - lastHandedOut) / elapsed * core.settings.coverMs * 1e6;
            double wanted = Math.max(least, Math.ceil(Math.max(size / 2.0, wish)));
            size = (int) Math.min(wanted, Math.min(size * 2L, core.settings.maxCount));
        }
        starvedNanos = 0;
        lastNanos = now;
        lastHandedOut = handedOut;
        return size;
    }

    private void done(Outcome outcome, Refill refill) {
        RangeBuffer buffer = null;
        LeafdException failure = null;
        boolean unwanted = outcome.kind() == Outcome.Kind.UNWANTED;
        if (!unwanted) {
            try {
                buffer = read(outcome, refill);
            } catch (LeafdException e) {
                failure = e;
            }
        }
        if (failure != null && known.repeats(failure, refill.stepped)) {
            start(refill, outcome.node());
            return;
        }
        List<Waiter> ready = new ArrayList<>();
        Refill slow;
        lock.lock();
        try {
            if (failure != null) {
                dropPaused(failure); // with the error set: who sees the one sees the other
            }
            if (buffer != null && buffer.askedNanos - pausedNanos <= 0) {
                core.counters.burnt.add(buffer.count);
                buffer = null;
            }
            underWay.remove(refill);
            call = underWay.isEmpty() ? null : call;
            slow = wanted();
            failure = refill.wanted && failure != null && settle(failure, slow, refill, ready)
                    ? failure : null;
            if (buffer != null) {
                install(buffer, ready);
                if (slow != null && refill.wanted) {
                    slow.wanted = false;
                }
            }
            changed.signalAll();
            if (unwanted && !isAwaited()) {
                return; // the next call asks
            }
        } finally {
            lock.unlock();
        }
        if (buffer != null) {
            core.dropAt(this, buffer.askedNanos + core.settings.maxAgeMs * 1_000_000);
            if (slow != null && refill.wanted) {
                core.ids.leave(slow.call.node()); // where the next request would begin
            }
            tellRecovery();
        }
        if (failure != null) {
            tellFailure(failure.code());
            fail(ready, failure);
            return;
        }
        for (Waiter waiter : ready) {
            waiter.future.complete(waiter.out);
        }
        refill();
    }

    /** What an answer has above all that was handed out; null: nothing. */
    private RangeBuffer read(Outcome outcome, Refill refill) {
        List<IdRange> ranges = Answers.ranges(outcome, refill.count, refill.stepped);
        long generation = note(outcome, ranges);
        core.ids.measured(System.nanoTime() - outcome.askedNanos());
        ranges = rising(ranges, outcome, refill);
        return ranges.isEmpty() ? null
                : new RangeBuffer(ranges, generation, outcome.askedNanos());
    }

    /** With the lock held: false if those who wait are not to be told. */
    private boolean settle(LeafdException failure, Refill other, Refill refill,
            List<Waiter> ready) {
        if (other != null && !Answers.isFinal(failure)) {
            return false; // they wait for the other one
        }
        if (failure.code().equals("exhausted") && refill.count > 1) {
            fewer = size = refill.count / 2; // of those that are left below the tag's max
            return false;
        }
        error = failure;
        errorNanos = System.nanoTime();
        ready.addAll(pending);
        pending.clear();
        endStarving();
        return true;
    }

    /** What is held of a tag that is paused, or was asked for by now, is handed out no more. */
    private void dropPaused(LeafdException failure) {
        if (failure.code().equals("paused")) {
            lock.lock();
            try {
                pausedNanos = System.nanoTime();
                drop(buffer -> true);
            } finally {
                lock.unlock();
            }
        }
    }

    /** Remembers an answer, and drops what is held of an older generation. */
    private long note(Outcome outcome, List<IdRange> ranges) {
        long before = known.top.generation;
        long generation = known.note(outcome, ranges, null);
        if (generation > before) {
            long dropped;
            lock.lock();
            try {
                dropped = drop(one -> one.generation >= 0 && one.generation < generation);
            } finally {
                lock.unlock();
            }
            tellDropped(LeafdEvent.Kind.GENERATION, dropped);
        }
        return generation;
    }

    /** By its age, and asks to be called again for what it still holds. */
    void dropAged() {
        long maxAge = core.settings.maxAgeMs * 1_000_000;
        long now = System.nanoTime();
        long dropped;
        long oldest = -1;
        lock.lock();
        try {
            dropped = drop(one -> now - one.askedNanos >= maxAge);
            if (spare != null) {
                oldest = now - spare.askedNanos;
            }
            if (current.left() > 0) {
                oldest = Math.max(oldest, now - current.askedNanos);
            }
        } finally {
            lock.unlock();
        }
        if (oldest >= 0) {
            core.dropAt(this, now - oldest + maxAge);
        }
        tellDropped(LeafdEvent.Kind.AGED, dropped);
    }

    private void tellDropped(LeafdEvent.Kind kind, long dropped) {
        if (dropped > 0) {
            core.tell(LeafdEvent.of(kind, tag, dropped));
        }
    }

    /** Once, until ids come again. */
    private void tellFailure(String code) {
        if (!failing && !code.equals("closed")) {
            failing = true;
            core.tell(LeafdEvent.refillFailed(tag, code));
        }
    }

    private void tellRecovery() {
        if (failing) {
            failing = false;
            core.tell(LeafdEvent.of(LeafdEvent.Kind.RECOVERED, tag, 0));
        }
    }

    /** With the lock held: puts it behind what there is, and serves those who wait. */
    private void install(RangeBuffer buffer, List<Waiter> ready) {
        if (closed || spare != null) { // it is the second answer, and there is no room
            core.counters.burnt.add(buffer.count);
            return;
        }
        spare = buffer;
        advance();
        endStarving();
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
    private List<IdRange> rising(List<IdRange> ranges, Outcome outcome, Refill refill) {
        List<IdRange> above = new ArrayList<>(ranges.size());
        long dropped = 0;
        for (IdRange range : ranges) {
            if (range.first() > highest) {
                above.add(range);
            } else {
                dropped += range.count();
            }
        }
        core.counters.burnt.add(dropped);
        if (!above.isEmpty()) {
            highest = above.get(above.size() - 1).last();
            behind = 0;
            behindIds = 0;
            return above;
        }
        if (!refill.wanted) {
            return above; // it is the second answer, and late
        }
        behind++;
        behindIds += refill.count;
        behindCount = (int) Math.min(core.settings.maxCount, refill.count * 2L);
        if (behind >= MAX_BEHIND && behindIds >= MAX_BEHIND_IDS) {
            String times = behind + "th time in a row";
            behind = 0;
            behindIds = 0;
            core.ids.leave(outcome.node());
            throw Answers.bad(outcome, "ids that are not above " + highest
                    + ", which was handed out, for the " + times);
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
            endStarving();
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
