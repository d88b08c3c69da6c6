package io.leafd.client.net;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/**
 * Reads one answer of HTTP/1.x from pieces as they come.
 *
 * <p>Happy path: {@link #feed} until it returns an answer. Failure modes: IOException for what is no
 * answer, or has more than {@value #HEAD_BYTES} bytes of head; {@link TooLong} for more than
 * {@value #BODY_BYTES} of body. An answer that does not say how long it is counts as none: where it ends early, nobody
 * could tell. Owner: the loop's thread.
 */
final class ResponseParser {
    static final int HEAD_BYTES = 16 * 1024;
    static final int BODY_BYTES = 256 * 1024;

    /** The body is longer than any of leafd. */
    static final class TooLong extends Exception {
        private static final long serialVersionUID = 1;

        TooLong(String message) {
            super(message);
        }
    }

    private enum State { HEAD, BODY, CHUNK_SIZE, CHUNK, CHUNK_END, TRAILER }

    private final ByteArrayOutputStream line = new ByteArrayOutputStream();
    private ByteArrayOutputStream body = new ByteArrayOutputStream();
    private final List<String> head = new ArrayList<>();
    private State state = State.HEAD;
    private int headBytes;
    private long left;
    private int status;
    private boolean keepAlive;
    private List<String[]> headers = new ArrayList<>();
    private boolean begun;

    /** Has any byte of the answer come? */
    boolean begun() {
        return begun;
    }

    /** Takes bytes up to the answer's end; null: more are needed. */
    Response feed(ByteBuffer in) throws IOException, TooLong {
        begun |= in.hasRemaining();
        while (in.hasRemaining()) {
            boolean whole;
            switch (state) {
                case BODY:
                case CHUNK:
                    whole = takeBody(in);
                    break;
                default:
                    whole = takeByte(in.get());
                    break;
            }
            if (whole) {
                return finish();
            }
        }
        return null;
    }

    private Response finish() {
        return new Response(status, headers, body.toByteArray(), keepAlive);
    }

    private boolean takeBody(ByteBuffer in) {
        int count = (int) Math.min(left, in.remaining());
        byte[] bytes = new byte[count];
        in.get(bytes);
        body.write(bytes, 0, count);
        left -= count;
        if (left > 0) {
            return false;
        }
        if (state == State.CHUNK) {
            state = State.CHUNK_END;
            return false;
        }
        return true;
    }

    private boolean takeByte(byte b) throws IOException, TooLong {
        if (++headBytes > HEAD_BYTES) {
            throw new IOException("a head of more than " + HEAD_BYTES + " bytes");
        }
        if (b != '\n') {
            line.write(b);
            return false;
        }
        String text = new String(line.toByteArray(), StandardCharsets.ISO_8859_1);
        line.reset();
        if (!text.endsWith("\r")) {
            throw new IOException("a line that ends without CR: " + show(text));
        }
        return takeLine(text.substring(0, text.length() - 1));
    }

    private boolean takeLine(String text) throws IOException, TooLong {
        switch (state) {
            case HEAD:
                if (head.isEmpty() && !text.matches("HTTP/1\\.[01] [1-5][0-9][0-9]( .*)?")) {
                    throw new IOException("no status line of HTTP/1.1: " + show(text));
                }
                if (!text.isEmpty()) {
                    head.add(text);
                    return false;
                }
                return takeHead();
            case CHUNK_SIZE:
                return takeChunkSize(text);
            case CHUNK_END:
                if (!text.isEmpty()) {
                    throw new IOException("a chunk longer than it says");
                }
                state = State.CHUNK_SIZE;
                return false;
            default: // TRAILER
                return text.isEmpty();
        }
    }

    private boolean takeHead() throws IOException, TooLong {
        status = Integer.parseInt(head.get(0).substring(9, 12));
        boolean version11 = head.get(0).charAt(7) == '1';
        headers = new ArrayList<>();
        for (String text : head.subList(1, head.size())) {
            int colon = text.indexOf(':');
            if (colon < 1 || text.substring(0, colon).matches(".*[\\s].*")) {
                throw new IOException("no header: " + show(text));
            }
            headers.add(new String[] {text.substring(0, colon), text.substring(colon + 1).trim()});
        }
        head.clear();
        if (status < 200) {
            if (status == 101) {
                throw new IOException("an upgrade that nobody asked for");
            }
            return false; // an interim answer; the next head follows
        }
        String connection = joined("Connection").toLowerCase(Locale.ROOT);
        keepAlive = version11 ? !connection.contains("close") : connection.contains("keep-alive");
        return beginBody();
    }

    private boolean beginBody() throws IOException, TooLong {
        String coding = joined("Transfer-Encoding");
        String length = joined("Content-Length");
        if (status == 204 || status == 304) {
            return true;
        }
        if (!coding.isEmpty()) {
            if (!coding.equalsIgnoreCase("chunked") || !length.isEmpty()) {
                throw new IOException("Transfer-Encoding: " + show(coding));
            }
            state = State.CHUNK_SIZE;
            return false;
        }
        if (!length.matches("[0-9]{1,18}")) {
            throw new IOException(length.isEmpty() ? "an answer that does not say its length"
                    : "Content-Length: " + show(length));
        }
        if (Long.parseLong(length) > BODY_BYTES) {
            throw new TooLong("a body of " + length + " bytes, where at most " + BODY_BYTES
                    + " are read");
        }
        state = State.BODY;
        left = Long.parseLong(length);
        return left == 0;
    }

    private boolean takeChunkSize(String text) throws IOException, TooLong {
        String size = text.split(";", 2)[0].trim();
        if (!size.matches("[0-9a-fA-F]{1,7}")) {
            throw new IOException("no size of a chunk: " + show(text));
        }
        left = Long.parseLong(size, 16);
        if (body.size() + left > BODY_BYTES) {
            throw new TooLong("a body of more than " + BODY_BYTES + " bytes");
        }
        state = left == 0 ? State.TRAILER : State.CHUNK;
        return false;
    }

    private String joined(String name) {
        StringBuilder out = new StringBuilder();
        for (String[] header : headers) {
            if (header[0].equalsIgnoreCase(name)) {
                out.append(out.length() == 0 ? "" : ",").append(header[1]);
            }
        }
        return out.toString();
    }

    private static String show(String text) {
        String cut = text.length() > 80 ? text.substring(0, 80) + "..." : text;
        return '"' + cut.replaceAll("[^ -~]", "?") + '"';
    }
}
