/*
 * fake_backend.h - an id_backend for tests: a thread that plays the raft loop over a real state
 * machine and id table, and does only as it is told: requests and refills can be held, answered
 * with an error, or let through. It may carry a generator of snowflake ids, whose owner is the
 * test, and its clocks may be set by hand. Without a thread (fake_start_still()) it works when it
 * is told to.
 *
 * Threads: everything here from the test's thread, apart from what the backend's ops say.
 */
#ifndef LEAFD_HTTP_TESTS_FAKE_BACKEND_H
#define LEAFD_HTTP_TESTS_FAKE_BACKEND_H

#include <pthread.h>

#include "http/api/request.h"
#include "http/server/loop.h"
#include "src/id/backend/id_backend.h"
#include "src/id/codec/command.h"
#include "src/id/fsm/fsm.h"
#include "src/state/codec/cluster_command.h"

#define FAKE_WANTS_MAX 1024

TAILQ_HEAD(fake_requests, cluster_request);

struct fake {
    struct id_backend backend;
    struct id_health health;
    uint32_t key_share;      /* of four keys, that a client may have */
    struct id_waker *waker;  /* guarded by mutex */
    bool still;              /* there is no thread; then refills come before other work */
    bool prompt;             /* without a thread: a refill comes at once */
    _Atomic uint64_t now_ms; /* what the clock shows; 0: the system's */
    /* Sees each request as it is submitted, before it is carried out. NULL: nobody does */
    void (*watch)(void *data, const struct cluster_request *request);
    void *watch_data;
    pthread_t thread;
    pthread_mutex_t mutex; /* guards what follows, and the state machine */
    pthread_cond_t changed;
    struct fake_requests requests;
    struct id_tag *wants[FAKE_WANTS_MAX];
    size_t want_count;
    bool stop;
    bool hold_requests;  /* leave them in the queue */
    bool hold_wants;     /* leave wanted tags without ids */
    bool hold_all;       /* leave requests that wait for all members in the queue, until one comes
                            whose deadline is over */
    int fail_with;       /* answer all requests so; 0: as the state machine says */
    bool wrong_reply;    /* answer with bytes that are no result */
    bool repeat;         /* apply commands twice and answer the second result, as after an election
                            that hid the first */
    uint32_t grant_size; /* 0: as the tag's step */
    uint64_t submitted;  /* requests so far */
    uint64_t wanted;     /* refills asked for so far */
    uint64_t last_deadline_ms;
    bool last_local;
    uint64_t index;
    uint64_t notified;                         /* calls of ops->notify so far */
    const struct strict_result *strict_answer; /* to every strict request; NULL: as the state
                                                  machine says */
    struct member_ask asked;                   /* of the last membership request */
    struct member_answer member_answer;        /* to all of them */
    struct fsm *fsm;
    struct fsm_listener listener;   /* the generator learns of named layouts */
    int everywhere_status;          /* to requests that wait for all members, */
    struct missing_members missing; /* and who is missing */
    uint64_t everywhere_index;      /* of the last one */
    uint64_t change_wait_ms;        /* so long the last command was to wait at most */
    uint64_t all_wait_ms;           /* and so long the last wait for all */
    unsigned backup_parts;          /* of each backup; 0: another one is always being taken, */
    size_t backup_part_bytes;       /* and so large is each; filled with its number, from 1 on */
    unsigned backup_fails_at;       /* this part comes as ERR_CORRUPT; 0: none */
    unsigned backup_part;           /* the last that was given */
    unsigned backups_closed;        /* so many were given up */
    struct id_cluster_status cluster;
    struct id_buffers buffers; /* what all nodes hold; the items stay the test's */
    struct clock clock;
    _Atomic uint64_t wall_ms;   /* what the wall clock shows; 0: the system's */
    struct snowflake snowflake; /* of the test's thread; switched off before fake_snowflake() */
};

/* For an api: every client may do everything, from every page; and no settings were reread. */
struct auth *fake_auth(void);
extern struct http_reloads fake_reloads;

void fake_start(struct fake *fake);
void fake_stop(struct fake *fake);

/* As fake_start(), without a thread: fake_turn() does all that there is to be done. True if that
 * was anything. */
void fake_start_still(struct fake *fake);
bool fake_turn(struct fake *fake);

/* Carry out a request that did not come by the backend, and answer it. Any thread. */
void fake_serve(struct fake *fake, struct cluster_request *request);

/* Settings for a server: the defaults, one loop and a free port where nothing is set. */
void fake_settings(struct http_settings *settings);

void fake_set_waker(struct fake *fake, struct id_waker *waker);

/* Before the server starts: serve snowflake ids. They have no layout and no worker id yet. */
void fake_snowflake(struct fake *fake);

/* Set the wall clock and the cluster's time; 0: let both be the system's. */
void fake_set_wall(struct fake *fake, uint64_t wall_ms);

/* Raise the level that is in force. */
void fake_log_level(struct fake *fake, uint16_t level);
/* Set the log's time, and the layout, in the state machine. */
void fake_log_time(struct fake *fake, uint64_t log_ms);
void fake_log_layout(struct fake *fake, const struct snowflake_layout *layout);
/* Grant a worker id, under a name that ends with a NUL and without an address. */
void fake_log_acquire(struct fake *fake, struct worker_acquire acquire);

/* Apply commands twice from now on, or not. */
void fake_repeat(struct fake *fake, bool repeat);

/* Make a tag in the state machine, as if another node had: it is not in the id table yet. */
void fake_make_tag(struct fake *fake, const char *name, uint64_t max_id, uint32_t step,
                   uint32_t max_step);

/* Change its mode there; a tag that is not there is made, with max_id 1. No segment of it is held
 * anywhere, so it may be used at once. */
void fake_set_mode(struct fake *fake, const char *name, enum tag_mode mode);

/* Answer strict requests so (with the result, and with its status if that is not 0); NULL: as the
 * state machine says. */
void fake_strict_answer(struct fake *fake, const struct strict_result *result);

/* Delete it there. */
void fake_delete_tag(struct fake *fake, const char *name);

/* The table's entry of a tag, made if need be, and filled with [first, first + size) unless size is
 * 0. */
struct id_tag *fake_open(struct fake *fake, const char *name, uint64_t first, uint32_t size);

/* Publish a range, as soon as there is a place for it, and wake those that wait. */
void fake_publish(struct fake *fake, struct id_tag *tag, uint64_t first, uint32_t size);

/* Set a tag's state and wake who waits. */
void fake_set_state(struct fake *fake, struct id_tag *tag, enum id_tag_state state);

/* Answer who waits for all members so, or leave them waiting. */
void fake_everywhere(struct fake *fake, int status, const struct missing_members *missing);
void fake_hold_all(struct fake *fake, bool hold);

/* Let through what was held, and go on so. */
void fake_release(struct fake *fake);

/* Change flags under the mutex. */
void fake_hold(struct fake *fake, bool requests, bool wants);
void fake_fail_with(struct fake *fake, int err);

/* Wait until so many requests were submitted, refills asked for, or ids are in demand of a tag. */
void fake_await_submitted(struct fake *fake, uint64_t count);
void fake_await_wanted(struct fake *fake, uint64_t count);
void fake_await_demand(struct id_tag *tag, uint64_t demand);

uint64_t fake_submitted(struct fake *fake);
uint64_t fake_wanted(struct fake *fake);
uint64_t fake_notified(struct fake *fake);

#endif
