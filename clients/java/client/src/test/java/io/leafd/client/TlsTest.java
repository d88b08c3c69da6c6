package io.leafd.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.InputStream;
import java.net.InetAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLServerSocket;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

@Timeout(120)
class TlsTest {
    private static final char[] SECRET = "changeit".toCharArray();
    private final FakeCluster cluster = new FakeCluster();

    /** Certificates that sign themselves, made once: keytool takes its time. */
    @TempDir
    private static Path folder;
    private static SSLContext good;

    @BeforeAll
    static void make() throws Exception {
        good = certificate("good", "ip:127.0.0.1");
    }

    /** A certificate that signs itself, for a name; its PEM is NAME.pem. */
    private static SSLContext certificate(String file, String san) throws Exception {
        Path store = folder.resolve(file + ".p12");
        keytool("-genkeypair", "-alias", "x", "-keyalg", "EC", "-dname", "CN=" + file, "-ext",
                "SAN=" + san, "-keystore", store.toString(), "-storepass", "changeit");
        keytool("-exportcert", "-rfc", "-alias", "x", "-keystore", store.toString(), "-storepass",
                "changeit", "-file", folder.resolve(file + ".pem").toString());
        KeyStore keys = KeyStore.getInstance("PKCS12");
        try (InputStream in = Files.newInputStream(store)) {
            keys.load(in, SECRET);
        }
        KeyManagerFactory factory = KeyManagerFactory.getInstance(
                KeyManagerFactory.getDefaultAlgorithm());
        factory.init(keys, SECRET);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(factory.getKeyManagers(), null, null);
        return context;
    }

    private static void keytool(String... arguments) throws Exception {
        List<String> command = new ArrayList<>();
        command.add(Path.of(System.getProperty("java.home"), "bin", "keytool").toString());
        command.addAll(Arrays.asList(arguments));
        Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
        String said = new String(process.getInputStream().readAllBytes());
        assertEquals(0, process.waitFor(), said);
    }

    private FakeServer server(SSLContext context, String protocol) throws Exception {
        SSLServerSocket socket = (SSLServerSocket) context.getServerSocketFactory()
                .createServerSocket(0, 200, InetAddress.getByName("127.0.0.1"));
        socket.setEnabledProtocols(new String[] {protocol});
        return new FakeServer(socket, true, cluster);
    }

    private LeafdClient open(String pem, FakeServer... servers) {
        String[] urls = new String[servers.length];
        Arrays.setAll(urls, i -> servers[i].url());
        return LeafdClient.open(Expect.settings(urls).caFile(folder.resolve(pem)).build());
    }

    @ParameterizedTest
    @ValueSource(strings = {"TLSv1.3", "TLSv1.2"})
    void idsOverTls(String protocol) throws Exception {
        try (FakeServer server = server(good, protocol);
                LeafdClient client = open("good.pem", server)) {
            assertEquals(1000, client.segment("t").next(1000)[999]);
            for (int i = 1; i <= 50; i++) {
                assertEquals(i, client.strict("s").next());
            }
            assertEquals(1, server.connections.get(), "one connection, one handshake");
            server.cutAll();
            assertEquals(51, client.strict("s").next());
            assertEquals(3200, Threads.distinct(16, 200, client.strict("u")::next).size());
        }
    }

    @Test
    void aHandshakeThatDoesNotEnd() throws Exception {
        try (java.net.ServerSocket silent = new java.net.ServerSocket(0, 50,
                InetAddress.getByName("127.0.0.1"));
                LeafdClient client = LeafdClient.open(
                        Expect.settings("https://127.0.0.1:" + silent.getLocalPort())
                                .caFile(folder.resolve("good.pem")).attemptMs(100).build())) {
            Expect.until("an attempt ends in the midst of the handshake", () -> Expect.error(
                    "unreachable", () -> client.strict("t").next(Duration.ofSeconds(1)))
                    .getMessage().contains("handshake"));
            long ms = Expect.took(() -> Expect.error("unreachable",
                    () -> client.strict("t").next(Duration.ofMillis(300))));
            assertTrue(ms < 300 + Expect.slackMs(), ms + " ms");
        }
    }
}
