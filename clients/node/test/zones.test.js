// Nodes that are learnt from a node, and which of them is asked.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Discovery } from "../lib/discovery.js";
import { Door } from "../lib/door.js";
import { addressOf } from "../lib/settings.js";
import { answers, closes, refusal, reply } from "./fake.js";
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

/** The number of the node that gives the client an id. */
async function used(cluster, client) {
    await client.segment("order").nextRange(1); // which has no second request
    return cluster.nodes.indexOf(cluster.log.findLast(({ request }) =>
        request.path.includes("/get/")).node);
}

const asked = (cluster, node, path) => cluster.log.filter((one) =>
    one.node === cluster.nodes[node] && one.request.path.includes(path)).length;

clusterTest("its own zone is asked from the first call on", 4, async (cluster, open) => {
    zones(cluster);
    const seen = new Set();
    for (let turn = 0; turn < 20; turn++) {
        const client = open({ endpoints: cluster.urls.slice(0, 2), zone: "b" });
        const node = await used(cluster, client);
        for (let n = 0; n < 5; n++) {
            assert.equal(await used(cluster, client), node);
        }
        seen.add(node);
        assert.equal(client.stats().requests, 6);
        assert.equal(client.stats().failovers, 0);
    }
    assert.deepEqual([...seen].sort(), [2, 3]);
});

clusterTest("it begins by weight", 4, async (cluster, open) => {
    const rows = zones(cluster);
    rows[0].weight = 1000;
    rows[1].weight = 1;
    rows[2].weight = 0;
    const times = [0, 0, 0, 0];
    for (let turn = 0; turn < 20; turn++) {
        times[await used(cluster, open({ zone: "a" }))]++;
    }
    assert.ok(times[0] > times[1], `${times}`);
    assert.equal(times[2] + times[3], 0);
});

clusterTest("another zone is asked once its own is gone, and it moves back", 4,
    async (cluster, open) => {
        const rows = zones(cluster);
        const client = open({ zone: "a" }); // none of whose nodes has to prove itself
        const events = [];
        client.on("event", ({ kind, from, to }) => events.push([kind, from, to]));
        const works = cluster.nodes.map(({ always }) => always);
        const first = await used(cluster, client);
        cluster.nodes[first].always = closes;
        assert.equal(await used(cluster, client), 1 - first);
        assert.equal(asked(cluster, 2, "/get/") + asked(cluster, 3, "/get/"), 0);
        cluster.nodes[1 - first].always = closes;
        assert.ok(await used(cluster, client) >= 2);
        cluster.nodes[0].always = works[0];
        await waitFor(async () => await used(cluster, client) === 0);
        const { url } = cluster.nodes[0];
        assert.ok(events.some(([kind, , to]) => kind === "failover" && to === url));
        rows[0].state = "drained"; // it has no work any more
        cluster.nodes[1].always = works[1];
        await waitFor(async () => await used(cluster, client) === 1);
    });

clusterTest("an older server is asked once", 4, async (cluster, open) => {
    const client = open({ endpoints: cluster.urls.slice(2), zone: "a" });
    for (let n = 0; n < 5; n++) {
        assert.ok(await used(cluster, client) >= 2);
    }
    assert.equal(asked(cluster, 2, "/api/nodes"), 1);
    assert.equal(asked(cluster, 3, "/api/nodes"), 1);
});

clusterTest("what is no listing does no harm", 4, async (cluster, open) => {
    const rows = zones(cluster);
    rows[0].http_address = null; // this node has none
    assert.equal(await used(cluster, open({ endpoints: cluster.urls[2], zone: "a" })), 1);
    for (const [name, value] of [["weight", 1001], ["weight", "1"], ["state", "odd"],
        ["id", "2"], ["http_address", "127.0.0.1:1/x"]]) {
        const right = rows[1][name];
        rows[1][name] = value;
        assert.ok(await used(cluster, open({ endpoints: cluster.urls[2], zone: "a" })) >= 2);
        rows[1][name] = right;
    }
});

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

clusterTest("a node of another cluster is never asked for ids", 4, async (cluster, open) => {
    const rows = zones(cluster);
    cluster.nodes[1].always = answers(reply(200, { self: 2, nodes: [{ ...rows[2],
        http_address: "10.9.9.9:8080" }, rows[1]] }));
    rows[0].zone = "b";
    const client = open({ endpoints: cluster.urls[2], zone: "a" });
    for (let n = 0; n < 5; n++) {
        await used(cluster, client);
    }
    assert.equal(asked(cluster, 1, "/get/"), 0);
    assert.ok(asked(cluster, 1, "/api/nodes") > 0);
});

clusterTest("worker ids are asked where snowflakes are made", 4, async (cluster, open) => {
    const rows = zones(cluster);
    rows[0].snowflake = rows[1].snowflake = false;
    await open({ endpoints: cluster.urls[0], zone: "a" }).snowflake().next();
    assert.equal(asked(cluster, 0, "/workers") + asked(cluster, 1, "/workers"), 0);
    assert.ok(asked(cluster, 2, "/workers") + asked(cluster, 3, "/workers") > 0);
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
