// What is asked of leafd, and what its answers mean (docs/http-api.md). A request is
// {method, target, headers, body, success}, where success has the status of an answer that
// is no error (200 if it is missing); a reply is {status, headers, body} with its body as text.

import { randomInt } from "node:crypto";
import { LeafdError } from "./errors.js";
import { TEXT_MAX, addressOf, whole } from "./settings.js";

export const ID_MAX = (1n << 63n) - 1n;
const RANGES_MAX = 64;
const TEXT = new RegExp(`^[\\x21-\\x7e]{1,${TEXT_MAX}}$`);
const NUMBER = "(0|[1-9][0-9]{0,18})";
const RANGE = new RegExp(`^${NUMBER} ${NUMBER}$`);
const STEPPED = new RegExp(`^${NUMBER} ${NUMBER} ${NUMBER}$`);
const SHAPED = " has a shape, "; // in the refusal of ranges
const WORKER_MAX = 1023;
const WEIGHT_MAX = 1000;
const RETRY_AFTER_MAX_S = 86400;
const KEY_LETTERS = "abcdefghijklmnopqrstuvwxyz234567";

export function segmentRequest(tag, count,
    { contiguous = false, key = undefined, stepped = false } = {}) {
    const target = `/api/segment/get/${encodeURIComponent(tag)}?count=${count}&format=range` +
        (contiguous ? "&contiguous=1" : "") + (stepped ? "&stepped=1" : "");
    return { method: "GET", target, headers: key === undefined ? {} : { "Idempotency-Key": key } };
}

export const NODES_REQUEST = { method: "GET", target: "/api/nodes", headers: {} };
const HOST_AND_PORT = /^(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9._-]{1,253}):[0-9]{1,5}$/;

/** {self, rows}: {id, address, zone, weight, ready, snowflake} by id, of those that can be asked;
 * undefined: the reply is no listing. secure: as the node that gave it */
export function listingOf(reply, secure) {
    let listing;
    try {
        listing = JSON.parse(reply.body);
    } catch {
        return undefined;
    }
    if (reply.status !== 200 || !isId(listing?.self) || !Array.isArray(listing.nodes)) {
        return undefined;
    }
    const rows = new Map();
    for (const row of listing.nodes) {
        const { id, http_address: at, zone, weight, state, snowflake } = row ?? {};
        const address = typeof at === "string" && HOST_AND_PORT.test(at)
            ? addressOf(`${secure ? "https" : "http"}://${at}`) : undefined;
        if (address !== undefined && isId(id) && Number.isInteger(weight) && weight >= 0 &&
            weight <= WEIGHT_MAX) {
            rows.set(id, { id, address, zone, weight, ready: state === "ready",
                snowflake: snowflake === true });
        }
    }
    const uid = typeof listing.uid === "string" ? listing.uid : undefined;
    return { self: listing.self, uid, rows };
}

const isId = (value) => Number.isInteger(value) && value > 0;

export function textsRequest(tag, count, key) {
    return { method: "GET", target: `/api/segment/get/${encodeURIComponent(tag)}?count=${count}`,
        headers: key === undefined ? {} : { "Idempotency-Key": key } };
}

export function decodeRequest(tag, text) {
    return { method: "GET", headers: {}, target:
        `/api/segment/decode/${encodeURIComponent(tag)}?text=${encodeURIComponent(text)}` };
}

/** 26 random characters of base 32: 130 bits. */
export function newKey() {
    return Array.from({ length: 26 }, () => KEY_LETTERS[randomInt(32)]).join("");
}

export function acquireRequest(name, windowMs) {
    return { method: "POST", target: "/api/workers", headers: {}, success: [201],
        body: JSON.stringify({ name, window_ms: windowMs }) };
}

/** lastMs: the highest time used; undefined: none yet */
export function renewRequest(workerId, epoch, windowMs, lastMs) {
    return { method: "PUT", target: `/api/workers/${workerId}`, headers: {}, success: [200, 201],
        body: JSON.stringify({ epoch, window_ms: windowMs, last_timestamp_ms: lastMs }) };
}

export function releaseRequest(workerId, epoch, lastMs) {
    return { method: "DELETE", headers: {}, success: [204],
        target: `/api/workers/${workerId}?epoch=${epoch}&last_timestamp_ms=${lastMs}` };
}

export function badAnswer(reply, what) {
    return new LeafdError("bad_answer",
        `status ${reply.status}, ${what}: ${JSON.stringify(reply.body.slice(0, 100))}`,
        reply.status);
}

/** undefined for what succeeded. */
export function errorOf(reply, success = [200]) {
    if (success.includes(reply.status)) {
        return undefined;
    }
    let body;
    try {
        body = JSON.parse(reply.body);
    } catch {
        body = null;
    }
    const { code, message } = body ?? {};
    if (reply.status < 400 || typeof code !== "string" || !/^[a-z0-9_]{1,64}$/.test(code) ||
        typeof message !== "string") {
        return badAnswer(reply, "and no error of leafd");
    }
    const hint = reply.status === 400 && code === "bad_request" && message.includes(SHAPED)
        ? "; use texts() of the client" : "";
    return new LeafdError(code, message.slice(0, 1000) + hint, reply.status);
}

/** In milliseconds; 0: it says nothing that can be read. */
export function retryAfterMs(reply) {
    const text = reply.headers["retry-after"] ?? "";
    return /^[0-9]+$/.test(text) ? Math.min(Number(text), RETRY_AFTER_MAX_S) * 1000 : 0;
}

/** The ranges {first, size, step} of an answer, which must have exactly the ids asked for, rising;
 * stepped: each line has an increment. */
export function rangesOf(reply, count, stepped = false) {
    const lines = reply.body.split("\n");
    if (lines.pop() !== "") {
        throw badAnswer(reply, "and a line without an end");
    }
    const ranges = [];
    let before = -1n;
    let total = 0;
    for (const line of lines) {
        const match = (stepped ? STEPPED : RANGE).exec(line);
        if (match === null || ranges.length === RANGES_MAX) {
            throw badAnswer(reply, "and no ranges");
        }
        const [first, last, step] = [match[1], match[2], match[3] ?? 1].map(BigInt);
        if (first <= before || last < first || last > ID_MAX) {
            throw badAnswer(reply, "and ranges that do not rise");
        }
        if (step < 1n || (last - first) % step !== 0n) {
            throw badAnswer(reply, "and an increment by which the last id is not reached");
        }
        const size = Number((last - first) / step + 1n);
        ranges.push({ first, size, step });
        total += size;
        before = last;
    }
    if (total !== count) {
        throw badAnswer(reply, `and not the ${count} ids asked for`);
    }
    return ranges;
}

/** Of the data of the node that answered; -1n: it names none. */
export function generationOf(reply) {
    const text = reply.headers["leafd-generation"];
    if (text === undefined) {
        return -1n;
    }
    if (!/^[0-9]{1,19}$/.test(text) || BigInt(text) > ID_MAX) {
        throw badAnswer(reply, `and ${JSON.stringify(text.slice(0, 40))} for its generation`);
    }
    return BigInt(text);
}

/** Another request with the same key had been answered so before. */
export function isReplayed(reply) {
    return reply.headers["idempotency-replayed"]?.toLowerCase() === "true";
}

/** The texts of an answer, one a line, as many as were asked for. */
export function textsOf(reply, count) {
    if (reply.body.length > count * (TEXT_MAX + 1)) {
        throw badAnswer(reply, `and more than ${count} ids can have`);
    }
    const lines = reply.body.split("\n");
    if (lines.pop() !== "" || !lines.every((line) => TEXT.test(line))) {
        throw badAnswer(reply, "and no ids");
    }
    if (lines.length !== count) {
        throw badAnswer(reply, `and not the ${count} ids asked for`);
    }
    return lines;
}

/** The number that a text was found to have. */
export function textIdOf(reply) {
    let row;
    try {
        row = JSON.parse(reply.body);
    } catch {
        row = null;
    }
    const { id, granted } = row ?? {};
    if (typeof granted !== "boolean" || typeof id !== "string" || !/^[0-9]{1,19}$/.test(id) ||
        BigInt(id) > ID_MAX) {
        throw badAnswer(reply, "and no id");
    }
    return BigInt(id);
}

function number(value, low, high = Number.MAX_SAFE_INTEGER) {
    if (!Number.isSafeInteger(value) || value < low || value > high) {
        throw new Error("no number");
    }
    return value;
}

function layoutOf(row) {
    const layout = {
        epochMs: number(row.epoch_ms, 0), timeBits: number(row.time_bits, 1, 62),
        workerBits: number(row.worker_bits, 1, 10), sequenceBits: number(row.sequence_bits, 1, 20),
    };
    number(layout.timeBits + layout.workerBits + layout.sequenceBits, 1, 63);
    return layout;
}

/** {workerId, epoch, fromMs, untilMs, layout}; layout: null where the node does not know it */
export function grantOf(reply) {
    try {
        const row = JSON.parse(reply.body);
        const layout = row.layout === null ? null : layoutOf(row.layout);
        const workers = layout === null ? WORKER_MAX : 2 ** layout.workerBits - 1;
        const fromMs = number(row.from_ms, 0);
        const lowest = Math.max(fromMs, layout === null ? 0 : layout.epochMs + 1);
        return { workerId: number(row.worker_id, 0, workers), epoch: number(row.epoch, 1), fromMs,
            untilMs: number(row.until_ms, lowest), layout };
    } catch {
        throw badAnswer(reply, "and no worker id");
    }
}

/** The smallest snowflake id of a time that the layout can hold. */
export function at(layout, timeMs) {
    const lastMs = layout.epochMs + 2 ** layout.timeBits - 1;
    return BigInt(whole("timeMs", timeMs, layout.epochMs, lastMs) - layout.epochMs)
        << BigInt(layout.workerBits + layout.sequenceBits);
}

/** Take a snowflake id apart, without asking anybody. */
export function decode(layout, id) {
    const sequenceBits = BigInt(layout.sequenceBits);
    const workerBits = BigInt(layout.workerBits);
    return {
        timestampMs: Number(id >> (sequenceBits + workerBits)) + layout.epochMs,
        workerId: Number((id >> sequenceBits) & ((1n << workerBits) - 1n)),
        sequence: Number(id & ((1n << sequenceBits) - 1n)),
    };
}
