package io.leafd.client;

import java.util.Map;

/** How the ids of a cluster are made: bits of time, worker id and sequence. Immutable. */
final class Layout {
    final long epochMs;
    final int timeBits;
    final int workerBits;
    final int sequenceBits;

    Layout(long epochMs, int timeBits, int workerBits, int sequenceBits) {
        this.epochMs = epochMs;
        this.timeBits = timeBits;
        this.workerBits = workerBits;
        this.sequenceBits = sequenceBits;
    }

    /** The layout of an answer; IllegalArgumentException where it is none that leafd has. */
    static Layout of(Map<?, ?> map) {
        Layout layout = new Layout(number(map, "epoch_ms", 0, 1L << 46),
                (int) number(map, "time_bits", 1, 45), (int) number(map, "worker_bits", 1, 16),
                (int) number(map, "sequence_bits", 1, 16));
        if (layout.timeBits + layout.workerBits + layout.sequenceBits > 63) {
            throw new IllegalArgumentException("a layout of more than 63 bits");
        }
        return layout;
    }

    static long number(Map<?, ?> map, String name, long least, long most) {
        Object value = map.get(name);
        if (!(value instanceof Long) || (Long) value < least || (Long) value > most) {
            throw new IllegalArgumentException(name + "=" + value + " is not " + least + " to "
                    + most);
        }
        return (Long) value;
    }

    long lastMs() {
        return epochMs + (1L << timeBits) - 1;
    }

    /** The smallest id of a time from epochMs to lastMs(). */
    long at(long timeMs) {
        return timeMs - epochMs << workerBits + sequenceBits;
    }

    SnowflakeId decode(long id) {
        return new SnowflakeId((id >>> (workerBits + sequenceBits)) + epochMs,
                (int) (id >>> sequenceBits & (1L << workerBits) - 1),
                (int) (id & (1L << sequenceBits) - 1));
    }
}
