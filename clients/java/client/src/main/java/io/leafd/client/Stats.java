package io.leafd.client;

import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;

/** What a client has counted since it was made, and what it holds now. Immutable. */
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
        {"hedges", "Second requests, sent while a caller waited for the first."},
    };

    private final Map<String, Long> values;
    private final Map<String, Long> idsLeft;
    private final Map<String, Long> rangeAgeMs;
    private final Map<String, Long> windowEndMs;

    /** values in the order of HELP. */
    Stats(Map<String, Long> idsLeft, Map<String, Long> rangeAgeMs, Map<String, Long> windowEndMs,
            long... values) {
        this.idsLeft = Collections.unmodifiableMap(idsLeft);
        this.rangeAgeMs = Collections.unmodifiableMap(rangeAgeMs);
        this.windowEndMs = Collections.unmodifiableMap(windowEndMs);
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
     * The ids that segment sources hold, by tag.
     *
     * @return unmodifiable
     */
    public Map<String, Long> idsLeft() {
        return idsLeft;
    }

    /**
     * How long ago the oldest range that is held was asked for, by tag.
     *
     * @return unmodifiable; in ms, 0 where none is held
     */
    public Map<String, Long> rangeAgeMs() {
        return rangeAgeMs;
    }

    /**
     * When the windows of worker ids end, by the names that hold them.
     *
     * @return unmodifiable; Unix time in ms
     */
    public Map<String, Long> windowEndMs() {
        return windowEndMs;
    }

    /**
     * All counters by their names.
     *
     * @return unmodifiable, always in the same order
     */
    public Map<String, Long> toMap() {
        return values;
    }

    /**
     * All counters and gauges for Prometheus.
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
        gauges(out, "ids_left", "Ids held.", "tag", idsLeft, 1);
        gauges(out, "range_age_seconds", "Age of the oldest range held.", "tag", rangeAgeMs, 1000);
        gauges(out, "window_end_seconds", "Unix time at which the window of a worker id ends.",
                "name", windowEndMs, 1000);
        return out.toString();
    }

    private static void gauges(StringBuilder out, String what, String help, String label,
            Map<String, Long> table, int unit) {
        String name = "leafd_client_" + what;
        if (!table.isEmpty()) {
            out.append("# HELP ").append(name).append(' ').append(help).append('\n');
            out.append("# TYPE ").append(name).append(" gauge\n");
        }
        table.forEach((key, value) -> {
            out.append(name).append('{').append(label).append("=\"");
            out.append(key.replace("\\", "\\\\").replace("\"", "\\\""));
            out.append("\"} ").append(value / unit);
            if (unit == 1000) {
                out.append('.').append(String.valueOf(1000 + value % 1000), 1, 4);
            }
            out.append('\n');
        });
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
