package io.leafd.client;

import io.leafd.client.net.Outcome;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;

/**
 * Ids of a strict tag: each is larger than all that any client was given before it was asked for.
 *
 * <p>Happy path: each call is one request, sent with an {@code Idempotency-Key}, so that a retry
 * gets the ids of the first try, also where that one's answer was lost. Failure modes: an error by
 * the deadline, which has the key ({@link LeafdException#idempotencyKey}); with it the caller may
 * come again, for a day. Any thread, in any number.
 */
public final class StrictSource implements IdSource {
    private final Core core;
    private final SingleCalls calls;
    private final String tag;
    private final String target;
    private final Known known = new Known();
    private volatile boolean closed;

    StrictSource(Core core, SingleCalls calls, String tag) {
        this.core = core;
        this.calls = calls;
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
     * A key for a call that is to be repeated after its deadline, by this process or the next one.
     *
     * @return 26 random characters of base 32
     */
    public static String newKey() {
        return Names.newKey();
    }

    /**
     * The next id.
     *
     * @return 0 or more
     * @throws LeafdException none came by the client's deadline
     */
    @Override
    public long next() {
        return next(1).first();
    }

    /**
     * The next id, by a deadline of its own.
     *
     * @param deadline 1 ms to 600000 ms
     * @return 0 or more
     * @throws LeafdException none came by then
     */
    @Override
    public long next(Duration deadline) {
        return next(1, Names.newKey(), true, Names.deadlineNanos(deadline)).first();
    }

    /**
     * The next n ids.
     *
     * @param n 1 to 100000
     * @return one range, and the key
     * @throws LeafdException they did not come by the client's deadline
     */
    public StrictIds next(int n) {
        return next(n, Names.newKey(), true, core.defaultDeadline());
    }

    /**
     * The next n ids, or those of an earlier call with the same key.
     *
     * @param n 1 to 100000
     * @param key 1 to 128 printable ASCII characters
     * @return one range, and whether it is an earlier call's
     * @throws LeafdException they did not come by the client's deadline
     */
    public StrictIds next(int n, String key) {
        return next(n, key, Duration.ofMillis(core.settings.deadlineMs));
    }

    /**
     * The next n ids, or those of an earlier call with the same key, by a deadline of their own.
     *
     * @param n 1 to 100000
     * @param key 1 to 128 printable ASCII characters
     * @param deadline 1 ms to 600000 ms
     * @return one range, and whether it is an earlier call's
     * @throws LeafdException they did not come by then
     */
    public StrictIds next(int n, String key, Duration deadline) {
        return next(n, key, false, Names.deadlineNanos(deadline));
    }

    private StrictIds next(int n, String key, boolean own, long deadlineNanos) {
        return calls.await(ask(n, key, own, deadlineNanos), deadlineNanos);
    }

    /**
     * The next id, without waiting for it.
     *
     * @return ends with the id, or with a {@link LeafdException} by the client's deadline
     */
    public CompletableFuture<Long> nextAsync() {
        return core.handOut(ask(1, Names.newKey(), true, core.defaultDeadline()))
                .thenApply(StrictIds::first);
    }

    /**
     * The next n ids, or those of an earlier call with the same key, without waiting for them.
     *
     * @param n 1 to 100000
     * @param key 1 to 128 printable ASCII characters
     * @return ends with the ids, or with a {@link LeafdException} by the client's deadline
     */
    public CompletableFuture<StrictIds> nextAsync(int n, String key) {
        return core.handOut(ask(n, key, false, core.defaultDeadline()));
    }

    /** Later calls get {@code closed}. */
    @Override
    public void close() {
        closed = true;
    }

    /** own: nobody else knows the key. */
    private Asked<StrictIds> ask(int n, String key, boolean own, long deadlineNanos) {
        Names.checkCount(n);
        Names.checkKey(key);
        if (closed) {
            throw core.counted(LeafdException.closed());
        }
        return calls.ask(question(
                new Known.Question(n, known.stepped, true, key, known.top, own), deadlineNanos));
    }

    private SingleCalls.Question<StrictIds> question(Known.Question asked, long deadlineNanos) {
        SingleCalls.Question<StrictIds> question = new SingleCalls.Question<>(core.ids,
                target + asked.count + Known.options(asked.stepped), asked.key, deadlineNanos,
                outcome -> read(outcome, asked));
        question.instead = error -> known.repeats(error, asked.stepped)
                ? question(asked.inSteps(), deadlineNanos) : null;
        question.check = outcome ->
                known.check(outcome, asked, () -> core.counters.burnt.add(asked.count));
        return question;
    }

    private StrictIds read(Outcome outcome, Known.Question asked) {
        List<IdRange> ranges = Answers.ranges(outcome, asked.count, asked.stepped);
        if (ranges.size() != 1) {
            throw Answers.bad(outcome, "several ranges, as no strict tag has");
        }
        known.note(outcome, ranges, asked.key);
        core.ids.measured(System.nanoTime() - outcome.askedNanos());
        core.counters.strictIds.add(asked.count);
        return new StrictIds(ranges.get(0), asked.key, Answers.isReplayed(outcome));
    }
}
