// Nodes that fail for good: the deadline holds.

import assert from "node:assert/strict";
import { answers, closes, drips, hangs, refusal } from "./fake.js";
import { Stopwatch, clusterTest, failure, waitFor } from "./help.js";

const LASTING = { hangs, drips, closes,
    "503": answers(refusal(503, "no_leader", "Retry-After: 9")) };
for (const [what, fault] of Object.entries(LASTING)) {
    clusterTest(`the deadline holds: ${what}`, 3, async (cluster, open) => {
        cluster.nodes.forEach((node) => (node.always = fault));
        const client = open({ attemptMs: 100 });
        await Promise.all([client.segment("order"), client.strict("invoice"),
            client.snowflake()].map(async (source) => {
            const watch = new Stopwatch();
            const error = await failure(() => source.next({ deadlineMs: 3000 }));
            assert.ok(watch.tookMs() > 2900);
            watch.checkBelow(9000);
            assert.ok(error.code === "unreachable" && error.retryable);
            assert.ok(cluster.urls.every((url) => error.message.includes(url)), error.message);
        }));
        const sent = client.stats().requests;
        // What was sent just before the deadline may arrive behind it.
        let seen;
        await waitFor(async () => {
            const before = seen;
            seen = cluster.log.length;
            await new Promise((resolve) => setTimeout(resolve, 300));
            return before === seen;
        });
        assert.equal(client.stats().requests, sent);
    });
}
