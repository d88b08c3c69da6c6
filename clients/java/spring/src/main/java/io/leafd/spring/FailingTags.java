package io.leafd.spring;

import io.leafd.client.LeafdEvent;
import java.util.Map;
import java.util.concurrent.ConcurrentSkipListMap;

/** Tags whose last refill failed, with the codes, by the events of a client. Any thread. */
public final class FailingTags {
    private final Map<String, String> codes = new ConcurrentSkipListMap<>();

    FailingTags() {
    }

    void accept(LeafdEvent event) {
        if (event.kind() == LeafdEvent.Kind.REFILL_FAILED) {
            codes.put(event.name(), event.code());
        } else if (event.kind() == LeafdEvent.Kind.RECOVERED) {
            codes.remove(event.name());
        }
    }

    /**
     * The codes by tag.
     *
     * @return of now
     */
    public Map<String, String> codes() {
        return Map.copyOf(codes);
    }
}
