package io.leafd.client.net;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.StandardSocketOptions;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.SocketChannel;
import java.security.cert.CertificateException;
import javax.net.ssl.SSLEngine;
import javax.net.ssl.SSLEngineResult;
import javax.net.ssl.SSLEngineResult.HandshakeStatus;
import javax.net.ssl.SSLException;

/**
 * One connection to a node, which carries one attempt at a time.
 *
 * <p>Happy path: it is opened for an attempt, connects, speaks TLS where its address says so, sends
 * the request, reads the answer, and is kept by its {@link Endpoint} for the next one. Failure
 * modes: what ends it early ends its attempt: too late, refused, reset, closed, a certificate that
 * is not trusted, bytes that are no answer (broken), or a body that is too long (tooLong). One that was kept and is found
 * closed before any byte of an answer gives its attempt back, to be sent over a new one. Owner: the
 * loop's thread.
 */
final class Connection implements Loop.Ready {
    private static final ByteBuffer NOTHING = ByteBuffer.allocate(0);

    private enum State { CONNECTING, HANDSHAKE, OPEN, CLOSED }

    private final Endpoint endpoint;
    private final InetAddress ip;
    private long connectEndNanos;
    private State state = State.CONNECTING;
    private SocketChannel channel;
    private SelectionKey key;
    private SSLEngine engine;
    private ByteBuffer out = NOTHING;
    private ByteBuffer netIn;
    private ByteBuffer plainIn;
    private ResponseParser parser;
    private Attempt attempt;
    private boolean kept;
    private Loop.Timer timer;
    private long timerAtNanos;

    Connection(Endpoint endpoint, InetAddress ip, Attempt attempt) {
        this.endpoint = endpoint;
        this.ip = ip;
        this.attempt = attempt;
    }

    /** Connects, and sends the attempt once it can. */
    void open() {
        try {
            channel = SocketChannel.open();
            channel.configureBlocking(false);
            channel.setOption(StandardSocketOptions.TCP_NODELAY, true);
            connectEndNanos = System.nanoTime() + attempt.connectNanos;
            watchTime();
            boolean done = channel.connect(new InetSocketAddress(ip, endpoint.address().port()));
            key = channel.register(endpoint.loop().selector(), SelectionKey.OP_CONNECT, this);
            if (done) {
                connected();
            }
        } catch (IOException | RuntimeException e) {
            end(reason(e), null);
        }
    }

    /** Sends the attempt over this connection, which was kept. */
    void use(Attempt next) {
        attempt = next;
        kept = true;
        watchTime();
        send();
    }

    /** Gives up whatever is under way, in silence. */
    void abandon() {
        attempt = null;
        close();
    }

    @Override
    public void ready(SelectionKey ready) {
        try {
            if (state == State.CONNECTING) {
                finishConnect();
                return;
            }
            if (ready.isValid() && ready.isReadable()) {
                read();
            }
            if (state != State.CLOSED && key.isValid() && key.isWritable()) {
                flush();
            }
        } catch (ResponseParser.TooLong e) {
            end(null, e.getMessage());
        } catch (SSLException e) {
            refuse(e);
        } catch (IOException e) {
            lost(reason(e));
        } catch (RuntimeException e) {
            end("internal: " + e, null);
        }
    }

    private void finishConnect() {
        try {
            if (channel.finishConnect()) {
                connected();
            }
        } catch (IOException e) {
            end(reason(e), null);
        }
    }

    private void connected() throws IOException {
        if (!endpoint.address().isTls()) {
            state = State.OPEN;
            send();
            return;
        }
        state = State.HANDSHAKE;
        engine = endpoint.tls().engine(endpoint.address().host(), endpoint.address().port());
        netIn = ByteBuffer.allocate(engine.getSession().getPacketBufferSize());
        plainIn = ByteBuffer.allocate(engine.getSession().getApplicationBufferSize());
        engine.beginHandshake();
        step();
    }

    private void send() {
        parser = new ResponseParser();
        byte[] bytes = attempt.request.get().bytes(endpoint.address(), endpoint.token());
        try {
            if (engine == null) {
                out = ByteBuffer.wrap(bytes);
            } else {
                wrap(ByteBuffer.wrap(bytes));
            }
            flush();
        } catch (IOException e) {
            lost(reason(e));
        }
    }

    /** Encrypts all of it behind what waits to be written. */
    private void wrap(ByteBuffer plain) throws SSLException {
        do {
            int room = engine.getSession().getPacketBufferSize();
            ByteBuffer more = ByteBuffer.allocate(out.remaining() + room);
            more.put(out);
            SSLEngineResult result = engine.wrap(plain, more);
            more.flip();
            out = more;
            boolean stuck = result.bytesConsumed() == 0 && result.bytesProduced() == 0;
            if (result.getStatus() != SSLEngineResult.Status.OK || stuck) {
                throw new SSLException("nothing can be sent: " + result.getStatus());
            }
        } while (plain.hasRemaining());
    }

    private void flush() throws IOException {
        while (out.hasRemaining() && channel.write(out) > 0) {
            continue;
        }
        key.interestOps(out.hasRemaining() ? SelectionKey.OP_READ | SelectionKey.OP_WRITE
                : SelectionKey.OP_READ);
    }

    private void read() throws IOException, ResponseParser.TooLong {
        if (engine == null) {
            ByteBuffer in = endpoint.buffer();
            in.clear();
            int count = channel.read(in);
            in.flip();
            if (count < 0) {
                lost("the connection was closed before the answer");
            } else if (count > 0) {
                take(in);
            }
            return;
        }
        int count = channel.read(netIn);
        step();
        if (count < 0 && state != State.CLOSED) {
            lost("the connection was closed before the answer");
        }
    }

    /** Does what the TLS engine wants next, as long as there are bytes for it. */
    private void step() throws IOException {
        try {
            while (state != State.CLOSED) {
                HandshakeStatus wants = engine.getHandshakeStatus();
                if (wants == HandshakeStatus.NEED_TASK) {
                    engine.getDelegatedTask().run();
                } else if (wants == HandshakeStatus.NEED_WRAP) {
                    wrap(NOTHING.duplicate());
                    flush();
                } else if (!unwrap()) {
                    return;
                }
                openIfAgreed();
            }
        } catch (ResponseParser.TooLong e) {
            end(null, e.getMessage());
        }
    }

    private void openIfAgreed() {
        if (state == State.HANDSHAKE
                && engine.getHandshakeStatus() == HandshakeStatus.NOT_HANDSHAKING) {
            state = State.OPEN;
            send();
        }
    }

    /** False: it needs more bytes from the network. */
    private boolean unwrap() throws IOException, ResponseParser.TooLong {
        netIn.flip();
        SSLEngineResult result = engine.unwrap(netIn, plainIn);
        netIn.compact();
        plainIn.flip();
        boolean got = plainIn.hasRemaining();
        if (got) {
            take(plainIn);
        }
        plainIn.clear();
        if (state == State.CLOSED) {
            return false;
        }
        switch (result.getStatus()) {
            case CLOSED:
                lost("the connection was closed before the answer");
                return false;
            case BUFFER_UNDERFLOW:
                netIn = roomy(netIn, engine.getSession().getPacketBufferSize());
                return false;
            case BUFFER_OVERFLOW:
                plainIn = ByteBuffer.allocate(engine.getSession().getApplicationBufferSize());
                return true;
            default:
                return got || result.bytesConsumed() > 0
                        || engine.getHandshakeStatus() != HandshakeStatus.NOT_HANDSHAKING;
        }
    }

    /** The buffer, or a larger one with the same bytes; a peer's records may be longer. */
    private static ByteBuffer roomy(ByteBuffer buffer, int bytes) {
        if (buffer.capacity() >= bytes) {
            return buffer;
        }
        buffer.flip();
        return ByteBuffer.allocate(bytes).put(buffer);
    }

    private void take(ByteBuffer in) throws IOException, ResponseParser.TooLong {
        if (attempt == null) {
            close(); // nobody asked for anything
            return;
        }
        Response response = parser.feed(in);
        if (response == null) {
            return;
        }
        Attempt done = attempt;
        attempt = null;
        boolean more = in.hasRemaining();
        if (more || !response.keepAlive() || out.hasRemaining()) {
            close();
        } else {
            kept = true;
            endpoint.keep(this);
        }
        done.answered(response);
    }

    /** The other side is gone. A kept connection may have been closed before the request came. */
    private void lost(String why) {
        if (attempt != null && kept && !attempt.again && state == State.OPEN && !parser.begun()) {
            Attempt unsent = attempt;
            attempt = null;
            close();
            unsent.again = true;
            endpoint.openFor(unsent);
            return;
        }
        end(why, null);
    }

    /** TLS has failed: by the node's certificate, or otherwise. */
    private void refuse(SSLException e) {
        Attempt ended = attempt;
        Throwable cause = e;
        while (cause != null && !(cause instanceof CertificateException)) {
            cause = cause.getCause();
        }
        if (cause == null || ended == null) {
            end("TLS: " + reason(e), null);
            return;
        }
        attempt = null;
        close();
        ended.untrusted("TLS: " + reason(e));
    }

    private void end(String broken, String tooLong) {
        Attempt ended = attempt;
        attempt = null;
        close();
        if (ended == null) {
            return;
        }
        if (tooLong != null) {
            ended.tooLong(tooLong);
        } else {
            ended.broken(broken);
        }
    }

    /** When what is under way now has to be over. */
    private long endNanos() {
        return state == State.CONNECTING && connectEndNanos - attempt.deadlineNanos < 0
                ? connectEndNanos : attempt.deadlineNanos;
    }

    /** One timer a connection, however many attempts it carries. */
    private void watchTime() {
        if (timer != null && timerAtNanos - endNanos() <= 0) {
            return;
        }
        if (timer != null) {
            timer.cancel();
        }
        timerAtNanos = endNanos();
        timer = endpoint.loop().schedule(timerAtNanos, this::checkTime);
    }

    private void checkTime() {
        timer = null;
        if (state == State.CLOSED || attempt == null) {
            return;
        }
        if (endNanos() - System.nanoTime() > 0) {
            watchTime();
            return;
        }
        if (state == State.CONNECTING && attempt.deadlineNanos - System.nanoTime() > 0) {
            end("no connection within " + attempt.connectNanos / 1_000_000 + " ms", null);
            return;
        }
        end(state == State.CONNECTING ? "no connection within the time of an attempt"
                : state == State.HANDSHAKE ? "no handshake of TLS within the time of an attempt"
                : "no answer within the time of an attempt", null);
    }

    private void close() {
        if (state != State.CLOSED) {
            state = State.CLOSED;
            closeChannel();
            endpoint.closed(this);
        }
    }

    private void closeChannel() {
        if (channel != null) {
            try {
                channel.close();
            } catch (IOException e) {
                key = null; // nothing is left to be done with it
            }
        }
    }

    static String reason(Throwable e) {
        Throwable cause = e;
        while (cause.getCause() != null && cause.getCause() != cause) {
            cause = cause.getCause();
        }
        String text = cause.getMessage() == null ? cause.getClass().getSimpleName()
                : cause.getMessage();
        return text.replaceAll("\\p{Cntrl}+", " ");
    }
}
