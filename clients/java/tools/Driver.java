import io.leafd.client.IdRange;
import io.leafd.client.LeafdClient;
import io.leafd.client.LeafdException;
import io.leafd.client.SegmentSource;
import io.leafd.client.Settings;
import io.leafd.client.SnowflakeSource;
import io.leafd.client.StrictIds;
import io.leafd.client.StrictSource;
import io.leafd.client.TextIds;
import io.leafd.client.TextSource;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;

/**
 * The driver of the conformance suite: one command a line from standard input, one line for an
 * answer. clients/conformance/driver.py has the commands.
 */
public final class Driver {
    private static final int MAX_MIX = 1 << 20;

    /** A command that is none; the suite is wrong, or this driver is. */
    private static final class Usage extends RuntimeException {
        private static final long serialVersionUID = 1;

        Usage(String message) {
            super(message);
        }
    }

    /** Ids in the order in which they came, joined where they follow each other. */
    private static final class Ids {
        private final StringBuilder text = new StringBuilder();
        private long first = -1;
        private long last = -2;

        void add(long id) {
            add(id, id);
        }

        void add(long from, long to) {
            if (first >= 0 && from == last + 1) {
                last = to;
                return;
            }
            flush();
            first = from;
            last = to;
        }

        private void flush() {
            if (first >= 0) {
                text.append(' ').append(first).append('-').append(last);
            }
        }

        @Override
        public String toString() {
            flush();
            first = -1;
            return "ids" + text;
        }
    }

    private LeafdClient client;
    /** By kind and name, as clients give away other ones once these are closed. */
    private final Map<String, AutoCloseable> sources = new HashMap<>();
    private final Map<String, Integer> told = new TreeMap<>(); // how often, by kind

    private Driver() {
    }

    public static void main(String[] args) throws IOException {
        BufferedReader in = new BufferedReader(
                new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        Driver driver = new Driver();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.print(driver.answer(line) + "\n");
            out.flush();
        }
        driver.closeClient();
    }

    private String answer(String line) {
        try {
            return run(line.split(" "));
        } catch (LeafdException e) {
            String message = e.getMessage().replaceAll("\\p{Cntrl}+", " ");
            return "error " + e.code() + " " + e.status() + " " + message;
        } catch (Usage | IndexOutOfBoundsException | NumberFormatException e) {
            return "fault " + e.toString().replaceAll("\\p{Cntrl}+", " ");
        }
    }

    private String run(String[] words) {
        if (words[0].equals("open")) {
            return open(words);
        }
        if (words[0].equals("fork") || words[0].equals("forksnow")) {
            return "unsupported";
        }
        if (client == null) {
            throw new Usage("open comes first");
        }
        switch (words[0]) {
            case "segment":
                return segment(words[1], number(words[2]), deadline(words));
            case "range":
                IdRange range = segmentSource(words[1]).nextRange(number(words[2]));
                return "ids " + range
                        + (range.increment() > 1 ? " step " + range.increment() : "");
            case "strict":
                return strict(words);
            case "texts":
                return texts(words);
            case "textid":
                return textId(words);
            case "strict1":
                return strict1(words[1], number(words[2]), deadline(words));
            case "snowflake":
                return snowflake(number(words[1]), deadline(words));
            case "threads":
                return threads(number(words[1]), words[2], number(words[3]));
            case "loop":
                return loop(words[1], Double.parseDouble(words[2]));
            case "mix":
                return mix(words[1], words[2], Double.parseDouble(words[3]));
            case "bench":
                return "bench " + bench(segmentSource(words[1]), number(words[2]));
            case "benchthreads":
                return benchThreads(number(words[1]), words[2], number(words[3]));
            case "decode":
                return "decode " + snowflakeSource().decode(Long.parseLong(words[1]));
            case "at":
                return "at " + snowflakeSource().at(Long.parseLong(words[1]));
            case "stats":
                return "stats " + client.stats();
            case "statstext":
                return "statstext " + client.statsText().replace('\n', '|');
            case "events":
                return events();
            case "close_source":
                return closeSource(words[1], words[2]);
            case "close":
                closeClient();
                return "ok";
            default:
                throw new Usage("no command is called " + words[0]);
        }
    }

    private static int number(String word) {
        return Integer.parseInt(word);
    }

    /** The last word's deadline_ms, or null. */
    private static Duration deadline(String[] words) {
        String last = words[words.length - 1];
        return last.startsWith("deadline_ms=")
                ? Duration.ofMillis(Long.parseLong(last.substring("deadline_ms=".length()))) : null;
    }

    private String open(String[] words) {
        Settings.Builder builder = Settings.builder();
        for (int i = 1; i < words.length; i++) {
            int equals = words[i].indexOf('=');
            if (equals < 0) {
                throw new Usage("no KEY=VALUE: " + words[i]);
            }
            builder.set(words[i].substring(0, equals), words[i].substring(equals + 1));
        }
        builder.onEvent(event -> {
            synchronized (told) {
                told.merge(event.kind().name().toLowerCase(Locale.ROOT), 1, Integer::sum);
            }
        });
        LeafdClient opened = LeafdClient.open(builder.build());
        closeClient();
        client = opened;
        sources.clear();
        return "ok";
    }

    private void closeClient() {
        if (client != null) {
            client.close(); // and stays, to answer `closed`
        }
    }

    private String segment(String tag, int count, Duration deadline) {
        SegmentSource source = segmentSource(tag);
        Ids ids = new Ids();
        for (int i = 0; i < count; i++) {
            ids.add(deadline == null ? source.next() : source.next(deadline));
        }
        return ids.toString();
    }

    private String strict(String[] words) {
        Duration deadline = deadline(words);
        StrictSource source = strictSource(words[1]);
        boolean keyed = words.length > (deadline == null ? 3 : 4);
        String key = keyed ? words[3] : StrictSource.newKey();
        StrictIds ids = deadline == null ? source.next(number(words[2]), key)
                : source.next(number(words[2]), key, deadline);
        IdRange range = ids.range();
        Ids each = new Ids();
        for (long i = 0; range.increment() > 1 && i < range.count(); i++) {
            each.add(range.first() + i * range.increment());
        }
        return (range.increment() > 1 ? each.toString() : "ids " + range)
                + (ids.replayed() ? " replayed" : "");
    }

    private SegmentSource segmentSource(String tag) {
        return (SegmentSource) sources.computeIfAbsent("segment " + tag,
                any -> client.segment(tag));
    }

    private StrictSource strictSource(String tag) {
        return (StrictSource) sources.computeIfAbsent("strict " + tag, any -> client.strict(tag));
    }

    private TextSource textSource(String tag) {
        return (TextSource) sources.computeIfAbsent("texts " + tag, any -> client.texts(tag));
    }

    private SnowflakeSource snowflakeSource() {
        return (SnowflakeSource) sources.computeIfAbsent("snowflake -", any -> client.snowflake());
    }

    private String closeSource(String kind, String name) {
        AutoCloseable source = kind.equals("segment") ? segmentSource(name)
                : kind.equals("strict") ? strictSource(name)
                : kind.equals("texts") ? textSource(name) : snowflakeSource();
        try {
            source.close();
        } catch (Exception e) {
            throw new Usage(e.toString());
        }
        return "ok";
    }

    private String events() {
        StringBuilder out = new StringBuilder("events");
        synchronized (told) {
            told.forEach((kind, count) -> out.append(' ').append(kind).append(' ').append(count));
            told.clear();
        }
        return out.toString();
    }

    private String texts(String[] words) {
        Duration deadline = deadline(words);
        TextSource source = textSource(words[1]);
        boolean keyed = words.length > (deadline == null ? 3 : 4);
        int count = number(words[2]);
        TextIds ids;
        if (keyed) {
            ids = deadline == null ? source.next(count, words[3])
                    : source.next(count, words[3], deadline);
        } else {
            ids = deadline == null ? source.next(count) : source.next(count, deadline);
        }
        return "texts " + (ids.replayed() ? "replayed " : "new ") + String.join(" ", ids.texts());
    }

    private String textId(String[] words) {
        Duration deadline = deadline(words);
        TextSource source = textSource(words[1]);
        return "textid " + (deadline == null ? source.decode(words[2])
                : source.decode(words[2], deadline));
    }

    private String strict1(String tag, int count, Duration deadline) {
        StrictSource source = strictSource(tag);
        Ids ids = new Ids();
        for (int i = 0; i < count; i++) {
            ids.add(deadline == null ? source.next() : source.next(deadline));
        }
        return ids.toString();
    }

    private String snowflake(int count, Duration deadline) {
        SnowflakeSource source = snowflakeSource();
        Ids ids = new Ids();
        for (int i = 0; i < count; i++) {
            ids.add(deadline == null ? source.next() : source.next(deadline));
        }
        return ids.toString();
    }

    /** One thread's part of a command. */
    private interface Part {
        void run(int thread);
    }

    /** Runs it in threads that begin together; the nanoseconds until the last one has ended. */
    private static long inThreads(int threads, Part part) {
        List<Thread> all = new ArrayList<>();
        LeafdException[] failed = new LeafdException[1];
        java.util.concurrent.CountDownLatch start = new java.util.concurrent.CountDownLatch(1);
        for (int i = 0; i < threads; i++) {
            int number = i;
            Thread thread = new Thread(() -> {
                try {
                    start.await();
                    part.run(number);
                } catch (LeafdException e) {
                    synchronized (failed) {
                        failed[0] = e;
                    }
                } catch (InterruptedException e) {
                    Thread.currentThread().interrupt();
                }
            });
            thread.start();
            all.add(thread);
        }
        long began = System.nanoTime();
        start.countDown();
        for (Thread thread : all) {
            try {
                thread.join();
            } catch (InterruptedException e) {
                throw new Usage("interrupted");
            }
        }
        long took = System.nanoTime() - began;
        if (failed[0] != null) {
            throw failed[0];
        }
        return took;
    }

    private String threads(int threads, String tag, int count) {
        SegmentSource source = segmentSource(tag);
        long[][] got = new long[threads][count];
        inThreads(threads, thread -> {
            for (int i = 0; i < count; i++) {
                got[thread][i] = source.next();
            }
        });
        Ids ids = new Ids();
        for (long[] one : got) {
            for (int i = 0; i < count; i++) {
                if (i > 0 && one[i] <= one[i - 1]) {
                    return "fault a thread got " + one[i] + " after " + one[i - 1];
                }
                ids.add(one[i]);
            }
        }
        return ids.toString();
    }

    private String loop(String tag, double seconds) {
        SegmentSource source = segmentSource(tag);
        long[] bins = new long[64 * 16];
        long count = 0;
        long longest = 0;
        Ids ids = new Ids();
        long now = System.nanoTime();
        long end = now + (long) (seconds * 1e9);
        while (now < end) {
            ids.add(source.next());
            long after = System.nanoTime();
            long took = after - now;
            now = after;
            longest = Math.max(longest, took);
            bins[bin(took)]++;
            count++;
        }
        return "loop " + count + " " + longest + " " + percentile(bins, count, longest) + " " + ids;
    }

    /** Sixteen bins an octave. */
    private static int bin(long nanos) {
        long value = Math.max(16, nanos);
        int octave = 63 - Long.numberOfLeadingZeros(value);
        return octave * 16 + (int) (value >>> octave - 4 & 15);
    }

    private static long percentile(long[] bins, long count, long longest) {
        long beyond = count / 10_000;
        for (int i = bins.length - 1; i >= 0; i--) {
            beyond -= bins[i];
            if (beyond < 0) {
                int octave = i / 16;
                return Math.min(longest, (16L + i % 16 + 1 << octave - 4) - 1);
            }
        }
        return longest;
    }

    private String mix(String tag, String strictTag, double seconds) {
        SegmentSource segment = segmentSource(tag);
        StrictSource strict = strictSource(strictTag);
        SnowflakeSource snowflake = snowflakeSource();
        Ids[] ids = {new Ids(), new Ids(), new Ids()};
        long end = System.nanoTime() + (long) (seconds * 1e9);
        for (int i = 0; i < MAX_MIX && System.nanoTime() < end; i++) {
            ids[0].add(segment.next());
            ids[1].add(strict.next());
            ids[2].add(snowflake.next());
        }
        String text = ids[0] + " ;" + ids[1].toString().substring(3) + " ;"
                + ids[2].toString().substring(3);
        return "mix " + text;
    }

    private static long checksum;

    private static long take(SegmentSource source, int count) {
        long sum = 0;
        for (int i = 0; i < count; i++) {
            sum += source.next();
        }
        return sum;
    }

    private static String bench(SegmentSource source, int count) {
        long sum = take(source, Math.min(count, 2_000_000));
        long began = System.nanoTime();
        sum += take(source, count);
        long took = System.nanoTime() - began;
        checksum += sum; // so that the loop is not left out
        return String.format("%.1f", (double) took / count);
    }

    private String benchThreads(int threads, String tag, int count) {
        SegmentSource[] sources = new SegmentSource[threads];
        Arrays.setAll(sources, i -> client.openSegment(tag));
        long[] sums = new long[threads];
        Part part = thread -> sums[thread] += take(sources[thread], count);
        inThreads(threads, part);
        long took = inThreads(threads, part);
        for (int i = 0; i < threads; i++) {
            checksum += sums[i];
            sources[i].close();
        }
        return "bench " + String.format("%.1f", (double) took / ((double) count * threads));
    }
}
