package io.leafd.client;

import java.io.IOException;
import java.util.HashMap;
import java.util.Map;

/** What a cluster of leafd would answer: counters, idempotency keys and worker ids. */
final class FakeCluster implements FakeServer.Handler {
    static final String LAYOUT = "{\"epoch_ms\":1288834974657,\"time_bits\":41,\"worker_bits\":10,"
            + "\"sequence_bits\":12}";

    private static final class Worker {
        String name;
        long epoch;
        long fromMs;
        long untilMs;
        long lastMs;
        boolean held;
    }

    private final Map<String, Long> next = new HashMap<>();
    private final Map<String, long[]> keys = new HashMap<>();
    final Map<Integer, Worker> workers = new HashMap<>();
    /** The cluster's time. */
    volatile long nowMs = 1_795_176_000_000L;
    volatile String layout = LAYOUT;

    @Override
    public synchronized void handle(FakeServer.Exchange exchange) throws IOException {
        if (exchange.target.startsWith("/api/workers")) {
            worker(exchange);
        } else {
            ids(exchange);
        }
    }

    synchronized void setNext(String tag, long id) {
        next.put(tag, id);
    }

    private void ids(FakeServer.Exchange exchange) throws IOException {
        String tag = exchange.target.substring("/api/segment/get/".length(),
                exchange.target.indexOf('?'));
        int count = exchange.askedFor();
        String key = exchange.headers.get("idempotency-key");
        if (key != null && tag.equals("trend")) {
            exchange.error(400, "bad_key");
            return;
        }
        long[] known = key == null ? null : keys.get(tag + " " + key);
        boolean asTexts = !exchange.target.contains("format=");
        if (known != null) {
            if (asTexts) {
                texts(exchange, known[0], count, "Idempotency-Replayed: true");
                return;
            }
            exchange.reply(200, known[0] + " " + known[1] + "\n", "Idempotency-Replayed: true");
            return;
        }
        long first = next.getOrDefault(tag, 1L);
        next.put(tag, first + count);
        if (key != null) {
            keys.put(tag + " " + key, new long[] {first, first + count - 1});
        }
        if (asTexts) {
            texts(exchange, first, count);
            return;
        }
        exchange.reply(200, first + " " + (first + count - 1) + "\n");
    }

    /** Of tags that all have the same shape. */
    private static void texts(FakeServer.Exchange exchange, long first, int count,
            String... headers) throws IOException {
        StringBuilder lines = new StringBuilder();
        for (long id = first; id < first + count; id++) {
            lines.append("INV-").append(id).append('\n');
        }
        exchange.reply(200, lines.toString(), headers);
    }

    private void worker(FakeServer.Exchange exchange) throws IOException {
        if (exchange.method.equals("POST")) {
            String name = text(exchange.body, "name");
            int id = 0;
            while (workers.containsKey(id) && !workers.get(id).name.equals(name)) {
                id++;
            }
            Worker worker = workers.computeIfAbsent(id, unused -> new Worker());
            worker.name = name;
            worker.epoch++;
            worker.fromMs = worker.held ? worker.untilMs : worker.lastMs;
            worker.held = true;
            worker.untilMs = Math.max(worker.fromMs, nowMs + number(exchange.body, "window_ms"));
            exchange.reply(201, show(id, worker));
            return;
        }
        String path = exchange.target.split("\\?")[0];
        int id = Integer.parseInt(path.substring(path.lastIndexOf('/') + 1));
        Worker worker = workers.get(id);
        boolean put = exchange.method.equals("PUT");
        long epoch = put ? number(exchange.body, "epoch") : Long.parseLong(exchange.option("epoch"));
        if (worker == null || worker.epoch != epoch) {
            exchange.error(worker == null ? 404 : 409, worker == null ? "unknown_worker" : "fenced");
        } else if (put) {
            worker.untilMs = Math.max(worker.untilMs, nowMs + number(exchange.body, "window_ms"));
            worker.lastMs = number(exchange.body, "last_timestamp_ms");
            exchange.reply(200, show(id, worker));
        } else {
            worker.lastMs = Long.parseLong(exchange.option("last_timestamp_ms"));
            worker.held = false;
            exchange.reply(204, "");
        }
    }

    synchronized boolean isHeld(int id) {
        return workers.get(id).held;
    }

    synchronized long lastMs(int id) {
        return workers.get(id).lastMs;
    }

    /** Somebody else takes the worker id. */
    synchronized void fence(int id) {
        Worker worker = workers.get(id);
        worker.epoch++;
        worker.fromMs = worker.untilMs;
        worker.name = "another";
    }

    private String show(int id, Worker worker) {
        return "{\"worker_id\":" + id + ",\"epoch\":" + worker.epoch + ",\"from_ms\":"
                + worker.fromMs + ",\"until_ms\":" + worker.untilMs + ",\"layout\":" + layout + "}";
    }

    private static String text(String json, String name) {
        int at = json.indexOf("\"" + name + "\":\"") + name.length() + 4;
        return json.substring(at, json.indexOf('"', at));
    }

    private static long number(String json, String name) {
        java.util.regex.Matcher matcher =
                java.util.regex.Pattern.compile("\"" + name + "\":([0-9]+)").matcher(json);
        return matcher.find() ? Long.parseLong(matcher.group(1)) : 0;
    }
}
