// What a source holds, and for how long: age, generation; events.

import assert from "node:assert/strict";
import { test } from "node:test";
import { FakeClient, LeafdError } from "../lib/index.js";
import { closes } from "./fake.js";
import { clusterTest, failure, take, waitFor } from "./help.js";

const generations = (cluster, ...numbers) =>
    cluster.nodes.forEach((node, at) => (node.generation = numbers[at] ?? numbers[0]));

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
