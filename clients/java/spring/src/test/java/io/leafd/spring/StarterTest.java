package io.leafd.spring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sankuai.inf.leaf.plugin.annotation.EnableLeafServer;
import com.sankuai.inf.leaf.service.SegmentService;
import com.sankuai.inf.leaf.service.SnowflakeService;
import com.sun.net.httpserver.HttpServer;
import io.leafd.client.LeafdClient;
import io.leafd.client.LeafdEvent;
import io.leafd.client.LeafdException;
import io.micrometer.core.instrument.MeterRegistry;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.ServiceLoader;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.shardingsphere.sharding.spi.KeyGenerateAlgorithm;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.springframework.context.ApplicationListener;
import org.springframework.context.PayloadApplicationEvent;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.core.env.MapPropertySource;

/** The starter in a context of the Spring that this machine has, over stubs of the others. */
class StarterTest {
    private final AtomicLong next = new AtomicLong(1);
    private HttpServer server;
    private AnnotationConfigApplicationContext context;

    /** Ids of the tag t; all others are unknown. */
    @BeforeEach
    void start() throws Exception {
        server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        server.createContext("/", exchange -> {
            String query = exchange.getRequestURI().getQuery();
            boolean known = exchange.getRequestURI().getPath().endsWith("/get/t");
            int count = Integer.parseInt(query.replaceAll("count=([0-9]+).*", "$1"));
            long first = next.getAndAdd(known ? count : 0);
            byte[] body = (known ? first + " " + (first + count - 1) + "\n"
                    : "{\"status\":404,\"code\":\"unknown_tag\",\"message\":\"no such tag\"}")
                    .getBytes(StandardCharsets.UTF_8);
            exchange.getResponseHeaders().add("Content-Type",
                    known ? "text/plain" : "application/json;charset=UTF-8");
            exchange.sendResponseHeaders(known ? 200 : 404, body.length);
            exchange.getResponseBody().write(body);
            exchange.close();
        });
        server.start();
    }

    @AfterEach
    void stop() {
        if (context != null) {
            context.close();
        }
        server.stop(0);
    }

    private void open(String... more) {
        open(null, more);
    }

    private void open(Class<?> application, String... more) {
        Map<String, Object> properties = new HashMap<>();
        properties.put("leafd.endpoints[0]", "http://127.0.0.1:" + server.getAddress().getPort());
        properties.put("leafd.deadline-ms", "60000");
        for (int i = 0; i < more.length; i += 2) {
            properties.put(more[i], more[i + 1]);
        }
        context = new AnnotationConfigApplicationContext();
        context.getEnvironment().getPropertySources()
                .addFirst(new MapPropertySource("test", properties));
        context.register(LeafdAutoConfiguration.class);
        if (application != null) {
            context.register(application);
        }
        context.refresh();
    }

    @Test
    void aClientThatIsClosedWithTheContext() {
        open("leafd.min-count", "7");
        LeafdClient client = context.getBean(LeafdClient.class);
        assertEquals(1, client.segment("t").next());
        assertEquals(8, next.get(), "min-count is the setting's");
        context.close();
        assertEquals("closed",
                assertThrows(LeafdException.class, () -> client.segment("t").next()).code());
    }

    @Test
    void aBadSettingEndsTheStart() {
        Exception error = assertThrows(Exception.class, () -> open("leafd.deadline-ms", "soon"));
        assertTrue(error.getMessage().contains("deadline_ms=\"soon\""), error::getMessage);
    }

    @Test
    void healthFollowsTheTags() throws Exception {
        open();
        List<LeafdEvent> events = Collections.synchronizedList(new ArrayList<>());
        context.addApplicationListener((ApplicationListener<PayloadApplicationEvent<LeafdEvent>>)
                event -> events.add(event.getPayload()));
        LeafdClient client = context.getBean(LeafdClient.class);
        LeafdHealthIndicator health = context.getBean(LeafdHealthIndicator.class);
        assertTrue(health.health().toString().startsWith("UP"));
        assertThrows(LeafdException.class, () -> client.segment("other").next());
        FailingTags failing = context.getBean(FailingTags.class);
        long end = System.nanoTime() + 60_000_000_000L;
        while (failing.codes().isEmpty() || events.isEmpty()) { // events have a thread of their own
            assertTrue(System.nanoTime() < end, "no event came");
            Thread.sleep(1);
        }
        assertEquals("DOWN", health.health().toString().substring(0, 4));
        assertEquals(Map.of("other", "unknown_tag"), health.health().getDetails().get("failing"));
        assertEquals(LeafdEvent.Kind.REFILL_FAILED, events.get(0).kind());
    }

    @Test
    void countersAreMeters() {
        open();
        MeterRegistry registry = new MeterRegistry() { };
        context.getBean(LeafdMeters.class).bindTo(registry);
        context.getBean(LeafdClient.class).segment("t").next();
        assertEquals(1, registry.meters.get("leafd.client.ids.segment").getAsDouble());
        assertEquals(99, registry.meters.get("leafd.client.ids.left").getAsDouble());
        assertEquals(13, registry.meters.size());
    }

    @Test
    void generatorsOfOtherFrameworks() {
        open("leafd.mybatis-plus.tag", "t");
        assertEquals(1L, context.getBean(LeafdMybatisPlusGenerator.class).nextId(new Object()));
        LeafdHibernateGenerator hibernate = new LeafdHibernateGenerator();
        Properties tag = new Properties();
        tag.setProperty("tag", "t");
        hibernate.configure(null, tag, null);
        assertEquals(2L, hibernate.generate(null, null));
        List<String> returned = Stream.of(LeafdHibernateGenerator.class.getMethods())
                .filter(method -> method.getName().equals("generate"))
                .map(method -> method.getReturnType().getSimpleName()).sorted()
                .collect(Collectors.toList());
        assertEquals(List.of("Object", "Serializable"), returned, "Hibernate 6's and 5's");
        KeyGenerateAlgorithm keys = ServiceLoader.load(KeyGenerateAlgorithm.class).iterator().next();
        assertEquals("LEAFD", keys.getType());
        keys.init(tag);
        assertEquals(3L, keys.generateKey());
    }

    @EnableLeafServer
    static class WrittenForLeafsStarter {
    }

    @Test
    void leafsStarter() {
        open(WrittenForLeafsStarter.class);
        assertEquals(1, context.getBean(SegmentService.class).getId("t").getId());
        assertEquals(-2, context.getBean(SegmentService.class).getId("other").getId());
        assertEquals(1, context.getBeansOfType(SnowflakeService.class).size());
    }

    @Test
    void theJarHasNoStubs() throws Exception {
        try (Stream<Path> files = Files.walk(Path.of(System.getProperty("leafd.spring")))) {
            List<String> names = files.filter(Files::isRegularFile).map(Path::toString)
                    .filter(name -> name.endsWith(".class")).collect(Collectors.toList());
            assertTrue(names.size() > 8 && names.stream().allMatch(
                    name -> name.contains("/io/leafd/spring/")
                            || name.contains("/com/sankuai/inf/leaf/plugin/")), names::toString);
        }
        assertEquals(LeafdAutoConfiguration.class.getName(), new String(getClass()
                .getResourceAsStream("/META-INF/spring/org.springframework.boot.autoconfigure"
                        + ".AutoConfiguration.imports").readAllBytes(),
                StandardCharsets.UTF_8).trim());
    }
}
