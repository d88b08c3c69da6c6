package io.leafd.client;

import io.leafd.client.net.Call;
import io.leafd.client.net.Cluster;
import io.leafd.client.net.Outcome;
import io.leafd.client.net.Request;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Function;
import java.util.function.Predicate;

/**
 * Calls of sources that hold nothing: each is one request with all its retries.
 *
 * <p>Happy path: {@link #ask}; its future ends with what the reader makes of the answer. Failure
 * modes: a {@link LeafdException}, which has the key that was sent; too many calls at once. Any
 * thread.
 */
final class SingleCalls {
    private final Core core;
    private final AtomicInteger underWay = new AtomicInteger();

    SingleCalls(Core core) {
        this.core = core;
    }

    /** What is asked for: a GET of a path with its query, by a key that may be null. */
    static final class Question<T> {
        final Cluster cluster;
        final String target;
        final String key;
        final long deadlineNanos;
        final Function<Outcome, T> read;

        Question(Cluster cluster, String target, String key, long deadlineNanos,
                Function<Outcome, T> read) {
            this.cluster = cluster;
            this.target = target;
            this.key = key;
            this.deadlineNanos = deadlineNanos;
            this.read = read;
        }

        /** The same without a key. */
        Question<T> keyless() {
            return new Question<>(cluster, target, null, deadlineNanos, read);
        }
    }

    <T> Asked<T> ask(Question<T> question) {
        return ask(question, error -> false);
    }

    /** Of an error for which keyless is true the same is asked again without a key. */
    <T> Asked<T> ask(Question<T> question, Predicate<LeafdException> keyless) {
        Asked<T> future = new Asked<>();
        future.key = question.key;
        if (underWay.incrementAndGet() > Core.MAX_WAITING) {
            underWay.decrementAndGet();
            future.completeExceptionally(
                    LeafdException.overloaded(Core.MAX_WAITING).withKey(question.key));
            return future;
        }
        future.whenComplete((value, error) -> underWay.decrementAndGet());
        core.counters.waits.increment();
        send(future, question, keyless);
        return future;
    }

    private <T> void send(Asked<T> future, Question<T> question,
            Predicate<LeafdException> keyless) {
        Request request = Request.get(question.target, question.key);
        future.key = question.key;
        core.submit(future, () -> future.call = Call.start(question.cluster, () -> request,
                question.deadlineNanos, () -> true,
                outcome -> finish(future, outcome, question, keyless)));
    }

    private <T> void finish(Asked<T> future, Outcome outcome, Question<T> question,
            Predicate<LeafdException> keyless) {
        try {
            future.complete(question.read.apply(outcome));
        } catch (LeafdException e) {
            if (keyless.test(e)) {
                send(future, question.keyless(), error -> false);
            } else {
                future.completeExceptionally(e.withKey(question.key));
            }
        }
    }

    /** Waits for it; an error has the key. */
    <T> T await(Asked<T> future, long deadlineNanos) {
        try {
            return core.await(future, deadlineNanos);
        } catch (LeafdException e) {
            throw e.withKey(future.key);
        }
    }
}
