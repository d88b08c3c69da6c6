// The one error of the library.

// Codes of the library itself, and whether to come again; all others are the server's
// (docs/http-api.md).
const OWN_RETRYABLE = {
    bad_setting: false,
    unreachable: true,
    untrusted: false,
    other_cluster: false,
    bad_answer: false,
    window_over: true,
    fenced: true,
    layout_unknown: true,
    closed: false,
};
// Of the server's, beside all with status 503: what ends by itself.
const SERVER_RETRYABLE = new Set(["quota", "no_worker_id", "paused", "too_slow"]);

// What a server may have put into a message, and no log should get; JSON may have half a character.
const CONTROL = /[\p{Cc}\p{Cs}]/gu;

export class LeafdError extends Error {
    /** status: of HTTP, 0 where no server answered; key: of a strict call */
    constructor(code, message, status = 0, key = undefined) {
        super(message.replace(CONTROL, "?"));
        this.name = "LeafdError";
        this.code = code;
        this.status = status;
        this.key = key;
    }

    /** Whether it makes sense to come again with the same call. */
    get retryable() {
        if (Object.hasOwn(OWN_RETRYABLE, this.code)) {
            return OWN_RETRYABLE[this.code];
        }
        return this.status === 503 || SERVER_RETRYABLE.has(this.code);
    }
}

/** A setting or a parameter that breaks its rule; a token is never shown. */
export function badSetting(name, value, rule) {
    let shown = "...";
    if (name !== "token") {
        shown = typeof value === "string" ? JSON.stringify(value) : String(value);
    }
    return new LeafdError("bad_setting", `${name}=${shown.slice(0, 200)}: it must be ${rule}`);
}

/** The same error for another caller, with a stack of its own. */
export function copyOf(error) {
    return new LeafdError(error.code, error.message, error.status, error.key);
}

/** Whether another node would refuse it as well. */
export function isFinal(error) {
    return error.status > 0 && error.code !== "bad_answer";
}
