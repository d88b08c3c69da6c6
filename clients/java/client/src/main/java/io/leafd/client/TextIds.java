package io.leafd.client;

import java.util.List;

/** The ids of one call as texts. Immutable. */
public final class TextIds {
    private final List<String> texts;
    private final boolean replayed;

    TextIds(List<String> texts, boolean replayed) {
        this.texts = List.copyOf(texts);
        this.replayed = replayed;
    }

    /**
     * The ids, as the server writes them.
     *
     * @return one or more
     */
    public List<String> texts() {
        return texts;
    }

    /**
     * The first of the ids.
     *
     * @return a text
     */
    public String first() {
        return texts.get(0);
    }

    /**
     * Are these the ids of an earlier request with the same key, whose answer was lost maybe?
     *
     * @return what the server said
     */
    public boolean replayed() {
        return replayed;
    }

    /** The texts. */
    @Override
    public String toString() {
        return texts + (replayed ? " replayed" : "");
    }
}
