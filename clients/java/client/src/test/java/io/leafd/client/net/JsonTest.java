package io.leafd.client.net;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.Arrays;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class JsonTest {
    @Test
    void allKindsOfValues() {
        Map<String, Object> map = Json.object(" {\"a\":-12,\"b\":[true,false,null,1.5],"
                + "\"c\":{\"d\":\"\\u00e4\\n\\\"\"},\"e\":9223372036854775807,\"f\":1e400} ");
        assertEquals(-12L, map.get("a"));
        assertEquals(Arrays.asList(true, false, null, 1.5), map.get("b"));
        assertEquals(Map.of("d", "ä\n\""), map.get("c"));
        assertEquals(Long.MAX_VALUE, map.get("e"));
        assertEquals(Double.POSITIVE_INFINITY, map.get("f"));
    }

    @ParameterizedTest
    @ValueSource(strings = {"", "{", "{\"a\"}", "{\"a\":1,}", "[1,]", "01", "1.", "-", "+1", "tru",
        "\"\\x\"", "\"\\u00g0\"", "\"\n\"", "{\"a\":1,\"a\":2}", "1 2", "\"abc", "{a:1}", "nul",
        "NaN"})
    void whatIsNoJson(String text) {
        assertThrows(IllegalArgumentException.class, () -> Json.parse(text));
    }

    @Test
    void nestingHasABound() {
        Json.parse("[".repeat(17) + "]".repeat(17));
        assertThrows(IllegalArgumentException.class,
                () -> Json.parse("[".repeat(18) + "]".repeat(18)));
        assertThrows(IllegalArgumentException.class, () -> Json.parse("[".repeat(100_000)));
    }

    @Test
    void quotesWhatItReads() {
        String text = "a\"b\\c\n\u0001ä";
        assertEquals(text, Json.parse(Json.quote(text)));
        assertNull(Json.object("[]"));
    }
}
