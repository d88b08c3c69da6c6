// The client and its sources of ids (docs/clients.md).
//
// The happy path: segment("order").next() takes from a range that is in the process; the next range
// is asked for in time. Failure modes: every call ends by its deadline, with ids or a LeafdError.
// Threads: a client and its sources belong to the thread that made them. What goes on in the
// background keeps no process alive.

import { randomBytes } from "node:crypto";
import { lookup } from "node:dns/promises";
import { EventEmitter } from "node:events";
import { hostname } from "node:os";
import * as api from "./api.js";
import { IdBuffer, Rate } from "./buffer.js";
import { LeafdError, badSetting, copyOf, isFinal } from "./errors.js";
import { Generator, SMALL_STEP_MS, WHY } from "./generator.js";
import { Door, Journey, Known, Usual, after } from "./journey.js";
import { COUNT_MAX, MS_MAX, TEXTS_MAX, idText, idempotencyKey, makeSettings, options, textName,
    whole } from "./settings.js";
import { newCounters, newGauges, statsText } from "./stats.js";
import { Failed, Wire } from "./wire.js";

const FORGET_MS = 1000; // an error of a background request
const CLOCK_LOOK_MS = 100; // how often a long wait for the clock looks at it
const TIMER_MAX_MS = 2 ** 31 - 1;

const now = () => performance.now();

/** What sources share inside: never shown to the program. */
class Core {
    /** emit: gives the program an event */
    constructor(settings, wallMs, emit) {
        this.emit = emit;
        this.settings = settings;
        this.wallMs = wallMs;
        this.counters = newCounters();
        const count = (name) => this.counters[name]++;
        const tell = (event) => this.tell(event);
        this.ids = new Door(settings.endpoints, count, tell);
        this.admin = new Door(settings.adminEndpoints, count, tell);
        this.usual = new Usual(settings.connectMs);
        this.wire = new Wire(settings);
        this.lookups = new Map(); // of names of hosts, under way
        this.layout = undefined;
        this.sources = new Set();
        this.closed = false;
        this.pauses = new Set();
    }

    /** Not from within what the library is doing: who listens may do what they like. */
    tell(event) {
        queueMicrotask(() => {
            try {
                this.emit(event);
            } catch (error) {
                process.emitWarning(`a listener of leafd's events failed: ${error}`);
            }
        });
    }

    /** By the monotonic clock. */
    deadline(deadlineMs = this.settings.deadlineMs) {
        return now() + whole("deadlineMs", deadlineMs, 1, MS_MAX);
    }

    fail(error) {
        this.counters.errors++;
        return error;
    }

    knownLayout() {
        if (this.layout === undefined) {
            throw this.fail(new LeafdError("layout_unknown",
                "a snowflake source learns the layout with its first id"));
        }
        return this.layout;
    }

    checkOpen() {
        if (this.closed) {
            throw this.fail(new LeafdError("closed", "the client was closed"));
        }
    }

    /** Wait, at most until the client is closed, or the promise sooner. */
    pause(ms, background, sooner = undefined) {
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
            sooner?.then(end);
        });
    }

    /** Ends once what was found is known; never fails. */
    #resolve(host) {
        if (!this.lookups.has(host)) {
            this.lookups.set(host, lookup(host, { all: true }).then((found) => {
                for (const door of found.length > 0 ? [this.ids, this.admin] : []) {
                    door.found(host, found.map(({ address }) => address));
                }
                this.wire.keep([...this.ids.nodes, ...this.admin.nodes]);
            }).catch(() => {}) // what was known stays
                .finally(() => this.lookups.delete(host)));
        }
        return this.lookups.get(host);
    }

    /** A round, after names were resolved where that is due. */
    async #begin(journey, background) {
        const { door } = journey;
        const time = now();
        const { looks, waits } = journey.looks(time);
        if (looks && door.names.length > 0) {
            const done = Promise.all(door.names.map(({ host }) => this.#resolve(host)));
            if (waits) {
                await this.pause(Math.min(this.settings.connectMs, journey.deadline() - time),
                    background, done);
            }
            door.resolvedAt = time;
        }
        journey.begin();
    }

    /** Ask nodes until one answers, by the journey's deadline. Replies of success alone. */
    async call(door, makeRequest, journey, background = false) {
        for (;;) {
            if (this.closed) {
                throw new LeafdError("closed", "the client was closed");
            }
            if (!journey.begun) {
                await this.#begin(journey, background);
                continue;
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
            const reply = await this.#attempt(move.node, request, journey);
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

    /** What a source asks for ids: {ranges, generation, askedAt, replayed}; one: in one range. */
    async callForRanges(known, count, journey, { one = false, key, background = false } = {}) {
        for (;;) {
            const request = known.request(count, one, key);
            let reply;
            try {
                reply = await this.call(this.ids, () => request, journey, background);
            } catch (error) {
                if (known.repeats(error, request)) {
                    continue;
                }
                throw error;
            }
            const { askedAt } = journey;
            const answer = known.read(reply, count, request, one, journey);
            if (answer !== undefined) {
                this.usual.add(now() - askedAt);
                return answer;
            }
            this.counters.burnt += count;
        }
    }

    /** A call that gets the same whichever node answers: a second one is asked where the first
     * takes long. call: given a journey */
    callTwice(call, deadline) {
        const door = this.ids;
        const journeys = [];
        let [failed, over, timer] = [0, false, undefined];
        return new Promise((resolve, reject) => {
            const end = (settle, value) => {
                over = true;
                clearTimeout(timer);
                settle(value);
                journeys.forEach((one) => one.abort());
            };
            const begin = () => {
                const journey = new Journey(door, () => (over ? -Infinity : deadline), undefined,
                    journeys[0]);
                journeys.push(journey);
                journeys[0].onNodes = look;
                call(journey).then((value) => {
                    if (!over) {
                        if (journey !== journeys[0]) {
                            door.leave(journeys[0].node); // where the next call would begin
                        }
                        end(resolve, value);
                    }
                }, (error) => {
                    failed++;
                    if (!over && (isFinal(error) || failed === journeys.length)) {
                        end(reject, error);
                    }
                });
            };
            const look = () => {
                clearTimeout(timer);
                if (over || failed > 0 || journeys.length > 1 || journeys[0].nodes.length === 1) {
                    return;
                }
                const left = Math.min(journeys[0].askedAt, now()) + this.usual.patienceMs - now();
                if (left > 0) {
                    timer = setTimeout(look, Math.ceil(left));
                } else {
                    this.counters.hedges++;
                    begin();
                }
            };
            begin();
            look();
        });
    }

    /** The same with a key, which its error has, under which to come again. */
    async callWithKey(key, deadline, call) {
        try {
            // Two answers without a key would be ids of two calls.
            return await (key === undefined ? call(new Journey(this.ids, () => deadline))
                : this.callTwice(call, deadline));
        } catch (error) {
            error.key = key;
            throw error;
        }
    }

    /** One request to one node; undefined: it failed. */
    async #attempt(node, request, journey) {
        try {
            return await this.wire.exchange(node, request,
                journey.limits(this.settings, now()), journey);
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

export class Client extends EventEmitter {
    #core;

    constructor(settings, { wallMs = Date.now } = {}) {
        super();
        this.#core = new Core(makeSettings(settings), wallMs,
            (event) => this.emit("event", event));
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
        return api.decode(this.#core.knownLayout(), number);
    }

    at(timeMs) {
        return api.at(this.#core.knownLayout(), timeMs);
    }

    stats() {
        const values = { ...this.#core.counters };
        for (const source of this.#core.sources) {
            source.addTo(values);
        }
        return values;
    }

    gauges() {
        const gauges = newGauges();
        for (const source of this.#core.sources) {
            source.measure(gauges);
        }
        return gauges;
    }

    statsText() {
        return statsText(this.stats(), this.gauges());
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

function boundsOf({ first, size, step }) {
    return { first, last: first + BigInt(size - 1) * step, increment: step };
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
    #known;
    #rate = new Rate();
    #journeys = []; // of requests under way, two at most
    #waiters = new Waiters();
    #wantedUntil = -Infinity; // by who does not wait: tryNext()
    #error = undefined;
    #errorUntil = 0;
    // What became of the last request that ended because nobody waited any more.
    #unreachable = new LeafdError("unreachable", "no ids came by the deadline");
    #failing = false;
    #ager = undefined; // the timer of the next range that is due
    #closed = false;

    constructor(core, tag) {
        super();
        this.#core = core;
        this.tag = tag;
        this.#known = new Known(tag, (generation) => {
            this.#dropped("generation", this.#buffer.dropOlder(generation));
        });
    }

    tryNext() {
        const buffer = this.#buffer;
        if (buffer.left > 0) {
            buffer.left--;
            const id = buffer.at;
            buffer.at = id + buffer.step;
            return id;
        }
        this.#checkClosed(0);
        this.#dropAged();
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
            buffer.at = id + buffer.step;
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
            const { ranges } = await core.callForRanges(this.#known, count,
                new Journey(core.ids, () => deadline), { one: true });
            core.counters.ids_segment += count;
            return boundsOf(ranges[0]);
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
        clearTimeout(this.#ager);
        this.#waiters.wake();
    }

    /** @internal */
    addTo(values) {
        values.ids_segment += this.#buffer.taken;
    }

    /** @internal */
    measure({ idsLeft, rangeAgeMs }) {
        const { held, askedAt } = this.#buffer;
        const ageMs = askedAt === Infinity ? 0 : Math.max(0, now() - askedAt);
        idsLeft.set(this.tag, (idsLeft.get(this.tag) ?? 0) + held);
        rangeAgeMs.set(this.tag, Math.max(rangeAgeMs.get(this.tag) ?? 0, Math.round(ageMs)));
    }

    async #nextSlowly(count, callOptions) {
        const deadline = this.#core.deadline(options(callOptions, "deadlineMs").deadlineMs);
        const got = [];
        let waited = false;
        for (;;) {
            this.#checkClosed(got.length);
            this.#dropAged();
            for (let id; got.length < count && (id = this.#buffer.take()) !== undefined;) {
                got.push(id);
            }
            if (got.length === count) {
                this.#askIfDue();
                return got;
            }
            const time = now();
            if (time >= deadline) {
                throw this.#fail(this.#journeys[0]?.unreachable() ?? copyOf(this.#unreachable),
                    got.length);
            }
            this.#askIfDue(true);
            if (this.#error !== undefined && time < this.#errorUntil) {
                throw this.#fail(copyOf(this.#error), got.length);
            }
            if (!waited) {
                waited = true;
                this.#core.counters.waits++;
            }
            this.#rate.wait(time);
            await this.#waiters.wait(deadline, Math.min(deadline, this.#secondAt(time)) - time);
            if (this.#waiters.last === -Infinity) {
                this.#rate.go(now());
            }
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
     * the last one is not forgotten yet. One that takes long gets a second one beside it, at the
     * next node; waits: there is a caller who is about to. */
    #askIfDue(waits = false) {
        const time = now();
        const fresh = this.#error !== undefined && time < this.#errorUntil;
        if (this.#journeys.length === 2 || !this.#buffer.wants || this.#closed || fresh) {
            return;
        }
        const first = this.#journeys.find((one) => one.wanted);
        if (first !== undefined && (!waits || time < this.#secondAt(time))) {
            return;
        }
        const core = this.#core;
        const { settings, ids: door } = core;
        if (first === undefined) {
            this.#rate.next(this.#buffer.taken, time, settings.coverMs, settings.minCount,
                settings.maxCount);
        } else {
            core.counters.hedges++;
        }
        this.#error = undefined;
        // A request goes on as long as somebody waits or ids are left; the first try has its time.
        const journey = new Journey(door, () => {
            if (this.#closed || !journey.wanted) {
                return -Infinity;
            }
            return this.#buffer.empty && !journey.isNew
                ? Math.max(this.#waiters.last, this.#wantedUntil) : Infinity;
        }, undefined, first);
        journey.onNodes = () => this.#waiters.wake(); // there may be a second node now
        journey.askedAt = time;
        journey.onRound = () => this.#tellFailure("unreachable");
        this.#journeys.push(journey);
        // Behind the caller: who asked waits first, and is counted.
        queueMicrotask(() => this.#ask(journey, this.#rate.size));
    }

    /** When a caller who waits may have a second node asked, or has to look again. */
    #secondAt(time) {
        const [first] = this.#journeys;
        if (!this.#buffer.empty || this.#journeys.length !== 1 || !first.wanted ||
            first.nodes.length === 1) {
            return Infinity;
        }
        return Math.min(first.askedAt, time) + this.#core.usual.patienceMs;
    }

    /** Where fewer ids are left below the tag's max, half as many are asked for, down to one. */
    async #ask(journey, size) {
        let [answer, failure] = [undefined, undefined];
        while (answer === undefined && failure === undefined) {
            try {
                answer = await this.#core.callForRanges(this.#known, size, journey,
                    { background: true });
            } catch (error) {
                if (error.code === "exhausted" && size > 1) {
                    size = Math.floor(size / 2);
                } else {
                    failure = error;
                }
            }
        }
        this.#journeys.splice(this.#journeys.indexOf(journey), 1);
        const other = this.#journeys.find((one) => one.wanted);
        if (answer !== undefined) {
            this.#take(answer, size, journey, other);
        } else if (journey.wanted && failure.code !== "closed") {
            this.#tellFailure(failure.code);
            if (failure.code === "unreachable") {
                this.#unreachable = failure;
            } else if (other === undefined || isFinal(failure)) {
                this.#error = failure;
                this.#errorUntil = now() + FORGET_MS;
            }
        }
        this.#waiters.wake();
    }

    #take(answer, size, journey, other) {
        const core = this.#core;
        const older = answer.generation >= 0n && answer.generation < this.#known.newest;
        if (this.#closed || older) {
            core.counters.burnt += size;
            return;
        }
        core.counters.burnt += this.#buffer.add(answer, !journey.wanted);
        this.#rate.go(now());
        this.#dropAged();
        if (this.#failing) {
            this.#failing = false;
            core.tell({ kind: "recovered", tag: this.tag });
        }
        if (journey.wanted) {
            this.#rate.size = size;
            if (other !== undefined) {
                other.wanted = false;
                core.ids.leave(other.node); // which is where the next request would begin
            }
        }
    }

    /** Once, until ids come again. */
    #tellFailure(code) {
        if (!this.#failing) {
            this.#failing = true;
            this.#core.tell({ kind: "refill_failed", tag: this.tag, code });
        }
    }

    #dropped(kind, ids) {
        if (ids > 0) {
            this.#core.counters.burnt += ids;
            this.#core.tell({ kind, tag: this.tag, ids });
        }
    }

    /** And again when the next range is due. */
    #dropAged() {
        const { maxAgeMs } = this.#core.settings;
        const time = now();
        this.#dropped("aged", this.#buffer.dropAged(time - maxAgeMs));
        const left = this.#buffer.askedAt + maxAgeMs - time;
        if (this.#ager === undefined && left < Infinity && !this.#closed) {
            this.#ager = setTimeout(() => {
                this.#ager = undefined;
                this.#dropAged();
            }, Math.ceil(left));
            this.#ager.unref();
        }
    }
}

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
        core.counters.waits++;
        try {
            this.checkOpen();
            const { ranges, replayed } = await core.callWithKey(key, deadline, (journey) =>
                core.callForRanges(this.#known, count, journey, { one: true, key }));
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
    #keyed = true;

    constructor(core, tag) {
        super();
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
            const reply = await core.call(core.ids, () => request, journey);
            return { texts: api.textsOf(reply, count), replayed: api.isReplayed(reply) };
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
    #heldName = ""; // under which the generator was acquired
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

    at(timeMs) {
        return api.at(this.#core.knownLayout(), timeMs);
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

    /** @internal */
    measure({ windowEndMs }) {
        if (this.#generator !== undefined) {
            windowEndMs.set(this.#heldName, this.#generator.untilMs);
        }
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
                    const ms = this.#generator.lastMs - core.wallMs();
                    if (ms > SMALL_STEP_MS && !waited.has("clock_waits")) {
                        core.tell({ kind: "clock_back", name: this.#heldName, ms });
                    }
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
        const request = () => {
            this.#heldName = this.#name ?? madeUpName();
            return api.acquireRequest(this.#heldName, windowMs);
        };
        const grant = api.grantOf(await core.call(door, request, new Journey(door, () => deadline),
            background));
        if (grant.layout !== null) {
            return { grant, layout: grant.layout };
        }
        // The node makes no snowflake ids itself. A renewal gives no new window, and its answer has
        // the layout, too.
        for (let asked = 1; asked < door.nodes.length; asked++) {
            door.current = after(door.nodes, door.current);
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
            this.#core.tell({ kind: "fenced", name: this.#heldName });
        } else if (failure.code !== "unreachable" && failure.code !== "closed") {
            this.#lost = failure;
            this.#lostTurn++;
            this.#renewIn(FORGET_MS);
        }
    }
}
