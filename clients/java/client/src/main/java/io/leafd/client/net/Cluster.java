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
    private int preferred;

    /** tls is needed where an address is https. */
    public Cluster(Loop loop, List<Address> addresses, Tls tls, Token token, Counters counters,
            Limits limits) {
        this.loop = loop;
        this.counters = counters;
        this.limits = limits;
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
        }
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
