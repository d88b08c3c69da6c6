package io.leafd.client;

import java.io.BufferedInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/** A server of HTTP/1.1 on a port of its own, which does with each request what a test says. */
final class FakeServer implements AutoCloseable {
    /** What a test does with a request. */
    interface Handler {
        void handle(Exchange exchange) throws IOException, InterruptedException;
    }

    /** One request, and the means to answer it, rightly or wrongly. */
    final class Exchange {
        final String method;
        final String target;
        final Map<String, String> headers;
        final String body;
        /** 1 for the server's first request. */
        final int number;
        /** 1 for the first request of its connection. */
        final int onConnection;
        final long nanos = System.nanoTime();
        private final Socket socket;
        private boolean lost;

        Exchange(Socket socket, String method, String target, Map<String, String> headers,
                String body, int onConnection) {
            this.socket = socket;
            this.method = method;
            this.target = target;
            this.headers = headers;
            this.body = body;
            this.number = count.incrementAndGet();
            this.onConnection = onConnection;
        }

        String option(String name) {
            for (String pair : target.substring(target.indexOf('?') + 1).split("&")) {
                if (pair.startsWith(name + "=")) {
                    return pair.substring(name.length() + 1);
                }
            }
            return null;
        }

        int askedFor() {
            return Integer.parseInt(option("count"));
        }

        void reply(int status, String text, String... more) throws IOException {
            byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
            StringBuilder head = new StringBuilder("HTTP/1.1 " + status + " Whatever\r\n");
            if (status != 204) {
                head.append("Content-Length: ").append(bytes.length).append("\r\n");
            }
            for (String line : more) {
                head.append(line).append("\r\n");
            }
            raw(head + "\r\n" + text);
        }

        void error(int status, String code, String... more) throws IOException {
            String[] all = java.util.Arrays.copyOf(more, more.length + 1);
            all[more.length] = "Content-Type: application/json;charset=UTF-8";
            reply(status, "{\"status\":" + status + ",\"code\":\"" + code
                    + "\",\"message\":\"the test says so\"}", all);
        }

        void raw(String text) throws IOException {
            if (lost) {
                socket.close();
                return;
            }
            socket.getOutputStream().write(text.getBytes(StandardCharsets.UTF_8));
            socket.getOutputStream().flush();
        }

        /**
         * Whatever is answered from now on does not arrive, and the connection ends with it: not
         * sooner, or the next try could be carried out before this one.
         */
        void lose() {
            lost = true;
        }

        /** Reads no further request, and answers nothing: the connection ends. */
        void cut() throws IOException {
            socket.close();
        }

        /** Nothing happens until the client closes its side. */
        void awaitEnd() throws IOException {
            while (socket.getInputStream().read() >= 0) {
                continue;
            }
            socket.close();
        }

        /** Nothing happens until the server is closed. */
        void hang() throws InterruptedException {
            stopped.await(60, TimeUnit.SECONDS);
        }
    }

    final List<Exchange> seen = Collections.synchronizedList(new ArrayList<>());
    final AtomicInteger connections = new AtomicInteger();
    private final AtomicInteger count = new AtomicInteger();
    private final CountDownLatch stopped = new CountDownLatch(1);
    private final java.util.Set<Socket> open = ConcurrentHashMap.newKeySet();
    private final ServerSocket listener;
    private final boolean tls;
    private volatile Handler handler;

    FakeServer(Handler handler) throws IOException {
        this(new ServerSocket(0, 200, InetAddress.getByName("127.0.0.1")), false, handler);
    }

    FakeServer(ServerSocket listener, boolean tls, Handler handler) {
        this.listener = listener;
        this.tls = tls;
        this.handler = handler;
        daemon(this::accept);
    }

    /** A base URL at which nobody listens. No system gives port 1 to anyone: a port that was free a
     * moment ago may be the server of another test by now. */
    static final String DEAD_URL = "http://127.0.0.1:1";

    String url() {
        return (tls ? "https" : "http") + "://127.0.0.1:" + port();
    }

    int port() {
        return listener.getLocalPort();
    }

    void handler(Handler next) {
        handler = next;
    }

    /** Closes the connections that are open now. */
    void cutAll() throws IOException {
        for (Socket socket : open) {
            socket.close();
        }
    }

    int openConnections() {
        return open.size();
    }

    @Override
    public void close() throws IOException {
        stopped.countDown();
        listener.close();
        cutAll();
    }

    private static void daemon(Runnable run) {
        Thread thread = new Thread(run, "fake-server");
        thread.setDaemon(true);
        thread.start();
    }

    private void accept() {
        try {
            while (true) {
                Socket socket = listener.accept();
                connections.incrementAndGet();
                open.add(socket);
                if (stopped.getCount() == 0) {
                    socket.close(); // a listener that is being closed may accept one more
                    return;
                }
                daemon(() -> serve(socket));
            }
        } catch (IOException e) {
            stopped.countDown();
        }
    }

    private void serve(Socket socket) {
        try (Socket own = socket) {
            InputStream in = new BufferedInputStream(own.getInputStream());
            for (int number = 1; !own.isClosed(); number++) {
                Exchange exchange = read(own, in, number);
                if (exchange == null) {
                    return;
                }
                seen.add(exchange);
                handler.handle(exchange);
                if (exchange.lost) {
                    return;
                }
            }
        } catch (IOException e) {
            return; // the client went away, or the test cut it
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        } finally {
            open.remove(socket);
        }
    }

    private Exchange read(Socket socket, InputStream in, int number) throws IOException {
        String first = line(in);
        if (first == null) {
            return null;
        }
        Map<String, String> headers = new HashMap<>();
        for (String text = line(in); text != null && !text.isEmpty(); text = line(in)) {
            int colon = text.indexOf(':');
            if (colon < 0) {
                return null; // no HTTP
            }
            headers.put(text.substring(0, colon).toLowerCase(Locale.ROOT),
                    text.substring(colon + 1).trim());
        }
        int length = Integer.parseInt(headers.getOrDefault("content-length", "0"));
        String body = new String(in.readNBytes(length), StandardCharsets.UTF_8);
        String[] words = first.split(" ");
        return new Exchange(socket, words[0], words[1], headers, body, number);
    }

    private static String line(InputStream in) throws IOException {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        for (int b = in.read(); b != '\n'; b = in.read()) {
            if (b < 0) {
                return null;
            }
            out.write(b);
        }
        return out.toString(StandardCharsets.UTF_8).trim();
    }
}
