// Ids of leafd: from ranges held in the process, strictly rising, or snowflakes (README.md).

export { Client } from "./client.js";
export { LeafdError } from "./errors.js";
export { FakeClient } from "./fake.js";
