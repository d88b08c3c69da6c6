package io.leafd.client;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class SettingsTest {
    private static final String URL = "http://127.0.0.1:8081";

    @ParameterizedTest
    @CsvSource({"attempt_ms,0,1,600000,600001", "deadline_ms,0,1,600000,600001",
        "cover_ms,0,1,600000,600001", "max_count,0,100,100000,100001",
        "min_count,0,1,100000,100001", "window_ms,999,1000,86400000,86400001"})
    void numbersHaveBounds(String name, String below, String least, String most, String above) {
        for (String good : new String[] {least, most}) {
            Settings.builder().endpoints(URL).set(name, good).build();
        }
        for (String bad : new String[] {below, above, "-1", "", "1.5", "99999999999"}) {
            String message = Expect.error("bad_setting",
                    () -> Settings.builder().set(name, bad)).getMessage();
            assertTrue(message.contains(name) && message.contains(bad), message);
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"", "ftp://x", "http://", "127.0.0.1:8081", "http://x:0",
        "http://x:65536", "http://x?a=b", "http://x#a", "http://user:pass@x", "http://a b"})
    void addressesHaveRules(String url) {
        String message = Expect.error("bad_setting",
                () -> Settings.builder().endpoints(url)).getMessage();
        assertTrue(message.startsWith("endpoints="), message);
        assertFalse(message.contains("pass@"), message);
    }

    @Test
    void howManyAddresses() {
        String[] urls = new String[65];
        Arrays.fill(urls, URL);
        Settings.builder().endpoints(Arrays.copyOf(urls, 64)).build();
        Expect.error("bad_setting", () -> Settings.builder().endpoints(urls));
        Expect.error("bad_setting", () -> Settings.builder().build());
        Expect.error("bad_setting", () -> Settings.builder().adminEndpoints());
    }

    @Test
    void minIsNotAboveMax() {
        Settings.builder().endpoints(URL).minCount(7).maxCount(7).build();
        Expect.error("bad_setting",
                () -> Settings.builder().endpoints(URL).minCount(8).maxCount(7).build());
    }

    @Test
    void aTokenIsNeverShown() {
        String token = "s3cret-t0ken";
        assertFalse(Settings.builder().endpoints(URL).token(token).build().toString()
                .contains(token));
        String message = Expect.error("bad_setting",
                () -> Settings.builder().token(token + " ")).getMessage();
        assertFalse(message.contains(token), message);
        Expect.error("bad_setting", () -> Settings.builder().token(""));
        Expect.error("bad_setting", () -> Settings.builder().token("x".repeat(4097)));
        Settings.builder().token("x".repeat(4096));
    }

    @Test
    void whatIsNoSetting() {
        Expect.error("bad_setting", () -> Settings.builder().set("colour", "red"));
    }

    @Test
    void aFileOfCertificates(@TempDir Path folder) throws Exception {
        Path file = folder.resolve("ca.pem");
        Settings.Builder settings = Settings.builder().endpoints(URL).caFile(file);
        Expect.error("bad_setting", () -> LeafdClient.open(settings.build()));
        Files.writeString(file, "no certificate\n");
        String message = Expect.error("bad_setting",
                () -> LeafdClient.open(settings.build())).getMessage();
        assertTrue(message.contains("ca.pem"), message);
        Files.writeString(file, "");
        Expect.error("bad_setting", () -> LeafdClient.open(settings.build()));
    }

    @Test
    void namesCountsKeysAndDeadlines() {
        try (LeafdClient client = LeafdClient.open(URL)) {
            for (String bad : new String[] {"", "a\n", "a\u0085", "\ud800", "x".repeat(129),
                "ä".repeat(65), null}) {
                Expect.error("bad_setting", () -> client.openSegment(bad));
                Expect.error("bad_setting", () -> client.strict(bad));
                Expect.error("bad_setting", () -> client.snowflake(bad));
            }
            client.openSegment("ä".repeat(64));
            SegmentSource source = client.segment("a/b c");
            Expect.error("bad_setting", () -> source.next(0));
            Expect.error("bad_setting", () -> source.next(100_001));
            Expect.error("bad_setting", () -> source.nextRange(0));
            Expect.error("bad_setting", () -> source.next(java.time.Duration.ZERO));
            Expect.error("bad_setting", () -> source.next(java.time.Duration.ofMinutes(11)));
            StrictSource strict = client.strict("s");
            for (String bad : new String[] {"", " a", "a ", "ä", "x".repeat(129), null}) {
                Expect.error("bad_setting", () -> strict.next(1, bad));
            }
            Expect.error("bad_setting", () -> strict.next(0));
            assertTrue(client.stats().get("requests") == 0, "nothing was sent");
        }
    }
}
