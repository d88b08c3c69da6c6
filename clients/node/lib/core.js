// What the sources of a client share: calls to nodes, with their retries and second requests.
//
// The happy path: call() has a Journey say which node is asked, and gives its reply. Failure modes:
// those of Journey, as a LeafdError. Nothing here is shown to the program.

import { lookup, resolveSrv } from "node:dns/promises";
import * as api from "./api.js";
import { Discovery } from "./discovery.js";
import { Door } from "./door.js";
import { LeafdError, badSetting, isFinal } from "./errors.js";
import { Journey, Usual, isOver } from "./journey.js";
import { MS_MAX, whole } from "./settings.js";
import { newCounters } from "./stats.js";
import { Failed, Wire, later } from "./wire.js";

// The node, or a proxy that gets no answer from it: another node is asked.
const AWAY = new Set([502, 503, 504]);
const TIMER_MAX_MS = 2 ** 31 - 1;
/** For how long an error of a background request holds. */
export const FORGET_MS = 1000;

export const now = () => performance.now();

/** What sources share inside: never shown to the program. */
export class Core {
    /** emit: gives the program an event */
    constructor(settings, wallMs, emit) {
        this.emit = emit;
        this.settings = settings;
        this.wallMs = wallMs;
        this.counters = newCounters();
        const count = (name) => this.counters[name]++;
        const tell = (event) => this.tell(event);
        this.ids = new Door(settings.endpoints, count, tell);
        this.admin = new Door(settings.adminEndpoints, count, tell, true);
        this.usual = new Usual(settings.connectMs);
        this.wire = new Wire(settings);
        this.lookups = new Map(); // of names of hosts, under way
        this.layout = undefined;
        this.sources = new Set();
        this.releases = new Set(); // of worker ids, under way: promises
        this.closing = undefined; // a promise, once close() was called: no more sources are made
        this.closed = false;
        this.pauses = new Set();
        // Other admin endpoints are of another listener, which no listing has.
        this.discovery = settings.discover ? new Discovery(this, settings.adminEndpoints ===
            settings.endpoints ? [this.ids, this.admin] : [this.ids]) : undefined;
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

    decode(id) {
        const number = typeof id === "string" && /^[0-9]{1,19}$/.test(id) ? BigInt(id) : id;
        if (typeof number !== "bigint" || number < 0n || number > api.ID_MAX) {
            throw badSetting("id", id, `a BigInt from 0 to ${api.ID_MAX}`);
        }
        return api.decode(this.#knownLayout(), number);
    }

    at(timeMs) {
        return api.at(this.#knownLayout(), timeMs);
    }

    #knownLayout() {
        if (this.layout === undefined) {
            throw this.fail(new LeafdError("layout_unknown",
                "a snowflake source learns the layout with its first id"));
        }
        return this.layout;
    }

    checkOpen() {
        if (this.closing !== undefined) {
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
    #lookUp({ url, host, srv }) {
        const found = srv === undefined
            ? async () => (await lookup(host, { all: true })).map(({ address }) => address)
            : async () => (await resolveSrv(srv)).map(({ name, port }) => `${name}:${port}`);
        if (!this.lookups.has(url)) {
            this.lookups.set(url, found().then((places) => {
                for (const door of places.length > 0 ? [this.ids, this.admin] : []) {
                    door.found(srv === undefined ? host : url, places);
                }
                this.keepNodes();
            }).catch(() => {}) // what was known stays
                .finally(() => this.lookups.delete(url)));
        }
        return this.lookups.get(url);
    }

    /** A round, after names were resolved where that is due. */
    async #begin(journey, background) {
        const { door } = journey;
        await this.discovery?.look(journey, background);
        const time = now();
        const { looks, waits } = journey.looks(time);
        if (looks && door.names.length > 0) {
            const done = this.resolve(door);
            if (waits) {
                await this.pause(Math.min(this.settings.connectMs, journey.deadline() - time),
                    background, done);
            }
            door.resolvedAt = time;
        }
        journey.begin();
    }

    /** Ends once the addresses of all its names, or that there are none, are known. */
    resolve(door) {
        return Promise.all(door.names.map((one) => this.#lookUp(one)));
    }

    /** Idle connections to nodes that are known no more are closed. */
    keepNodes() {
        this.wire.keep([...this.ids.known, ...this.admin.known]);
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
            if (AWAY.has(error.status)) {
                journey.failed(`${error.code} (${error.status}): ${error.message}`, api.retryAfterMs(reply));
            } else if (error.status === 429 && error.code === "quota") {
                journey.quota(error, api.retryAfterMs(reply));
            } else {
                if (error.status >= 300 && error.code === "bad_answer") {
                    door.leave(move.node); // it is no leafd: the next call begins elsewhere
                }
                throw error;
            }
        }
    }

    /** What a source asks for ids, as of Known: {ranges, generation, askedAt, replayed}; one: in one
     * range. */
    async callForRanges(known, count, journey, { background = false, ...how } = {}) {
        for (;;) {
            const request = known.request(count, how.one, how.key);
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
            const answer = known.read(reply, count, request, how, journey);
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
        let [failed, over, timer] = [0, false, { cancel() {} }];
        return new Promise((resolve, reject) => {
            const end = (settle, value) => {
                over = true;
                timer.cancel();
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
                timer.cancel();
                if (over || failed > 0 || journeys.length > 1 ||
                    door.beside(journeys[0].node) === undefined) {
                    return;
                }
                const left = Math.min(journeys[0].askedAt, now()) + this.usual.patienceMs - now();
                if (left > 0) {
                    timer = later(Math.ceil(left), look);
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
                const { quotaError, failures } = journey;
                const cut = isOver(journey.deadline(), now()); // short: what was before says more
                const before = cut ? failures.get(journey.node) : undefined;
                journey.failed(before ?? error.message, 0, error.untrusted);
                if (cut) {
                    journey.quotaError = quotaError;
                }
            }
            return undefined;
        }
    }
}

/** Those who wait for something, each by a deadline. */
export class Waiters {
    #all = new Set();

    /** Ends at the deadline, or when woken. */
    wait(deadline, ms = deadline - now()) {
        return new Promise((resolve) => {
            const waiter = { deadline, wake: () => {
                timer.cancel();
                this.#all.delete(waiter);
                resolve();
            } };
            const timer = later(Math.ceil(ms), waiter.wake);
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

/** What segment and snowflake sources have in common for `for await`. */
export class Endless {
    [Symbol.asyncIterator]() {
        return { next: async () => ({ value: await this.next(), done: false }) };
    }
}
