/*
 * driver_internal.h - what the driver's files share: driver_prepare.c (before the first start),
 * driver.c (start, submit, receive), driver_step.c (one step of the core and its update),
 * driver_apply.c (apply, compaction, install), driver_rows.c (changed rows to the disk),
 * driver_change.c (membership, transfer), driver_trust.c (may what a peer says be true).
 *
 * Thread: the raft loop.
 */
#ifndef LEAFD_RAFT_CORE_DRIVER_INTERNAL_H
#define LEAFD_RAFT_CORE_DRIVER_INTERNAL_H

#include "raft/core/driver.h"

/* An operation on its way to the disk, with all memory it needs. */
struct driver_write {
    struct store_op op;
    struct driver *driver;
    uint64_t tag;
    uint64_t generation;
    uint64_t hard_state;         /* sequence number, for HARD_STATE */
    struct store_entry *entries; /* APPEND */
    struct entry_block **blocks; /* references held for entries */
    struct store_row *rows;      /* APPLY */
    struct fsm_changes changes;  /* what rows point into */
    struct driver_position position;
    struct buf stream; /* INSTALL: rows, digest cut off; LOCAL: the record */
    void (*local_done)(void *data);
    void *local_data;
};

/* A write of a kind whose done() has been set to fn; counted until driver_write_free(). */
struct driver_write *driver_write_new(struct driver *driver, enum store_op_kind kind,
                                      void (*done)(struct store_op *op));
void driver_write_free(struct driver_write *write);

/* End: tell the observer once. */
void driver_fail(struct driver *driver, int err, const char *text);

/* Give the core one event and carry out its update. SUBMIT and TRANSFER return the core's error (>
 * 0) and change nothing; for any other event an error fails the driver. */
int driver_step(struct driver *driver, struct raft_event *event);

/* As driver_step for a RECEIVE, with the guards for incoming messages that need the core's state.
 */
void driver_step_receive(struct driver *driver, struct raft_message *message);

/* What this node says of its start, and what it remembers of others. 0, ERR_BAD_VERSION or
 * ERR_CORRUPT. */
int driver_peers_start(struct driver *driver, const struct store_loaded *loaded) MUST_CHECK;

/* Remember what a message of a peer shows of its term; and, after an acknowledgement was given to
 * the core, how far its log reaches. */
void driver_note_term(struct driver *driver, uint64_t from, const struct raft_message *message);
void driver_note_acknowledged(struct driver *driver, uint64_t from);

/* May a message be true? False: no; the alarm was raised, and nothing of it must be used. */
bool driver_believes(struct driver *driver, uint64_t from, const struct raft_message *message);

/* One that says that the peer leads a term: has nobody else led it? */
bool driver_believes_leader(struct driver *driver, uint64_t from, uint64_t term);

/* Somebody leads a term, as far as this node can know. */
void driver_note_leader(struct driver *driver, uint64_t id, uint64_t term);

/* Entries, or a snapshot, of a leader: do they agree with what is committed here? False: the driver
 * has failed. */
bool driver_agrees(struct driver *driver, uint64_t from, const struct raft_message *message);

/* Do the rows of a snapshot, behind its digest, make a state at this index? */
bool driver_rows_load(const struct buf *stream, uint64_t index);

/* Begin to install the snapshot of an update. */
void driver_install(struct driver *driver, struct raft_update *update);

/* The changes as rows of a STORE_APPLY, in their order, one without a value for a deletion. They
 * point into the changes; malloc'ed, NULL when there are none. */
struct store_row *driver_rows(const struct fsm_changes *changes);

/* Of the changes of each key keep the last; before a deletion the last that was none, too, since
 * only a row that is there can be deleted. Order stays. */
void driver_rows_coalesce(struct fsm_changes *changes);

/* Apply has left changes in driver->held_rows: write them soon. */
void driver_rows_hold(struct driver *driver);

/* When what is held goes alone at the latest; UINT64_MAX: nothing is held. */
uint64_t driver_rows_due_ms(const struct driver *driver);

/* Entries are about to be written: what has been held long enough goes with them. */
void driver_rows_join(struct driver *driver);

/* Forget what is held. */
void driver_rows_drop(struct driver *driver);

/* The leader of this term, or of a later one, has sent something. */
void driver_leader_heard(struct driver *driver);

/* A FRAME_RESIGN from a peer. False: malformed. */
bool driver_leader_resigned(struct driver *driver, uint64_t peer, const uint8_t *payload,
                            size_t len);

/* This node has stepped down in a term that it led: tell the others. */
void driver_resign(struct driver *driver);

/* Is the leader not heard for so long that others may be voted for? */
bool driver_leader_is_silent(const struct driver *driver);

/* Index of the change, not committed yet, that takes this voter's vote away; 0: there is none. */
uint64_t driver_pending_demotion(const struct driver *driver);

/* Compact the log if enough of it is durable in the state. */
void driver_maybe_compact(struct driver *driver);

void driver_position_copy(struct driver_position *to, const struct driver_position *from);
void driver_op_position(struct store_op *op, const struct driver_position *position,
                        uint64_t digest);

/* Fill position from parts (conf is copied). */
void driver_position_set(struct driver_position *position, uint64_t index, uint64_t term,
                         uint64_t conf_index, const void *conf, size_t conf_len);

/* Metadata for the core, conf decoded anew; the core takes the configuration over. 0 or
 * ERR_CORRUPT. */
int driver_metadata(const struct driver_position *position,
                    struct raft_snapshot_metadata *ret_metadata) MUST_CHECK;

/* Term of the entry at index, 0 if not known any more. */
uint64_t driver_term_at(const struct driver *driver, uint64_t index);

/* Decode a configuration, its bounds checked first (the core's decoder does not). The result is the
 * caller's, or the core's, to close. 0 or ERR_CORRUPT. */
int driver_decode_configuration(const void *data, size_t len,
                                struct raft_configuration *ret_configuration) MUST_CHECK;

/* A configuration is about to become the applied one: tell the state machine (driver_change.c). */
void driver_configured(struct driver *driver, uint64_t index,
                       const struct raft_configuration *after, struct fsm_changes *changes);

/* Encode a configuration with the core's encoder. */
void driver_encode_configuration(const struct raft_configuration *configuration, struct buf *buf);

#endif
