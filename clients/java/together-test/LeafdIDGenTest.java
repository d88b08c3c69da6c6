package io.leafd.leaf;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sankuai.inf.leaf.IDGen;
import com.sankuai.inf.leaf.common.Result;
import com.sankuai.inf.leaf.common.Status;
import com.sankuai.inf.leaf.exception.InitException;
import com.sankuai.inf.leaf.service.SegmentService;
import com.sankuai.inf.leaf.service.SnowflakeService;
import com.sun.net.httpserver.HttpServer;
import io.leafd.client.LeafdClient;
import java.io.ByteArrayInputStream;
import java.io.InputStream;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Leaf's calls, as programs that were written for Leaf make them. */
@Timeout(60)
class LeafdIDGenTest {
    private final List<String> tokens = new ArrayList<>();
    private HttpServer server;
    private String url;
    private long next = 1;

    @BeforeEach
    void start() throws Exception {
        server = HttpServer.create(new InetSocketAddress("127.0.0.1", 0), 50);
        server.createContext("/", exchange -> {
            String target = exchange.getRequestURI().toString();
            tokens.add(exchange.getRequestHeaders().getFirst("Authorization"));
            int status = 200;
            String body;
            if (target.startsWith("/api/segment/get/order?count=")) {
                int count = Integer.parseInt(target.replaceAll(".*count=([0-9]+).*", "$1"));
                body = next + " " + (next + count - 1) + "\n";
                next += count;
            } else if (target.startsWith("/api/workers")) {
                long now = System.currentTimeMillis();
                status = 201;
                body = "{\"worker_id\":619,\"epoch\":1,\"from_ms\":0,\"until_ms\":" + (now + 60_000)
                        + ",\"layout\":{\"epoch_ms\":1288834974657,\"time_bits\":41,"
                        + "\"worker_bits\":10,\"sequence_bits\":12}}";
            } else {
                status = target.contains("nosuch") ? 404 : 409;
                body = "{\"code\":\"" + (status == 404 ? "unknown_tag" : "exhausted")
                        + "\",\"message\":\"m\"}";
                exchange.getResponseHeaders().add("Content-Type", "application/json");
            }
            byte[] bytes = body.getBytes(StandardCharsets.UTF_8);
            exchange.sendResponseHeaders(status, bytes.length);
            exchange.getResponseBody().write(bytes);
            exchange.close();
        });
        server.start();
        url = "http://127.0.0.1:" + server.getAddress().getPort();
    }

    @AfterEach
    void stop() {
        server.stop(0);
    }

    @Test
    void segmentIds() throws Exception {
        try (SegmentService service = new SegmentService(url)) {
            long last = 0;
            for (int i = 0; i < 300; i++) {
                Result result = service.getId("order");
                assertTrue(result.getId() > last);
                last = result.getId();
                assertEquals("Result{id=" + last + ", status=SUCCESS}", result.toString());
            }
        }
    }

    @Test
    void errorsAreLeafsNumbersAndCanBeHeard() throws Exception {
        try (SegmentService service = new SegmentService(url)) {
            List<String> heard = new ArrayList<>();
            service.getIdGen().onError(error -> heard.add(error.code()));
            assertEquals("Result{id=-2, status=EXCEPTION}", service.getId("nosuch").toString());
            assertEquals("Result{id=-3, status=EXCEPTION}", service.getId("full").toString());
            assertEquals("Result{id=-3, status=EXCEPTION}", service.getId("").toString());
            assertEquals(List.of("unknown_tag", "exhausted", "bad_setting"), heard);
        }
    }

    @Test
    void asTheStarterMakesThem() throws Exception {
        try (SegmentService service = new SegmentService(url + "," + url, "root", "t0ken");
                SnowflakeService snowflake = new SnowflakeService(url, 2181)) {
            assertEquals(Status.SUCCESS, service.getId("order").getStatus());
            assertEquals("Bearer t0ken", tokens.get(0));
            Result result = snowflake.getId("whatever");
            assertEquals(Status.SUCCESS, result.getStatus());
            assertEquals(619, result.getId() >> 12 & 1023);
        }
        assertThrows(InitException.class, () -> new SegmentService("jdbc:mysql://127.0.0.1/leaf"));
        assertThrows(InitException.class, () -> new SnowflakeService("127.0.0.1:2181", 1));
        assertThrows(InitException.class, () -> new SegmentService(url, "", "a b"));
    }

    @Test
    void theCallersClientStaysOpen() {
        try (LeafdClient client = LeafdClient.open(url)) {
            new SegmentService(client).close();
            new SnowflakeService(client).close();
            IDGen generator = LeafdIDGen.segment(client);
            assertTrue(generator.init());
            assertEquals(1, generator.get("order").getId() % 100); // the first of a request
            assertTrue(LeafdIDGen.snowflake(client).get("k").getId() > 0);
        }
    }

    @Test
    void aResultIsABean() {
        Result result = new Result();
        result.setId(7);
        result.setStatus(Status.SUCCESS);
        assertEquals(7, result.getId());
        assertEquals(Status.SUCCESS, result.getStatus());
    }

    /** As Leaf's master makes its services: by leaf.properties of the class path. */
    private <T> T withProperties(String text, Callable<T> make) throws Exception {
        Thread thread = Thread.currentThread();
        ClassLoader before = thread.getContextClassLoader();
        thread.setContextClassLoader(new ClassLoader(before) {
            @Override
            public InputStream getResourceAsStream(String name) {
                return new ByteArrayInputStream(text.getBytes(StandardCharsets.UTF_8));
            }
        });
        try {
            return make.call();
        } finally {
            thread.setContextClassLoader(before);
        }
    }

    @Test
    void servicesOfLeafsMaster() throws Exception {
        try (var service = withProperties("leaf.jdbc.url=" + url + "\nleaf.jdbc.password=abc\n",
                com.sankuai.inf.leaf.server.service.SegmentService::new)) {
            assertEquals(1, service.getId("order").getId() % 100);
            assertEquals("Bearer abc", tokens.get(0));
            assertEquals(Status.SUCCESS, service.getIdGen().get("order").getStatus());
        }
        try (var service = withProperties("leaf.snowflake.zk.address=" + url,
                com.sankuai.inf.leaf.server.service.SnowflakeService::new)) {
            assertTrue(service.getId("any").getId() > 0);
        }
        for (String wrong : new String[] {"leaf.segment.enable=false", "", "leaf.jdbc.url=jdbc:x"}) {
            assertThrows(com.sankuai.inf.leaf.server.exception.InitException.class,
                    () -> withProperties(wrong,
                            com.sankuai.inf.leaf.server.service.SegmentService::new));
        }
    }
}
