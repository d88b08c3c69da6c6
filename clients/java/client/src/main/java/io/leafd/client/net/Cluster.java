package io.leafd.client.net;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ThreadLocalRandom;

/**
 * The addresses of one door, the one that calls begin with, and the calls under way.
 *
 * <p>It begins with a random one and stays there as long as that one answers. Owner: the loop's
 * thread.
 */
public final class Cluster {
    final Loop loop;
    final Counters counters;
    final List<Endpoint> endpoints = new ArrayList<>();
    final Set<Call> calls = new HashSet<>();
    final Limits limits;
    private static final long USUAL_LEAST_NANOS = 20_000_000;
    private final FailoverHook failedOver;
    private int preferred;
    private long usualNanos; // 0: no answer was measured

    /** Is given the addresses that were left, and gone to. */
    public interface FailoverHook {
        /** On the loop's thread. */
        void failedOver(String from, String to);
    }

    /** tls is needed where an address is https. */
    public Cluster(Loop loop, List<Address> addresses, Tls tls, Token token, Counters counters,
            Limits limits, FailoverHook failedOver) {
        this.loop = loop;
        this.counters = counters;
        this.limits = limits;
        this.failedOver = failedOver;
        for (Address address : addresses) {
            endpoints.add(new Endpoint(loop, address, tls, token));
        }
        preferred = ThreadLocalRandom.current().nextInt(addresses.size());
    }

    /** How many addresses there are. */
    public int size() {
        return endpoints.size();
    }

    int preferred() {
        return preferred;
    }

    /** The node at this place does not answer, or is about to stop: others begin at the next. */
    public void leave(int index) {
        if (preferred == index && endpoints.size() > 1) {
            preferred = (index + 1) % endpoints.size();
            counters.failovers.increment();
            failedOver.failedOver(endpoints.get(index).address().toString(),
                    endpoints.get(preferred).address().toString());
        }
    }

    /** An answer with ranges took so long; a moving average remembers it. */
    public void measured(long nanos) {
        usualNanos = Math.max(1, usualNanos == 0 ? nanos : usualNanos + (nanos - usualNanos) / 8);
    }

    /** How long a caller waits for an answer until a second node is asked. */
    public long patienceNanos() {
        return 2 * (usualNanos == 0 ? limits.connectMs() * 1_000_000
                : Math.max(usualNanos, USUAL_LEAST_NANOS));
    }

    /** Ends all calls with null, and closes all connections. */
    public void close() {
        for (Call call : new ArrayList<>(calls)) {
            call.abandon();
        }
        for (Endpoint endpoint : endpoints) {
            endpoint.abandon();
        }
    }
}
