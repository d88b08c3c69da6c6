package io.leafd.client.net;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ThreadLocalRandom;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.Supplier;

/**
 * One call: attempts at one node after the other, until one is answered for good.
 *
 * <p>Happy path: the first attempt, at the preferred node, gets an answer. An attempt that breaks
 * or takes too long, and a 502 to 504, lead to the next node; once all have failed the call
 * waits: 20 ms, doubled each round up to a second, of which a random half to all, and at least what
 * Retry-After said. A 429 `quota` waits at the same node. It ends once: with an answer, at its
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
    private final Endpoint only;
    private final Function<Outcome, String> check;
    private final Runnable onRound;
    private volatile Map<Endpoint, String> failures = Map.of();
    private volatile Response lastRefusal;
    private List<Endpoint> endpoints; // of this round, in the order in which they are asked
    private Endpoint endpoint;
    private int tried;
    private int untrusted;
    private int round;
    private int waits; // of a random time
    private boolean first = true;
    private boolean failed; // all of the last round
    private boolean stay;
    private long retryAfterNanos;
    private Loop.Timer timer;
    private boolean ended;
    private boolean asking;
    private long askedNanos;

    private Call(Cluster cluster, Supplier<Request> request, long deadlineNanos,
            BooleanSupplier wanted, Consumer<Outcome> done, Endpoint only,
            Function<Outcome, String> check, Runnable onRound) {
        this.cluster = cluster;
        this.request = request;
        this.deadlineNanos = deadlineNanos;
        this.wanted = wanted;
        this.done = done;
        this.only = only;
        this.check = check;
        this.onRound = onRound;
        endpoint = only != null ? only : cluster.preferred();
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
        return start(cluster, request, deadlineNanos, wanted, done, null, outcome -> null,
                () -> { });
    }

    /**
     * The same for ids.
     *
     * @param from the node that is asked first; null: the preferred one
     * @param check says why a good answer is none for its caller, so that the next node is asked;
     *     null: it is one
     * @param onRound is run where all nodes of a round have failed
     */
    public static Call start(Cluster cluster, Supplier<Request> request, long deadlineNanos,
            BooleanSupplier wanted, Consumer<Outcome> done, Endpoint from,
            Function<Outcome, String> check, Runnable onRound) {
        Call call = new Call(cluster, request, deadlineNanos, wanted, done, null, check, onRound);
        cluster.calls.add(call);
        if (from != null) {
            call.endpoint = from;
            call.stay = true;
        }
        call.nextRound();
        return call;
    }

    /** The node that is asked, or will be next. */
    public Endpoint node() {
        return endpoint;
    }

    /** When a second node may be asked beside this call's, whose caller waits. */
    public long secondNanos() {
        return (asking && cluster.size() > 1 ? askedNanos : System.nanoTime())
                + cluster.patienceNanos();
    }

    /** The same for one attempt at this node alone. */
    public static Call once(Cluster cluster, Endpoint node, Supplier<Request> request,
            long deadlineNanos, Consumer<Outcome> done) {
        Call call = new Call(cluster, request, deadlineNanos, () -> true, done, node,
                response -> null, () -> { });
        cluster.calls.add(call);
        call.nextRound();
        return call;
    }

    /** The last failure of each node, in one line. From any thread. */
    public String describe() {
        StringBuilder out = new StringBuilder();
        failures.forEach((node, why) -> {
            out.append(out.length() == 0 ? "" : "; ");
            out.append(node).append(": ").append(why);
        });
        return out.length() == 0 ? "no answer yet" : out.toString();
    }

    /** The last 502 to 504, or 429 `quota`, or null. From any thread. */
    public Response lastRefusal() {
        return lastRefusal;
    }

    /** Ends it with {@link Outcome.Kind#CLOSED}. */
    void abandon() {
        end(new Outcome(Outcome.Kind.CLOSED, null, endpoint, ""));
    }

    private boolean isOver() {
        return deadlineNanos != NO_DEADLINE && deadlineNanos - System.nanoTime() <= 0;
    }

    private void nextRound() {
        timer = null;
        if (ended) {
            return;
        }
        if (only != null || stay) {
            beginRound();
            return;
        }
        long until = System.nanoTime() + cluster.limits.connectNanos(0);
        boolean cut = deadlineNanos != NO_DEADLINE && deadlineNanos - until < 0;
        Runnable begin = () -> cluster.resolve(failed, cut ? deadlineNanos : until, this::beginRound);
        if (cluster.discovery == null) {
            begin.run();
        } else {
            cluster.discovery.look(failed, deadlineNanos == NO_DEADLINE ? NO_DEADLINE
                    : deadlineNanos - System.nanoTime(), begin);
        }
    }

    private void beginRound() {
        if (ended) {
            return;
        }
        if (!first && !wanted.getAsBoolean()) {
            end(new Outcome(Outcome.Kind.UNWANTED, null, endpoint, ""));
            return;
        }
        List<Endpoint> now = cluster.endpoints();
        if (!now.containsAll(failures.keySet())) {
            Map<Endpoint, String> known = new LinkedHashMap<>(failures);
            known.keySet().retainAll(now);
            failures = known.isEmpty() ? failures : known;
        }
        endpoint = only != null ? only : stay && now.contains(endpoint) ? endpoint
                : cluster.preferred();
        endpoints = only != null ? List.of(only) : cluster.route(endpoint);
        stay = false;
        failed = false;
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
        if (cluster.discovery != null && cluster.discovery.isForeign(endpoint)) {
            String of = cluster.discovery.foreign(endpoint);
            if (only == null && endpoints.stream().allMatch(cluster.discovery::isForeign)) {
                end(new Outcome(Outcome.Kind.FOREIGN, null, endpoint, of));
            } else {
                fail("it is of " + of);
            }
            return;
        }
        cluster.counters.requests.increment();
        if (!first) {
            cluster.counters.retries.increment();
        }
        first = false;
        endpoint.start(new Try());
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
                if (failures.get(endpoint) == null) {
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
            deadlineNanos = now + cluster.limits.attemptNanos(round, left,
                    endpoints.size() - tried, only != null ? 1 : cluster.sharers(endpoint));
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
        void tooLong(String why) {
            if (!ended) {
                end(new Outcome(Outcome.Kind.TOO_LONG, null, endpoint, url() + ": " + why));
            }
        }
    }

    private String url() {
        return endpoint.toString();
    }

    private void judge(Response response) {
        boolean quota = response.status() == 429 && response.code().equals("quota");
        Outcome answer =
                new Outcome(Outcome.Kind.ANSWER, response, endpoint, url(), askedNanos);
        String unfit = response.status() == 200 ? check.apply(answer) : null;
        if (unfit != null) {
            fail(unfit);
            return;
        }
        boolean away = response.status() >= 502 && response.status() <= 504;
        if (!away && !quota) {
            if (response.status() >= 300 && response.code().isEmpty()) {
                cluster.leave(endpoint); // it is no leafd: the next call begins elsewhere
            }
            end(answer);
            return;
        }
        lastRefusal = response;
        long after = response.retryAfterMs() * 1_000_000;
        String why = (response.status() + " " + response.code() + ": " + response.message()).trim();
        if (quota) {
            note(why);
            stay = true; // the quota is of this client
            waitFor(Math.max(roundWait(), after));
            return;
        }
        retryAfterNanos = Math.max(retryAfterNanos, after);
        fail(why);
    }

    private void note(String why) {
        Map<Endpoint, String> now = new LinkedHashMap<>(failures);
        now.put(endpoint, why);
        failures = now;
    }

    private void fail(String why) {
        // What the deadline cut short says less than what went wrong there before.
        if (failures.get(endpoint) == null || !isOver()) {
            note(why);
        }
        tried++;
        if (only != null) {
            unreachable();
            return;
        }
        Endpoint next = endpoints.get(tried % endpoints.size());
        cluster.leave(endpoint, next);
        if (tried < endpoints.size()) {
            endpoint = next;
            if (wanted.getAsBoolean()) {
                attempt();
            } else {
                end(new Outcome(Outcome.Kind.UNWANTED, null, endpoint, ""));
            }
            return;
        }
        if (untrusted == endpoints.size()) { // which no other round would change
            end(new Outcome(Outcome.Kind.UNTRUSTED, null, endpoint, describe()));
            return;
        }
        round++;
        failed = true;
        onRound.run();
        waitFor(Math.max(roundWait(), retryAfterNanos));
    }

    /** After a round, or a quota: a random half to all of a time that doubles. */
    private long roundWait() {
        long most = Math.min(LAST_WAIT_NANOS, FIRST_WAIT_NANOS << Math.min(waits++, 10));
        return most / 2 + ThreadLocalRandom.current().nextLong(most / 2 + 1);
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
        end(new Outcome(Outcome.Kind.UNREACHABLE, lastRefusal, endpoint, describe()));
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
