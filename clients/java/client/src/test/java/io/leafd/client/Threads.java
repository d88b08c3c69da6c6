package io.leafd.client;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/** Many threads that take ids. */
final class Threads {
    private Threads() {
    }

    /** The ids that so many threads got; each thread's rise, and no id came twice. */
    static Set<Long> distinct(int threads, int each, Callable<Long> source) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(threads);
        try {
            CyclicBarrier start = new CyclicBarrier(threads);
            List<Future<long[]>> parts = new ArrayList<>();
            for (int i = 0; i < threads; i++) {
                parts.add(pool.submit(() -> {
                    long[] ids = new long[each];
                    start.await();
                    for (int k = 0; k < each; k++) {
                        ids[k] = source.call();
                    }
                    return ids;
                }));
            }
            Set<Long> all = new HashSet<>();
            for (Future<long[]> part : parts) {
                long last = -1;
                for (long id : part.get()) {
                    assertTrue(id > last, "a thread got " + id + " after " + last);
                    assertTrue(all.add(id), "twice: " + id);
                    last = id;
                }
            }
            return all;
        } finally {
            pool.shutdownNow();
        }
    }
}
