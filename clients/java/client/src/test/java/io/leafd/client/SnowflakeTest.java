package io.leafd.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Clock;
import java.time.Duration;
import java.time.Instant;
import java.time.ZoneId;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(120)
class SnowflakeTest {
    private static final long NOW = 1_795_176_000_000L;
    private static final Duration SHORT = Duration.ofMillis(150);

    /** A clock that stands where a test puts it. */
    private static final class TestClock extends Clock {
        final AtomicLong ms = new AtomicLong(NOW + 1);

        @Override
        public long millis() {
            return ms.get();
        }

        @Override
        public Instant instant() {
            return Instant.ofEpochMilli(ms.get());
        }

        @Override
        public ZoneId getZone() {
            return ZoneOffset.UTC;
        }

        @Override
        public Clock withZone(ZoneId zone) {
            return this;
        }
    }

    private final FakeCluster cluster = new FakeCluster();
    private final TestClock clock = new TestClock();

    private LeafdClient open(long windowMs, String... urls) {
        return LeafdClient.open(Expect.settings(urls).windowMs(windowMs).clock(clock).build());
    }

    @Test
    void acquiresStampsAndReleases() throws Exception {
        try (FakeServer ids = new FakeServer(cluster); FakeServer server = new FakeServer(cluster)) {
            LeafdClient client = LeafdClient.open(Expect.settings(ids.url())
                    .adminEndpoints(server.url()).clock(clock).token("t0ken").build());
            SnowflakeSource source = client.snowflake();
            assertSame(source, client.snowflake());
            Expect.error("layout_unknown", () -> source.decode(1));
            SnowflakeId id = source.decode(source.next());
            assertEquals(NOW + 1, id.timeMs());
            assertEquals(0, id.worker());
            clock.ms.addAndGet(7);
            source.next();
            FakeServer.Exchange acquire = server.seen.get(0);
            assertEquals("POST /api/workers", acquire.method + " " + acquire.target);
            assertTrue(acquire.body.matches("\\{\"name\":\"[A-Za-z0-9._-]+-"
                    + ProcessHandle.current().pid() + "-[0-9a-f]{16}\",\"window_ms\":60000\\}"),
                    acquire.body);
            assertEquals("application/json", acquire.headers.get("content-type"));
            assertEquals("Bearer t0ken", acquire.headers.get("authorization"));
            assertEquals(0, ids.seen.size(), "worker ids are the other door's");
            client.close();
            assertFalse(cluster.isHeld(0));
            assertEquals(NOW + 8, cluster.lastMs(0), "released with the last time used");
            Expect.error("closed", source::next);
            Expect.error("closed", source.nextAsync());
            assertEquals(2, client.stats().get("ids_snowflake"));
        }
    }

    @Test
    void theHookClosesTheClient() throws Exception {
        AtomicReference<LeafdClient> hooked = new AtomicReference<>();
        AtomicLong tookMs = new AtomicLong(-1);
        try (FakeServer server = new FakeServer(exchange -> {
            if (exchange.target.startsWith("/api/segment/")) {
                exchange.error(404, "unknown_tag");
            } else {
                cluster.handle(exchange);
            }
        })) {
            LeafdClient client = LeafdClient.open(Expect.settings(server.url()).clock(clock)
                    .onEvent(event -> {
                        long begin = System.nanoTime();
                        hooked.get().close(); // on the thread that gives the worker id back
                        tookMs.set((System.nanoTime() - begin) / 1_000_000);
                    }).build());
            hooked.set(client);
            client.snowflake().next();
            assertThrows(LeafdException.class, () -> client.segment("none").next());
            Expect.until("the worker id is given back", () -> !cluster.isHeld(0));
            Expect.until("the hook is over", () -> tookMs.get() >= 0);
            assertTrue(tookMs.get() < 30_000, "it waited for its own thread: " + tookMs);
            Expect.error("closed", () -> client.segment("another").next());
        }
    }

    @Test
    void twoCloseAtOnce() throws Exception {
        CountDownLatch begun = new CountDownLatch(1);
        CountDownLatch go = new CountDownLatch(1);
        try (FakeServer server = new FakeServer(exchange -> {
            if (exchange.method.equals("DELETE")) {
                begun.countDown();
                go.await(60, TimeUnit.SECONDS);
            }
            cluster.handle(exchange);
        })) {
            LeafdClient client = open(60_000, server.url());
            SnowflakeSource source = client.snowflake();
            source.next();
            Thread first = new Thread(source::close);
            first.start();
            assertTrue(begun.await(60, TimeUnit.SECONDS));
            Thread second = new Thread(client::close);
            second.start();
            Expect.until("the client is closed", () -> {
                try {
                    client.openSegment("another").close();
                    return false;
                } catch (LeafdException e) {
                    return e.code().equals("closed");
                }
            });
            Expect.until("the second one waits",
                    () -> second.getState() == Thread.State.TIMED_WAITING);
            go.countDown();
            first.join();
            second.join();
            assertFalse(cluster.isHeld(0), "the second one has ended the first one's release");
        }
    }

    @Test
    void whatWasNeverUsedIsGivenBackWhole() throws Exception {
        try (FakeServer server = new FakeServer(cluster)) {
            LeafdClient client = open(60_000, server.url());
            clock.ms.set(NOW + 100_000); // past the window: nothing can be stamped
            // (So long that the worker id is there by then.)
            Expect.error("window_over",
                    () -> client.snowflake("me").next(Duration.ofSeconds(2)));
            client.close();
            assertEquals(1, cluster.lastMs(0), "from_ms was 0, and 0 would say: all of it");
        }
    }

    @Test
    void aWindowThatIsOverIsRenewedFirst() throws Exception {
        try (FakeServer server = new FakeServer(cluster);
                LeafdClient client = open(60_000, server.url())) {
            SnowflakeSource source = client.snowflake();
            source.next();
            clock.ms.set(NOW + 60_001);
            cluster.nowMs = NOW + 60_001;
            assertEquals(NOW + 60_001, source.decode(source.next()).timeMs());
            FakeServer.Exchange renewal = server.seen.get(1);
            assertEquals("PUT /api/workers/0", renewal.method + " " + renewal.target);
            assertEquals("{\"epoch\":1,\"window_ms\":60000,\"last_timestamp_ms\":" + (NOW + 1) + "}",
                    renewal.body);
            assertEquals(1, client.stats().get("renewals"));
        }
    }

    @Test
    void renewsAtAThirdOfTheWindow() throws Exception {
        try (FakeServer server = new FakeServer(cluster);
                LeafdClient client = open(3000, server.url())) {
            long ms = Expect.took(() -> {
                client.snowflake().next();
                Expect.until("two renewals", () -> client.stats().get("renewals") >= 2);
            });
            assertTrue(ms >= 1900 && ms < 3400 + Expect.slackMs(), "after " + ms + " ms");
        }
    }

    @Test
    void idsGoOnToTheEndOfTheWindowAndNotBeyond() throws Exception {
        FakeServer server = new FakeServer(cluster);
        try (LeafdClient client = LeafdClient.open(Expect.settings(server.url()).windowMs(60_000)
                .attemptMs(100).clock(clock).build())) {
            SnowflakeSource source = client.snowflake();
            source.next();
            server.close();
            clock.ms.set(NOW + 60_000);
            assertEquals(NOW + 60_000, source.decode(source.next()).timeMs());
            clock.ms.set(NOW + 60_001);
            long ms = Expect.took(() -> {
                LeafdException error = Expect.error("window_over", () -> source.next(SHORT));
                assertTrue(error.retryable());
            });
            assertTrue(ms < SHORT.toMillis() + Expect.slackMs(), ms + " ms");
        } finally {
            server.close();
        }
    }

    @Test
    void aClockAheadOfTheClustersIsNoStorm() throws Exception {
        try (FakeServer server = new FakeServer(cluster);
                LeafdClient client = open(1000, server.url())) {
            client.snowflake().next();
            clock.ms.set(NOW + 10_000);
            int before = server.seen.size();
            long ms = Expect.took(() -> Expect.error("window_over",
                    () -> client.snowflake().next(Duration.ofMillis(900))));
            int renewals = server.seen.size() - before;
            assertTrue(renewals >= 2 && renewals <= 1 + ms / 60, renewals + " renewals");
        }
    }

    @Test
    void aClockThatIsSetBack() throws Exception {
        List<LeafdEvent> told = Collections.synchronizedList(new ArrayList<>());
        try (FakeServer server = new FakeServer(cluster);
                LeafdClient client = LeafdClient.open(Expect.settings(server.url())
                        .windowMs(60_000).clock(clock).onEvent(told::add).build())) {
            SnowflakeSource source = client.snowflake("me");
            long last = source.next();
            clock.ms.set(NOW - 3);
            LeafdException error = Expect.error("window_over", () -> source.next(SHORT));
            assertTrue(error.getMessage().contains("the clock says " + (NOW - 3)),
                    error.getMessage());
            assertEquals(1, client.stats().get("clock_waits"));
            CompletableFuture<Long> later = source.nextAsync();
            clock.ms.set(NOW + 1);
            assertEquals(last + 1, later.get(5, TimeUnit.SECONDS));
            clock.ms.set(NOW - 3_600_000);
            assertEquals(last + 2, source.next(), "the last time's sequence goes on");
            assertTrue(told.isEmpty(), told::toString);
            Expect.error("window_over", () -> {
                for (int i = 0; i < 4096; i++) {
                    source.next(SHORT);
                }
            });
            Expect.until("an event", () -> told.size() > 0);
            assertEquals("[CLOCK_BACK me 3600001]", told.toString());
        }
    }

    @Test
    void usedUpWaitsForTheNextMillisecond() throws Exception {
        try (FakeServer server = new FakeServer(cluster);
                LeafdClient client = open(60_000, server.url())) {
            SnowflakeSource source = client.snowflake();
            int first = source.decode(source.next()).sequence();
            source.next(4095 - first);
            Expect.error("window_over", () -> source.next(SHORT));
            CompletableFuture<Long> waiting = source.nextAsync();
            clock.ms.incrementAndGet();
            SnowflakeId id = source.decode(waiting.get(5, TimeUnit.SECONDS));
            assertEquals(NOW + 2, id.timeMs());
            assertEquals(0, id.sequence(), "behind one that was used up it begins at 0");
        }
    }

    @Test
    void fencedItAcquiresAnewUnderAnotherName() throws Exception {
        try (FakeServer server = new FakeServer(cluster);
                LeafdClient client = open(60_000, server.url())) {
            SnowflakeSource source = client.snowflake();
            long before = source.next();
            cluster.fence(0);
            clock.ms.set(NOW + 60_001);
            cluster.nowMs = NOW + 60_001;
            LeafdException error = Expect.error("fenced", source::next);
            assertEquals(409, error.status());
            assertTrue(error.retryable());
            long after = source.next();
            assertTrue(after > before);
            assertEquals(1, source.decode(after).worker());
            assertNotEquals(server.seen.get(0).body, server.seen.get(2).body, "another name");
        }
    }

    @Test
    void fencedInTheBackgroundNobodyNotices() throws Exception {
        try (FakeServer server = new FakeServer(cluster);
                LeafdClient client = open(1000, server.url())) {
            SnowflakeSource source = client.snowflake("me");
            long before = source.next();
            cluster.fence(0);
            Expect.until("a renewal", () -> server.seen.size() == 2);
            Expect.until("another worker id", () -> {
                clock.ms.updateAndGet(ms -> Math.min(ms + 1, NOW + 900)); // within the window
                return source.decode(source.next()).worker() == 1;
            });
            assertTrue(source.next() > before);
            assertTrue(server.seen.get(2).body.contains("\"name\":\"me\""), "the caller's name stays");
            assertEquals(0, client.stats().get("errors"));
        }
    }

    @Test
    void aLostAcquireIsAskedAgainUnderAnotherName() throws Exception {
        try (FakeServer server = new FakeServer(exchange -> {
            if (exchange.number == 1) {
                exchange.lose(); // it was carried out
            }
            cluster.handle(exchange);
        }); LeafdClient client = open(60_000, server.url())) {
            SnowflakeSource source = client.snowflake();
            // By the same name the window would begin a minute from now.
            assertEquals(1, source.decode(source.next(Duration.ofSeconds(5))).worker());
        }
    }

    @Test
    void errorsOfAcquiring() throws Exception {
        for (String code : new String[] {"no_worker_id", "conflict", "share", "unauthorized"}) {
            int status = code.equals("share") ? 429 : code.equals("unauthorized") ? 401 : 409;
            try (FakeServer server = new FakeServer(exchange -> exchange.error(status, code));
                    LeafdClient client = open(60_000, server.url())) {
                LeafdException error = Expect.error(code, client.snowflake()::next);
                assertEquals(status, error.status());
                Expect.error(code, client.snowflake().nextAsync());
                assertEquals(2, server.seen.size());
                server.handler(cluster);
                assertTrue(client.snowflake().next() > 0, "the next call asks again");
            }
        }
    }

    @Test
    void acquireAnswersThatMakeNoSense() throws Exception {
        String layout = ",\"layout\":" + FakeCluster.LAYOUT + "}";
        String[] bodies = {"", "[]", "{}",
            "{\"worker_id\":1024,\"epoch\":1,\"from_ms\":0,\"until_ms\":9" + layout,
            "{\"worker_id\":-1,\"epoch\":1,\"from_ms\":0,\"until_ms\":9" + layout,
            "{\"worker_id\":1,\"epoch\":1,\"from_ms\":10,\"until_ms\":9" + layout,
            "{\"worker_id\":1,\"epoch\":\"1\",\"from_ms\":0,\"until_ms\":9" + layout,
            "{\"worker_id\":1,\"epoch\":1,\"from_ms\":0,\"until_ms\":9,\"layout\":7}",
            "{\"worker_id\":1,\"epoch\":1,\"from_ms\":0,\"until_ms\":9,\"layout\":{\"epoch_ms\":0,"
                + "\"time_bits\":45,\"worker_bits\":10,\"sequence_bits\":12}}"};
        for (String body : bodies) {
            try (FakeServer server = new FakeServer(exchange -> exchange.reply(201, body));
                    LeafdClient client = open(60_000, server.url())) {
                Expect.error("bad_answer", client.snowflake()::next);
            }
        }
    }

    @Test
    void aLayoutThatOneNodeDoesNotTell() throws Exception {
        FakeCluster silent = cluster;
        FakeServer.Handler tells = exchange -> {
            synchronized (silent) {
                silent.layout = FakeCluster.LAYOUT;
                silent.handle(exchange);
                silent.layout = "null";
            }
        };
        cluster.layout = "null";
        try (FakeServer one = new FakeServer(cluster); FakeServer two = new FakeServer(tells)) {
            for (int i = 0; i < 8; i++) {
                try (LeafdClient client = open(60_000, one.url(), two.url())) {
                    assertTrue(client.snowflake().next(Duration.ofSeconds(5)) > 0);
                }
            }
        }
    }

    @Test
    void aLayoutThatNobodyTells() throws Exception {
        cluster.layout = "null";
        try (FakeServer one = new FakeServer(cluster); FakeServer two = new FakeServer(cluster);
                LeafdClient client = open(60_000, one.url(), two.url())) {
            Expect.error("layout_unknown", client.snowflake()::next);
            Expect.until("the worker id is given back", () -> !cluster.isHeld(0));
            assertEquals(1, cluster.lastMs(0));
        }
    }

    @Test
    void theLayoutsTimesAreOver() throws Exception {
        try (FakeServer server = new FakeServer(cluster);
                LeafdClient client = open(60_000, server.url())) {
            cluster.nowMs = 1_288_834_974_657L + (1L << 41);
            clock.ms.set(cluster.nowMs);
            assertFalse(Expect.error("epoch_exhausted", client.snowflake()::next).retryable());
            Expect.error("epoch_exhausted", client.snowflake().nextAsync());
        }
    }

    @Test
    void threadsAndFutures() throws Exception {
        cluster.nowMs = System.currentTimeMillis();
        try (FakeServer server = new FakeServer(cluster);
                LeafdClient client = LeafdClient.open(server.url())) {
            SnowflakeSource source = client.snowflake();
            List<CompletableFuture<Long>> futures = new ArrayList<>();
            for (int i = 0; i < 20_000; i++) {
                futures.add(source.nextAsync());
            }
            Set<Long> all = new HashSet<>(Threads.distinct(32, 2000, source::next));
            for (CompletableFuture<Long> future : futures) {
                assertTrue(all.add(future.get(10, TimeUnit.SECONDS)));
            }
            assertEquals(84_000, all.size());
            assertEquals(84_000, client.stats().get("ids_snowflake"));
            assertEquals(1, server.seen.size(), "one worker id for all");
        }
    }

    @Test
    void futuresEndByTheDeadline() throws Exception {
        try (FakeServer server = new FakeServer(FakeServer.Exchange::hang);
                LeafdClient client = LeafdClient.open(
                        Expect.settings(server.url()).deadlineMs(150).attemptMs(2000).build())) {
            long ms = Expect.took(() ->
                    Expect.error("unreachable", client.snowflake().nextAsync()));
            assertTrue(ms < 150 + Expect.slackMs(), ms + " ms");
            long sync = Expect.took(() -> Expect.error("unreachable", client.snowflake()::next));
            assertTrue(sync < 150 + Expect.slackMs(), sync + " ms");
        }
    }

    @Test
    void closedWhileItAcquires() throws Exception {
        java.util.concurrent.CountDownLatch go = new java.util.concurrent.CountDownLatch(1);
        try (FakeServer server = new FakeServer(exchange -> {
            go.await();
            cluster.handle(exchange);
        })) {
            LeafdClient client = open(60_000, server.url());
            CompletableFuture<Long> waiting = client.snowflake().nextAsync();
            Expect.until("the acquire", () -> server.seen.size() == 1);
            Thread closer = new Thread(client::close);
            closer.start();
            Expect.error("closed", waiting);
            go.countDown();
            closer.join();
            assertFalse(cluster.isHeld(0), "what came late is given back");
        }
    }
}
