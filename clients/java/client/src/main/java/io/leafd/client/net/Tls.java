package io.leafd.client.net;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLEngine;
import javax.net.ssl.SSLParameters;
import javax.net.ssl.TrustManagerFactory;

/**
 * Whom a client trusts, and how it speaks TLS: 1.3 or 1.2, and the name in the certificate is
 * always checked.
 */
public final class Tls {
    private final SSLContext context;

    private Tls(SSLContext context) {
        this.context = context;
    }

    /**
     * Trusts the certificates of a PEM file, or with null those whom the Java machine trusts.
     *
     * @throws IOException the file cannot be read, or has no certificate; the message says which
     */
    public static Tls of(Path caFile) throws IOException {
        try {
            SSLContext context = SSLContext.getInstance("TLS");
            context.init(null, caFile == null ? null : managers(caFile).getTrustManagers(), null);
            return new Tls(context);
        } catch (GeneralSecurityException e) {
            throw new IOException(e.getMessage(), e);
        }
    }

    private static TrustManagerFactory managers(Path caFile)
            throws IOException, GeneralSecurityException {
        KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
        store.load(null, null);
        int count = 0;
        try (InputStream in = Files.newInputStream(caFile)) {
            CertificateFactory reader = CertificateFactory.getInstance("X.509");
            for (Certificate one : reader.generateCertificates(in)) {
                store.setCertificateEntry("ca-" + count++, one);
            }
        }
        if (count == 0) {
            throw new IOException("it has no certificate");
        }
        TrustManagerFactory factory =
                TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        factory.init(store);
        return factory;
    }

    SSLEngine engine(String host, int port) {
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
