package io.leafd.client.net;

import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ThreadLocalRandom;

/**
 * The nodes for one kind of requests, the one that calls begin with, and the calls under way.
 *
 * <p>It begins with a random one and stays there as long as that one answers. A {@link Listing} adds
 * nodes once they are proven, and puts all of them into tiers: a call that fails goes through the
 * tier of its first node, and then through the others from the best one on. An address whose host
 * is a name is as many nodes as the name has addresses; while these are not known, it is one, which
 * cannot be reached. The name of an SRV record stands for its hosts and ports likewise. A name is
 * resolved by a thread of its own, one at a time, since a resolver may take any time. Owner: the
 * loop's thread.
 */
public final class Cluster {
    final Loop loop;
    final Counters counters;
    final Set<Call> calls = new HashSet<>();
    final Limits limits;
    private static final int MAX_ENDPOINTS = 64;
    private static final int MAX_LISTED = 48;
    private static final long USUAL_LEAST_NANOS = 20_000_000;
    private static final long RESOLVE_AGAIN_NANOS = 30_000_000_000L;
    private static final int SPELLINGS_BITS = 8;
    private final List<Address> addresses;
    private final String zone;
    private final boolean forSnowflakes;
    private final Tls tls;
    private final Token token;
    private final FailoverHook failedOver;
    Discovery discovery; // null: there is none
    private Map<Address, Listing.Node> listed = Map.of();
    private final Map<Address, List<Address>> services = new HashMap<>(); // of SRV records
    private Set<Address> given = Set.of(); // addresses, with what is known of services
    private boolean begun; // where the first listing says
    private final Map<String, List<InetAddress>> ips = new HashMap<>(); // of names
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

    /**
     * tls is needed where an address is https.
     *
     * @param zone whose nodes are the first tier; null: those of any
     * @param forSnowflakes nodes that make no snowflake ids are in the last tier
     */
    public Cluster(Loop loop, List<Address> addresses, String zone, boolean forSnowflakes, Tls tls,
            Token token, Counters counters, Limits limits, FailoverHook failedOver) {
        this.loop = loop;
        this.addresses = addresses;
        this.zone = zone;
        this.forSnowflakes = forSnowflakes;
        this.tls = tls;
        this.token = token;
        this.counters = counters;
        this.limits = limits;
        this.failedOver = failedOver;
        rebuild();
    }

    /** What the listing has of it; null: nothing. */
    Listing.Node row(Endpoint endpoint) {
        return listed.get(endpoint.address());
    }

    private int tier(Endpoint endpoint) {
        Listing.Node row = row(endpoint);
        return row == null ? Listing.LAST_TIER : row.tier(zone, forSnowflakes);
    }

    /** May it be asked for ids? */
    private boolean isUsable(Endpoint endpoint) {
        return given.contains(endpoint.address()) || discovery.isProven(row(endpoint));
    }

    private List<Endpoint> usable() {
        List<Endpoint> usable = new ArrayList<>(endpoints);
        usable.removeIf(one -> !isUsable(one));
        return usable;
    }

    private List<Endpoint> ofTier(List<Endpoint> from, int tier) {
        List<Endpoint> found = new ArrayList<>(from);
        found.removeIf(one -> tier(one) != tier);
        return found;
    }

    private int weight(Endpoint endpoint) {
        return tier(endpoint) < Listing.LAST_TIER ? row(endpoint).weight() : 1;
    }

    /**
     * These in the order of their tiers, each of which begins at a node that is drawn by weight.
     *
     * @param first whose tier is the first one, and begins there; or null
     */
    private List<Endpoint> ordered(List<Endpoint> from, Endpoint first) {
        List<Endpoint> ordered = new ArrayList<>();
        for (int tier = 0; tier <= Listing.LAST_TIER; tier++) {
            int now = tier > 0 ? tier : first == null ? 0 : tier(first);
            List<Endpoint> own = ofTier(from, now);
            if (own.isEmpty() || (tier > 0 && first != null && now == tier(first))) {
                continue;
            }
            int left = ThreadLocalRandom.current()
                    .nextInt(own.stream().mapToInt(this::weight).sum());
            int at = 0;
            while (left >= weight(own.get(at))) {
                left -= weight(own.get(at++));
            }
            Collections.rotate(own, -(tier == 0 ? own.indexOf(first) : at));
            ordered.addAll(own);
        }
        return ordered;
    }

    /** All nodes in the order in which a call asks them that begins at this one, which is one. */
    List<Endpoint> route(Endpoint first) {
        return ordered(usable(), first);
    }

    /** How many nodes share the time that its tier has; 1: there is no other tier. */
    int sharers(Endpoint endpoint) {
        List<Endpoint> usable = usable();
        int count = ofTier(usable, tier(endpoint)).size();
        return count == usable.size() ? 1 : count;
    }

    /** Takes what a node lists, in place of what was known before; null: nothing. */
    void listed(Listing listing) {
        List<Listing.Node> rows = new ArrayList<>(
                listing == null ? List.of() : listing.nodes.values());
        rows.sort(Comparator.comparingInt(row -> row.tier(zone, forSnowflakes)));
        listed = new LinkedHashMap<>();
        for (Listing.Node row : rows.subList(0, Math.min(rows.size(), MAX_LISTED))) {
            listed.put(row.address, row);
        }
        rebuild();
        resolved &= ips.keySet().containsAll(names);
    }

    /**
     * Nodes, proven or not, where calls should rather begin, in order: with the first listing those
     * up to the drawn one of the tier in which they begin, later those of better tiers.
     */
    List<Endpoint> better() {
        List<Endpoint> better = ordered(endpoints, null);
        better.removeIf(one -> tier(one) == Listing.LAST_TIER
                || tier(one) > tier(preferred) || (begun && tier(one) == tier(preferred)));
        return better.contains(preferred) ? better.subList(0, better.indexOf(preferred)) : better;
    }

    /** Calls begin there, which is one of the better ones. With the first listing that is no change;
     * null: they begin where they did. */
    void moveTo(Endpoint endpoint) {
        if (endpoint != null && begun && endpoints.contains(endpoint)) {
            prefer(endpoint);
        } else if (endpoint != null && endpoints.contains(endpoint)) {
            preferred = endpoint;
        }
        begun = true;
    }

    private void prefer(Endpoint endpoint) {
        Endpoint before = preferred;
        preferred = endpoint;
        counters.failovers.increment();
        failedOver.failedOver(before.toString(), preferred.toString());
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
        return endpoints.size() == 1 && names.isEmpty() && discovery == null;
    }

    List<Endpoint> endpoints() {
        return endpoints;
    }

    Endpoint preferred() {
        return preferred;
    }

    /**
     * The next one of the same tier, for a second request beside its own; null: there is none. One of
     * another cluster is none: the request would pass it, and come back to the node that is slow.
     */
    public Endpoint after(Endpoint endpoint) {
        List<Endpoint> tier = ofTier(usable(), tier(endpoint));
        tier.removeIf(one -> one != endpoint && discovery != null && discovery.isForeign(one));
        int at = tier.indexOf(endpoint);
        return tier.size() < 2 || at < 0 ? null : tier.get((at + 1) % tier.size());
    }

    /** All but this one, beginning with the one after it. */
    public List<Endpoint> others(Endpoint endpoint) {
        List<Endpoint> others = route(endpoints.contains(endpoint) ? endpoint : preferred);
        others.remove(endpoint);
        return others;
    }

    /** The node does not answer, or is about to stop: others begin at the next. */
    public void leave(Endpoint endpoint) {
        List<Endpoint> route = preferred == endpoint ? route(endpoint) : List.of();
        leave(endpoint, route.size() > 1 ? route.get(1) : endpoint);
    }

    /** The same, for a next one that is known. */
    void leave(Endpoint endpoint, Endpoint next) {
        if (preferred == endpoint && next != endpoint && endpoints.contains(next)) {
            prefer(next);
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
            List<Address> records = name.contains(Address.SRV) ? Services.of(Address.parse(name))
                    : List.of();
            Map<String, InetAddress[]> hosts = new LinkedHashMap<>();
            records.forEach(one -> hosts.computeIfAbsent(one.host(), Cluster::allOf));
            if (!name.contains(Address.SRV)) {
                hosts.put(name, allOf(spelled));
            }
            loop.execute(() -> lookedUp(name, () -> {
                if (!records.isEmpty()) {
                    services.put(Address.parse(name), records);
                    ips.put(name, List.of());
                    rebuild();
                }
                hosts.forEach(this::found);
            }));
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

    private static InetAddress[] allOf(String host) {
        try {
            return InetAddress.getAllByName(host);
        } catch (UnknownHostException | SecurityException e) {
            return new InetAddress[0];
        }
    }

    private void lookedUp(String name, Runnable found) {
        lookups.remove(name);
        found.run();
        if (lookups.isEmpty()) {
            new ArrayList<>(waiting).forEach(Runnable::run);
        }
    }

    /** These are all addresses of the name; without one, those that were known stay. */
    void found(String name, InetAddress[] found) {
        if (found.length == 0) {
            return;
        }
        List<InetAddress> sorted = new ArrayList<>(new LinkedHashSet<>(Arrays.asList(found)));
        sorted.sort(Comparator.comparing(InetAddress::getHostAddress));
        ips.put(name, sorted);
        rebuild();
    }

    /** The nodes of the listing and of the addresses; those that are there already stay. */
    private void rebuild() {
        List<Endpoint> old = endpoints;
        given = new LinkedHashSet<>();
        names.clear();
        for (Address address : addresses) {
            given.addAll(services.getOrDefault(address, List.of(address)));
            if (address.isService()) {
                names.add(address.toString());
            }
        }
        Set<Address> all = new LinkedHashSet<>(given);
        all.addAll(listed.keySet());
        endpoints = new ArrayList<>();
        for (Address address : all) {
            InetAddress literal = literal(address.host());
            if (literal == null && !address.isService()) {
                names.add(address.host());
            }
            for (InetAddress ip : literal != null ? Collections.singletonList(literal)
                    : ips.getOrDefault(address.host(), Collections.singletonList(null))) {
                String text = literal != null || ip == null ? address.toString()
                        : address + " (" + ip.getHostAddress() + ")";
                endpoints.add(old.stream().filter(one -> one.isAt(address, ip)).findFirst()
                        .orElseGet(() -> new Endpoint(loop, address, ip, text, tls, token)));
            }
        }
        endpoints = endpoints.subList(0, Math.min(endpoints.size(), MAX_ENDPOINTS));
        ips.keySet().retainAll(names);
        if (!endpoints.contains(preferred)) {
            preferred = ordered(usable(), null).get(0);
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
