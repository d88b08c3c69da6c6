package io.leafd.client.net;

import java.net.URI;
import java.net.URISyntaxException;
import java.util.Objects;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A base URL, taken apart: http or https, host, port. Or the name of an SRV record, whose hosts and
 * ports are addresses of their own.
 */
public final class Address {
    private static final Pattern SERVICE =
            Pattern.compile("(https?)\\+srv://([A-Za-z0-9_.-]{1,253})/?", Pattern.CASE_INSENSITIVE);

    /** URI itself knows no host with an underscore, such as a container's. */
    private static final Pattern PLACE =
            Pattern.compile("(\\[[^]]+]|[A-Za-z0-9._-]{1,253})(?::([0-9]+))?");

    /** After http or https, for the name of an SRV record. */
    static final String SRV = "+srv://";

    private final boolean tls;
    private final String host;
    private final int port;
    private final String text;

    private Address(boolean tls, String host, int port) {
        this.tls = tls;
        this.host = host;
        this.port = port;
        String shown = host.indexOf(':') >= 0 ? "[" + host + "]" : host;
        text = (tls ? "https://" : "http://") + shown + ":" + port;
    }

    private Address(boolean tls, String service) {
        this.tls = tls;
        host = service;
        port = 0;
        text = (tls ? "https" : "http") + SRV + service;
    }

    /** A host and port of the SRV record. */
    Address node(String host, int port) {
        return new Address(tls, host, port);
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
        if (uri.getRawUserInfo() != null || !uri.getRawPath().matches("/?")
                || uri.getRawQuery() != null || uri.getRawFragment() != null) {
            throw new IllegalArgumentException("it must have no user, path, query or fragment");
        }
        Matcher place = PLACE.matcher(Objects.toString(uri.getRawAuthority(), ""));
        if (!place.matches()) {
            throw new IllegalArgumentException("it must name a host");
        }
        String number = place.group(2) == null ? tls ? "443" : "80" : place.group(2);
        int port = number.length() > 5 ? 0 : Integer.parseInt(number);
        if (port < 1 || port > 65535) {
            throw new IllegalArgumentException("its port must be 1 to 65535");
        }
        String host = place.group(1);
        if (host.startsWith("[")) {
            host = host.substring(1, host.length() - 1);
        }
        return new Address(tls, host, port);
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

    /** As `Host` shows it. */
    String authority() {
        return text.substring(text.indexOf("//") + 2);
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
