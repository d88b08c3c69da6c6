package io.leafd.client.net;

import java.util.concurrent.ThreadLocalRandom;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.Supplier;

/**
 * One call: attempts at one address after the other, until one is answered for good.
 *
 * <p>Happy path: the first attempt, at the preferred address, gets an answer. An attempt that
 * breaks or takes too long, and a 503, lead to the next address; once all have failed the call
 * waits: 20 ms, doubled each round up to a second, of which a random half to all, and at least what
 * Retry-After said. A 429 `quota` waits at the same address. It ends once: with an answer, at its
 * deadline, when nobody wants it any more, or with the client. Owner: the loop's thread, but for
 * {@link #describe}.
 */
public final class Call {
    /** A call that goes on as long as it is wanted. */
    public static final long NO_DEADLINE = Long.MAX_VALUE;
    private static final long FIRST_WAIT_NANOS = 20_000_000;
    private static final long LAST_WAIT_NANOS = 1_000_000_000;

    private final Cluster cluster;
    private final Supplier<Request> request;
    private final long deadlineNanos;
    private final BooleanSupplier wanted;
    private final Consumer<Outcome> done;
    private final int only;
    private final Function<Response, String> check;
    private final Runnable onRound;
    private volatile String[] failures;
    private volatile Response lastRefusal;
    private int index;
    private int tried;
    private int untrusted;
    private int round;
    private boolean first = true;
    private boolean stay;
    private long retryAfterNanos;
    private Loop.Timer timer;
    private boolean ended;
    private boolean asking;
    private long askedNanos;

    private Call(Cluster cluster, Supplier<Request> request, long deadlineNanos,
            BooleanSupplier wanted, Consumer<Outcome> done, int only,
            Function<Response, String> check, Runnable onRound) {
        this.cluster = cluster;
        this.request = request;
        this.deadlineNanos = deadlineNanos;
        this.wanted = wanted;
        this.done = done;
        this.only = only;
        this.check = check;
        this.onRound = onRound;
        failures = new String[cluster.size()];
    }

    /**
     * Begins a call. The request is made anew for each time that it is sent; done runs on the
     * loop's thread, later than this returns or before.
     *
     * @param deadlineNanos by System.nanoTime(), or {@link #NO_DEADLINE}
     * @param wanted is asked before each attempt but the first
     */
    public static Call start(Cluster cluster, Supplier<Request> request, long deadlineNanos,
            BooleanSupplier wanted, Consumer<Outcome> done) {
        return start(cluster, request, deadlineNanos, wanted, done, -1, response -> null,
                () -> { });
    }

    /**
     * The same for ids.
     *
     * @param from the place of the node that is asked first; -1: the preferred one
     * @param check says why a good answer is none for its caller, so that the next node is asked;
     *     null: it is one
     * @param onRound is run where all nodes of a round have failed
     */
    public static Call start(Cluster cluster, Supplier<Request> request, long deadlineNanos,
            BooleanSupplier wanted, Consumer<Outcome> done, int from,
            Function<Response, String> check, Runnable onRound) {
        Call call = new Call(cluster, request, deadlineNanos, wanted, done, -1, check, onRound);
        cluster.calls.add(call);
        if (from >= 0) {
            call.index = from;
            call.stay = true;
        }
        call.nextRound();
        return call;
    }

    /** The place of the node that is asked, or will be next. */
    public int node() {
        return index;
    }

    /** When a second node may be asked beside this call's, whose caller waits. */
    public long secondNanos() {
        return (asking ? askedNanos : System.nanoTime()) + cluster.patienceNanos();
    }

    /** The same for one attempt at the node of this place alone. */
    public static Call once(Cluster cluster, int node, Supplier<Request> request,
            long deadlineNanos, Consumer<Outcome> done) {
        Call call = new Call(cluster, request, deadlineNanos, () -> true, done, node,
                response -> null, () -> { });
        cluster.calls.add(call);
        call.nextRound();
        return call;
    }

    /** The last failure of each address, in one line. From any thread. */
    public String describe() {
        StringBuilder out = new StringBuilder();
        String[] now = failures;
        for (int i = 0; i < now.length; i++) {
            if (now[i] != null) {
                out.append(out.length() == 0 ? "" : "; ");
                out.append(cluster.endpoints.get(i).address()).append(": ").append(now[i]);
            }
        }
        return out.length() == 0 ? "no answer yet" : out.toString();
    }

    /** The last 503, or 429 `quota`, or null. From any thread. */
    public Response lastRefusal() {
        return lastRefusal;
    }

    /** Ends it with {@link Outcome.Kind#CLOSED}. */
    void abandon() {
        end(new Outcome(Outcome.Kind.CLOSED, null, index, ""));
    }

    private boolean isOver() {
        return deadlineNanos != NO_DEADLINE && deadlineNanos - System.nanoTime() <= 0;
    }

    private void nextRound() {
        timer = null;
        if (ended) {
            return;
        }
        if (!first && !wanted.getAsBoolean()) {
            end(new Outcome(Outcome.Kind.UNWANTED, null, index, ""));
            return;
        }
        index = only >= 0 ? only : stay ? index : cluster.preferred();
        stay = false;
        tried = 0;
        untrusted = 0;
        retryAfterNanos = 0;
        attempt();
    }

    private void attempt() {
        if (isOver()) {
            unreachable();
            return;
        }
        cluster.counters.requests.increment();
        if (!first) {
            cluster.counters.retries.increment();
        }
        first = false;
        cluster.endpoints.get(index).start(new Try());
    }

    /** One attempt of this call. */
    private final class Try extends Attempt {
        Try() {
            super(Call.this.request);
        }

        @Override
        boolean begin() {
            if (ended) {
                return false;
            }
            if (isOver()) {
                if (failures[index] == null) {
                    note("all connections are in use");
                }
                unreachable();
                return false;
            }
            long now = System.nanoTime();
            asking = true;
            askedNanos = now;
            long left = Call.this.deadlineNanos == NO_DEADLINE ? NO_DEADLINE
                    : Call.this.deadlineNanos - now;
            int nodesLeft = only >= 0 ? 1 : cluster.size() - tried;
            deadlineNanos = now + cluster.limits.attemptNanos(round, left, nodesLeft);
            connectNanos = cluster.limits.connectNanos(round);
            return true;
        }

        @Override
        void answered(Response response) {
            if (!ended) {
                judge(response);
            }
        }

        @Override
        void broken(String why) {
            if (!ended) {
                fail(why);
            }
        }

        @Override
        void untrusted(String why) {
            if (!ended) {
                untrusted++;
                fail(why);
            }
        }

        @Override
        void garbage(String why) {
            if (!ended) {
                cluster.leave(index);
                end(new Outcome(Outcome.Kind.GARBAGE, null, index, url() + ": " + why));
            }
        }
    }

    private String url() {
        return cluster.endpoints.get(index).address().toString();
    }

    private void judge(Response response) {
        boolean quota = response.status() == 429 && response.code().equals("quota");
        String unfit = response.status() == 200 ? check.apply(response) : null;
        if (unfit != null) {
            fail(unfit);
            return;
        }
        if (response.status() != 503 && !quota) {
            boolean foreign = response.status() >= 300 && response.code().isEmpty();
            if (foreign || (!response.keepAlive() && only < 0)) {
                cluster.leave(index); // it is no leafd, or about to stop
            }
            end(new Outcome(Outcome.Kind.ANSWER, response, index, url(), askedNanos));
            return;
        }
        lastRefusal = response;
        long after = response.retryAfterMs() * 1_000_000;
        String why = (response.status() + " " + response.code() + ": " + response.message()).trim();
        if (quota) {
            note(why);
            stay = true; // the quota is of this client
            waitFor(Math.max(after, FIRST_WAIT_NANOS));
            return;
        }
        retryAfterNanos = Math.max(retryAfterNanos, after);
        fail(why);
    }

    private void note(String why) {
        String[] now = failures.clone();
        now[index] = why;
        failures = now;
    }

    private void fail(String why) {
        // What the deadline cut short says less than what went wrong there before.
        if (failures[index] == null || !isOver()) {
            note(why);
        }
        tried++;
        if (only >= 0) {
            unreachable();
            return;
        }
        cluster.leave(index);
        if (tried < cluster.size()) {
            index = (index + 1) % cluster.size();
            if (wanted.getAsBoolean()) {
                attempt();
            } else {
                end(new Outcome(Outcome.Kind.UNWANTED, null, index, ""));
            }
            return;
        }
        if (untrusted == cluster.size()) { // which no other round would change
            end(new Outcome(Outcome.Kind.UNTRUSTED, null, index, describe()));
            return;
        }
        long most = Math.min(LAST_WAIT_NANOS, FIRST_WAIT_NANOS << Math.min(round++, 10));
        long wait = most / 2 + ThreadLocalRandom.current().nextLong(most / 2 + 1);
        onRound.run();
        waitFor(Math.max(wait, retryAfterNanos));
    }

    /** At most until the deadline, where the call ends without another attempt. */
    private void waitFor(long nanos) {
        asking = false;
        long end = System.nanoTime() + nanos;
        if (deadlineNanos != NO_DEADLINE && end - deadlineNanos > 0) {
            end = deadlineNanos;
        }
        timer = cluster.loop.schedule(end, this::nextRound);
    }

    private void unreachable() {
        end(new Outcome(Outcome.Kind.UNREACHABLE, lastRefusal, index, describe()));
    }

    private void end(Outcome outcome) {
        if (ended) {
            return;
        }
        ended = true;
        cluster.calls.remove(this);
        if (timer != null) {
            timer.cancel();
        }
        done.accept(outcome);
    }
}
