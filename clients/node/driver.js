// The library by lines of standard input, for the conformance suite (docs/clients.md).

import { createInterface } from "node:readline";
import { Client, LeafdError } from "./lib/index.js";

const NUMBERS = { connect_ms: "connectMs", attempt_ms: "attemptMs", deadline_ms: "deadlineMs",
    cover_ms: "coverMs", min_count: "minCount", max_count: "maxCount", window_ms: "windowMs", max_age_ms: "maxAgeMs" };
const TEXTS = { token: "token", token_file: "tokenFile", ca_file: "caFile", cert_file: "certFile",
    key_file: "keyFile", zone: "zone" };
const SWITCHES = { true: true, false: false };
const LISTS = { endpoints: "endpoints", admin_endpoints: "adminEndpoints" };
const WARM_UP = 500000;

/** A number as a word; what is none goes to the library, which refuses it. */
function number(text) {
    return /^-?[0-9]+$/.test(text) ? Number(text) : text;
}

/** The message with the names of settings that the suite knows, in one line. */
function spoken(message) {
    let text = message;
    for (const [theirs, ours] of Object.entries({ ...NUMBERS, ...TEXTS, ...LISTS })) {
        text = text.startsWith(`${ours}=`) ? theirs + text.slice(ours.length) : text;
    }
    return text.replace(/\s+/g, " ");
}

function times(text) {
    if (!/^[0-9]{1,9}$/.test(text ?? "")) {
        throw new LeafdError("bad_setting", `${text}: it must be a number`);
    }
    return Number(text);
}

/** Ids in the order in which they came, joined where they follow each other. */
class Ranges {
    #parts = [];
    #first;
    #after;

    add(id) {
        if (id !== this.#after) {
            this.#end();
            this.#first = id;
        }
        this.#after = id + 1n;
    }

    #end() {
        if (this.#first !== undefined) {
            this.#parts.push(`${this.#first}-${this.#after - 1n}`);
            this.#first = undefined;
        }
    }

    toString() {
        this.#end();
        return this.#parts.join(" ");
    }
}

function ids(list) {
    const ranges = new Ranges();
    list.forEach((id) => ranges.add(id));
    return `ids ${ranges}`;
}

async function calls(count, call) {
    const ranges = new Ranges();
    for (let n = times(count); n > 0; n--) {
        ranges.add(await call());
    }
    return `ids ${ranges}`;
}

/** Nanoseconds in classes of 1.6 % or less. */
class Times {
    longest = 0;
    #counts = new Map();

    add(ns) {
        this.longest = Math.max(this.longest, ns);
        const unit = 2 ** Math.max(0, Math.floor(Math.log2(Math.max(1, ns))) - 6);
        const top = (Math.floor(ns / unit) + 1) * unit - 1;
        this.#counts.set(top, (this.#counts.get(top) ?? 0) + 1);
    }

    /** The upper bound of the class in which so great a share of them is reached. */
    quantile(share) {
        const all = [...this.#counts].sort(([a], [b]) => a - b);
        let wanted = all.reduce((sum, [, count]) => sum + count, 0) * share;
        for (const [top, count] of all) {
            wanted -= count;
            if (wanted <= 0) {
                return Math.min(top, this.longest);
            }
        }
        return this.longest;
    }
}

class Driver {
    #client;
    #sources = new Map();
    #told = new Map(); // how often, by kind

    #open() {
        if (this.#client === undefined) {
            throw new LeafdError("bad_setting", "open comes first");
        }
        return this.#client;
    }

    /** One for each kind and tag, kept. */
    #source(kind, tag) {
        const key = `${kind} ${tag}`;
        if (!this.#sources.has(key)) {
            this.#sources.set(key, this.#open()[kind](tag));
        }
        return this.#sources.get(key);
    }

    async open(words) {
        const settings = {};
        for (const word of words) {
            const at = word.indexOf("=");
            const [name, value] = [word.slice(0, at), word.slice(at + 1)];
            if (Object.hasOwn(NUMBERS, name)) {
                settings[NUMBERS[name]] = number(value);
            } else if (Object.hasOwn(LISTS, name)) {
                settings[LISTS[name]] = value === "" ? [] : value.split(",");
            } else if (name === "discover") {
                settings.discover = SWITCHES[value] ?? value;
            } else if (Object.hasOwn(TEXTS, name)) {
                settings[TEXTS[name]] = value;
            } else {
                throw new LeafdError("bad_setting", `${word}: no such setting`);
            }
        }
        await this.#client?.close();
        this.#sources.clear();
        this.#client = new Client(settings);
        this.#client.on("event", ({ kind }) =>
            this.#told.set(kind, (this.#told.get(kind) ?? 0) + 1));
        return "ok";
    }

    async segment([tag, count], options) {
        const source = this.#source("segment", tag);
        return calls(count, () => source.next(options));
    }

    async range([tag, count], options) {
        const source = this.#source("segment", tag);
        const { first, last, increment } = await source.nextRange(number(count), options);
        return `ids ${first}-${last}${increment > 1n ? ` step ${increment}` : ""}`;
    }

    async strict([tag, count, key], options) {
        const source = this.#source("strict", tag);
        const { first, last, increment, replayed } =
            await source.request(number(count), { key, ...options });
        const ranges = new Ranges();
        for (let id = first; increment > 1n && id <= last; id += increment) {
            ranges.add(id);
        }
        return `ids ${increment > 1n ? ranges : `${first}-${last}`}${replayed ? " replayed" : ""}`;
    }

    async texts([tag, count, key], options) {
        const source = this.#source("texts", tag);
        const { texts, replayed } = await source.request(number(count), { key, ...options });
        return `texts ${replayed ? "replayed" : "new"} ${texts.join(" ")}`;
    }

    async textid([tag, text], options) {
        return `textid ${await this.#source("texts", tag).decode(text, options)}`;
    }

    async strict1([tag, count], options) {
        const source = this.#source("strict", tag);
        return calls(count, () => source.next(options));
    }

    async snowflake([count], options) {
        const source = this.#source("snowflake");
        return calls(count, () => source.next(options));
    }

    async threads([tasks, tag, count]) {
        const source = this.#source("segment", tag);
        // All of them, as threads are joined: Promise.all() would answer at the first error.
        const ended = await Promise.allSettled(Array.from({ length: times(tasks) }, async () => {
            const mine = [];
            for (let n = times(count); n > 0; n--) {
                mine.push(await source.next());
            }
            return mine;
        }));
        const failed = ended.find(({ status }) => status === "rejected");
        if (failed !== undefined) {
            throw failed.reason;
        }
        const got = ended.map(({ value }) => value);
        for (const mine of got) {
            const at = mine.findIndex((id, n) => n > 0 && id <= mine[n - 1]);
            if (at > 0) {
                return `fault ${mine[at]} came behind ${mine[at - 1]}`;
            }
        }
        return ids(got.flat().sort((a, b) => (a < b ? -1 : a > b ? 1 : 0)));
    }

    fork() {
        return "unsupported";
    }

    forksnow() {
        return "unsupported";
    }

    async loop([tag, seconds]) {
        const source = this.#source("segment", tag);
        const [ranges, lasted] = [new Ranges(), new Times()];
        const end = performance.now() + Number(seconds) * 1000;
        let count = 0;
        for (let after = performance.now(); after < end; count++) {
            const begin = performance.now();
            const id = await source.next();
            after = performance.now();
            lasted.add(Math.round((after - begin) * 1e6));
            ranges.add(id);
            if (count % 1000 === 0) {
                // Promises that are fulfilled already never let the event loop have its turn.
                await new Promise((resolve) => setImmediate(resolve));
            }
        }
        return `loop ${count} ${lasted.longest} ${lasted.quantile(0.9999)} ids ${ranges}`;
    }

    async mix([tag, strictTag, seconds]) {
        const sources = [this.#source("segment", tag), this.#source("strict", strictTag),
            this.#source("snowflake")];
        const got = sources.map(() => new Ranges());
        const end = performance.now() + Number(seconds) * 1000;
        while (performance.now() < end) {
            for (const [at, source] of sources.entries()) {
                got[at].add(await source.next());
            }
        }
        return `mix ids ${got.join(" ; ")}`;
    }

    /** The way to take ids fast: those that are there without a promise, others with one. */
    async #take(source, count) {
        for (let n = 0; n < count; n++) {
            if (source.tryNext() === undefined) {
                await source.next();
            }
        }
    }

    async bench([tag, count]) {
        const source = this.#source("segment", tag);
        await this.#take(source, WARM_UP);
        const begin = performance.now();
        await this.#take(source, times(count));
        return `bench ${((performance.now() - begin) * 1e6 / times(count)).toFixed(1)}`;
    }

    async benchthreads([tasks, tag, count]) {
        const sources = Array.from({ length: times(tasks) }, () => this.#open().segment(tag));
        await Promise.all(sources.map((source) => this.#take(source, WARM_UP)));
        const begin = performance.now();
        await Promise.all(sources.map((source) => this.#take(source, times(count))));
        const ns = (performance.now() - begin) * 1e6 / (times(tasks) * times(count));
        return `bench ${ns.toFixed(1)}`;
    }

    decode([id]) {
        const { timestampMs, workerId, sequence } = this.#open().decode(id);
        return `decode ${timestampMs} ${workerId} ${sequence}`;
    }

    at([timeMs]) {
        return `at ${this.#open().at(Number(timeMs))}`;
    }

    stats() {
        return "stats " + Object.entries(this.#open().stats())
            .map(([name, value]) => `${name}=${value}`).join(" ");
    }

    statstext() {
        return `statstext ${this.#open().statsText().replaceAll("\n", "|")}`;
    }

    events() {
        const told = [...this.#told].map(([kind, count]) => ` ${kind} ${count}`).join("");
        this.#told.clear();
        return `events${told}`;
    }

    async close_source([kind, name]) {
        await this.#source(kind, name === "-" ? undefined : name).close();
        return "ok";
    }

    async close() {
        await this.#client?.close();
        return "ok";
    }

    async line(line) {
        const [command, ...words] = line.split(" ");
        const options = {};
        if (command !== "open" && words.at(-1)?.startsWith("deadline_ms=")) {
            options.deadlineMs = number(words.pop().slice("deadline_ms=".length));
        }
        try {
            if (command === "line" || command === "constructor" ||
                !Object.hasOwn(Driver.prototype, command)) {
                throw new LeafdError("bad_setting", `${command}: no such command`);
            }
            return await this[command](words, options);
        } catch (error) {
            if (!(error instanceof LeafdError)) {
                throw error;
            }
            return `error ${error.code} ${error.status} ${spoken(error.message)}`;
        }
    }
}

const driver = new Driver();
for await (const line of createInterface({ input: process.stdin })) {
    process.stdout.write(`${await driver.line(line)}\n`);
}
await driver.close();
