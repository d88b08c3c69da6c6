/*
 * id_table.h - this node's tags in use, found by name without a lock.
 *
 * Holds only the tags that were asked for on this node. The HTTP loops look names up; the raft loop
 * alone inserts. Entries are never removed or moved while the table lives (a deleted tag is a
 * state), so a pointer to an entry stays valid; growing publishes a larger index and keeps the old
 * ones until the table is freed (together less than the size of the newest).
 *
 * Lookup: open addressing over XXH3 of the name with a seed, load at most one half; 32 bits of the
 * hash are stored beside the entry's handle, so that a miss touches one cache line. How to wait for
 * a refill without losing the wake-up (refill_wanted, demand, waiting_loops) is in allocator.h.
 *
 * Threads: id_table_find and want_list_push from any; everything else from the owner (the raft
 * loop).
 */
#ifndef LEAFD_ID_ALLOC_ID_TABLE_H
#define LEAFD_ID_ALLOC_ID_TABLE_H

#include <bsd/sys/tree.h>
#include <pthread.h>
#include <stddef.h>

#include "src/base/hot.h"
#include "src/base/limits.h"
#include "src/id/alloc/refill.h"
#include "src/id/alloc/segment.h"
#include "src/id/codec/request.h"
#include "src/id/codec/tag.h"

struct prefetch_entry;

/* Why a tag is paused, for its clients: a lock that no id takes. */
struct id_pause {
    pthread_mutex_t mutex;
    uint16_t len; /* guarded by mutex, as text */
    char text[LIMIT_TAG_REASON_BYTES];
};

enum id_tag_state {
    ID_TAG_ACTIVE = 0,
    ID_TAG_UNKNOWN = 1,   /* deleted in the cluster: 404 until it is made again */
    ID_TAG_EXHAUSTED = 2, /* no ids left below 2^63: 409 once the slots are used up */
    ID_TAG_STRICT = 3,    /* no segments: ids come by ID_REQUEST_STRICT */
    ID_TAG_MONOTONIC = 4, /* as well */
    ID_TAG_PAUSED = 5     /* of any mode: 423 until it is resumed; what it has stays in its slots */
};

struct id_tag {
    /* any thread */
    struct segment_buffer buffer;
    _Atomic uint32_t state;         /* enum id_tag_state */
    _Atomic uint32_t max_step;      /* largest segment; 0 until known */
    _Atomic bool refill_wanted;     /* set by the claimer that asks, cleared when a refill lands */
    uint16_t name_len;              /* fixed at insertion, as the name */
    _Atomic uint32_t increment;     /* of the row seen last; 0: 1 */
    _Atomic uint32_t step;          /* as last seen; 0: unknown */
    uint32_t unseen;                /* the raft loop's: ids left at its last look, and come since */
    _Atomic uint64_t demand;        /* ids wanted by parked requests: segments are sized for it */
    _Atomic uint64_t waiting_loops; /* bit i: HTTP loop i has parked requests to be woken */
    /* Of its ids' texts, owned; NULL: they are numbers. Set once, before there are ids. Further
     * keys are put behind those that it has before there are ids by them here; how many there are
     * (key_count) is the raft loop's alone. */
    const struct shape *_Atomic shape;
    _Atomic uint64_t room; /* so many ids the cluster can grant yet, by what is known here; at first
                              as if there were no end */
    /* The refill that is wanted: first on its way to the raft loop, then with the batcher, never
     * both (allocator.h). item.at_ms: not before this after a failure. */
    union {
        struct id_tag *want_next; /* in a want_list; any thread */
        struct batch_item item;
    };
    struct id_pause *_Atomic pause; /* owned; NULL: it was never paused here */
    /* raft loop alone */
    struct refill refill;
    uint64_t bound;                  /* exclusive end of its ids; UINT64_MAX: not known */
    uint32_t offset;                 /* of the row seen last, as increment */
    struct prefetch_entry *prefetch; /* its place among the tags in use (prefetch.h), or NULL */
    RB_ENTRY(id_tag) by_name;
    char name[]; /* name_len bytes and a NUL */
};

/*
 * Tags that want a refill, on their way from the HTTP loops to the raft loop, without a lock.
 *
 * The happy path: whoever turned tag->refill_wanted from false to true pushes the tag (so none is
 * in the list twice), and wakes the raft loop if the list was empty; the raft loop takes all of
 * them at once. Nobody has to wake it who finds the list not empty: the one that pushed the first
 * tag does, and the raft loop takes the list after that.
 *
 * Threads: push from any, take from the owner's (the raft loop).
 */
struct want_list {
    _Atomic(struct id_tag *) first;
};

/* True if the owner has to be woken. */
static inline bool want_list_push(struct want_list *list, struct id_tag *tag)
{
    struct id_tag *first = atomic_load_explicit(&list->first, memory_order_relaxed);

    do {
        tag->want_next = first;
        YIELD("linked a wanted tag");
    } while (!atomic_compare_exchange_weak_explicit(&list->first, &first, tag, memory_order_release,
                                                    memory_order_relaxed));
    YIELD("pushed a wanted tag");
    return first == NULL;
}

/* All that are in it, to be walked by want_list_next(); NULL: none. */
static inline struct id_tag *want_list_take(struct want_list *list)
{
    return atomic_exchange_explicit(&list->first, NULL, memory_order_acquire);
}

/* The one behind a tag that was taken. To be read before anything is done with the tag: from then
 * on it may be pushed anew. */
static inline struct id_tag *want_list_next(const struct id_tag *tag)
{
    return tag->want_next;
}

/* A tag as a node reports it. */
struct id_segment_info {
    char name[LIMIT_TAG_NAME_BYTES + 1];
    uint16_t name_len;
    uint32_t state;                    /* enum id_tag_state */
    struct segment_slot_view slots[2]; /* 0: current */
    uint32_t step;                     /* last segment's size; 0 when none came yet */
    bool refill_in_flight;
    uint64_t last_refill_ago_ms; /* UINT64_MAX: never */
    uint64_t rate_per_s;         /* ids that it handed out, of late (allocator.h) */
    uint64_t lasts_s;            /* what it holds, at that rate; UINT64_MAX: it is not used */
    uint32_t cover_s;            /* and how long that is to be at least; 0: not said */
};

struct id_segments_page {
    struct id_segment_info *items; /* malloc'ed by the backend, freed by the caller */
    size_t count;
    bool more;
};

/* Why ids were burnt: granted to this node and handed to nobody. A crash burns what was in memory;
 * nobody is left to count that. */
enum id_burn_cause {
    ID_BURN_GENERATION, /* the tag was deleted, forced down, or became strict */
    ID_BURN_LATE,       /* a grant came after it had been given up, or did not fit */
    ID_BURN_STOP,       /* left in memory at a clean stop, and not to be given back */
    ID_BURN_STRICT,     /* allocated for strict requests that had been answered with an error */
    ID_BURN_SKIPPED,    /* too few in one piece for contiguous=1 */
    ID_BURN_UNANSWERED, /* claimed for a request that failed afterwards */
    ID_BURN_WINDOW,     /* left in a leader's windows when it lost the lead */
    ID_BURN_CAUSES
};

/*
 * Called when parked requests of a tag should try again: a segment was published, or the tag's
 * state changed. Called on the raft loop with the bits of waiting_loops that were set (and are now
 * cleared). tag NULL: the clients that are cut have changed, for all loops.
 */
struct id_waker {
    void (*wake)(struct id_waker *waker, struct id_tag *tag, uint64_t loops);
};

struct id_table;

/* seed: of hashes of names. Random, so that no client can choose names that meet in one place. */
struct id_table *id_table_new(uint64_t seed);
void id_table_free(struct id_table *table); /* accepts NULL; all threads must have stopped */

/* The entry of a name, or NULL. Lock-free; no allocation. */
struct id_tag *id_table_find(const struct id_table *table, const char *name, size_t len);

/* The entry of a name, made (empty, active) if missing. NULL when LIMIT_TAGS entries exist. */
struct id_tag *id_table_insert(struct id_table *table, const char *name, size_t len);

/* The shape of the tag's row, unless the entry has it, and its further keys. A name has one for
 * ever (src/id/codec/shape.h), so the first row that is seen has it. Has it {key}? Owner
 * only. */
bool id_tag_take_shape(struct id_tag *tag, const struct tag_row *row);

/* The tag is paused for this reason, of up to LIMIT_TAG_REASON_BYTES. Owner only. */
void id_tag_set_reason(struct id_tag *tag, const char *text, size_t len);

/* The reason of its last pause, with a NUL; empty: it has none. Any thread. */
void id_tag_reason(const struct id_tag *tag, char ret_text[LIMIT_TAG_REASON_BYTES + 1]);

/* Has this node the keys of the texts of these ids, which are below 2^63? Owner only. */
bool id_tag_has_keys(const struct id_tag *tag, uint64_t first, uint32_t count);

size_t id_table_count(const struct id_table *table);

/* The next entry in byte order of names, the first one behind NULL; NULL: there is none. Owner
 * only. */
struct id_tag *id_table_after(struct id_table *table, const struct id_tag *tag);

/* The first entry in byte order of names that is > after (or >= prefix when after is empty) and
 * begins with prefix; NULL at the end. Owner only. */
struct id_tag *id_table_next(struct id_table *table, const char *prefix, size_t prefix_len,
                             const char *after, size_t after_len);

/*
 * --- segments_page: the bytes of a page of buffers (id_segments_page): what one node tells another
 * of what it holds in memory.
 *
 * They are for people to look at; no id is ever handed out by them. Little-endian, a part of
 * FRAME_BUFFERS (raft/wire/wire.h), whose golden bytes include them.
 *
 * Failure modes: a page of another node may say anything. What cannot be shown is refused: names
 * that are none, out of order or twice, more ids left than a segment had, too many tags.
 *
 * Thread: pure functions, any.
 */

/* At most LIMIT_TAGS_PER_PAGE items. */
void segments_page_put(struct buf *buf, const struct id_segments_page *page);

/* 0, and the items are the caller's; or ERR_BAD_MESSAGE, and there are none. */
int segments_page_read(const void *data, size_t len, struct id_segments_page *ret_page) MUST_CHECK;

#endif
