// Ids of a tag from ranges that are in the process; the next range is asked for in time.
//
// The happy path: next() takes from the range at hand. Failure modes: with both ranges used up a call
// waits, until its deadline.

import { IdBuffer, Rate, boundsOf } from "./buffer.js";
import { Endless, FORGET_MS, Waiters, now } from "./core.js";
import { LeafdError, copyOf, isFinal } from "./errors.js";
import { Journey, Known, isOver } from "./journey.js";
import { COUNT_MAX, options, whole } from "./settings.js";

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
    #pausedAt = -Infinity; // when a node said last that the tag is
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
            this.#dropPaused(error);
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
            if (isOver(deadline, time)) {
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

    /** What is held of a tag that is paused, or was asked for by now, is handed out no more. */
    #dropPaused({ code }) {
        if (code === "paused") {
            this.#pausedAt = now();
            this.#core.counters.burnt += this.#buffer.burn();
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
            this.#core.ids.beside(first.node) === undefined) {
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
        this.#dropPaused(failure ?? {});
        if (answer !== undefined) {
            this.#take(answer, size, journey, other);
        } else if (journey.wanted && failure.code !== "closed") {
            this.#tellFailure(failure.code);
            if (failure.code === "unreachable" || failure.code === "quota") {
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
        if (this.#closed || older || answer.askedAt <= this.#pausedAt) {
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
