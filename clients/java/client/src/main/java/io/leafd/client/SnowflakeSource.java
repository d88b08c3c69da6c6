package io.leafd.client;

import io.leafd.client.net.Call;
import io.leafd.client.net.Endpoint;
import io.leafd.client.net.Json;
import io.leafd.client.net.Loop;
import io.leafd.client.net.Outcome;
import io.leafd.client.net.Request;
import io.leafd.client.net.Response;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.LockSupport;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Consumer;

/**
 * Snowflake ids, made in this process with a worker id that the cluster lends.
 *
 * <p>Happy path: the first {@link #next()} acquires a worker id and its window; from then on an id
 * costs some nanoseconds, and the window is renewed in the background at a third of its length.
 * Failure modes: while no node can be reached, ids go on until the window is over; then a call
 * waits, and gets {@code window_over} by its deadline. A clock that is set back is waited for. A
 * worker id that became another's is dropped, and the next call acquires anew. Whatever happens, no
 * id has a time outside the window, so none is made twice. Any thread, in any number.
 */
public final class SnowflakeSource implements IdSource {
    private static final long TICK_NANOS = 1_000_000;
    private static final long SWEEP_NANOS = 20_000_000;
    private static final long RENEW_PAUSE_NANOS = 100_000_000;
    private static final long MAX_MS = 1L << 52;
    private static final int SPINS = 2000;

    /** A call of nextAsync that waits. */
    private static final class Waiter {
        final long deadlineNanos;
        final CompletableFuture<Long> future = new CompletableFuture<>();

        Waiter(long deadlineNanos) {
            this.deadlineNanos = deadlineNanos;
        }
    }

    private final Core core;
    private final boolean named;
    private final Consumer<SnowflakeSource> onClose;
    private volatile String heldName = ""; // under which the generator was acquired
    private volatile Generator generator;
    private volatile Layout layout;
    private volatile boolean closed;

    // With the lock held.
    private final ReentrantLock lock = new ReentrantLock();
    private final Condition changed = lock.newCondition();
    private final ArrayDeque<Waiter> pending = new ArrayDeque<>();
    private final CompletableFuture<Void> released = new CompletableFuture<>();
    private int waiting;
    private long failures;
    private LeafdException failure;
    private Call call;

    // The loop's thread alone.
    private String name;
    private boolean acquiring;
    private boolean renewing;
    private boolean pumping;
    private boolean releasing;
    private int sends;
    private long lastUsedMs;
    private long lastRenewNanos;
    private Loop.Timer renewTimer;

    /** name may be null: the library makes one. onClose hears of it once. */
    SnowflakeSource(Core core, String name, Consumer<SnowflakeSource> onClose) {
        this.core = core;
        this.onClose = onClose;
        this.named = name != null;
        this.name = named ? Names.check("the name", name) : null;
        lastRenewNanos = System.nanoTime() - RENEW_PAUSE_NANOS;
    }

    /**
     * The next id.
     *
     * @return rising by time
     * @throws LeafdException none could be made by the client's deadline
     */
    @Override
    public long next() {
        Generator now = generator;
        if (now != null) {
            long id = now.next(core.settings.clock.millis());
            if (id >= 0) {
                core.counters.snowflakeIds.increment();
                return id;
            }
        }
        return slow(core.defaultDeadline());
    }

    /**
     * The next id, by a deadline of its own.
     *
     * @param deadline 1 ms to 600000 ms
     * @return rising by time
     * @throws LeafdException none could be made by then
     */
    @Override
    public long next(Duration deadline) {
        return slow(Names.deadlineNanos(deadline));
    }

    /**
     * The next n ids.
     *
     * @param n 1 to 100000
     * @return rising by time
     * @throws LeafdException so many could not be made by the client's deadline; those that were
     *     are dropped
     */
    public long[] next(int n) {
        long[] ids = new long[Names.checkCount(n)];
        long deadline = core.defaultDeadline();
        for (int i = 0; i < n; i++) {
            ids[i] = slow(deadline);
        }
        return ids;
    }

    /**
     * The next id, without waiting for it.
     *
     * @return ends with the id, or with a {@link LeafdException} by the client's deadline
     */
    public CompletableFuture<Long> nextAsync() {
        Generator now = generator;
        long id = now == null ? -1 : now.next(core.settings.clock.millis());
        if (id >= 0) {
            core.counters.snowflakeIds.increment();
            return CompletableFuture.completedFuture(id);
        }
        Waiter waiter = new Waiter(core.defaultDeadline());
        boolean first;
        lock.lock();
        try {
            if (closed || pending.size() >= Core.MAX_WAITING) {
                return CompletableFuture.failedFuture(core.counted(closed ? LeafdException.closed()
                        : LeafdException.overloaded(Core.MAX_WAITING)));
            }
            first = pending.isEmpty();
            pending.add(waiter);
        } finally {
            lock.unlock();
        }
        if (first) { // else pump() is under way, or will be by its timer, and serves this one, too
            core.loop.execute(this::pump);
        }
        return core.handOut(waiter.future);
    }

    /**
     * Takes an id of this cluster apart, without asking.
     *
     * @param id 0 or more
     * @return time, worker id and sequence
     * @throws LeafdException {@code layout_unknown} before the first id of this source
     */
    public SnowflakeId decode(long id) {
        if (id < 0) {
            throw core.counted(LeafdException.badSetting("id " + id + " is below 0"));
        }
        return knownLayout().decode(id);
    }

    /**
     * The smallest id of a time, for scans of ids by time, without asking.
     *
     * @param timeMs Unix milliseconds
     * @return the id
     * @throws LeafdException {@code layout_unknown} before the first id of this source
     */
    public long at(long timeMs) {
        Layout known = knownLayout();
        if (timeMs < known.epochMs || timeMs > known.lastMs()) {
            throw core.counted(LeafdException.badSetting("time " + timeMs + " is not from "
                    + known.epochMs + " to " + known.lastMs()));
        }
        return known.at(timeMs);
    }

    private Layout knownLayout() {
        Layout known = layout;
        if (known == null) {
            throw core.counted(new LeafdException("layout_unknown", 0, true,
                    "the layout comes with the first id of this source, and there was none", null));
        }
        return known;
    }

    /**
     * Gives the worker id back, for which it waits up to {@code attempt_ms}. Calls that wait, and
     * later ones, get {@code closed}.
     */
    @Override
    public void close() {
        if (!closed) {
            release();
            onClose.accept(this);
            core.awaitReleases(() -> { });
        }
    }

    /** Adds the end of its window. */
    void measure(Map<String, Long> windowEndMs) {
        Generator now = generator;
        if (now != null) {
            windowEndMs.put(heldName, now.untilMs());
        }
    }

    /** Stops, and gives the worker id back: the core's releases have it until that ends. */
    void release() {
        List<Waiter> all;
        core.releases.add(released);
        released.whenComplete((nothing, error) -> core.releases.remove(released));
        lock.lock();
        try {
            closed = true;
            all = new ArrayList<>(pending);
            pending.clear();
            changed.signalAll();
        } finally {
            lock.unlock();
        }
        for (Waiter waiter : all) {
            waiter.future.completeExceptionally(LeafdException.closed());
        }
        core.loop.execute(this::releaseLast);
    }

    // Callers.

    private long slow(long deadlineNanos) {
        boolean clockWaited = false;
        boolean requestWaited = false;
        for (int spins = 0;; spins++) {
            Generator now = generator;
            long id = now == null ? Generator.WINDOW_OVER : now.next(core.settings.clock.millis());
            if (id >= 0) {
                core.counters.snowflakeIds.increment();
                return id;
            }
            try {
                checkGoOn(id, now, deadlineNanos);
                if (id == Generator.WINDOW_OVER) {
                    requestWaited = requestWaited || countWait();
                    awaitGrant(now, deadlineNanos);
                } else if (id == Generator.CLOCK_BEHIND) {
                    clockWaited = clockWaited || countClockWait(now);
                    LockSupport.parkNanos(TICK_NANOS);
                } else if (spins < SPINS) {
                    Thread.onSpinWait();
                } else {
                    LockSupport.parkNanos(TICK_NANOS / 10);
                }
            } catch (LeafdException e) {
                throw core.counted(e);
            }
        }
    }

    private boolean countWait() {
        core.counters.waits.increment();
        return true;
    }

    private boolean countClockWait(Generator now) {
        core.counters.clockWaits.increment();
        long behindMs = now.lastMs() - core.settings.clock.millis();
        if (behindMs > Generator.SHORT_STEP_MS) {
            core.tell(LeafdEvent.of(LeafdEvent.Kind.CLOCK_BACK, heldName, behindMs));
        }
        return true;
    }

    private void checkGoOn(long refusal, Generator now, long deadlineNanos) {
        if (closed) {
            throw LeafdException.closed();
        }
        if (refusal == Generator.LAYOUT_OVER) {
            throw layoutOver();
        }
        if (Thread.currentThread().isInterrupted()) {
            throw LeafdException.interrupted();
        }
        if (refusal != Generator.WINDOW_OVER && deadlineNanos - System.nanoTime() <= 0) {
            throw windowOver(now);
        }
    }

    private static LeafdException layoutOver() {
        return new LeafdException("epoch_exhausted", 0, false,
                "the times of the cluster's layout are over", null);
    }

    private LeafdException windowOver(Generator now) {
        return new LeafdException("window_over", 0, true, "the clock says "
                + core.settings.clock.millis() + ", the last id has " + now.lastMs()
                + ", and times from " + now.fromMs + " to " + now.untilMs()
                + " may be used by worker id " + now.worker, null);
    }

    /** Until there is another generator, or a later end of this one's window. */
    private void awaitGrant(Generator now, long deadlineNanos) {
        lock.lock();
        try {
            long before = failures;
            long until = now == null ? 0 : now.untilMs();
            waiting++;
            core.loop.execute(now == null ? this::acquire : this::renewNow);
            try {
                while (failures == before && generator == now
                        && (now == null || now.untilMs() == until) && !closed) {
                    long left = deadlineNanos - System.nanoTime();
                    if (left <= 0) {
                        throw now == null ? Answers.late(call) : windowOver(now);
                    }
                    Core.awaitNews(changed, left);
                }
                if (failures != before) {
                    throw failure.again();
                }
            } finally {
                waiting--;
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw LeafdException.interrupted();
        } finally {
            lock.unlock();
        }
    }

    // The loop's thread.

    private boolean isAwaited() {
        lock.lock();
        try {
            return !closed && (waiting > 0 || !pending.isEmpty());
        } finally {
            lock.unlock();
        }
    }

    /** Serves those who wait, as far as there are ids; the rest when there may be more. */
    private void pump() {
        while (true) {
            Waiter head;
            lock.lock();
            try {
                head = pending.peek();
            } finally {
                lock.unlock();
            }
            if (head == null) {
                return;
            }
            Generator now = generator;
            long id = now == null ? Generator.WINDOW_OVER : now.next(core.settings.clock.millis());
            if (id < 0) {
                pumpLater(id, now);
                return;
            }
            core.counters.snowflakeIds.increment();
            finish(head, id, null);
        }
    }

    private void pumpLater(long refusal, Generator now) {
        if (refusal == Generator.LAYOUT_OVER) {
            failAll(layoutOver());
            return;
        }
        long pause = TICK_NANOS;
        if (refusal == Generator.WINDOW_OVER) {
            pause = SWEEP_NANOS;
            if (now == null) {
                acquire();
            } else {
                renewNow();
            }
        }
        failLate(now);
        if (!pumping) {
            pumping = true;
            core.loop.schedule(System.nanoTime() + pause, () -> {
                pumping = false;
                pump();
            });
        }
    }

    private void finish(Waiter waiter, long id, LeafdException why) {
        lock.lock();
        try {
            pending.remove(waiter);
        } finally {
            lock.unlock();
        }
        if (why == null) {
            waiter.future.complete(id);
        } else {
            waiter.future.completeExceptionally(why);
        }
    }

    private void failLate(Generator now) {
        List<Waiter> late = new ArrayList<>();
        LeafdException why;
        lock.lock();
        try {
            long time = System.nanoTime();
            // They came one after the other, each with as much time: the first one's is over first.
            while (!pending.isEmpty() && pending.peek().deadlineNanos - time <= 0) {
                late.add(pending.poll());
            }
            why = late.isEmpty() ? null : now == null ? Answers.late(call) : windowOver(now);
        } finally {
            lock.unlock();
        }
        for (Waiter waiter : late) {
            waiter.future.completeExceptionally(why.again());
        }
    }

    private void failAll(LeafdException why) {
        failAll(why, false);
    }

    /** Tells all who wait now, and nobody who comes later, as all do who find the generator dropped. */
    private void failAll(LeafdException why, boolean drops) {
        List<Waiter> all;
        lock.lock();
        try {
            generator = drops ? null : generator;
            failures++;
            failure = why;
            all = new ArrayList<>(pending);
            pending.clear();
            changed.signalAll();
        } finally {
            lock.unlock();
        }
        for (Waiter waiter : all) {
            waiter.future.completeExceptionally(why.again());
        }
    }

    private void acquire() {
        if (acquiring || closed || core.isClosed() || generator != null) {
            return;
        }
        acquiring = true;
        sends = 0;
        Call begun = Call.start(core.admin, this::acquireRequest, Call.NO_DEADLINE,
                this::isAwaited, this::acquired);
        lock.lock();
        try {
            call = acquiring ? begun : null;
        } finally {
            lock.unlock();
        }
    }

    /**
     * One that was not answered may have been carried out. Asking again by the same name would
     * begin behind the window that was lost; by another one at once.
     */
    private Request acquireRequest() {
        if (!named && (name == null || sends > 0)) {
            name = Names.newHolder(host());
        }
        sends++;
        return Request.of("POST", "/api/workers", "{\"name\":" + Json.quote(name)
                + ",\"window_ms\":" + core.settings.windowMs + "}");
    }

    private static String host() {
        String host = System.getenv("HOSTNAME");
        if (host == null || host.isEmpty()) {
            try {
                host = InetAddress.getLocalHost().getHostName();
            } catch (UnknownHostException e) {
                host = "unknown";
            }
        }
        String clean = host.replaceAll("[^A-Za-z0-9._-]", "_");
        return clean.substring(0, Math.min(64, clean.length()));
    }

    private void acquired(Outcome outcome) {
        if (outcome.kind() == Outcome.Kind.UNWANTED || outcome.kind() == Outcome.Kind.CLOSED) {
            acquireEnded();
            if (isAwaited()) {
                acquire();
            }
            return;
        }
        Map<String, Object> grant;
        Generator made;
        try {
            grant = grant(outcome);
            Map<?, ?> told = (Map<?, ?>) grant.get("layout");
            if (told == null && layout == null) {
                askLayout(core.admin.others(outcome.node()), grant);
                return;
            }
            made = generator(outcome, grant, layout != null ? layout : layout(outcome, told));
        } catch (LeafdException e) {
            acquireEnded();
            failAll(e);
            return;
        }
        granted(made);
    }

    private void acquireEnded() {
        acquiring = false;
        lock.lock();
        try {
            call = null;
        } finally {
            lock.unlock();
        }
        if (closed) {
            releaseLast();
        }
    }

    /** This node has no layout to tell; a renewal at another one costs nothing, and may. */
    private void askLayout(List<Endpoint> nodes, Map<String, Object> grant) {
        if (nodes.isEmpty()) {
            release(worker(grant), epoch(grant), Math.max(1, from(grant)));
            acquireEnded();
            failAll(new LeafdException("layout_unknown", 0, true, "none of "
                    + core.admin.size() + " nodes gave the layout of the cluster's ids: each"
                    + " has snowflake.workers = 0, or did not answer", null));
            return;
        }
        String target = "/api/workers/" + worker(grant);
        String body = "{\"epoch\":" + epoch(grant) + ",\"window_ms\":"
                + core.settings.windowMs + "}";
        Call.once(core.admin, nodes.get(0), () -> Request.of("PUT", target, body),
                core.defaultDeadline(), answer -> {
                    if (answer.kind() == Outcome.Kind.CLOSED) {
                        acquireEnded();
                        return;
                    }
                    try {
                        Map<String, Object> renewed = grant(answer);
                        Map<?, ?> told = (Map<?, ?>) renewed.get("layout");
                        if (told != null) {
                            granted(generator(answer, renewed, layout(answer, told)));
                            return;
                        }
                    } catch (LeafdException e) {
                        // The next one is asked; who told nothing is in the message at the end.
                        core.counters.retries.increment();
                    }
                    askLayout(nodes.subList(1, nodes.size()), grant);
                });
    }

    private void granted(Generator made) {
        layout = made.layout;
        heldName = name;
        lock.lock();
        try {
            generator = made;
            changed.signalAll();
        } finally {
            lock.unlock();
        }
        renewLater(core.settings.windowMs / 3);
        acquireEnded();
        pump();
    }

    private Map<String, Object> grant(Outcome outcome) {
        Response response = Answers.good(outcome);
        Map<String, Object> map = Json.object(response.text());
        try {
            if (map == null) {
                throw new IllegalArgumentException("no JSON object");
            }
            Layout.number(map, "worker_id", 0, 4194303);
            Layout.number(map, "epoch", 1, Long.MAX_VALUE);
            long fromMs = Layout.number(map, "from_ms", 0, MAX_MS);
            Layout.number(map, "until_ms", fromMs, MAX_MS);
            if (map.get("layout") != null && !(map.get("layout") instanceof Map)) {
                throw new IllegalArgumentException("no layout");
            }
            return map;
        } catch (IllegalArgumentException e) {
            throw Answers.bad(outcome, e.getMessage());
        }
    }

    private static Layout layout(Outcome outcome, Map<?, ?> told) {
        try {
            return Layout.of(told);
        } catch (IllegalArgumentException e) {
            throw Answers.bad(outcome, e.getMessage());
        }
    }

    private Generator generator(Outcome outcome, Map<String, Object> grant, Layout known) {
        if (worker(grant) >> known.workerBits != 0) {
            throw Answers.bad(outcome, "a worker id beyond " + known.workerBits + " bits");
        }
        return new Generator(known, (int) worker(grant), epoch(grant), from(grant),
                (Long) grant.get("until_ms"), lastUsedMs);
    }

    private static long worker(Map<String, Object> grant) {
        return (Long) grant.get("worker_id");
    }

    private static long epoch(Map<String, Object> grant) {
        return (Long) grant.get("epoch");
    }

    private static long from(Map<String, Object> grant) {
        return (Long) grant.get("from_ms");
    }

    private void renewLater(long ms) {
        if (renewTimer != null) {
            renewTimer.cancel();
        }
        renewTimer = core.loop.schedule(System.nanoTime() + ms * 1_000_000, this::renew);
    }

    /** Somebody waits for it; but not more often than makes sense. */
    private void renewNow() {
        long pause = lastRenewNanos + RENEW_PAUSE_NANOS - System.nanoTime();
        if (pause <= 0) {
            renew();
        } else if (!renewing && generator != null) {
            renewLater(pause / 1_000_000 + 1);
        }
    }

    private void renew() {
        Generator now = generator;
        if (renewing || now == null || closed) {
            return;
        }
        renewing = true;
        lastRenewNanos = System.nanoTime();
        Call.start(core.admin, () -> renewRequest(now), Call.NO_DEADLINE,
                () -> !closed && generator == now, outcome -> renewed(now, outcome));
    }

    private Request renewRequest(Generator now) {
        long last = now.lastMs();
        return Request.of("PUT", "/api/workers/" + now.worker, "{\"epoch\":" + now.epoch
                + ",\"window_ms\":" + core.settings.windowMs
                + (last > 0 ? ",\"last_timestamp_ms\":" + last : "") + "}");
    }

    private void renewed(Generator now, Outcome outcome) {
        renewing = false;
        if (outcome.kind() == Outcome.Kind.UNWANTED || outcome.kind() == Outcome.Kind.CLOSED
                || generator != now || closed) {
            return;
        }
        try {
            Map<String, Object> grant = grant(outcome);
            if (worker(grant) != now.worker || epoch(grant) != now.epoch) {
                throw Answers.bad(outcome, "another worker id or epoch");
            }
            core.counters.renewals.increment();
            lock.lock();
            try {
                now.extend((Long) grant.get("until_ms"));
                changed.signalAll();
            } finally {
                lock.unlock();
            }
            renewLater(core.settings.windowMs / 3);
            pump();
        } catch (LeafdException e) {
            notRenewed(now, e);
        }
    }

    private void notRenewed(Generator now, LeafdException why) {
        if (why.code().equals("fenced") || why.code().equals("unknown_worker")) {
            if (!named) {
                name = null;
            }
            core.tell(LeafdEvent.of(LeafdEvent.Kind.FENCED, heldName, 0));
            failAll(new LeafdException("fenced", why.status(), true, why.getMessage(), null), true);
            lastUsedMs = Math.max(lastUsedMs, now.lastMs());
            return;
        }
        renewLater(Math.max(1000, core.settings.windowMs / 6));
        failAll(why);
    }

    /** Once nothing is under way any more: the worker id goes back, with the last time used. */
    private void releaseLast() {
        if (renewTimer != null) {
            renewTimer.cancel();
        }
        Generator now = generator;
        generator = null;
        if (now != null) {
            long last = now.freeze();
            release(now.worker, now.epoch, last > 0 ? last : Math.max(1, now.fromMs));
        } else if (!acquiring && !releasing) {
            released.complete(null);
        }
    }

    private void release(long worker, long epoch, long lastMs) {
        releasing = closed;
        String target = "/api/workers/" + worker + "?epoch=" + epoch + "&last_timestamp_ms="
                + lastMs;
        long deadline = System.nanoTime() + core.settings.attemptMs * 1_000_000;
        Call.start(core.admin, () -> Request.of("DELETE", target, null), deadline, () -> true,
                outcome -> {
                    if (closed) {
                        released.complete(null);
                    }
                });
    }
}
