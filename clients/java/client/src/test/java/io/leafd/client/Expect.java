package io.leafd.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.fail;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.BooleanSupplier;
import org.junit.jupiter.api.function.Executable;

/** What tests say often. */
final class Expect {
    /** How much later than it should be a thing may be seen. What that guards against takes 2 s. */
    private static final long SLACK_MS = 600;
    /** When the last beat of a thread that sleeps 20 ms was, and for how long it had been late. */
    private static volatile long[] beat = {System.nanoTime(), 0};
    private static final long BEAT_MOST_NANOS = 100_000_000;

    static {
        Thread pulse = new Thread(() -> {
            try {
                for (;;) {
                    Thread.sleep(20);
                    long now = System.nanoTime();
                    beat = new long[] {now, now - ranNanos()};
                }
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }, "pulse");
        pulse.setDaemon(true);
        pulse.start();
    }

    /** As System.nanoTime(), without the time in which the machine stood still. */
    private static long ranNanos() {
        long[] last = beat;
        return Math.min(System.nanoTime(), last[0] + BEAT_MOST_NANOS) - last[1];
    }

    /** For how long threads had waited for a processor, or the machine stood still, in took(). */
    private static final ThreadLocal<Long> WAITED_MS = ThreadLocal.withInitial(() -> 0L);
    private static final long LIMIT_NANOS = 20_000_000_000L;

    private Expect() {
    }

    static LeafdException error(String code, Executable call) {
        LeafdException error = assertThrows(LeafdException.class, call);
        assertEquals(code, error.code(), error::toString);
        return error;
    }

    static LeafdException error(String code, CompletableFuture<?> future) throws Exception {
        try {
            future.get(20, TimeUnit.SECONDS);
            return fail("there is an id, and no error");
        } catch (TimeoutException e) {
            return fail("the future does not end");
        } catch (ExecutionException e) {
            LeafdException error = (LeafdException) e.getCause();
            assertEquals(code, error.code(), error::toString);
            return error;
        }
    }

    /** Waits for a condition. */
    static void until(String what, BooleanSupplier condition) throws InterruptedException {
        long end = System.nanoTime() + LIMIT_NANOS;
        while (!condition.getAsBoolean()) {
            if (System.nanoTime() > end) {
                fail("never: " + what);
            }
            Thread.sleep(1); // until the condition
        }
    }

    static Settings.Builder settings(String... urls) {
        // Attempts that are not the point of a test end by its faults alone, however slow the machine.
        return Settings.builder().endpoints(urls).attemptMs(60_000)
                .deadlineMs(60_000);
    }

    /**
     * What may be added to a time limit of what took() has measured last. A test shares its machine
     * with others: while a thread could run and none of the processors was free, the library was
     * not late.
     */
    static long slackMs() {
        return slackMs(SLACK_MS);
    }

    static long slackMs(long slackMs) {
        return slackMs + WAITED_MS.get();
    }

    /** For how long each thread that a call needs has waited for a processor, in nanoseconds. */
    private static Map<String, Long> waited() throws IOException {
        Map<String, Long> waited = new HashMap<>();
        String self = new File("/proc/thread-self").getCanonicalFile().getName();
        File[] tasks = new File("/proc/self/task").listFiles();
        for (File task : tasks == null ? new File[0] : tasks) {
            try {
                String name = Files.readString(new File(task, "comm").toPath()).trim();
                if (task.getName().equals(self)
                        || name.matches("leafd-client|fake-server|VM Thread|GC Thread.*")) {
                    String figures = Files.readString(new File(task, "schedstat").toPath());
                    waited.put(task.getName(), Long.parseLong(figures.trim().split(" ")[1]));
                }
            } catch (IOException e) {
                continue; // it has ended
            }
        }
        return waited;
    }

    private static long waitedMs(Map<String, Long> before) throws IOException {
        long nanos = 0;
        for (Map.Entry<String, Long> thread : waited().entrySet()) {
            nanos += thread.getValue() - before.getOrDefault(thread.getKey(), 0L);
        }
        return nanos / 1_000_000;
    }

    static LeafdClient open(String... urls) {
        return LeafdClient.open(settings(urls).build());
    }

    /** Milliseconds that a call took. */
    static long took(Executable call) throws Exception {
        Map<String, Long> waited = waited();
        long began = System.nanoTime();
        long ran = ranNanos();
        try {
            call.execute();
        } catch (Exception | Error e) {
            throw e;
        } catch (Throwable e) {
            throw new IllegalStateException(e);
        }
        long ms = (System.nanoTime() - began) / 1_000_000;
        WAITED_MS.set(waitedMs(waited) + ms - (ranNanos() - ran) / 1_000_000);
        return ms;
    }
}
