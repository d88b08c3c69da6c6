/* libleafd: ids of a leafd cluster, for programs in C.
 *
 * The happy path: leafd_open(), one source for each kind of id, *_next() from any thread,
 * leafd_free(). What the library does, and what it promises, is in docs/clients.md of leafd; here
 * is what that is called in C.
 *
 *     const char *settings[] = {"endpoints=http://127.0.0.1:8080,http://127.0.0.1:8081", NULL};
 *     struct leafd_error error;
 *     struct leafd *leafd = leafd_open(settings, &error);
 *     struct leafd_segment *orders = leafd ? leafd_segment(leafd, "orders", &error) : NULL;
 *     int64_t id = orders ? leafd_segment_next(orders, &error) : -1;
 *
 * Failure modes: a function that fails gives -1 or NULL, and fills *error if that is not NULL. It
 * returns within its deadline and 100 ms. Nothing here prints, ends the process, or touches its
 * signals, its environment or its locale.
 *
 * Threads: all functions may be called from any thread at any time, but for leafd_free(). The
 * library has threads of its own, with all signals blocked: at most 34 that fetch ranges and ask
 * for nodes, one that drops old ones, and one a source of snowflake ids.
 *
 * Fork: a child drops what it inherited (ranges, connections, worker ids) with its first call, and
 * fetches its own. The sources stay usable. It needs Linux 4.14 or later (MADV_WIPEONFORK).
 *
 * The soname changes when a program that was built with an older libleafd would not run any more.
 * leafd_stats may grow at its end, since the caller says how large its own is, and leafd_event and
 * leafd_gauge, which the library makes; the other structures stay as they are. */
#ifndef LEAFD_CLIENTS_C_LEAFD_H
#define LEAFD_CLIENTS_C_LEAFD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A connection to one cluster, and all that its sources share. */
struct leafd;

/* Why a call failed. code is the server's ("unknown_tag") or the library's: "bad_setting",
 * "unreachable", "untrusted", "other_cluster", "bad_answer", "window_over", "fenced",
 * "layout_unknown", "closed", "no_memory".
 * status is HTTP's, 0 where no server answered. retryable: it would make sense to come again. key:
 * of strict ids and texts, if the request had one, the key under which to come again for the ids
 * that may be in a lost answer, for a day; else "". */
struct leafd_error {
    char code[40];
    int status;
    bool retryable;
    char message[895];
    char key[129]; /* the end of what once was message's, so that older programs have room for it */
};

/* Ids first to last, both inclusive. */
struct leafd_range {
    int64_t first;
    int64_t last;
};

/* count ids: first, first + increment, and so on up to last. */
struct leafd_series {
    int64_t first;
    int64_t last;
    int64_t increment; /* 1: they follow each other */
};

/* Make a client. settings: "name=value" texts, ended by NULL; they are copied.
 *
 *   endpoints        one to 16 base URLs, separated by commas: http:// or https://, host, port;
 *                    or http+srv://, https+srv:// and the name of an SRV record
 *   admin_endpoints  the same, of the listener for worker ids (default: endpoints)
 *   token            1 to 512 visible ASCII characters (default: none)
 *   token_file       a file with it, read again once it has changed
 *   ca_file          certificates of those who may sign the servers' (PEM; default: the system's)
 *   cert_file        a certificate of the client's own (PEM), key_file: its key
 *   connect_ms       1 to 600000 (300): a connection to a node; twice as long after each round
 *   attempt_ms       1 to 600000 (4000): one request to one node, its connection included
 *   deadline_ms      1 to 600000 (10000): a call in all
 *   cover_ms         1 to 600000 (10000): a range is to last so long
 *   min_count        1 to 100000 (100), max_count (100000): how many ids are asked for at once
 *   window_ms        1000 to 86400000 (60000): of a worker id
 *   max_age_ms       1 to 86400000 (3600000): a range that is older is dropped, within 1 s
 *   zone             1 to 128 bytes of UTF-8 (default: none): whose nodes are asked first
 *   discover         true or false (default: true with a zone): nodes are found by asking one
 *
 * Without endpoints the environment says which cluster it is and who is asking: LEAFD_ENDPOINTS,
 * LEAFD_ADMIN_ENDPOINTS, LEAFD_TOKEN, LEAFD_TOKEN_FILE, LEAFD_CA_FILE, LEAFD_CERT_FILE,
 * LEAFD_KEY_FILE, LEAFD_ZONE, LEAFD_DISCOVER, each that is not set here. Nothing is sent yet. NULL:
 * "bad_setting" with the name, the value and the rule, or "no_memory".
 * The client is the caller's, to be freed by leafd_free(). */
struct leafd *leafd_open(const char *const *settings, struct leafd_error *error);

/* Release worker ids, end all threads, connections and waiting calls, burn what is held. It takes
 * as long as one attempt at most for each source of snowflake ids. From then on calls fail with
 * "closed"; counters can still be read. A second time it does nothing. */
void leafd_close(struct leafd *leafd);

/* Close, and free the client with its sources. No other call may be under way, or follow. NULL is
 * nothing. */
void leafd_free(struct leafd *leafd);

/* --- ids of a segment: nanoseconds each --- */

struct leafd_segment;

/* The source of a tag (1 to 128 bytes of UTF-8 without control characters): the same one each time.
 * It belongs to the client. At most 4096 a client. NULL: "bad_setting", "closed", "no_memory". */
struct leafd_segment *leafd_segment(struct leafd *leafd, const char *tag,
                                    struct leafd_error *error);

/* One id; it waits for the client's deadline at most, where none is held. */
int64_t leafd_segment_next(struct leafd_segment *segment, struct leafd_error *error);

/* count ids into ids[], by a deadline of its own (0: the client's). 0, or -1: no id was given then,
 * those that were taken already are skipped. */
int leafd_segment_take(struct leafd_segment *segment, size_t count, int64_t *ids,
                       uint32_t deadline_ms, struct leafd_error *error);

/* 1 to 100000 ids in one range, by a request of its own. 0 or -1. The first one refuses tags whose
 * ids do not follow each other: "stepped". */
int leafd_segment_range(struct leafd_segment *segment, uint32_t count, struct leafd_range *range,
                        uint32_t deadline_ms, struct leafd_error *error);
int leafd_segment_series(struct leafd_segment *segment, uint32_t count, struct leafd_series *series,
                         uint32_t deadline_ms, struct leafd_error *error);

/* Close this source alone: what it holds is burnt, calls that wait and those that come fail with
 * "closed". leafd_segment() with its tag opens it again. */
void leafd_segment_close(struct leafd_segment *segment);

/* --- strict ids: a request each --- */

struct leafd_strict;

struct leafd_strict *leafd_strict(struct leafd *leafd, const char *tag, struct leafd_error *error);

/* One id, above all that were acknowledged before this call began. */
int64_t leafd_strict_next(struct leafd_strict *strict, struct leafd_error *error);

/* 1 to 100000 ids, which follow each other. key (1 to 128 visible ASCII characters): the same key
 * gets the same ids, for a day; NULL: one of the call's own. *replayed (may be NULL) tells if an
 * earlier request with the key had got them, a lost one of this call, say. */
int leafd_strict_take(struct leafd_strict *strict, uint32_t count, const char *key,
                      struct leafd_range *range, bool *replayed, uint32_t deadline_ms,
                      struct leafd_error *error);

/* The same, also for a tag whose ids do not follow each other, which leafd_strict_take() refuses
 * ("stepped") for more than one id. */
int leafd_strict_series(struct leafd_strict *strict, uint32_t count, const char *key,
                        struct leafd_series *series, bool *replayed, uint32_t deadline_ms,
                        struct leafd_error *error);

/* As leafd_segment_close(). */
void leafd_strict_close(struct leafd_strict *strict);

/* --- ids as texts, as the server writes them: a request each --- */

enum { LEAFD_TEXT_BYTES = 131 }; /* of an id's text at most, with the 0 at its end */

struct leafd_texts;

/* The source of a tag's ids as texts: in the tag's shape, if it has one. */
struct leafd_texts *leafd_texts(struct leafd *leafd, const char *tag, struct leafd_error *error);

/* One id. 0 or -1. */
int leafd_texts_next(struct leafd_texts *texts, char text[LEAFD_TEXT_BYTES],
                     struct leafd_error *error);

/* 1 to 1000 ids into[count]. key as of leafd_strict_take(); a tag of mode trend takes none
 * ("bad_key"), which a call with NULL finds out by itself. 0, or -1: what into has is no id. */
int leafd_texts_take(struct leafd_texts *texts, uint32_t count, const char *key,
                     char (*into)[LEAFD_TEXT_BYTES], bool *replayed, uint32_t deadline_ms,
                     struct leafd_error *error);

/* The number of a text of this tag, whether or not it was granted to anyone, from the
 * admin_endpoints; -1: "bad_id" for what is no text of the tag's shape, or has a wrong check. */
int64_t leafd_texts_decode(struct leafd_texts *texts, const char *text, uint32_t deadline_ms,
                           struct leafd_error *error);

/* As leafd_segment_close(). */
void leafd_texts_close(struct leafd_texts *texts);

/* --- snowflake ids, made in this process --- */

struct leafd_snowflake;

/* What a snowflake id is made of. */
struct leafd_parts {
    int64_t time_ms; /* since 1970 */
    uint32_t worker_id;
    uint32_t sequence;
};

/* A generator with a worker id of its own. name (as a tag): who holds it; NULL: a name is made,
 * and the client has one such source. */
struct leafd_snowflake *leafd_snowflake(struct leafd *leafd, const char *name,
                                        struct leafd_error *error);

/* One id. The first call, and the first after the worker id was lost, asks for a worker id. */
int64_t leafd_snowflake_next(struct leafd_snowflake *snowflake, struct leafd_error *error);
int64_t leafd_snowflake_next_within(struct leafd_snowflake *snowflake, uint32_t deadline_ms,
                                    struct leafd_error *error);

/* Take an id apart by the cluster's layout; the layout comes with a worker id, so one is asked for
 * where there is none yet. 0 or -1. */
int leafd_snowflake_decode(struct leafd_snowflake *snowflake, int64_t id, struct leafd_parts *parts,
                           struct leafd_error *error);

/* The smallest id of a time, for scans of ids by time; the layout as above. -1: an error; of a time
 * that the layout cannot hold "bad_setting". */
int64_t leafd_snowflake_at(struct leafd_snowflake *snowflake, int64_t time_ms,
                           struct leafd_error *error);

/* As leafd_segment_close(): its worker id is released, which takes one attempt at most. */
void leafd_snowflake_close(struct leafd_snowflake *snowflake);

/* --- events --- */

/* What happened. Texts are never NULL, and borrowed until the hook returns. */
struct leafd_event {
    const char *kind;      /* one of those of docs/clients.md, as "failover" */
    const char *name;      /* of the tag, or of the holder of the worker id; else "" */
    const char *from, *to; /* failover: the endpoints; other_cluster: from alone; else "" */
    const char *code;      /* refill_failed: the error's; else "" */
    uint64_t ids;          /* aged, generation: how many were dropped */
    int64_t ms;            /* clock_back: how far */
};

/* Have hook(user, event) called at each event from now on, by the thread that it happens in,
 * without a lock; NULL: none. To be set before the first call of a source. The hook may call all
 * functions but leafd_free(). A close in it returns at once: threads end, and worker ids are
 * released, with the next leafd_close() or leafd_free() elsewhere. A child of a fork in the hook
 * must not return from it. */
void leafd_on_event(struct leafd *leafd, void (*hook)(void *user, const struct leafd_event *event),
                    void *user);

/* --- counters --- */

/* Numbers since the client was made (since the fork, in a child). */
struct leafd_stats {
    uint64_t ids_segment;
    uint64_t ids_strict;
    uint64_t ids_snowflake;
    uint64_t requests;    /* that were sent, retries included */
    uint64_t retries;     /* of these, those of a call that had sent one before */
    uint64_t failovers;   /* changes to another address */
    uint64_t errors;      /* calls that failed, and requests in the background */
    uint64_t waits;       /* calls that had to wait for a request */
    uint64_t burnt;       /* ids that were dropped unused */
    uint64_t clock_waits; /* snowflake ids that had to wait for the clock */
    uint64_t renewals;    /* of worker ids */
    uint64_t hedges;      /* second requests beside one that took long */
};

/* Fill stats, of stats_bytes = sizeof *stats. */
void leafd_stats(struct leafd *leafd, struct leafd_stats *stats, size_t stats_bytes);

/* What a source holds. */
struct leafd_gauge {
    const char *name;      /* of the tag, or of the holder of the worker id; borrowed meanwhile */
    bool is_window;        /* of a source of snowflake ids: window_end_ms is set, else the others */
    uint64_t ids_left;     /* in ranges that are held */
    uint64_t age_ms;       /* of the oldest of these; 0: none is held */
    int64_t window_end_ms; /* of its worker id, since 1970; 0: it has none */
};

/* Have each(user, gauge) called for each source of segments and of snowflake ids that is open. */
void leafd_gauges(struct leafd *leafd, void (*each)(void *user, const struct leafd_gauge *gauge),
                  void *user);

/* Counters and gauges as text for Prometheus (leafd_client_..._total), as snprintf() does it: at
 * most text_bytes with the 0 at its end; returns the length of all of it. */
size_t leafd_stats_text(struct leafd *leafd, char *text, size_t text_bytes);

/* --- for a program's own tests --- */

/* A client of a cluster in memory. Every tag is there, its ids begin at 1; all functions do as they
 * do with nodes, but in a child of fork, which has a cluster of its own. settings: as of
 * leafd_open(), or NULL. */
struct leafd *leafd_fake_new(const char *const *settings, struct leafd_error *error);

/* Of such a client: the next id of a tag, where what a source holds of it is dropped; and so many
 * requests from now on that get this error (503, "no_leader"), or, for status 0, break. 0 times end
 * that. Of another client nothing. */
void leafd_fake_set_next(struct leafd *fake, const char *tag, int64_t next);
void leafd_fake_fail(struct leafd *fake, uint32_t times, int status, const char *code);

/* "0.2.0" */
const char *leafd_version(void);

#ifdef __cplusplus
}
#endif
#endif
