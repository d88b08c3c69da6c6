/*
 * id_world.h - an allocator under test: a cluster that answers when the test says so, a clock that
 * stands until it is moved, and a waker that writes down who was woken.
 *
 * Thread: one.
 */
#ifndef LEAFD_ID_TESTS_ID_WORLD_H
#define LEAFD_ID_TESTS_ID_WORLD_H

#include "src/id/alloc/allocator.h"
#include "src/id/fsm/fsm.h"
#include "src/id/tests/id_stamp.h"

#define ID_WORLD_REQUESTS 64
#define ID_WORLD_COVER_MS 5000
#define ID_WORLD_REQUEST_MS 1000
#define ID_WORLD_RETRY_MS 50

struct id_world {
    struct fsm *cluster;
    uint64_t index;
    struct id_stamps stamps;
    struct clock clock;
    uint64_t now_ms;
    struct timers timers;
    struct id_table *table;
    struct id_proposer proposer;
    struct cluster_request *requests[ID_WORLD_REQUESTS]; /* not answered yet, oldest first */
    size_t request_count;
    bool giving_back;   /* requests have another deadline from now on */
    int answer_at_once; /* > 0: answer from inside propose */
    struct id_waker waker;
    unsigned wakes;
    struct id_tag *woken; /* the last one */
    uint64_t woken_loops;
    struct allocator *allocator;
};

struct id_world *id_world_new(void);
/* Requests that are left get ERR_SHUTTING_DOWN. */
void id_world_free(struct id_world *world);
/* A test's begin and end, for cmocka. */
int id_world_setup(void **state);
int id_world_teardown(void **state);

/* Change the cluster's table; this node hears nothing of it. */
void id_world_put(struct id_world *world, const char *name, uint32_t step, uint64_t max_id);
void id_world_max_step(struct id_world *world, const char *name, uint32_t max_step);
void id_world_mode(struct id_world *world, const char *name, enum tag_mode mode);
void id_world_delete(struct id_world *world, const char *name);
/* Apply any command, which is then freed. */
void id_world_command(struct id_world *world, struct buf *command);
/* The cluster's row. */
const struct tag_row *id_world_row(struct id_world *world, const char *name);
/* Put, and open the tag on this node. */
struct id_tag *id_world_tag(struct id_world *world, const char *name, uint32_t step);

/* What a claimer does that needs ids and parks: demand and bit 0 of waiting_loops. */
void id_world_park(struct id_world *world, struct id_tag *tag, uint64_t demand);
/* Ask for a refill, as a claimer; true if it was not asked for yet. */
bool id_world_want(struct id_world *world, struct id_tag *tag);

/* Answer request number at: by the cluster, or with an error, or with given bytes. */
void id_world_answer(struct id_world *world, size_t at);
void id_world_fail(struct id_world *world, size_t at, int status);
void id_world_reply(struct id_world *world, size_t at, const struct buf *reply);
/* Apply request number at in the cluster, but keep the answer back: into *ret_reply. */
void id_world_apply(struct id_world *world, size_t at, struct buf *ret_reply);

/* Fire what is due, as the owner's loop does, until nothing is. */
void id_world_turn(struct id_world *world);
/* When the owner's loop is woken next. */
uint64_t id_world_next_ms(const struct id_world *world);

/* Want, turn, answer: the tag has one segment more. */
void id_world_load(struct id_world *world, struct id_tag *tag);

/* Claim one id; fails the test if there is none. */
uint64_t id_world_claim(struct id_tag *tag);

#endif
