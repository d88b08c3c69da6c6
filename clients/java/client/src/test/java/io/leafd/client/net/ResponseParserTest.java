package io.leafd.client.net;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class ResponseParserTest {
    private static ByteBuffer bytes(String text) {
        return ByteBuffer.wrap(text.getBytes(StandardCharsets.UTF_8));
    }

    private static Response parse(String text) throws Exception {
        ByteBuffer in = bytes(text);
        Response response = new ResponseParser().feed(in);
        assertFalse(in.hasRemaining() && response == null);
        return response;
    }

    @Test
    void byteForByte() throws Exception {
        String text = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nA: b\r\n"
                + "Content-Length: 4\r\n\r\n1 2\n";
        ResponseParser parser = new ResponseParser();
        for (int i = 0; i < text.length() - 1; i++) {
            assertNull(parser.feed(bytes(text.substring(i, i + 1))));
        }
        Response response = parser.feed(bytes("\n"));
        assertEquals(200, response.status());
        assertEquals("1 2\n", response.text());
        assertEquals("b", response.header("a"));
        assertTrue(response.keepAlive());
    }

    @Test
    void chunks() throws Exception {
        Response response = parse("HTTP/1.1 200 \r\nTransfer-Encoding: chunked\r\n\r\n"
                + "3;x=y\r\n1 2\r\n1\r\n\n\r\n0\r\nTrailer: x\r\n\r\n");
        assertEquals("1 2\n", response.text());
    }

    @Test
    void whatFollowsIsLeft() throws Exception {
        ByteBuffer in = bytes("HTTP/1.1 204 No Content\r\n\r\nHTTP");
        assertNotNull(new ResponseParser().feed(in));
        assertEquals(4, in.remaining());
    }

    @Test
    void whoseConnectionStays() throws Exception {
        String end = "Content-Length: 0\r\n\r\n";
        assertTrue(parse("HTTP/1.1 200\r\n" + end).keepAlive());
        assertFalse(parse("HTTP/1.1 200\r\nConnection: Close\r\n" + end).keepAlive());
        assertFalse(parse("HTTP/1.0 200\r\n" + end).keepAlive());
        assertTrue(parse("HTTP/1.0 200\r\nConnection: keep-alive\r\n" + end).keepAlive());
    }

    @ParameterizedTest
    @ValueSource(strings = {"SSH-2.0-x\r\n", "HTTP/2 200\r\n", "HTTP/1.1 700 X\r\n",
        "HTTP/1.1 200 OK\nContent-Length: 1\n\n", "HTTP/1.1 200 OK\r\nno header\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA b: c\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n1 2\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
        "HTTP/1.1 101 Switching\r\n\r\n"})
    void garbage(String text) {
        assertThrows(IOException.class, () -> parse(text));
    }

    @ParameterizedTest
    @ValueSource(strings = {"HTTP/1.1 200 OK\r\nContent-Length: 262145\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n40001\r\n"})
    void bodiesThatAreTooLong(String text) {
        assertThrows(ResponseParser.TooLong.class, () -> parse(text));
    }

    @Test
    void headAndBodyHaveBounds() throws Exception {
        String start = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nA: ";
        int room = ResponseParser.HEAD_BYTES - start.length() - 4;
        assertNotNull(parse(start + "x".repeat(room) + "\r\n\r\n"));
        assertThrows(IOException.class,
                () -> parse(start + "x".repeat(room + 1) + "\r\n\r\n"));
        String body = "HTTP/1.1 200 OK\r\nContent-Length: " + ResponseParser.BODY_BYTES + "\r\n\r\n";
        assertNotNull(parse(body + "x".repeat(ResponseParser.BODY_BYTES)));
    }

    @Test
    void anErrorOfLeafd() throws Exception {
        String json = "{\"code\":\"unknown_tag\",\"message\":\"two\\nlines\"}";
        Response response = parse("HTTP/1.1 404 X\r\nContent-Type: application/json\r\n"
                + "Retry-After: 2\r\nContent-Length: " + json.length() + "\r\n\r\n" + json);
        assertEquals("unknown_tag", response.code());
        assertEquals("two lines", response.message());
        assertEquals(2000, response.retryAfterMs());
    }

    @Test
    void anErrorOfSomebodyElse() throws Exception {
        Response response = parse("HTTP/1.1 502 X\r\nContent-Type: text/html\r\n"
                + "Retry-After: soon\r\nContent-Length: 6\r\n\r\n<html>");
        assertEquals("", response.code());
        assertEquals("<html>", response.message());
        assertEquals(0, response.retryAfterMs());
    }
}
