// Snowflake ids, made in the process with a worker id that the cluster lends.
//
// The happy path: next() asks the generator; a third into the window it is renewed. Failure modes:
// past the window "window_over"; once the worker id is another's "fenced", and the next call acquires
// anew.

import { randomBytes } from "node:crypto";
import { hostname } from "node:os";
import * as api from "./api.js";
import { Endless, FORGET_MS, Waiters, now } from "./core.js";
import { LeafdError, copyOf } from "./errors.js";
import { Generator, SMALL_STEP_MS, WHY } from "./generator.js";
import { Journey, isOver } from "./journey.js";
import { COUNT_MAX, options, whole } from "./settings.js";

const CLOCK_LOOK_MS = 100; // how often a long wait for the clock looks at it

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
    #renewedAt = -Infinity; // when the last one was answered
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
        return this.#core.decode(id);
    }

    at(timeMs) {
        return this.#core.at(timeMs);
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

    /** The window is over: only a renewal helps, and none that follows another at once (a clock that
     * is ahead by more than a window). */
    async #waitRenewal(deadline) {
        if (isOver(deadline, now())) {
            throw this.#windowOver(this.#renewing === undefined
                ? "" : `; the renewal: ${this.#renewing.unreachable().message}`);
        }
        const turn = this.#lostTurn;
        if (now() - this.#renewedAt >= Math.min(FORGET_MS, this.#core.settings.windowMs / 3)) {
            this.#renewNow();
        }
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
            if (isOver(deadline, now())) {
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
        for (const node of door.route(door.current).slice(1)) {
            door.current = node;
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
        const released = core.call(core.admin,
            () => api.releaseRequest(generator.workerId, generator.epoch, lastMs),
            new Journey(core.admin, () => until)).catch(() => {});
        core.releases.add(released); // the client waits for it
        await released;
        core.releases.delete(released);
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
            this.#renewedAt = now();
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
