// Learns the nodes of the cluster, their zones, weights and states, from one that is known.
//
// The happy path: look() before each round of a call; once AGAIN_MS have passed, the node that calls
// begin with is asked for the listing, and the doors take it. A door whose calls begin at a node of a
// worse tier than the listing has moves to a better one once that one has answered the same request.
// So has each node that is listed before it is asked for ids: an address may lead to another cluster.
// Failure modes: a node without an answer is left for the next; where all that answer do not know
// the request (404), they are older servers, and none is asked for OLDER_MS; a node of another cluster
// than the first listing's gets no other request; whatever fails, calls go on with what is known. Only the first call waits, as long as one attempt may take. None of it is in the
// counters.

import * as api from "./api.js";
import { NODES_MAX } from "./door.js";

const AGAIN_MS = 5000;
const OLDER_MS = 60000;
const AFTER_FAILURES_MS = 1000;
const LISTED_MAX = 48;
const UID_MAX = 64;

const keyOf = ({ id, address }) => `${id} ${address.url}`;

export class Discovery {
    #core;
    #doors;
    #asking = false;
    #askedAt = -Infinity;
    #againMs = AGAIN_MS;
    #first; // ends once the first listing was taken, or there was none
    #known = false; // it has ended
    #found; // the last listing: {self, uid, rows}
    #uid; // of the client's cluster: that of the first listing which had one
    #told = false; // that another has another
    #foreign = new Map(); // nodes whose last listing has another, by URL: of which cluster they are
    #proven = new Set(); // nodes by number and address
    #answered = new Set(); // of these, since the last listing

    /** The first door's nodes are asked. */
    constructor(core, doors) {
        this.#core = core;
        this.#doors = doors;
        doors.forEach((door) => {
            door.discovers = true;
            door.foreign = this.#foreign;
        });
    }

    /** What one request may take. */
    get #attemptMs() {
        return Math.max(1000, this.#core.settings.attemptMs / 4);
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
            listed.then(() => { this.#known = true; }).then(() => this.#proveOthers())
                .finally(() => { this.#asking = false; });
        }
        if (!this.#known) {
            const ms = Math.min(this.#attemptMs, (journey.deadline() - time) / 2);
            await this.#core.pause(ms, background, this.#first);
        }
    }

    /** Ends with the door's calls at the nodes where they belong; never fails. */
    async #ask() {
        const [first] = this.#doors;
        let [found, older] = [undefined, false];
        for (const node of first.route(first.current)) {
            const reply = await this.#exchange(node);
            older ||= reply?.status === 404;
            found = this.#listing(node, reply);
            if (found !== undefined) {
                this.#uid ??= found.uid;
                const own = found.rows.get(found.self);
                if (own !== undefined && [node.of, node.url].includes(own.address.url)) {
                    this.#proven.add(keyOf(own));
                }
                break;
            }
        }
        this.#againMs = found === undefined && older ? OLDER_MS : AGAIN_MS;
        if (found === undefined && !older) {
            return;
        }
        this.#found = found;
        this.#answered.clear();
        // One that was gone has to be proven anew.
        const keys = new Set([...found?.rows.values() ?? []].map(keyOf));
        this.#proven = new Set([...this.#proven].filter((key) => keys.has(key)));
        this.#list();
        if (found === undefined) {
            return;
        }
        for (const door of this.#doors) {
            // Nodes that are listed by name can be told apart once it is resolved.
            if (door.names.length > 0) {
                await this.#core.pause(this.#core.settings.connectMs, true,
                    this.#core.resolve(door));
            }
            let better;
            for (const node of door.better) {
                if (await this.#prove(door, node)) {
                    better = node;
                    break;
                }
            }
            door.moveTo(better);
        }
        this.#core.keepNodes();
    }

    /** The others are proven, too, before they are needed. */
    async #proveOthers() {
        await Promise.all(this.#doors.flatMap((door) => door.known
            .filter((node) => door.row(node)?.proven === false)
            .map((node) => this.#prove(door, node))));
    }

    /** Whether the node is the one that is listed: it knows its own number, and the address of the
     * node that listed it. */
    async #prove(door, node) {
        const { self, rows } = this.#found;
        const row = door.row(node);
        if (this.#answered.has(keyOf(row))) {
            return true; // for another door
        }
        const reply = await this.#exchange(node);
        const listing = this.#listing(node, reply);
        const lister = listing?.rows.get(self);
        if (listing?.self !== row.id || lister === undefined ||
            lister.address.url !== rows.get(self)?.address.url) {
            return false;
        }
        this.#answered.add(keyOf(row));
        if (!row.proven) {
            this.#proven.add(keyOf(row));
            this.#list();
        }
        return true;
    }

    /** What the node answered; undefined: no listing, or one of another cluster. */
    #listing(node, reply) {
        const listing = reply && api.listingOf(reply, node.secure);
        if (listing === undefined) {
            return undefined;
        }
        const { uid } = listing;
        this.#foreign.delete(node.url);
        if (uid === undefined || this.#uid === undefined || uid === this.#uid) {
            return listing;
        }
        if (this.#foreign.size === NODES_MAX) {
            this.#foreign.delete(this.#foreign.keys().next().value); // the oldest
        }
        this.#foreign.set(node.url,
            `cluster ${uid.slice(0, UID_MAX)}, and this client's is ${this.#uid}`);
        if (!this.#told) {
            this.#told = true;
            this.#core.tell({ kind: "other_cluster", from: node.url });
        }
        return undefined;
    }

    /** Gives the doors what was found, with tiers of each. */
    #list() {
        for (const door of this.#doors) {
            const rows = [...this.#found?.rows.values() ?? []].map((row) => ({ ...row,
                tier: this.#tierOf(row, door.forSnowflakes), proven: this.#proven.has(keyOf(row)) }));
            door.list(rows.sort((one, two) => one.tier - two.tier).slice(0, LISTED_MAX));
        }
    }

    /** 1: of the zone, or of any without one; 2: of another; 3: only when all else failed */
    #tierOf({ ready, weight, snowflake, zone }, forSnowflakes) {
        if (!ready || weight === 0 || (forSnowflakes && !snowflake)) {
            return 3;
        }
        const own = this.#core.settings.zone;
        return own === undefined || zone === own ? 1 : 2;
    }

    /** The node's answer; undefined: there is none. */
    async #exchange(node) {
        const { wire, settings } = this.#core;
        try {
            return await wire.exchange(node, api.NODES_REQUEST, { connectMs: settings.connectMs,
                withinMs: this.#attemptMs }, {});
        } catch {
            return undefined;
        }
    }
}
