// Segment and strict sources against a cluster that misbehaves.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { Client } from "../lib/index.js";
import { closes, halves, hangs, loses } from "./fake.js";
import { Stopwatch, clusterTest, failure, range, take, waitFor } from "./help.js";

function counts(cluster) {
    return cluster.log.map(({ request }) => Number(request.options.count));
}

clusterTest("ids come from a range, and the next one is asked for at the half", 1,
    async (cluster, open) => {
        const source = open().segment("order");
        assert.deepEqual(await take(source, 50), range(1, 50));
        assert.deepEqual(counts(cluster), [100]);
        assert.equal(await source.next(), 51n);
        await waitFor(() => cluster.log.length === 2);
        assert.equal(cluster.log[0].request.target,
            "/api/segment/get/order?count=100&format=range");
        assert.deepEqual(counts(cluster), [100, 200]);
        assert.deepEqual(await take(source, 249), range(52, 300));
    });

clusterTest("a thousand sources that begin together", 1, async (cluster, open) => {
    const client = open({ connectMs: 60000, attemptMs: 600000, deadlineMs: 600000 });
    const tags = Array.from({ length: 1000 }, (_, n) => `tag${n}`);
    tags.forEach((tag) => cluster.tags.set(tag, 1n));
    const ids = await Promise.all(tags.map((tag) => client.segment(tag).next()));
    assert.deepEqual(ids, tags.map(() => 1n));
    assert.ok(cluster.nodes[0].connections <= 32, `${cluster.nodes[0].connections} connections`);
    assert.equal(client.stats().requests, 1000);
});

clusterTest("a program that was busy for longer than a connection may take", 1,
    async (cluster, open) => {
        const client = open({ connectMs: 20 });
        const id = client.segment("order").next();
        const end = performance.now() + 200;
        setImmediate(() => {
            while (performance.now() < end) {
                // as a program that parses a large file
            }
        });
        assert.equal(await id, 1n);
        assert.equal(client.stats().requests, 1);
    });

clusterTest("sizes stay within their bounds", 1, async (cluster, open) => {
    const source = open({ minCount: 7, maxCount: 30, coverMs: 60000 }).segment("order");
    assert.deepEqual(await take(source, 500), range(1, 500));
    assert.deepEqual(counts(cluster).slice(0, 4), [7, 14, 28, 30]);
    assert.ok(counts(cluster).slice(4).every((count) => count === 30));
});

clusterTest("answers of many ranges", 1, async (cluster, open) => {
    cluster.split = 7;
    const ids = await take(open().segment("order"), 1000);
    assert.ok(ids.every((id, n) => n === 0 || id > ids[n - 1]));
    assert.ok(ids.at(-1) > 1000n);
});

clusterTest("many at once, one range, and for await", 1, async (cluster, open) => {
    const client = open();
    const source = client.segment("order");
    assert.deepEqual(await source.nextMany(1000), range(1, 1000));
    const { first, last } = await source.nextRange(10);
    assert.equal(last - first, 9n);
    assert.ok(cluster.log.some(({ request }) => request.options.contiguous === "1"));
    const more = [];
    for await (const id of source) {
        more.push(id);
        if (more.length === 3) {
            break;
        }
    }
    assert.equal(new Set(more).size, 3);
    for (const count of [0, 100001, "1", 1n, 1.5]) {
        for (const call of [(n) => source.nextMany(n), (n) => source.nextRange(n),
            (n) => client.strict("invoice").request(n)]) {
            assert.equal((await failure(() => call(count))).code, "bad_setting");
        }
    }
    for (const options of [7, { deadline: 5 }, { deadlineMs: 0 }, { deadlineMs: 1e9 }]) {
        assert.equal((await failure(() => source.nextMany(5000, options))).code, "bad_setting");
    }
});

clusterTest("tryNext never waits, and asks for ids", 1, async (cluster, open) => {
    const source = open().segment("order");
    assert.equal(source.tryNext(), undefined);
    assert.equal(source.tryNext(), undefined);
    let id;
    await waitFor(() => (id = source.tryNext()) !== undefined);
    assert.equal(id, 1n);
    assert.equal(cluster.log.length, 1);
});

clusterTest("one request at a time, and unique ids for many tasks", 1, async (cluster, open) => {
    let [underWay, most] = [0, 0];
    cluster.nodes[0].always = ({ answer, socket }) => {
        most = Math.max(most, ++underWay);
        const data = answer();
        setTimeout(() => {
            underWay--;
            socket.write(data);
        }, 2);
    };
    const client = open({ maxCount: 2000 });
    const source = client.segment("order");
    const got = await Promise.all(Array.from({ length: 50 }, () => take(source, 800)));
    assert.ok(got.every((mine) => mine.every((id, n) => n === 0 || id > mine[n - 1])));
    assert.deepEqual(got.flat().sort((a, b) => Number(a - b)), range(1, 40000));
    assert.equal(most, 1);
    assert.equal(client.stats().ids_segment, 40000);
});

clusterTest("the next node is asked when one fails", 3, async (cluster, open) => {
    const client = open();
    const source = client.segment("order");
    await source.next();
    const first = cluster.log[0].node;
    first.always = closes;
    assert.equal(new Set(await take(source, 1000)).size, 1000);
    const { failovers, retries, errors, hedges } = client.stats();
    assert.equal(errors, 0);
    if (hedges === 0) { // which a machine with much to do may bring about
        assert.ok(cluster.log.slice(3).every(({ node }) => node !== first));
        assert.deepEqual([failovers, retries], [1, 1]);
    }
});

clusterTest("ids go on while no node answers", 3, async (cluster, open) => {
    const source = open().segment("order");
    await source.next();
    cluster.nodes.forEach((node) => (node.always = closes));
    assert.deepEqual(await take(source, 99), range(2, 100));
    assert.equal((await failure(() => source.next({ deadlineMs: 100 }))).code, "unreachable");
    cluster.nodes.forEach((node) => (node.always = undefined));
    assert.equal(new Set(await take(source, 500)).size, 500);
});

clusterTest("a connection that was closed while idle is no failure", 1, async (cluster, open) => {
    const client = open();
    const strict = client.strict("invoice");
    assert.equal(await strict.next(), 1n);
    assert.equal(await strict.next(), 2n);
    assert.equal(cluster.nodes[0].connections, 1);
    cluster.nodes[0].dropConnections();
    assert.equal(await strict.next(), 3n);
    // Also where the end comes together with the request.
    cluster.nodes[0].faults = [closes];
    assert.equal(await strict.next(), 4n);
    const { retries, failovers, requests } = client.stats();
    assert.deepEqual([retries, failovers, requests], [0, 0, 4]);
});

for (const [what, fault] of Object.entries({ loses, halves, hangs })) {
    clusterTest(`a strict answer that was lost comes again: ${what}`, 3, async (cluster, open) => {
        const attemptMs = what === "hangs" ? 1000 : 20000;
        const strict = open({ attemptMs, deadlineMs: 60000 }).strict("invoice");
        cluster.faultAll(fault);
        assert.deepEqual(await strict.request(5), { first: 1n, last: 5n, increment: 1n,
            replayed: true });
        const keys = cluster.log.map(({ request }) => request.headers["idempotency-key"]);
        assert.ok(keys.length >= 3);
        assert.ok(new Set(keys).size === 1 && /^[a-z2-7]{26}$/.test(keys[0]));
        assert.equal(await strict.next(), 6n);
    });
}

clusterTest("a strict call is asked again by its key", 1, async (cluster, open) => {
    cluster.nodes[0].always = loses;
    const strict = open().strict("invoice");
    const error = await failure(() => strict.nextMany(3, { deadlineMs: 1000 }));
    assert.equal(error.code, "unreachable");
    cluster.nodes[0].always = undefined;
    assert.deepEqual(await strict.request(3, { key: error.key }),
        { first: 1n, last: 3n, increment: 1n, replayed: true });
    assert.equal(await strict.next({ key: "mine" }), 4n);
    assert.equal(await strict.next({ key: "mine" }), 4n);
    assert.equal((await failure(() => strict.nextMany(2, { key: "mine" }))).code,
        "idempotency_conflict");
    for (const key of ["", "x".repeat(129), "é", "a\nb", " a", 7]) {
        assert.equal((await failure(() => strict.next({ key }))).code, "bad_setting");
    }
    assert.equal(await strict.next({ key: "x".repeat(128) }), 5n);
});

clusterTest("closing ends calls and burns", 1, async (cluster, open) => {
    const client = open();
    const kept = client.segment("order");
    await kept.next();
    cluster.nodes[0].always = hangs;
    const calls = [client.segment("other").next(), client.strict("invoice").next(),
        kept.nextRange(3), client.snowflake().next()].map((call) => failure(() => call));
    await waitFor(() => cluster.log.length === 5);
    const watch = new Stopwatch();
    await Promise.all([client.close(), client.close()]);
    const codes = (await Promise.all(calls)).map((error) => error.code);
    assert.deepEqual(codes, Array(4).fill("closed"));
    watch.checkBelow(1000);
    for (const call of [() => kept.next(), () => kept.tryNext(), () => kept.nextRange(1),
        () => client.segment("a"), () => client.strict("a"), () => client.snowflake()]) {
        assert.equal((await failure(call)).code, "closed");
    }
    const { burnt, ids_segment: ids } = client.stats();
    assert.deepEqual([burnt, ids], [99, 1]);
    const text = client.statsText();
    assert.match(text, /^leafd_client_burnt_total 99$/m);
    assert.equal(text.split("\n").length, 37);
});

clusterTest("what goes on in the background keeps no process alive", 1, async (cluster) => {
    const program = `
        import { Client } from "${new URL("../lib/index.js", import.meta.url)}";
        const client = new Client({ endpoints: "${cluster.urls[0]}", windowMs: 86400000 });
        await client.segment("order").next();
        await client.snowflake().next();
        console.log("done");`;
    const text = await new Promise((resolve, reject) => execFile(process.execPath,
        ["--input-type=module", "-e", program], { timeout: 60000 },
        (error, out) => (error ? reject(error) : resolve(out))));
    assert.equal(text, "done\n");
});

clusterTest("the example of the README", 2, async (cluster) => {
    const text = readFileSync(new URL("../README.md", import.meta.url), "utf8");
    // Whole programs; the parts of one are test/recipes.js's.
    const examples = [...text.matchAll(/```js\n(import .*?)```/gs)].map((match) => match[1]);
    assert.equal(examples.length, 2);
    cluster.shapes.set("invoice", "INV-");
    for (const example of examples) {
        const program = example.replaceAll("http://127.0.0.1:8081", cluster.urls[0])
            .replaceAll("http://127.0.0.1:8082", cluster.urls[1]);
        const out = await new Promise((resolve, reject) => execFile(process.execPath,
            ["--input-type=module", "-e", program], { timeout: 60000 },
            (error, said) => (error ? reject(error) : resolve(said))));
        assert.match(out, /^[0-9]+n?\n(INV-1\n)?$/);
    }
});
