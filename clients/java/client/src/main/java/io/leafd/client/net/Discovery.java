package io.leafd.client.net;

import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.function.Consumer;

/**
 * Learns the nodes of the cluster, their zones, weights and states, from one that is known.
 *
 * <p>Happy path: {@link #look} before each round of a call; once {@value #AGAIN_MS} ms have passed,
 * the node that calls begin with is asked for the listing, and the clusters of the client take it.
 * A cluster whose calls begin at a node of a worse tier than the listing has moves to a better one
 * once that one has answered the same request. Failure modes: a node without an answer is left for
 * the next; where all that answer do not know the request (404), they are older servers, and none is
 * asked for {@value #OLDER_MS} ms; whatever fails, calls go on with what is known. Only the first call waits,
 * for a second at most. None of it is in the counters. Owner: the loop's thread.
 */
public final class Discovery {
    private static final long AGAIN_MS = 5_000;
    private static final long OLDER_MS = 60_000;
    private static final long AFTER_FAILURES_MS = 1_000;
    private static final long FIRST_WAIT_NANOS = 1_000_000_000;
    private static final Request REQUEST = Request.get("/api/nodes", null);

    private final Loop loop;
    private final Limits limits;
    private final List<Cluster> clusters = new ArrayList<>();
    private boolean asking;
    private boolean known; // an answer came, or none did
    private boolean older; // a node does not know the request
    private long askedNanos;
    private long againMs; // after that; 0: nothing was asked yet
    private List<Runnable> waiting = new ArrayList<>();

    /** For the clusters that are added. */
    public Discovery(Loop loop, Limits limits) {
        this.loop = loop;
        this.limits = limits;
    }

    /** Its nodes are those of the listing, too. The first one is asked for it. */
    public void add(Cluster cluster) {
        clusters.add(cluster);
        cluster.discovery = this;
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
            againMs = AGAIN_MS;
            older = false;
            Cluster first = clusters.get(0);
            ask(first.route(first.preferred()).iterator(), this::listed);
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
        loop.schedule(System.nanoTime() + Math.min(FIRST_WAIT_NANOS, leftNanos / 2), once);
    }

    /** Asks one node after the other; done is given a listing, or null. */
    private void ask(Iterator<Endpoint> nodes, Consumer<Found> done) {
        if (!nodes.hasNext()) {
            done.accept(null);
            return;
        }
        Endpoint node = nodes.next();
        node.start(new Attempt(() -> REQUEST) {
            @Override
            boolean begin() {
                deadlineNanos = System.nanoTime() + limits.attemptNanos(0, Call.NO_DEADLINE, 1, 0);
                connectNanos = limits.connectNanos(0);
                return true;
            }

            @Override
            void answered(Response response) {
                Listing listing = response.status() == 200
                        ? Listing.parse(response.text(), node.address().isTls()) : null;
                if (listing != null) {
                    done.accept(new Found(node, listing));
                } else {
                    older |= response.status() == 404;
                    ask(nodes, done);
                }
            }

            @Override
            void broken(String why) {
                ask(nodes, done);
            }

            @Override
            void untrusted(String why) {
                ask(nodes, done);
            }

            @Override
            void garbage(String why) {
                ask(nodes, done);
            }
        });
    }

    private static final class Found {
        final Endpoint node;
        final Listing listing;

        Found(Endpoint node, Listing listing) {
            this.node = node;
            this.listing = listing;
        }
    }

    private void listed(Found found) {
        if (found == null) {
            againMs = older ? OLDER_MS : AGAIN_MS;
            asking = false;
            end();
            return;
        }
        for (Cluster cluster : clusters) {
            cluster.listed(found.listing);
        }
        // Nodes that are listed by name can be asked once the name is resolved.
        long until = System.nanoTime() + limits.connectNanos(0);
        clusters.get(0).resolve(false, until,
                () -> clusters.get(clusters.size() - 1).resolve(false, until, () -> {
                    clusters.forEach(Cluster::begin);
                    end();
                    improve(clusters.iterator());
                }));
    }

    private void improve(Iterator<Cluster> each) {
        if (each.hasNext()) {
            Cluster cluster = each.next();
            ask(cluster.better().iterator(), found -> {
                if (found != null) {
                    cluster.moveTo(found.node);
                }
                improve(each);
            });
        } else {
            asking = false;
        }
    }

    private void end() {
        known = true;
        List<Runnable> begin = waiting;
        waiting = new ArrayList<>();
        begin.forEach(Runnable::run);
    }
}
