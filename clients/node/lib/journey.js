// The way of one call from node to node: which is asked next, and after which wait. It decides, and
// does nothing.
//
// The happy path: begin() takes the nodes, move() says try one, it answers. Failure modes: failed()
// goes to the next node, and after all of them to a wait that doubles; quota() waits and stays;
// past the deadline move() throws unreachable, or the quota's error; untrusted once no node of a
// round was trusted.

import * as api from "./api.js";
import { boundsOf } from "./buffer.js";
import { after } from "./door.js";
import { LeafdError } from "./errors.js";

const FIRST_WAIT_MS = 20;
const LONGEST_WAIT_MS = 1000;
// What a node has for an answer in the first round, or a quarter of attemptMs, if that is longer.
const FIRST_PATIENCE_MS = 1000;
const TIER_PATIENCE = 1.5;

const USUAL_LEAST_MS = 20;
const RESOLVE_AGAIN_MS = 30000;

/** Whether a deadline has come: a timer may fire a millisecond early. */
export function isOver(deadline, now) {
    return !(deadline - now >= 1);
}

/** How long an answer with ranges usually takes: a moving average. */
export class Usual {
    #averageMs;
    #firstMs; // before any was measured

    constructor(firstMs) {
        this.#firstMs = firstMs;
    }

    add(tookMs) {
        this.#averageMs = this.#averageMs === undefined ? tookMs
            : this.#averageMs + (tookMs - this.#averageMs) / 8;
    }

    /** After which a second node is asked, where a caller waits. */
    get patienceMs() {
        return 2 * (this.#averageMs === undefined ? this.#firstMs
            : Math.max(this.#averageMs, USUAL_LEAST_MS));
    }
}

const REMEMBERED = 64; // ranges

/** What a source knows of its tag from answers: whether ids are a step apart, the newest generation
 * of a node's data, and the last ranges. saw: given the generation of an answer that is not older */
export class Known {
    #given = []; // {generation, key, first, last}
    #at = 0; // of the oldest

    constructor(tag, saw = () => {}) {
        this.tag = tag;
        this.stepped = false;
        this.newest = -1n;
        this.highest = -1n; // id of that generation
        this.saw = saw;
    }

    /** What had come before a call began: its ids are above that. own: its key is the library's, and
     * nobody else knows it */
    mark(own) {
        return { generation: this.newest, above: this.highest, own };
    }

    /** one: all ids in one range */
    request(count, one, key) {
        return api.segmentRequest(this.tag, count,
            { contiguous: one && key === undefined, key, stepped: this.stepped });
    }

    /** Whether the error is that ids are a step apart, which the next request can take. */
    repeats(error, request) {
        if (error.code !== "stepped" || request.target.endsWith("&stepped=1")) {
            return false;
        }
        this.stepped = true;
        return true;
    }

    /** {ranges, generation, askedAt, replayed}; undefined: the node's data is older than another's
     * was, or its answer came before, and the journey goes on. mark: where ids rise */
    read(reply, count, request, { one, key, mark }, journey) {
        const ranges = api.rangesOf(reply, count, request.target.endsWith("&stepped=1"));
        if (one && ranges.length !== 1) {
            throw api.badAnswer(reply, "and not one range");
        }
        const answer = { ranges, generation: api.generationOf(reply), askedAt: journey.askedAt,
            replayed: api.isReplayed(reply) };
        return this.#takes(answer, ranges.map(boundsOf), key, mark, journey) ? answer : undefined;
    }

    /** {texts, replayed}; undefined: as of read(). Of each answer the first text is remembered. */
    readTexts(reply, count, key, journey) {
        const texts = api.textsOf(reply, count);
        const answer = { texts, generation: api.generationOf(reply), replayed: api.isReplayed(reply) };
        const bounds = [{ first: texts[0], last: texts[0] }];
        return this.#takes(answer, bounds, key, undefined, journey) ? answer : undefined;
    }

    /** bounds: [{first, last}] of what the answer has */
    #takes(answer, bounds, key, mark, journey) {
        const { generation } = answer;
        const why = generation >= 0n && generation < this.newest
            ? `its data is of generation ${generation}, and ${this.newest} was seen`
            : this.#repeated(answer, bounds, key, mark);
        if (why !== undefined) {
            journey.failed(why);
            return false;
        }
        if (generation > this.newest) {
            this.newest = generation;
            this.highest = -1n;
            this.saw(generation);
        }
        for (const { first, last } of bounds) {
            this.#given[this.#at] = { generation, key, first, last };
            this.#at = (this.#at + 1) % REMEMBERED;
            if (mark !== undefined && generation === this.newest && last > this.highest) {
                this.highest = last;
            }
        }
        return true;
    }

    /** Why an answer's ids are not new, as those of an answer that a cache or a proxy gives again. A
     * key gets its ids again. */
    #repeated({ generation, replayed }, bounds, key, mark) {
        const { first } = bounds[0];
        if (mark !== undefined && (mark.own || !replayed) && generation === mark.generation &&
            first <= mark.above) {
            return `its answer has id ${first}, and ${mark.above} came before it was asked for`;
        }
        const known = this.#given.filter((one) => one.generation === generation &&
            (key === undefined || one.key !== key));
        const again = bounds.find((range) =>
            known.some((one) => range.first <= one.last && range.last >= one.first));
        return again && `its answer has ids ${again.first} to ${again.last}, which came before`;
    }
}

export class Journey {
    /** deadline: asked each time; of a segment's request it lasts as long as somebody waits.
     * beside: one under way; this one begins at another node of the same tier, which there is */
    constructor(door, deadline, random = Math.random, beside = undefined) {
        this.door = door;
        this.deadline = deadline;
        this.tries = 0;
        this.random = random;
        this.begun = beside !== undefined; // this round, with the nodes of now
        // The one that is asked, or will be next.
        this.node = beside === undefined ? door.current : door.beside(beside.node);
        this.known = door.nodes;
        this.nodes = door.route(this.node); // of this round, in order
        this.askedAt = Infinity; // when it was; Infinity while none is
        this.wanted = true; // false: another journey brought what this one is for
        this.onRound = () => {}; // all nodes failed
        this.onNodes = () => {}; // they are others now
        this.abort = () => {}; // ends the attempt under way
        this.failedNow = 0; // in this round
        this.untrusted = 0; // of these by their certificate
        this.trusted = true; // false: not a node of a round, and no other round would change it
        this.rounds = 0; // that are over
        this.roundWaitMs = FIRST_WAIT_MS;
        this.leastMs = 0; // what Retry-After said in this round
        this.waitMs = 0;
        this.failures = new Map();
        this.quotaError = undefined;
    }

    /** No try of it has ended. */
    get isNew() {
        return this.failures.size === 0 && this.quotaError === undefined;
    }

    /** {looks, waits}: whether names are to be resolved before this round, and whether it waits. */
    looks(now) {
        const waits = this.rounds > 0 || this.door.resolvedAt === -Infinity;
        return { looks: waits || now - this.door.resolvedAt >= RESOLVE_AGAIN_MS, waits };
    }

    /** A round, with the nodes of now. */
    begin() {
        this.begun = true;
        this.node = this.door.current;
        this.nodes = this.door.route(this.node);
        if (this.known !== this.door.nodes) {
            this.known = this.door.nodes;
            const known = [...this.failures].filter(([node]) => this.nodes.includes(node));
            this.failures = known.length > 0 ? new Map(known) : this.failures;
            this.onNodes();
        }
    }

    /** {waitMs, node}: wait if waitMs > 0, else try the node. */
    move(now) {
        if (isOver(this.deadline(), now)) {
            throw this.unreachable();
        }
        if (!this.trusted) {
            throw new LeafdError("untrusted",
                `no node has a certificate that is trusted here (caFile); ${this.#told()}`);
        }
        if (this.waitMs > 0) {
            const waitMs = Math.min(this.waitMs, this.deadline() - now);
            this.waitMs = 0;
            this.askedAt = Infinity;
            return { waitMs, node: this.node };
        }
        const { foreign } = this.door;
        if (foreign.size > 0) {
            if (this.nodes.every(({ url }) => foreign.has(url))) {
                throw new LeafdError("other_cluster", `the nodes are of ${foreign.get(this.node.url)}: ` +
                    "ids of the two may be the same. If that is meant, make a new client; else correct " +
                    "endpoints");
            }
            if (foreign.has(this.node.url)) {
                this.failed(`it is of ${foreign.get(this.node.url)}`);
                return this.move(now);
            }
        }
        this.tries++;
        this.askedAt = now;
        return { waitMs: 0, node: this.node };
    }

    /** {connectMs, withinMs} of a try: what a new connection may take, without TLS, and all of it.
     * Both are longer in each round. A node that is silent leaves time for the others of the round,
     * and a tier that is silent is left after TIER_PATIENCE times as long as a node. */
    limits(settings, now) {
        const doubled = (first) => Math.min(first * 2 ** this.rounds, settings.attemptMs);
        const deadline = this.deadline();
        const leftMs = deadline === Infinity ? settings.deadlineMs : deadline - now;
        const attemptMs = doubled(Math.max(FIRST_PATIENCE_MS, settings.attemptMs / 4));
        const sharers = this.door.sharers(this.node) || 1;
        return { connectMs: doubled(settings.connectMs),
            withinMs: Math.min(attemptMs, attemptMs * TIER_PATIENCE / sharers,
                leftMs / (this.nodes.length - this.failedNow)) };
    }

    /** The node of the last move could not be reached, or answered 502, 503 or 504. */
    failed(why, retryAfterMs = 0, untrusted = false) {
        this.untrusted += untrusted ? 1 : 0;
        this.failures.set(this.node, why);
        this.quotaError = undefined;
        const next = after(this.nodes, this.node);
        this.door.leave(this.node, next);
        this.node = next;
        this.leastMs = Math.max(this.leastMs, retryAfterMs);
        if (++this.failedNow === this.nodes.length) {
            this.#wait(this.leastMs);
            this.trusted = this.untrusted < this.failedNow;
            this.failedNow = 0;
            this.untrusted = 0;
            this.rounds++;
            this.begun = this.door.isFixed || !this.trusted;
            this.leastMs = 0;
            this.onRound();
        }
    }

    /** The node of the last move answered 429 quota: it is asked again. */
    quota(error, retryAfterMs) {
        this.quotaError = error;
        this.#wait(retryAfterMs);
    }

    /** After a round, or a quota. */
    #wait(leastMs) {
        this.waitMs = Math.max(this.roundWaitMs * (1 + this.random()) / 2, leastMs);
        this.roundWaitMs = Math.min(this.roundWaitMs * 2, LONGEST_WAIT_MS);
    }

    unreachable() {
        if (this.quotaError !== undefined) {
            return this.quotaError;
        }
        return new LeafdError("unreachable",
            `no node answered by the deadline; ${this.#told() || "none was asked in time"}`);
    }

    #told() {
        return [...this.failures].map(([{ url }, why]) => `${url}: ${why}`).join("; ");
    }
}
