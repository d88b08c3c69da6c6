// Types of leafd for Node. What settings, errors and counters mean: docs/clients.md.

export interface Settings {
    /** One or more base URLs of the listener for ids, or http+srv://NAME of an SRV record; default: those of LEAFD_ENDPOINTS, and what
     * else the environment says. */
    endpoints?: string | readonly string[] | undefined;
    /** Base URLs of the listener for worker ids (snowflake ids alone); default: endpoints. */
    adminEndpoints?: string | readonly string[] | undefined;
    token?: string | undefined;
    /** A file with the token in its one line, read again once it has changed. */
    tokenFile?: string | undefined;
    /** Who signs the servers' certificates, in PEM; default: whom the system trusts. */
    caFile?: string | undefined;
    /** A certificate of the client's own and its key, in PEM. */
    certFile?: string | undefined;
    keyFile?: string | undefined;
    /** Where the program runs: nodes of the same zone are asked as long as there are any. */
    zone?: string | undefined;
    /** Nodes, their zones, weights and states are learnt from one that is known; default: where there
     * is a zone. */
    discover?: boolean | undefined;
    /** How long a connection to a node may take in the first round (300). */
    connectMs?: number | undefined;
    /** How long one request to one node may take (4000). */
    attemptMs?: number | undefined;
    /** How long a call may take in all, unless it says otherwise (10000). */
    deadlineMs?: number | undefined;
    /** A range is to last so long at the measured rate (10000). */
    coverMs?: number | undefined;
    /** Bounds of the ids asked for at once (100, 100000). */
    minCount?: number | undefined;
    maxCount?: number | undefined;
    /** Of a worker id (60000). */
    windowMs?: number | undefined;
    /** A held range is dropped at this age (3600000). */
    maxAgeMs?: number | undefined;
}

export interface CallOptions {
    deadlineMs?: number | undefined;
}

export interface StrictOptions extends CallOptions {
    /** An Idempotency-Key: the same key, tag and count give the same ids for a day. */
    key?: string | undefined;
}

/** Both bounds are included. */
export interface IdRange {
    readonly first: bigint;
    readonly last: bigint;
    /** From one id to the next; 1n unless the tag has another. */
    readonly increment: bigint;
}

export interface StrictRange extends IdRange {
    /** Another request with the same key had been given these ids before. */
    readonly replayed: boolean;
}

/** Ids as the server writes them. */
export interface TextIds {
    readonly texts: string[];
    /** Another request with the same key had been given these ids before. */
    readonly replayed: boolean;
}

export interface Decoded {
    readonly timestampMs: number;
    readonly workerId: number;
    readonly sequence: number;
}

export interface Stats {
    ids_segment: number;
    ids_strict: number;
    ids_snowflake: number;
    requests: number;
    retries: number;
    failovers: number;
    errors: number;
    waits: number;
    burnt: number;
    clock_waits: number;
    renewals: number;
    hedges: number;
}

/** What is held now, by tags; and the ends of windows (Unix ms) by names of worker ids. */
export interface Gauges {
    readonly idsLeft: Map<string, number>;
    readonly rangeAgeMs: Map<string, number>;
    readonly windowEndMs: Map<string, number>;
}

export type ClientEvent =
    | { readonly kind: "failover"; readonly from: string; readonly to: string }
    /** Not told again before "recovered". */
    | { readonly kind: "refill_failed"; readonly tag: string; readonly code: string }
    | { readonly kind: "recovered"; readonly tag: string }
    | { readonly kind: "fenced"; readonly name: string }
    | { readonly kind: "clock_back"; readonly name: string; readonly ms: number }
    /** So many ids were dropped: too old, or of an older generation. */
    | { readonly kind: "aged" | "generation"; readonly tag: string; readonly ids: number }
    /** What that node answered is of another cluster; told once. */
    | { readonly kind: "other_cluster"; readonly from: string };

/** What calls throw, or reject with. */
export class LeafdError extends Error {
    constructor(code: string, message: string, status?: number, key?: string);
    /** The server's, such as "unknown_tag", or one of the library's. */
    readonly code: string;
    /** Of HTTP; 0 where no server answered. */
    readonly status: number;
    /** Of a strict call, and one of texts: the key under which to come again. */
    readonly key: string | undefined;
    /** Whether it makes sense to come again with the same call. */
    get retryable(): boolean;
}

/** A cluster of leafd. Belongs to the thread that made it. */
export class Client {
    /** Throws bad_setting for a setting that breaks its rule. */
    constructor(settings?: Settings);
    /** A source of ids of a tag. Make it once and keep it: each has ranges of its own. */
    segment(tag: string): Segment;
    /** A source of ids of a strict tag, each of which is a request. */
    strict(tag: string): Strict;
    /** A source of a tag's ids as texts: in the tag's shape, if it has one. Each call is a request. */
    texts(tag: string): Texts;
    /** A source of snowflake ids. name: one name, one running source; made up if it is missing. */
    snowflake(name?: string): Snowflake;
    /** Take a snowflake id apart. The layout is known from the first worker id on. */
    decode(id: bigint | string): Decoded;
    /** The smallest snowflake id of a time in Unix milliseconds, for scans of ids by time. */
    at(timeMs: number): bigint;
    stats(): Stats;
    gauges(): Gauges;
    /** Both for Prometheus. */
    statsText(): string;
    /** The client is an EventEmitter, with this one event. */
    on(name: "event", listener: (event: ClientEvent) => void): this;
    once(name: "event", listener: (event: ClientEvent) => void): this;
    off(name: "event", listener: (event: ClientEvent) => void): this;
    /** Give back worker ids, drop what was not used, and end what is under way. */
    close(): Promise<void>;
}

/** What sources of numbers have in common, those of FakeClient too: for a program's own code. */
export interface IdSource {
    next(options?: CallOptions): Promise<bigint>;
    nextMany(count: number, options?: CallOptions): Promise<bigint[]>;
    /** Later calls throw "closed". */
    close(): Promise<void>;
}

/** A client without a cluster, for a program's own tests: ids are counted from 1 in memory. */
export class FakeClient {
    segment(tag: string): Segment;
    strict(tag: string): Strict;
    snowflake(name?: string): Snowflake;
    /** The next id of a tag, or of a snowflake source's name. */
    setNext(tag: string, id: bigint): void;
    /** So many calls (1) of the tag's sources fail with the error, before they give ids again. */
    fail(tag: string, error: LeafdError, times?: number): void;
    close(): Promise<void>;
}

/** Not to be made by programs: see Client. */
export interface Segment extends AsyncIterable<bigint> {
    readonly tag: string;
    next(options?: CallOptions): Promise<bigint>;
    /** The next id if one is here, without a promise; else undefined, and it asks for more. */
    tryNext(): bigint | undefined;
    nextMany(count: number, options?: CallOptions): Promise<bigint[]>;
    /** In one range, by a request of its own. */
    nextRange(count: number, options?: CallOptions): Promise<IdRange>;
    close(): Promise<void>;
}

export interface Strict {
    readonly tag: string;
    next(options?: StrictOptions): Promise<bigint>;
    nextMany(count: number, options?: StrictOptions): Promise<bigint[]>;
    request(count?: number, options?: StrictOptions): Promise<StrictRange>;
    /** Later calls throw "closed". */
    close(): Promise<void>;
}

export interface Texts {
    readonly tag: string;
    next(options?: StrictOptions): Promise<string>;
    /** At most 1000. */
    nextMany(count: number, options?: StrictOptions): Promise<string[]>;
    request(count?: number, options?: StrictOptions): Promise<TextIds>;
    /** The number of a text, whether or not it was granted; asks the adminEndpoints. */
    decode(text: string, options?: CallOptions): Promise<bigint>;
    /** Later calls throw "closed". */
    close(): Promise<void>;
}

export interface Snowflake extends AsyncIterable<bigint> {
    next(options?: CallOptions): Promise<bigint>;
    /** The next id if one can be made now; else undefined, and it acquires or renews. */
    tryNext(): bigint | undefined;
    nextMany(count: number, options?: CallOptions): Promise<bigint[]>;
    decode(id: bigint): Decoded;
    at(timeMs: number): bigint;
    close(): Promise<void>;
}
