package io.leafd.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.HashSet;
import java.util.Set;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Test;

class GeneratorTest {
    private static final Layout LEAF = new Layout(1_288_834_974_657L, 41, 10, 12);
    private static final Layout JS53 = new Layout(1_288_834_974_657L, 41, 6, 6);
    private static final long NOW = 1_795_176_000_000L;

    /** Takes all ids of a millisecond, so that the next one begins at 0. */
    private static void useUp(Generator generator, long now) {
        while (generator.next(now) >= 0) {
        }
    }

    @Test
    void anIdHasTimeWorkerAndSequence() {
        Generator generator = new Generator(LEAF, 3, 1, 0, NOW + 1000, 0);
        useUp(generator, NOW - 1);
        SnowflakeId id = LEAF.decode(generator.next(NOW));
        assertEquals(NOW, id.timeMs());
        assertEquals(3, id.worker());
        assertEquals(0, id.sequence());
        assertEquals(1, LEAF.decode(generator.next(NOW)).sequence());
        assertEquals(NOW, generator.lastMs());
    }

    @Test
    void decodesAKnownId() {
        assertEquals("1588421624602 619 18", LEAF.decode(1256557484213448722L).toString());
        assertEquals(1256557484210913280L, LEAF.at(1588421624602L));
    }

    @Test
    void noTimeOutsideTheWindow() {
        Generator generator = new Generator(LEAF, 3, 1, NOW, NOW + 10, 0);
        assertEquals(Generator.USED_UP, generator.next(NOW), "from itself is the holder before's");
        assertEquals(Generator.CLOCK_BEHIND, generator.next(NOW - 1));
        assertEquals(Generator.CLOCK_BEHIND, generator.next(NOW - 100_000));
        assertTrue(generator.next(NOW + 1) > 0);
        assertTrue(generator.next(NOW + 10) > 0, "until belongs to it");
        assertEquals(Generator.WINDOW_OVER, generator.next(NOW + 11));
        generator.extend(NOW + 11);
        assertTrue(generator.next(NOW + 11) > 0);
        generator.extend(NOW + 5);
        assertEquals(NOW + 11, generator.untilMs(), "the bound never falls");
    }

    @Test
    void aMillisecondThatIsUsedUpIsFollowedByOneFromZero() {
        Generator generator = new Generator(JS53, 1, 1, 0, NOW + 1000, 0);
        long id = generator.next(NOW);
        while (id >= 0) {
            id = generator.next(NOW);
        }
        assertEquals(Generator.USED_UP, id);
        assertEquals(0, JS53.decode(generator.next(NOW + 1)).sequence());
        Set<Integer> starts = new HashSet<>();
        for (int i = 2; i < 200; i++) {
            starts.add(JS53.decode(generator.next(NOW + i)).sequence());
        }
        assertTrue(starts.size() > 20, "they begin at random: " + starts);
    }

    @Test
    void aClockThatGoesBack() {
        Generator generator = new Generator(LEAF, 3, 1, 0, NOW + 1000, 0);
        useUp(generator, NOW - 1);
        long first = generator.next(NOW);
        assertEquals(Generator.CLOCK_BEHIND, generator.next(NOW - 5), "is waited for up to 5 ms");
        long id = generator.next(NOW - 6);
        assertEquals(first + 1, id, "further back the last time's sequence goes on");
        while (id >= 0) {
            id = generator.next(NOW - 3_600_000);
        }
        assertEquals(Generator.CLOCK_BEHIND, id);
        assertEquals(NOW, generator.lastMs());
    }

    @Test
    void theLayoutEnds() {
        long last = LEAF.epochMs + (1L << 41) - 1;
        Generator generator = new Generator(LEAF, 1023, 1, 0, last + 1000, 0);
        long id = generator.next(last);
        assertTrue(id > 0);
        assertEquals(last, LEAF.decode(id).timeMs());
        assertEquals(Generator.LAYOUT_OVER, generator.next(last + 1));
    }

    @Test
    void aClockBeforeTheEpoch() {
        Generator generator = new Generator(LEAF, 1, 1, 0, NOW, 0);
        assertEquals(Generator.CLOCK_BEHIND, generator.next(0));
    }

    @Test
    void aboveWhatTheSourceUsedBefore() {
        Generator generator = new Generator(LEAF, 1, 1, 0, NOW + 1000, NOW);
        assertEquals(Generator.USED_UP, generator.next(NOW));
        assertEquals(0, generator.lastMs(), "nothing was used yet");
        assertTrue(generator.next(NOW + 1) > 0);
    }

    @Test
    void frozenItMakesNone() {
        Generator generator = new Generator(LEAF, 1, 1, 0, NOW + 1000, 0);
        generator.next(NOW);
        assertEquals(NOW, generator.freeze());
        assertEquals(Generator.FROZEN, generator.next(NOW + 1));
    }

    @Test
    void threadsGetDifferentIdsWhileTheClockJumps() throws Exception {
        Generator generator = new Generator(JS53, 1, 1, 0, NOW + 100_000, 0);
        AtomicLong clock = new AtomicLong(NOW);
        Set<Long> all = Threads.distinct(8, 5000, () -> {
            long id = generator.next(clock.get());
            while (id < 0) {
                long step = clock.incrementAndGet();
                id = generator.next(step % 7 == 0 ? step - 3 : step);
            }
            return id;
        });
        assertEquals(40_000, all.size());
    }
}
