// What a source holds, and for how long: age, generation, steps; the second request; events.

import assert from "node:assert/strict";
import { test } from "node:test";
import { FakeClient, LeafdError } from "../lib/index.js";
import { answers, closes, hangs, refusal } from "./fake.js";
import { Stopwatch, clusterTest, failure, take, waitFor } from "./help.js";

const generations = (cluster, ...numbers) =>
    cluster.nodes.forEach((node, at) => (node.generation = numbers[at] ?? numbers[0]));

/** The node that was asked last. */
const used = (cluster) => cluster.log.at(-1).node;

clusterTest("a range is dropped at its age by itself", 1, async (cluster, open) => {
    const client = open({ maxAgeMs: 2000 });
    const [source, other] = [client.segment("order"), client.segment("other")];
    assert.deepEqual(await take(source, 3), [1n, 2n, 3n]);
    const before = performance.now(); // the second request is sent after this
    await other.next();
    await waitFor(() => client.stats().burnt === 97 + 99);
    assert.ok(performance.now() - before >= 1999);
    assert.equal(cluster.log.length, 2); // nobody asked for more
    assert.equal(await source.next(), 101n);
    assert.equal(client.stats().ids_segment, 5);
});

clusterTest("no id is of a range beyond its age, whatever the event loop does", 1,
    async (cluster, open) => {
        const client = open({ maxAgeMs: 1, minCount: 100 });
        const source = client.segment("order");
        const ids = await take(source, 5000);
        assert.equal(new Set(ids).size, 5000);
        // A range that came while the program did not let the event loop have its turn.
        await source.next();
        const end = performance.now() + 20;
        while (performance.now() < end);
        await new Promise((resolve) => setTimeout(resolve, 1));
        assert.equal(client.gauges().idsLeft.get("order"), 0);
        const { burnt, ids_segment: taken } = client.stats();
        assert.equal(BigInt(burnt + taken), cluster.tags.get("order") - 1n);
    });

clusterTest("held ranges of an older generation are dropped", 1, async (cluster, open) => {
    generations(cluster, 4);
    const client = open();
    const source = client.segment("order");
    await take(source, 3);
    generations(cluster, 5);
    assert.deepEqual(await source.nextRange(10), { first: 101n, last: 110n, increment: 1n });
    assert.equal(client.stats().burnt, 97);
    assert.equal(await source.next(), 111n);
    generations(cluster, undefined);
    await source.nextRange(10);
    assert.equal(client.stats().burnt, 97);
    for (const bad of ["x", "-1", "9223372036854775808"]) {
        generations(cluster, bad);
        assert.equal((await failure(() => source.nextRange(1))).code, "bad_answer");
    }
});

clusterTest("an answer of an older generation is asked anew elsewhere", 3,
    async (cluster, open) => {
        generations(cluster, 7);
        const client = open();
        const source = client.segment("order");
        await source.nextRange(10);
        used(cluster).generation = 6;
        const first = cluster.nodes.indexOf(used(cluster));
        assert.equal((await source.nextRange(10)).first, 21n);
        const asked = () => cluster.log.map(({ node }) =>
            (cluster.nodes.indexOf(node) - first + 3) % 3);
        assert.deepEqual(asked(), [0, 0, 1]);
        assert.equal(client.stats().burnt, 10);
        generations(cluster, 6);
        const error = await failure(() => source.nextRange(10, { deadlineMs: 2000 }));
        assert.equal(error.code, "unreachable");
        assert.match(error.message, /generation 6/);
        assert.deepEqual(asked().slice(3, 9), [1, 2, 0, 1, 2, 0]);
        assert.ok(cluster.log[6].request.at - cluster.log[5].request.at >= 10); // a round, a wait
        assert.equal(client.stats().ids_segment, 20);
    });

clusterTest("ids a step apart", 1, async (cluster, open) => {
    cluster.steps.set("order", 3n).set("invoice", 5n);
    const client = open();
    const source = client.segment("order");
    assert.deepEqual(await take(source, 500),
        Array.from({ length: 500 }, (_, n) => BigInt(3 * n + 1)));
    assert.deepEqual(cluster.log.slice(0, 2).map(({ request }) => request.target.split("?")[1]),
        ["count=100&format=range", "count=100&format=range&stepped=1"]);
    assert.ok(cluster.log.slice(1).every(({ request }) => request.options.stepped === "1"));
    const { first, last, increment } = await source.nextRange(4);
    assert.deepEqual([last - first, increment], [9n, 3n]);
    const strict = client.strict("invoice");
    assert.deepEqual(await strict.nextMany(2), [1n, 6n]);
    assert.equal(await strict.next(), 11n);
    cluster.nodes[0].faults = [answers(refusal(400, "stepped"))];
    assert.equal((await failure(() => source.nextRange(4))).code, "stepped");
});

clusterTest("a second node is asked while a caller waits for the first", 3,
    async (cluster, open) => {
        const client = open();
        await client.segment("order").nextRange(1); // which has no second request
        const slow = used(cluster);
        slow.always = hangs;
        const watch = new Stopwatch();
        assert.equal(await client.segment("order").next(), 102n);
        watch.checkBelow(5000);
        const { hedges, failovers } = client.stats();
        assert.deepEqual([hedges, failovers], [1, 1]);
        assert.notEqual(used(cluster), slow);
    });

for (const kind of ["strict", "texts"]) {
    clusterTest(`a second node is asked for ids by a key: ${kind}`, 3, async (cluster, open) => {
        const client = open();
        const source = client[kind]("invoice");
        await client.segment("order").nextRange(1); // which has no second request
        used(cluster).faults = [hangs];
        const watch = new Stopwatch();
        const got = await source.request(2);
        watch.checkBelow(5000);
        assert.ok(got.replayed);
        assert.deepEqual(got.texts ?? [`${got.first}`, `${got.last}`], ["1", "2"]);
        const keys = cluster.log.map(({ request }) => request.headers["idempotency-key"]);
        assert.ok(keys.length === 3 && keys[1] === keys[2]);
        const { hedges, failovers, ids_strict: ids } = client.stats();
        assert.deepEqual([hedges, failovers, ids], [1, 1, 2]);
    });
}

clusterTest("texts without a key have no second request, and one node has none", 3,
    async (cluster, open) => {
        const late = ({ answer, socket }) => setTimeout(() => socket.write(answer()), 300);
        const client = open({ connectMs: 50 });
        const texts = client.texts("order");
        await texts.next(); // by a key, which is refused
        cluster.faultAll(late);
        const before = client.stats().hedges;
        assert.equal(await texts.next(), "2");
        assert.equal(client.stats().hedges, before);
        const alone = open({ connectMs: 50, endpoints: cluster.urls[0] });
        cluster.nodes.forEach((node) => (node.always = late));
        await alone.segment("order").next();
        await alone.strict("invoice").next();
        assert.equal(alone.stats().hedges, 0);
    });

clusterTest("events", 3, async (cluster, open) => {
    const client = open();
    const told = [];
    client.on("event", (event) => {
        told.push(event);
        throw new Error("of the program");
    });
    process.on("warning", () => {});
    const source = client.segment("order");
    generations(cluster, 1);
    cluster.faultAll(closes);
    await source.next();
    const kinds = () => told.map(({ kind }) => kind);
    assert.deepEqual(kinds(), [...Array(3).fill("failover"), "refill_failed", "recovered"]);
    assert.deepEqual(told[3], { kind: "refill_failed", tag: "order", code: "unreachable" });
    told.length = 0;
    generations(cluster, 2);
    await source.nextRange(1);
    assert.deepEqual(told, [{ kind: "generation", tag: "order", ids: 99 }]);
});

clusterTest("gauges", 1, async (cluster, open) => {
    const client = open();
    const sources = [client.segment("order"), client.segment("order"), client.segment("other")];
    await Promise.all(sources.map((source) => source.next()));
    await client.snowflake("me").next();
    const { idsLeft, rangeAgeMs, windowEndMs } = client.gauges();
    assert.deepEqual([...idsLeft], [["order", 198], ["other", 99]]);
    assert.deepEqual([...rangeAgeMs.keys()], ["order", "other"]);
    assert.ok(windowEndMs.get("me") > Date.now());
    assert.match(client.statsText(), /^leafd_client_ids_left\{tag="order"\} 198$/m);
});

clusterTest("a closed source gives no ids, and its client goes on", 1, async (cluster, open) => {
    const client = open();
    const [strict, texts] = [client.strict("invoice"), client.texts("order")];
    assert.equal(await strict.next(), 1n);
    await strict.close();
    await texts.close();
    for (const call of [() => strict.next(), () => texts.next(), () => texts.decode("1")]) {
        assert.equal((await failure(call)).code, "closed");
    }
    assert.equal(await client.strict("invoice").next(), 2n);
});

test("the fake for programs' tests", async () => {
    const client = new FakeClient();
    client.setNext("order", 1000n);
    const source = client.segment("order");
    assert.deepEqual([await source.next(), source.tryNext()], [1000n, 1001n]);
    assert.deepEqual(await source.nextMany(2), [1002n, 1003n]);
    assert.deepEqual(await source.nextRange(3), { first: 1004n, last: 1006n, increment: 1n });
    client.fail("order", new LeafdError("unreachable", "none"), 2);
    for (let n = 0; n < 2; n++) {
        assert.equal((await failure(() => source.next())).code, "unreachable");
    }
    assert.equal(await client.segment("order").next(), 1007n);
    const strict = client.strict("invoice");
    const first = { first: 1n, last: 2n, increment: 1n, replayed: false };
    assert.deepEqual(await strict.request(2, { key: "mine" }), first);
    assert.deepEqual(await strict.request(2, { key: "mine" }), { ...first, replayed: true });
    assert.equal(await strict.next(), 3n);
    client.fail("invoice", new LeafdError("unreachable", "none"));
    assert.equal((await failure(() => strict.next({ key: "this" }))).key, "this");
    const snowflake = client.snowflake();
    assert.equal(snowflake.decode(await snowflake.next()).sequence, 1);
    await source.close();
    assert.equal((await failure(() => source.next())).code, "closed");
});
