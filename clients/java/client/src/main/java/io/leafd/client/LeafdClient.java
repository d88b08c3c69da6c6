package io.leafd.client;

import io.leafd.client.net.Counters;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;

/**
 * A client of one leafd cluster: what its sources of ids share.
 *
 * <pre>{@code
 * try (LeafdClient leafd = LeafdClient.open("http://127.0.0.1:8081", "http://127.0.0.1:8082")) {
 *     SegmentSource orders = leafd.segment("order");
 *     long id = orders.next();
 * }
 * }</pre>
 *
 * <p>It has one daemon thread for all sockets and timers, which starts with the first call. Closing
 * gives worker ids back and drops the ids at hand. Any thread may use it.
 */
public final class LeafdClient implements AutoCloseable {
    private static final int MAX_SOURCES = 10_000;
    private static final String UNNAMED = ""; // which is no name

    private final Core core;
    private final SingleCalls calls;

    // Written with this object's monitor; read without.
    private final Map<String, SegmentSource> shared = new ConcurrentHashMap<>();
    private final Map<String, SnowflakeSource> snowflakes = new ConcurrentHashMap<>();

    // With this object's monitor.
    private final Set<SegmentSource> segments = new HashSet<>();
    private long handedOutByClosed;
    private boolean closed;

    private LeafdClient(Settings settings) {
        core = new Core(settings);
        calls = new SingleCalls(core);
    }

    /**
     * A client with all settings but the addresses at their defaults. Nothing is sent yet.
     *
     * @param endpoints base URLs of the nodes
     * @return to be closed
     * @throws LeafdException {@code bad_setting}
     */
    public static LeafdClient open(String... endpoints) {
        return open(Settings.builder().endpoints(endpoints).build());
    }

    /**
     * A client. Nothing is sent yet.
     *
     * @param settings how it is to be
     * @return to be closed
     * @throws LeafdException {@code bad_setting}
     */
    public static LeafdClient open(Settings settings) {
        return new LeafdClient(settings);
    }

    /**
     * The source of a tag's ids that all of this client share; the same object each time.
     *
     * @param tag 1 to 128 bytes of UTF-8 without control characters
     * @return closed with the client
     */
    public SegmentSource segment(String tag) {
        SegmentSource source = tag == null ? null : shared.get(tag);
        return source != null ? source : shareSegment(tag);
    }

    private synchronized SegmentSource shareSegment(String tag) {
        Names.check("the tag", tag);
        SegmentSource source = shared.get(tag);
        if (source == null) {
            source = openSegment(tag);
            shared.put(tag, source);
        }
        return source;
    }

    /**
     * A source of a tag's ids of one's own: for one thread of many that want very many ids.
     *
     * @param tag 1 to 128 bytes of UTF-8 without control characters
     * @return to be closed, or closed with the client
     */
    public synchronized SegmentSource openSegment(String tag) {
        checkRoom(segments.size());
        SegmentSource source = new SegmentSource(core, tag, this::forget);
        segments.add(source);
        return source;
    }

    /**
     * The source of a strict tag's ids.
     *
     * @param tag 1 to 128 bytes of UTF-8 without control characters
     * @return needs not be closed
     */
    public StrictSource strict(String tag) {
        return new StrictSource(core, calls, tag);
    }

    /**
     * The source of a tag's ids as texts: in the tag's shape, if it has one.
     *
     * @param tag 1 to 128 bytes of UTF-8 without control characters
     * @return needs not be closed; best kept, since it remembers what the tag takes
     */
    public TextSource texts(String tag) {
        return new TextSource(core, calls, tag);
    }

    /**
     * The source of snowflake ids that all of this client share, under a name that is made.
     *
     * @return the same object each time; its worker id is given back with the client
     */
    public SnowflakeSource snowflake() {
        return snowflakeOf(UNNAMED);
    }

    /**
     * The source of snowflake ids under a name. One name is one running process: it gets its worker
     * id back after a restart, but where it ended without closing, only after the old window.
     *
     * @param name 1 to 128 bytes of UTF-8 without control characters
     * @return the same object each time; its worker id is given back with the client
     */
    public SnowflakeSource snowflake(String name) {
        return snowflakeOf(Names.check("the name", name));
    }

    private SnowflakeSource snowflakeOf(String name) {
        SnowflakeSource source = snowflakes.get(name);
        return source != null ? source : openSnowflake(name);
    }

    private synchronized SnowflakeSource openSnowflake(String name) {
        SnowflakeSource source = snowflakes.get(name);
        if (source == null) {
            checkRoom(snowflakes.size());
            source = new SnowflakeSource(core, name.equals(UNNAMED) ? null : name,
                    closing -> snowflakes.remove(name, closing));
            snowflakes.put(name, source);
        }
        return source;
    }

    private void checkRoom(int taken) {
        if (closed) {
            throw core.counted(LeafdException.closed());
        }
        if (taken >= MAX_SOURCES) {
            throw core.counted(LeafdException.badSetting("there are " + MAX_SOURCES
                    + " sources already, and no more may be; make one for each tag, and keep it"));
        }
    }

    /** A source was closed by itself. */
    private synchronized void forget(SegmentSource source) {
        segments.remove(source);
        shared.remove(source.tag(), source);
        handedOutByClosed += source.handedOut();
    }

    /**
     * What was counted so far.
     *
     * @return numbers of now
     */
    public Stats stats() {
        long handedOut;
        Map<String, Long> idsLeft = new TreeMap<>();
        Map<String, Long> rangeAgeMs = new TreeMap<>();
        Map<String, Long> windowEndMs = new TreeMap<>();
        synchronized (this) {
            handedOut = handedOutByClosed;
            for (SegmentSource source : segments) {
                handedOut += source.handedOut();
                source.measure(idsLeft, rangeAgeMs);
            }
        }
        snowflakes.values().forEach(source -> source.measure(windowEndMs));
        Counters now = core.counters;
        return new Stats(idsLeft, rangeAgeMs, windowEndMs, handedOut, now.strictIds.sum(), now.snowflakeIds.sum(),
                now.requests.sum(), now.retries.sum(), now.failovers.sum(), now.errors.sum(),
                now.waits.sum(), now.burnt.sum(), now.clockWaits.sum(), now.renewals.sum(),
                now.hedges.sum());
    }

    /**
     * What was counted so far, for Prometheus.
     *
     * @return lines of its text format
     */
    public String statsText() {
        return stats().toPrometheus();
    }

    /**
     * Gives worker ids back, for which it waits up to {@code attempt_ms}, and drops what is at
     * hand. Calls that wait, and later ones, get {@code closed}. A second close does nothing. In
     * the hook of events it does not wait.
     */
    @Override
    public void close() {
        List<SegmentSource> toClose;
        synchronized (this) {
            if (closed) {
                return;
            }
            closed = true;
            toClose = new ArrayList<>(segments);
            snowflakes.values().forEach(SnowflakeSource::release);
            snowflakes.clear();
        }
        toClose.forEach(SegmentSource::close);
        core.awaitReleases(() -> {
            core.markClosed();
            core.loop.execute(() -> {
                core.ids.close();
                core.admin.close();
            });
            core.loop.stop();
        });
    }
}
