package io.leafd.client.net;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.concurrent.TimeUnit;

/**
 * What is sent as the bearer token: the one given, or the line of a file. The file is read again
 * once it has changed; while there is no token in it, the last one is sent. Owner: the loop's
 * thread.
 */
public final class Token {
    /** How often it is seen whether the file has changed. */
    private static final long LOOK_NANOS = TimeUnit.SECONDS.toNanos(1);
    private static final int MAX_CHARS = 4096;

    private final Path file;
    private String text;
    private String seen = "";
    private long lookedNanos = System.nanoTime();

    private Token(String text, Path file) {
        this.text = text;
        this.file = file;
    }

    /** One that stays as it is; null: none. */
    public static Token of(String text) {
        return new Token(text, null);
    }

    /**
     * The one in a file.
     *
     * @throws IOException the file cannot be read, or has no token; the message says which
     */
    public static Token in(Path file) throws IOException {
        Token token = new Token(null, file);
        token.read();
        return token;
    }

    /** Is it one that can be sent? */
    public static boolean isGood(String text) {
        return text != null && !text.isEmpty() && text.length() <= MAX_CHARS
                && text.chars().allMatch(c -> c > 0x20 && c < 0x7f);
    }

    String current() {
        long now = System.nanoTime();
        if (file != null && now - lookedNanos >= LOOK_NANOS) {
            lookedNanos = now;
            try {
                read();
            } catch (IOException e) {
                return text; // it may be written at this moment
            }
        }
        return text;
    }

    /** Another text once the file has changed. */
    static String mark(Path file) throws IOException {
        BasicFileAttributes now = Files.readAttributes(file, BasicFileAttributes.class);
        return now.fileKey() + " " + now.size() + " " + now.lastModifiedTime();
    }

    private void read() throws IOException {
        String version = mark(file);
        if (version.equals(seen)) {
            return;
        }
        String found = Files.size(file) > 2 * MAX_CHARS ? ""
                : new String(Files.readAllBytes(file), StandardCharsets.ISO_8859_1).trim();
        if (!isGood(found)) {
            throw new IOException("it has no token: 1 to " + MAX_CHARS
                    + " printable ASCII characters without blanks");
        }
        text = found;
        seen = version;
    }
}
