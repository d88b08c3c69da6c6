package io.leafd.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Nodes that fail in all ways, by the rules of docs/clients.md. */
@Timeout(120)
class RetryTest {
    private static final Duration SHORT = Duration.ofMillis(400);
    /** So long that the node that works does not take it, whatever else this machine does. */
    private static final int ATTEMPT_MS = 1000;
    private final FakeCluster cluster = new FakeCluster();

    /** Calls until both nodes were seen to work, so that the faulty one was met. */
    private static void comesOverTo(LeafdClient client, int tries) {
        StrictSource source = client.strict("t");
        long last = 0;
        for (int i = 0; i < tries; i++) {
            long id = source.next();
            assertTrue(id > last);
            last = id;
        }
    }

    private void worksBeside(FakeServer.Handler faulty, int attemptMs, long mostMs)
            throws Exception {
        try (FakeServer bad = new FakeServer(faulty); FakeServer good = new FakeServer(cluster)) {
            boolean met = false;
            for (int i = 0; i < 20 && !met; i++) { // a client begins with a random one
                try (LeafdClient client = LeafdClient.open(
                        Expect.settings(bad.url(), good.url()).attemptMs(attemptMs).build())) {
                    long ms = Expect.took(() -> comesOverTo(client, 3));
                    assertTrue(ms < mostMs + Expect.slackMs(), ms + " ms");
                    met = client.stats().get("failovers") > 0;
                    if (client.stats().get("hedges") == 0) { // which a machine with much to do may send
                        assertEquals(met ? 1 : 0, client.stats().get("failovers"), "it stays there");
                    }
                    assertEquals(0, client.stats().get("errors"));
                }
            }
            assertTrue(met, "the faulty node was met");
        }
    }

    @Test
    void refused() throws Exception {
        String dead = FakeServer.DEAD_URL;
        try (FakeServer good = new FakeServer(cluster); LeafdClient client = LeafdClient.open(
                Expect.settings(dead, dead, dead, dead, dead, good.url()).build())) {
            comesOverTo(client, 3);
        }
    }

    @Test
    void cutBeforeTheAnswer() throws Exception {
        worksBeside(FakeServer.Exchange::cut, 20_000, 0);
    }

    @Test
    void cutInTheMidstOfTheAnswer() throws Exception {
        worksBeside(exchange -> {
            exchange.raw("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n1 1");
            exchange.cut();
        }, 20_000, 0);
    }

    @Test
    void slow() throws Exception {
        worksBeside(FakeServer.Exchange::hang, ATTEMPT_MS, ATTEMPT_MS);
    }

    @Test
    void oneByteNowAndThen() throws Exception {
        worksBeside(exchange -> {
            exchange.raw("HTTP/1.1 200 OK\r\nContent-Length: 10000\r\n\r\n");
            for (int i = 0; i < 10_000; i++) {
                exchange.raw("1");
                Thread.sleep(10); // the fault itself
            }
        }, ATTEMPT_MS, ATTEMPT_MS);
    }

    @Test
    void serviceUnavailable() throws Exception {
        worksBeside(exchange -> exchange.error(503, "no_leader", "Retry-After: 1"), 20_000, 300);
        worksBeside(exchange -> exchange.reply(503, "<html>"), 20_000, 300);
    }

    @ParameterizedTest
    @ValueSource(strings = {"400 bad_request", "401 unauthorized", "403 forbidden",
        "403 forbidden_tag", "404 unknown_tag", "404 other_door", "409 exhausted",
        "409 idempotency_conflict", "413 body_too_large", "429 share", "500 internal_error",
        "507 state_full"})
    void errorsThatAreNotRetried(String what) throws Exception {
        int status = Integer.parseInt(what.substring(0, 3));
        try (FakeServer one = new FakeServer(exchange -> exchange.error(status, what.substring(4)));
                FakeServer two = new FakeServer(exchange -> exchange.error(status,
                        what.substring(4)));
                LeafdClient client = LeafdClient.open(Expect.settings(one.url(), two.url())
                        .connectMs(60_000).build())) { // no second request
            LeafdException error = Expect.error(what.substring(4), client.strict("t")::next);
            assertEquals(status, error.status());
            assertEquals(status == 429 || status == 500, error.retryable());
            assertTrue(error.getMessage().contains("the test says so"));
            assertEquals(1, one.seen.size() + two.seen.size());
            assertEquals(1, client.stats().get("errors"));
        }
    }

    @Test
    void anAnswerThatIsTooLong() throws Exception {
        try (FakeServer server = new FakeServer(exchange -> {
            exchange.raw("HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n");
            exchange.hang();
        }); LeafdClient client = Expect.open(server.url())) {
            LeafdException error = Expect.error("bad_answer", client.strict("t")::next);
            assertEquals(0, error.status());
            assertEquals(1, server.seen.size());
        }
    }

    @Test
    void whatIsNoLeafdIsLeftByTheNextCall() throws Exception {
        FakeServer.Handler[] foreign = {exchange -> exchange.reply(302, "<html>"),
            exchange -> exchange.reply(404, "<html>")};
        for (FakeServer.Handler handler : foreign) {
            try (FakeServer other = new FakeServer(handler);
                    FakeServer node = new FakeServer(cluster);
                    LeafdClient client = LeafdClient.open(other.url(), node.url())) {
                for (int i = 0; i < 10; i++) {
                    try {
                        client.strict("t").next();
                    } catch (LeafdException e) {
                        assertEquals("bad_answer", e.code());
                    }
                }
                assertTrue(client.stats().get("errors") <= 1);
            }
        }
    }

    @Test
    void bytesBehindAnAnswerEndTheConnection() throws Exception {
        try (FakeServer server = new FakeServer(exchange -> exchange.raw("HTTP/1.1 200 OK\r\n"
                + "Content-Length: 4\r\n\r\n7 7\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n8 8\n"));
                LeafdClient client = Expect.open(server.url())) {
            assertEquals(7, client.strict("t").next());
            assertEquals(7, client.strict("t").next(), "never the 8, which nobody asked for");
            assertEquals(2, server.connections.get());
        }
    }

    @Test
    void theTokenAndNothingOfTheEnvironment() throws Exception {
        System.setProperty("http.proxyHost", "127.0.0.1");
        System.setProperty("http.proxyPort", "1");
        try (FakeServer server = new FakeServer(cluster); LeafdClient client = LeafdClient.open(
                Expect.settings(server.url() + "/").token("t0ken").build())) {
            server.handler(exchange -> exchange.reply(200, "1 1\n"));
            client.strict("t").next();
            FakeServer.Exchange seen = server.seen.get(0);
            assertEquals("Bearer t0ken", seen.headers.get("authorization"));
            assertEquals("/api/segment/get/t?count=1&format=range", seen.target);
        } finally {
            System.clearProperty("http.proxyHost");
            System.clearProperty("http.proxyPort");
        }
    }

    @Test
    void aKeptConnectionThatWasClosedCountsForNoFailure() throws Exception {
        try (FakeServer server = new FakeServer(cluster);
                LeafdClient client = Expect.open(server.url())) {
            StrictSource source = client.strict("t");
            for (int i = 1; i <= 20; i++) {
                assertEquals(i, source.next());
                server.cutAll();
            }
            // Cut while the request is on its way: the same, once.
            server.handler(exchange -> {
                if (exchange.onConnection > 1) {
                    exchange.cut();
                } else {
                    cluster.handle(exchange);
                }
            });
            for (int i = 21; i <= 30; i++) {
                assertEquals(i, source.next());
            }
            assertEquals(0, client.stats().get("retries"));
            assertEquals(0, client.stats().get("failovers"));
        }
    }

    @Test
    void roundsAreFurtherAndFurtherApart() throws Exception {
        try (FakeServer one = new FakeServer(FakeServer.Exchange::cut);
                FakeServer two = new FakeServer(FakeServer.Exchange::cut);
                LeafdClient client = Expect.open(one.url(), two.url())) {
            long ms = Expect.took(() -> {
                LeafdException error = Expect.error("unreachable",
                        () -> client.strict("t").next(Duration.ofMillis(1500)));
                assertTrue(error.getMessage().contains(one.url())
                        && error.getMessage().contains(two.url()), error.getMessage());
            });
            assertTrue(ms < 1500 + Expect.slackMs(), ms + " ms");
            int requests = one.seen.size() + two.seen.size();
            // Rounds begin at about 0, 20, 60, 140, 300, 620, 1260 ms or at half of that.
            // (Fewer, where there was no processor for the library to make them with.)
            assertTrue(requests <= 32, requests + " requests");
            assertTrue(requests >= 6 || Expect.slackMs(0) > 200, requests + " requests");
            long last = Math.max(lastGap(one.seen), lastGap(two.seen));
            assertTrue(last > 100, "the widest gap is " + last + " ms");
        }
    }

    private static long lastGap(List<FakeServer.Exchange> seen) {
        long widest = 0;
        for (int i = 1; i < seen.size(); i++) {
            widest = Math.max(widest, seen.get(i).nanos - seen.get(i - 1).nanos);
        }
        return widest / 1_000_000;
    }

    @Test
    void retryAfterBeyondTheDeadlineIsTheEnd() throws Exception {
        try (FakeServer server = new FakeServer(
                exchange -> exchange.error(503, "no_leader", "Retry-After: 30"));
                LeafdClient client = Expect.open(server.url())) {
            long ms = Expect.took(() -> {
                LeafdException error = Expect.error("unreachable",
                        () -> client.strict("t").next(Duration.ofSeconds(3)));
                assertEquals(0, error.status());
                assertTrue(error.getMessage().contains("503 no_leader"), error.getMessage());
                assertTrue(error.retryable());
            });
            assertTrue(ms < 3000 + Expect.slackMs(), ms + " ms");
            assertEquals(1, server.seen.size());
        }
    }

    @Test
    void aQuotaIsWaitedForAtTheSameAddress() throws Exception {
        FakeServer.Handler quota = exchange -> {
            if (exchange.number == 1) {
                exchange.error(429, "quota", "Retry-After: 1");
            } else {
                cluster.handle(exchange);
            }
        };
        try (FakeServer one = new FakeServer(quota); FakeServer two = new FakeServer(quota);
                LeafdClient client = Expect.open(one.url(), two.url())) {
            long ms = Expect.took(() -> client.strict("t").next());
            assertTrue(ms >= 1000 && ms < 1000 + Expect.slackMs(), ms + " ms");
            if (client.stats().get("hedges") == 0) { // which a machine with much to do may send
                assertEquals(0, Math.min(one.seen.size(), two.seen.size()), "another was asked");
                assertEquals(2, Math.max(one.seen.size(), two.seen.size()));
            }
        }
    }

    @Test
    void noRequestAfterTheDeadline() throws Exception {
        try (FakeServer server = new FakeServer(FakeServer.Exchange::cut);
                LeafdClient client = Expect.open(server.url())) {
            long end = System.nanoTime() + 300_000_000;
            Expect.took(() -> Expect.error("unreachable",
                    () -> client.strict("t").next(Duration.ofMillis(300))));
            long sent = client.stats().get("requests");
            Thread.sleep(300); // nothing is to be sent in this time
            assertEquals(sent, client.stats().get("requests"));
            for (FakeServer.Exchange exchange : new ArrayList<>(server.seen)) {
                assertTrue(exchange.nanos < end + Expect.slackMs(100) * 1_000_000);
            }
        }
    }

    @Test
    void aNameThatNobodyKnows() throws Exception {
        try (LeafdClient client = LeafdClient.open("http://no-such-host.invalid:1")) {
            LeafdException error = Expect.error("unreachable", () -> client.strict("t").next(SHORT));
            assertTrue(error.getMessage().contains("no-such-host.invalid"), error.getMessage());
        }
    }

    @Test
    void aNameIsLookedUp() throws Exception {
        try (FakeServer server = new FakeServer(cluster); LeafdClient client = LeafdClient.open(
                "http://localhost:" + server.port())) {
            assertEquals(1, client.strict("t").next());
            assertEquals("localhost:" + server.port(), server.seen.get(0).headers.get("host"));
        }
    }

    @Test
    void connectionsHaveABound() throws Exception {
        CountDownLatch release = new CountDownLatch(1);
        try (FakeServer server = new FakeServer(exchange -> {
            release.await(60, TimeUnit.SECONDS);
            cluster.handle(exchange);
        }); LeafdClient client = LeafdClient.open(Expect.settings(server.url())
                .connectMs(60_000).attemptMs(600_000).build())) { // so no attempt ends early
            StrictSource source = client.strict("t");
            List<CompletableFuture<Long>> futures = new ArrayList<>();
            for (int i = 0; i < 200; i++) {
                futures.add(source.nextAsync());
            }
            Expect.until("all have begun", () -> client.stats().get("requests") == 200
                    && server.seen.size() >= 64);
            LeafdException late = Expect.error("unreachable",
                    () -> source.next(Duration.ofSeconds(2)));
            assertTrue(late.getMessage().contains("all connections are in use"),
                    late.getMessage());
            release.countDown();
            for (CompletableFuture<Long> future : futures) {
                future.get(60, TimeUnit.SECONDS);
            }
            assertEquals(64, server.connections.get()); // one for each that was let begin
        }
    }

    @Test
    void thoseWhoWaitForAConnectionGetTheirTurn() throws Exception {
        try (FakeServer server = new FakeServer(exchange -> {
            Thread.sleep(5); // so that many are under way at once
            cluster.handle(exchange);
        }); LeafdClient client = LeafdClient.open(Expect.settings(server.url())
                .connectMs(60_000).build())) { // so none is given up and made again
            List<CompletableFuture<Long>> futures = new ArrayList<>();
            for (int i = 0; i < 1000; i++) {
                futures.add(client.strict("t").nextAsync());
            }
            java.util.Set<Long> ids = new java.util.HashSet<>();
            for (CompletableFuture<Long> future : futures) {
                ids.add(future.get(20, TimeUnit.SECONDS));
            }
            assertEquals(1000, ids.size());
            assertTrue(server.connections.get() <= 64);
        }
    }

    @Test
    void noThreadKeepsTheProgramAlive() throws Exception {
        try (FakeServer server = new FakeServer(FakeServer.Exchange::awaitEnd)) {
            LeafdClient client = LeafdClient.open("http://localhost:" + server.port());
            CompletableFuture<Long> waiting = client.strict("t").nextAsync();
            Expect.until("the request", () -> server.seen.size() == 1);
            Thread[] threads = new Thread[Thread.activeCount() + 10];
            Thread.enumerate(threads);
            for (Thread thread : threads) {
                if (thread != null && thread.getName().startsWith("leafd-client")) {
                    assertTrue(thread.isDaemon());
                }
            }
            client.close();
            Expect.error("closed", waiting);
            assertNull(LeafdException.closed().idempotencyKey());
            Expect.until("its connections end", () -> server.openConnections() == 0);
            Expect.error("closed", () -> client.segment("t"));
            Expect.error("closed", client.strict("t")::next);
            Expect.error("closed", client.strict("t").nextAsync());
            Expect.error("closed", client::snowflake);
            client.close();
            assertFalse(client.statsText().isEmpty());
        }
    }
}
