package io.leafd.client.net;

import java.nio.charset.StandardCharsets;

/** A request before it has an address. Immutable. */
public final class Request {
    private final String method;
    private final String target;
    private final String body;
    private final String idempotencyKey;

    private Request(String method, String target, String body, String idempotencyKey) {
        this.method = method;
        this.target = target;
        this.body = body;
        this.idempotencyKey = idempotencyKey;
    }

    /** A GET of a path with its query; idempotencyKey may be null. */
    public static Request get(String target, String idempotencyKey) {
        return new Request("GET", target, null, idempotencyKey);
    }

    /** A request with a JSON body, or with none where it is null. */
    public static Request of(String method, String target, String json) {
        return new Request(method, target, json, null);
    }

    private static final String AGENT = "leafd-java/0.2.0";

    /** The bytes for an address; the token may be null. */
    byte[] bytes(Address address, String token) {
        StringBuilder out = new StringBuilder(256);
        out.append(method).append(' ').append(target);
        out.append(" HTTP/1.1\r\nHost: ").append(address.authority());
        out.append("\r\nUser-Agent: ").append(AGENT).append("\r\n");
        if (token != null) {
            out.append("Authorization: Bearer ").append(token).append("\r\n");
        }
        if (idempotencyKey != null) {
            out.append("Idempotency-Key: ").append(idempotencyKey).append("\r\n");
        }
        byte[] payload = body == null ? new byte[0] : body.getBytes(StandardCharsets.UTF_8);
        if (body != null) {
            out.append("Content-Type: application/json\r\nContent-Length: ").append(payload.length);
            out.append("\r\n");
        }
        byte[] head = out.append("\r\n").toString().getBytes(StandardCharsets.US_ASCII);
        byte[] all = new byte[head.length + payload.length];
        System.arraycopy(head, 0, all, 0, head.length);
        System.arraycopy(payload, 0, all, head.length, payload.length);
        return all;
    }
}
