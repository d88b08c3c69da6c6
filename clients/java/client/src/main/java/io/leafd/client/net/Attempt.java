package io.leafd.client.net;

import java.util.function.Supplier;

/**
 * One request to one node, its connection included. It ends exactly once, with one of the three.
 * Owner: the loop's thread.
 */
abstract class Attempt {
    /** Makes the request, each time that it is sent. */
    final Supplier<Request> request;
    /** The end of it, by System.nanoTime(); set when it gets its turn. */
    long deadlineNanos;
    /** What a new connection may take; set with the other. */
    long connectNanos;
    /** It was sent over a kept connection that turned out to be closed, and is sent once more. */
    boolean again;

    Attempt(Supplier<Request> request) {
        this.request = request;
    }

    /** It gets its turn: how long may it take? By System.nanoTime(); false: nobody wants it now. */
    abstract boolean begin();

    /** An answer came. */
    abstract void answered(Response response);

    /** No connection, none within the time, or one that broke. */
    abstract void broken(String why);

    /** The node's certificate is not trusted, and nothing was sent. */
    abstract void untrusted(String why);

    /** The body of an answer is longer than any of leafd. */
    abstract void tooLong(String why);
}
