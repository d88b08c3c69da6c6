package io.leafd.client;

import io.leafd.client.net.Address;
import io.leafd.client.net.Cluster;
import io.leafd.client.net.Counters;
import io.leafd.client.net.Discovery;
import io.leafd.client.net.Limits;
import io.leafd.client.net.Loop;
import io.leafd.client.net.Tls;
import io.leafd.client.net.Token;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executor;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.locks.Condition;

/** What the sources of a client share. Any thread. */
final class Core {
    /** Calls that may wait at a time, of each source, and of strict ids of the client. */
    static final int MAX_WAITING = 100_000;
    /** What a call may take beyond its deadline, where the loop's thread does not get its turn. */
    private static final long GRACE_NANOS = 60_000_000;
    private static final long READS_NANOS = 500_000_000;

    final Settings settings;
    final Loop loop;
    final Counters counters = new Counters();
    final Cluster ids;
    final Cluster admin;
    /** Of worker ids, that are under way. */
    final Set<CompletableFuture<Void>> releases = ConcurrentHashMap.newKeySet();
    private volatile boolean closed;

    // The loop's thread alone.
    private final Set<SegmentSource> holding = new HashSet<>();
    private Loop.Timer ager;
    private long agerNanos;

    Core(Settings settings) {
        this.settings = settings;
        Tls tls = tls(settings);
        Token token = token(settings);
        loop = new Loop();
        Limits limits = new Limits(settings.connectMs, settings.attemptMs, settings.deadlineMs);
        boolean same = settings.adminEndpoints.equals(settings.endpoints);
        ids = cluster(settings.endpoints, false, limits, tls, token);
        admin = same && !settings.discover ? ids
                : cluster(settings.adminEndpoints, true, limits, tls, token);
        if (settings.discover) {
            Discovery discovery = new Discovery(loop, limits,
                    node -> tell(LeafdEvent.otherCluster(node)));
            discovery.add(ids);
            if (same) { // else the listing has not what worker ids are asked at
                discovery.add(admin);
            }
        }
    }

    private Cluster cluster(List<Address> addresses, boolean forSnowflakes, Limits limits, Tls tls,
            Token token) {
        return new Cluster(loop, addresses, settings.zone, forSnowflakes, tls, token, counters,
                limits, (from, to) -> tell(LeafdEvent.failover(from, to)));
    }

    private static Token token(Settings settings) {
        try {
            return settings.tokenFile == null ? Token.of(settings.token)
                    : Token.in(settings.tokenFile);
        } catch (IOException e) {
            throw LeafdException.badSetting("token_file=" + Names.show("" + settings.tokenFile)
                    + " must be a file that can be read, with a token: " + e.getMessage());
        }
    }

    /** Null where nobody needs it: to read whom the machine trusts takes its time. */
    private static Tls tls(Settings settings) {
        boolean needed = settings.caFile != null || settings.certFile != null
                || settings.endpoints.stream().anyMatch(Address::isTls)
                || settings.adminEndpoints.stream().anyMatch(Address::isTls);
        try {
            return needed ? Tls.of(settings.caFile, settings.certFile, settings.keyFile) : null;
        } catch (Tls.Unfit e) {
            throw LeafdException.badSetting(e.getMessage());
        }
    }

    /** Gives the program an event: later, so that whoever has one may hold a lock. */
    void tell(LeafdEvent event) {
        loop.execute(() -> settings.onEvent.accept(event));
    }

    boolean isClosed() {
        return closed;
    }

    /** The source has a range to be dropped at this time. On the loop's thread. */
    void dropAt(SegmentSource source, long nanos) {
        holding.add(source);
        if (ager == null || nanos - agerNanos < 0) {
            if (ager != null) {
                ager.cancel();
            }
            agerNanos = nanos;
            ager = loop.schedule(nanos, this::dropAged);
        }
    }

    private void dropAged() {
        ager = null;
        List<SegmentSource> sources = new ArrayList<>(holding);
        holding.clear();
        sources.forEach(SegmentSource::dropAged); // which come again, if they hold more
    }

    /** Nothing of it is to be dropped any more. */
    void forget(SegmentSource source) {
        loop.execute(() -> holding.remove(source));
    }

    void markClosed() {
        closed = true;
    }

    long defaultDeadline() {
        return System.nanoTime() + settings.deadlineMs * 1_000_000;
    }

    /** Counts an error that a caller is about to be given. */
    LeafdException counted(LeafdException error) {
        counters.errors.increment();
        return error;
    }

    /** Runs the task on the loop's thread; the future ends with the client at the latest. */
    void submit(CompletableFuture<?> future, Runnable task) {
        if (closed) {
            future.completeExceptionally(LeafdException.closed());
            return;
        }
        loop.execute(task);
        if (closed) {
            future.completeExceptionally(LeafdException.closed());
        }
    }

    /**
     * For a signal, so long. Where this comes late, the program stood still: the loop's thread has
     * as long again, half a second at most, to read what came meanwhile.
     */
    static void awaitNews(Condition changed, long nanos) throws InterruptedException {
        long late = -changed.awaitNanos(nanos);
        if (late > GRACE_NANOS) {
            changed.awaitNanos(Math.min(late, READS_NANOS));
        }
    }

    /** The value of a future that ends by the deadline by itself, or the error it ended with. */
    <T> T await(Asked<T> future, long deadlineNanos) {
        try {
            long nanos = deadlineNanos - System.nanoTime() + GRACE_NANOS;
            try {
                return future.get(nanos, TimeUnit.NANOSECONDS);
            } catch (TimeoutException e) {
                long late = System.nanoTime() - deadlineNanos - GRACE_NANOS; // as above
                return future.get(late > GRACE_NANOS ? Math.min(late, READS_NANOS) : 0,
                        TimeUnit.NANOSECONDS);
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw counted(LeafdException.interrupted());
        } catch (TimeoutException e) {
            throw counted(closed ? LeafdException.closed() : Answers.late(future.call));
        } catch (ExecutionException e) {
            if (e.getCause() instanceof LeafdException) {
                throw counted(((LeafdException) e.getCause()).again());
            }
            throw new IllegalStateException(e.getCause());
        }
    }

    /**
     * Until worker ids are given back, or the time of an attempt is over, and then the task. In the
     * hook, on the loop's thread, it returns at once: by that thread they are given back.
     */
    void awaitReleases(Runnable then) {
        CompletableFuture<Void> all = CompletableFuture.allOf(
                releases.toArray(new CompletableFuture<?>[0]));
        if (loop.isCurrent()) {
            all.whenComplete((nothing, error) -> then.run());
            return;
        }
        try {
            all.get(settings.attemptMs + 100, TimeUnit.MILLISECONDS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        } catch (ExecutionException | TimeoutException e) {
            // What could not be given back is free when its window is over.
            counters.errors.increment();
        }
        then.run();
    }

    /**
     * A future for callers, who may go on in it with whatever they like: never on our thread, and
     * in the common pool also where a CompletableFuture by itself would take a new thread for each.
     */
    <T> CompletableFuture<T> handOut(CompletableFuture<T> inner) {
        CompletableFuture<T> outer = new CompletableFuture<>();
        inner.whenComplete((value, error) -> callbacks().execute(() -> {
            if (error == null) {
                outer.complete(value);
            } else {
                if (error instanceof LeafdException) {
                    counted((LeafdException) error);
                }
                outer.completeExceptionally(error);
            }
        }));
        return outer;
    }

    private static Executor callbacks() {
        return ForkJoinPool.getCommonPoolParallelism() > 0 ? ForkJoinPool.commonPool()
                : task -> new Thread(task, "leafd-client-callback").start();
    }
}
