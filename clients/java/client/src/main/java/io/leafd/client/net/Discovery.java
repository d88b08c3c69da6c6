package io.leafd.client.net;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Consumer;

/**
 * Learns the nodes of the cluster, their zones, weights and states, from one that is known.
 *
 * <p>Happy path: {@link #look} before each round of a call; once {@value #AGAIN_MS} ms have passed,
 * the node that calls begin with is asked for the listing, and the clusters of the client take it.
 * A cluster whose calls begin at a node of a worse tier than the listing has moves to a better one
 * once that one has answered the same request. So has each node that is listed before it is asked
 * for ids: an address may lead to another cluster. Failure modes: a node without an answer is left
 * for the next; where all that answer do not know the request (404), they are older servers, and
 * none is asked for {@value #OLDER_MS} ms; a node of another cluster than the
 * first listing's gets no other request; whatever fails, calls go on with what is known. Only the
 * first call waits, as long as one attempt may take. None of it is in the counters. Owner: the loop's thread.
 */
public final class Discovery {
    private static final long AGAIN_MS = 5_000;
    private static final long OLDER_MS = 60_000;
    private static final long AFTER_FAILURES_MS = 1_000;
    private static final int OTHERS_MAX = 64;
    private static final int UID_MAX = 64;
    private static final Request REQUEST = Request.get("/api/nodes", null);

    private final Loop loop;
    private final Limits limits;
    private final List<Cluster> clusters = new ArrayList<>();
    private boolean asking;
    private boolean known; // an answer came, or none did
    private boolean older; // a node does not know the request
    private long askedNanos;
    private long againMs; // after that; 0: nothing was asked yet
    private Listing found; // the last one, or null
    private final Consumer<String> foreign; // is told once of a node of another cluster
    private boolean told;
    private String uid; // of the client's cluster: that of the first listing which had one
    private final Map<String, String> others = new LinkedHashMap<>() { // uids of others, by the node
        @Override
        protected boolean removeEldestEntry(Map.Entry<String, String> eldest) {
            return size() > OTHERS_MAX;
        }
    };
    private final Set<String> proven = new HashSet<>(); // nodes by number and address
    private final Set<String> answered = new HashSet<>(); // of these, since the last listing
    private List<Runnable> waiting = new ArrayList<>();

    /** For the clusters that are added; foreign is told once of a node of another one. */
    public Discovery(Loop loop, Limits limits, Consumer<String> foreign) {
        this.loop = loop;
        this.limits = limits;
        this.foreign = foreign;
    }

    /** Its nodes are those of the listing, too. The first one is asked for it. */
    public void add(Cluster cluster) {
        clusters.add(cluster);
        cluster.discovery = this;
    }

    boolean isProven(Listing.Node node) {
        return proven.contains(node.key());
    }

    /**
     * A round of a call begins.
     *
     * @param failed all nodes of the last one did
     * @param leftNanos of the call's time
     * @param then begins the round; it is run at once, or when the first listing is there
     */
    void look(boolean failed, long leftNanos, Runnable then) {
        long sinceMs = (System.nanoTime() - askedNanos) / 1_000_000;
        boolean soon = failed && againMs == AGAIN_MS && sinceMs >= AFTER_FAILURES_MS;
        if (!asking && (againMs == 0 || sinceMs >= againMs || soon)) {
            asking = true;
            askedNanos = System.nanoTime();
            older = false;
            Cluster first = clusters.get(0);
            list(first.route(first.preferred()).iterator());
        }
        if (known) {
            then.run();
            return;
        }
        boolean[] begun = {false};
        Runnable once = () -> {
            if (!begun[0]) {
                begun[0] = true;
                then.run();
            }
        };
        waiting.add(once);
        loop.schedule(System.nanoTime() + Math.min(limits.attemptNanos(0, Call.NO_DEADLINE, 1, 1),
                leftNanos / 2), once);
    }

    /** done is given the listing of the node, or null. */
    private void ask(Endpoint node, Consumer<Listing> done) {
        node.start(new Attempt(() -> REQUEST) {
            @Override
            boolean begin() {
                deadlineNanos = System.nanoTime() + limits.attemptNanos(0, Call.NO_DEADLINE, 1, 1);
                connectNanos = limits.connectNanos(0);
                return true;
            }

            @Override
            void answered(Response response) {
                older |= response.status() == 404;
                Listing listing = Listing.of(response, node.address().isTls());
                done.accept(listing != null && isForeign(node, listing) ? null : listing);
            }

            @Override
            void broken(String why) {
                done.accept(null);
            }

            @Override
            void untrusted(String why) {
                done.accept(null);
            }

            @Override
            void tooLong(String why) {
                done.accept(null);
            }
        });
    }

    /** Is its last listing of another cluster than the client's? */
    boolean isForeign(Endpoint node) {
        return others.containsKey(node.toString());
    }

    /** Of which one, for people. */
    String foreign(Endpoint node) {
        return "cluster " + others.get(node.toString()) + ", and this client's is " + uid;
    }

    private boolean isForeign(Endpoint node, Listing listing) {
        boolean is = uid != null && listing.uid != null && !uid.equals(listing.uid);
        others.remove(node.toString());
        if (is) {
            others.put(node.toString(), listing.uid.substring(0, Math.min(UID_MAX, listing.uid.length())));
        }
        if (is && !told) {
            told = true;
            foreign.accept(node.address().toString());
        }
        return is;
    }

    private void list(Iterator<Endpoint> nodes) {
        if (!nodes.hasNext()) {
            againMs = older ? OLDER_MS : AGAIN_MS;
            found = older ? null : found;
            clusters.forEach(cluster -> cluster.listed(found));
            known();
            asking = false;
            return;
        }
        Endpoint node = nodes.next();
        ask(node, listing -> {
            if (listing == null) {
                list(nodes);
                return;
            }
            againMs = AGAIN_MS;
            uid = uid == null ? listing.uid : uid;
            found = listing;
            answered.clear();
            Set<String> keys = new HashSet<>(); // one that was gone has to be proven anew
            listing.nodes.values().forEach(row -> keys.add(row.key()));
            proven.retainAll(keys);
            Listing.Node own = listing.nodes.get(listing.self);
            if (own != null && own.address.equals(node.address())) {
                proven.add(own.key());
            }
            clusters.forEach(cluster -> cluster.listed(listing));
            improve(clusters.iterator());
        });
    }

    private void improve(Iterator<Cluster> each) {
        if (!each.hasNext()) {
            known();
            proveOthers();
            return;
        }
        Cluster cluster = each.next();
        // Nodes that are listed by name can be asked once the name is resolved.
        cluster.resolve(false, System.nanoTime() + limits.connectNanos(0),
                () -> improve(cluster, cluster.better().iterator(), each));
    }

    private void improve(Cluster cluster, Iterator<Endpoint> better, Iterator<Cluster> each) {
        if (!better.hasNext()) {
            cluster.moveTo(null);
            improve(each);
            return;
        }
        Endpoint node = better.next();
        prove(cluster, node, isRight -> {
            if (isRight) {
                cluster.moveTo(node);
                improve(each);
            } else {
                improve(cluster, better, each);
            }
        });
    }

    /** Is the node the one that is listed? It knows its own number, and the address of the node that
     * listed it. */
    private void prove(Cluster cluster, Endpoint node, Consumer<Boolean> done) {
        Listing.Node row = cluster.row(node);
        if (answered.contains(row.key())) {
            done.accept(true); // for another cluster
            return;
        }
        Listing.Node lister = found.nodes.get(found.self);
        ask(node, listing -> {
            Listing.Node same = listing == null || lister == null ? null
                    : listing.nodes.get(lister.id);
            boolean isRight = same != null && listing.self == row.id
                    && same.address.equals(lister.address);
            if (isRight) {
                answered.add(row.key());
                proven.add(row.key());
            }
            done.accept(isRight);
        });
    }

    /** Before they are needed. */
    private void proveOthers() {
        int[] left = {1};
        Consumer<Boolean> ended = isRight -> asking = --left[0] > 0;
        for (Cluster cluster : clusters) {
            for (Endpoint node : cluster.endpoints()) {
                if (cluster.row(node) != null && !isProven(cluster.row(node))) {
                    left[0]++;
                    prove(cluster, node, ended);
                }
            }
        }
        ended.accept(true);
    }

    private void known() {
        known = true;
        List<Runnable> begin = waiting;
        waiting = new ArrayList<>();
        begin.forEach(Runnable::run);
    }
}
