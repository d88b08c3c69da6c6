// What a segment source holds: a range that is handed out, and a spare one.
//
// A range is handed out in pieces, so that the path of an id has nothing to compare but left: the
// end of a piece is where the owner looks whether to ask for more. The first half is one piece, the
// rest are PIECES.

const PIECES = 8;

/** Of a range, as the program gets it. */
export function boundsOf({ first, size, step }) {
    return { first, last: first + BigInt(size - 1) * step, increment: step };
}

/** The pieces {first, size, step, past} of ranges {first, size, step}, in order; past: with its
 * first id less than half is left. */
export function cut(ranges) {
    const total = ranges.reduce((sum, one) => sum + one.size, 0);
    let half = Math.floor(total / 2);
    const size = Math.max(1, Math.ceil((total - half) / PIECES));
    const pieces = [];
    for (const range of ranges) {
        const front = Math.min(range.size, half);
        half -= front;
        if (front > 0) {
            pieces.push({ first: range.first, size: front, step: range.step, past: false });
        }
        for (let at = front; at < range.size; at += size) {
            pieces.push({ first: range.first + BigInt(at) * range.step,
                size: Math.min(size, range.size - at), step: range.step, past: true });
        }
    }
    return pieces;
}

/** How many ids to ask for, when so many were taken since the last request, for before ids. */
export function nextSize(before, taken, elapsedMs, coverMs, low, high) {
    const rate = elapsedMs > 0 ? taken * coverMs / elapsedMs : Infinity;
    const wanted = Math.max(Math.round(Math.max(rate, before / 2)), low);
    return Math.min(wanted, before * 2, high);
}

/** How many ids to ask for: what was taken since the last request, by the time in which there were
 * ids to take. Times are those of the monotonic clock, in ms. */
export class Rate {
    size = 0; // of the last request
    #taken = 0; // at that time
    #at = 0;
    #waitedMs = 0; // since then, with nothing held
    #waitsSince = undefined;

    /** A caller waits, and nothing is held. */
    wait(time) {
        this.#waitsSince ??= time;
    }

    /** There are ids again, or nobody waits for them. */
    go(time) {
        if (this.#waitsSince !== undefined) {
            this.#waitedMs += time - this.#waitsSince;
            this.#waitsSince = undefined;
        }
    }

    /** taken: how many were handed out, ever */
    next(taken, time, coverMs, low, high) {
        const waits = this.#waitsSince !== undefined;
        this.go(time);
        this.size = this.size === 0 ? low : nextSize(this.size, taken - this.#taken,
            time - this.#at - this.#waitedMs, coverMs, low, high);
        this.#taken = taken;
        this.#at = time;
        this.#waitedMs = 0;
        if (waits) {
            this.wait(time);
        }
        return this.size;
    }
}

const sizeOf = (ranges) => ranges.reduce((sum, one) => sum + one.size, 0);

/** Answers are {ranges, generation, askedAt}; generation: -1n where the node named none. */
export class IdBuffer {
    left = 0; // of the piece
    at = 0n; // its next id
    step = 1n; // to the one after it
    #pieces = [];
    #front = undefined; // what the pieces are of
    #spare = undefined;
    #pastHalf = true;
    #loaded = 0; // ids of all pieces so far, the present one included
    #highest = -1n; // first id of the last range that was added

    /** An answer came. How many ids are not taken, all or none: there is no room; or it is late, and
     * below those of the answer that was taken in its place. */
    add(answer, late = false) {
        if (this.#spare !== undefined || (late && answer.ranges[0].first < this.#highest)) {
            return sizeOf(answer.ranges);
        }
        this.#spare = answer;
        this.#highest = answer.ranges.at(-1).first;
        return 0;
    }

    /** The piece is used up: take the next one; false: there is none. */
    advance() {
        if (this.left > 0) {
            return true;
        }
        if (this.#pieces.length === 0) {
            this.#front = this.#spare;
            if (this.#spare === undefined) {
                return false;
            }
            this.#pieces = cut(this.#spare.ranges).reverse();
            this.#spare = undefined;
            this.#pastHalf = false;
        }
        const piece = this.#pieces.pop();
        this.#pastHalf ||= piece.past;
        this.#loaded += piece.size;
        this.at = piece.first;
        this.step = piece.step;
        this.left = piece.size;
        return true;
    }

    /** The next id, or undefined. */
    take() {
        if (this.left === 0 && !this.advance()) {
            return undefined;
        }
        this.left--;
        const id = this.at;
        this.at = id + this.step;
        return id;
    }

    /** Whether it is time to ask for more. */
    get wants() {
        return this.#spare === undefined && this.#pastHalf;
    }

    /** How many ids are held. */
    get held() {
        return this.left + sizeOf(this.#pieces) + sizeOf(this.#spare?.ranges ?? []);
    }

    get empty() {
        return this.left === 0 && this.#pieces.length === 0 && this.#spare === undefined;
    }

    /** How many ids were handed out, ever. */
    get taken() {
        return this.#loaded - this.left;
    }

    /** When the oldest range that is held was asked for; Infinity: none is held. */
    get askedAt() {
        const used = this.left === 0 && this.#pieces.length === 0;
        return Math.min(used ? Infinity : this.#front.askedAt, this.#spare?.askedAt ?? Infinity);
    }

    /** Drop everything; how many ids that were. */
    burn() {
        return this.#drop(() => true);
    }

    /** Drop what was asked for by then; how many ids that were. */
    dropAged(askedBy) {
        return this.#drop((answer) => answer.askedAt <= askedBy);
    }

    /** Drop what a node of an older generation granted; how many ids that were. */
    dropOlder(generation) {
        return this.#drop((answer) => answer.generation >= 0n && answer.generation < generation);
    }

    #drop(isGone) {
        let dropped = 0;
        if (this.#front !== undefined && isGone(this.#front)) {
            dropped += this.left + sizeOf(this.#pieces);
            this.#loaded -= this.left;
            this.left = 0;
            this.#pieces = [];
            this.#front = undefined;
            this.#pastHalf = true;
        }
        if (this.#spare !== undefined && isGone(this.#spare)) {
            dropped += sizeOf(this.#spare.ranges);
            this.#spare = undefined;
        }
        return dropped;
    }
}
