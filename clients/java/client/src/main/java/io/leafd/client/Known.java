package io.leafd.client;

import io.leafd.client.net.Outcome;
import io.leafd.client.net.Response;

/**
 * What a source knows of its tag from answers: whether its ids are a step apart, and the newest
 * generation of a node's data. Owner: the loop's thread; stepped may be read by any.
 */
final class Known {
    volatile boolean stepped;
    long newest = -1;

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

    /** Why an answer cannot be taken: the node's data is older than another's was; else null. */
    String check(Response response, Runnable dropped) {
        long generation = Answers.generation(response);
        if (generation < 0 || generation >= newest) {
            return null;
        }
        dropped.run();
        return "its data is of generation " + generation + ", and " + newest + " was seen";
    }

    /** The generation of an answer, remembered if it is newer; -1: it names none. */
    long note(Outcome outcome) {
        long generation = Answers.generation(outcome.response());
        if (generation < -1) {
            throw Answers.bad(outcome, "a generation that is no number");
        }
        newest = Math.max(newest, generation);
        return generation;
    }
}
