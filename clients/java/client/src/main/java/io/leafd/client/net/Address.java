package io.leafd.client.net;

import java.net.URI;
import java.net.URISyntaxException;
import java.util.Objects;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A base URL, taken apart: http or https, host, port, and what stands before each path. Or the name
 * of an SRV record, whose hosts and ports are addresses of their own.
 */
public final class Address {
    private static final Pattern SERVICE =
            Pattern.compile("(https?)\\+srv://([A-Za-z0-9_.-]{1,253})/?", Pattern.CASE_INSENSITIVE);

    /** After http or https, for the name of an SRV record. */
    static final String SRV = "+srv://";

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

    private Address(boolean tls, String service) {
        this.tls = tls;
        host = service;
        port = 0;
        basePath = "";
        text = (tls ? "https" : "http") + SRV + service;
    }

    /** A host and port of the SRV record. */
    Address node(String host, int port) {
        return new Address(tls, host, port, "");
    }

    /** The address of a base URL; {@link IllegalArgumentException} with the rule it breaks. */
    public static Address parse(String url) {
        Matcher service = SERVICE.matcher(url);
        if (service.matches()) {
            return new Address("https".equalsIgnoreCase(service.group(1)), service.group(2));
        }
        URI uri;
        try {
            uri = new URI(url);
        } catch (URISyntaxException e) {
            throw new IllegalArgumentException("it is no URL: " + e.getReason());
        }
        boolean tls = "https".equalsIgnoreCase(uri.getScheme());
        if (!tls && !"http".equalsIgnoreCase(uri.getScheme())) {
            throw new IllegalArgumentException(
                    "it must begin with http://, https:// or http+srv://");
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

    /** Is it the name of an SRV record? */
    boolean isService() {
        return port == 0;
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
