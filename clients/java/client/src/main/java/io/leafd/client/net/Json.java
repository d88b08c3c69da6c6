package io.leafd.client.net;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Reads the small JSON of leafd's answers: maps, lists, strings, booleans, null, and numbers, which
 * are Long where they are whole and fit, else Double.
 *
 * <p>Failure modes: {@link IllegalArgumentException} for whatever is no JSON, is nested more than
 * {@value #DEPTH} levels deep, or has a name twice in one object.
 */
public final class Json {
    private static final int DEPTH = 16;

    private final String text;
    private int at;

    private Json(String text) {
        this.text = text;
    }

    /** The value that is the whole text. */
    public static Object parse(String text) {
        Json json = new Json(text);
        Object value = json.value(0);
        json.blanks();
        if (json.at != text.length()) {
            throw json.wrong("nothing more");
        }
        return value;
    }

    /** The object that is the whole text, or null where it is none. */
    @SuppressWarnings("unchecked")
    public static Map<String, Object> object(String text) {
        try {
            Object value = parse(text);
            return value instanceof Map ? (Map<String, Object>) value : null;
        } catch (IllegalArgumentException e) {
            return null;
        }
    }

    /** The text as a JSON string, in its quotes. */
    public static String quote(String text) {
        StringBuilder out = new StringBuilder("\"");
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            } else if (c < 0x20) {
                out.append(String.format("\\u%04x", (int) c));
            } else {
                out.append(c);
            }
        }
        return out.append('"').toString();
    }

    private IllegalArgumentException wrong(String wanted) {
        return new IllegalArgumentException("JSON: " + wanted + " expected at " + at);
    }

    private void blanks() {
        while (at < text.length() && " \t\r\n".indexOf(text.charAt(at)) >= 0) {
            at++;
        }
    }

    private char peek() {
        blanks();
        if (at == text.length()) {
            throw wrong("more");
        }
        return text.charAt(at);
    }

    private void take(char c) {
        if (peek() != c) {
            throw wrong("'" + c + "'");
        }
        at++;
    }

    private boolean takeIf(char c) {
        boolean is = peek() == c;
        at += is ? 1 : 0;
        return is;
    }

    private Object value(int depth) {
        if (depth > DEPTH) {
            throw wrong("less nesting");
        }
        switch (peek()) {
            case '{':
                return map(depth);
            case '[':
                return list(depth);
            case '"':
                return string();
            case 't':
                return word("true", Boolean.TRUE);
            case 'f':
                return word("false", Boolean.FALSE);
            case 'n':
                return word("null", null);
            default:
                return number();
        }
    }

    private Object word(String word, Object value) {
        if (!text.startsWith(word, at)) {
            throw wrong(word);
        }
        at += word.length();
        return value;
    }

    private Map<String, Object> map(int depth) {
        Map<String, Object> map = new LinkedHashMap<>();
        take('{');
        if (takeIf('}')) {
            return map;
        }
        do {
            peek();
            String name = string();
            take(':');
            Object value = value(depth + 1);
            if (map.containsKey(name)) {
                throw wrong("another name");
            }
            map.put(name, value);
        } while (takeIf(','));
        take('}');
        return map;
    }

    private List<Object> list(int depth) {
        List<Object> list = new ArrayList<>();
        take('[');
        if (takeIf(']')) {
            return list;
        }
        do {
            list.add(value(depth + 1));
        } while (takeIf(','));
        take(']');
        return list;
    }

    private String string() {
        if (at == text.length() || text.charAt(at) != '"') {
            throw wrong("a string");
        }
        StringBuilder out = new StringBuilder();
        for (at++; at < text.length(); at++) {
            char c = text.charAt(at);
            if (c == '"') {
                at++;
                return out.toString();
            }
            if (c < 0x20) {
                break;
            }
            out.append(c == '\\' ? escaped() : c);
        }
        throw wrong("the end of a string");
    }

    private char escaped() {
        at++;
        int which = at < text.length() ? "\"\\/bfnrtu".indexOf(text.charAt(at)) : -1;
        if (which < 0) {
            throw wrong("an escape");
        }
        if (which < 8) {
            return "\"\\/\b\f\n\r\t".charAt(which);
        }
        int code = 0;
        for (int i = 0; i < 4; i++) {
            at++;
            int digit = at < text.length() ? Character.digit(text.charAt(at), 16) : -1;
            if (digit < 0 || text.charAt(at) > 'f') {
                throw wrong("a hexadecimal digit");
            }
            code = code * 16 + digit;
        }
        return (char) code;
    }

    private Number number() {
        int start = at;
        while (at < text.length() && "+-.0123456789eE".indexOf(text.charAt(at)) >= 0) {
            at++;
        }
        String digits = text.substring(start, at);
        if (!digits.matches("-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][+-]?[0-9]+)?")) {
            at = start;
            throw wrong("a value");
        }
        try {
            return Long.valueOf(digits);
        } catch (NumberFormatException e) {
            return Double.valueOf(digits);
        }
    }
}
