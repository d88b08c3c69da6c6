// The client (docs/clients.md): it makes sources of ids, and ends them.
//
// The happy path: segment("order").next() takes from a range that is in the process; the next range
// is asked for in time. Failure modes: every call ends by its deadline, with ids or a LeafdError.
// Threads: a client and its sources belong to the thread that made them. What goes on in the
// background keeps no process alive.

import { EventEmitter } from "node:events";
import { Strict, Texts } from "./asking.js";
import { Core } from "./core.js";
import { Segment } from "./segment.js";
import { makeSettings, textName } from "./settings.js";
import { Snowflake } from "./snowflake.js";
import { newGauges, statsText } from "./stats.js";

export class Client extends EventEmitter {
    #core;

    constructor(settings, { wallMs = Date.now } = {}) {
        super();
        this.#core = new Core(makeSettings(settings), wallMs,
            (event) => this.emit("event", event));
    }

    segment(tag) {
        this.#core.checkOpen();
        return this.#keep(new Segment(this.#core, textName("tag", tag)));
    }

    strict(tag) {
        this.#core.checkOpen();
        return new Strict(this.#core, textName("tag", tag));
    }

    texts(tag) {
        this.#core.checkOpen();
        return new Texts(this.#core, textName("tag", tag));
    }

    snowflake(name = undefined) {
        this.#core.checkOpen();
        if (name !== undefined) {
            textName("name", name);
        }
        return this.#keep(new Snowflake(this.#core, name));
    }

    decode(id) {
        return this.#core.decode(id);
    }

    at(timeMs) {
        return this.#core.at(timeMs);
    }

    stats() {
        const values = { ...this.#core.counters };
        for (const source of this.#core.sources) {
            source.addTo(values);
        }
        return values;
    }

    gauges() {
        const gauges = newGauges();
        for (const source of this.#core.sources) {
            source.measure(gauges);
        }
        return gauges;
    }

    statsText() {
        return statsText(this.stats(), this.gauges());
    }

    close() {
        return this.#core.closing ??= this.#end();
    }

    async #end() {
        const core = this.#core;
        await Promise.all([...core.sources].map((source) => source.close()));
        await Promise.all(core.releases); // also of sources that were closed by themselves
        core.closed = true;
        for (const end of [...core.pauses]) {
            end();
        }
        core.wire.close();
    }

    async [Symbol.asyncDispose ?? Symbol.for("nodejs.asyncDispose")]() {
        await this.close();
    }

    #keep(source) {
        this.#core.sources.add(source);
        return source;
    }
}
