// What the tests share.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { Client } from "../lib/client.js";
import { Cluster } from "./fake.js";

/** A test with a cluster, and clients of it that are closed in the end. */
export function clusterTest(name, nodes, run) {
    test(name, { timeout: 120000 }, async () => {
        const cluster = await Cluster.start(nodes);
        const clients = [];
        const open = (settings = {}, hooks = {}) => {
            // Attempts and deadlines that are not the point of a test are long, so that what is
            // counted does not depend on the machine.
            clients.push(new Client({ endpoints: cluster.urls, attemptMs: 60000, deadlineMs: 60000,
                ...settings }, hooks));
            return clients.at(-1);
        };
        try {
            await run(cluster, open);
        } finally {
            await Promise.all(clients.map((client) => client.close()));
            await cluster.stop();
        }
    });
}

export async function take(source, count) {
    const ids = [];
    while (ids.length < count) {
        ids.push(await source.next());
    }
    return ids;
}

export async function waitFor(condition, limitMs = 30000) {
    const end = performance.now() + limitMs;
    while (!await condition()) {
        assert.ok(performance.now() < end, "the condition never held");
        await new Promise((resolve) => setTimeout(resolve, 2));
    }
}

/** For how long each thread of this process has waited for a processor: ms by its number. */
function waitedMs() {
    const found = new Map();
    for (const task of readdirSync("/proc/self/task")) {
        try {
            const text = readFileSync(`/proc/self/task/${task}/schedstat`, "latin1");
            found.set(task, Number(text.split(" ")[1]) / 1e6);
        } catch {
            continue; // it has ended
        }
    }
    return found;
}

/** Since it was made. A test shares its machine with others: while a thread of this process could
 * run and no processor was free, the library was not late. */
export class Stopwatch {
    #began = performance.now();
    #before = waitedMs();

    tookMs() {
        return performance.now() - this.#began;
    }

    waitedMs() {
        let waited = 0;
        for (const [task, ms] of waitedMs()) {
            waited += ms - (this.#before.get(task) ?? 0);
        }
        return waited;
    }

    checkBelow(limitMs) {
        const tookMs = this.tookMs();
        const waited = this.waitedMs();
        assert.ok(tookMs - waited < limitMs, `${tookMs} ms, ${waited} of them without a processor`);
    }
}

export function range(first, last) {
    return Array.from({ length: last - first + 1 }, (_, at) => BigInt(first + at));
}

/** The LeafdError that a call ends in. */
export async function failure(call) {
    try {
        await call();
    } catch (error) {
        if (error.name !== "LeafdError") {
            throw error;
        }
        return error;
    }
    throw new assert.AssertionError({ message: "it did not fail" });
}

/** Numbers that look random, the same ones for a seed. */
export function randomOf(seed) {
    let state = seed >>> 0;
    return () => {
        state = (state + 0x6d2b79f5) >>> 0;
        let mixed = Math.imul(state ^ (state >>> 15), state | 1);
        mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
        return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
    };
}
