// What one id costs when it is there already: nanoseconds, the best of five runs and the median.
// The network is no part of it, but for strict ids; a server of this process answers.

import { Client } from "./lib/index.js";
import { Cluster } from "./test/fake.js";

const CALLS = 1000000;
const RUNS = 5;

async function show(what, run, calls = CALLS) {
    const times = [];
    for (let n = 0; n < RUNS; n++) {
        const begin = performance.now();
        await run(calls);
        times.push((performance.now() - begin) * 1e6 / calls);
    }
    times.sort((a, b) => a - b);
    console.log(what.padEnd(36), times[0].toFixed(1).padStart(10),
        times[RUNS >> 1].toFixed(1).padStart(10));
}

const cluster = await Cluster.start(1);
const client = new Client({ endpoints: cluster.urls });
const [segment, snowflake, strict] =
    [client.segment("order"), client.snowflake(), client.strict("invoice")];
await segment.nextMany(100000);
await snowflake.next();
console.log("".padEnd(36), "best".padStart(10), "median".padStart(10), " ns");
const ready = Promise.resolve(1n);
await show("await of a promise that is fulfilled", async (calls) => {
    for (let n = 0; n < calls; n++) {
        await ready;
    }
});
await show("segment.tryNext()", async (calls) => {
    for (let n = 0; n < calls; n++) {
        if (segment.tryNext() === undefined) {
            await segment.next();
        }
    }
});
await show("await segment.next()", async (calls) => {
    for (let n = 0; n < calls; n++) {
        await segment.next();
    }
});
await show("await snowflake.next() (244 at least)", async (calls) => {
    for (let n = 0; n < calls; n++) {
        await snowflake.next();
    }
});
await show("await strict.next(), over a socket", async (calls) => {
    for (let n = 0; n < calls; n++) {
        await strict.next();
    }
}, 2000);
await client.close();
await cluster.stop();
