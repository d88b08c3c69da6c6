package io.leafd.client;

import io.leafd.client.net.Call;
import java.util.concurrent.CompletableFuture;

/** What one call is to bring, and the call, once the loop's thread has begun it. */
final class Asked<T> extends CompletableFuture<T> {
    /** Null before it began. */
    volatile Call call;
    /** The Idempotency-Key that was sent last, or null. */
    volatile String key;
}
