package io.leafd.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
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
    private final Set<Integer> down = ConcurrentHashMap.newKeySet();
    private volatile int listings = 200;
    private volatile int answered;

    @BeforeEach
    void start() throws Exception {
        for (int i = 0; i < 4; i++) {
            int self = i;
            servers.add(new FakeServer(exchange -> {
                if (down.contains(self)) {
                    exchange.cut();
                } else if (!exchange.target.equals("/api/nodes")) {
                    answered = self;
                    cluster.handle(exchange);
                } else if (listings == 200) {
                    exchange.reply(200, listing(self));
                } else {
                    exchange.error(listings, "not_found");
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

    /** How many requests for ids the nodes had. */
    private List<Long> asked() {
        return servers.stream().map(one -> asked(servers.indexOf(one), "/get/"))
                .collect(Collectors.toList());
    }

    private LeafdClient client(String zone, int... first) {
        String[] urls = new String[first.length];
        for (int i = 0; i < first.length; i++) {
            urls[i] = servers.get(first[i]).url();
        }
        return LeafdClient.open(Expect.settings(urls).deadlineMs(60_000)
                .connectMs(60_000).attemptMs(240_000).zone(zone).build());
    }

    /** The node that gives this client an id now. */
    private int used(LeafdClient client) {
        client.segment("t").nextRange(1); // which has no second request
        return answered;
    }

    @Test
    void itsOwnZoneIsAskedFromTheFirstCallOn() throws Exception {
        for (int turn = 0; turn < 10 || asked().get(2) == 0 || asked().get(3) == 0; turn++) {
            assertTrue(turn < 100, "at random: " + asked());
            try (LeafdClient client = client("b", 0, 1)) {
                int node = used(client);
                for (int i = 0; i < 10; i++) {
                    assertEquals(node, used(client), "and one node alone");
                }
                assertEquals(11, client.stats().get("requests"));
                assertEquals(0, client.stats().get("failovers"));
            }
        }
        assertEquals(0, asked().get(0) + asked().get(1));
    }

    @Test
    void itBeginsByWeight() throws Exception {
        set(0, "a 1000 ready true");
        set(1, "a 1 ready true");
        set(2, "a 0 ready true");
        int[] used = new int[4];
        for (int turn = 0; turn < 20; turn++) {
            try (LeafdClient client = client("a", 0, 1, 2, 3)) {
                used[used(client)]++;
            }
        }
        assertTrue(used[0] > used[1], "one of a thousand times at most");
        assertEquals(0, used[2] + used[3], "of no weight, or of another zone");
    }

    @Test
    void anotherZoneIsAskedOnlyOnceItsOwnIsGoneAndItMovesBack() throws Exception {
        try (LeafdClient client = client("a", 0, 1, 2, 3)) { // none of which has to prove itself
            int first = used(client);
            down.add(first);
            assertEquals(1 - first, used(client));
            assertEquals(0, asked().get(2) + asked().get(3));
            down.add(1 - first);
            assertTrue(used(client) >= 2);
            down.remove(0);
            Expect.until("it moves back", () -> used(client) == 0);
            set(0, "a 100 drained true"); // which has no work any more
            down.remove(1);
            Expect.until("it leaves the drained one", () -> used(client) == 1);
        }
    }

    @Test
    void anOlderServerIsAskedOnce() throws Exception {
        listings = 404;
        try (LeafdClient client = client("a", 2, 3)) {
            for (int i = 0; i < 5; i++) {
                assertTrue(used(client) >= 2);
            }
        }
        assertEquals(1, asked(2, "/api/nodes"));
        assertEquals(1, asked(3, "/api/nodes"));
    }

    @Test
    void whatIsNoListingDoesNoHarm() throws Exception {
        set(0, "a 1001 ready true"); // rows that break a rule are left out
        set(1, "a 100 odd true");
        try (LeafdClient client = client("a", 2)) {
            assertTrue(used(client) >= 2);
        }
    }

    @Test
    void aNodeOfAnotherClusterIsNeverAskedForIds() throws Exception {
        set(0, "b 100 ready true");
        servers.get(1).handler(exchange -> exchange.reply(200, "{\"self\":2,\"nodes\":[{\"id\":3,"
                + "\"http_address\":\"10.9.9.9:8080\",\"zone\":null,\"weight\":100,"
                + "\"state\":\"ready\",\"snowflake\":true}]}"));
        try (LeafdClient client = client("a", 2)) {
            for (int i = 0; i < 5; i++) {
                assertTrue(used(client) != 1);
            }
        }
        assertEquals(0, asked(1, "/get/"));
        assertTrue(asked(1, "/api/nodes") > 0);
    }

    @Test
    void workerIdsAreAskedWhereSnowflakesAreMade() throws Exception {
        set(0, "a 100 ready false");
        set(1, "a 100 ready false");
        cluster.nowMs = System.currentTimeMillis();
        try (LeafdClient client = client("a", 0)) {
            client.snowflake().next();
        }
        assertEquals(0, asked(0, "/api/workers") + asked(1, "/api/workers"));
        assertTrue(asked(2, "/api/workers") + asked(3, "/api/workers") > 0);
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
