package io.leafd.client.net;

import java.net.InetAddress;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.Objects;
import java.util.Set;

/**
 * One node with its connections: those that are kept for the next attempt, and those in use.
 *
 * <p>At most {@value #CONNECTIONS} at a time; attempts beyond wait in order, by the deadlines of
 * their calls. Owner: the loop's thread.
 */
public final class Endpoint {
    static final int CONNECTIONS = 64;
    private static final long SWEEP_NANOS = 20_000_000;

    private final Loop loop;
    private final Address address;
    private final InetAddress ip; // null: the name is not resolved yet
    private final String text;
    private final Tls tls;
    private final Token token;
    private final ByteBuffer buffer = ByteBuffer.allocateDirect(16 * 1024);
    private final ArrayDeque<Connection> idle = new ArrayDeque<>();
    private final Set<Connection> open = new HashSet<>();
    private final ArrayDeque<Attempt> waiting = new ArrayDeque<>();
    private boolean sweeping;
    private boolean retired;

    Endpoint(Loop loop, Address address, InetAddress ip, String text, Tls tls, Token token) {
        this.loop = loop;
        this.address = address;
        this.ip = ip;
        this.text = text;
        this.tls = tls;
        this.token = token;
    }

    /** Sends it as soon as there is a connection. */
    void start(Attempt attempt) {
        if (!idle.isEmpty() || open.size() < CONNECTIONS) {
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
        if (ip == null) {
            attempt.broken(address.isService() ? "there is no SRV record of " + address.host()
                    : "the name " + address.host() + " is not resolved");
            return;
        }
        Connection connection = new Connection(this, ip, attempt);
        open.add(connection);
        connection.open();
    }

    /** The connection has no attempt any more, and can take the next one. */
    void keep(Connection connection) {
        if (retired) {
            connection.abandon();
        } else {
            idle.addLast(connection);
            next();
        }
    }

    /** It is an address of the name no more: no connection is kept. */
    void retire() {
        retired = true;
        new ArrayList<>(idle).forEach(Connection::abandon);
    }

    void closed(Connection connection) {
        open.remove(connection);
        idle.remove(connection);
        next();
    }

    /** Whatever is under way ends in silence; the caller tells those who wait. */
    void abandon() {
        waiting.clear();
        for (Connection connection : new ArrayList<>(open)) {
            connection.abandon();
        }
    }

    /** Lets those who wait begin, but not from within what made the room. */
    private void next() {
        if (!waiting.isEmpty()) {
            loop.execute(() -> {
                while (!waiting.isEmpty()
                        && (!idle.isEmpty() || open.size() < CONNECTIONS)) {
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

    boolean isAt(Address base, InetAddress where) {
        return address.equals(base) && Objects.equals(ip, where);
    }

    /** The URL, with the address where its host is a name. */
    @Override
    public String toString() {
        return text;
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
