/*
 * id_random.h - random commands over a few names and worker ids, so that they meet, and random
 * bytes that are nearly commands.
 *
 * Thread: any.
 */
#ifndef LEAFD_ID_TESTS_ID_RANDOM_H
#define LEAFD_ID_TESTS_ID_RANDOM_H

#include "src/base/buf.h"
#include "src/base/prng.h"
#include "src/id/fsm/fsm.h"

/* One of 16 names, "aa" to "dd". */
void id_random_name(struct prng *prng, char ret_name[4]);

/* A well-formed command of any kind, appended to buf. step counts the commands: the numbers of
 * strict batches follow it, so that new ones, repetitions and late ones are all among them. */
void id_random_command(struct prng *prng, uint64_t step, struct buf *buf);

/* Good, broken, or plain random bytes. */
void id_random_bytes(struct prng *prng, uint64_t step, struct buf *buf);

/* Change a few bytes in place, and sometimes cut the end off. */
void id_random_mutate(struct prng *prng, struct buf *buf);

/* A change of tags of which some may have a max, without a stamp. */
void id_random_bounded_put(struct prng *prng, struct buf *buf);
/* The same with shapes. */
void id_random_shaped_put(struct prng *prng, struct buf *buf);

/* The same with keys of shapes. */
void id_random_rekeyed_put(struct prng *prng, struct buf *buf);

/* As with shapes, by one of three clients that may have few tags. Of level 2. */
void id_random_owned_put(struct prng *prng, struct buf *buf);

/* As with shapes, of which some may have an increment. Of level 3. */
void id_random_stepped_put(struct prng *prng, struct buf *buf);

/* Of level 3: an acquire of a layout's worker ids, or of a zone's; and the pools of zones. */
void id_random_workers(struct prng *prng, struct buf *buf);

/* Strict requests or an acquire that count for a client, without a stamp. */
void id_random_for_client(struct prng *prng, struct buf *buf);

/* A worker id acquired, renewed or released by the client that owns it, or not. */
void id_random_by_client(struct prng *prng, uint64_t now_ms, struct buf *buf);

/* What monotonic tags have: puts, windows, and keys of ids that the state may allow.
 * True: it is somebody's, and without a stamp; else the leader's own. */
bool id_random_monotonic(struct prng *prng, const struct fsm *fsm, struct buf *buf);

/* A named layout made or deleted, without a stamp. */
void id_random_layout(struct prng *prng, struct buf *buf);

/* What tags with a date have: puts, and batches with periods around the log's time.
 * Without a stamp. */
void id_random_dated(struct prng *prng, const struct fsm *fsm, struct buf *buf);

#endif
