/*
 * fsm_tags.h - the state machine's table of tags: rows in the order of their names (tags), and each
 * client's total of one resource (owners).
 *
 * Failure modes: the table is full (LIMIT_TAGS): NULL. Thread: one owner. Deterministic: only the
 * rows decide.
 */
#ifndef LEAFD_ID_FSM_FSM_TAGS_H
#define LEAFD_ID_FSM_FSM_TAGS_H

#include <bsd/sys/tree.h>

#include "src/base/assert.h"
#include "src/base/buf.h"
#include "src/base/hash.h"
#include "src/id/codec/command.h"
#include "src/id/fsm/fsm_settings.h"

/*
 * --- fsm_owners: each client's total of one resource: keys, or the bytes of its tags.
 *
 * The happy path: fsm_owners_enter() adds to a client's total, fsm_owners_leave() subtracts from
 * it, fsm_owners_held() reads it. Totals are counted from the rows, so they are the same on all
 * nodes, and after a snapshot.
 */

/* A client with a total. */
struct fsm_owner {
    struct hash_link link;
    uint64_t client; /* > 0 */
    uint64_t held;   /* > 0 */
    uint32_t hash;
};

struct fsm_owners {
    struct hash_table table;
    uint64_t bytes; /* memory of all, with their buckets */
};

void fsm_owners_init(struct fsm_owners *owners);
/* All totals are 0: free the table's memory. */
void fsm_owners_clear(struct fsm_owners *owners);

/* Add amount, > 0, to the client's total. Its entry stays in place until the total is 0. client 0:
 * no client, NULL. */
struct fsm_owner *fsm_owners_enter(struct fsm_owners *owners, uint64_t client, uint64_t amount);
/* Subtract amount; NULL: no client. */
void fsm_owners_leave(struct fsm_owners *owners, struct fsm_owner *owner, uint64_t amount);

/* NULL: its total is 0, or client is 0. */
struct fsm_owner *fsm_owners_find(const struct fsm_owners *owners, uint64_t client);
uint64_t fsm_owners_held(const struct fsm_owners *owners, uint64_t client);

/*
 * --- fsm_tags: the state machine's table of tags: rows in the order of their names.
 *
 * The happy path: find or make a row; fsm_tags_move() changes the field that changes most, max_id.
 * For others, fsm_tags_change_begin() takes the row out of the digest, the caller changes it, and
 * fsm_tags_change_end() puts it back and calls the listener.
 *
 * Rows live in an arena until the whole state is replaced, so that other tables may point to them.
 */

/* The fields that few tags have, and the texts, in one piece of memory. */
struct fsm_rest {
    uint64_t max;
    uint32_t increment;
    uint32_t offset;
    uint32_t cover_s;
    uint16_t description_len;
    uint16_t shape_len;
    uint16_t reason_len;
    char texts[]; /* the description with a NUL, the shape, the reason */
};

/* A tag_row, in 52 bytes and its name: fsm_row_tag() gives it as tag.h describes it. */
struct fsm_row {
    RB_ENTRY(fsm_row) link;
    struct fsm_rest *rest; /* owned; NULL: all its fields are 0, and its texts are empty */
    uint64_t max_id;
    uint64_t client;
    uint64_t created_ms : 48;
    uint64_t mode : 8;
    uint64_t deleted : 1;
    uint64_t recalling : 1;
    uint64_t paused : 1;
    uint64_t updated_ms : 48;
    uint64_t name_len : 16;
    uint32_t generation;
    uint32_t step;
    uint32_t max_step;
    char name[]; /* and a NUL */
};
_Static_assert(LIMIT_TIME_MAX_MS < 1LL << 48, "times of a row");
_Static_assert(offsetof(struct fsm_row, name) == 84, "there is one for each of a million tags");

RB_HEAD(fsm_row_tree, fsm_row);

/* Of some rows. */
struct fsm_counts {
    uint64_t bytes; /* memory, by fsm_tag_bytes() */
    uint64_t dead;  /* tombstones */
    uint64_t dated; /* those with a date in their shape */
};

struct fsm_tags {
    struct journal *journal;
    struct fsm_listener *const *listener; /* the machine's */
    struct fsm_row_tree rows;
    struct fsm_row *newest; /* made last; NULL: none */
    struct arena arena;
    uint64_t seed; /* of hashes of names; nothing replicated depends on it */
    size_t count;
    struct fsm_counts counts;     /* of these */
    size_t hollow_count;          /* while loading: fsm_tags_expect(); 0 in the end */
    size_t recalling_count;       /* while loading: live tags that are recalled */
    struct fsm_owners owners;     /* bytes of each client's tags, by tag_share_bytes() */
    struct fsm_tag_before before; /* of the row that is being changed, for the listener */
};

void fsm_tags_init(struct fsm_tags *tags, struct journal *journal,
                   struct fsm_listener *const *listener);
/* Forget all rows. */
void fsm_tags_clear(struct fsm_tags *tags);

/* A tag counts for its client from now on, deleted or not: the client that made it, or made it
 * larger. Code that changes its bytes or its client disowns it before. A deleted tag still counts,
 * with less: its row must stay, since no id of its name may come again. So a client that makes and
 * deletes tags for ever uses up its own share, not the memory of others. A name that is made again
 * takes no new room. */
static inline void fsm_tags_own(struct fsm_tags *tags, const struct tag_row *tag)
{
    (void)fsm_owners_enter(&tags->owners, tag->client, tag_share_bytes(tag));
}

static inline void fsm_tags_disown(struct fsm_tags *tags, const struct tag_row *tag)
{
    struct fsm_owner *owner = fsm_owners_find(&tags->owners, tag->client);

    ASSERT((owner != NULL) == (tag->client != 0));
    fsm_owners_leave(&tags->owners, owner, tag_share_bytes(tag));
}

static inline bool fsm_row_is(const struct fsm_row *row, const char *name, size_t len)
{
    return row->name_len == len && memcmp(row->name, name, len) == 0;
}

struct fsm_row *fsm_tags_find(const struct fsm_tags *tags, const char *name, size_t len);
/* Finds the names of a list one after the other: zeros at first, not valid after fsm_tags_clear().
 * Most lists have their names in the order of the rows: then the next name is, or would be, right
 * after the last, which takes a third of the time. */
struct fsm_tags_walk {
    struct fsm_row *last;  /* with a name no greater; NULL: none */
    struct fsm_row *after; /* of a name that was not found: the next one; NULL: none */
    uint32_t count;        /* of names so far */
    uint32_t hits;         /* how often the name was right after the last, */
    uint32_t misses;       /* and how often not: then only one of 16 names is tried there */
};
struct fsm_row *fsm_tags_walk(const struct fsm_tags *tags, struct fsm_tags_walk *walk,
                              const char *name, size_t len);
/* The first row whose name is >= name. */
struct fsm_row *fsm_tags_seek(const struct fsm_tags *tags, const char *name, size_t len);
struct fsm_row *fsm_tags_next(struct fsm_row *row);

/* The row as all others know it. Its texts are borrowed until the row changes. */
struct tag_row fsm_row_tag(const struct fsm_row *row);

/* Memory that a tag takes: its row, with what few tags have, and, unless it is deleted, the entry
 * of a tag in use on each node. Its name and texts are not read. */
uint64_t fsm_tag_bytes(const struct tag_row *row);

/* A new row with its name and zeros, not in the digest yet: fsm_tags_change_end() must follow. The
 * name must not exist. before and after: the rows that it is between, NULL where there is none;
 * others may have been made there since. NULL: the table is full. */
struct fsm_row *fsm_tags_make(struct fsm_tags *tags, const char *name, size_t len,
                              struct fsm_row *before, struct fsm_row *after);
/* Take an existing row out of the digest, to change it. */
void fsm_tags_change_begin(struct fsm_tags *tags, struct fsm_row *row);
/* Put it back, list the change and call the listener. */
void fsm_tags_change_end(struct fsm_tags *tags, struct fsm_row *row);
/* The row becomes this; it keeps its name, and takes copies of the other texts. */
void fsm_row_set(struct fsm_row *row, const struct tag_row *tag);
/* All in one: its ids end at max_id now, and wall_ms, if later, is when it was changed. */
void fsm_tags_move(struct fsm_tags *tags, struct fsm_row *row, uint64_t max_id, uint64_t wall_ms);

/* A change of a put. Its slow part is done before, in pieces, without visible effect: texts, the
 * row's bytes, hashes, its place (fsm_tags_ready()). Carrying it out only sets pointers. It is
 * valid as long as no change of another put comes between. */
struct fsm_change {
    struct fsm_row *row;    /* of the name; NULL: there is none yet, */
    struct fsm_row *before; /* and then these are beside its place; NULL: none */
    struct fsm_row *after;
    struct tag_row tag;    /* the new row; its strings are borrowed */
    struct fsm_rest *rest; /* of the new row, owned */
    bool keeps_share;      /* it counts for the same client, with the same bytes */
};

/* The effects of a list's changes besides their rows. */
struct fsm_changes_sum {
    struct row_changes rows;
    uint64_t digest; /* added, as are all below, even where the value falls */
    struct fsm_counts counts;
};

/* Make a change ready whose row, before, after and tag are set. */
void fsm_tags_ready(struct fsm_tags *tags, struct fsm_change *change, struct fsm_changes_sum *sum);
/* Apply the sum, which is left empty: each of its changes must follow. */
void fsm_tags_add(struct fsm_tags *tags, struct fsm_changes_sum *sum);
/* It will be carried out soon: prefetch its data into the caches. */
static inline void fsm_change_fetch(const struct fsm_change *change)
{
    const struct fsm_row *first = change->row != NULL ? change->row : change->before;
    const struct fsm_row *second = change->row != NULL ? change->row : change->after;

    __builtin_prefetch(first, 1);
    __builtin_prefetch(second, 1);
}

/* Change the row, which is returned, and call the listener. */
struct fsm_row *fsm_tags_change(struct fsm_tags *tags, struct fsm_change *change);

/* Answer a QUERY_TAG_LIST. */
void fsm_tags_list(const struct fsm_tags *tags, const struct query *query, struct buf *result);

/* --- loading --- */

/* A row as state_load_row() gets it. */
int fsm_tags_load(struct fsm_tags *tags, const struct row_loaded *loaded) MUST_CHECK;
/* The tag that another table's row names. If the tag's own row is not loaded yet, a hollow one is
 * made, and fsm_tags_load() must fill it before the load ends. NULL: full. */
struct fsm_row *fsm_tags_expect(struct fsm_tags *tags, const char *name, size_t len);
/* Call the listener for every row. */
void fsm_tags_notify(struct fsm_tags *tags);

#endif
