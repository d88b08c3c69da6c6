package io.leafd.client;

import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.CodingErrorAction;
import java.nio.charset.StandardCharsets;
import java.security.SecureRandom;
import java.time.Duration;

/** The rules of what callers give, and names that the library makes. */
final class Names {
    static final int MAX_COUNT = 100_000;
    static final int MAX_TEXTS = 1000; // of one call
    static final int MAX_TEXT_BYTES = 130; // what a shape can have
    private static final int MAX_BYTES = 128;
    private static final int KEY_CHARS = 26;
    private static final long MAX_DEADLINE_MS = 600_000;
    private static final String UNRESERVED =
            "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
    private static final String BASE32 = "abcdefghijklmnopqrstuvwxyz234567";
    private static final SecureRandom RANDOM = new SecureRandom();

    private Names() {
    }

    /** The name, if it is 1 to 128 bytes of UTF-8 without control characters. */
    static String check(String what, String name) {
        byte[] bytes = name == null ? null : utf8(name);
        boolean good = bytes != null && bytes.length >= 1 && bytes.length <= MAX_BYTES
                && name.chars().noneMatch(c -> c < 0x20 || (c >= 0x7f && c <= 0x9f));
        if (!good) {
            throw LeafdException.badSetting(what + " " + show(name)
                    + " is not 1 to 128 bytes of UTF-8 without control characters");
        }
        return name;
    }

    static int checkCount(int count) {
        if (count < 1 || count > MAX_COUNT) {
            throw LeafdException.badSetting("a count of " + count + " is not 1 to " + MAX_COUNT);
        }
        return count;
    }

    static int checkTextCount(int count) {
        if (count < 1 || count > MAX_TEXTS) {
            throw LeafdException.badSetting("a count of " + count + " is not 1 to " + MAX_TEXTS
                    + ", as texts have it");
        }
        return count;
    }

    /** Could it be the text of an id? */
    static boolean isText(String text) {
        return text != null && !text.isEmpty() && text.length() <= MAX_TEXT_BYTES
                && text.chars().allMatch(c -> c >= 0x21 && c <= 0x7e);
    }

    static String checkText(String text) {
        if (!isText(text)) {
            throw LeafdException.badSetting("a text of " + show(text) + " is not 1 to "
                    + MAX_TEXT_BYTES + " visible ASCII characters");
        }
        return text;
    }

    static String checkKey(String key) {
        boolean good = key != null && !key.isEmpty() && key.length() <= MAX_BYTES
                && key.chars().allMatch(c -> c >= 0x20 && c <= 0x7e)
                && key.equals(key.trim());
        if (!good) {
            throw LeafdException.badSetting("an Idempotency-Key of " + show(key)
                    + " is not 1 to 128 printable ASCII characters without blanks at its ends");
        }
        return key;
    }

    /** The time by System.nanoTime() at which a call that begins now is to end. */
    static long deadlineNanos(Duration duration) {
        long ms;
        try {
            ms = duration.toMillis();
        } catch (ArithmeticException e) {
            ms = MAX_DEADLINE_MS + 1;
        }
        if (ms < 1 || ms > MAX_DEADLINE_MS) {
            throw LeafdException.badSetting("a deadline of " + duration + " is not 1 ms to 600000 ms");
        }
        return System.nanoTime() + ms * 1_000_000;
    }

    /** As one element of a path. */
    static String encode(String name) {
        StringBuilder out = new StringBuilder(name.length() + 16);
        for (byte b : name.getBytes(StandardCharsets.UTF_8)) {
            if (UNRESERVED.indexOf(b) >= 0) {
                out.append((char) b);
            } else {
                out.append(String.format("%%%02X", b & 0xff));
            }
        }
        return out.toString();
    }

    /** 26 random characters of base 32: 130 bits. */
    static String newKey() {
        byte[] bytes = new byte[KEY_CHARS];
        RANDOM.nextBytes(bytes);
        StringBuilder out = new StringBuilder(KEY_CHARS);
        for (byte b : bytes) {
            out.append(BASE32.charAt(b & 31));
        }
        return out.toString();
    }

    /** A name for one holder of a worker id: host, process, 8 random bytes. */
    static String newHolder(String host) {
        byte[] bytes = new byte[8];
        RANDOM.nextBytes(bytes);
        StringBuilder out = new StringBuilder(host).append('-');
        out.append(ProcessHandle.current().pid()).append('-');
        for (byte b : bytes) {
            out.append(String.format("%02x", b & 0xff));
        }
        return out.toString();
    }

    /** For a message: in quotes, in one line, and not longer than is needed to know it. */
    static String show(String text) {
        if (text == null) {
            return "null";
        }
        String cut = text.length() > 160 ? text.substring(0, 160) + "..." : text;
        return '"' + cut.replaceAll("[\\p{Cntrl}\\x80-\\x9f\\p{Cs}]", "?") + '"';
    }

    private static byte[] utf8(String text) {
        try {
            ByteBuffer bytes = StandardCharsets.UTF_8.newEncoder()
                    .onMalformedInput(CodingErrorAction.REPORT).encode(CharBuffer.wrap(text));
            byte[] array = new byte[bytes.remaining()];
            bytes.get(array);
            return array;
        } catch (CharacterCodingException e) {
            return null;
        }
    }
}
