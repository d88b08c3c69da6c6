package io.leafd.client;

import io.leafd.client.net.Call;
import io.leafd.client.net.Cluster;
import io.leafd.client.net.Endpoint;
import io.leafd.client.net.Outcome;
import io.leafd.client.net.Request;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Function;

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
        /** Of an error: what is asked in its place; null: the error is told. */
        Function<LeafdException, Question<T>> instead = error -> null;
        /** As of {@link Call#start}. */
        Function<Outcome, String> check = outcome -> null;

        Question(Cluster cluster, String target, String key, long deadlineNanos,
                Function<Outcome, T> read) {
            this.cluster = cluster;
            this.target = target;
            this.key = key;
            this.deadlineNanos = deadlineNanos;
            this.read = read;
        }
    }

    <T> Asked<T> ask(Question<T> question) {
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
        send(future, question);
        return future;
    }

    private <T> void send(Asked<T> future, Question<T> question) {
        future.key = question.key;
        core.submit(future, () -> new Pair<>(future, question).begin());
    }

    /**
     * The call of a question, and a second one beside it, at the next node, where the first takes
     * long. Without a key there is none: two answers would be ids of two. Owner: the loop's thread.
     */
    private final class Pair<T> {
        private final Asked<T> future;
        private final Question<T> question;
        private Call first;
        private int calls;
        private boolean over;

        Pair(Asked<T> future, Question<T> question) {
            this.future = future;
            this.question = question;
        }

        void begin() {
            first = start(null);
            future.call = first;
            if (question.key != null && !question.cluster.isAlone()) {
                look();
            }
        }

        private Call start(Endpoint node) {
            calls++;
            Request request = Request.get(question.target, question.key);
            return Call.start(question.cluster, () -> request, question.deadlineNanos, () -> !over,
                    outcome -> ended(outcome, node != null), node, question.check, () -> { });
        }

        private void look() {
            if (over || calls != 1) {
                return;
            }
            long due = first.secondNanos();
            if (due - System.nanoTime() > 0) {
                core.loop.schedule(due, this::look);
                return;
            }
            Endpoint node = question.cluster.after(first.node());
            if (node != null) {
                core.counters.hedges.increment();
                start(node);
            }
        }

        private void ended(Outcome outcome, boolean second) {
            calls--;
            if (over) {
                return;
            }
            try {
                T value = question.read.apply(outcome);
                over = true;
                if (second) {
                    question.cluster.leave(first.node()); // where the next call would begin
                }
                future.complete(value);
            } catch (LeafdException e) {
                if (calls > 0 && !Answers.isFinal(e)) {
                    return;
                }
                over = true;
                Question<T> instead = question.instead.apply(e);
                if (instead != null) {
                    send(future, instead);
                } else {
                    future.completeExceptionally(e.withKey(question.key));
                }
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
