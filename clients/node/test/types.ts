// What must compile by index.d.ts, and what must not: `make types`.

import { Client, FakeClient, LeafdError } from "@leafd/client";
import type { Decoded, IdRange, IdSource, Stats, StrictRange, TextIds } from "@leafd/client";

const client = new Client({ endpoints: "http://a", token: undefined, windowMs: 1000 });
const sources: IdSource[] = [client, new FakeClient()].flatMap((one) =>
    [one.segment("a"), one.strict("a"), one.snowflake()]);
console.log(sources.length);
const segment = client.segment("order");
const id: bigint = await segment.next({ deadlineMs: 5 });
const maybe: bigint | undefined = segment.tryNext();
const many: bigint[] = await segment.nextMany(5);
const range: IdRange = await segment.nextRange(5);
const strict: StrictRange = await client.strict("invoice").request(1, { key: "k" });
const texts: TextIds = await client.texts("invoice").request(2, { key: "k" });
const back: bigint = await client.texts("invoice").decode(texts.texts[0] ?? "");
const parts: Decoded = client.decode(await client.snowflake().next());
const stats: Stats = client.stats();
const held: Map<string, number> = client.gauges().idsLeft;
client.on("event", (event) => console.log(event.kind === "aged" ? event.ids : held.size));
for await (const one of segment) {
    const same: bigint = one;
    console.log(same);
    break;
}
try {
    await client.close();
} catch (error) {
    if (error instanceof LeafdError) {
        const told: [string, number, boolean, string | undefined] =
            [error.code, error.status, error.retryable, error.key];
        console.log(told);
    }
}
console.log(back, id, maybe, many, range, strict.replayed, parts.workerId, stats.burnt);

new Client({}); // the environment may have the endpoints
// @ts-expect-error no such setting
new Client({ endpoints: "http://a", dedlineMs: 5 });
// @ts-expect-error ids are no numbers
const number: number = await segment.next();
// @ts-expect-error tryNext may have none
const sure: bigint = segment.tryNext();
// @ts-expect-error a count is a number
await segment.nextMany(5n);
// @ts-expect-error segments have no keys
await segment.next({ key: "k" });
console.log(number, sure);
