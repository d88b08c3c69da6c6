package io.leafd.client;

import io.leafd.client.net.Outcome;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;

/**
 * Ids of a tag as texts, as the server writes them: in the tag's shape, if it has one.
 *
 * <p>Happy path: each call is one request, sent with an {@code Idempotency-Key}, so that a retry
 * gets the texts of the first try. A tag of mode trend takes none: the first call finds that out,
 * and the source keeps it. Failure modes: an error by the deadline, which has the key if there was
 * one ({@link LeafdException#idempotencyKey}). Any thread, in any number.
 */
public final class TextSource implements AutoCloseable {
    private final Core core;
    private final SingleCalls calls;
    private final String tag;
    private final String target;
    private final String decodeTarget;
    private final Known known = new Known();
    private volatile boolean keyed = true;
    private volatile boolean closed;

    TextSource(Core core, SingleCalls calls, String tag) {
        this.core = core;
        this.calls = calls;
        this.tag = Names.check("the tag", tag);
        target = "/api/segment/get/" + Names.encode(tag) + "?count=";
        decodeTarget = "/api/segment/decode/" + Names.encode(tag) + "?text=";
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
     * @return a text
     * @throws LeafdException none came by the client's deadline
     */
    public String next() {
        return next(1).first();
    }

    /**
     * The next n ids.
     *
     * @param n 1 to 1000
     * @return the texts
     * @throws LeafdException they did not come by the client's deadline
     */
    public TextIds next(int n) {
        return next(n, Duration.ofMillis(core.settings.deadlineMs));
    }

    /**
     * The next n ids, by a deadline of their own.
     *
     * @param n 1 to 1000
     * @param deadline 1 ms to 600000 ms
     * @return the texts
     * @throws LeafdException they did not come by then
     */
    public TextIds next(int n, Duration deadline) {
        long deadlineNanos = Names.deadlineNanos(deadline);
        return calls.await(ask(n, deadlineNanos), deadlineNanos);
    }

    /**
     * The next n ids, or those of an earlier call with the same key. Not of a tag of mode trend.
     *
     * @param n 1 to 1000
     * @param key 1 to 128 printable ASCII characters
     * @return the texts, and whether they are an earlier call's
     * @throws LeafdException they did not come by the client's deadline
     */
    public TextIds next(int n, String key) {
        return next(n, key, Duration.ofMillis(core.settings.deadlineMs));
    }

    /**
     * The next n ids, or those of an earlier call with the same key, by a deadline of their own.
     *
     * @param n 1 to 1000
     * @param key 1 to 128 printable ASCII characters
     * @param deadline 1 ms to 600000 ms
     * @return the texts, and whether they are an earlier call's
     * @throws LeafdException they did not come by then
     */
    public TextIds next(int n, String key, Duration deadline) {
        long deadlineNanos = Names.deadlineNanos(deadline);
        return calls.await(calls.ask(question(n, Names.checkKey(key), deadlineNanos)),
                deadlineNanos);
    }

    /**
     * The next id, without waiting for it.
     *
     * @return ends with the text, or with a {@link LeafdException} by the client's deadline
     */
    public CompletableFuture<String> nextAsync() {
        return nextAsync(1).thenApply(TextIds::first);
    }

    /**
     * The next n ids, without waiting for them.
     *
     * @param n 1 to 1000
     * @return ends with the texts, or with a {@link LeafdException} by the client's deadline
     */
    public CompletableFuture<TextIds> nextAsync(int n) {
        return core.handOut(ask(n, core.defaultDeadline()));
    }

    /**
     * The number of a text of this tag, whether or not it was granted to anyone. It asks the admin
     * endpoints.
     *
     * @param text 1 to 130 visible ASCII characters
     * @return 0 or more
     * @throws LeafdException {@code bad_id}: no text of the tag's shape, or its check is wrong
     */
    public long decode(String text) {
        return decode(text, Duration.ofMillis(core.settings.deadlineMs));
    }

    /**
     * The number of a text of this tag, by a deadline of its own.
     *
     * @param text 1 to 130 visible ASCII characters
     * @param deadline 1 ms to 600000 ms
     * @return 0 or more
     * @throws LeafdException {@code bad_id}: no text of the tag's shape, or its check is wrong
     */
    public long decode(String text, Duration deadline) {
        long deadlineNanos = Names.deadlineNanos(deadline);
        if (closed) {
            throw core.counted(LeafdException.closed());
        }
        return calls.await(calls.ask(new SingleCalls.Question<>(core.admin,
                decodeTarget + Names.encode(Names.checkText(text)), null, deadlineNanos,
                Answers::textId)), deadlineNanos);
    }

    /** Later calls get {@code closed}. */
    @Override
    public void close() {
        closed = true;
    }

    private Asked<TextIds> ask(int n, long deadlineNanos) {
        SingleCalls.Question<TextIds> question =
                question(n, keyed ? Names.newKey() : null, deadlineNanos);
        question.instead = error -> {
            if (question.key == null || !error.code().equals("bad_key")) {
                return null;
            }
            keyed = false;
            return question(n, null, deadlineNanos);
        };
        return calls.ask(question);
    }

    private SingleCalls.Question<TextIds> question(int n, String key, long deadlineNanos) {
        Names.checkTextCount(n);
        if (closed) {
            throw core.counted(LeafdException.closed());
        }
        SingleCalls.Question<TextIds> question = new SingleCalls.Question<>(core.ids, target + n,
                key, deadlineNanos, outcome -> read(outcome, n, key));
        question.check = outcome -> known.checkTexts(outcome, n, key);
        return question;
    }

    private TextIds read(Outcome outcome, int n, String key) {
        TextIds ids = new TextIds(Answers.texts(outcome, n), Answers.isReplayed(outcome));
        known.note(outcome, List.of(Known.rangeOf(ids.first())), key);
        core.counters.strictIds.add(n);
        return ids;
    }
}
