// What is tried again, what is not, and what is waited for in between.

import assert from "node:assert/strict";
import dns from "node:dns/promises";
import { syncBuiltinESMExports } from "node:module";
import { answers, closes, ends, halves, loses, refusal, reply } from "./fake.js";
import { Stopwatch, clusterTest, failure, take, waitFor } from "./help.js";

clusterTest("a name is looked at again after 30 s", 1, async ({ nodes: [node] }, open) => {
    const real = { lookup: dns.lookup, now: performance.now };
    const lookFor = (lookup) => {
        dns.lookup = lookup;
        syncBuiltinESMExports();
    };
    let ips = ["127.0.0.2", "127.0.0.1"]; // nobody listens at others than 127.0.0.1
    let [looks, laterMs] = [0, 0];
    lookFor(async () => {
        looks++;
        return ips.map((address) => ({ address, family: 4 }));
    });
    performance.now = () => real.now.call(performance) + laterMs;
    try {
        const { port } = new URL(node.url);
        const source = open({ endpoints: `http://leafd.test:${port}` }).strict("invoice");
        assert.equal(await source.next(), 1n);
        ips = ["127.0.0.3"];
        const before = looks;
        assert.equal(await source.next(), 2n);
        assert.equal(looks, before);
        laterMs = 30000;
        assert.equal(await source.next(), 3n); // which does not wait for the new ones
        await waitFor(() => looks > before);
        await waitFor(async () => {
            const error = await failure(() => source.next({ deadlineMs: 300 }));
            assert.equal(error.code, "unreachable");
            const open = await new Promise((resolve) => {
                node.server.getConnections((_, count) => resolve(count));
            });
            return error.message.includes("(127.0.0.3)") && open === 0; // what was idle is closed
        });
        ips = ["127.0.0.1"];
        assert.equal(await source.next(), 4n);
        assert.equal(node.cluster.log.at(-1).request.headers.host, `leafd.test:${port}`);
    } finally {
        lookFor(real.lookup);
        performance.now = real.now;
    }
});

const RETRIED = { closes, loses, halves, "503": ends(refusal(503, "no_leader")),
    garbage: ends("garbage\r\n\r\n"), "no length": ends("HTTP/1.1 200 OK\r\n\r\n1 100\n"),
    "an end within the head": ends("HTTP/1.1 200 OK\r\nContent-Le"), "no bytes": ends("") };
for (const [what, fault] of Object.entries(RETRIED)) {
    clusterTest(`tried again: ${what}`, 1, async (cluster, open) => {
        cluster.nodes[0].faults = [fault, fault];
        const ids = await take(open({ attemptMs: 1000 }).segment("order"), 100);
        assert.equal(new Set(ids).size, 100);
        assert.ok(cluster.log.length >= 3);
    });
}

const FINAL = [[reply(200, "1 x\n"), "bad_answer", 200],
    [reply(200, "1 99\n"), "bad_answer", 200],
    [reply(302, "", "Location: http://127.0.0.1:1/"), "bad_answer", 302],
    [reply(500, "<html>"), "bad_answer", 500],
    [reply(200, "x".repeat((1 << 20) + 1)), "bad_answer", 200],
    [refusal(404, "unknown_tag"), "unknown_tag", 404],
    [refusal(401, "unauthorized"), "unauthorized", 401],
    [refusal(409, "conflict"), "conflict", 409], [refusal(429, "share"), "share", 429],
    [refusal(507, "state_full"), "state_full", 507]];
for (const [data, code, status] of FINAL) {
    clusterTest(`not tried again, and forgotten after a second: ${code} ${status}`,
        3, async (cluster, open) => {
            cluster.nodes.forEach((node) => (node.always = answers(data)));
            const source = open().segment("order");
            const first = new Stopwatch();
            for (let n = 0; n < 3; n++) {
                const error = await failure(() => source.next());
                assert.deepEqual([error.code, error.status], [code, status]);
            }
            const asked = cluster.log.length;
            assert.ok(asked <= 1 + first.tookMs() / 1000, "one within a second");
            cluster.nodes.forEach((node) => (node.always = undefined));
            const watch = new Stopwatch();
            await waitFor(() => source.tryNext() !== undefined);
            watch.checkBelow(3000);
            assert.equal(cluster.log.length, asked + 1);
            const [last, again] = cluster.log.slice(-2);
            const left = code === "bad_answer" && status >= 300; // it is no leafd
            assert.equal(again.node === last.node, !left);
            assert.ok(again.request.at - last.request.at > 900);
        });
}

clusterTest("a quota is waited for", 3, async (cluster, open) => {
    cluster.faultAll(answers(refusal(429, "quota", "Retry-After: 1")));
    assert.equal(await open().segment("order").next(), 1n);
    const [one, two] = cluster.log;
    assert.ok(one.node === two.node && two.request.at - one.request.at >= 990);
});
