// The client and its sources of ids (docs/clients.md).
//
// The happy path: segment("order").next() takes from a range that is in the process; the next range
// is asked for in time. Failure modes: every call ends by its deadline, with ids or a LeafdError.
// Threads: a client and its sources belong to the thread that made them. What goes on in the
// background keeps no process alive.

import { randomBytes } from "node:crypto";
import { hostname } from "node:os";
import * as api from "./api.js";
import { IdBuffer, nextSize } from "./buffer.js";
import { LeafdError, badSetting, copyOf } from "./errors.js";
import { Generator, WHY } from "./generator.js";
import { Door, Journey } from "./journey.js";
import { COUNT_MAX, MS_MAX, TEXTS_MAX, idText, idempotencyKey, makeSettings, options, textName,
    whole } from "./settings.js";
import { newCounters, statsText } from "./stats.js";
import { Failed, Wire } from "./wire.js";

const FORGET_MS = 1000; // an error of a background request
const CLOCK_LOOK_MS = 100; // how often a long wait for the clock looks at it
const TIMER_MAX_MS = 2 ** 31 - 1;

const now = () => performance.now();

/** What sources share inside: never shown to the program. */
class Core {
    constructor(settings, wallMs) {
        this.settings = settings;
        this.wallMs = wallMs;
        this.counters = newCounters();
        const count = (name) => this.counters[name]++;
        this.ids = new Door(settings.endpoints, count);
        this.admin = new Door(settings.adminEndpoints, count);
        this.wire = new Wire(settings);
        this.layout = undefined;
        this.sources = new Set();
        this.closed = false;
        this.pauses = new Set();
    }

    /** By the monotonic clock. */
    deadline(deadlineMs = this.settings.deadlineMs) {
        return now() + whole("deadlineMs", deadlineMs, 1, MS_MAX);
    }

    fail(error) {
        this.counters.errors++;
        return error;
    }

    checkOpen() {
        if (this.closed) {
            throw this.fail(new LeafdError("closed", "the client was closed"));
        }
    }

    /** Wait, at most until the client is closed. */
    pause(ms, background) {
        return new Promise((resolve) => {
            const end = () => {
                clearTimeout(timer);
                this.pauses.delete(end);
                resolve();
            };
            const timer = setTimeout(end, Math.min(Math.ceil(ms), TIMER_MAX_MS));
            if (background) {
                timer.unref();
            }
            this.pauses.add(end);
        });
    }

    /** Ask nodes until one answers, by the journey's deadline. Replies of success alone. */
    async call(door, makeRequest, journey, background = false) {
        for (;;) {
            if (this.closed) {
                throw new LeafdError("closed", "the client was closed");
            }
            const move = journey.move(now());
            if (move.waitMs > 0) {
                await this.pause(move.waitMs, background);
                continue;
            }
            this.counters.requests++;
            if (journey.tries > 1) {
                this.counters.retries++;
            }
            const request = makeRequest();
            const reply = await this.#attempt(door, move.index, request, journey);
            if (reply === undefined) {
                continue;
            }
            const error = api.errorOf(reply, request.success);
            if (error === undefined) {
                return reply;
            }
            if (error.status === 503) {
                journey.failed(`${error.code} (503): ${error.message}`, api.retryAfterMs(reply));
            } else if (error.status === 429 && error.code === "quota") {
                journey.quota(error, api.retryAfterMs(reply));
            } else {
                throw error;
            }
        }
    }

    /** A call of a source that holds nothing; its error has the key, under which to come again. */
    async callWithKey(door, request, key, deadline, read) {
        try {
            return read(await this.call(door, () => request, new Journey(door, () => deadline)));
        } catch (error) {
            error.key = key;
            throw error;
        }
    }

    /** One request to one node; undefined: it failed. */
    async #attempt(door, index, request, journey) {
        try {
            return await this.wire.exchange(door.addresses[index], request,
                journey.limits(this.settings, now()));
        } catch (error) {
            if (!(error instanceof Failed)) {
                throw error;
            }
            if (!this.closed) {
                journey.failed(error.message, 0, error.untrusted);
            }
            return undefined;
        }
    }
}

/** Those who wait for something, each by a deadline. */
class Waiters {
    #all = new Set();

    /** Ends at the deadline, or when woken. */
    wait(deadline, ms = deadline - now()) {
        return new Promise((resolve) => {
            const waiter = { deadline, wake: () => {
                clearTimeout(timer);
                this.#all.delete(waiter);
                resolve();
            } };
            const timer = setTimeout(waiter.wake, Math.max(0, Math.ceil(ms)));
            this.#all.add(waiter);
        });
    }

    wake() {
        for (const waiter of [...this.#all]) {
            waiter.wake();
        }
    }

    /** The last deadline; -Infinity: nobody waits. */
    get last() {
        let last = -Infinity;
        for (const waiter of this.#all) {
            last = Math.max(last, waiter.deadline);
        }
        return last;
    }
}

export class Client {
    #core;

    constructor(settings, { wallMs = Date.now } = {}) {
        this.#core = new Core(makeSettings(settings), wallMs);
    }

    segment(tag) {
        this.#core.checkOpen();
        return this.#keep(new Segment(this.#core, textName("tag", tag)));
    }

    strict(tag) {
        this.#core.checkOpen();
        return new Strict(this.#core, textName("tag", tag));
    }

    texts(tag) {
        this.#core.checkOpen();
        return new Texts(this.#core, textName("tag", tag));
    }

    snowflake(name = undefined) {
        this.#core.checkOpen();
        if (name !== undefined) {
            textName("name", name);
        }
        return this.#keep(new Snowflake(this.#core, name));
    }

    decode(id) {
        const number = typeof id === "string" && /^[0-9]{1,19}$/.test(id) ? BigInt(id) : id;
        if (typeof number !== "bigint" || number < 0n || number > api.ID_MAX) {
            throw badSetting("id", id, `a BigInt from 0 to ${api.ID_MAX}`);
        }
        if (this.#core.layout === undefined) {
            throw this.#core.fail(new LeafdError("layout_unknown",
                "a snowflake source learns the layout with its first id"));
        }
        return api.decode(this.#core.layout, number);
    }

    stats() {
        const values = { ...this.#core.counters };
        for (const source of this.#core.sources) {
            source.addTo(values);
        }
        return values;
    }

    statsText() {
        return statsText(this.stats());
    }

    async close() {
        const core = this.#core;
        await Promise.all([...core.sources].map((source) => source.close()));
        core.closed = true;
        for (const end of [...core.pauses]) {
            end();
        }
        core.wire.close();
    }

    async [Symbol.asyncDispose ?? Symbol.for("nodejs.asyncDispose")]() {
        await this.close();
    }

    #keep(source) {
        this.#core.sources.add(source);
        return source;
    }
}

/** What segment and snowflake sources have in common for `for await`. */
class Endless {
    [Symbol.asyncIterator]() {
        return { next: async () => ({ value: await this.next(), done: false }) };
    }
}

export class Segment extends Endless {
    #core;
    #buffer = new IdBuffer();
    #journey = undefined; // of the request under way
    #waiters = new Waiters();
    #wantedUntil = -Infinity; // by who does not wait: tryNext()
    #error = undefined;
    #errorUntil = 0;
    // What became of the last request that ended because nobody waited any more.
    #unreachable = new LeafdError("unreachable", "no ids came by the deadline");
    #size = 0; // of the last request
    #sizeTaken = 0;
    #sizeAt = 0;
    #closed = false;

    constructor(core, tag) {
        super();
        this.#core = core;
        this.tag = tag;
    }

    tryNext() {
        const buffer = this.#buffer;
        if (buffer.left > 0) {
            buffer.left--;
            const id = buffer.at;
            buffer.at = id + 1n;
            return id;
        }
        this.#checkClosed(0);
        const id = buffer.take();
        if (id === undefined) {
            this.#wantedUntil = now() + this.#core.settings.deadlineMs;
        }
        this.#askIfDue();
        return id;
    }

    next(callOptions = undefined) {
        const buffer = this.#buffer;
        if (buffer.left > 0) {
            buffer.left--;
            const id = buffer.at;
            buffer.at = id + 1n;
            return Promise.resolve(id);
        }
        return this.#nextSlowly(1, callOptions).then((ids) => ids[0]);
    }

    async nextMany(count, callOptions = undefined) {
        return this.#nextSlowly(whole("count", count, 1, COUNT_MAX), callOptions);
    }

    async nextRange(count, callOptions = undefined) {
        whole("count", count, 1, COUNT_MAX);
        const core = this.#core;
        const deadline = core.deadline(options(callOptions, "deadlineMs").deadlineMs);
        this.#checkClosed(0);
        core.counters.waits++;
        try {
            const request = api.segmentRequest(this.tag, count, { contiguous: true });
            const reply = await core.call(core.ids, () => request,
                new Journey(core.ids, () => deadline));
            const { first, size } = api.oneRangeOf(reply, count);
            core.counters.ids_segment += count;
            return { first, last: first + BigInt(size) - 1n };
        } catch (error) {
            throw core.fail(error);
        }
    }

    async close() {
        if (this.#closed) {
            return;
        }
        this.#closed = true;
        this.#core.counters.burnt += this.#buffer.burn();
        this.addTo(this.#core.counters);
        this.#core.sources.delete(this);
        this.#waiters.wake();
    }

    /** @internal */
    addTo(values) {
        values.ids_segment += this.#buffer.taken;
    }

    async #nextSlowly(count, callOptions) {
        const deadline = this.#core.deadline(options(callOptions, "deadlineMs").deadlineMs);
        const got = [];
        let waited = false;
        for (;;) {
            this.#checkClosed(got.length);
            for (let id; got.length < count && (id = this.#buffer.take()) !== undefined;) {
                got.push(id);
            }
            if (got.length === count) {
                this.#askIfDue();
                return got;
            }
            if (now() >= deadline) {
                throw this.#fail(this.#journey?.unreachable() ?? copyOf(this.#unreachable),
                    got.length);
            }
            this.#askIfDue();
            if (this.#error !== undefined && now() < this.#errorUntil) {
                throw this.#fail(copyOf(this.#error), got.length);
            }
            if (!waited) {
                waited = true;
                this.#core.counters.waits++;
            }
            await this.#waiters.wait(deadline);
        }
    }

    #checkClosed(burnt) {
        if (this.#closed) {
            throw this.#fail(new LeafdError("closed", "the source was closed"), burnt);
        }
    }

    /** burnt: ids that the call had taken already */
    #fail(error, burnt) {
        this.#core.counters.burnt += burnt;
        return this.#core.fail(error);
    }

    /** Begin a request in the background, unless one is under way, none is needed, or the error of
     * the last one is not forgotten yet. */
    #askIfDue() {
        const time = now();
        const fresh = this.#error !== undefined && time < this.#errorUntil;
        if (this.#journey !== undefined || !this.#buffer.wants || this.#closed || fresh) {
            return;
        }
        const { settings } = this.#core;
        const taken = this.#buffer.taken;
        this.#size = this.#size === 0 ? settings.minCount
            : nextSize(this.#size, taken - this.#sizeTaken, time - this.#sizeAt, settings.coverMs,
                settings.minCount, settings.maxCount);
        this.#sizeTaken = taken;
        this.#sizeAt = time;
        this.#error = undefined;
        // A request goes on as long as somebody waits or ids are left.
        this.#journey = new Journey(this.#core.ids, () => {
            if (this.#closed) {
                return -Infinity;
            }
            return this.#buffer.empty ? Math.max(this.#waiters.last, this.#wantedUntil) : Infinity;
        });
        // Behind the caller: who asked waits first, and is counted.
        queueMicrotask(() => this.#ask());
    }

    /** Where fewer ids are left below the tag's max, half as many are asked for, down to one. */
    async #fetch() {
        const core = this.#core;
        for (;;) {
            const size = this.#size;
            const request = api.segmentRequest(this.tag, size);
            try {
                const reply = await core.call(core.ids, () => request, this.#journey, true);
                return api.rangesOf(reply, size);
            } catch (error) {
                if (error.code !== "exhausted" || size === 1) {
                    throw error;
                }
                this.#size = Math.floor(size / 2);
            }
        }
    }

    async #ask() {
        const core = this.#core;
        try {
            const ranges = await this.#fetch();
            if (this.#closed) {
                core.counters.burnt += this.#size;
            } else {
                this.#buffer.add(ranges);
            }
        } catch (error) {
            if (error.code === "unreachable") {
                this.#unreachable = error;
            } else if (error.code !== "closed") {
                this.#error = error;
                this.#errorUntil = now() + FORGET_MS;
            }
        }
        this.#journey = undefined;
        this.#waiters.wake();
    }
}

export class Strict {
    #core;

    constructor(core, tag) {
        this.#core = core;
        this.tag = tag;
    }

    async next(callOptions = undefined) {
        return (await this.request(1, callOptions)).first;
    }

    async nextMany(count, callOptions = undefined) {
        const { first } = await this.request(count, callOptions);
        return Array.from({ length: count }, (_, at) => first + BigInt(at));
    }

    async request(count = 1, callOptions = undefined) {
        const core = this.#core;
        whole("count", count, 1, COUNT_MAX);
        const given = options(callOptions, "key", "deadlineMs");
        const key = given.key === undefined ? api.newKey() : idempotencyKey(given.key);
        const deadline = core.deadline(given.deadlineMs);
        const request = api.segmentRequest(this.tag, count, { key });
        core.counters.waits++;
        try {
            const ids = await core.callWithKey(core.ids, request, key, deadline, (reply) => {
                const { first, size } = api.oneRangeOf(reply, count);
                return { first, last: first + BigInt(size) - 1n, replayed: api.isReplayed(reply) };
            });
            core.counters.ids_strict += count;
            return ids;
        } catch (error) {
            throw core.fail(error);
        }
    }
}

/** Ids as texts, as the server writes them; each call is a request. A tag of mode trend takes no
 * key: the first call finds that out, and the source keeps it. */
export class Texts {
    #core;
    #keyed = true;

    constructor(core, tag) {
        this.#core = core;
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
        return this.#core.callWithKey(this.#core.ids, api.textsRequest(this.tag, count, key), key,
            deadline, (reply) => ({ texts: api.textsOf(reply, count),
                replayed: api.isReplayed(reply) }));
    }

    async decode(text, callOptions = undefined) {
        const core = this.#core;
        const request = api.decodeRequest(this.tag, idText(text));
        const deadline = core.deadline(options(callOptions, "deadlineMs").deadlineMs);
        core.counters.waits++;
        try {
            return await core.callWithKey(core.admin, request, undefined, deadline, api.textIdOf);
        } catch (error) {
            throw core.fail(error);
        }
    }
}

/** Of a holder of a worker id, for whom the program gave none. */
function madeUpName() {
    const host = hostname().replace(/[^\x21-\x7e]/g, "").slice(0, 64) || "host";
    return `${host}/${process.pid}/${randomBytes(8).toString("hex")}`;
}

export class Snowflake extends Endless {
    #core;
    #name;
    #generator = undefined;
    #acquiring = undefined; // a promise
    #renewing = undefined; // the journey of a renewal under way
    #timer = undefined; // of the next renewal
    #lost = undefined; // what ended the last generator, or a renewal
    #lostTurn = 0;
    #waiters = new Waiters();
    #closed = false;

    constructor(core, name) {
        super();
        this.#core = core;
        this.#name = name;
    }

    tryNext() {
        if (this.#closed) {
            throw this.#core.fail(new LeafdError("closed", "the source was closed"));
        }
        const id = this.#generator?.step();
        if (id === undefined && this.#generator === undefined) {
            this.#acquireOnce(this.#core.deadline(), true).catch(() => {});
        } else if (id === undefined && this.#generator.why === WHY.WINDOW) {
            this.#renewNow();
        }
        return id;
    }

    next(callOptions = undefined) {
        const id = this.#generator?.step();
        return id === undefined ? this.#nextSlowly(callOptions) : Promise.resolve(id);
    }

    async nextMany(count, callOptions = undefined) {
        whole("count", count, 1, COUNT_MAX);
        const { deadlineMs } = options(callOptions, "deadlineMs");
        const deadline = this.#core.deadline(deadlineMs);
        const ids = [];
        while (ids.length < count) {
            ids.push(this.#generator?.step() ??
                await this.next({ deadlineMs: Math.max(1, Math.floor(deadline - now())) }));
        }
        return ids;
    }

    decode(id) {
        return api.decode(this.#core.layout, id);
    }

    async close() {
        if (this.#closed) {
            return;
        }
        this.#closed = true;
        const generator = this.#generator;
        this.#drop();
        this.#core.sources.delete(this);
        this.#waiters.wake();
        if (generator !== undefined) {
            await this.#release(generator);
        }
    }

    /** @internal */
    addTo(values) {
        values.ids_snowflake += this.#generator?.used ?? 0;
    }

    async #nextSlowly(callOptions) {
        const core = this.#core;
        const deadline = core.deadline(options(callOptions, "deadlineMs").deadlineMs);
        const waited = new Set();
        const count = (name) => {
            if (!waited.has(name)) {
                waited.add(name);
                core.counters[name]++;
            }
        };
        try {
            for (;;) {
                if (this.#closed) {
                    throw new LeafdError("closed", "the source was closed");
                }
                if (this.#generator === undefined) {
                    count("waits");
                    await this.#acquireOnce(deadline, false);
                    continue;
                }
                const id = this.#generator.step();
                if (id !== undefined) {
                    return id;
                }
                if (this.#generator.why === WHY.END) {
                    throw new LeafdError("epoch_exhausted", "the layout's time is over");
                }
                if (this.#generator.why === WHY.WINDOW) {
                    count("waits");
                    await this.#waitRenewal(deadline);
                } else {
                    count("clock_waits");
                    await this.#waitClock(deadline);
                }
            }
        } catch (error) {
            throw core.fail(error);
        }
    }

    async #waitClock(deadline) {
        const left = deadline - now();
        if (left <= 0) {
            throw this.#windowOver(`and times up to ${this.#generator.lastMs} are used`);
        }
        if (this.#generator.waitMs === 1) {
            // A timer of 1 ms takes two; others have their turn all the same.
            await new Promise((resolve) => setImmediate(resolve));
        } else {
            await this.#waiters.wait(deadline,
                Math.min(this.#generator.waitMs, left, CLOCK_LOOK_MS));
        }
    }

    /** The window is over: only a renewal helps. */
    async #waitRenewal(deadline) {
        if (now() >= deadline) {
            throw this.#windowOver(this.#renewing === undefined
                ? "" : `; the renewal: ${this.#renewing.unreachable().message}`);
        }
        const turn = this.#lostTurn;
        this.#renewNow();
        await this.#waiters.wait(deadline, Math.min(deadline - now(), CLOCK_LOOK_MS));
        if (this.#lostTurn !== turn) {
            throw copyOf(this.#lost);
        }
    }

    #windowOver(why) {
        const { workerId, fromMs, untilMs } = this.#generator;
        return new LeafdError("window_over", `no id within the window of worker id ${workerId}, ` +
            `times above ${fromMs} up to ${untilMs}: the clock shows ` +
            `${this.#core.wallMs()} ${why}`);
    }

    /** Acquire, or wait for who does. */
    async #acquireOnce(deadline, background) {
        if (this.#acquiring !== undefined) {
            if (now() >= deadline) {
                throw new LeafdError("unreachable", "no worker id came by the deadline");
            }
            await this.#waiters.wait(deadline);
            return;
        }
        this.#acquiring = true;
        try {
            const { grant, layout } = await this.#acquire(deadline, background);
            const generator = new Generator(grant, layout, this.#core.wallMs);
            if (this.#closed) {
                await this.#release(generator);
                throw new LeafdError("closed", "the source was closed");
            }
            this.#core.layout = layout;
            this.#generator = generator;
            this.#renewIn(this.#core.settings.windowMs / 3);
        } finally {
            this.#acquiring = undefined;
            this.#waiters.wake();
        }
    }

    async #acquire(deadline, background) {
        const core = this.#core;
        const door = core.admin;
        const { windowMs } = core.settings;
        // A name of our own is new each time: an answer that was lost may have granted a window,
        // and under the same name the next one begins only behind it.
        const grant = api.grantOf(await core.call(door,
            () => api.acquireRequest(this.#name ?? madeUpName(), windowMs),
            new Journey(door, () => deadline), background));
        if (grant.layout !== null) {
            return { grant, layout: grant.layout };
        }
        // The node makes no snowflake ids itself. A renewal gives no new window, and its answer has
        // the layout, too.
        for (let asked = 1; asked < door.addresses.length; asked++) {
            door.current = (door.current + 1) % door.addresses.length;
            const told = api.grantOf(await core.call(door,
                () => api.renewRequest(grant.workerId, grant.epoch, windowMs, undefined),
                new Journey(door, () => deadline), background));
            if (told.layout !== null) {
                return { grant: { ...told, fromMs: grant.fromMs }, layout: told.layout };
            }
        }
        await this.#release({ ...grant, usedMs: undefined });
        throw new LeafdError("layout_unknown", "no node knows the layout of the cluster's ids: " +
            "each has snowflake.workers = 0");
    }

    /** With the last time used; what fails is left to the window's end. */
    async #release(generator) {
        const core = this.#core;
        const lastMs = generator.usedMs ?? generator.fromMs;
        const until = now() + core.settings.attemptMs;
        try {
            await core.call(core.admin,
                () => api.releaseRequest(generator.workerId, generator.epoch, lastMs),
                new Journey(core.admin, () => until));
        } catch {
            // the window ends by itself
        }
    }

    #drop() {
        this.addTo(this.#core.counters);
        this.#generator = undefined;
        clearTimeout(this.#timer);
    }

    #renewIn(ms) {
        clearTimeout(this.#timer);
        this.#timer = setTimeout(() => this.#renewNow(), ms);
        this.#timer.unref();
    }

    #renewNow() {
        if (this.#renewing === undefined && this.#generator !== undefined) {
            clearTimeout(this.#timer);
            this.#renew(this.#generator);
        }
    }

    async #renew(generator) {
        const core = this.#core;
        // As long as ids go on or somebody waits for it.
        const journey = new Journey(core.admin, () => {
            if (this.#generator !== generator) {
                return -Infinity;
            }
            return core.wallMs() <= generator.untilMs ? Infinity : this.#waiters.last;
        });
        this.#renewing = journey;
        let failure;
        try {
            await undefined; // who asked waits first, and is counted
            const grant = api.grantOf(await core.call(core.admin,
                () => api.renewRequest(generator.workerId, generator.epoch, core.settings.windowMs,
                    generator.usedMs), journey, true));
            if (grant.workerId !== generator.workerId || grant.epoch !== generator.epoch) {
                throw new LeafdError("bad_answer", `renewed worker id ${generator.workerId}, ` +
                    `epoch ${generator.epoch}; the answer is of ${grant.workerId}, ${grant.epoch}`);
            }
            generator.extend(grant.untilMs);
            core.counters.renewals++;
        } catch (error) {
            failure = error;
        }
        this.#renewing = undefined;
        if (this.#generator === generator) {
            this.#settleRenewal(failure);
        }
        this.#waiters.wake();
    }

    #settleRenewal(failure) {
        if (failure === undefined) {
            this.#renewIn(this.#core.settings.windowMs / 3);
        } else if (failure.code === "fenced" || failure.code === "unknown_worker") {
            this.#lost = new LeafdError("fenced", failure.message, failure.status);
            this.#lostTurn++;
            this.#drop();
        } else if (failure.code !== "unreachable" && failure.code !== "closed") {
            this.#lost = failure;
            this.#lostTurn++;
            this.#renewIn(FORGET_MS);
        }
    }
}
