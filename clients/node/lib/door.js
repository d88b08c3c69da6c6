// The nodes for one kind of requests, in tiers, and the one that calls begin with.
//
// The happy path: calls begin at `current`, one of the best tier that was drawn by weight, and keep to
// it. Failure modes: a call whose node fails goes by route(): through that node's tier, then through
// the others from the best one on; leave() has the next calls begin there.

import { isIP } from "node:net";
import { ENDPOINTS_MAX } from "./settings.js";

const LAST_TIER = 4; // of an address that no listing has

/** The node after this one, which is one of them. */
export function after(nodes, node) {
    return nodes[(nodes.indexOf(node) + 1) % nodes.length];
}

/** An endpoint, or a node that is listed, is as many nodes as its name has addresses; one whose name
 * was not resolved yet is one. */
export class Door {
    #listed = new Map(); // by the URL of an address
    #ips = new Map(); // of names of hosts, in order
    #began = false; // at a node of the best tier of the first listing

    /** zone: whose nodes are the first tier; forSnowflakes: nodes that make none are in the third */
    constructor(addresses, count, tell = () => {}, { zone, forSnowflakes = false } = {}) {
        this.addresses = addresses;
        this.zone = zone;
        this.forSnowflakes = forSnowflakes;
        this.resolvedAt = -Infinity; // when a call last had names resolved
        this.discovers = false;
        this.count = count;
        this.tell = tell;
        this.nodes = [];
        this.#rebuild();
    }

    /** Its nodes are always the same. */
    get isFixed() {
        return this.names.length === 0 && !this.discovers;
    }

    /** These are all addresses of the host's name, at least one. */
    found(host, ips) {
        this.#ips.set(host, [...new Set(ips)].sort());
        this.#rebuild();
    }

    /** What a node lists: its nodes come before the endpoints. */
    list(rows) {
        this.#listed = new Map(rows.map((row) => [row.address.url, row]));
        this.#rebuild();
    }

    #rebuild() {
        const listed = [...this.#listed.values()].map(({ address }) => address);
        const all = [...listed, ...this.addresses.filter(({ url }) => !this.#listed.has(url))];
        this.names = all.filter(({ host }) => isIP(host) === 0);
        const old = new Map(this.nodes.map((one) => [one.url, one]));
        this.nodes = all.flatMap((address) => (this.#ips.get(address.host) ?? [undefined])
            .map((ip) => (ip === undefined ? address
                : { ...address, of: address.url, ip, url: `${address.url} (${ip})` })))
            .map((one) => old.get(one.url) ?? one).slice(0, ENDPOINTS_MAX);
        if (!this.nodes.includes(this.current)) {
            this.current = this.#drawn(this.#ofTier(this.#bestTier));
        }
    }

    #row(node) {
        return this.#listed.get(node.of ?? node.url);
    }

    #tier(node) {
        const row = this.#row(node);
        if (row === undefined) {
            return LAST_TIER;
        }
        if (!row.ready || row.weight === 0 || (this.forSnowflakes && !row.snowflake)) {
            return 3;
        }
        return this.zone === undefined || row.zone === this.zone ? 1 : 2;
    }

    #ofTier(tier) {
        return this.nodes.filter((one) => this.#tier(one) === tier);
    }

    get #bestTier() {
        return Math.min(...this.nodes.map((one) => this.#tier(one)));
    }

    /** One of them, at random by weight; by nothing where none has any. */
    #drawn(nodes) {
        const weights = nodes.map((one) => this.#row(one)?.weight ?? 0);
        const sum = weights.reduce((all, one) => all + one, 0);
        let left = Math.random() * sum;
        return sum === 0 ? nodes[Math.floor(Math.random() * nodes.length)]
            : nodes.find((_, at) => (left -= weights[at]) < 0) ?? nodes.at(-1);
    }

    /** All nodes in the order in which a call asks them that begins at this one, which is one. */
    route(first) {
        const tiers = [...new Set([this.#tier(first), 1, 2, 3, LAST_TIER])];
        return tiers.flatMap((tier, number) => {
            const nodes = this.#ofTier(tier);
            const at = nodes.indexOf(number === 0 ? first : this.#drawn(nodes));
            return [...nodes.slice(at), ...nodes.slice(0, at)];
        });
    }

    /** The next one of its tier, for a second request; undefined: there is none. */
    beside(node) {
        const nodes = this.#ofTier(this.#tier(node));
        return nodes.length > 1 && nodes.includes(node) ? after(nodes, node) : undefined;
    }

    /** How many nodes share the time that its tier has; 0: there is no other tier. */
    sharers(node) {
        const { length } = this.#ofTier(this.#tier(node));
        return length === this.nodes.length ? 0 : length;
    }

    /** The first listing is there: calls begin at a node of its best tier. */
    begin() {
        if (!this.#began) {
            this.#began = true;
            this.current = this.#drawn(this.#ofTier(this.#bestTier));
        }
    }

    /** Nodes of better tiers than that of the one which calls begin with, in order. */
    get better() {
        const tier = this.#tier(this.current);
        return this.#bestTier === tier ? [] : this.route(this.#drawn(this.#ofTier(this.#bestTier)))
            .filter((one) => this.#tier(one) < tier);
    }

    /** Calls begin there, if it is in a better tier than where they begin now. */
    moveTo(node) {
        if (this.nodes.includes(node) && this.#tier(node) < this.#tier(this.current)) {
            this.#prefer(node);
        }
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
