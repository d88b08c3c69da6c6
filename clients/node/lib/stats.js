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
};

export function newCounters() {
    return Object.fromEntries(Object.keys(COUNTERS).map((name) => [name, 0]));
}

/** For Prometheus. */
export function statsText(values) {
    let text = "";
    for (const [name, about] of Object.entries(COUNTERS)) {
        const metric = `leafd_client_${name}_total`;
        text += `# HELP ${metric} ${about}.\n# TYPE ${metric} counter\n${metric} ${values[name]}\n`;
    }
    return text;
}
