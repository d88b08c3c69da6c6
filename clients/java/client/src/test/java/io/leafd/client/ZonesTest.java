package io.leafd.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.stream.Collectors;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Nodes that are learnt from a node, and which of them is asked. */
@Timeout(120)
class ZonesTest {
    private final FakeCluster cluster = new FakeCluster();
    private final List<FakeServer> servers = new ArrayList<>();
    /** Each a node's zone, weight, state, and whether it makes snowflake ids. */
    private final List<String> nodes = new ArrayList<>(List.of("a 100 ready true",
            "a 100 ready true", "b 100 ready true", "b 100 ready true"));

    @BeforeEach
    void start() throws Exception {
        for (int i = 0; i < 4; i++) {
            int self = i;
            servers.add(new FakeServer(exchange -> {
                if (exchange.target.equals("/api/nodes")) {
                    exchange.reply(200, listing(self));
                } else {
                    cluster.handle(exchange);
                }
            }));
        }
    }

    @AfterEach
    void stop() throws Exception {
        for (FakeServer server : servers) {
            server.close();
        }
    }

    private synchronized String listing(int self) {
        List<String> rows = new ArrayList<>();
        for (int i = 0; i < nodes.size(); i++) {
            String[] words = nodes.get(i).split(" ");
            rows.add("{\"id\":" + (i + 1) + ",\"http_address\":\"127.0.0.1:"
                    + servers.get(i).port() + "\",\"zone\":\"" + words[0] + "\",\"weight\":"
                    + words[1] + ",\"state\":\"" + words[2] + "\",\"snowflake\":" + words[3] + "}");
        }
        return "{\"self\":" + (self + 1) + ",\"nodes\":["
                + rows.stream().collect(Collectors.joining(",")) + "]}";
    }

    private synchronized void set(int node, String row) {
        nodes.set(node, row);
    }

    private long asked(int node, String what) {
        synchronized (servers.get(node).seen) {
            return servers.get(node).seen.stream().filter(one -> one.target.contains(what)).count();
        }
    }

    @Test
    void aSecondRequestStaysInTheZone() throws Exception {
        set(1, "b 100 ready true"); // alone in its zone
        try (LeafdClient client = LeafdClient.open(Expect.settings(servers.get(0).url())
                .connectMs(50).attemptMs(240_000).deadlineMs(60_000).zone("a").build())) {
            client.strict("t").next();
            servers.get(0).handler(exchange -> {
                Thread.sleep(300); // slow, but within the time of an attempt
                cluster.handle(exchange);
            });
            client.strict("t").next();
            assertEquals(2, asked(0, "/get/"));
            assertEquals(0, client.stats().get("hedges"));
        }
    }

    @Test
    void aPausedTagIsToldAtOnceAndHeldIdsAreDropped() throws Exception {
        FakeServer server = servers.get(0);
        try (LeafdClient client = LeafdClient.open(Expect.settings(server.url())
                .minCount(10).build())) {
            SegmentSource source = client.segment("t");
            server.handler(exchange -> {
                if (asked(0, "/get/t") == 1) {
                    cluster.handle(exchange);
                } else {
                    exchange.error(423, "paused", "Retry-After: 1");
                }
            });
            for (int i = 0; i < 6; i++) { // the sixth is beyond the half: more are asked for
                source.next();
            }
            Expect.until("ids are dropped", () -> client.stats().get("burnt") == 4);
            LeafdException error = Expect.error("paused", () -> source.next());
            assertEquals(423, error.status());
            assertTrue(error.retryable());
            assertEquals(2, asked(0, "/get/t"));
            Expect.error("paused", () -> client.strict("t").next());
            assertEquals(3, asked(0, "/get/t"));
        }
    }
}
