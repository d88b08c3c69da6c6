// Snowflake sources: windows, clocks, names, and a cluster that misbehaves.

import assert from "node:assert/strict";
import { decode as takeApart } from "../lib/api.js";
import { Cluster, LAYOUT, answers, closes, halves, hangs, loses, refusal } from "./fake.js";
import { Stopwatch, clusterTest, failure, take, waitFor } from "./help.js";

const decode = (id) => takeApart({ epochMs: LAYOUT.epoch_ms, timeBits: 41, workerBits: 10,
    sequenceBits: 12 }, id);

/** The wall clock of a client and of the cluster, moved by hand. */
function clockOf(cluster) {
    const clock = { ms: Date.now() };
    cluster.nowMs = () => clock.ms;
    clock.hooks = { wallMs: () => clock.ms };
    return clock;
}

clusterTest("ids are made here, and the worker id is given back", 1, async (cluster, open) => {
    const client = open({ windowMs: 600000 });
    const source = client.snowflake("billing-1");
    assert.equal((await failure(() => client.decode(1n))).code, "layout_unknown");
    const begin = Date.now();
    const ids = await source.nextMany(20000);
    assert.ok(ids.every((id, n) => n === 0 || id > ids[n - 1]));
    assert.equal(cluster.log.length, 1);
    assert.equal(cluster.log[0].request.body, '{"name":"billing-1","window_ms":600000}');
    assert.equal(cluster.log[0].request.headers["content-type"], "application/json");
    for (const id of ids) {
        const { timestampMs, workerId } = client.decode(id);
        assert.ok(client.at(timestampMs) <= id && client.at(timestampMs + 1) > id);
        assert.ok(workerId === 0 && timestampMs >= begin && timestampMs <= Date.now());
    }
    assert.deepEqual(client.decode(String(ids[0])), source.decode(ids[0]));
    for (const id of [-1n, 1n << 63n, 7, "x", null]) {
        assert.equal((await failure(() => client.decode(id))).code, "bad_setting");
    }
    assert.equal(client.stats().ids_snowflake, 20000);
    await client.close();
    assert.deepEqual(cluster.asked("DELETE")[0].options,
        { epoch: "1", last_timestamp_ms: String(decode(ids.at(-1)).timestampMs) });
    assert.equal(client.stats().ids_snowflake, 20000);
    assert.equal((await failure(() => source.next())).code, "closed");
    assert.equal((await failure(() => source.tryNext())).code, "closed");
});

clusterTest("names made here differ, and tasks share a source", 1, async (cluster, open) => {
    const client = open();
    const sources = [client.snowflake(), client.snowflake()];
    const got = await Promise.all(Array.from({ length: 20 }, (_, n) => take(sources[n % 2], 500)));
    assert.equal(new Set(got.flat()).size, 10000);
    assert.equal(cluster.workers.size, 2);
    assert.ok([...cluster.workers.keys()].every((name) => /^[!-~]{1,128}$/.test(name)));
});

clusterTest("tryNext acquires in the background", 1, async (cluster, open) => {
    const source = open().snowflake();
    assert.equal(source.tryNext(), undefined);
    await waitFor(() => source.tryNext() !== undefined);
    assert.equal(cluster.log.length, 1);
});

clusterTest("it renews at a third, with the last time used", 1, async (cluster, open) => {
    const client = open({ windowMs: 3000 });
    const source = client.snowflake();
    const watch = new Stopwatch();
    const { timestampMs } = decode(await source.next());
    await waitFor(() => client.stats().renewals >= 2);
    assert.ok(watch.tookMs() > 1900);
    watch.checkBelow(6000);
    assert.deepEqual(JSON.parse(cluster.asked("PUT")[0].body),
        { epoch: 1, window_ms: 3000, last_timestamp_ms: timestampMs });
});

clusterTest("ids go on to the window's end without a node, and then by a renewal", 1,
    async (cluster, open) => {
        const source = open({ windowMs: 1000 }).snowflake();
        await source.next();
        cluster.nodes[0].always = closes;
        const { until } = [...cluster.workers.values()][0];
        let asked;
        let watch;
        const error = await failure(async () => {
            for (;;) {
                watch = new Stopwatch();
                asked = Date.now();
                await source.next({ deadlineMs: 300 });
                await new Promise((resolve) => setImmediate(resolve));
            }
        });
        assert.ok(asked + watch.waitedMs() > until - 20, "no call failed within the window");
        assert.ok(error.code === "window_over" && error.retryable);
        assert.ok(error.message.includes(String(until)));
        cluster.nodes[0].always = undefined;
        await source.next();
        assert.equal(cluster.asked("POST").length, 1);
    });

clusterTest("a process that slept past its window renews first", 1, async (cluster, open) => {
    const clock = clockOf(cluster);
    const source = open({}, clock.hooks).snowflake();
    await source.next();
    clock.ms += 3600000;
    assert.equal(decode(await source.next()).timestampMs, clock.ms);
    assert.deepEqual(cluster.log.map(({ request }) => request.method), ["POST", "PUT"]);
});

for (const [code, status] of [["fenced", 409], ["unknown_worker", 404]]) {
    for (const name of [undefined, "billing-1"]) {
        clusterTest(`${code}, and then another worker id (${name})`, 1, async (cluster, open) => {
            const clock = clockOf(cluster);
            const source = open({}, clock.hooks).snowflake(name);
            await source.next();
            const first = [...cluster.workers.keys()];
            cluster.nodes[0].faults = [answers(refusal(status, code))];
            clock.ms += 3600000;
            const error = await failure(() => source.next());
            assert.deepEqual([error.code, error.retryable], ["fenced", true]);
            assert.equal(decode(await source.next()).timestampMs, clock.ms);
            assert.equal(cluster.workers.size === first.length, name !== undefined);
        });
    }
}

clusterTest("an error of the renewal goes to who waits", 1, async (cluster, open) => {
    const clock = clockOf(cluster);
    const source = open({}, clock.hooks).snowflake();
    await source.next();
    cluster.nodes[0].faults = [answers(refusal(403, "forbidden"))];
    clock.ms += 3600000;
    assert.equal((await failure(() => source.next())).code, "forbidden");
    assert.equal(decode(await source.next()).timestampMs, clock.ms);
});

for (const [code, status] of [["no_worker_id", 409], ["share", 429], ["unauthorized", 401]]) {
    clusterTest(`an acquire that is refused: ${code}`, 1, async (cluster, open) => {
        cluster.nodes[0].faults = [answers(refusal(status, code))];
        const source = open().snowflake();
        const error = await failure(() => source.next());
        assert.deepEqual([error.code, error.status], [code, status]);
        await source.next();
    });
}

for (const [what, fault] of Object.entries({ loses, halves, hangs })) {
    // Under the same name the next window would begin behind the lost one's end.
    clusterTest(`an acquire whose answer was lost: ${what}`, 1, async (cluster, open) => {
        cluster.nodes[0].faults = [fault];
        const begin = performance.now();
        await open({ attemptMs: 2000 }).snowflake().next();
        assert.ok(performance.now() - begin < 15000);
        assert.equal(cluster.workers.size, 2);
    });
}

clusterTest("a window that begins later is waited for", 1, async (cluster, open) => {
    const begins = Date.now() + 1500;
    cluster.workers.set("billing-1", { id: 0, epoch: 1, until: begins });
    const client = open();
    const source = client.snowflake("billing-1");
    assert.equal((await failure(() => source.next({ deadlineMs: 500 }))).code, "window_over");
    assert.ok(decode(await source.next()).timestampMs > begins);
    assert.equal(client.stats().clock_waits, 2);
});

clusterTest("nodes that do not know the layout", 3, async (cluster, open) => {
    cluster.nodes[0].layout = cluster.nodes[1].layout = null;
    await open({ adminEndpoints: cluster.urls }).snowflake().next();
    const methods = cluster.log.map(({ request }) => request.method).join(" ");
    assert.match(methods, /^POST( PUT)*$/);
    assert.equal(cluster.log.at(-1).node, cluster.nodes[2]);
    assert.equal(cluster.workers.size, 1);
});

clusterTest("no node knows the layout", 3, async (cluster, open) => {
    cluster.nodes.forEach((node) => (node.layout = null));
    const source = open().snowflake();
    assert.equal((await failure(() => source.next())).code, "layout_unknown");
    assert.deepEqual([...cluster.workers.values()].map((row) => row.released), [true]);
});

clusterTest("a clock that is ahead by more than a window asks for few renewals", 1,
    async (cluster, open) => {
        const clock = clockOf(cluster);
        const source = open({ windowMs: 60000 }, clock.hooks).snowflake("me");
        await source.next();
        const nowMs = cluster.nowMs();
        cluster.nowMs = () => nowMs;
        clock.ms += 3600000;
        const error = await failure(() => source.next({ deadlineMs: 500 }));
        assert.equal(error.code, "window_over");
        assert.equal(cluster.asked("PUT").length, 1);
        clock.ms -= 3600000;
        await source.next();
    });

clusterTest("a clock that goes back a little is waited for", 1, async (cluster, open) => {
    const clock = clockOf(cluster);
    const client = open({}, clock.hooks);
    const told = [];
    client.on("event", (event) => told.push(event));
    const source = client.snowflake("me");
    const first = await source.next();
    assert.deepEqual(told, []);
    clock.ms -= 4;
    assert.equal((await failure(() => source.next({ deadlineMs: 50 }))).code, "window_over");
    assert.deepEqual(told, []);
    clock.ms += 4;
    assert.equal(await source.next(), first + 1n);
    assert.equal(client.stats().clock_waits, 1);
});

clusterTest("a clock that goes back far", 1, async (cluster, open) => {
    const clock = clockOf(cluster);
    const client = open({}, clock.hooks);
    const told = [];
    client.on("event", (event) => told.push(event));
    const source = client.snowflake("me");
    const first = await source.next();
    clock.ms -= 10000;
    for (let left = 4095 - decode(first).sequence, at = 1n; left > 0; left--, at++) {
        assert.equal(await source.next(), first + at);
    }
    const watch = new Stopwatch();
    assert.equal((await failure(() => source.next({ deadlineMs: 200 }))).code, "window_over");
    watch.checkBelow(5000);
    assert.deepEqual(told, [{ kind: "clock_back", name: "me", ms: 10000 }]);
    clock.ms += 10001;
    assert.deepEqual(decode(await source.next()),
        { timestampMs: clock.ms, workerId: 0, sequence: 0 });
});

clusterTest("admin endpoints are asked for worker ids", 1, async (cluster, open) => {
    const other = await Cluster.start(1);
    const client = open({ adminEndpoints: other.urls });
    await client.snowflake().next();
    await client.segment("order").next();
    await client.close();
    assert.deepEqual(other.log.map(({ request }) => request.method), ["POST", "DELETE"]);
    assert.deepEqual(cluster.log.map(({ request }) => request.method), ["GET"]);
    await other.stop();
});

clusterTest("closing while it waits for a window", 1, async (cluster, open) => {
    cluster.workers.set("billing-1", { id: 0, epoch: 1, until: Date.now() + 5000 });
    const from = String([...cluster.workers.values()][0].until);
    const client = open();
    const call = failure(() => client.snowflake("billing-1").next());
    await waitFor(() => client.stats().clock_waits === 1);
    await client.close();
    assert.equal((await call).code, "closed");
    // Nothing was used: all of the window is given back.
    assert.equal(cluster.asked("DELETE")[0].options.last_timestamp_ms, from);
});

clusterTest("two closes at once: the worker id is given back", 1, async (cluster, open) => {
    for (const alone of [false, true]) {
        const client = open();
        const source = client.snowflake();
        await source.next();
        let go;
        const asked = new Promise((resolve) => {
            cluster.nodes[0].faults = [({ answer, socket }) => {
                go = () => socket.write(answer());
                resolve();
            }];
        });
        const first = alone ? source.close() : client.close();
        await asked;
        if (!alone) {
            assert.equal((await failure(() => client.snowflake())).code, "closed");
        }
        const second = client.close();
        setImmediate(go);
        await Promise.all([first, second]);
        assert.ok([...cluster.workers.values()].every((row) => row.released));
        assert.equal(cluster.asked("DELETE").length, alone ? 2 : 1);
    }
});

clusterTest("a source takes ids apart as its client does", 1, async (cluster, open) => {
    const source = open().snowflake();
    assert.equal((await failure(async () => source.decode(1n))).code, "layout_unknown");
    const id = await source.next();
    assert.deepEqual(source.decode(String(id)), source.decode(id));
    assert.equal((await failure(async () => source.decode(1))).code, "bad_setting");
});
