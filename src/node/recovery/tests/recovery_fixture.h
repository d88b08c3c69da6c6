/*
 * recovery_fixture.h - saved states for tests, made by a state machine that carries out commands.
 *
 * Thread: the test's.
 */
#ifndef LEAFD_NODE_RECOVERY_TESTS_RECOVERY_FIXTURE_H
#define LEAFD_NODE_RECOVERY_TESTS_RECOVERY_FIXTURE_H

#include "src/id/codec/command.h"
#include "src/id/fsm/fsm.h"
#include "src/node/recovery/saved.h"

#define FIXTURE_LOG_MS 1700000000000ULL
#define FIXTURE_NOW_MS (FIXTURE_LOG_MS + 3600000)
#define FIXTURE_NODE 3

/* A state machine, its rows, and how far it has come. */
struct fixture {
    struct state *state;
    struct fsm *fsm; /* its machine */
    struct saved saved;
    uint64_t index;
    uint64_t seq;
};

/* With the log's time, and a layout of 16 worker ids. */
void fixture_begin(struct fixture *fixture);
void fixture_end(struct fixture *fixture);

/* Carry out a command of FIXTURE_NODE. */
void fixture_apply(struct fixture *fixture, struct buf *command);
void fixture_born(struct fixture *fixture, const struct birth *birth); /* nobody's command */
void fixture_raise(struct fixture *fixture);                           /* to the newest level */
void fixture_put(struct fixture *fixture, const char *tag, uint64_t max_id, enum tag_mode mode);
/* With a shape; its first key is the name, and zeros. */
void fixture_put_shaped(struct fixture *fixture, const char *tag, const char *shape,
                        uint64_t max_id, enum tag_mode mode);
void fixture_delete(struct fixture *fixture, const char *tag);
void fixture_grant(struct fixture *fixture, const char *tag, uint32_t size);
void fixture_strict(struct fixture *fixture, const char *tag, uint32_t count, const char *key);
void fixture_acquire(struct fixture *fixture, const char *name, uint64_t window_ms);

/* The rows as they are: fixture->saved in order, to be renewed. */
struct saved *fixture_saved(struct fixture *fixture);

#endif
