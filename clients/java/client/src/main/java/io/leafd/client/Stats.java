package io.leafd.client;

import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;

/** What a client has counted since it was made. Immutable. */
public final class Stats {
    private static final String[][] HELP = {
        {"ids_segment", "Ids handed out from ranges."},
        {"ids_strict", "Strict ids handed out."},
        {"ids_snowflake", "Snowflake ids handed out."},
        {"requests", "Requests sent."},
        {"retries", "Attempts of a call beyond its first."},
        {"failovers", "Times that a node was left for the next one."},
        {"errors", "Errors that callers were given."},
        {"waits", "Calls that had to wait for a request."},
        {"burnt", "Ids dropped unused."},
        {"clock_waits", "Calls that had to wait for the clock."},
        {"renewals", "Renewals of worker ids."},
    };

    private final Map<String, Long> values;

    /** values in the order of HELP. */
    Stats(long... values) {
        Map<String, Long> map = new LinkedHashMap<>();
        for (int i = 0; i < HELP.length; i++) {
            map.put(HELP[i][0], values[i]);
        }
        this.values = Collections.unmodifiableMap(map);
    }

    /**
     * One number.
     *
     * @param name such as {@code ids_segment}, see docs/clients.md
     * @return 0 or more
     * @throws IllegalArgumentException nothing of this name is counted
     */
    public long get(String name) {
        Long value = values.get(name);
        if (value == null) {
            throw new IllegalArgumentException("nothing called \"" + name + "\" is counted");
        }
        return value;
    }

    /**
     * All numbers by their names.
     *
     * @return unmodifiable, always in the same order
     */
    public Map<String, Long> toMap() {
        return values;
    }

    /**
     * All numbers for Prometheus.
     *
     * @return lines of its text format
     */
    public String toPrometheus() {
        StringBuilder out = new StringBuilder();
        for (String[] one : HELP) {
            String name = "leafd_client_" + one[0] + "_total";
            out.append("# HELP ").append(name).append(' ').append(one[1]).append('\n');
            out.append("# TYPE ").append(name).append(" counter\n");
            out.append(name).append(' ').append(values.get(one[0])).append('\n');
        }
        return out.toString();
    }

    /** As {@code ids_segment=5 ids_strict=0 ...}. */
    @Override
    public String toString() {
        StringBuilder out = new StringBuilder();
        values.forEach((name, value) -> out.append(out.length() == 0 ? "" : " ").append(name)
                .append('=').append(value));
        return out.toString();
    }
}
