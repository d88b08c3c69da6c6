package io.leafd.client.net;

/** How a call ended: with an answer, or without one and a text that says why. Immutable. */
public final class Outcome {
    /** What came in the end. */
    public enum Kind {
        /** An answer, whatever its status; not one that is retried. */
        ANSWER,
        /** No node gave one by the deadline; the last answer, if any, says try later. */
        UNREACHABLE,
        /** No node of a round has a certificate that is trusted. */
        UNTRUSTED,
        /** All nodes are of another cluster than the client's; the text says of which. */
        FOREIGN,
        /** An answer is longer than any of leafd. */
        TOO_LONG,
        /** Nobody wants it any more. */
        UNWANTED,
        /** The client was closed. */
        CLOSED
    }

    private final Kind kind;
    private final Response response;
    private final Endpoint node;
    private final String text;
    private final long askedNanos;

    Outcome(Kind kind, Response response, Endpoint node, String text) {
        this(kind, response, node, text, 0);
    }

    Outcome(Kind kind, Response response, Endpoint node, String text, long askedNanos) {
        this.kind = kind;
        this.response = response;
        this.node = node;
        this.text = text;
        this.askedNanos = askedNanos;
    }

    /** When the request of an answer was sent, by System.nanoTime(). */
    public long askedNanos() {
        return askedNanos;
    }

    /** Which end it was. */
    public Kind kind() {
        return kind;
    }

    /** The answer; of one that was unreachable the last 502 to 504 or 429, or null. */
    public Response response() {
        return response;
    }

    /** The node that answered. */
    public Endpoint node() {
        return node;
    }

    /** From which address it came, or the last failure of each. */
    public String text() {
        return text;
    }
}
