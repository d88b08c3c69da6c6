package io.leafd.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

class StatsTest {
    private final Stats stats = new Stats(Map.of("a\"b", 5L), Map.of("a", 1050L), Map.of(),
            1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12);

    @Test
    void namesInTheOrderOfTheContract() {
        assertEquals("ids_segment=1 ids_strict=2 ids_snowflake=3 requests=4 retries=5 failovers=6"
                + " errors=7 waits=8 burnt=9 clock_waits=10 renewals=11 hedges=12",
                stats.toString());
        List<String> names = new ArrayList<>(stats.toMap().keySet());
        for (int i = 0; i < names.size(); i++) {
            assertEquals(i + 1, stats.get(names.get(i)));
        }
        assertThrows(IllegalArgumentException.class, () -> stats.get("ids"));
        assertThrows(UnsupportedOperationException.class, () -> stats.toMap().put("a", 1L));
    }

    @Test
    void forPrometheus() {
        String[] lines = stats.toPrometheus().split("\n");
        assertEquals(36 + 6, lines.length);
        assertEquals("leafd_client_ids_left{tag=\"a\\\"b\"} 5", lines[38]);
        assertEquals("# TYPE leafd_client_range_age_seconds gauge", lines[40]);
        assertEquals("leafd_client_range_age_seconds{tag=\"a\"} 1.050", lines[41]);
        for (int i = 0; i < 36; i += 3) {
            String name = lines[i + 2].split(" ")[0];
            assertTrue(name.matches("leafd_client_[a-z_]+_total"), name);
            assertTrue(lines[i].startsWith("# HELP " + name + " "));
            assertEquals("# TYPE " + name + " counter", lines[i + 1]);
        }
        assertEquals("leafd_client_clock_waits_total 10", lines[29]);
    }
}
