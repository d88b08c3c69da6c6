/*
 * random.h - histories of a service that does right, made up by a seed.
 *
 * Clients send requests side by side, lose replies and requests, try again under their idempotency
 * keys, and repeat a request that was answered; a request that was given up may be served late.
 * The tags:
 *
 *   0  "random.strict"   replies and requests are lost, keys are used
 *   1  "random/whole"    strict from RANDOM_START on; every request is answered
 *   2  "random keys"     strict; every request has a key and many are lost
 *   3  "random.trend"    three nodes hand out segments
 *   4  "random.monotonic"  as 0, and what is left of a leader's window is skipped now and then
 *
 * It is what the checker must find nothing in.
 * Thread: one owner each.
 */
#ifndef LEAFD_HISTORY_TESTS_RANDOM_H
#define LEAFD_HISTORY_TESTS_RANDOM_H

#include "src/base/prng.h"
#include "cluster-tests/history/history.h"

#define RANDOM_TAGS 5
#define RANDOM_CLIENTS 64
#define RANDOM_START 1000
#define RANDOM_LATE 16

enum random_state { RANDOM_IDLE, RANDOM_SENT, RANDOM_SERVED };

struct random_client {
    enum random_state state;
    bool again;           /* the request to be sent has been sent before, with this key */
    bool allocated;       /* its ids are known, of this attempt or one before with its key */
    struct history_op op; /* under way, or the last one */
};

struct random_history {
    struct prng prng;
    uint64_t now;
    uint64_t operations; /* to be made */
    uint64_t begun;
    uint64_t ended;
    uint64_t keys;              /* used so far */
    uint64_t next[RANDOM_TAGS]; /* the next id */
    uint64_t segment[3];        /* next id of each node's segment of the trend tag */
    uint64_t segment_end[3];    /* and its end */
    struct random_client clients[RANDOM_CLIENTS];
    struct history_op late[RANDOM_LATE]; /* given up before they were served */
    unsigned late_count;
    struct history_op burnt;   /* the first range of tag 0 without a key, whose reply is lost */
    struct history_op skipped; /* what was skipped of tag 4 first */
};

void random_history_init(struct random_history *random, uint64_t seed, uint64_t operations);

/* Names and modes of the tags. */
const char *random_tag_name(uint32_t tag);
enum history_mode random_tag_mode(uint32_t tag);
uint64_t random_tag_start(uint32_t tag);

/* The next operation, in the order they end; false if there were as many as were to be made. Tags
 * and clients are numbers from 0. */
bool random_history_next(struct random_history *random, struct history_op *ret_op);

/* Declare the tags in a history that is empty, and name the clients by their numbers ("c0"). */
void random_history_declare(struct history *history);

#endif
