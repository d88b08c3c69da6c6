package io.leafd.client;

import io.leafd.client.net.Call;
import io.leafd.client.net.Json;
import io.leafd.client.net.Outcome;
import io.leafd.client.net.Response;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Pattern;

/** Makes ids, or an error, of what a call ended with. */
final class Answers {
    private static final Set<Integer> LATER = Set.of(408, 429, 500, 502, 503, 504);
    private static final Pattern LINE =
            Pattern.compile("(0|[1-9][0-9]{0,18}) (0|[1-9][0-9]{0,18})");
    private static final Pattern STEPPED = Pattern.compile(LINE.pattern() + " ([1-9][0-9]{0,18})");
    private static final Pattern ID = Pattern.compile("[0-9]{1,19}");
    private static final int RANGES = 64; // the server gives no more
    private static final String SHAPED = " has a shape, "; // in the refusal of ranges

    private Answers() {
    }

    /** The answer, of any status below 300; else an error. */
    static Response good(Outcome outcome) {
        switch (outcome.kind()) {
            case ANSWER:
                if (outcome.response().status() < 300) {
                    return outcome.response();
                }
                throw refusal(outcome.response(), outcome.text());
            case UNREACHABLE:
                throw late(outcome.response(), outcome.text());
            case UNTRUSTED:
                throw new LeafdException("untrusted", 0, false, "no node has a certificate that is"
                        + " trusted here (ca_file): " + outcome.text(), null);
            case FOREIGN:
                throw new LeafdException("other_cluster", 0, false, "the nodes are of "
                        + outcome.text() + ": ids of the two may be the same. If that is meant, make"
                        + " a new client; else correct endpoints", null);
            case TOO_LONG:
                throw LeafdException.badAnswer(0, outcome.text());
            default:
                throw LeafdException.closed();
        }
    }

    /** What a server refused, at an address. */
    static LeafdException refusal(Response response, String address) {
        int status = response.status();
        String code = response.code();
        if (code.isEmpty()) {
            String what = status < 400 ? "a redirect, which is not followed" : "no error of leafd";
            return new LeafdException("bad_answer", status, LATER.contains(status),
                    address + ": status " + status + ", " + what + ": " + response.message(), null);
        }
        String message = response.message();
        if (status == 400 && code.equals("bad_request") && message.contains(SHAPED)) {
            message += "; use texts() of the client";
        }
        boolean later = LATER.contains(status) || code.equals("no_worker_id")
                || code.equals("paused");
        return new LeafdException(code, status, later, address + ": " + message, null);
    }

    /** The deadline came first: failures are the last of each node, refused the last 502 to 504 or
     * 429. A quota is the client's own; any other is a node that could not answer. */
    static LeafdException late(Response refused, String failures) {
        if (refused != null && refused.status() == 429 && !refused.code().isEmpty()) {
            return new LeafdException(refused.code(), 429, true,
                    "no node gave an id in time: " + failures, null);
        }
        return new LeafdException("unreachable", 0, true,
                "no node gave an id in time: " + failures, null);
    }

    /** The same for a call that is still under way; null: it has not begun. */
    static LeafdException late(Call call) {
        return call == null ? late(null, "no request was sent yet")
                : late(call.lastRefusal(), call.describe());
    }

    /**
     * The ranges of an answer with format=range: they rise, and have count ids in all. stepped:
     * each line has an increment.
     */
    static List<IdRange> ranges(Outcome outcome, int count, boolean stepped) {
        Response response = good(outcome);
        String text = response.text();
        String[] lines = text.split("\n", -1);
        if (response.status() != 200 || !text.endsWith("\n") || lines.length > RANGES + 1) {
            throw bad(outcome, "no list of ranges");
        }
        List<IdRange> ranges = new ArrayList<>(lines.length - 1);
        long sum = 0;
        long above = -1;
        for (int i = 0; i < lines.length - 1; i++) {
            IdRange range = range(outcome, lines[i], stepped);
            if (range.first() <= above) {
                throw bad(outcome, "ranges that overlap or fall: " + range);
            }
            above = range.last();
            sum += (range.last() - range.first()) / range.increment() + 1;
            if (sum > count || sum <= 0) {
                break;
            }
            ranges.add(range);
        }
        if (sum != count) {
            throw bad(outcome, "other than the " + count + " ids that were asked for");
        }
        return ranges;
    }

    private static IdRange range(Outcome outcome, String line, boolean stepped) {
        if (!(stepped ? STEPPED : LINE).matcher(line).matches()) {
            throw bad(outcome, "no range");
        }
        String[] words = line.split(" ");
        try {
            long first = Long.parseLong(words[0]);
            long last = Long.parseLong(words[1]);
            long increment = stepped ? Long.parseLong(words[2]) : 1;
            if (last < first || last - first == Long.MAX_VALUE) {
                throw bad(outcome, "a range that ends before it begins");
            }
            if ((last - first) % increment != 0) {
                throw bad(outcome, "a last id that its increment does not reach");
            }
            return new IdRange(first, last, increment);
        } catch (NumberFormatException e) {
            throw bad(outcome, "an id beyond 63 bits");
        }
    }

    /** Of the data of the node that answered; -1: it names none; -2: what it names is none. */
    static long generation(Response response) {
        String text = response.header("Leafd-Generation");
        try {
            return text == null ? -1 : text.matches("[0-9]{1,19}") ? Long.parseLong(text) : -2;
        } catch (NumberFormatException e) {
            return -2;
        }
    }

    /** Would another node refuse it as well? */
    static boolean isFinal(LeafdException error) {
        return error.status() > 0 && !error.code().equals("bad_answer");
    }

    /** Was another request with the same key answered so before? */
    static boolean isReplayed(Outcome outcome) {
        return "true".equals(outcome.response().header("Idempotency-Replayed"));
    }

    /** The texts of an answer, one a line, as many as were asked for. */
    static List<String> texts(Outcome outcome, int count) {
        Response response = good(outcome);
        String text = response.text();
        if (response.status() != 200 || !text.endsWith("\n")
                || text.length() > count * (Names.MAX_TEXT_BYTES + 1)) {
            throw bad(outcome, "no list of ids");
        }
        List<String> lines = List.of(text.substring(0, text.length() - 1).split("\n", -1));
        if (lines.size() != count) {
            throw bad(outcome, "other than the " + count + " ids that were asked for");
        }
        if (!lines.stream().allMatch(Names::isText)) {
            throw bad(outcome, "a line that is no id");
        }
        return lines;
    }

    /** The number that a text was found to have. */
    static long textId(Outcome outcome) {
        Response response = good(outcome);
        Map<String, Object> row = response.status() == 200 ? Json.object(response.text()) : null;
        Object id = row == null ? null : row.get("id");
        if (!(id instanceof String) || !ID.matcher((String) id).matches()
                || !(row.get("granted") instanceof Boolean)) {
            throw bad(outcome, "no id of a text");
        }
        try {
            return Long.parseLong((String) id);
        } catch (NumberFormatException e) {
            throw bad(outcome, "an id beyond 63 bits");
        }
    }

    static LeafdException bad(Outcome outcome, String what) {
        return LeafdException.badAnswer(outcome.response().status(), outcome.text()
                + ": the answer has " + what + ": \"" + outcome.response().message() + '"');
    }
}
