package io.leafd.client.net;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Random;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** The nodes that addresses with names stand for. */
class ClusterTest {
    private final Loop loop = new Loop();
    private final Counters counters = new Counters();
    private String zone;

    @AfterEach
    void stop() {
        loop.stop();
    }

    private Cluster of(String... urls) {
        List<Address> addresses = new ArrayList<>();
        for (String url : urls) {
            addresses.add(Address.parse(url));
        }
        return new Cluster(loop, addresses, zone, false, null, Token.of(null), counters,
                new Limits(60_000, 60_000, 60_000), (from, to) -> { });
    }

    private static InetAddress[] ips(Iterable<String> texts) throws Exception {
        List<InetAddress> ips = new ArrayList<>();
        for (String text : texts) {
            ips.add(InetAddress.getByName(text));
        }
        return ips.toArray(new InetAddress[0]);
    }

    private <T> T onLoop(Callable<T> task) throws Exception {
        CompletableFuture<T> done = new CompletableFuture<>();
        loop.execute(() -> {
            try {
                done.complete(task.call());
            } catch (Exception e) {
                done.completeExceptionally(e);
            }
        });
        return done.get(60, TimeUnit.SECONDS);
    }

    private static List<String> shown(Cluster cluster) {
        return cluster.endpoints().stream().map(Endpoint::toString).collect(Collectors.toList());
    }

    @Test
    void aNameIsAsManyNodesAsItHasAddresses() throws Exception {
        for (int seed = 0; seed < 300; seed++) {
            Random random = new Random(seed);
            Cluster cluster = of("http://n:1", "http://o:1", "http://10.0.0.1:1");
            List<List<String>> known = new ArrayList<>(List.of(List.of("http://n:1"),
                    List.of("http://o:1"), List.of("http://10.0.0.1:1")));
            for (int step = 0; step < 10; step++) {
                int at = random.nextInt(2);
                List<String> texts = new ArrayList<>();
                for (int n = random.nextInt(5); n >= 0; n--) {
                    texts.add("10.0.1." + random.nextInt(9));
                }
                List<Endpoint> old = cluster.endpoints();
                Endpoint before = cluster.preferred();
                String name = at == 0 ? "n" : "o";
                cluster.found(name, ips(texts));
                known.set(at, new TreeSet<>(texts).stream()
                        .map(ip -> "http://" + name + ":1 (" + ip + ")")
                        .collect(Collectors.toList()));
                assertEquals(known.stream().flatMap(List::stream).collect(Collectors.toList()),
                        shown(cluster));
                Endpoint preferred = cluster.preferred();
                assertTrue(cluster.endpoints().contains(preferred));
                assertTrue(preferred == before || !cluster.endpoints().contains(before));
                old.stream().filter(one -> !cluster.endpoints().contains(one))
                        .forEach(cluster::leave);
                assertSame(preferred, cluster.preferred(), "who is gone cannot be left");
                List<Endpoint> others = cluster.others(preferred);
                assertEquals(cluster.size() - 1, new HashSet<>(others).size());
                assertFalse(others.contains(preferred));
                cluster.leave(preferred);
                assertSame(others.get(0), cluster.preferred());
            }
        }
        assertEquals(3000, counters.failovers.sum());
    }

    @Test
    void thereAre64NodesAtMost() throws Exception {
        Cluster cluster = of("http://n:1", "http://o:1");
        List<String> texts = new ArrayList<>();
        for (int n = 0; n < 50; n++) {
            texts.add("10.0.0." + n);
        }
        cluster.found("n", ips(texts));
        cluster.found("o", ips(texts));
        assertEquals(64, cluster.size());
    }

    @Test
    void namesAreResolvedAtFirstAfterFailuresAndAfter30Seconds() throws Exception {
        Cluster cluster = of("http://localhost:1");
        assertFalse(cluster.isAlone());
        long never = System.nanoTime() + 600_000_000_000L;
        for (boolean failed : new boolean[] {false, true}) {
            CompletableFuture<List<String>> begun = new CompletableFuture<>();
            assertFalse(onLoop(() -> {
                cluster.found("localhost", ips(List.of("10.0.0.1")));
                cluster.resolve(failed, never, () -> begun.complete(shown(cluster)));
                return begun.isDone();
            }), "it waits");
            List<String> nodes = begun.get(60, TimeUnit.SECONDS);
            assertTrue(nodes.contains("http://localhost:1 (127.0.0.1)"), nodes::toString);
        }
        for (long seconds : new long[] {0, 31}) {
            boolean[] begun = {false};
            assertTrue(onLoop(() -> {
                cluster.resolvedNanos -= seconds * 1_000_000_000L;
                cluster.found("localhost", ips(List.of("10.0.0.1")));
                cluster.resolve(false, never, () -> begun[0] = true);
                return begun[0];
            }), "it waits for nothing");
        }
        long end = System.nanoTime() + 60_000_000_000L;
        while (!onLoop(() -> shown(cluster)).contains("http://localhost:1 (127.0.0.1)")) {
            assertTrue(System.nanoTime() < end, "it was never resolved again");
        }
    }

    @Test
    void theResolverIsWaitedForByItsTime() throws Exception {
        Cluster cluster = of("http://n:1");
        CompletableFuture<Integer> begun = new CompletableFuture<>();
        onLoop(() -> {
            cluster.lookups.add("n"); // one that never ends
            cluster.resolve(false, System.nanoTime(), () -> begun.complete(cluster.size()));
            return null;
        });
        assertEquals(1, begun.get(60, TimeUnit.SECONDS));
    }

    @Test
    void idleConnectionsToAnAddressThatIsGoneAreClosed() throws Exception {
        try (ServerSocket listener = new ServerSocket(0, 10, InetAddress.getByName("127.0.0.1"))) {
            Cluster cluster = of("http://localhost:" + listener.getLocalPort());
            CompletableFuture<Outcome> answered = new CompletableFuture<>();
            loop.execute(() -> Call.start(cluster, () -> Request.get("/", null),
                    Call.NO_DEADLINE, () -> true, answered::complete));
            try (Socket socket = listener.accept()) {
                socket.setSoTimeout(60_000);
                StringBuilder head = new StringBuilder();
                while (head.indexOf("\r\n\r\n") < 0) {
                    head.append((char) socket.getInputStream().read());
                }
                assertTrue(head.indexOf("Host: localhost:") > 0);
                socket.getOutputStream().write("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
                        .getBytes(StandardCharsets.US_ASCII));
                assertEquals(Outcome.Kind.ANSWER, answered.get(60, TimeUnit.SECONDS).kind());
                onLoop(() -> {
                    cluster.found("localhost", ips(List.of("10.0.0.1")));
                    return null;
                });
                assertEquals(-1, socket.getInputStream().read());
            }
        }
    }

    @Test
    void spellingsOfANameAreTheSameName() {
        Set<String> all = new HashSet<>();
        for (int number = 0; number < 1000; number++) {
            String spelled = Cluster.spelled("LEAFd.example", number);
            assertEquals("leafd.example", spelled.toLowerCase(Locale.ROOT));
            all.add(spelled);
        }
        assertEquals(128, all.size()); // the sixth character has no other
        assertEquals("a", Cluster.spelled("a", 0));
    }
}
