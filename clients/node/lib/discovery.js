// Learns the nodes of the cluster, their zones, weights and states, from one that is known.
//
// The happy path: look() before each round of a call; once AGAIN_MS have passed, the node that calls
// begin with is asked for the listing, and the doors take it. A door whose calls begin at a node of a
// worse tier than the listing has moves to a better one once that one has answered the same request.
// Failure modes: a node without an answer is left for the next; where all that answer do not know
// the request (404), they are older servers, and none is asked for OLDER_MS; whatever fails, calls go
// on with what is known. Only the first call waits, for a second at most. None of it is in the
// counters.

import * as api from "./api.js";

const AGAIN_MS = 5000;
const OLDER_MS = 60000;
const AFTER_FAILURES_MS = 1000;
const FIRST_WAIT_MS = 1000;

export class Discovery {
    #core;
    #doors;
    #asking = false;
    #askedAt = -Infinity;
    #againMs = AGAIN_MS;
    #first; // ends with the first listing, or with none
    #known = false; // it has ended

    /** The first door's nodes are asked. */
    constructor(core, doors) {
        this.#core = core;
        this.#doors = doors;
        doors.forEach((door) => { door.discovers = true; });
    }

    /** A round of the journey begins. */
    async look(journey, background) {
        const time = performance.now();
        const least = journey.rounds > 0 && this.#againMs === AGAIN_MS ? AFTER_FAILURES_MS
            : this.#againMs;
        if (!this.#asking && time - this.#askedAt >= least) {
            this.#asking = true;
            this.#askedAt = time;
            const listed = this.#ask();
            this.#first ??= listed;
            listed.then(() => { this.#known = true; }).then(() => this.#improve())
                .finally(() => { this.#asking = false; });
        }
        if (!this.#known) {
            const ms = Math.min(FIRST_WAIT_MS, (journey.deadline() - time) / 2);
            await this.#core.pause(ms, background, this.#first);
        }
    }

    /** Never fails. */
    async #ask() {
        const [first] = this.#doors;
        const { rows, older } = await this.#listing(first.route(first.current));
        this.#againMs = rows === undefined && older ? OLDER_MS : AGAIN_MS;
        if (rows === undefined) {
            return;
        }
        for (const door of this.#doors) {
            const known = new Set(door.names.map(({ host }) => host));
            door.list(rows);
            if (door.names.some(({ host }) => !known.has(host))) {
                // Nodes that are listed by name can be told apart once it is resolved.
                await this.#core.pause(this.#core.settings.connectMs, true,
                    this.#core.resolve(door));
            }
            door.begin();
        }
        this.#core.keepNodes();
    }

    async #improve() {
        for (const door of this.#doors) {
            const { node } = await this.#listing(door.better);
            if (node !== undefined) {
                door.moveTo(node);
            }
        }
    }

    /** {node, rows} of the first that gives a listing; older: one does not know the request */
    async #listing(nodes) {
        const { wire, settings } = this.#core;
        let older = false;
        for (const node of nodes) {
            try {
                const reply = await wire.exchange(node, api.NODES_REQUEST,
                    { connectMs: settings.connectMs,
                        withinMs: Math.max(1000, settings.attemptMs / 4) }, {});
                older ||= reply.status === 404;
                const rows = api.nodesOf(reply, node.secure);
                if (rows !== undefined) {
                    return { node, rows, older };
                }
            } catch {
                // the next one may know it
            }
        }
        return { older };
    }
}
