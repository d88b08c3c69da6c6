// What a segment source holds: a range that is handed out, and a spare one.
//
// A range is handed out in pieces, so that the path of an id has nothing to compare but left: the
// end of a piece is where the owner looks whether to ask for more. The first half is one piece, the
// rest are PIECES.

const PIECES = 8;

/** The pieces {first, size, past} of an answer, in order; past: with its first id less than half is
 * left. */
export function cut(ranges) {
    const total = ranges.reduce((sum, one) => sum + one.size, 0);
    let half = Math.floor(total / 2);
    const size = Math.max(1, Math.ceil((total - half) / PIECES));
    const pieces = [];
    for (const range of ranges) {
        const front = Math.min(range.size, half);
        half -= front;
        if (front > 0) {
            pieces.push({ first: range.first, size: front, past: false });
        }
        for (let at = front; at < range.size; at += size) {
            pieces.push({ first: range.first + BigInt(at), size: Math.min(size, range.size - at),
                past: true });
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

export class IdBuffer {
    left = 0; // of the piece
    at = 0n; // its next id
    #pieces = [];
    #spare = undefined;
    #pastHalf = true;
    #loaded = 0; // ids of all pieces so far, the present one included

    /** An answer came; there must be no spare one. */
    add(ranges) {
        if (this.#spare !== undefined) {
            throw new Error("two requests at once");
        }
        this.#spare = ranges;
    }

    /** The piece is used up: take the next one; false: there is none. */
    advance() {
        if (this.left > 0) {
            return true;
        }
        if (this.#pieces.length === 0) {
            if (this.#spare === undefined) {
                return false;
            }
            this.#pieces = cut(this.#spare).reverse();
            this.#spare = undefined;
            this.#pastHalf = false;
        }
        const piece = this.#pieces.pop();
        this.#pastHalf ||= piece.past;
        this.#loaded += piece.size;
        this.at = piece.first;
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
        this.at = id + 1n;
        return id;
    }

    /** Whether it is time to ask for more. */
    get wants() {
        return this.#spare === undefined && this.#pastHalf;
    }

    get empty() {
        return this.left === 0 && this.#pieces.length === 0 && this.#spare === undefined;
    }

    /** How many ids were handed out, ever. */
    get taken() {
        return this.#loaded - this.left;
    }

    /** Drop everything; how many ids that were. */
    burn() {
        let burnt = this.left;
        for (const one of [...this.#pieces, ...(this.#spare ?? [])]) {
            burnt += one.size;
        }
        this.#loaded -= this.left;
        this.left = 0;
        this.#pieces = [];
        this.#spare = undefined;
        this.#pastHalf = true;
        return burnt;
    }
}
