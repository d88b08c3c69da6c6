package io.leafd.client.net;

import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ThreadLocalRandom;

/**
 * The nodes for one kind of requests, the one that calls begin with, and the calls under way.
 *
 * <p>It begins with a random one and stays there as long as that one answers. An address whose host
 * is a name is as many nodes as the name has addresses; while these are not known, it is one, which
 * cannot be reached. A name is resolved by a thread of its own, one at a time, since a resolver may
 * take any time. Owner: the loop's thread.
 */
public final class Cluster {
    final Loop loop;
    final Counters counters;
    final Set<Call> calls = new HashSet<>();
    final Limits limits;
    private static final int MAX_ENDPOINTS = 64;
    private static final long USUAL_LEAST_NANOS = 20_000_000;
    private static final long RESOLVE_AGAIN_NANOS = 30_000_000_000L;
    private static final int SPELLINGS_BITS = 8;
    private final List<Address> addresses;
    private final Tls tls;
    private final Token token;
    private final FailoverHook failedOver;
    private final Set<String> names = new LinkedHashSet<>();
    final Set<String> lookups = new HashSet<>(); // names that are being resolved
    private final Set<Runnable> waiting = new LinkedHashSet<>(); // until there are none
    private boolean resolved;
    long resolvedNanos; // when a call last had names resolved
    private int spelling;
    private List<Endpoint> endpoints = new ArrayList<>(); // never changed, but replaced
    private Endpoint preferred;
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
        this.addresses = addresses;
        this.tls = tls;
        this.token = token;
        this.counters = counters;
        this.limits = limits;
        this.failedOver = failedOver;
        for (Address address : addresses) {
            InetAddress literal = literal(address.host());
            if (literal == null) {
                names.add(address.host());
            }
            endpoints.add(new Endpoint(loop, address, literal, address.toString(), tls, token));
        }
        preferred = anyEndpoint();
    }

    private Endpoint anyEndpoint() {
        return endpoints.get(ThreadLocalRandom.current().nextInt(endpoints.size()));
    }

    /** The address that the text is, without asking anybody; null: it is a name. */
    private static InetAddress literal(String host) {
        if (!host.matches("[0-9]+(\\.[0-9]+){3}") && host.indexOf(':') < 0) {
            return null;
        }
        try {
            return InetAddress.getByName(host);
        } catch (UnknownHostException e) {
            return null;
        }
    }

    /** How many nodes there are now. */
    public int size() {
        return endpoints.size();
    }

    /** There is one node, and never another. */
    public boolean isAlone() {
        return endpoints.size() == 1 && names.isEmpty();
    }

    List<Endpoint> endpoints() {
        return endpoints;
    }

    Endpoint preferred() {
        return preferred;
    }

    /** The node after this one. */
    public Endpoint after(Endpoint endpoint) {
        return endpoints.get((endpoints.indexOf(endpoint) + 1) % endpoints.size());
    }

    /** All but this one, beginning with the one after it. */
    public List<Endpoint> others(Endpoint endpoint) {
        List<Endpoint> others = new ArrayList<>(endpoints);
        int at = others.indexOf(endpoint);
        Collections.rotate(others, -(at + 1));
        others.remove(endpoint);
        return others;
    }

    /** The node does not answer, or is about to stop: others begin at the next. */
    public void leave(Endpoint endpoint) {
        if (preferred == endpoint && endpoints.size() > 1) {
            preferred = after(endpoint);
            counters.failovers.increment();
            failedOver.failedOver(endpoint.toString(), preferred.toString());
        }
    }

    /**
     * A round of nodes begins. Names are resolved before it where none was yet, or where failed
     * says that all nodes have, and beside it once 30 s have passed.
     *
     * @param then begins the round; it is run at once, or by untilNanos, by System.nanoTime()
     */
    void resolve(boolean failed, long untilNanos, Runnable then) {
        boolean waits = failed || !resolved;
        if (names.isEmpty()
                || !(waits || System.nanoTime() - resolvedNanos >= RESOLVE_AGAIN_NANOS)) {
            then.run();
            return;
        }
        for (String name : names) {
            if (lookups.add(name)) {
                lookUp(name, spelled(name, spelling++));
            }
        }
        if (!waits) {
            resolvedNanos = System.nanoTime();
            then.run();
            return;
        }
        waiting.add(new Runnable() {
            private Loop.Timer timer = loop.schedule(untilNanos, this);

            @Override
            public void run() {
                if (timer != null) {
                    timer.cancel();
                    timer = null;
                    waiting.remove(this);
                    resolved = true;
                    resolvedNanos = System.nanoTime();
                    then.run();
                }
            }
        });
    }

    private void lookUp(String name, String spelled) {
        Thread thread = new Thread(() -> {
            InetAddress[] found;
            try {
                found = InetAddress.getAllByName(spelled);
            } catch (UnknownHostException | SecurityException e) {
                found = new InetAddress[0];
            }
            InetAddress[] ips = found;
            loop.execute(() -> lookedUp(name, ips));
        }, "leafd-client-lookup");
        thread.setDaemon(true);
        thread.start();
    }

    /**
     * The name with some letters in the other case, which is the same name to a resolver. The Java
     * machine keeps for 30 s what it found for a spelling, even if the name has moved.
     */
    static String spelled(String name, int number) {
        StringBuilder out = new StringBuilder(name);
        for (int i = 0; i < Math.min(SPELLINGS_BITS, name.length()); i++) {
            if ((number >> i & 1) == 1) {
                char at = name.charAt(i);
                out.setCharAt(i, Character.isUpperCase(at) ? Character.toLowerCase(at)
                        : Character.toUpperCase(at));
            }
        }
        return out.toString();
    }

    private void lookedUp(String name, InetAddress[] ips) {
        lookups.remove(name);
        if (ips.length > 0) { // else what was known stays
            found(name, ips);
        }
        if (lookups.isEmpty()) {
            new ArrayList<>(waiting).forEach(Runnable::run);
        }
    }

    /** These are all addresses of the name, at least one. */
    void found(String name, InetAddress[] ips) {
        InetAddress[] sorted = Arrays.stream(ips).distinct()
                .sorted(Comparator.comparing(InetAddress::getHostAddress))
                .toArray(InetAddress[]::new);
        List<Endpoint> old = endpoints;
        Set<Endpoint> now = new LinkedHashSet<>();
        for (Address address : addresses) {
            boolean moves = address.host().equals(name);
            for (InetAddress ip : moves ? sorted : new InetAddress[0]) {
                now.add(old.stream().filter(one -> one.isAt(address, ip)).findFirst()
                        .orElseGet(() -> new Endpoint(loop, address, ip,
                                address + " (" + ip.getHostAddress() + ")", tls, token)));
            }
            old.stream().filter(one -> !moves && one.address().equals(address)).forEach(now::add);
        }
        endpoints = new ArrayList<>(now).subList(0, Math.min(now.size(), MAX_ENDPOINTS));
        if (!endpoints.contains(preferred)) {
            preferred = anyEndpoint();
        }
        old.stream().filter(one -> !endpoints.contains(one)).forEach(Endpoint::retire);
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
