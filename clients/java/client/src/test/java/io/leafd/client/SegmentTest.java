package io.leafd.client;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(120)
class SegmentTest {
    private static final Duration LONG = Duration.ofSeconds(20);
    private final FakeCluster cluster = new FakeCluster();

    private static LeafdClient open(FakeServer server) {
        return Expect.open(server.url());
    }

    @Test
    void idsRiseAndTheFirstRequestAsksForMinCount() throws Exception {
        try (FakeServer server = new FakeServer(cluster); LeafdClient client = open(server)) {
            SegmentSource source = client.segment("a/b ä");
            for (long i = 1; i <= 1000; i++) {
                assertEquals(i, source.next());
            }
            FakeServer.Exchange first = server.seen.get(0);
            assertEquals("/api/segment/get/a%2Fb%20%C3%A4?count=100&format=range", first.target);
            assertEquals("127.0.0.1:" + server.port(), first.headers.get("host"));
            assertEquals(1, server.connections.get(), "the connection is kept");
            assertEquals(1000, client.stats().get("ids_segment"));
        }
    }

    @Test
    void theNextRangeIsAskedForWhenLessThanHalfIsLeft() throws Exception {
        try (FakeServer server = new FakeServer(cluster); LeafdClient client = open(server)) {
            SegmentSource source = client.segment("t");
            source.next(50);
            source.next(Duration.ofSeconds(5));
            Expect.until("a second request", () -> server.seen.size() == 2);
            source.next(49);
            source.next();
            // The spare range is there, and more than half of the first is left.
            assertEquals(2, server.seen.size());
        }
    }

    @Test
    void noRequestBeforeHalfIsUsed() throws Exception {
        try (FakeServer server = new FakeServer(cluster); LeafdClient client = open(server)) {
            SegmentSource source = client.segment("t");
            source.next(50);
            source.nextRange(1); // behind it in the loop's order a refill would have been sent
            assertEquals(2, server.seen.size());
            assertTrue(server.seen.get(1).target.contains("contiguous=1"));
        }
    }

    @Test
    void sizesFollowTheRate() throws Exception {
        try (FakeServer server = new FakeServer(cluster); LeafdClient client = open(server)) {
            SegmentSource source = client.segment("t");
            source.next(100_000);
            int last = 50;
            for (FakeServer.Exchange exchange : new ArrayList<>(server.seen)) {
                assertEquals(Math.min(100_000, last * 2), exchange.askedFor(), "doubled each time");
                last = exchange.askedFor();
            }
            assertTrue(last >= 25_600, "it grew up to " + last);
            Thread.sleep(200); // what is measured is a rate: nothing is taken for so long
            source.next(1);
        }
    }

    @Test
    void sizesFallToHalfAtMost() throws Exception {
        try (FakeServer server = new FakeServer(cluster);
                LeafdClient client = LeafdClient.open(Expect.settings(server.url()).coverMs(1)
                        .minCount(10).build())) {
            SegmentSource source = client.segment("t");
            source.next(10);
            Expect.until("the second", () -> server.seen.size() >= 2);
            for (FakeServer.Exchange exchange : new ArrayList<>(server.seen)) {
                assertTrue(exchange.askedFor() >= 10 && exchange.askedFor() <= 20);
            }
        }
    }

    @Test
    void oneRequestAtATime() throws Exception {
        AtomicInteger now = new AtomicInteger();
        AtomicInteger most = new AtomicInteger();
        try (FakeServer server = new FakeServer(exchange -> {
            most.accumulateAndGet(now.incrementAndGet(), Math::max);
            Thread.sleep(2); // so that a second one had the time to come
            now.decrementAndGet();
            cluster.handle(exchange);
        }); LeafdClient client = LeafdClient.open(
                Expect.settings(server.url()).maxCount(100).build())) {
            SegmentSource source = client.segment("t");
            Set<Long> ids = Threads.distinct(16, 200, source::next);
            assertEquals(3200, ids.size());
            assertEquals(1, most.get());
        }
    }

    @Test
    void everyRangeOfAnAnswerIsUsed() throws Exception {
        AtomicInteger count = new AtomicInteger();
        try (FakeServer server = new FakeServer(exchange -> {
            if (count.getAndIncrement() == 0) {
                exchange.reply(200, "5 9\n20 20\n30 33\n");
            } else {
                exchange.hang();
            }
        }); LeafdClient client = LeafdClient.open(
                Expect.settings(server.url()).minCount(10).build())) {
            SegmentSource source = client.segment("t");
            assertArrayEquals(new long[] {5, 6, 7, 8, 9, 20, 30, 31, 32, 33}, source.next(10));
        }
    }

    @Test
    void idsGoOnWhileNoNodeAnswers() throws Exception {
        FakeServer server = new FakeServer(cluster);
        try (LeafdClient client = LeafdClient.open(
                Expect.settings(server.url()).deadlineMs(300).build())) {
            SegmentSource source = client.segment("t");
            source.next(60, LONG);
            Expect.until("the spare range", () -> server.seen.size() == 2);
            source.nextRange(1, LONG); // and it has arrived, as answers come in order
            server.close();
            int count = 0;
            LeafdException error = null;
            while (error == null) {
                try {
                    source.next();
                    count++;
                } catch (LeafdException e) {
                    error = e;
                }
            }
            assertEquals(240, count, "40 of the first range, 200 of the second");
            assertEquals("unreachable", error.code());
            assertEquals(0, error.status());
            assertTrue(error.retryable());
            assertTrue(error.getMessage().contains(server.url()), error.getMessage());
        } finally {
            server.close();
        }
    }

    @Test
    void idsComeAgainWithTheNode() throws Exception {
        AtomicBoolean up = new AtomicBoolean();
        try (FakeServer server = new FakeServer(exchange -> {
            if (up.get()) {
                cluster.handle(exchange);
            } else {
                exchange.error(503, "no_leader");
            }
        }); LeafdClient client = open(server)) {
            SegmentSource source = client.segment("t");
            LeafdException error = Expect.error("unreachable",
                    () -> source.next(Duration.ofSeconds(1)));
            assertTrue(error.getMessage().contains("503 no_leader"), error.getMessage());
            up.set(true);
            assertEquals(1, source.next());
        }
    }

    @Test
    void anErrorThatIsNotRetriedIsForgottenAfterASecond() throws Exception {
        try (FakeServer server = new FakeServer(
                exchange -> exchange.error(404, "unknown_tag")); LeafdClient client = open(server)) {
            SegmentSource source = client.segment("t");
            long begun = System.nanoTime();
            LeafdException error = Expect.error("unknown_tag", source::next);
            assertEquals(404, error.status());
            assertTrue(!error.retryable());
            Expect.error("unknown_tag", source::next);
            Expect.error("unknown_tag", source.nextAsync());
            long asked = server.seen.size();
            assertTrue(asked <= 1 + (System.nanoTime() - begun) / 1_000_000_000,
                    asked + " requests: within a second there is but one");
            server.handler(cluster);
            long ms = Expect.took(() -> Expect.until("an id", () -> {
                try {
                    return source.next() == 1;
                } catch (LeafdException e) {
                    return false;
                }
            }));
            assertTrue(ms < 2400 + Expect.slackMs(), "after " + ms + " ms");
            assertEquals(asked + 1, server.seen.size());
        }
    }

    @Test
    void answersThatAreNoIds() throws Exception {
        String[] bodies = {"", "1 2", "x y\n", "1 100\n1 100\n", "1 60\n50 89\n", "1 99\n",
            "1 101\n", "100 1\n", "0 9223372036854775807\n", "1 50\n\n51 100\n", "01 100\n",
            "1 9999999999999999999\n", "-1 98\n", "1\n", "{}", "51 100\n1 50\n",
            "1 1\n".repeat(65)};
        for (String body : bodies) {
            try (FakeServer server = new FakeServer(exchange -> exchange.reply(200, body));
                    LeafdClient client = open(server)) {
                LeafdException error = Expect.error("bad_answer", client.segment("t")::next);
                assertEquals(200, error.status(), body);
                assertEquals(1, server.seen.size(), "it is not retried: " + body);
            }
        }
    }

    @Test
    void aRangeThatCameBeforeIsDropped() throws Exception {
        List<String> answers = List.of("201 300\n", "201 300\n", "1 100\n", "101 200\n",
                "1001 1100\n");
        AtomicInteger count = new AtomicInteger();
        try (FakeServer server = new FakeServer(exchange -> {
            int n = count.getAndIncrement();
            if (n < answers.size()) {
                String[] ends = answers.get(n).trim().split(" ");
                // As many as were asked for, from where the answer says.
                long first = Long.parseLong(ends[0]);
                exchange.reply(200, first + " " + (first + exchange.askedFor() - 1) + "\n");
            } else {
                exchange.hang();
            }
        }); LeafdClient client = LeafdClient.open(
                Expect.settings(server.url()).maxCount(100).build())) {
            long[] ids = client.segment("t").next(200);
            for (int i = 0; i < 100; i++) {
                assertEquals(201 + i, ids[i]);
                assertEquals(1001 + i, ids[100 + i]);
            }
            assertEquals(300, client.stats().get("burnt"));
        }
    }

    @Test
    void aNodeThatStaysBehindIsAnError() throws Exception {
        try (FakeServer server = new FakeServer(cluster); LeafdClient client = LeafdClient.open(
                Expect.settings(server.url()).build())) {
            SegmentSource source = client.segment("t");
            cluster.setNext("t", 1_000_000_000);
            source.next(100);
            cluster.setNext("t", 1);
            String message = Expect.error("bad_answer", () -> source.next(10_000)).getMessage();
            assertTrue(message.contains("not above 1000"), message);
        }
    }

    @Test
    void smallAnswersOfANodeThatIsBehindArePassedOver() throws Exception {
        try (FakeServer server = new FakeServer(cluster); LeafdClient client = LeafdClient.open(
                Expect.settings(server.url()).maxCount(100).build())) {
            SegmentSource source = client.segment("t");
            cluster.setNext("t", 30_000);
            source.next(100);
            source.next(100); // of the spare range, which was asked for then
            Expect.until("the third", () -> server.seen.size() >= 3);
            cluster.setNext("t", 1); // 300 answers below
            long[] ids = source.next(1000);
            assertTrue(ids[999] > 30_000);
        }
    }

    @Test
    void aCallEndsByItsDeadline() throws Exception {
        try (FakeServer server = new FakeServer(FakeServer.Exchange::hang);
                LeafdClient client = open(server)) {
            SegmentSource source = client.segment("t");
            for (int deadline : new int[] {1, 50, 300}) {
                long ms = Expect.took(() -> Expect.error("unreachable",
                        () -> source.next(Duration.ofMillis(deadline))));
                assertTrue(ms >= deadline && ms < deadline + Expect.slackMs(), deadline + ": " + ms);
                long range = Expect.took(() -> Expect.error("unreachable",
                        () -> source.nextRange(1, Duration.ofMillis(deadline))));
                assertTrue(range >= deadline - 1 && range < deadline + Expect.slackMs(),
                        deadline + ": " + range);
            }
        }
    }

    @Test
    void whatACallGotBeforeItFailedIsBurnt() throws Exception {
        AtomicInteger count = new AtomicInteger();
        try (FakeServer server = new FakeServer(exchange -> {
            if (count.getAndIncrement() == 0) {
                cluster.handle(exchange);
            } else {
                exchange.hang();
            }
        }); LeafdClient client = open(server)) {
            Expect.error("unreachable",
                    () -> client.segment("t").next(150, Duration.ofSeconds(1)));
            assertEquals(100, client.stats().get("burnt"));
        }
    }

    @Test
    void aRangeOfItsOwn() throws Exception {
        try (FakeServer server = new FakeServer(cluster); LeafdClient client = open(server)) {
            SegmentSource source = client.segment("t");
            assertEquals(1, source.next());
            assertEquals("101-600", source.nextRange(500).toString());
            assertEquals(2, source.next());
            assertEquals("601-601", source.nextRangeAsync(1).get(5, TimeUnit.SECONDS).toString());
            server.handler(exchange -> exchange.reply(200, "1 1\n3 3\n"));
            Expect.error("bad_answer", () -> source.nextRange(2));
            server.handler(exchange -> exchange.error(409, "not_contiguous"));
            assertEquals(409, Expect.error("not_contiguous", () -> source.nextRange(2)).status());
        }
    }

    @Test
    void futures() throws Exception {
        try (FakeServer server = new FakeServer(cluster); LeafdClient client = open(server)) {
            SegmentSource source = client.segment("t");
            List<CompletableFuture<Long>> futures = new ArrayList<>();
            for (int i = 0; i < 5000; i++) {
                futures.add(source.nextAsync());
            }
            CompletableFuture<long[]> many = source.nextAsync(1000);
            Set<Long> all = new java.util.HashSet<>();
            for (CompletableFuture<Long> future : futures) {
                assertTrue(all.add(future.get(10, TimeUnit.SECONDS)));
            }
            long last = -1;
            for (long id : many.get(10, TimeUnit.SECONDS)) {
                assertTrue(all.add(id) && id > last);
                last = id;
            }
            CompletableFuture<String> thread = client.openSegment("t").nextAsync()
                    .thenApply(id -> Thread.currentThread().getName());
            assertTrue(!thread.get(5, TimeUnit.SECONDS).equals("leafd-client"),
                    "callers go on in another thread than ours");
        }
    }

    @Test
    void futuresEndByTheDeadline() throws Exception {
        try (FakeServer server = new FakeServer(FakeServer.Exchange::hang);
                LeafdClient client = LeafdClient.open(
                        Expect.settings(server.url()).deadlineMs(150).build())) {
            CompletableFuture<Long> future = client.segment("t").nextAsync();
            long ms = Expect.took(() -> Expect.error("unreachable", future));
            assertTrue(ms < 150 + Expect.slackMs(), "" + ms);
        }
    }

    @Test
    void howManyFuturesMayWait() throws Exception {
        try (FakeServer server = new FakeServer(FakeServer.Exchange::hang);
                LeafdClient client = LeafdClient.open(
                        Expect.settings(server.url()).deadlineMs(60_000).build())) {
            SegmentSource source = client.segment("t");
            CompletableFuture<Long> last = null;
            for (int i = 0; i < Core.MAX_WAITING; i++) {
                last = source.nextAsync();
            }
            assertTrue(!last.isDone());
            assertTrue(Expect.error("overloaded", source.nextAsync()).retryable());
            source.close();
            Expect.error("closed", last);
        }
    }

    @Test
    void thirtyTwoThreadsOnOneSource() throws Exception {
        try (FakeServer server = new FakeServer(cluster); LeafdClient client = open(server)) {
            assertEquals(32 * 20_000,
                    Threads.distinct(32, 20_000, client.segment("t")::next).size());
        }
    }

    @Test
    void thirtyTwoThreadsOverNodesThatDie() throws Exception {
        // Each second answer of each node is lost with its connection, on the way in or out.
        FakeServer.Handler moody = exchange -> {
            if (exchange.number % 4 == 1) {
                exchange.cut();
                return;
            }
            if (exchange.number % 4 == 3) {
                FakeServer.Exchange lost = exchange;
                synchronized (cluster) {
                    cluster.setNext("t", 1_000L * lost.number + System.nanoTime() / 1000);
                }
                exchange.cut();
                return;
            }
            cluster.handle(exchange);
        };
        try (FakeServer one = new FakeServer(moody); FakeServer two = new FakeServer(moody);
                LeafdClient client = LeafdClient.open(
                        Expect.settings(one.url(), two.url()).maxCount(1000).build())) {
            SegmentSource source = client.segment("t");
            assertEquals(32 * 1000, Threads.distinct(32, 1000, source::next).size());
            assertTrue(client.stats().get("failovers") > 0);
        }
    }

    @Test
    void sharedAndOwnSources() throws Exception {
        try (FakeServer server = new FakeServer(cluster); LeafdClient client = open(server)) {
            SegmentSource shared = client.segment("t");
            assertSame(shared, client.segment("t"));
            SegmentSource own = client.openSegment("t");
            assertNotSame(shared, own);
            shared.next(10);
            own.next(10);
            own.close();
            Expect.error("closed", own::next);
            Expect.error("closed", () -> own.nextRange(1));
            assertEquals(20, client.stats().get("ids_segment"), "those of closed ones count");
            assertEquals(90, client.stats().get("burnt"));
            shared.close();
            assertNotSame(shared, client.segment("t"));
            assertEquals(201, client.segment("t").next());
        }
    }

    @Test
    void howManySourcesThereMayBe() throws Exception {
        try (FakeServer server = new FakeServer(cluster); LeafdClient client = open(server)) {
            for (int i = 0; i < 10_000; i++) {
                client.segment("tag-" + i);
            }
            Expect.error("bad_setting", () -> client.segment("one more"));
            client.segment("tag-7").close();
            client.segment("one more");
        }
    }

    @Test
    void aThreadThatIsInterrupted() throws Exception {
        try (FakeServer server = new FakeServer(FakeServer.Exchange::hang);
                LeafdClient client = open(server)) {
            Thread.currentThread().interrupt();
            Expect.error("interrupted", client.segment("t")::next);
            assertTrue(Thread.interrupted(), "and it is still known");
        }
    }
}
