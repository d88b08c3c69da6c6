/*
 * limits.h - every bound of leafd in one place.
 *
 * Each limit names its unit, what happens beyond it, and is tested at the limit and one beyond.
 */
#ifndef LEAFD_BASE_LIMITS_H
#define LEAFD_BASE_LIMITS_H

/* Times stay at or below the end of the year 9999, so that they can always be shown. */
#define LIMIT_TIME_MAX_MS 253402300799999ULL

/* --- tags (src/id) --- */
#define LIMIT_TAG_NAME_BYTES 128         /* longer: 400 bad_tag */
#define LIMIT_TAG_DESCRIPTION_BYTES 256  /* longer: 400 bad_request */
#define LIMIT_TAG_STEP 1000000000        /* step and max_step; larger: 400 bad_request */
#define LIMIT_TAG_COVER_S 86400          /* larger cover_s: 400 bad_request */
#define LIMIT_TAG_REASON_BYTES 200       /* of a pause, or a cut; longer: 400 bad_request */
#define LIMIT_MAX_ID_JUMP (1ULL << 48)   /* max_id raised by more at once: 409 needs_force */
#define LIMIT_MAX_ID_LEFT 1000000        /* or raised so that fewer ids are left: as well */
#define LIMIT_TAGS_PER_BULK 10000        /* more in one POST /api/tags: 400 bad_request */
#define LIMIT_TAGS_PER_PAGE 1000         /* larger limit=: 400 bad_request */
#define LIMIT_ROWS_PER_LOOK 10000        /* rows a list scans at once, deleted ones too */
#define LIMIT_TAGS 4000000               /* rows of the table, tombstones too; more: overloaded */
#define LIMIT_TAG_USED_BYTES 320         /* memory of a tag in use on a node, without its name */
#define LIMIT_MEMORY_MIN_BYTES (1 << 20) /* data.memory-bytes; less: a configuration error */
#define LIMIT_GRANTS_PER_ENTRY 512       /* grants in one Raft entry; the rest waits a turn */
#define LIMIT_GRANT_ENTRIES_IN_FLIGHT 8  /* grant entries a node has under way at once */
#define LIMIT_GIVE_BACK_TAGS 20000       /* tags whose segments a stop gives back; the rest burns */
#define LIMIT_SEGMENT_HOLDERS 64         /* nodes that may hold segments; more: overloaded */

/* Number of systems that share a sequence; LIMIT_TAG_STEP ids of such a tag are 10^15 numbers, far
 * below 2^63. */
#define LIMIT_TAG_INCREMENT 1000000
#define LIMIT_TINYID_BATCH 10000 /* batchSize=; more is cut to it */

#define LIMIT_PREFETCH_TAGS 10000 /* tags that a restart fetches; the busiest ones */

/* --- strict tags (src/id) --- */
#define LIMIT_STRICT_WAITING 20000 /* strict requests a node holds; more: overloaded */
#define LIMIT_STRICT_ITEMS 1024    /* requests in one entry; the rest goes into the next */
#define LIMIT_STRICT_BATCHES 8     /* entries a node has under way */
#define LIMIT_WINDOWS 65536        /* monotonic tags in use by a leader; the oldest is burnt */
#define LIMIT_ROUNDS 8             /* rounds not confirmed yet; the next one waits */
#define LIMIT_MONOTONIC_BYTES (64 << 20) /* of batches that a leader holds; more: overloaded */
#define LIMIT_RECALLS 10000              /* tags on their way to strict mode; more: overloaded */
#define LIMIT_KEY_BYTES 128              /* Idempotency-Key; longer: 400 bad_key */
#define LIMIT_KEYS 10000000              /* remembered at a time, if memory allows; more: 503 */
#define LIMIT_KEY_LIFE_MS 86400000       /* in the log's time, for which a key is kept */
#define LIMIT_KEYS_FORGOTTEN 2048        /* expired keys dropped by one command */

/* --- sessions: commands that are carried out once (src/state/codec/session.h) --- */
#define LIMIT_SESSIONS 64             /* nodes that have one; more: overloaded */
#define LIMIT_SESSION_COMMANDS 1024   /* of a node, from the lowest awaited on; more wait there */
#define LIMIT_SESSION_BYTES (8 << 20) /* of answers kept for a node; more: overloaded */

/* --- snowflake ids and worker ids (src/id) --- */
#define LIMIT_WORKER_IDS 4194304     /* worker ids 0..4194303: 22 bits */
#define LIMIT_WORKER_ROWS 65536      /* of these, known at a time; a client's beyond: 409 */
#define LIMIT_WORKERS_PER_PAGE 1024  /* GET /api/workers?limit= */
#define LIMIT_CUTS 64                /* clients that are cut at a time; more: 409 */
#define LIMIT_CUT_WHO_BYTES 64       /* a token's name, or an address with its prefix */
#define LIMIT_CUT_S 604800           /* for how long; more: 400 */
#define LIMIT_POOLS 64               /* pools of worker ids, of a zone each; more: 400 */
#define LIMIT_POOLS_BYTES 4096       /* of all of them as a text; longer: 400 */
#define LIMIT_WORKER_NAME_BYTES 128  /* longer: 400 bad_request */
#define LIMIT_WORKERS_PER_NODE 16    /* snowflake.workers */
#define LIMIT_SNOWFLAKE_SLOTS 64     /* worker ids a process may use in its life */
#define LIMIT_WINDOW_MIN_MS 1000     /* window_ms of a worker id; less: 400 bad_request */
#define LIMIT_WINDOW_MAX_MS 86400000 /* more: 400 bad_request */
#define LIMIT_WORKER_AHEAD_MS 60000  /* how far a command's time may be ahead of the log's */
#define LIMIT_LOG_STEP_MS 86400000   /* one step of the log's time; a longer one is cut to it */
#define LIMIT_CLOCK_BACK_WAIT_MS 5   /* a clock back by so much is waited for; more refuses */
#define LIMIT_LAYOUTS 64             /* names of layouts, deleted ones too; more: overloaded */
#define LIMIT_LAYOUT_NAME_BYTES 32   /* longer: 400 bad_request */

/* --- ids over HTTP --- */
#define LIMIT_COUNT 100000           /* count=; more: 400 bad_count */
#define LIMIT_RANGES_PER_REPLY 64    /* ranges one reply may be made of; more: 503 overloaded */
#define LIMIT_TIMEOUT_MS 10000       /* timeout_ms=; more: 400 bad_request */
#define LIMIT_WAITERS_PER_LOOP 20000 /* requests parked on a refill; more: 503 overloaded */

/* --- authorization (http/auth) --- */
#define LIMIT_TOKEN_NAME_BYTES 64           /* name of a token */
#define LIMIT_TOKEN_SUBJECT_BYTES 255       /* name in a client's certificate */
#define LIMIT_TOKENS 1024                   /* lines of auth.tokens-file; more: refused */
#define LIMIT_TOKENS_FILE_BYTES (512 << 10) /* the file; larger: refused */
#define LIMIT_TOKEN_LINE_BYTES 4096         /* a line of it; longer: refused */
#define LIMIT_TOKEN_PREFIXES 16             /* prefixes of a token; more: refused */
#define LIMIT_TOKEN_PROOFS 2                /* lines of one name; more: refused */
#define LIMIT_TOKEN_QUOTA 1000000000        /* a quota of a token; more: refused */

#define LIMIT_AUDIT_ENTRIES 10000     /* entries kept; the oldest are dropped */
#define LIMIT_AUDIT_REFUSALS 1000     /* of these, for refused requests */
#define LIMIT_AUDIT_BYTES (8 << 20)   /* all of them; the oldest are dropped */
#define LIMIT_AUDIT_ENTRY_BYTES 2048  /* one entry; a longer one is cut */
#define LIMIT_AUDIT_PER_PAGE 1000     /* entries of a reply */
#define LIMIT_AUDIT_REFUSALS_PER_S 10 /* more are only counted */

/* --- watches (http/watch) --- */
#define LIMIT_EVENTS 512              /* events kept by a node; the oldest are dropped */
#define LIMIT_EVENTS_PER_PAGE 512     /* events of a reply; larger limit=: 400 bad_request */
#define LIMIT_EVENTS_PER_FRAME 64     /* sent at once to a watcher, which asks for the rest */
#define LIMIT_LIVE_SOCKET_BYTES 16384 /* unsent bytes to a viewer; the kernel doubles it */
#define LIMIT_LIVE_VIEWERS 64         /* GET /api/live of a node; more: 503 overloaded */
#define LIMIT_LIVE_SHARE 16           /* of one client, once no more than these are left */

/* --- HTTP (http/) --- */
#define LIMIT_HTTP_ADMIN_LOOPS 1         /* of the admin listener */
#define LIMIT_HTTP_ADMIN_CONNECTIONS 256 /* of the admin listener; more: 503 overloaded and close */
#define LIMIT_HTTP_TARGET_BYTES 4096     /* request target; longer: 414 and close */
#define LIMIT_HTTP_HEADERS_BYTES 8192    /* request head; longer: 431 and close */
#define LIMIT_HTTP_HEADER_COUNT 64       /* header lines; more: 431 and close */
#define LIMIT_HTTP_BODY_BYTES (8 << 20)  /* a bulk route's request body; 413 and close */
#define LIMIT_HTTP_SMALL_BODY_BYTES (64 << 10) /* another route's; larger: 413 and close */
#define LIMIT_JSON_BYTES 65536                 /* one JSON object; longer: 400 bad_json */
#define LIMIT_JSON_VALUES 64                   /* in it, commas and brackets; more: 400 bad_json */
#define LIMIT_JSON_DEPTH 8                     /* of objects and arrays in it; more: 400 bad_json */
#define LIMIT_JSON_SLICE_BYTES (16 << 10)      /* of a bulk read at once; then other work */
#define LIMIT_HTTP_PIPELINE 1024           /* replies queued a connection before reading stops */
#define LIMIT_HTTP_OUTPUT_BYTES (64 << 10) /* unsent output a connection before reading stops */
#define LIMIT_HTTP_SMALL_REPLY_BYTES 1024
#define LIMIT_HTTP_PART_BYTES (31 << 10)      /* a reply that may be longer is made in parts */
#define LIMIT_HTTP_OUTPUT_MIN_BYTES (2 << 20) /* of a loop, whatever is set */
#define LIMIT_HTTP_INPUT_MIN_BYTES (2 << 20)  /* of a loop, whatever is set */
#define LIMIT_HTTP_TURN_REQUESTS 64      /* of one connection served at once; then others' turn */
#define LIMIT_HTTP_TURN_BYTES (31 << 10) /* of large replies and long pipelines a loop's turn */
#define LIMIT_HTTP_UNSENT_BYTES (128 << 10) /* not sent yet, in the kernel, a connection */
#define LIMIT_HTTP_HELD_BYTES (16 << 10)    /* while output is short: less may be read slowly */
#define LIMIT_HTTP_SHORT_RATE 256           /* factor over the least rate for the others */
#define LIMIT_HTTP_BODY_SLOW_MS 500 /* a body with less progress than a step for this long ... */
#define LIMIT_HTTP_BODY_STEP_BYTES (16 << 10) /* ... is closed when there is no room; 408 */
#define LIMIT_HTTP_CONNECTIONS 10000          /* a loop; more: 503 overloaded and close */
#define LIMIT_HTTP_LOOPS 64                   /* http.loops; more: a configuration error */
#define LIMIT_QUOTA_LINES_PER_S 10            /* of the log, a loop, of clients over their quotas */
#define LIMIT_HTTP_CALLS_KEPT 256             /* of strict ids, for the next ones of a loop */
#define LIMIT_CLIENTS 16384                   /* records of clients; more share one */
#define LIMIT_CLIENT_NAME_BYTES 64            /* an address, or a token's name; longer: cut */
#define LIMIT_HTTP_HEAD_MS 5000   /* from a request's first byte to its head's end; 408 */
#define LIMIT_HTTP_BODY_MS 10000  /* from the head's end to the body's end; 408 */
#define LIMIT_HTTP_IDLE_MS 620000 /* keep-alive with no request; closes. Above that of proxies */
#define LIMIT_HTTP_WRITE_MS 10000 /* a reader that takes nothing for this long; closes */
#define LIMIT_HTTP_LINGER_MS 2000 /* input dropped after an error's reply before closing */
#define LIMIT_HTTP_RETIRE_MS 1000 /* a node that stops closes idle connections over this time */
#define LIMIT_HTTP_GOODBYE_MS 250 /* time for its client to see the end; then it closes */
#define LIMIT_HTTP_LAST_MS 50     /* clients that connect while a listener closes are served */
#define LIMIT_HTTP_BUDGET_BYTES (1ULL << 36) /* settings of memory; more: configuration error */
#define LIMIT_HTTP_REFUSED 16          /* connections over the limit being answered so, a loop */
#define LIMIT_HTTP_BACKLOG 1024        /* connections the kernel holds for accept, a loop */
#define LIMIT_HTTP_ACCEPTS_PER_TURN 64 /* then existing connections get their turn */
#define LIMIT_HTTP_ACCEPT_PAUSE_MS 100 /* out of file descriptors: before the next try */

/* --- RESP, as Redis speaks it (http/resp) --- */
#define LIMIT_RESP_BYTES 8192    /* a request; longer: an error and close */
#define LIMIT_RESP_WORDS 64      /* of a request; more: an error and close */
#define LIMIT_RESP_NAME_BYTES 64 /* of CLIENT SETNAME; longer: an error */
#define LIMIT_RESP_IDLE_MS 0     /* a connection with no request; closes. 0: never, as with Redis */

/* --- TLS of HTTP (http/tls) --- */
#define LIMIT_TLS_HANDSHAKE_MS 10000     /* from a connection's first byte to the end; closes */
#define LIMIT_TLS_HANDSHAKES 256         /* under way, a loop; then the oldest is closed */
#define LIMIT_TLS_STARTS_PER_TURN 8      /* then open ones get their turn */
#define LIMIT_TLS_CONTROL 32             /* handshake messages without a request; more: closes */
#define LIMIT_TLS_WARM 128               /* connections with buffers of their own, a loop */
#define LIMIT_TLS_WARM_MS 1000           /* quiet for this long: its buffers are freed */
#define LIMIT_TLS_FILE_BYTES (256 << 10) /* http.tls-*; larger: a configuration error */

/* --- replication (raft/) --- */
#define LIMIT_NODES 7  /* members of a cluster */
#define LIMIT_PEERS 16 /* links of a node: members, and those of a newer configuration */
#define LIMIT_MEMBERSHIP_REQUESTS 64 /* that wait on a node; more: overloaded */
#define LIMIT_NODE_ID 65535          /* node ids are 1..65535 */
#define LIMIT_ZONE_BYTES 64          /* name of the zone that a node is in */
#define LIMIT_ADDRESS_BYTES 255      /* "host:port" */
#define LIMIT_CLUSTER_ID_BYTES 64
#define LIMIT_SECRETS 2                /* valid at once, while one is replaced */
#define LIMIT_SECRET_BYTES 1024        /* length of their text */
#define LIMIT_ENTRY_BYTES (4 << 20)    /* one Raft entry; larger proposals: 413 */
#define LIMIT_APPEND_BYTES (4 << 20)   /* entries of one AppendEntries, but for a single one */
#define LIMIT_FRAME_BYTES (8 << 20)    /* one frame between peers, header included */
#define LIMIT_ENTRIES_PER_FRAME 256    /* entries of one AppendEntries (max in flight a peer) */
#define LIMIT_UNCOMMITTED_ENTRIES 4096 /* appended and not committed; more: overloaded */
#define LIMIT_UNCOMMITTED_BYTES (32 << 20)
#define LIMIT_LOG_BYTES (64 << 20) /* of the log in memory; more: it is compacted at once */
#define LIMIT_LOG_TRAILING_BYTES (16 << 20) /* of entries kept after a compaction */
#define LIMIT_REQUESTS_PENDING 16384        /* requests a node holds for the cluster; overloaded */
#define LIMIT_BUFFERS_WAITS 16              /* questions for all nodes' buffers; more: overloaded */
#define LIMIT_BARRIER_WAITS 1024            /* changes that wait for all; more: not_everywhere */
#define LIMIT_FORWARDED 4096                /* requests of others that it passes on; overloaded */
#define LIMIT_FORWARDED_BYTES (16 << 20)    /* bytes of those; more: overloaded */
#define LIMIT_PEER_QUEUE_BYTES (32 << 20)   /* unsent bytes to a peer; more: the frame is dropped */
#define LIMIT_PEER_CONNECTIONS 64           /* inbound peer connections, handshaken or not */
#define LIMIT_HANDSHAKE_MS 5000             /* from accept or connect to the proof; closes */
#define LIMIT_HANDSHAKE_BYTES 8192          /* a handshake frame */
#define LIMIT_TLS_HANDSHAKE_BYTES (32 << 10) /* of TLS before the other side is proved; closes */
#define LIMIT_REKEY_MS 86400000              /* a link gets new keys after this time */
#define LIMIT_REKEY_OUT_MS 10000             /* a link by a removed secret; then it closes */
#define LIMIT_REKEY_STEP_MS 500 /* between two links of this node that change the secret */
#define LIMIT_CONNECT_MS 2000   /* a TCP connect to a peer; redials */
#define LIMIT_REDIAL_MIN_MS 50  /* wait before redialling a peer, doubling to ... */
#define LIMIT_REDIAL_MAX_MS 1000
#define LIMIT_REDIAL_SOON_MS 250   /* the shortest wait is used early once in this time */
#define LIMIT_PEER_IDLE_MS 10000   /* nothing sent for this long: a PING */
#define LIMIT_PEER_STALL_MS 5000   /* unsent bytes without progress for this long; closes */
#define LIMIT_PEER_SILENT_MS 30000 /* nothing received, not even a PING, for this long; closes */
/* Distance of a peer's term or index above our own; a larger one is not believed. */
#define LIMIT_PLAUSIBLE_JUMP (1ULL << 32)
#define LIMIT_PLAUSIBLE (1ULL << 61)  /* a term or index at or above it is not believed */
#define LIMIT_DIVERGED_MS 3000        /* a node whose state differs asks the others; then it ends */
#define LIMIT_COMPARE_MS 10000        /* time to compare rows, and to lend a view of them */
#define LIMIT_COMPARE_PAUSE_MS 10000  /* then none is lent for this long */
#define LIMIT_COMPARE_BYTES (1 << 20) /* rows of one range that are kept to look for the row */
#define LIMIT_SNAPSHOT_CHUNK_BYTES (256 << 10)
#define LIMIT_SNAPSHOT_WINDOW 8           /* chunks sent and not acknowledged */
#define LIMIT_SNAPSHOT_BYTES (2ULL << 30) /* a snapshot's rows */
#define LIMIT_SNAPSHOT_MS 60000           /* a transfer without progress for this long is dropped */

/* --- backups (GET /api/backup); one at a time a node, more: 503 overloaded --- */
#define LIMIT_BACKUP_CHUNK_BYTES (128 << 10) /* of rows that are read at once */
#define LIMIT_BACKUP_MS 600000               /* from its start to its end; longer: cut off */
#define LIMIT_BACKUP_IDLE_MS 30000 /* no request for the next part for this long: given up */
#define LIMIT_GROWTH_TAGS 65536    /* tags with watched growth in a period; more: not known */
#define LIMIT_BACKUP_FILE_BYTES (4ULL << 30) /* a file to restore; larger: refused */

/* --- storage --- */
#define LIMIT_ROW_KEY_BYTES 260          /* LMDB's own limit is 511 */
#define LIMIT_ROW_VALUE_BYTES (64 << 10) /* a larger row in a snapshot: corrupt */
/* A state row as a record of a snapshot. */
#define LIMIT_ROW_BYTES (2 + LIMIT_ROW_KEY_BYTES + 4 + LIMIT_ROW_VALUE_BYTES)
#define LIMIT_STORE_BATCH_BYTES (8 << 20) /* payload of one group commit */
#define LIMIT_STORE_BATCH_OPS 1024
#define LIMIT_COMPACT_PER_COMMIT 1000 /* log entries deleted from the front in one commit */
#define LIMIT_CONF_BYTES (64 << 10)   /* an encoded cluster configuration */
#define LIMIT_STORE_SNAPSHOTS 4       /* open at once; more: overloaded */
/* The store is low below this free part of the map, or this free space, of the disk or of the map
 * (for the map at most a quarter of it). Changes under way still have room then. */
#define LIMIT_STORE_LOW_PERCENT 5
#define LIMIT_STORE_LOW_BYTES (64 << 20)
#define LIMIT_STORE_CHECK_S 600 /* check of the database at start; longer: corrupt */

/* --- configuration (src/node) --- */
#define LIMIT_PATH_BYTES 1023              /* a file or directory; longer: a configuration error */
#define LIMIT_CONFIG_FILE_BYTES (64 << 10) /* the config file; larger: a configuration error */
#define LIMIT_USER_BYTES 32                /* the name of a user of the system */
#define LIMIT_CONFIG_VALUE_BYTES 4096 /* the text of one setting; longer: a configuration error */

/* --- records of a node that are not replicated (STORE_LOCAL) --- */
#define LIMIT_LOCAL_RECORDS 82                    /* their numbers are below it */
#define LIMIT_LOCAL_RECORD_BYTES (32 << 10)       /* one record; a larger one is refused */
#define LIMIT_LOCAL_LEASES 16                     /* numbers 0..15: leases of worker ids */
#define LOCAL_INCARNATION LIMIT_LOCAL_LEASES      /* number 16: how often the node was started */
#define LOCAL_LISTS_FIRST (LOCAL_INCARNATION + 1) /* numbers 17..79: lists of one node */
#define LOCAL_PEERS 80                            /* peer memory (raft/core/rollback.h) */
#define LOCAL_INCARNATIONS 81                     /* its own incarnations (raft/core/rollback.h) */
#define LIMIT_INCARNATIONS 1024                   /* own incarnations that a node remembers */
#define LIMIT_LOCAL_LISTS (LOCAL_PEERS - LOCAL_LISTS_FIRST)
_Static_assert(LIMIT_WORKERS_PER_NODE <= LIMIT_LOCAL_LEASES, "a lease has a record of its own");

/* --- threads --- */
#define LIMIT_MAILBOX_ITEMS 262144 /* items waiting in a mailbox; more: overloaded */

#endif
