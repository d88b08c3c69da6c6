// Snowflake ids under one worker id, without a network and with the clock as a parameter.
//
// One rule makes them unique: an id carries a time t with fromMs < t <= untilMs, and a sequence
// that was not used in t before. It is a rule about the number in the id, and not about the moment
// at which it is made: a process that is stopped anywhere does no harm.

import { randomInt } from "node:crypto";

export const SMALL_STEP_MS = 5; // a clock that goes back by so little is waited for

/** What keeps the next id. */
export const WHY = { CLOCK: "clock", WINDOW: "window", END: "end" };

export class Generator {
    /** lastMs: the highest time used, or fromMs; left: sequences of it that were not used */
    constructor(grant, layout, wallMs = Date.now, below = randomInt) {
        this.workerId = grant.workerId;
        this.epoch = grant.epoch;
        this.fromMs = grant.fromMs;
        this.untilMs = grant.untilMs;
        this.layout = layout;
        this.lastMs = Math.max(grant.fromMs, layout.epochMs);
        this.left = 0;
        this.at = 0n; // the next id, while left > 0
        this.taken = 0; // ids of milliseconds before
        this.size = 0; // ids that this millisecond had
        this.why = undefined; // what kept the last step() from an id
        this.waitMs = 0; // with WHY.CLOCK: until it can show a time that may be used
        this.wallMs = wallMs;
        this.below = below;
        this.sequences = 2 ** layout.sequenceBits;
        this.shift = BigInt(layout.workerBits + layout.sequenceBits);
        this.worker = BigInt(grant.workerId) << BigInt(layout.sequenceBits);
    }

    /** A renewal was acknowledged. */
    extend(untilMs) {
        this.untilMs = Math.max(this.untilMs, untilMs);
    }

    get used() {
        return this.taken + this.size - this.left;
    }

    /** The highest time used; undefined: none was. */
    get usedMs() {
        return this.used > 0 ? this.lastMs : undefined;
    }

    /** The next id, or undefined: see why. */
    step() {
        const now = this.wallMs();
        if (now > this.lastMs) {
            if (now > this.untilMs) {
                this.why = WHY.WINDOW;
                return undefined;
            }
            if (now - this.layout.epochMs >= 2 ** this.layout.timeBits) {
                this.why = WHY.END;
                return undefined;
            }
            this.#open(now);
        }
        const behindMs = this.lastMs - now;
        if (behindMs > 0 && behindMs <= SMALL_STEP_MS) {
            this.why = WHY.CLOCK;
            this.waitMs = behindMs;
            return undefined;
        }
        if (this.left === 0) {
            this.why = WHY.CLOCK;
            this.waitMs = behindMs + 1;
            return undefined;
        }
        this.left--;
        const id = this.at;
        this.at = id + 1n;
        return id;
    }

    /** Begin a millisecond: anywhere, for even lowest digits; at 0 when the one before was used up. */
    #open(now) {
        const full = now === this.lastMs + 1 && this.size > 0 && this.left === 0;
        const first = full ? 0 : this.below(this.sequences);
        this.taken += this.size - this.left;
        this.size = this.left = this.sequences - first;
        this.at = (BigInt(now - this.layout.epochMs) << this.shift) | this.worker | BigInt(first);
        this.lastMs = now;
    }
}
