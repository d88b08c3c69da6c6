package io.leafd.spring;

import io.leafd.client.IdSource;
import io.leafd.client.LeafdClient;

/** The client for those whom their own framework makes, and not Spring. Any thread. */
final class Ids {
    private static volatile LeafdClient client;

    private Ids() {
    }

    /** The last one that was made is used. */
    static void use(LeafdClient made) {
        client = made;
    }

    /** Segment ids of the tag; null or empty: snowflake ids. */
    static IdSource of(LeafdClient from, String tag) {
        return tag == null || tag.isEmpty() ? from.snowflake() : from.segment(tag);
    }

    static long next(String tag) {
        LeafdClient now = client;
        if (now == null) {
            throw new IllegalStateException("no client of leafd was made yet: the bean leafdClient"
                    + " of LeafdAutoConfiguration has to be there before the first id");
        }
        return of(now, tag).next();
    }
}
