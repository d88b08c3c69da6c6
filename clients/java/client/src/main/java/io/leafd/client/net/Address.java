package io.leafd.client.net;

import java.net.URI;
import java.net.URISyntaxException;
import java.util.Objects;

/** A base URL, taken apart: http or https, host, port, and what stands before each path. */
public final class Address {
    private final boolean tls;
    private final String host;
    private final int port;
    private final String basePath;
    private final String text;

    private Address(boolean tls, String host, int port, String basePath) {
        this.tls = tls;
        this.host = host;
        this.port = port;
        this.basePath = basePath;
        String shown = host.indexOf(':') >= 0 ? "[" + host + "]" : host;
        text = (tls ? "https://" : "http://") + shown + ":" + port + basePath;
    }

    /** The address of a base URL; {@link IllegalArgumentException} with the rule it breaks. */
    public static Address parse(String url) {
        URI uri;
        try {
            uri = new URI(url);
        } catch (URISyntaxException e) {
            throw new IllegalArgumentException("it is no URL: " + e.getReason());
        }
        boolean tls = "https".equalsIgnoreCase(uri.getScheme());
        if (!tls && !"http".equalsIgnoreCase(uri.getScheme())) {
            throw new IllegalArgumentException("it must begin with http:// or https://");
        }
        if (uri.getHost() == null) {
            throw new IllegalArgumentException("it must name a host");
        }
        if (uri.getRawUserInfo() != null || uri.getRawQuery() != null
                || uri.getRawFragment() != null) {
            throw new IllegalArgumentException("it must have no user, query or fragment");
        }
        int port = uri.getPort() < 0 ? (tls ? 443 : 80) : uri.getPort();
        if (port < 1 || port > 65535) {
            throw new IllegalArgumentException("its port must be 1 to 65535");
        }
        String host = uri.getHost();
        if (host.startsWith("[")) {
            host = host.substring(1, host.length() - 1);
        }
        String path = uri.getRawPath() == null ? "" : uri.getRawPath();
        return new Address(tls, host, port, path.replaceAll("/+$", ""));
    }

    /** Does it begin with https? */
    public boolean isTls() {
        return tls;
    }

    String host() {
        return host;
    }

    int port() {
        return port;
    }

    String basePath() {
        return basePath;
    }

    /** As `Host` shows it. */
    String authority() {
        return text.substring(text.indexOf("//") + 2, text.length() - basePath.length());
    }

    /** The URL. */
    @Override
    public String toString() {
        return text;
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Address && text.equals(((Address) other).text);
    }

    @Override
    public int hashCode() {
        return Objects.hash(text);
    }
}
