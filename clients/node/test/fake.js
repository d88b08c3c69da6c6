// A leafd for tests, on a real socket, that can be told to misbehave.
//
// A Cluster is what all nodes share: counters of tags, idempotency keys, worker ids with windows by
// a clock that tests set. A Node is an address. node.faults: what the next requests get, one each,
// before the node is itself again; node.always: what all get behind those. A fault is a function of
// ({node, request, answer, socket}), where answer() carries the request out and gives the bytes; it
// does with the socket what it likes.

import net from "node:net";

export const LAYOUT = { epoch_ms: 1288834974657, time_bits: 41, worker_bits: 10,
    sequence_bits: 12 };

export function reply(status, body = "", ...headers) {
    const text = typeof body === "string" ? body : JSON.stringify(body);
    const length = status === 204 ? [] : [`Content-Length: ${Buffer.byteLength(text)}`];
    return [`HTTP/1.1 ${status} Said`, ...headers, ...length].join("\r\n") + "\r\n\r\n" + text;
}

export function refusal(status, code, ...headers) {
    return reply(status, { status, code, message: `this is ${code}` }, ...headers);
}

/** These bytes, and nothing is carried out. */
export const answers = (data) => ({ socket }) => socket.write(data);
/** These, and the end of the connection. */
export const ends = (data) => ({ socket }) => socket.end(data);
export const closes = ({ socket }) => socket.destroy();
/** Carries it out, and nobody hears of it. */
export const loses = ({ answer, socket }) => {
    answer();
    socket.destroy();
};
/** The connection ends within the answer. */
export const halves = ({ answer, socket }) => socket.end(answer().slice(0, -3));
/** Carries it out, and says nothing. */
export const hangs = ({ answer }) => {
    answer();
};
/** A byte now and then. */
export const drips = ({ answer, socket, node }) => {
    const data = answer();
    let at = 0;
    const timer = setInterval(() => {
        socket.write(data[at++]);
        if (at === data.length) {
            clearInterval(timer);
        }
    }, 50);
    node.timers.push(timer);
    socket.on("close", () => clearInterval(timer));
};

export class Cluster {
    tags = new Map([["order", 1n], ["other", 1n]]);
    strict = new Map([["invoice", 1n]]);
    split = 1; // answers in so many ranges
    keys = new Map();
    workers = new Map(); // name: {id, epoch, until, released}
    shapes = new Map(); // tag: what is put before its numbers
    nowMs = () => Date.now();
    log = [];
    nodes = [];

    static async start(nodes = 1) {
        const cluster = new Cluster();
        for (let n = 0; n < nodes; n++) {
            cluster.nodes.push(await new Node(cluster).start());
        }
        return cluster;
    }

    get urls() {
        return this.nodes.map((node) => node.url);
    }

    faultAll(...faults) {
        this.nodes.forEach((node) => node.faults.push(...faults));
    }

    async stop() {
        await Promise.all(this.nodes.map((node) => node.stop()));
    }

    asked(method) {
        return this.log.filter(({ request }) => request.method === method)
            .map(({ request }) => request);
    }

    carryOut(node, request) {
        const tag = /^\/api\/segment\/get\/(.*)$/s.exec(request.path);
        if (tag) {
            return this.#ids(node, request, tag[1]);
        }
        const shaped = /^\/api\/segment\/decode\/(.*)$/s.exec(request.path);
        if (shaped) {
            return this.#decode(request, shaped[1]);
        }
        if (request.path === "/api/workers") {
            return this.#acquire(node, JSON.parse(request.body));
        }
        const worker = /^\/api\/workers\/([0-9]+)$/.exec(request.path);
        return worker ? this.#worker(node, request, Number(worker[1])) : refusal(404, "no_route");
    }

    #ids(node, request, tag) {
        const count = BigInt(request.options.count);
        const table = this.strict.has(tag) ? this.strict : this.tags;
        if (!table.has(tag)) {
            return refusal(404, "unknown_tag");
        }
        const asTexts = request.options.format === undefined;
        if (!asTexts && this.shapes.has(tag)) {
            return reply(400, { code: "bad_request", message: `tag ${tag} has a shape, so its ids ` +
                "are texts: format=range needs as=number" });
        }
        const key = request.headers["idempotency-key"];
        if (key !== undefined) {
            if (table === this.tags) {
                return refusal(400, "bad_key");
            }
            const known = this.keys.get(`${tag} ${key}`);
            if (known !== undefined) {
                return known.count !== count ? refusal(409, "idempotency_conflict")
                    : asTexts ? this.#texts(tag, known.first, count, "Idempotency-Replayed: true")
                    : reply(200, `${known.first} ${known.first + count - 1n}\n`,
                        "Idempotency-Replayed: true");
            }
            this.keys.set(`${tag} ${key}`, { first: table.get(tag), count });
        }
        const headers = node.generation === undefined ? []
            : [`Leafd-Generation: ${node.generation}`];
        if (asTexts) {
            table.set(tag, table.get(tag) + count);
            return this.#texts(tag, table.get(tag) - count, count);
        }
        let pieces = request.options.contiguous ? 1n : BigInt(this.split);
        let text = "";
        for (let left = count; left > 0n; pieces--) {
            const size = pieces > 1n ? (left > pieces ? left / pieces : 1n) : left;
            const first = table.get(tag);
            text += `${first} ${first + size - 1n}\n`;
            table.set(tag, first + size + (pieces > 1n ? 10n : 0n));
            left -= size;
        }
        return reply(200, text, ...headers);
    }

    #texts(tag, first, count, ...headers) {
        let lines = "";
        for (let id = first; id < first + count; id++) {
            lines += `${this.shapes.get(tag) ?? ""}${id}\n`;
        }
        return reply(200, lines, ...headers);
    }

    #decode(request, tag) {
        const prefix = this.shapes.get(tag);
        const { text } = request.options;
        if (prefix === undefined) {
            return refusal(409, "no_shape");
        }
        return !text.startsWith(prefix) || !/^[0-9]+$/.test(text.slice(prefix.length))
            ? refusal(400, "bad_id")
            : reply(200, { tag, id: text.slice(prefix.length), granted: true });
    }

    #granted(node, status, row, from) {
        return reply(status, { worker_id: row.id, epoch: row.epoch, from_ms: from,
            until_ms: row.until, layout: node.layout });
    }

    #acquire(node, body) {
        if (!this.workers.has(body.name)) {
            this.workers.set(body.name, { id: this.workers.size, epoch: 0, until: 0 });
        }
        const row = this.workers.get(body.name);
        const from = row.until;
        row.epoch++;
        row.until = Math.max(this.nowMs(), from) + body.window_ms;
        row.released = false;
        return this.#granted(node, 201, row, from);
    }

    #worker(node, request, id) {
        const row = [...this.workers.values()].find((one) => one.id === id);
        if (row === undefined) {
            return refusal(404, "unknown_worker");
        }
        const body = request.body === "" ? request.options : JSON.parse(request.body);
        if (Number(body.epoch) !== row.epoch || row.released) {
            return refusal(409, "fenced");
        }
        if (request.method === "DELETE") {
            row.until = Number(body.last_timestamp_ms) || row.until;
            row.released = true;
            return reply(204);
        }
        row.until = Math.max(row.until, this.nowMs() + body.window_ms);
        return this.#granted(node, 200, row, 0);
    }
}

class Node {
    faults = [];
    always = undefined;
    layout = LAYOUT;
    generation = undefined; // named in answers
    connections = 0;
    timers = [];
    #sockets = new Set();

    constructor(cluster) {
        this.cluster = cluster;
    }

    async start() {
        this.server = net.createServer((socket) => this.#serve(socket));
        await new Promise((resolve) => this.server.listen(0, "127.0.0.1", resolve));
        this.url = `http://127.0.0.1:${this.server.address().port}`;
        return this;
    }

    async stop() {
        this.timers.forEach(clearInterval);
        this.dropConnections();
        await new Promise((resolve) => this.server.close(resolve));
    }

    dropConnections() {
        this.#sockets.forEach((socket) => socket.destroy());
    }

    #serve(socket) {
        const who = ++this.connections;
        this.#sockets.add(socket);
        socket.on("close", () => this.#sockets.delete(socket));
        socket.on("error", () => {});
        let data = "";
        socket.setEncoding("latin1").on("data", (part) => {
            data += part;
            const end = data.indexOf("\r\n\r\n");
            const length = Number(/\r\ncontent-length: ([0-9]+)/i.exec(data)?.[1] ?? 0);
            if (end >= 0 && data.length >= end + 4 + length) {
                const text = Buffer.from(data.slice(end + 4), "latin1").toString();
                this.#serveOne(socket, data.slice(0, end), text, who);
                data = "";
            }
        });
    }

    #serveOne(socket, head, body, who) {
        const [line, ...rest] = head.split("\r\n");
        const [method, target] = line.split(" ");
        const url = new URL(target, "http://x");
        const request = { method, target, body, who, at: performance.now(),
            path: decodeURIComponent(url.pathname), options: Object.fromEntries(url.searchParams),
            headers: Object.fromEntries(rest.map((one) => one.split(": "))
                .map(([name, value]) => [name.toLowerCase(), value])) };
        this.cluster.log.push({ node: this, request });
        const fault = this.faults.shift() ?? this.always;
        const answer = () => this.cluster.carryOut(this, request);
        if (fault === undefined) {
            socket.write(answer());
        } else {
            fault({ node: this, request, answer, socket });
        }
    }
}
