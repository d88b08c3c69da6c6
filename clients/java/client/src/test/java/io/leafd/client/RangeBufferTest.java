package io.leafd.client;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.List;
import org.junit.jupiter.api.Test;

class RangeBufferTest {
    @Test
    void idsOfSeveralRangesInOrder() {
        RangeBuffer buffer = new RangeBuffer(List.of(new IdRange(5, 6), new IdRange(10, 10),
                new IdRange(20, 22)), -1, 0);
        long[] wanted = {5, 6, 10, 20, 21, 22};
        assertEquals(6, buffer.count);
        for (int i = 0; i < wanted.length; i++) {
            assertEquals(i, buffer.take(1));
            assertEquals(wanted[i], buffer.id(i));
        }
        assertEquals(6, buffer.take(1), "beyond the end");
        assertEquals(0, buffer.left());
    }

    @Test
    void theTriggerLeavesLessThanHalf() {
        for (int count = 1; count < 20; count++) {
            RangeBuffer buffer = new RangeBuffer(List.of(new IdRange(1, count)), -1, 0);
            int at = 0;
            while ((count - at - 1) * 2 >= count) {
                at++;
            }
            assertEquals(at, buffer.trigger, "of " + count);
        }
    }

    @Test
    void burningTakesWhatIsLeft() {
        RangeBuffer buffer = new RangeBuffer(List.of(new IdRange(1, 10)), -1, 0);
        buffer.take(3);
        assertEquals(7, buffer.burn());
        assertEquals(0, buffer.burn());
        assertEquals(0, buffer.left());
    }

    @Test
    void idsAStepApart() {
        RangeBuffer buffer = new RangeBuffer(List.of(new IdRange(5, 11, 3), new IdRange(20, 30, 5)),
                -1, 0);
        long[] wanted = {5, 8, 11, 20, 25, 30};
        assertEquals(wanted.length, buffer.count);
        for (int i = 0; i < wanted.length; i++) {
            assertEquals(wanted[i], buffer.id(i));
        }
    }

    @Test
    void idsUpToTheLargestNumber() {
        RangeBuffer buffer = new RangeBuffer(
                List.of(new IdRange(Long.MAX_VALUE - 1, Long.MAX_VALUE)), -1, 0);
        assertEquals(Long.MAX_VALUE, buffer.id(1));
        for (int i = 0; i < 10; i++) {
            buffer.take(100_000);
        }
        assertEquals(0, buffer.left(), "positions do not wrap as ids would");
    }
}
