// Settings of a client, checked when it is made.

import { readFileSync, statSync } from "node:fs";
import tls from "node:tls";
import { LeafdError, badSetting } from "./errors.js";

export const COUNT_MAX = 100000; // of the server (docs/http-api.md)
export const TEXTS_MAX = 1000; // ids of one call that come as texts
export const TEXT_MAX = 130; // bytes of an id's text: what a shape can have at most
export const MS_MAX = 600000;
const WINDOW_MAX_MS = 86400000;
const AGE_MAX_MS = 86400000;
const NAME_MAX_BYTES = 128;
export const ENDPOINTS_MAX = 64;
const HOST_MAX = 253;
const HOST = /^[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63})*\.?$/;
const SYSTEM_CA_FILES = [
    "/etc/ssl/certs/ca-certificates.crt", // Debian, Alpine
    "/etc/pki/tls/certs/ca-bundle.crt", // Fedora
    "/etc/ssl/cert.pem", // BSD, macOS
];
const DEFAULTS = {
    endpoints: undefined,
    adminEndpoints: undefined,
    token: undefined,
    tokenFile: undefined,
    caFile: undefined,
    certFile: undefined,
    keyFile: undefined,
    zone: undefined,
    discover: undefined,
    connectMs: 300,
    attemptMs: 4000,
    deadlineMs: 10000,
    coverMs: 10000,
    minCount: 100,
    maxCount: 100000,
    windowMs: 60000,
    maxAgeMs: 3600000,
};

/** A whole number from low to high. */
export function whole(name, value, low, high) {
    if (!Number.isInteger(value) || value < low || value > high) {
        throw badSetting(name, value, `a whole number from ${low} to ${high}`);
    }
    return value;
}

/** A tag or the name of a holder. */
export function textName(what, value) {
    const good = typeof value === "string" && !/[\x00-\x1f\x7f]/.test(value) &&
        !/[\ud800-\udfff]/u.test(value) && value !== "" &&
        Buffer.byteLength(value) <= NAME_MAX_BYTES;
    if (!good) {
        throw badSetting(what, value,
            `1 to ${NAME_MAX_BYTES} bytes of UTF-8 without control characters`);
    }
    return value;
}

export function idempotencyKey(value) {
    if (typeof value !== "string" || !/^[\x21-\x7e]([\x20-\x7e]{0,126}[\x21-\x7e])?$/.test(value)) {
        throw badSetting("key", value,
            "1 to 128 printable ASCII characters, with no space at its ends");
    }
    return value;
}

/** What may be the text of an id. */
export function idText(value) {
    if (typeof value !== "string" || value.length > TEXT_MAX || !/^[\x21-\x7e]+$/.test(value)) {
        throw badSetting("text", value, `1 to ${TEXT_MAX} visible ASCII characters`);
    }
    return value;
}

/** Options of a call: those that are known, and no others. */
export function options(given, ...known) {
    if (given === undefined) {
        return {};
    }
    if (typeof given !== "object" || given === null) {
        throw badSetting("options", given, `an object of ${known.join(", ")}`);
    }
    for (const name of Object.keys(given)) {
        if (!known.includes(name)) {
            throw badSetting(name, given[name], `none but ${known.join(", ")}`);
        }
    }
    return given;
}

/** {secure, host, port, authority, url} of a base URL, or {secure, srv, url} of the name of an SRV
 * record; undefined: it is none */
export function addressOf(url) {
    const [, scheme, name] = /^(https?)\+srv:\/\/([^\s/?#@\\:]+)\/?$/i.exec(url) ?? [];
    if (name !== undefined) {
        const secure = scheme.toLowerCase() === "https";
        return name.length > HOST_MAX || !HOST.test(name) ? undefined
            : { secure, srv: name, url: `${secure ? "https" : "http"}+srv://${name}` };
    }
    if (typeof url !== "string" || !/^https?:\/\/[^\s/?#@\\]+\/?$/i.test(url)) {
        return undefined;
    }
    let parts;
    try {
        parts = new URL(url);
    } catch {
        return undefined;
    }
    const { hostname } = parts;
    if (!hostname.startsWith("[") && (hostname.length > HOST_MAX || !HOST.test(hostname))) {
        return undefined;
    }
    if (parts.port === "0") {
        return undefined;
    }
    const secure = parts.protocol === "https:";
    const port = parts.port === "" ? (secure ? 443 : 80) : Number(parts.port);
    const host = parts.hostname.replace(/^\[|\]$/g, "");
    return { secure, host, port, authority: `${parts.hostname}:${port}`,
        url: `${parts.protocol}//${parts.hostname}:${port}` };
}

function addresses(name, urls) {
    const list = typeof urls === "string" ? [urls] : urls;
    if (!Array.isArray(list) || list.length < 1 || list.length > ENDPOINTS_MAX) {
        throw badSetting(name, urls, `1 to ${ENDPOINTS_MAX} base URLs`);
    }
    const found = new Map();
    for (const url of list) {
        const one = addressOf(url);
        if (one === undefined) {
            throw badSetting(name, url,
                "a base URL like http://10.0.0.1:8080 or https://leafd.example");
        }
        found.set(one.url, one);
    }
    return [...found.values()];
}

/** Those whom the system trusts; undefined: those whom Node does. */
function systemAuthorities() {
    if (typeof tls.getCACertificates === "function") {
        return tls.getCACertificates("system");
    }
    for (const file of SYSTEM_CA_FILES) {
        try {
            return readFileSync(file);
        } catch {
            // not this system's
        }
    }
    return undefined;
}

function authorities(file) {
    if (file === undefined) {
        return systemAuthorities();
    }
    const rule = "a file of certificates in PEM";
    if (typeof file !== "string") {
        throw badSetting("caFile", file, rule);
    }
    try {
        const text = readFileSync(file);
        if (!text.includes("-----BEGIN CERTIFICATE-----")) {
            throw new Error("it has none");
        }
        tls.createSecureContext({ ca: text });
        return text;
    } catch (error) {
        throw badSetting("caFile", file, `${rule} (${error.message})`);
    }
}

const LOOK_MS = 1000; // how often it is seen whether a file has changed

/** What is read of files, again once one has changed; while that fails, as one may be written at this
 * moment, what was read last holds. */
class Watched {
    #files;
    #read;
    #seen;
    #now;
    #lookedMs = performance.now();

    constructor(files, read) {
        this.#files = files.filter((file) => typeof file === "string");
        this.#read = read;
        this.#seen = this.#marks();
        this.#now = read();
    }

    /** The same object until a file has changed. */
    current() {
        const now = performance.now();
        if (now - this.#lookedMs >= LOOK_MS) {
            this.#lookedMs = now;
            const marks = this.#marks();
            if (marks !== this.#seen) {
                try {
                    this.#now = this.#read();
                    this.#seen = marks;
                } catch {
                    // it is tried again
                }
            }
        }
        return this.#now;
    }

    #marks() {
        return this.#files.map((file) => {
            try {
                const { ino, size, mtimeMs } = statSync(file);
                return `${ino} ${size} ${mtimeMs}`;
            } catch {
                return "none";
            }
        }).join();
    }
}

const TOKEN_RULE = "1 to 1024 printable ASCII characters without a space";

const isToken = (text) => typeof text === "string" && /^[\x21-\x7e]{1,1024}$/.test(text);

/** What is sent as the bearer token: the one given, or the line of a file. */
function tokenOf(token, file) {
    if (token !== undefined && !isToken(token)) {
        throw badSetting("token", token, TOKEN_RULE);
    }
    if (file === undefined) {
        return new Watched([], () => token);
    }
    if (token !== undefined) {
        throw badSetting("tokenFile", file, "given without token");
    }
    try {
        return new Watched([file], () => {
            const text = readFileSync(`${file}`, "utf8").trim();
            if (!isToken(text)) {
                throw new Error(`what is in it is not ${TOKEN_RULE}`);
            }
            return text;
        });
    } catch (error) {
        throw badSetting("tokenFile", file, `a file with a token (${error.message})`);
    }
}

/** A certificate of the client's own, with its key; undefined: it shows none. */
function ownCertificate(set) {
    if (set.certFile === undefined && set.keyFile === undefined) {
        return undefined;
    }
    try {
        const pair = { cert: readFileSync(set.certFile), key: readFileSync(set.keyFile) };
        tls.createSecureContext(pair);
        return pair;
    } catch (error) {
        throw badSetting("certFile", set.certFile,
            `a certificate in PEM, whose key is in keyFile=${set.keyFile} (${error.message})`);
    }
}

/** Whom a client trusts, and what it shows: {ca, cert, key}. */
function trustOf(set, secure) {
    return new Watched([set.caFile, set.certFile, set.keyFile],
        () => ({ ca: secure ? authorities(set.caFile) : undefined, ...ownCertificate(set) }));
}

/** Where the program names no cluster, the environment does, and says who is asking. */
function fromEnvironment(set, env = process.env) {
    if (set.endpoints !== undefined) {
        return;
    }
    if (env.LEAFD_ENDPOINTS === undefined) {
        throw badSetting("endpoints", undefined, "given, here or as LEAFD_ENDPOINTS");
    }
    set.endpoints = env.LEAFD_ENDPOINTS.split(",");
    set.adminEndpoints ??= env.LEAFD_ADMIN_ENDPOINTS?.split(",");
    if (set.token === undefined && set.tokenFile === undefined) {
        set.token = env.LEAFD_TOKEN;
        set.tokenFile = env.LEAFD_TOKEN_FILE;
    }
    set.caFile ??= env.LEAFD_CA_FILE;
    set.certFile ??= env.LEAFD_CERT_FILE;
    set.keyFile ??= env.LEAFD_KEY_FILE;
    set.zone ??= env.LEAFD_ZONE;
    set.discover ??= { true: true, false: false }[env.LEAFD_DISCOVER] ?? env.LEAFD_DISCOVER;
}

export function makeSettings(given = {}) {
    if (typeof given !== "object" || given === null || Array.isArray(given)) {
        throw badSetting("settings", given, "an object");
    }
    const set = { ...DEFAULTS };
    for (const [name, value] of Object.entries(given)) {
        if (!Object.hasOwn(DEFAULTS, name)) {
            throw new LeafdError("bad_setting", `${name}: there is no such setting`);
        }
        if (value !== undefined) {
            set[name] = value;
        }
    }
    fromEnvironment(set);
    set.endpoints = addresses("endpoints", set.endpoints);
    set.adminEndpoints = set.adminEndpoints === undefined
        ? set.endpoints : addresses("adminEndpoints", set.adminEndpoints);
    set.discover ??= set.zone !== undefined;
    if (set.zone !== undefined) {
        textName("zone", set.zone);
    }
    if (typeof set.discover !== "boolean") {
        throw badSetting("discover", set.discover, "true or false");
    }
    set.token = tokenOf(set.token, set.tokenFile);
    const secure = [...set.endpoints, ...set.adminEndpoints].some((one) => one.secure);
    set.trust = trustOf({ ...set }, secure || set.caFile !== undefined);
    whole("connectMs", set.connectMs, 1, MS_MAX);
    whole("attemptMs", set.attemptMs, 1, MS_MAX);
    whole("deadlineMs", set.deadlineMs, 1, MS_MAX);
    whole("coverMs", set.coverMs, 1, MS_MAX);
    whole("minCount", set.minCount, 1, COUNT_MAX);
    whole("maxCount", set.maxCount, set.minCount, COUNT_MAX);
    whole("windowMs", set.windowMs, 1000, WINDOW_MAX_MS);
    whole("maxAgeMs", set.maxAgeMs, 1, AGE_MAX_MS);
    return Object.freeze(set);
}
