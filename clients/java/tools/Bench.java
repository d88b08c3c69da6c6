import com.sun.net.httpserver.HttpServer;
import io.leafd.client.LeafdClient;
import io.leafd.client.SegmentSource;
import io.leafd.client.Settings;
import io.leafd.client.SnowflakeSource;
import io.leafd.client.StrictSource;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicLong;

/**
 * What an id costs in the process: {@code make bench}. A server in this process grants the ranges,
 * so that it is the library that is measured. For threads the processor time of an id is shown
 * beside the wall time: on a machine that does other work, too, only the first one can be compared.
 */
public final class Bench {
    private static final int ROUNDS = 3;
    private static final int COUNT = 20_000_000;
    private static final ThreadMXBean CPU = ManagementFactory.getThreadMXBean();
    private static final AtomicLong SINK = new AtomicLong();

    /** Takes ids. */
    private interface Work {
        long run(int thread, int count);
    }

    private Bench() {
    }

    public static void main(String[] args) throws Exception {
        System.setProperty("sun.net.httpserver.nodelay", "true");
        HttpServer server = server();
        try (LeafdClient client = LeafdClient.open(Settings.builder()
                .endpoints("http://127.0.0.1:" + server.getAddress().getPort()).build())) {
            int cores = Runtime.getRuntime().availableProcessors();
            System.out.println("processors: " + cores);
            SegmentSource shared = client.segment("t");
            Work one = (thread, count) -> take(shared, count);
            double single = measure("segment, one thread", 1, COUNT, one);
            for (int threads : new int[] {cores, 32}) {
                SegmentSource[] own = new SegmentSource[threads];
                for (int i = 0; i < threads; i++) {
                    own[i] = client.openSegment("t");
                }
                double cpu = measure("segment, " + threads + " threads, a source each", threads,
                        COUNT / threads * 2, (thread, count) -> take(own[thread], count));
                System.out.printf("    scale by processor time: %.2f%n", single / cpu);
                measure("segment, " + threads + " threads, one source", threads,
                        COUNT / threads, one);
                for (SegmentSource source : own) {
                    source.close();
                }
            }
            SnowflakeSource snowflake = client.snowflake();
            measure("snowflake, one thread (4096 a millisecond)", 1, 1_000_000,
                    (thread, count) -> {
                        long sum = 0;
                        for (int i = 0; i < count; i++) {
                            sum += snowflake.next();
                        }
                        return sum;
                    });
            StrictSource strict = client.strict("t");
            Work ask = (thread, count) -> {
                long sum = 0;
                for (int i = 0; i < count; i++) {
                    sum += strict.next();
                }
                return sum;
            };
            measure("strict, one thread", 1, 2000, ask);
            measure("strict, 32 threads", 32, 200, ask);
        }
        server.stop(0);
    }

    private static long take(SegmentSource source, int count) {
        long sum = 0;
        for (int i = 0; i < count; i++) {
            sum += source.next();
        }
        return sum;
    }

    /** The best of some rounds; processor nanoseconds an id, of the threads that take ids. */
    private static double measure(String what, int threads, int count, Work work)
            throws Exception {
        double wall = Double.MAX_VALUE;
        double cpu = Double.MAX_VALUE;
        for (int round = 0; round < ROUNDS; round++) {
            AtomicLong used = new AtomicLong();
            CyclicBarrier barrier = new CyclicBarrier(threads + 1);
            for (int i = 0; i < threads; i++) {
                int number = i;
                new Thread(() -> {
                    try {
                        barrier.await();
                        long before = CPU.getCurrentThreadCpuTime();
                        SINK.addAndGet(work.run(number, count));
                        used.addAndGet(CPU.getCurrentThreadCpuTime() - before);
                        barrier.await();
                    } catch (Exception e) {
                        throw new IllegalStateException(e);
                    }
                }).start();
            }
            barrier.await();
            long began = System.nanoTime();
            barrier.await();
            double ids = (double) count * threads;
            wall = Math.min(wall, (System.nanoTime() - began) / ids);
            cpu = Math.min(cpu, used.get() / ids);
        }
        System.out.printf("%-45s %10.1f ns an id, %10.1f ns of processor time%n", what, wall, cpu);
        return cpu;
    }

    private static HttpServer server() throws IOException {
        AtomicLong next = new AtomicLong(1);
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", 0), 100);
        server.setExecutor(Executors.newCachedThreadPool(task -> {
            Thread thread = new Thread(task);
            thread.setDaemon(true);
            return thread;
        }));
        server.createContext("/api/segment/get/", exchange -> {
            String query = exchange.getRequestURI().getRawQuery();
            int count = Integer.parseInt(query.replaceAll("count=([0-9]+).*", "$1"));
            long first = next.getAndAdd(count);
            reply(exchange, 200, first + " " + (first + count - 1) + "\n");
        });
        server.createContext("/api/workers", exchange -> {
            exchange.getRequestBody().readAllBytes();
            boolean release = exchange.getRequestMethod().equals("DELETE");
            reply(exchange, release ? 204 : 200, release ? "" : "{\"worker_id\":1,\"epoch\":1,"
                    + "\"from_ms\":0,\"until_ms\":" + (System.currentTimeMillis() + 60_000)
                    + ",\"layout\":{\"epoch_ms\":1288834974657,\"time_bits\":41,"
                    + "\"worker_bits\":10,\"sequence_bits\":12}}");
        });
        server.start();
        return server;
    }

    private static void reply(com.sun.net.httpserver.HttpExchange exchange, int status, String text)
            throws IOException {
        byte[] bytes = text.getBytes(StandardCharsets.US_ASCII);
        exchange.sendResponseHeaders(status, bytes.length == 0 ? -1 : bytes.length);
        exchange.getResponseBody().write(bytes);
        exchange.close();
    }
}
