// Counters of a client.

const COUNTERS = {
    ids_segment: "Ids handed out by segment sources",
    ids_strict: "Ids handed out by strict sources",
    ids_snowflake: "Ids handed out by snowflake sources",
    requests: "Requests sent to nodes",
    retries: "Requests that were sent once more",
    failovers: "Changes to another node",
    errors: "Calls that ended in an error",
    waits: "Calls that had to wait for a request",
    burnt: "Ids dropped unused",
    clock_waits: "Calls that had to wait for the clock",
    renewals: "Windows of worker ids that were renewed",
    hedges: "Second requests, sent while a caller waited for the first",
};

export function newCounters() {
    return Object.fromEntries(Object.keys(COUNTERS).map((name) => [name, 0]));
}

const seconds = (ms) => (ms / 1000).toFixed(3);

/** What is held now: maps of tags, and of names of worker ids. */
export function newGauges() {
    return { idsLeft: new Map(), rangeAgeMs: new Map(), windowEndMs: new Map() };
}

/** For Prometheus. */
export function statsText(values, gauges) {
    let text = "";
    for (const [name, about] of Object.entries(COUNTERS)) {
        const metric = `leafd_client_${name}_total`;
        text += `# HELP ${metric} ${about}.\n# TYPE ${metric} counter\n${metric} ${values[name]}\n`;
    }
    const table = [["ids_left", "Ids held", "tag", gauges.idsLeft, String],
        ["range_age_seconds", "Age of the oldest range held", "tag", gauges.rangeAgeMs, seconds],
        ["window_end_seconds", "Unix time at which the window of a worker id ends", "name",
            gauges.windowEndMs, seconds]];
    for (const [name, about, label, map, show] of table) {
        const metric = `leafd_client_${name}`;
        text += map.size === 0 ? "" : `# HELP ${metric} ${about}.\n# TYPE ${metric} gauge\n`;
        for (const [key, value] of map) {
            text += `${metric}{${label}="${key.replace(/["\\]/g, "\\$&")}"} ${show(value)}\n`;
        }
    }
    return text;
}
