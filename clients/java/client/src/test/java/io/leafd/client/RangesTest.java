package io.leafd.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** What a source holds, and for how long: age, generation; the second request; events. */
@Timeout(120)
class RangesTest {
    private final FakeCluster cluster = new FakeCluster();
    private final List<LeafdEvent> told = new CopyOnWriteArrayList<>();
    private volatile String generation;

    private LeafdClient open(Settings.Builder settings) {
        return LeafdClient.open(settings.onEvent(event -> {
            told.add(event);
            if (told.size() % 2 == 0) {
                throw new IllegalStateException("of the program");
            }
            throw new AssertionError("of the program");
        }).build());
    }

    /** Ids of one range after the other, with the generation of now. */
    private FakeServer.Handler granting() {
        long[] next = {1};
        return exchange -> {
            long first = next[0];
            next[0] += exchange.askedFor();
            String line = first + " " + (next[0] - 1) + "\n";
            if (generation == null) {
                exchange.reply(200, line);
            } else {
                exchange.reply(200, line, "Leafd-Generation: " + generation);
            }
        };
    }

    @Test
    void aRangeIsDroppedAtItsAgeByItself() throws Exception {
        try (FakeServer server = new FakeServer(cluster);
                LeafdClient client = open(Expect.settings(server.url()).maxAgeMs(2000))) {
            long began = System.nanoTime();
            client.segment("t").next();
            client.segment("u").next();
            Expect.until("both are dropped", () -> client.stats().get("burnt") == 2 * 99);
            long age = System.nanoTime() - began;
            assertTrue(age >= 2_000_000_000L, age + " ns");
            assertEquals(2, server.seen.size(), "nobody asked for more");
            assertEquals(101, client.segment("t").next());
            assertEquals(3, client.stats().get("ids_segment"));
            Expect.until("events", () -> told.size() == 2);
            assertTrue(told.toString().contains("AGED t 99"), told::toString);
        }
    }

    @Test
    void threadsTakeNoIdThatWasDropped() throws Exception {
        try (FakeServer server = new FakeServer(cluster);
                LeafdClient client = LeafdClient.open(Expect.settings(server.url()).maxAgeMs(1)
                        .minCount(1000).maxCount(1000).build())) {
            SegmentSource source = client.segment("t");
            assertEquals(200_000, Threads.distinct(4, 50_000, source::next).size());
            Expect.until("nothing is held", () -> client.stats().idsLeft().get("t") == 0);
            source.nextRange(1);
            assertEquals(200_001, client.stats().get("ids_segment"));
            Expect.until("each is counted once", () -> {
                long granted = server.seen.stream().mapToLong(FakeServer.Exchange::askedFor).sum();
                Stats stats = client.stats();
                return granted == stats.get("ids_segment") + stats.get("burnt");
            });
        }
    }

    @Test
    void heldRangesOfAnOlderGenerationAreDropped() throws Exception {
        generation = "4";
        try (FakeServer server = new FakeServer(granting());
                LeafdClient client = open(Expect.settings(server.url()))) {
            SegmentSource source = client.segment("t");
            source.next(3);
            generation = "5";
            assertEquals("101-110", source.nextRange(10).toString());
            assertEquals(97, client.stats().get("burnt"));
            assertEquals(111, source.next());
            Expect.until("an event", () -> told.size() == 1);
            assertEquals("GENERATION t 97", told.get(0).toString());
            generation = null;
            source.nextRange(10);
            assertEquals(97, client.stats().get("burnt"));
            for (String bad : new String[] {"x", "-1", "9223372036854775808"}) {
                generation = bad;
                Expect.error("bad_answer", () -> source.nextRange(1));
            }
        }
    }

    /** Answers, but not before the latch is down. */
    private FakeServer.Handler late(CountDownLatch latch) {
        return exchange -> {
            latch.await(60, TimeUnit.SECONDS);
            cluster.handle(exchange);
        };
    }

    @Test
    void aSecondNodeIsAskedWhileACallerWaits() throws Exception {
        CountDownLatch latch = new CountDownLatch(1);
        try (FakeServer one = new FakeServer(cluster); FakeServer two = new FakeServer(cluster);
                LeafdClient client = open(Expect.settings(one.url(), two.url()).connectMs(1000))) {
            StrictSource strict = client.strict("s");
            strict.next();
            FakeServer used = one.seen.isEmpty() ? two : one;
            FakeServer other = used == one ? two : one;
            used.handler(late(latch));
            assertEquals(1, client.segment("t").next(Duration.ofSeconds(60)));
            assertTrue(client.stats().get("hedges") >= 1);
            assertEquals(1, other.seen.size());
            Expect.until("it is left", () -> client.stats().get("failovers") >= 1);
            strict.next();
            assertEquals(2, other.seen.size(), "the next call begins there");
            latch.countDown();
            Expect.until("the late answer is spare", () -> client.stats().idsLeft().get("t") > 100
                    || client.stats().get("burnt") > 0);
            long[] ids = client.segment("t").next(150);
            for (int i = 1; i < ids.length; i++) {
                assertTrue(ids[i] > ids[i - 1]);
            }
        }
    }

    @Test
    void events() throws Exception {
        FakeServer.Handler refusing = exchange -> exchange.error(503, "not_ready");
        try (FakeServer one = new FakeServer(refusing); FakeServer two = new FakeServer(refusing);
                LeafdClient client = open(Expect.settings(one.url(), two.url()))) {
            SegmentSource source = client.segment("t");
            Thread caller = new Thread(() -> source.next());
            caller.start();
            Expect.until("a failure", () -> told.stream().anyMatch(
                    event -> event.kind() == LeafdEvent.Kind.REFILL_FAILED));
            one.handler(cluster);
            two.handler(cluster);
            caller.join();
            Expect.until("ids again", () -> told.get(told.size() - 1).kind()
                    == LeafdEvent.Kind.RECOVERED);
            List<LeafdEvent> all = new ArrayList<>(told);
            assertEquals(LeafdEvent.Kind.FAILOVER, all.get(0).kind());
            assertNotEquals(all.get(0).from(), all.get(0).to());
            all.removeIf(event -> event.kind() == LeafdEvent.Kind.FAILOVER);
            assertEquals("[REFILL_FAILED t unreachable, RECOVERED t]", all.toString());
        }
    }

    @Test
    void gaugesAndSourcesThatAreClosedByThemselves() throws IOException {
        cluster.nowMs = System.currentTimeMillis();
        try (FakeServer server = new FakeServer(cluster);
                LeafdClient client = open(Expect.settings(server.url()))) {
            client.segment("t").next();
            client.openSegment("t").next();
            StrictSource strict = client.strict("s");
            TextSource texts = client.texts("s");
            strict.next();
            assertEquals(198, client.stats().idsLeft().get("t"));
            assertEquals(Set.of("t"), client.stats().rangeAgeMs().keySet());
            strict.close();
            texts.close();
            Expect.error("closed", () -> strict.next());
            Expect.error("closed", () -> texts.next());
            Expect.error("closed", () -> texts.decode("1"));
            assertEquals(2, client.strict("s").next());
            SnowflakeSource snowflake = client.snowflake("me");
            snowflake.next();
            assertTrue(client.stats().windowEndMs().get("me") > 0);
            assertTrue(cluster.isHeld(0));
            snowflake.close();
            snowflake.close();
            Expect.error("closed", () -> snowflake.next());
            assertTrue(!cluster.isHeld(0));
            assertTrue(client.snowflake("me").next() > 0);
        }
    }

    @Test
    void theFakeForProgramsTests() {
        FakeLeafd fake = new FakeLeafd();
        fake.setNext("t", 1000);
        IdSource source = fake.segment("t");
        assertEquals(1000, source.next());
        fake.fail("t", "unreachable", 2);
        Expect.error("unreachable", () -> source.next());
        Expect.error("unreachable", () -> fake.segment("t").next(Duration.ofSeconds(1)));
        assertEquals(1001, fake.strict("t").next());
        assertEquals(1, fake.snowflake("me").next());
        source.close();
        Expect.error("closed", () -> source.next());
    }
}
