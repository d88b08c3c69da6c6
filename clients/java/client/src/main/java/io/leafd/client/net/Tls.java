package io.leafd.client.net;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.net.ssl.KeyManager;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLEngine;
import javax.net.ssl.SSLParameters;
import javax.net.ssl.TrustManager;
import javax.net.ssl.TrustManagerFactory;

/**
 * Whom a client trusts, and how it speaks TLS: 1.3 or 1.2, and the name in the certificate is
 * always checked. The files are read again once one has changed; while they do not fit together,
 * what was read last holds. On the loop's thread.
 */
public final class Tls {
    private static final long LOOK_NANOS = 1_000_000_000L;

    private final Path caFile;
    private final Path certFile;
    private final Path keyFile;
    private SSLContext context;
    private List<Object> seen;
    private long lookedNanos = System.nanoTime();

    private Tls(Path caFile, Path certFile, Path keyFile) throws Unfit {
        this.caFile = caFile;
        this.certFile = certFile;
        this.keyFile = keyFile;
        seen = marks(caFile, certFile, keyFile);
        context = context(caFile, certFile, keyFile);
    }

    /** A file that cannot be used; the message has the setting, the file and the reason. */
    public static final class Unfit extends Exception {
        private static final long serialVersionUID = 1;

        Unfit(String setting, Path file, String rule, Exception why) {
            super(setting + "=" + file + " must be " + rule + ": " + why.getMessage(), why);
        }
    }

    /**
     * Trusts the certificates of a PEM file, or with null those whom the Java machine trusts; and
     * shows a certificate of its own, unless that is null.
     */
    public static Tls of(Path caFile, Path certFile, Path keyFile) throws Unfit {
        return new Tls(caFile, certFile, keyFile);
    }

    private static List<Object> marks(Path... files) {
        List<Object> marks = new ArrayList<>();
        for (Path file : files) {
            try {
                marks.add(file == null ? "none" : Token.mark(file));
            } catch (IOException e) {
                marks.add("gone");
            }
        }
        return marks;
    }

    private void look() {
        long now = System.nanoTime();
        if (now - lookedNanos < LOOK_NANOS) {
            return;
        }
        lookedNanos = now;
        List<Object> marks = marks(caFile, certFile, keyFile);
        if (!marks.equals(seen)) {
            try {
                context = context(caFile, certFile, keyFile);
                seen = marks;
            } catch (Unfit e) {
                lookedNanos = now; // one may be written at this moment
            }
        }
    }

    private static SSLContext context(Path caFile, Path certFile, Path keyFile) throws Unfit {
        TrustManager[] trusts = null;
        KeyManager[] shows = null;
        try {
            trusts = caFile == null ? null : managers(caFile).getTrustManagers();
        } catch (IOException | GeneralSecurityException e) {
            throw new Unfit("ca_file", caFile, "a file with certificates in PEM", e);
        }
        try {
            shows = certFile == null && keyFile == null ? null : own(certFile, keyFile);
            SSLContext context = SSLContext.getInstance("TLS");
            context.init(shows, trusts, null);
            return context;
        } catch (IOException | GeneralSecurityException | RuntimeException e) {
            throw new Unfit("cert_file", certFile,
                    "a certificate in PEM, whose key (PKCS 8) is in key_file=" + keyFile, e);
        }
    }

    private static List<Certificate> certificates(Path file)
            throws IOException, GeneralSecurityException {
        try (InputStream in = Files.newInputStream(file)) {
            CertificateFactory reader = CertificateFactory.getInstance("X.509");
            List<Certificate> all = new ArrayList<>(reader.generateCertificates(in));
            if (all.isEmpty()) {
                throw new IOException("it has no certificate");
            }
            return all;
        }
    }

    private static KeyStore emptyStore() throws IOException, GeneralSecurityException {
        KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
        store.load(null, null);
        return store;
    }

    private static KeyManager[] own(Path certFile, Path keyFile)
            throws IOException, GeneralSecurityException {
        List<Certificate> chain = certificates(certFile);
        String pem = new String(Files.readAllBytes(keyFile), StandardCharsets.US_ASCII);
        Matcher key = Pattern.compile("-----BEGIN PRIVATE KEY-----([A-Za-z0-9+/=\\s]+)"
                + "-----END PRIVATE KEY-----").matcher(pem);
        if (!key.find()) {
            throw new IOException("there is no PRIVATE KEY in " + keyFile);
        }
        PKCS8EncodedKeySpec spec =
                new PKCS8EncodedKeySpec(Base64.getMimeDecoder().decode(key.group(1)));
        KeyStore store = emptyStore();
        store.setKeyEntry("own",
                KeyFactory.getInstance(chain.get(0).getPublicKey().getAlgorithm())
                        .generatePrivate(spec),
                new char[0], chain.toArray(new Certificate[0]));
        KeyManagerFactory factory =
                KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
        factory.init(store, new char[0]);
        return factory.getKeyManagers();
    }

    private static TrustManagerFactory managers(Path caFile)
            throws IOException, GeneralSecurityException {
        KeyStore store = emptyStore();
        for (Certificate one : certificates(caFile)) {
            store.setCertificateEntry("ca-" + store.size(), one);
        }
        TrustManagerFactory factory =
                TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        factory.init(store);
        return factory;
    }

    SSLEngine engine(String host, int port) {
        look();
        SSLEngine engine = context.createSSLEngine(host, port);
        engine.setUseClientMode(true);
        SSLParameters parameters = engine.getSSLParameters();
        parameters.setEndpointIdentificationAlgorithm("HTTPS");
        parameters.setProtocols(new String[] {"TLSv1.3", "TLSv1.2"});
        parameters.setApplicationProtocols(new String[] {"http/1.1"});
        engine.setSSLParameters(parameters);
        return engine;
    }
}
