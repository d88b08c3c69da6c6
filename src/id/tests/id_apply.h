/*
 * id_apply.h - a state machine under test: commands in, results out, and a store that keeps the
 * rows as storage would.
 *
 * Thread: one.
 */
#ifndef LEAFD_ID_TESTS_ID_APPLY_H
#define LEAFD_ID_TESTS_ID_APPLY_H

#include "src/id/codec/command.h"
#include "src/id/fsm/fsm.h"
#include "src/id/tests/id_stamp.h"

#define ID_APPLY_ROWS 2048

/* A row as storage has it; owned. */
struct kept_row {
    struct buf key;
    struct buf value;
};

/* It as a row to load; borrowed. */
struct state_row kept_row(const struct kept_row *kept);

struct id_apply {
    struct fsm *fsm;
    uint64_t index;                      /* of the last entry */
    uint64_t term;                       /* of the next one; 1 */
    uint64_t wall_ms;                    /* stamped into commands */
    struct id_stamps stamps;             /* of the commands so far */
    uint64_t node_id;                    /* whose a command is that nobody stamped; 1 */
    struct session_stamp next;           /* of the next command; node 0: as id_stamp() says */
    struct buf last;                     /* the last command, with its stamp */
    uint32_t key_limit;                  /* of the batches of id_apply_take() */
    struct buf result;                   /* of the last command */
    size_t changed;                      /* rows listed by the last command, but its answer */
    struct kept_row rows[ID_APPLY_ROWS]; /* the latest value of each key */
    size_t row_count;
};

void id_apply_init(struct id_apply *apply);
void id_apply_free(struct id_apply *apply);

/* A test's begin and end, for cmocka. *state: a struct id_apply, which id_apply_new() also returns.
 * At the end the rows that were listed must give the same state when they are loaded, but for
 * id_apply_drop(), which is of tests that load rows by themselves. */
struct id_apply *id_apply_new(void **state);
int id_apply_begin(void **state);
int id_apply_end(void **state);
int id_apply_drop(void **state);

/* Apply bytes as the next entry and keep the changed rows; returns what state_apply() returned. A
 * command without a stamp is node_id's. */
int id_apply_bytes(struct id_apply *apply, struct buf *command);
/* The same, as the next command of the node. */
int id_apply_as(struct id_apply *apply, uint64_t node_id, struct buf *command);

/* A copy of the last command as it stands in the log, to be applied again with id_apply_again(). */
struct buf id_apply_copy(const struct id_apply *apply);
/* The copy comes once more, and must be no bad message. */
void id_apply_again(struct id_apply *apply, struct buf *copy);
/* How the session refused the last command; 0: it did not. */
int id_apply_refused(const struct id_apply *apply);

/* Keep changed rows that no command listed, and release the list. */
void id_apply_keep(struct id_apply *apply, struct row_changes *changes);

/* One grant; the result is that of the tag. To node_id, if none is named. */
struct grant_result id_apply_grant(struct id_apply *apply, const char *name, uint32_t size);
struct grant_result id_apply_grant_to(struct id_apply *apply, uint64_t node_id, const char *name,
                                      uint32_t size);

/* A put of items, in the first form that can say what they have; the name and the description may
 * be NUL-terminated with their lengths 0. The result is to be released. */
struct put_result id_apply_puts(struct id_apply *apply, const struct tag_put *puts, size_t count,
                                bool force);
/* One item; the result is released, but for its numbers and why. */
struct put_result id_apply_put(struct id_apply *apply, struct tag_put put, bool force);

/* The status that a delete was told. */
int id_apply_delete(struct id_apply *apply, const char *name);

/* A tag becomes, or is made, what mode says; the put must succeed. */
void id_apply_mode(struct id_apply *apply, const char *name, enum tag_mode mode);

/* A strict batch, for clients or with periods if an item has one; its results. Names and keys may
 * be NUL-terminated with their lengths 0. wall_ms is the apply's. If the session refuses it, each
 * result has that status, and the incarnation as its detail. */
void id_apply_strict(struct id_apply *apply, struct command_list batch,
                     const struct strict_item *items, size_t count,
                     struct strict_result *ret_results);
/* One item without a key. */
struct strict_result id_apply_take(struct id_apply *apply, const char *name, uint32_t count);
/* As above, with a key. */
struct strict_result id_apply_take_by(struct id_apply *apply, const char *name, const char *key,
                                      uint32_t count);

/* Raise the level in force to this one. */
void id_apply_raise(struct id_apply *apply, uint16_t level);

/* A WINDOW of one tag; the result is that of the tag. */
struct grant_result id_apply_window(struct id_apply *apply, const char *name, uint32_t size);
/* A KEYED of one item, taken in this term; names and keys may be NUL-terminated with their lengths
 * 0. */
struct strict_result id_apply_keyed(struct id_apply *apply, uint64_t term, struct keyed_item keyed);

/* The status of one range given back; the name may be NUL-terminated with its length 0. */
int id_apply_give_back(struct id_apply *apply, struct give_back_item item);

/* The node confirms that it holds nothing of the tag older than the generation. */
void id_apply_recalled(struct id_apply *apply, uint64_t node_id, const char *name,
                       uint32_t generation);

/* The status that a layout or the cluster's time was told. */
int id_apply_layout(struct id_apply *apply, const struct snowflake_layout *layout);
int id_apply_clock(struct id_apply *apply, uint64_t cluster_ms);

/* The status that a named layout was told; and one that is deleted. */
int id_apply_layout_put(struct id_apply *apply, const char *name,
                        const struct named_layout *layout);
int id_apply_layout_delete(struct id_apply *apply, const char *name);

/* The status that pools were told. */
int id_apply_pools(struct id_apply *apply, const char *pools);

/* Worker ids. The name and the address of an acquire may be NUL-terminated with their lengths 0;
 * a renewal without a kind is of the row's. A client that is not named is ID_APPLY_OWNER, or for
 * what is held already its owner. */
#define ID_APPLY_OWNER 99
struct worker_result id_apply_acquire(struct id_apply *apply, struct worker_acquire acquire);
struct worker_result id_apply_renew(struct id_apply *apply, struct worker_renew renew);
struct worker_result id_apply_release(struct id_apply *apply, struct worker_release release);

bool id_apply_is_named(const struct worker_row *row, const char *name);

/* True if the rows have the same id and the same bytes. */
bool id_apply_same_worker(const struct worker_row *a, const struct worker_row *b);

/* The row of a name; fails the test if there is none. */
const struct tag_row *id_apply_row(struct id_apply *apply, const char *name);

/* Kept row number at of those that are no answers, in the order of their first keeping; NULL: there
 * are fewer. */
const struct kept_row *id_apply_kept(const struct id_apply *apply, size_t at);

/* The digest of all kept rows but the answers, each of which holds a number of its own. */
uint64_t id_apply_digest(const struct id_apply *apply);

/* Load the kept rows into another state machine. */
void id_apply_load(const struct id_apply *apply, struct fsm *fsm);

/* While the state machine is loading: a row whose key and value are written as in hex.h; what
 * state_load_row() says. */
int id_load_hex(struct fsm *fsm, const char *key_hex, const char *value_hex);

#endif
