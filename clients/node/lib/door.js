// The nodes for one kind of requests, in tiers, and the one that calls begin with.
//
// The happy path: calls begin at `current`, one of the best tier that was drawn by weight, and keep to
// it. Failure modes: a call whose node fails goes by route(): through that node's tier, then through
// the others from the best one on; leave() has the next calls begin there. A node that is listed and
// no endpoint is asked for ids once it is proven (discovery.js).

import { isIP } from "node:net";

export const NODES_MAX = 64;
const LAST_TIER = 3; // also of an endpoint that no listing has

/** The node after this one, which is one of them. */
export function after(nodes, node) {
    return nodes[(nodes.indexOf(node) + 1) % nodes.length];
}

/** One of them, at random by weight; undefined: there is none. */
function drawn(nodes, weightOf) {
    const sum = nodes.reduce((all, one) => all + weightOf(one), 0);
    let left = Math.random() * sum;
    return nodes.find((one) => (left -= weightOf(one)) < 0) ?? nodes.at(-1);
}

/** The node of an address that is at one of the places that its name has. */
function nodeAt(address, place) {
    if (place === undefined) {
        return address;
    }
    if (address.srv === undefined) {
        return { ...address, of: address.url, ip: place, url: `${address.url} (${place})` };
    }
    const colon = place.lastIndexOf(":");
    return { secure: address.secure, host: place.slice(0, colon), port: Number(place.slice(colon + 1)),
        authority: place, of: address.url, url: `${address.secure ? "https" : "http"}://${place}` };
}

/** An endpoint, or a node that is listed, is as many nodes as its name has addresses; one whose name
 * was not resolved yet is one. */
export class Door {
    #listed = new Map(); // by the URL of an address
    #places = new Map(); // of names of hosts, and of URLs of SRV records, in order
    #began = false; // at a node of the best tier of the first listing

    /** forSnowflakes: it is for worker ids */
    constructor(addresses, count, tell = () => {}, forSnowflakes = false) {
        this.addresses = addresses;
        this.resolvedAt = -Infinity; // when a call last had names resolved
        this.discovers = false;
        this.foreign = new Map(); // nodes of another cluster, by their URL; discovery.js puts them there
        this.forSnowflakes = forSnowflakes;
        this.count = count;
        this.tell = tell;
        this.known = []; // also those that are not proven
        this.nodes = []; // which may be asked for ids
        this.#rebuild();
    }

    /** Its nodes are always the same. */
    get isFixed() {
        return this.names.length === 0 && !this.discovers;
    }

    /** These are all addresses of the host's name, at least one; or, for the URL of an SRV record, all
     * that are in it, as HOST:PORT. */
    found(name, places) {
        this.#places.set(name, [...new Set(places)].sort());
        this.#rebuild();
    }

    /** rows: {address, tier, weight, proven}, at most LISTED_MAX, instead of those before. A row that
     * is proven later is to be listed anew. */
    list(rows) {
        this.#listed = new Map(rows.map((row) => [row.address.url, row]));
        this.#rebuild();
    }

    #rebuild() {
        const given = new Set(this.addresses.map(({ url }) => url));
        const all = [...this.addresses, ...[...this.#listed.values()]
            .map(({ address }) => address).filter(({ url }) => !given.has(url))];
        this.names = all.filter(({ host, srv }) => srv !== undefined || isIP(host) === 0);
        for (const name of this.#places.keys()) {
            if (!this.names.some(({ host, url }) => name === host || name === url)) {
                this.#places.delete(name);
            }
        }
        const before = new Map(this.known.map((one) => [one.url, one]));
        const known = new Map(); // a record of an SRV name may be listed, too
        for (const address of all) {
            const name = address.srv === undefined ? address.host : address.url;
            for (const place of this.#places.get(name) ?? [undefined]) {
                const node = nodeAt(address, place);
                known.set(node.url, known.get(node.url) ?? before.get(node.url) ?? node);
            }
        }
        this.known = [...known.values()].slice(0, NODES_MAX);
        this.nodes = this.known.filter((one) => given.has(one.of ?? one.url) ||
            this.row(one).proven);
        if (!this.nodes.includes(this.current)) {
            this.current = drawn(this.#best(this.nodes), (one) => this.#weight(one));
        }
    }

    /** What the listing has of the node; undefined: nothing. */
    row(node) {
        return this.#listed.get(node.of ?? node.url) ?? this.#listed.get(node.url);
    }

    #tier(node) {
        return this.row(node)?.tier ?? LAST_TIER;
    }

    #weight(node) {
        return this.#tier(node) < LAST_TIER ? this.row(node).weight : 1;
    }

    /** Those of the best tier of these. */
    #best(nodes) {
        const best = Math.min(...nodes.map((one) => this.#tier(one)));
        return nodes.filter((one) => this.#tier(one) === best);
    }

    /** These in the order of their tiers, each of which begins at a node that is drawn by weight. The
     * first tier is that of the first, if there is one, and begins there. */
    #ordered(nodes, first) {
        const tiers = new Set([...first === undefined ? [] : [this.#tier(first)], 1, 2, LAST_TIER]);
        return [...tiers].flatMap((tier) => {
            const own = nodes.filter((one) => this.#tier(one) === tier);
            const at = own.indexOf(own.includes(first) ? first
                : drawn(own, (one) => this.#weight(one)));
            return [...own.slice(at), ...own.slice(0, at)];
        });
    }

    /** All nodes in the order in which a call asks them that begins at this one, which is one. */
    route(first) {
        return this.#ordered(this.nodes, first);
    }

    #peers(node) {
        return this.nodes.filter((one) => this.#tier(one) === this.#tier(node));
    }

    /** The next one of its tier, for a second request; undefined: there is none. One of another
     * cluster is none: the request would pass it, and come back to the node that is slow. */
    beside(node) {
        const nodes = this.#peers(node).filter((one) => one === node || !this.foreign.has(one.url));
        return nodes.length > 1 && nodes.includes(node) ? after(nodes, node) : undefined;
    }

    /** How many nodes share the time that its tier has; 0: there is no other tier. */
    sharers(node) {
        const { length } = this.#peers(node);
        return length === this.nodes.length ? 0 : length;
    }

    /** Nodes, proven or not, where calls should rather begin, in order: with the first listing those
     * up to the drawn one of the tier in which they begin, later those of better tiers. */
    get better() {
        const tier = this.#tier(this.current);
        const better = this.#ordered(this.known).filter((one) => this.#tier(one) < LAST_TIER &&
            (this.#tier(one) < tier || (!this.#began && this.#tier(one) === tier)));
        return better.includes(this.current) ? better.slice(0, better.indexOf(this.current)) : better;
    }

    /** Calls begin there, which is one of the better ones. With the first listing that is no change;
     * undefined: they begin where they did. */
    moveTo(node) {
        if (node !== undefined && this.nodes.includes(node)) {
            if (this.#began) {
                this.#prefer(node);
            } else {
                this.current = node;
            }
        }
        this.#began = true;
    }

    /** This node failed: the next call begins with the one after it. */
    leave(node, next = this.route(node).find((one) => one !== node)) {
        if (this.current === node && next !== node && this.nodes.includes(next)) {
            this.#prefer(next);
        }
    }

    #prefer(node) {
        const from = this.current.url;
        this.current = node;
        this.count("failovers");
        this.tell({ kind: "failover", from, to: node.url });
    }
}
