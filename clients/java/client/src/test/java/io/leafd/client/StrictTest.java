package io.leafd.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(120)
class StrictTest {
    private final FakeCluster cluster = new FakeCluster();

    @Test
    void oneRequestACallWithAKeyOfItsOwn() throws Exception {
        try (FakeServer server = new FakeServer(cluster);
                LeafdClient client = Expect.open(server.url())) {
            StrictSource source = client.strict("t");
            assertEquals(1, source.next());
            StrictIds ids = source.next(5);
            assertEquals("2-6", ids.range().toString());
            assertFalse(ids.replayed());
            assertEquals(7, source.nextAsync().get(5, TimeUnit.SECONDS));
            assertEquals(3, server.seen.size());
            String key = server.seen.get(1).headers.get("idempotency-key");
            assertEquals(key, ids.key());
            assertTrue(key.matches("[a-z2-7]{26}"), key);
            assertNotEquals(key, server.seen.get(0).headers.get("idempotency-key"));
            assertEquals(7, client.stats().get("ids_strict"));
        }
    }

    @Test
    void aLostAnswerIsReplayed() throws Exception {
        AtomicInteger count = new AtomicInteger();
        FakeServer.Handler losesTheFirst = exchange -> {
            if (count.incrementAndGet() == 1) {
                exchange.lose();
            }
            cluster.handle(exchange); // the ids belong to this key, whoever hears of it
        };
        try (FakeServer one = new FakeServer(losesTheFirst);
                FakeServer two = new FakeServer(losesTheFirst);
                LeafdClient client = Expect.open(one.url(), two.url())) {
            StrictIds ids = client.strict("t").next(3);
            assertEquals("1-3", ids.range().toString());
            assertTrue(ids.replayed());
            assertEquals(4, client.strict("t").next(), "nothing was skipped");
            assertEquals(one.seen.get(0).headers.get("idempotency-key"),
                    two.seen.get(0).headers.get("idempotency-key"));
        }
    }

    @Test
    void theCallersKey() throws Exception {
        try (FakeServer server = new FakeServer(cluster);
                LeafdClient client = Expect.open(server.url())) {
            StrictSource source = client.strict("t");
            assertEquals(1, source.next(1, "order-4711").first());
            StrictIds again = source.next(1, "order-4711");
            assertEquals(1, again.first());
            assertTrue(again.replayed());
            assertEquals("order-4711", again.key());
            StrictIds third = source.nextAsync(1, "order-4711").get(5, TimeUnit.SECONDS);
            assertEquals(1, third.first());
        }
    }

    @Test
    void theKeyOfACallThatFailed() throws Exception {
        try (FakeServer server = new FakeServer(exchange -> {
            exchange.lose();
            cluster.handle(exchange);
        }); LeafdClient client = Expect.open(server.url())) {
            StrictSource source = client.strict("t");
            LeafdException error = Expect.error("unreachable",
                    () -> source.next(Duration.ofSeconds(1)));
            server.handler(cluster);
            StrictIds ids = source.next(1, error.idempotencyKey());
            assertTrue(ids.replayed());
            assertEquals(1, ids.first());
        }
    }

    @Test
    void answersThatAreNoStrictIds() throws Exception {
        for (String body : new String[] {"1 1\n3 3\n", "1 3\n", "x"}) {
            try (FakeServer server = new FakeServer(exchange -> exchange.reply(200, body));
                    LeafdClient client = Expect.open(server.url())) {
                Expect.error("bad_answer", () -> client.strict("t").next(2));
            }
        }
    }

    @Test
    void thirtyTwoThreads() throws Exception {
        try (FakeServer server = new FakeServer(cluster);
                LeafdClient client = Expect.open(server.url())) {
            StrictSource source = client.strict("t");
            assertEquals(3200, Threads.distinct(32, 100, source::next).size());
            assertEquals(3200, client.stats().get("ids_strict"));
        }
    }

    @Test
    void aCallEndsByItsDeadline() throws Exception {
        try (FakeServer server = new FakeServer(FakeServer.Exchange::hang);
                LeafdClient client = Expect.open(server.url())) {
            for (int deadline : new int[] {1, 50, 300}) {
                long ms = Expect.took(() -> Expect.error("unreachable",
                        () -> client.strict("t").next(Duration.ofMillis(deadline))));
                assertTrue(ms < deadline + Expect.slackMs(), deadline + ": " + ms);
            }
        }
    }
}
