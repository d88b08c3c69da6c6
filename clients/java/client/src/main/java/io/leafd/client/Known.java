package io.leafd.client;

import io.leafd.client.net.Outcome;
import java.util.ArrayDeque;
import java.util.List;

/**
 * What a source knows of its tag from answers: whether its ids are a step apart, the newest
 * generation of a node's data, and the last ranges. Owner: the loop's thread; stepped and top may be
 * read by any.
 */
final class Known {
    private static final int REMEMBERED = 64; // ranges

    volatile boolean stepped;
    volatile Top top = new Top(-1, -1);
    private final ArrayDeque<Given> given = new ArrayDeque<>();

    /** The newest generation that an answer had, and the highest id of it that came. */
    static final class Top {
        final long generation;
        final long id;

        Top(long generation, long id) {
            this.generation = generation;
            this.id = id;
        }
    }

    /** A range that came, and by which key; null: by none. */
    private static final class Given {
        final long generation;
        final String key;
        final IdRange range;

        Given(long generation, String key, IdRange range) {
            this.generation = generation;
            this.key = key;
            this.range = range;
        }

        boolean has(IdRange other) {
            return other.first() <= range.last() && other.last() >= range.first();
        }
    }

    /** A request for ids, whose answer is looked at. */
    static final class Question {
        final int count;
        final boolean stepped;
        final boolean one; // range
        final String key; // null: none
        final Top before; // of where ids rise: what had come before the call began; null: they do not
        final boolean own; // the key is the library's, and nobody else knows it

        Question(int count, boolean stepped, boolean one) {
            this(count, stepped, one, null, null, false);
        }

        Question(int count, boolean stepped, boolean one, String key, Top before, boolean own) {
            this.count = count;
            this.stepped = stepped;
            this.one = one;
            this.key = key;
            this.before = before;
            this.own = own;
        }

        Question inSteps() {
            return new Question(count, true, one, key, before, own);
        }
    }

    /** What is asked for, behind the count. */
    static String options(boolean stepped) {
        return stepped ? "&format=range&stepped=1" : "&format=range";
    }

    /** Is the error that ids are a step apart, which the next request can take? */
    boolean repeats(LeafdException error, boolean asked) {
        if (asked || !error.code().equals("stepped")) {
            return false;
        }
        stepped = true;
        return true;
    }

    /**
     * Why an answer cannot be taken: the node's data is older than another's was, or its ids came
     * before, as those of an answer that a cache or a proxy gives again do; else null. A key gets
     * its ids again.
     */
    String check(Outcome outcome, Question asked, Runnable dropped) {
        String why = refuses(outcome, asked);
        if (why != null) {
            dropped.run();
        }
        return why;
    }

    private String refuses(Outcome outcome, Question asked) {
        long generation = Answers.generation(outcome.response());
        if (isOlder(generation)) {
            return older(generation);
        }
        List<IdRange> ranges;
        try {
            ranges = Answers.ranges(outcome, asked.count, asked.stepped);
        } catch (LeafdException e) {
            return null; // whoever reads it says so
        }
        if (asked.one && ranges.size() > 1) {
            return null; // likewise
        }
        long first = ranges.get(0).first();
        if (asked.before != null && (asked.own || !Answers.isReplayed(outcome))
                && generation == asked.before.generation && first <= asked.before.id) {
            return "its answer has id " + first + ", and " + asked.before.id
                    + " came before it was asked for";
        }
        for (IdRange range : ranges) {
            if (hasCome(range, generation, asked.key)) {
                return "its answer has ids that came before: " + range;
            }
        }
        return null;
    }

    private boolean isOlder(long generation) {
        return generation >= 0 && generation < top.generation;
    }

    private String older(long generation) {
        return "its data is of generation " + generation + ", and " + top.generation + " was seen";
    }

    private boolean hasCome(IdRange range, long generation, String key) {
        return given.stream().anyMatch(one -> one.generation == generation && one.has(range)
                && (key == null || !key.equals(one.key)));
    }

    /** The same for texts: of each answer the first one is compared. */
    String checkTexts(Outcome outcome, int count, String key) {
        long generation = Answers.generation(outcome.response());
        String first;
        if (isOlder(generation)) {
            return older(generation);
        }
        try {
            first = Answers.texts(outcome, count).get(0);
        } catch (LeafdException e) {
            return null; // whoever reads it says so
        }
        return hasCome(rangeOf(first), generation, key)
                ? "its answer has ids that came before: " + first : null;
    }

    /** What stands for a text, by FNV-1a: two have the same only once in 2^63. */
    static IdRange rangeOf(String text) {
        long hash = 0xcbf29ce484222325L;
        for (int i = 0; i < text.length(); i++) {
            hash = (hash ^ text.charAt(i)) * 0x100000001b3L;
        }
        return new IdRange(hash >>> 1, hash >>> 1, 1);
    }

    /** Remembers an answer; its generation, -1: it names none. */
    long note(Outcome outcome, List<IdRange> ranges, String key) {
        long generation = Answers.generation(outcome.response());
        if (generation < -1) {
            throw Answers.bad(outcome, "a generation that is no number");
        }
        for (IdRange range : ranges) {
            if (given.size() == REMEMBERED) {
                given.removeFirst();
            }
            given.addLast(new Given(generation, key, range));
        }
        long last = ranges.get(ranges.size() - 1).last();
        if (generation > top.generation || generation == top.generation && last > top.id) {
            top = new Top(generation, last);
        }
        return generation;
    }
}
