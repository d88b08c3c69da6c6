/*
 * id_table.h - this node's tags in use, found by name without a lock.
 *
 * Holds only the tags that were requested on this node. The HTTP loops look names up; only the raft
 * loop inserts. Entries are never removed or moved while the table lives (a deleted tag is a
 * state), so a pointer to an entry stays valid; growing publishes a larger index and keeps the old
 * ones until the table is freed (together less than the size of the newest).
 *
 * Lookup: open addressing over XXH3 of the name with a seed, load below three quarters. 32 bits
 * of the hash are stored beside the entry's handle, so that a miss touches one or two cache lines.
 * allocator.h says how to wait for a refill without losing the wake-up (refill_wanted, demand,
 * waiting_loops).
 *
 * Threads: id_table_find and want_list_push from any; everything else from the owner (the raft
 * loop).
 */
#ifndef LEAFD_ID_ALLOC_ID_TABLE_H
#define LEAFD_ID_ALLOC_ID_TABLE_H

#include <pthread.h>
#include <stddef.h>

#include "src/base/hot.h"
#include "src/base/limits.h"
#include "src/id/alloc/segment.h"
#include "src/id/codec/request.h"
#include "src/id/codec/tag.h"

/* Why a tag is paused, for its clients. A claim never takes this lock. */
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
    ID_TAG_PAUSED = 5     /* any mode: 423 until it is resumed; its ids stay in the slots */
};

struct id_tag {
    /* any thread */
    struct segment_buffer buffer;
    _Atomic uint32_t state;         /* enum id_tag_state */
    _Atomic bool refill_wanted;     /* set by the asking claimer; cleared as the request ends */
    _Atomic bool disk_full;         /* the last refill was refused for want of room */
    uint16_t name_len;              /* fixed at insertion, as the name */
    _Atomic uint32_t increment;     /* of the row seen last; 0: 1 */
    uint32_t offset;                /* raft loop's: of the row seen last, as increment */
    _Atomic uint64_t demand;        /* ids wanted by parked requests: segments are sized for it */
    _Atomic uint64_t waiting_loops; /* bit i: HTTP loop i has parked requests to be woken */
    /* The shape of its ids' texts, owned; NULL: they are numbers. Set once, before there are ids.
     * Further keys are appended before ids by them arrive here; only the raft loop may use the
     * number of keys (key_count). */
    const struct shape *_Atomic shape;
    _Atomic uint64_t room;  /* ids the cluster can still grant, as known here; at first unbounded */
    _Atomic uint64_t bound; /* exclusive end of its ids; UINT64_MAX: not known */
    /* The refill that is wanted: first on its way to the raft loop, then with the batcher, never
     * both (allocator.h). item.at_ms: not before this after a failure. */
    union {
        struct id_tag *want_next; /* in a want_list; any thread */
        struct batch_item item;
    };
    struct id_pause *_Atomic pause; /* owned; NULL: never paused here */
    /* raft loop alone */
    struct refill refill;
    char name[]; /* name_len bytes and a NUL; then its links (id_table.c) */
};

/*
 * Tags that want a refill, on their way from the HTTP loops to the raft loop, without a lock.
 *
 * The happy path: the thread that turned tag->refill_wanted from false to true pushes the tag (so
 * none is in the list twice), and wakes the raft loop if the list was empty. The raft loop takes
 * all tags at once. A thread that finds the list not empty need not wake it: the thread that pushed
 * the first tag does, and the raft loop takes the list after that.
 *
 * Threads: push from any, take from the owner's (the raft loop).
 */
struct want_list {
    _Atomic(struct id_tag *) first;
};

/* True if the owner must be woken. */
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

/* The tag after a taken one. Read it before using the tag, which may then be pushed again. */
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
    uint64_t rate_per_s;         /* ids handed out recently (allocator.h) */
    uint64_t lasts_s;            /* how long its ids last at that rate; UINT64_MAX: not used */
    uint32_t cover_s;            /* the least that they should last; 0: not set */
};

struct id_segments_page {
    struct id_segment_info *items; /* malloc'ed by the backend, freed by the caller */
    size_t count;
    bool more;
};

/* Why ids were burnt: granted to this node and handed to no client. A crash burns the ids in
 * memory; no process is left to count those. */
enum id_burn_cause {
    ID_BURN_GENERATION, /* the tag was deleted, forced down, or became strict */
    ID_BURN_LATE,       /* a grant came after its request was given up, or did not fit */
    ID_BURN_STOP,       /* left in memory at a clean stop, and could not be given back */
    ID_BURN_STRICT,     /* allocated for strict requests that had been answered with an error */
    ID_BURN_SKIPPED,    /* too few in one piece for contiguous=1 */
    ID_BURN_UNANSWERED, /* claimed for a request that failed afterwards */
    ID_BURN_WINDOW,     /* left in a leader's windows when it lost the lead */
    ID_BURN_CAUSES
};

/*
 * Called when parked requests of a tag should try again: a segment was published, or the tag's
 * state changed. Called on the raft loop with the bits of waiting_loops that were set (and are now
 * cleared). tag NULL: the set of cut clients has changed, for all loops.
 */
struct id_waker {
    void (*wake)(struct id_waker *waker, struct id_tag *tag, uint64_t loops);
};

struct id_table;

/* seed: of hashes of names. Random, so that no client can choose names that collide. */
struct id_table *id_table_new(uint64_t seed);
void id_table_free(struct id_table *table); /* accepts NULL; all threads must have stopped */

/* The entry of a name, or NULL. Lock-free; no allocation. */
struct id_tag *id_table_find(const struct id_table *table, const char *name, size_t len);

/* The entry of a name, made (empty, active) if missing. NULL when LIMIT_TAGS entries exist. */
struct id_tag *id_table_insert(struct id_table *table, const char *name, size_t len);

/* Adopt the shape of the tag's row, unless the entry has it, and its further keys. A name keeps its
 * shape for ever (src/id/codec/shape.h), so the first row seen has it. Returns whether it has
 * {key}. Owner only. */
bool id_tag_take_shape(struct id_tag *tag, const struct tag_row *row);

/* The tag is paused for this reason, of up to LIMIT_TAG_REASON_BYTES. Owner only. */
void id_tag_set_reason(struct id_tag *tag, const char *text, size_t len);

/* The reason of its last pause, with a NUL; empty: none. Any thread. */
void id_tag_reason(const struct id_tag *tag, char ret_text[LIMIT_TAG_REASON_BYTES + 1]);

/* Does this node have the keys for the texts of these ids, which are below 2^63? Owner only. */
bool id_tag_has_keys(const struct id_tag *tag, uint64_t first, uint32_t count);

/* The next entry in byte order of names, the first for NULL; NULL: none. Owner only. */
struct id_tag *id_table_after(struct id_table *table, const struct id_tag *tag);

/* The first entry in byte order of names that is > after (or >= prefix when after is empty) and
 * begins with prefix; NULL at the end. Owner only. */
struct id_tag *id_table_next(struct id_table *table, const char *prefix, size_t prefix_len,
                             const char *after, size_t after_len);

/*
 * --- segments_page: the bytes of a page of buffers (id_segments_page), in which one node reports
 * to another the ids that it holds in memory.
 *
 * They are for people only; no id is ever handed out from them. Little-endian, a part of
 * FRAME_BUFFERS (raft/wire/wire.h), whose golden bytes include them.
 *
 * Failure modes: a page of another node may contain anything. A page that cannot be shown is
 * refused: names that are invalid, out of order or repeated, more ids left than a segment had, too
 * many tags.
 *
 * Thread: pure functions, any.
 */

/* At most LIMIT_TAGS_PER_PAGE items. */
void segments_page_put(struct buf *buf, const struct id_segments_page *page);

/* 0, and the caller owns the items; or ERR_BAD_MESSAGE, and there are none. */
int segments_page_read(const void *data, size_t len, struct id_segments_page *ret_page) MUST_CHECK;

#endif
