// Nodes that are learnt from a node, and which of them is asked.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Discovery } from "../lib/discovery.js";
import { Door } from "../lib/door.js";
import { addressOf } from "../lib/settings.js";
import { answers, refusal, reply } from "./fake.js";
import { clusterTest, failure, take, waitFor } from "./help.js";

/** Nodes 0 and 1 are of zone a, 2 and 3 of zone b; rows: what the listing has of each */
function zones(cluster) {
    const rows = cluster.nodes.map(({ url }, at) => ({ id: at + 1,
        http_address: url.slice("http://".length), zone: at < 2 ? "a" : "b", weight: 100,
        state: "ready", snowflake: true }));
    cluster.nodes.forEach((node) => {
        node.always = ({ request, answer, socket }) => socket.write(request.path === "/api/nodes"
            ? reply(200, { self: cluster.nodes.indexOf(node) + 1, nodes: rows }) : answer());
    });
    return rows;
}

const asked = (cluster, node, path) => cluster.log.filter((one) =>
    one.node === cluster.nodes[node] && one.request.path.includes(path)).length;

test("a record of an SRV name that is listed is one node, of its tier", () => {
    const srv = addressOf("http+srv://_leafd._tcp.example");
    const door = new Door([srv], () => {});
    assert.equal(door.known[0].srv, "_leafd._tcp.example");
    door.found(srv.url, ["a.example:1", "b.example:2"]);
    door.list([3, 2, 1].map((tier) => ({ id: tier, tier, weight: 1, proven: tier > 1,
        address: addressOf(`http://${"cba"[tier - 1]}.example:${4 - tier}`) })));
    assert.deepEqual(door.known.map(({ url }) => url).sort(),
        ["http://a.example:1", "http://b.example:2", "http://c.example:3"]);
    assert.deepEqual(door.route(door.nodes[0]).length, door.nodes.length);
    assert.deepEqual(door.better.map(({ url }) => url)[0], "http://c.example:3");
    assert.equal(door.nodes.length, 2, "the third is not proven");
    for (const bad of ["http+srv://a:80", "http+srv://", "srv://a", "http+srv://a/b"]) {
        assert.equal(addressOf(bad), undefined);
    }
});

clusterTest("a second request stays in the zone", 4, async (cluster, open) => {
    zones(cluster)[1].zone = "b"; // node 0 is alone in its zone
    const client = open({ endpoints: cluster.urls[0], zone: "a", connectMs: 50 });
    const works = cluster.nodes[0].always;
    await client.strict("invoice").next();
    cluster.nodes[0].always = (one) => setTimeout(() => works(one), 300); // within an attempt's time
    await client.strict("invoice").next();
    assert.equal(asked(cluster, 0, "/get/"), 2);
    assert.equal(client.stats().hedges, 0);
});

test("a second request passes nodes of another cluster", () => {
    const door = new Door([1, 2, 3].map((n) => addressOf(`http://10.0.0.${n}`)), () => {});
    const [first, second, third] = door.nodes;
    door.foreign.set(second.url, "another");
    assert.equal(door.beside(first), third);
    assert.equal(door.beside(third), first);
    assert.equal(door.beside(second), third);
    door.foreign.set(third.url, "another");
    assert.equal(door.beside(first), undefined);
});

test("the oldest node of another cluster is forgotten first", async () => {
    const nodes = Array.from({ length: 66 }, (_, n) => addressOf(`http://10.0.0.${n}`));
    const [own, ...others] = nodes;
    const urls = others.map(({ url }) => url);
    // Once it has the listing of the first, the others are to be proven, one by one.
    const door = { current: own, route: () => [own], list() {}, moveTo() {}, names: [], known: [],
        better: [...others.slice(0, 64), others[0], others[64]], row: (node) => ({ id: 2, address: node }) };
    const listing = (node) => ({ status: 200, headers: new Map(), body: Buffer.from(JSON.stringify(
        { self: 1, uid: node === own ? "own" : "another", nodes: [] })) });
    const told = [];
    const core = { settings: { attemptMs: 60000, connectMs: 60000 }, keepNodes() {},
        wire: { exchange: (node) => listing(node) }, tell: (event) => told.push(event),
        pause: (ms, background, ended) => ended };
    const discovery = new Discovery(core, [door]);
    const journey = { rounds: 1, deadline: () => Infinity };
    await discovery.look(journey, false);
    assert.deepEqual([...door.foreign.keys()], [...urls.slice(2, 64), urls[0], urls[64]]);
    assert.equal(told.length, 1);
});

clusterTest("a paused tag is told at once, and held ids are dropped", 1, async (cluster, open) => {
    const client = open({ minCount: 10 });
    const source = client.segment("order");
    await take(source, 1);
    cluster.nodes[0].always = answers(refusal(423, "paused", "Retry-After: 1"));
    await take(source, 5); // beyond the half: more are asked for
    await waitFor(() => client.stats().burnt === 4);
    const error = await failure(() => source.next());
    assert.deepEqual([error.code, error.status, error.retryable], ["paused", 423, true]);
    assert.equal(cluster.log.length, 2);
    assert.equal((await failure(() => client.strict("invoice").next())).code, "paused");
    assert.equal(cluster.log.length, 3);
});
