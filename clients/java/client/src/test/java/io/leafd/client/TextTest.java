package io.leafd.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(120)
class TextTest {
    private final FakeCluster cluster = new FakeCluster();

    @Test
    void oneRequestACallWithAKeyOfItsOwn() throws Exception {
        try (FakeServer server = new FakeServer(cluster);
                LeafdClient client = Expect.open(server.url())) {
            TextSource source = client.texts("t");
            assertEquals("INV-1", source.next());
            assertEquals(List.of("INV-2", "INV-3"), source.next(2).texts());
            assertEquals("INV-4", source.nextAsync().get(5, TimeUnit.SECONDS));
            assertFalse(source.next(1, "mine").replayed());
            TextIds again = source.next(1, "mine");
            assertTrue(again.replayed());
            assertEquals("INV-5", again.first());
            assertEquals(5, server.seen.size());
            assertTrue(server.seen.get(1).headers.get("idempotency-key").matches("[a-z2-7]{26}"));
            assertEquals(6, client.stats().get("ids_strict"));
            assertEquals(5, client.stats().get("waits"));
        }
    }

    @Test
    void aTagOfModeTrendTakesNoKeyWhichIsFoundOutOnce() throws Exception {
        try (FakeServer server = new FakeServer(cluster);
                LeafdClient client = Expect.open(server.url())) {
            TextSource source = client.texts("trend");
            assertEquals("INV-1", source.next());
            assertEquals("INV-2", source.nextAsync().get(5, TimeUnit.SECONDS));
            assertEquals(3, server.seen.size());
            assertNull(server.seen.get(1).headers.get("idempotency-key"));
            assertEquals(0, client.stats().get("errors"));
            assertEquals(2, client.stats().get("waits"));
            LeafdException error = Expect.error("bad_key", () -> source.next(1, "mine"));
            assertEquals("mine", error.idempotencyKey());
        }
    }

    @Test
    void theKeyOfACallThatFailed() throws Exception {
        try (FakeServer server = new FakeServer(exchange -> {
            exchange.lose();
            cluster.handle(exchange);
        }); LeafdClient client = Expect.open(server.url())) {
            TextSource source = client.texts("t");
            LeafdException error = Expect.error("unreachable",
                    () -> source.next(1, Duration.ofSeconds(1)));
            server.handler(cluster);
            TextIds ids = source.next(1, error.idempotencyKey());
            assertTrue(ids.replayed());
            assertEquals("INV-1", ids.first());
        }
    }

    @Test
    void theNumberOfAText() throws Exception {
        try (FakeServer server = new FakeServer(exchange ->
                exchange.reply(200, "{\"tag\":\"t\",\"id\":\"42\",\"granted\":true}"));
                LeafdClient client = Expect.open(server.url())) {
            TextSource source = client.texts("t");
            assertEquals(42, source.decode("A&b=+%42"));
            assertEquals("/api/segment/decode/t?text=A%26b%3D%2B%2542",
                    server.seen.get(0).target);
            server.handler(exchange -> exchange.error(400, "bad_id"));
            assertEquals(400, Expect.error("bad_id", () -> source.decode("B")).status());
            for (String body : new String[] {"42", "{\"id\":42,\"granted\":true}", "{\"id\":\"42\"}",
                "{\"id\":\"-1\",\"granted\":true}",
                "{\"id\":\"9223372036854775808\",\"granted\":true}"}) {
                server.handler(exchange -> exchange.reply(200, body));
                Expect.error("bad_answer", () -> source.decode("B"));
            }
        }
    }

    @Test
    void whatBreaksItsRuleIsNotSent() throws Exception {
        try (FakeServer server = new FakeServer(cluster);
                LeafdClient client = Expect.open(server.url())) {
            TextSource source = client.texts("t");
            Expect.error("bad_setting", () -> source.next(0));
            Expect.error("bad_setting", () -> source.next(1001));
            Expect.error("bad_setting", () -> source.next(1, " a"));
            Expect.error("bad_setting", () -> source.decode(""));
            Expect.error("bad_setting", () -> source.decode("x".repeat(131)));
            Expect.error("bad_setting", () -> source.decode("a b"));
            assertEquals(0, server.seen.size());
            assertEquals(1000, source.next(1000).texts().size());
        }
    }
}
