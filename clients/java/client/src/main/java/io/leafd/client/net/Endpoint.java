package io.leafd.client.net;

import java.net.InetAddress;
import java.net.UnknownHostException;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;

/**
 * One address with its connections: those that are kept for the next attempt, and those in use.
 *
 * <p>At most {@value #CONNECTIONS} at a time; attempts beyond wait in order, by the deadlines of
 * their calls. A name is looked up by a thread of its own, one at a time an endpoint, since a
 * resolver may take any time. Owner: the loop's thread.
 */
final class Endpoint {
    static final int CONNECTIONS = 64;
    private static final long SWEEP_NANOS = 20_000_000;

    private final Loop loop;
    private final Address address;
    private final Tls tls;
    private final Token token;
    private final ByteBuffer buffer = ByteBuffer.allocateDirect(16 * 1024);
    private final ArrayDeque<Connection> idle = new ArrayDeque<>();
    private final Set<Connection> open = new HashSet<>();
    private final ArrayDeque<Attempt> waiting = new ArrayDeque<>();
    private final List<Attempt> lookups = new ArrayList<>();
    private int opening;
    private boolean sweeping;
    private boolean lookingUp;

    Endpoint(Loop loop, Address address, Tls tls, Token token) {
        this.loop = loop;
        this.address = address;
        this.tls = tls;
        this.token = token;
    }

    /** Sends it as soon as there is a connection. */
    void start(Attempt attempt) {
        if (!idle.isEmpty() || open.size() + opening < CONNECTIONS) {
            launch(attempt);
        } else {
            waiting.add(attempt);
            sweepLater();
        }
    }

    private void launch(Attempt attempt) {
        if (!attempt.begin()) {
            return;
        }
        Connection connection = idle.pollLast();
        if (connection != null) {
            connection.use(attempt);
        } else {
            openFor(attempt);
        }
    }

    /** Sends it over a new connection. */
    void openFor(Attempt attempt) {
        opening++;
        InetAddress literal = literal(address.host());
        if (literal != null) {
            connect(new InetAddress[] {literal}, attempt);
            return;
        }
        lookups.add(attempt);
        loop.schedule(attempt.deadlineNanos, () -> {
            if (lookups.remove(attempt)) {
                opening--;
                attempt.broken("the name was not looked up within the time of an attempt");
                next();
            }
        });
        if (!lookingUp) {
            lookingUp = true;
            lookUp();
        }
    }

    private void lookUp() {
        Thread thread = new Thread(() -> {
            InetAddress[] found = null;
            String why = null;
            try {
                found = InetAddress.getAllByName(address.host());
            } catch (UnknownHostException e) {
                why = "the name " + address.host() + " is not known";
            }
            InetAddress[] addresses = found;
            String failure = why;
            loop.execute(() -> lookedUp(addresses, failure));
        }, "leafd-client-lookup");
        thread.setDaemon(true);
        thread.start();
    }

    private void lookedUp(InetAddress[] addresses, String failure) {
        lookingUp = false;
        List<Attempt> all = new ArrayList<>(lookups);
        lookups.clear();
        for (Attempt attempt : all) {
            if (addresses != null) {
                connect(addresses, attempt);
            } else {
                opening--;
                attempt.broken(failure);
            }
        }
        next();
    }

    private void connect(InetAddress[] addresses, Attempt attempt) {
        opening--;
        Connection connection = new Connection(this, addresses, attempt);
        open.add(connection);
        connection.open();
    }

    /** The address that the text is, without asking anybody; null: it is a name. */
    private static InetAddress literal(String host) {
        if (!host.matches("[0-9]+(\\.[0-9]+){3}") && host.indexOf(':') < 0) {
            return null;
        }
        try {
            return InetAddress.getByName(host);
        } catch (UnknownHostException e) {
            return null;
        }
    }

    /** The connection has no attempt any more, and can take the next one. */
    void keep(Connection connection) {
        idle.addLast(connection);
        next();
    }

    void closed(Connection connection) {
        open.remove(connection);
        idle.remove(connection);
        next();
    }

    /** Whatever is under way ends in silence; the caller tells those who wait. */
    void abandon() {
        waiting.clear();
        lookups.clear();
        for (Connection connection : new ArrayList<>(open)) {
            connection.abandon();
        }
    }

    /** Lets those who wait begin, but not from within what made the room. */
    private void next() {
        if (!waiting.isEmpty()) {
            loop.execute(() -> {
                while (!waiting.isEmpty()
                        && (!idle.isEmpty() || open.size() + opening < CONNECTIONS)) {
                    launch(waiting.poll());
                }
            });
        }
    }

    private void sweepLater() {
        if (!sweeping) {
            sweeping = true;
            loop.schedule(System.nanoTime() + SWEEP_NANOS, this::sweep);
        }
    }

    /** Those who waited too long for a connection are told so. */
    private void sweep() {
        sweeping = false;
        // One that is over says so in begin(), which may add others behind those looked at.
        for (int count = waiting.size(); count > 0 && !waiting.isEmpty(); count--) {
            Attempt attempt = waiting.poll();
            if (attempt.begin()) {
                waiting.add(attempt);
            }
        }
        if (!waiting.isEmpty()) {
            sweepLater();
        }
    }

    Loop loop() {
        return loop;
    }

    Address address() {
        return address;
    }

    Tls tls() {
        return tls;
    }

    String token() {
        return token.current();
    }

    /** For the bytes of one read; their reader takes them before it returns. */
    ByteBuffer buffer() {
        return buffer;
    }
}
