package io.leafd.client;

import io.leafd.client.net.Address;
import io.leafd.client.net.Token;
import java.nio.file.Path;
import java.time.Clock;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.function.Consumer;

/**
 * What a client is made with. Immutable; made by {@link #builder}, or with addresses alone by
 * {@link LeafdClient#open(String...)}.
 */
public final class Settings {
    static final int MAX_ENDPOINTS = 64;

    final List<Address> endpoints;
    final List<Address> adminEndpoints;
    final String token;
    final Path tokenFile;
    final Path caFile;
    final Path certFile;
    final Path keyFile;
    final String zone;
    final boolean discover;
    final long connectMs;
    final long attemptMs;
    final long deadlineMs;
    final long coverMs;
    final int minCount;
    final int maxCount;
    final long windowMs;
    final long maxAgeMs;
    final Consumer<LeafdEvent> onEvent;
    final Clock clock;

    private Settings(Builder from) {
        endpoints = List.copyOf(from.endpoints);
        adminEndpoints = from.adminEndpoints.isEmpty() ? endpoints
                : List.copyOf(from.adminEndpoints);
        token = from.token;
        tokenFile = from.tokenFile;
        caFile = from.caFile;
        certFile = from.certFile;
        keyFile = from.keyFile;
        zone = from.zone;
        discover = from.discover != null ? from.discover : zone != null;
        connectMs = from.connectMs;
        attemptMs = from.attemptMs;
        deadlineMs = from.deadlineMs;
        coverMs = from.coverMs;
        minCount = from.minCount;
        maxCount = from.maxCount;
        windowMs = from.windowMs;
        maxAgeMs = from.maxAgeMs;
        onEvent = from.onEvent;
        clock = from.clock;
    }

    /**
     * Settings to be changed.
     *
     * @return the defaults, without an address
     */
    public static Builder builder() {
        return new Builder();
    }

    /** All of them but the token. */
    @Override
    public String toString() {
        return "endpoints=" + endpoints + " admin_endpoints=" + adminEndpoints + " token="
                + (token == null ? "none" : "given") + " ca_file=" + caFile + " zone=" + zone
                + " discover=" + discover + " connect_ms=" + connectMs + " attempt_ms=" + attemptMs + " deadline_ms=" + deadlineMs
                + " cover_ms=" + coverMs + " min_count=" + minCount + " max_count=" + maxCount
                + " window_ms=" + windowMs + " max_age_ms=" + maxAgeMs;
    }

    /**
     * Collects settings. A setting that breaks its rule is refused at once, as
     * {@code bad_setting}, with its name, the value and the rule. Not for several threads.
     */
    public static final class Builder {
        private List<Address> endpoints = new ArrayList<>();
        private List<Address> adminEndpoints = new ArrayList<>();
        private String token;
        private Path tokenFile;
        private Path caFile;
        private Path certFile;
        private Path keyFile;
        private String zone;
        private Boolean discover;
        private long connectMs = 300;
        private long attemptMs = 4000;
        private long deadlineMs = 10_000;
        private long coverMs = 10_000;
        private int minCount = 100;
        private int maxCount = 100_000;
        private long windowMs = 60_000;
        private long maxAgeMs = 3_600_000;
        private Consumer<LeafdEvent> onEvent = event -> { };
        private Clock clock = Clock.systemUTC();

        private Builder() {
        }

        /**
         * The nodes, by base URLs of the listener for ids.
         *
         * @param urls 1 to 64, {@code http://} or {@code https://}
         * @return this
         */
        public Builder endpoints(String... urls) {
            endpoints = addresses("endpoints", urls);
            return this;
        }

        /**
         * The nodes, by base URLs of the listener for worker ids; without it {@link #endpoints}.
         *
         * @param urls 1 to 64, {@code http://} or {@code https://}
         * @return this
         */
        public Builder adminEndpoints(String... urls) {
            adminEndpoints = addresses("admin_endpoints", urls);
            return this;
        }

        /**
         * What the client shows to say who it is; it is in no message.
         *
         * @param value up to 4096 printable ASCII characters without blanks
         * @return this
         */
        public Builder token(String value) {
            if (!Token.isGood(value)) {
                throw LeafdException.badSetting("token: what was given (it is not shown) is not 1"
                        + " to 4096 printable ASCII characters without blanks");
            }
            token = value;
            return this;
        }

        /**
         * A file with the token in its one line, read again once it has changed.
         *
         * @param file in place of {@link #token}
         * @return this
         */
        public Builder tokenFile(Path file) {
            tokenFile = Objects.requireNonNull(file, "file");
            return this;
        }

        /**
         * A certificate of the client's own, which it shows to the servers.
         *
         * @param pem a file with it, and those between it and its authority, in PEM
         * @return this
         */
        public Builder certFile(Path pem) {
            certFile = Objects.requireNonNull(pem, "pem");
            return this;
        }

        /**
         * The key of {@link #certFile}.
         *
         * @param pem a file with it in PEM, as PKCS 8
         * @return this
         */
        public Builder keyFile(Path pem) {
            keyFile = Objects.requireNonNull(pem, "pem");
            return this;
        }

        /**
         * Who signs the servers' certificates; without it those whom the Java machine trusts.
         *
         * @param pem a file with certificates in PEM
         * @return this
         */
        public Builder caFile(Path pem) {
            caFile = Objects.requireNonNull(pem, "pem");
            return this;
        }

        /**
         * Where the program runs: nodes of the same zone are asked as long as there are any.
         *
         * @param name as the nodes' setting has it
         * @return this
         */
        public Builder zone(String name) {
            zone = Names.check("zone", name);
            return this;
        }

        /**
         * Are nodes, their zones, weights and states learnt from one that is known?
         *
         * @param value true without it where there is a zone, else false
         * @return this
         */
        public Builder discover(boolean value) {
            discover = value;
            return this;
        }

        /**
         * How long a connection to a node may take, in the first round; twice as long after each.
         *
         * @param ms 1 to 600000; 300 without it
         * @return this
         */
        public Builder connectMs(long ms) {
            connectMs = within("connect_ms", ms, 1, 600_000);
            return this;
        }

        /**
         * How long one request to one node may take, its connection included.
         *
         * @param ms 1 to 600000; 4000 without it
         * @return this
         */
        public Builder attemptMs(long ms) {
            attemptMs = within("attempt_ms", ms, 1, 600_000);
            return this;
        }

        /**
         * How long a call may take in all, unless it says otherwise.
         *
         * @param ms 1 to 600000; 10000 without it
         * @return this
         */
        public Builder deadlineMs(long ms) {
            deadlineMs = within("deadline_ms", ms, 1, 600_000);
            return this;
        }

        /**
         * A range is to last so long at the measured rate.
         *
         * @param ms 1 to 600000; 10000 without it
         * @return this
         */
        public Builder coverMs(long ms) {
            coverMs = within("cover_ms", ms, 1, 600_000);
            return this;
        }

        /**
         * The least ids asked for at once.
         *
         * @param count 1 to 100000, and not above max_count; 100 without it
         * @return this
         */
        public Builder minCount(int count) {
            minCount = (int) within("min_count", count, 1, Names.MAX_COUNT);
            return this;
        }

        /**
         * The most ids asked for at once.
         *
         * @param count 1 to 100000; 100000 without it
         * @return this
         */
        public Builder maxCount(int count) {
            maxCount = (int) within("max_count", count, 1, Names.MAX_COUNT);
            return this;
        }

        /**
         * The window of a worker id.
         *
         * @param ms 1000 to 86400000; 60000 without it
         * @return this
         */
        public Builder windowMs(long ms) {
            windowMs = within("window_ms", ms, 1000, 86_400_000);
            return this;
        }

        /**
         * A range that was asked for so long ago is dropped, with the ids that are left of it.
         *
         * @param ms 1 to 86400000; 3600000 without it
         * @return this
         */
        public Builder maxAgeMs(long ms) {
            maxAgeMs = within("max_age_ms", ms, 1, 86_400_000);
            return this;
        }

        /**
         * Is given what happens. It runs on the client's thread, with no lock held, and must not
         * wait there; what it throws goes to that thread's handler of uncaught exceptions.
         *
         * @param hook instead of nothing
         * @return this
         */
        public Builder onEvent(Consumer<LeafdEvent> hook) {
            onEvent = Objects.requireNonNull(hook, "hook");
            return this;
        }

        /**
         * Where snowflake ids take the time from; for tests.
         *
         * @param value instead of the system's
         * @return this
         */
        public Builder clock(Clock value) {
            clock = Objects.requireNonNull(value, "value");
            return this;
        }

        /**
         * A setting by its name in docs/clients.md, from a configuration file say; several
         * addresses are separated by commas.
         *
         * @param name such as {@code attempt_ms}
         * @param value as text
         * @return this
         */
        public Builder set(String name, String value) {
            switch (name) {
                case "endpoints":
                    return endpoints(value.split(",", -1));
                case "admin_endpoints":
                    return adminEndpoints(value.split(",", -1));
                case "token":
                    return token(value);
                case "ca_file":
                    return caFile(path(name, value));
                case "token_file":
                    return tokenFile(path(name, value));
                case "cert_file":
                    return certFile(path(name, value));
                case "key_file":
                    return keyFile(path(name, value));
                case "zone":
                    return zone(value);
                case "discover":
                    if (!value.equals("true") && !value.equals("false")) {
                        throw LeafdException.badSetting("discover=" + Names.show(value)
                                + " is not true or false");
                    }
                    return discover(value.equals("true"));
                case "connect_ms":
                    return connectMs(number(name, value));
                case "attempt_ms":
                    return attemptMs(number(name, value));
                case "deadline_ms":
                    return deadlineMs(number(name, value));
                case "cover_ms":
                    return coverMs(number(name, value));
                case "min_count":
                    return minCount((int) number(name, value));
                case "max_count":
                    return maxCount((int) number(name, value));
                case "window_ms":
                    return windowMs(number(name, value));
                case "max_age_ms":
                    return maxAgeMs(number(name, value));
                default:
                    throw LeafdException.badSetting("no setting is called " + Names.show(name));
            }
        }

        /**
         * The settings, checked against each other.
         *
         * @return what {@link LeafdClient#open(Settings)} takes
         */
        public Settings build() {
            if (endpoints.isEmpty()) {
                fromEnvironment(System.getenv());
            }
            if (token != null && tokenFile != null) {
                throw LeafdException.badSetting("token_file=" + Names.show("" + tokenFile)
                        + " is given beside token");
            }
            if (minCount > maxCount) {
                throw LeafdException.badSetting("min_count=" + minCount
                        + " must not be above max_count=" + maxCount);
            }
            return new Settings(this);
        }

        /** Where the program names no cluster, the environment does, and says who is asking. */
        private void fromEnvironment(Map<String, String> environment) {
            if (!environment.containsKey("LEAFD_ENDPOINTS")) {
                throw LeafdException.badSetting(
                        "endpoints: none is given, here or as LEAFD_ENDPOINTS");
            }
            Map<String, Boolean> given = Map.of("endpoints", false,
                    "admin_endpoints", !adminEndpoints.isEmpty(),
                    "token", token != null || tokenFile != null,
                    "token_file", token != null || tokenFile != null,
                    "ca_file", caFile != null, "cert_file", certFile != null,
                    "key_file", keyFile != null, "zone", zone != null,
                    "discover", discover != null);
            given.forEach((name, isGiven) -> {
                String value = environment.get("LEAFD_" + name.toUpperCase(Locale.ROOT));
                if (value != null && !isGiven) {
                    set(name, value);
                }
            });
        }

        private static List<Address> addresses(String name, String... urls) {
            if (urls.length < 1 || urls.length > MAX_ENDPOINTS) {
                throw LeafdException.badSetting(name + ": " + urls.length
                        + " addresses are not 1 to " + MAX_ENDPOINTS);
            }
            List<Address> list = new ArrayList<>();
            for (String url : urls) {
                try {
                    list.add(Address.parse(url));
                } catch (IllegalArgumentException e) {
                    String shown = url.replaceAll("//[^/]*@", "//***@"); // there may be a password
                    throw LeafdException.badSetting(name + "=" + Names.show(shown) + ": "
                            + e.getMessage());
                }
            }
            return list;
        }

        private static long within(String name, long value, long least, long most) {
            if (value < least || value > most) {
                throw LeafdException.badSetting(name + "=" + value + " is not " + least + " to "
                        + most);
            }
            return value;
        }

        private static long number(String name, String value) {
            if (!value.matches("[0-9]{1,9}")) {
                throw LeafdException.badSetting(name + "=" + Names.show(value)
                        + " is not a whole number of at most 9 digits");
            }
            return Long.parseLong(value);
        }

        private static Path path(String name, String value) {
            try {
                return Path.of(value);
            } catch (IllegalArgumentException e) {
                throw LeafdException.badSetting(name + "=" + Names.show(value) + " is no path");
            }
        }
    }
}
