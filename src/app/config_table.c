/*
 * config_table.c - the rows of the settings, and the names and texts made from them. Thread: main.
 */
#include "src/app/config_table.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/id/alloc/refill.h"
#include "src/id/alloc/prefetch.h"

#define STRING_OF(x) #x
#define VALUE_OF(x) STRING_OF(x)

#define MAX_INTERVAL_MS 600000
#define MAX_ENTRIES 10000000
#define EPOCH_MAX_MS 253402300799999 /* the end of the year 9999 */

/* A number, with the range of its values. */
#define NUMBER(field, low, high)                                                                   \
    .type = CONFIG_UINT, .min = (low), .max = (high), .offset = offsetof(struct config, field)
/* A text, with the range of its length. */
#define TEXT(kind, field, low)                                                                     \
    .type = (kind), .min = (low), .max = sizeof(((struct config *)0)->field) - 1,                  \
    .offset = offsetof(struct config, field)

const struct config_key config_keys[] = {
    {.name = "node.id",
     NUMBER(node_id, 1, LIMIT_NODE_ID),
     .description = "This node's id: one of those in `cluster.members`, and never another's again, "
                    "even after its disk was lost."},
    {.name = "cluster.id",
     TEXT(CONFIG_NAME, cluster_id, 1),
     .fallback = "leafd",
     .description =
         "The cluster's name. Nodes with another name are refused, and so is their data."},
    {.name = "cluster.members",
     .type = CONFIG_MEMBERS,
     .min = 1,
     .max = LIMIT_NODES,
     .offset = offsetof(struct config, members),
     .description = "All nodes with the addresses they listen on for each other, the same list on "
                    "each node: `1=10.0.0.1:7081,2=10.0.0.2:7081,3=10.0.0.3:7081`. Used while the "
                    "data directory is new; afterwards the replicated log knows the members. Not "
                    "needed where `join` is set."},
    {.name = "join",
     .type = CONFIG_TARGETS,
     .max = LIMIT_NODES,
     .fallback = "",
     .fallback_doc = "none",
     .offset = offsetof(struct config, join),
     .description =
         "For a new node of an existing cluster: any of its members, to ask to be let in. "
         "Used while the data directory is new, and then `cluster.members` is not."},
    {.name = "cluster.secret-file",
     TEXT(CONFIG_PATH, secret_file, 0),
     .fallback = "",
     .fallback_doc = "none",
     .description = "File with the secret that nodes prove to each other; mode 0600 or stricter. A "
                    "must unless `peer.listen` is a loopback address."},
    {.name = "data.dir",
     TEXT(CONFIG_PATH, data_dir, 1),
     .fallback = "/var/lib/leafd",
     .description = "Directory of the node's data; made if it is missing."},
    {.name = "data.map-bytes",
     .type = CONFIG_BYTES,
     .min = 1 << 20,
     .max = 1ULL << 44,
     .unit = "bytes",
     .fallback = "16GiB",
     .offset = offsetof(struct config, data_map_bytes),
     .description =
         "Address space for the data, and the bound of its size. Disk space is taken only "
         "as it is needed."},
    {.name = "data.create",
     .type = CONFIG_BOOL,
     .fallback = "true",
     .offset = offsetof(struct config, data_create),
     .description =
         "Make an empty store when `data.dir` has none. With `false` the node refuses to "
         "start then, so that a disk that is not mounted is not taken for a new node."},
    {.name = "http.listen",
     TEXT(CONFIG_ADDRESS, http_listen, 1),
     .fallback = "127.0.0.1:8080",
     .description = "Address of the HTTP service. It has no authentication: do not open it to "
                    "anyone who may not change tags."},
    {.name = "http.advertise",
     TEXT(CONFIG_ADDRESS, http_advertise, 0),
     .fallback = "",
     .fallback_doc = "`http.listen`; where that is a wildcard, its port at this node's host in "
                     "`cluster.members`",
     .description = "HTTP address that the other nodes show for this one."},
    {.name = "http.loops",
     NUMBER(http_loops, 0, LIMIT_HTTP_LOOPS),
     .fallback = "0",
     .fallback_doc = "0: one less than the processors, at least 1",
     .description = "Threads that serve HTTP."},
    {.name = "http.timeout-ms",
     NUMBER(http_timeout_ms, 0, LIMIT_TIMEOUT_MS),
     .unit = "ms",
     .fallback = "3000",
     .description = "How long a request without `timeout_ms` waits for a refill or an election."},
    {.name = "http.head-ms",
     NUMBER(http_head_ms, 1, MAX_INTERVAL_MS),
     .unit = "ms",
     .fallback = VALUE_OF(LIMIT_HTTP_HEAD_MS),
     .description = "From the first byte of a request to the end of its head; then 408."},
    {.name = "http.body-ms",
     NUMBER(http_body_ms, 1, MAX_INTERVAL_MS),
     .unit = "ms",
     .fallback = VALUE_OF(LIMIT_HTTP_BODY_MS),
     .description = "From the end of a request's head to the end of its body; then 408."},
    {.name = "http.idle-ms",
     NUMBER(http_idle_ms, 1, MAX_INTERVAL_MS),
     .unit = "ms",
     .fallback = VALUE_OF(LIMIT_HTTP_IDLE_MS),
     .description = "A connection with no request for so long is closed."},
    {.name = "http.write-ms",
     NUMBER(http_write_ms, 1, MAX_INTERVAL_MS),
     .unit = "ms",
     .fallback = VALUE_OF(LIMIT_HTTP_WRITE_MS),
     .description = "A client that takes nothing of its reply for so long is cut off."},
    {.name = "http.connections",
     NUMBER(http_connections, 1, LIMIT_HTTP_CONNECTIONS),
     .fallback = VALUE_OF(LIMIT_HTTP_CONNECTIONS),
     .description = "Connections of one HTTP thread; more get 503 `overloaded`."},
    {.name = "peer.listen",
     TEXT(CONFIG_ADDRESS, peer_listen, 0),
     .fallback = "",
     .fallback_doc = "this node's address in `cluster.members`, or `peer.advertise`",
     .description = "Address to listen on for the other nodes."},
    {.name = "peer.advertise",
     TEXT(CONFIG_ADDRESS, peer_advertise, 0),
     .fallback = "",
     .fallback_doc = "this node's address in `cluster.members`, or `peer.listen`",
     .description = "Address where the other nodes reach this one; of a node that joins a cluster. "
                    "It stays the same as long as the node is a member."},
    {.name = "raft.heartbeat-ms",
     NUMBER(raft_heartbeat_ms, 10, 10000),
     .unit = "ms",
     .fallback = "100",
     .description = "Interval of the leader's heartbeats."},
    {.name = "raft.election-ms",
     NUMBER(raft_election_ms, 30, 60000),
     .unit = "ms",
     .fallback = "1000",
     .description = "A follower that hears nothing for one to two times this long stands for "
                    "election; a leader whose process ended is noticed earlier. At least 3 times "
                    "`raft.heartbeat-ms`; the same on all nodes."},
    {.name = "raft.snapshot-entries",
     NUMBER(raft_snapshot_entries, 1, MAX_ENTRIES),
     .unit = "entries",
     .fallback = "8192",
     .description = "The log is compacted after so many applied entries."},
    {.name = "raft.trailing-entries",
     NUMBER(raft_trailing_entries, 0, MAX_ENTRIES),
     .unit = "entries",
     .fallback = "2048",
     .description = "Entries kept behind a compaction, for followers that are a little late."},
    {.name = "raft.catch-up-ms",
     NUMBER(raft_catch_up_ms, 1000, 3600000),
     .unit = "ms",
     .fallback = "60000",
     .description = "A node that is being added or removed without any step forward for so long is "
                    "left as it is, so that another change can begin. At most ten times that in "
                    "all."},
    {.name = "raft.reset-term",
     .type = CONFIG_BOOL,
     .fallback = "false",
     .offset = offsetof(struct config, raft_reset_term),
     .description =
         "For a data directory that was refused because of its term, once all nodes are stopped: "
         "put a plausible one in its place (docs/failure-model.md says when). Nothing is done to "
         "any other directory."},
    {.name = "segment.cover-ms",
     NUMBER(segment_cover_ms, 0, MAX_INTERVAL_MS),
     .unit = "ms",
     .fallback = "5000",
     .description = "A segment holds at least what its tag uses up in so long, within the tag's "
                    "`max_step`. Longer than an election, so that clients do not notice one."},
    {.name = "segment.refill-percent",
     NUMBER(segment_refill_percent, 1, 99),
     .unit = "%",
     .fallback = VALUE_OF(REFILL_DEFAULT_PERCENT),
     .description = "The next segment is asked for when so much of the current one is used."},
    {.name = "strict.keys",
     NUMBER(strict_keys, 1, LIMIT_KEYS),
     .unit = "keys",
     .fallback = "1000000",
     .description =
         "Idempotency keys that the cluster holds at a time, each for a day and in some 200 bytes "
         "of memory and disk on every node. Beyond it new keys get 503 `idempotency_full`. Should "
         "be the same on all nodes: the node that took the request decides."},
    {.name = "warm.tags",
     NUMBER(prefetch_tags, 0, LIMIT_PREFETCH_TAGS),
     .unit = "tags",
     .fallback = VALUE_OF(PREFETCH_DEFAULT_TAGS),
     .description = "This node remembers so many of the tags it served in the last day, the "
                    "busiest, and fetches a segment of each after a restart. 0 switches that off."},
    {.name = "warm.rate",
     NUMBER(prefetch_rate, 1, LIMIT_PREFETCH_RATE),
     .unit = "tags/s",
     .fallback = VALUE_OF(PREFETCH_DEFAULT_RATE),
     .description = "How many of them it fetches in a second."},
    {.name = "snowflake.workers",
     NUMBER(snowflake_workers, 0, LIMIT_WORKERS_PER_NODE),
     .fallback = "1",
     .description =
         "Worker ids that this node takes, each good for as many ids a millisecond as the layout "
         "has sequences. 0 switches snowflake ids off on this node."},
    {.name = "snowflake.window-ms",
     NUMBER(snowflake_window_ms, LIMIT_WINDOW_MIN_MS, LIMIT_WINDOW_MAX_MS),
     .unit = "ms",
     .fallback = "600000",
     .description = "How far ahead the cluster grants times to a worker id: so long snowflake ids "
                    "are handed out without a leader."},
    {.name = "snowflake.renew-ms",
     NUMBER(snowflake_renew_ms, 100, 60000),
     .unit = "ms",
     .fallback = "3000",
     .description = "How often the window is extended, and the last time used reported. At most a "
                    "third of `snowflake.window-ms`."},
    {.name = "snowflake.mark-lead-ms",
     NUMBER(snowflake_mark_lead_ms, 50, 60000),
     .unit = "ms",
     .fallback = "1000",
     .description = "How far the mark on this node's disk is kept ahead of the times used. Larger: "
                    "fewer writes; after a crash the node waits for up to so long."},
    {.name = "snowflake.clock-threshold-ms",
     NUMBER(snowflake_clock_threshold_ms, 1, 3600000),
     .unit = "ms",
     .fallback = "1000",
     .description = "A clock that is further off the median of the nodes' clocks, or jumps ahead "
                    "by more, is not trusted: 503 `clock_skew`."},
    {.name = "snowflake.layout",
     .type = CONFIG_LAYOUT,
     .fallback = "leaf",
     .offset = offsetof(struct config, snowflake_layout),
     .description =
         "Bits of time, worker id and sequence; `js53` fits a JavaScript number. Used at the "
         "cluster's first start; afterwards the replicated log knows the layout."},
    {.name = "snowflake.epoch-ms",
     NUMBER(snowflake_layout.epoch_ms, 0, EPOCH_MAX_MS),
     .unit = "ms",
     .fallback = "1288834974657",
     .fallback_doc = "1288834974657, Leaf's",
     .description = "Unix time that the layout counts from; not in the future. Used at the "
                    "cluster's first start, as the layout."},
    {.name = "log.level",
     .type = CONFIG_LEVEL,
     .fallback = "info",
     .offset = offsetof(struct config, log_level),
     .description = "Lowest level that is logged."},
    {.name = "shutdown.delay-ms",
     NUMBER(shutdown_delay_ms, 0, 60000),
     .unit = "ms",
     .fallback = "0",
     .description = "After a signal to stop: serve for at least so long while `/readyz` "
                    "refuses, for load balancers that ask it now and then."},
    {.name = "shutdown.grace-ms",
     NUMBER(shutdown_grace_ms, 0, 60000),
     .unit = "ms",
     .fallback = "5000",
     .description =
         "After that delay: handing over leadership and answering what is under way takes "
         "at most about so long."},
};

const size_t config_key_count = sizeof config_keys / sizeof config_keys[0];
_Static_assert(sizeof config_keys / sizeof config_keys[0] <= CONFIG_KEYS_MAX, "too many settings");
_Static_assert(REFILL_DEFAULT_COVER_MS == 5000, "segment.cover-ms: adapt the default");
_Static_assert(SNOWFLAKE_EPOCH_MS == 1288834974657, "snowflake.epoch-ms: adapt the default");

size_t config_key_find(const char *name, size_t len)
{
    size_t i;

    for (i = 0; i < config_key_count; i++) {
        if (strlen(config_keys[i].name) == len && memcmp(config_keys[i].name, name, len) == 0) {
            break;
        }
    }
    return i;
}

const char *config_key_flag(const struct config_key *key, char out[CONFIG_KEY_TEXT_BYTES])
{
    int len = snprintf(out, CONFIG_KEY_TEXT_BYTES, "--%s", key->name);

    ASSERT(len > 0 && len < CONFIG_KEY_TEXT_BYTES);
    for (char *at = out; *at != '\0'; at++) {
        *at = *at == '.' ? '-' : *at;
    }
    return out;
}

const char *config_key_variable(const struct config_key *key, char out[CONFIG_KEY_TEXT_BYTES])
{
    int len = snprintf(out, CONFIG_KEY_TEXT_BYTES, CONFIG_ENV_PREFIX "%s", key->name);

    ASSERT(len > 0 && len < CONFIG_KEY_TEXT_BYTES);
    for (char *at = out; *at != '\0'; at++) {
        *at = *at == '.' || *at == '-' ? '_' : (char)toupper((unsigned char)*at);
    }
    return out;
}

/* A number of bytes with the largest suffix that divides it. */
static void put_bytes(struct buf *out, uint64_t value)
{
    static const char *const suffixes[] = {"", "KiB", "MiB", "GiB", "TiB"};
    unsigned i = 0;

    while (i < 4 && value >= 1024 && value % 1024 == 0) {
        value /= 1024;
        i++;
    }
    buf_printf(out, "%llu%s", (unsigned long long)value, suffixes[i]);
}

void config_key_rule(const struct config_key *key, struct buf *out)
{
    switch (key->type) {
    case CONFIG_UINT:
        buf_printf(out, "%llu..%llu", (unsigned long long)key->min, (unsigned long long)key->max);
        return;
    case CONFIG_BYTES:
        put_bytes(out, key->min);
        buf_printf(out, "..");
        put_bytes(out, key->max);
        return;
    case CONFIG_BOOL:
        buf_printf(out, "true or false");
        return;
    case CONFIG_NAME:
        buf_printf(out, "1 to %llu of A-Z a-z 0-9 . _ -", (unsigned long long)key->max);
        return;
    case CONFIG_PATH:
        buf_printf(out, "a path of %s%llu bytes, without control characters and quotes",
                   key->min > 0 ? "1 to " : "at most ", (unsigned long long)key->max);
        return;
    case CONFIG_ADDRESS:
        buf_printf(out, "host:port or [IPv6]:port, port 1..65535");
        return;
    case CONFIG_LEVEL:
        buf_printf(out, "debug, info, warn or error");
        return;
    case CONFIG_MEMBERS:
        buf_printf(out, "1 to %d of id=host:port, separated by commas", LIMIT_NODES);
        return;
    case CONFIG_TARGETS:
        buf_printf(out, "up to %d of host:port, separated by commas", LIMIT_NODES);
        return;
    case CONFIG_LAYOUT:
        buf_printf(out, "leaf (41+10+12), js53 (41+6+6), or bits of time+worker+sequence "
                        "(39..45, 1..10, 4..16, together at most 63)");
        return;
    }
    UNREACHABLE("type of a setting");
}

void config_where(const struct config *config, size_t i, struct buf *out)
{
    const struct config_origin *origin = &config->origins[i];
    char name[CONFIG_KEY_TEXT_BYTES];

    ASSERT(i < config_key_count);
    switch (origin->source) {
    case CONFIG_FROM_DEFAULT:
        buf_printf(out, "default");
        return;
    case CONFIG_FROM_RULE:
        buf_printf(out, "default, from other settings");
        return;
    case CONFIG_FROM_FILE:
        buf_printf(out, "%s:%u", config->file, origin->line);
        return;
    case CONFIG_FROM_ENVIRONMENT:
        buf_printf(out, "%s", config_key_variable(&config_keys[i], name));
        return;
    case CONFIG_FROM_FLAG:
        buf_printf(out, "%s", config_key_flag(&config_keys[i], name));
        return;
    }
    UNREACHABLE("source of a setting");
}
