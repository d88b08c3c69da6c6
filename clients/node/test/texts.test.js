// Ids as texts, and back: of shaped tags and of others.

import assert from "node:assert/strict";
import { loses } from "./fake.js";
import { clusterTest, failure } from "./help.js";

function shape(cluster) {
    cluster.shapes = new Map([["invoice", "INV-"], ["order", "A"]]);
    return cluster;
}

function keys(cluster) {
    return cluster.log.map(({ request }) => request.headers["idempotency-key"]);
}

clusterTest("texts of a strict tag have keys", 1, async (cluster, open) => {
    const client = open({ endpoints: shape(cluster).urls });
    const source = client.texts("invoice");
    assert.equal(await source.next(), "INV-1");
    assert.deepEqual(await source.nextMany(2), ["INV-2", "INV-3"]);
    for (const replayed of [false, true]) {
        assert.deepEqual(await source.request(1, { key: "mine" }), { texts: ["INV-4"], replayed });
    }
    assert.equal(cluster.log.length, 4);
    assert.match(keys(cluster)[0], /^[a-z2-7]{26}$/);
    const { ids_strict: ids, waits, errors } = client.stats();
    assert.deepEqual([ids, waits, errors], [5, 4, 0]);
});

clusterTest("a tag of mode trend takes none, which is found out once", 1, async (cluster, open) => {
    const client = open({ endpoints: shape(cluster).urls });
    const source = client.texts("order");
    assert.deepEqual([await source.next(), await source.next()], ["A1", "A2"]);
    assert.deepEqual(keys(cluster).map((key) => key !== undefined), [true, false, false]);
    assert.equal(client.stats().errors, 0);
    const error = await failure(() => source.next({ key: "mine" }));
    assert.deepEqual([error.code, error.key], ["bad_key", "mine"]);
});

clusterTest("an answer that was lost is repeated by its key", 3, async (cluster, open) => {
    const client = open({ endpoints: shape(cluster).urls });
    cluster.faultAll(loses);
    assert.deepEqual(await client.texts("invoice").request(2),
        { texts: ["INV-1", "INV-2"], replayed: true });
    assert.equal(new Set(keys(cluster)).size, 1);
    cluster.nodes.forEach((node) => (node.always = loses));
    const error = await failure(() => client.texts("invoice").next({ deadlineMs: 700 }));
    assert.equal(error.code, "unreachable");
    cluster.nodes.forEach((node) => (node.always = undefined));
    assert.deepEqual(await client.texts("invoice").request(1, { key: error.key }),
        { texts: ["INV-3"], replayed: true });
});

clusterTest("decode", 1, async (cluster, open) => {
    const client = open({ endpoints: shape(cluster).urls });
    const source = client.texts("invoice");
    assert.equal(await source.decode("INV-42"), 42n);
    assert.equal((await failure(() => source.decode("INV-4+2%"))).code, "bad_id");
    assert.equal(cluster.log[1].request.target, "/api/segment/decode/invoice?text=INV-4%2B2%25");
    assert.equal((await failure(() => client.texts("other").decode("7"))).code, "no_shape");
    for (const text of ["", "a b", "é", "x".repeat(131), 7]) {
        assert.equal((await failure(() => source.decode(text))).code, "bad_setting");
    }
    assert.equal(cluster.log.length, 3);
});

clusterTest("bounds", 1, async (cluster, open) => {
    const client = open();
    const source = client.texts("other");
    assert.equal((await source.nextMany(1000)).length, 1000);
    const asked = cluster.log.length;
    for (const count of [0, 1001, "1", 1n, 1.5]) {
        assert.equal((await failure(() => source.nextMany(count))).code, "bad_setting");
    }
    assert.equal((await failure(() => source.next({ key: " a" }))).code, "bad_setting");
    assert.equal(cluster.log.length, asked);
    await client.close();
    for (const call of [() => source.next(), () => source.decode("7")]) {
        assert.equal((await failure(call)).code, "closed");
    }
});
