package io.leafd.client.net;

import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/** A whole answer of HTTP. Immutable. */
public final class Response {
    private static final int MESSAGE_CHARS = 1000;

    private final int status;
    private final List<String[]> headers;
    private final byte[] body;
    private final boolean keepAlive;

    Response(int status, List<String[]> headers, byte[] body, boolean keepAlive) {
        this.status = status;
        this.headers = headers;
        this.body = body;
        this.keepAlive = keepAlive;
    }

    /** The status, 200 to 599. */
    public int status() {
        return status;
    }

    /** The body as UTF-8. */
    public String text() {
        return new String(body, StandardCharsets.UTF_8);
    }

    /** The first header of this name, or null. */
    public String header(String name) {
        for (String[] header : headers) {
            if (header[0].equalsIgnoreCase(name)) {
                return header[1];
            }
        }
        return null;
    }

    /** May the connection be used again? */
    public boolean keepAlive() {
        return keepAlive;
    }

    /** The code of an error of leafd, or "" where this is none. */
    public String code() {
        Object code = member("code");
        return code instanceof String && ((String) code).matches("[a-z0-9_]{1,64}")
                ? (String) code : "";
    }

    /** The message of an error of leafd in one line, or what there is of the body. */
    public String message() {
        Object message = member("message");
        String text = message instanceof String ? (String) message : text();
        if (text.length() > MESSAGE_CHARS) {
            text = text.substring(0, MESSAGE_CHARS) + "...";
        }
        return text.replaceAll("\\p{Cntrl}+", " ").trim();
    }

    /** What Retry-After says, at most a day; 0 where it says nothing that is a number. */
    public long retryAfterMs() {
        String value = header("Retry-After");
        if (value == null || !value.matches("[0-9]+")) {
            return 0;
        }
        return (long) Math.min(86400, Double.parseDouble(value)) * 1000;
    }

    private Object member(String name) {
        if (status < 400) {
            return null;
        }
        String type = header("Content-Type");
        if (type == null || !type.toLowerCase(Locale.ROOT).startsWith("application/json")) {
            return null;
        }
        Map<String, Object> map = Json.object(text());
        return map == null ? null : map.get(name);
    }
}
