// A client without a cluster, for a program's own tests: ids of a tag, or of a name, are counted from
// 1 in memory. Failure modes: those that fail() says.

import { at, decode, newKey } from "./api.js";
import { LeafdError, copyOf } from "./errors.js";
import { COUNT_MAX, textName, whole } from "./settings.js";

const LAYOUT = { epochMs: 1288834974657, timeBits: 41, workerBits: 10, sequenceBits: 12 };

export class FakeClient {
    #next = new Map();
    #errors = new Map();
    #byKey = new Map();

    segment(tag) {
        return new Segment(this.#taker(textName("tag", tag)), tag);
    }

    strict(tag) {
        return new Strict(this.#taker(textName("tag", tag)), tag);
    }

    snowflake(name = "snowflake") {
        return new Snowflake(this.#taker(textName("name", name)));
    }

    setNext(tag, id) {
        this.#next.set(tag, BigInt(id));
    }

    fail(tag, error, times = 1) {
        this.#errors.set(tag, [...this.#errors.get(tag) ?? [], ...Array(times).fill(error)]);
    }

    async close() {
        // nothing is held
    }

    /** A function of a count and a key: {first, last, increment, replayed} */
    #taker(tag) {
        return (count, key) => {
            const error = this.#errors.get(tag)?.shift();
            if (error !== undefined) {
                throw Object.assign(copyOf(error), { key });
            }
            const known = key === undefined ? undefined : this.#byKey.get(`${tag} ${key}`);
            if (known !== undefined) {
                return { ...known, replayed: true };
            }
            const first = this.#next.get(tag) ?? 1n;
            this.#next.set(tag, first + BigInt(count));
            const ids = { first, last: first + BigInt(count) - 1n, increment: 1n, replayed: false };
            if (key !== undefined) {
                this.#byKey.set(`${tag} ${key}`, ids);
            }
            return ids;
        };
    }
}

class Source {
    #take;
    #closed = false;

    constructor(take, tag) {
        this.#take = take;
        this.tag = tag;
    }

    async next(options = undefined) {
        return (await this.request(1, options)).first;
    }

    async nextMany(count, options = undefined) {
        const { first } = await this.request(count, options);
        return Array.from({ length: count }, (_, at) => first + BigInt(at));
    }

    async request(count, options = undefined) {
        return this.take(count, options?.key);
    }

    async close() {
        this.#closed = true;
    }

    /** @internal */
    take(count, key = undefined) {
        if (this.#closed) {
            throw new LeafdError("closed", "the source was closed");
        }
        return this.#take(whole("count", count, 1, COUNT_MAX), key);
    }
}

class Segment extends Source {
    tryNext() {
        return this.take(1).first;
    }

    async nextRange(count) {
        const { first, last, increment } = this.take(count);
        return { first, last, increment };
    }

    [Symbol.asyncIterator]() {
        return { next: async () => ({ value: await this.next(), done: false }) };
    }
}

class Strict extends Source {
    async request(count = 1, options = undefined) {
        return this.take(count, options?.key ?? newKey());
    }
}

class Snowflake extends Segment {
    decode(id) {
        return decode(LAYOUT, id);
    }

    at(timeMs) {
        return at(LAYOUT, timeMs);
    }
}
