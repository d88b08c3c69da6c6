// Requests over Node's own http and https, each within a time that holds for all of it. The happy
// path: exchange() sends, and gives the whole reply. Failure modes: Failed for whatever breaks, a
// time that is over included; LeafdError bad_answer for one that is too long. A connection that the
// server closed while it was idle is opened again at once: nobody has seen that request.

import http from "node:http";
import https from "node:https";
import { LeafdError } from "./errors.js";

const VERSION = "0.2.0";
// Connections to each node. More requests at once wait for one: a thousand sources that begin
// together would else keep this thread busy with connections, until all had taken too long.
const OPEN_MAX = 32;
const IDLE_MAX = 8; // open connections that wait for a request, for each node
const SHARED = { keepAlive: true, maxSockets: OPEN_MAX, maxFreeSockets: IDLE_MAX,
    autoSelectFamily: true, scheduling: "lifo" };
const HEAD_MAX_BYTES = 16384;
const BODY_MAX_BYTES = 1 << 20; // leafd's answers to what is asked here have some 4 KiB at most

/** The node could not be reached, or its answer broke off. */
export class Failed extends Error {
    /** untrusted: the node's certificate is not trusted, and nothing was sent. */
    constructor(message, untrusted = false) {
        super(message);
        this.untrusted = untrusted;
    }
}

class Stale extends Error {}

export class Wire {
    #settings;
    #plain;
    #secure;
    #shown; // what the agent of TLS trusts and shows
    #running = new Set();
    #closed = false;

    constructor(settings) {
        this.#settings = settings;
        this.#plain = new http.Agent(SHARED);
        this.#renew();
    }

    /** Connections that were opened with earlier files end once their request has. */
    #renew() {
        const now = this.#settings.trust.current();
        if (now === this.#shown) {
            return;
        }
        if (this.#secure !== undefined) {
            this.#secure.maxFreeSockets = 0;
            Object.values(this.#secure.freeSockets).flat().forEach((socket) => socket.destroy());
        }
        this.#shown = now;
        this.#secure = new https.Agent({ ...SHARED, ...now, rejectUnauthorized: true,
            minVersion: "TLSv1.2", ALPNProtocols: ["http/1.1"] });
    }

    /** {status, headers, body}, within the limits of Journey, whose abort() ends it early. */
    async exchange(address, request, { connectMs, withinMs }, journey) {
        const end = performance.now() + withinMs;
        for (;;) {
            try {
                return await this.#once(address, request, connectMs, end - performance.now(),
                    journey);
            } catch (error) {
                if (!(error instanceof Stale)) {
                    throw error;
                }
            }
        }
    }

    /** Idle connections to others are closed: nobody will ask them. */
    keep(nodes) {
        for (const { freeSockets } of [this.#plain, this.#secure]) {
            for (const [name, sockets] of Object.entries(freeSockets)) {
                if (!nodes.some((one) => name.startsWith(`${one.ip ?? one.host}:${one.port}:`))) {
                    sockets.forEach((socket) => socket.destroy());
                }
            }
        }
    }

    close() {
        this.#closed = true;
        for (const abort of this.#running) {
            abort();
        }
        this.#plain.destroy();
        this.#secure.destroy();
    }

    #once(address, request, connectMs, withinMs, journey) {
        return new Promise((resolve, reject) => {
            if (this.#closed) {
                reject(new Failed("the client was closed"));
                return;
            }
            if (address.srv !== undefined) {
                reject(new Failed(`there is no SRV record of ${address.srv}`));
                return;
            }
            const sent = this.#send(address, request);
            const abort = () => settle(new Failed("the client was closed"));
            journey.abort = () => settle(new Failed("another node has answered"));
            const timer = later(withinMs, () => settle(
                new Failed(`no answer within ${Math.round(withinMs)} ms`)));
            let connecting = { cancel() {} };
            const settle = (error, reply) => {
                timer.cancel();
                connecting.cancel();
                journey.abort = () => {};
                this.#running.delete(abort);
                if (error === undefined) {
                    resolve(reply);
                } else {
                    sent.destroy();
                    reject(error);
                }
            };
            this.#running.add(abort);
            sent.on("socket", (socket) => {
                if (socket.connecting) {
                    connecting = later(connectMs, () => settle(
                        new Failed(`no connection within ${connectMs} ms`)));
                    socket.once("connect", () => connecting.cancel());
                }
            });
            let begun = false;
            sent.on("error", (error) => settle(this.#judge(sent, begun, error)));
            sent.on("upgrade", () => settle(new Failed("a protocol that nobody asked for")));
            sent.on("response", (got) => {
                begun = true;
                read(got, settle, address);
            });
        });
    }

    #send(address, request) {
        const headers = { Host: address.authority, "User-Agent": `leafd-node/${VERSION}`,
            ...request.headers };
        const token = this.#settings.token.current();
        if (token !== undefined) {
            headers.Authorization = `Bearer ${token}`;
        }
        if (request.body !== undefined) {
            headers["Content-Type"] = "application/json";
            headers["Content-Length"] = Buffer.byteLength(request.body);
        }
        if (address.secure) {
            this.#renew();
        }
        const sent = (address.secure ? https : http).request({
            host: address.ip ?? address.host, port: address.port, method: request.method,
            path: request.target, headers, maxHeaderSize: HEAD_MAX_BYTES,
            // What the certificate must say.
            servername: address.ip === undefined ? undefined : address.host,
            agent: address.secure ? this.#secure : this.#plain,
        });
        sent.end(request.body);
        return sent;
    }

    #judge(sent, begun, error) {
        if (sent.reusedSocket && !begun && ["ECONNRESET", "EPIPE"].includes(error.code)) {
            return new Stale();
        }
        const untrusted = (sent.socket?.authorizationError ?? null) !== null;
        return new Failed(error.message || error.code, untrusted);
    }
}

/** Calls back once the time is over, and what came meanwhile was read: where the program itself was
 * busy for so long, that is no fault of the node's. */
export function later(ms, then) {
    let look;
    const timer = setTimeout(() => { look = setImmediate(then); }, Math.max(0, ms));
    return { cancel() { clearTimeout(timer); clearImmediate(look); } };
}

function read(got, settle, address) {
    const { "content-length": length, "transfer-encoding": coding } = got.headers;
    const ends = length !== undefined || /\bchunked$/i.test(coding ?? "");
    if (!ends && ![204, 304].includes(got.statusCode)) {
        settle(new Failed("an answer that does not say its length"));
        return;
    }
    const parts = [];
    let size = 0;
    got.on("data", (part) => {
        size += part.length;
        if (size > BODY_MAX_BYTES) {
            settle(new LeafdError("bad_answer",
                `${address.url}: a body of more than ${BODY_MAX_BYTES} bytes`, got.statusCode));
        } else {
            parts.push(part);
        }
    });
    got.on("error", () => settle(new Failed("the connection ended within the answer")));
    got.on("end", () => settle(undefined, { status: got.statusCode, headers: got.headers,
        body: Buffer.concat(parts).toString("utf8") }));
}
