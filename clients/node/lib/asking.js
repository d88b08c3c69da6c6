// Sources that hold nothing: strict ids, and ids as texts. Each call is a request with its retries.
//
// The happy path: request() sends a key, so that a retry gets the same ids. Failure modes: an error
// has the key, with which the caller may come again.

import * as api from "./api.js";
import { boundsOf } from "./buffer.js";
import { LeafdError } from "./errors.js";
import { Journey, Known } from "./journey.js";
import { COUNT_MAX, TEXTS_MAX, idText, idempotencyKey, options, whole } from "./settings.js";

/** What sources that hold nothing have in common. */
class Asking {
    #closed = false;

    async close() {
        this.#closed = true;
    }

    /** @internal */
    checkOpen() {
        if (this.#closed) {
            throw new LeafdError("closed", "the source was closed");
        }
    }
}

export class Strict extends Asking {
    #core;
    #known;

    constructor(core, tag) {
        super();
        this.#core = core;
        this.#known = new Known(tag);
        this.tag = tag;
    }

    async next(callOptions = undefined) {
        return (await this.request(1, callOptions)).first;
    }

    async nextMany(count, callOptions = undefined) {
        const { first, increment } = await this.request(count, callOptions);
        return Array.from({ length: count }, (_, at) => first + BigInt(at) * increment);
    }

    async request(count = 1, callOptions = undefined) {
        const core = this.#core;
        whole("count", count, 1, COUNT_MAX);
        const given = options(callOptions, "key", "deadlineMs");
        const key = given.key === undefined ? api.newKey() : idempotencyKey(given.key);
        const deadline = core.deadline(given.deadlineMs);
        const mark = this.#known.mark(given.key === undefined);
        core.counters.waits++;
        try {
            this.checkOpen();
            const { ranges, replayed } = await core.callWithKey(key, deadline, (journey) =>
                core.callForRanges(this.#known, count, journey, { one: true, key, mark }));
            core.counters.ids_strict += count;
            return { ...boundsOf(ranges[0]), replayed };
        } catch (error) {
            throw core.fail(error);
        }
    }
}

/** Ids as texts, as the server writes them; each call is a request. A tag of mode trend takes no
 * key: the first call finds that out, and the source keeps it. */
export class Texts extends Asking {
    #core;
    #known;
    #keyed = true;

    constructor(core, tag) {
        super();
        this.#core = core;
        this.#known = new Known(tag);
        this.tag = tag;
    }

    async next(callOptions = undefined) {
        return (await this.request(1, callOptions)).texts[0];
    }

    async nextMany(count, callOptions = undefined) {
        return (await this.request(count, callOptions)).texts;
    }

    async request(count = 1, callOptions = undefined) {
        const core = this.#core;
        whole("count", count, 1, TEXTS_MAX);
        const given = options(callOptions, "key", "deadlineMs");
        const key = given.key === undefined ? undefined : idempotencyKey(given.key);
        const deadline = core.deadline(given.deadlineMs);
        core.counters.waits++;
        try {
            this.checkOpen();
            const ids = await this.#ask(count, key, deadline);
            core.counters.ids_strict += count;
            return ids;
        } catch (error) {
            throw core.fail(error);
        }
    }

    async #ask(count, given, deadline) {
        if (given !== undefined || this.#keyed) {
            try {
                return await this.#askWith(count, given ?? api.newKey(), deadline);
            } catch (error) {
                if (given !== undefined || error.code !== "bad_key") {
                    throw error;
                }
            }
            this.#keyed = false;
        }
        return this.#askWith(count, undefined, deadline);
    }

    async #askWith(count, key, deadline) {
        const core = this.#core;
        const request = api.textsRequest(this.tag, count, key);
        return core.callWithKey(key, deadline, async (journey) => {
            for (;;) {
                const reply = await core.call(core.ids, () => request, journey);
                const answer = this.#known.readTexts(reply, count, key, journey);
                if (answer !== undefined) {
                    return { texts: answer.texts, replayed: answer.replayed };
                }
            }
        });
    }

    async decode(text, callOptions = undefined) {
        const core = this.#core;
        const request = api.decodeRequest(this.tag, idText(text));
        const deadline = core.deadline(options(callOptions, "deadlineMs").deadlineMs);
        core.counters.waits++;
        try {
            this.checkOpen();
            return api.textIdOf(await core.call(core.admin, () => request,
                new Journey(core.admin, () => deadline)));
        } catch (error) {
            throw core.fail(error);
        }
    }
}
