/*
 * random.c - see random.h.
 *
 * The happy path: at each turn one client, drawn at random, goes on by a step: it sends, its
 * request is served, it gets its reply. Ids are taken from a counter at the moment a request is
 * served, which lies between its sending and its reply; that is all it takes to be strict.
 *
 * Thread: one owner each.
 */
#include "cluster-tests/history/tests/random.h"

#include <stdio.h>
#include <string.h>

#include "src/base/assert.h"

#define LOST_PERMILLE 10       /* of requests on their way in, and of replies on their way out */
#define LOST_KEYS_PERMILLE 100 /* the same, of tag 2 */
#define KEYS_PERMILLE 100      /* of requests of tag 0 that have a key */
#define REPEAT_PERMILLE 100    /* of answered requests with a key that are sent again */
#define LATE_PERMILLE 50       /* a turn in which a request that was given up is served */
#define LOST_WINDOW_PERMILLE 5 /* of requests of tag 4 that another leader serves */
#define SEGMENT 1000
#define TREND 3
#define MONOTONIC 4
#define WINDOW_MAX 500

static const char *const names[RANDOM_TAGS] = {"random.strict", "random/whole", "random keys",
                                               "random.trend", "random.monotonic"};

const char *random_tag_name(uint32_t tag)
{
    ASSERT(tag < RANDOM_TAGS);
    return names[tag];
}

enum history_mode random_tag_mode(uint32_t tag)
{
    return tag == TREND ? HISTORY_TREND : tag == MONOTONIC ? HISTORY_MONOTONIC : HISTORY_STRICT;
}

uint64_t random_tag_start(uint32_t tag)
{
    return tag == 1 ? RANDOM_START : HISTORY_NO_START;
}

void random_history_declare(struct history *history)
{
    for (uint32_t i = 0; i < RANDOM_TAGS; i++) {
        uint32_t tag = history_tag(history, names[i], strlen(names[i]));
        int err = history_declare(history, tag, random_tag_mode(i), random_tag_start(i));

        ASSERT(tag == i && err == 0);
    }
    for (uint32_t i = 0; i < RANDOM_CLIENTS; i++) {
        char name[16];
        int len = snprintf(name, sizeof name, "c%u", i);
        uint32_t client = history_client(history, name, (size_t)len);

        ASSERT(client == i);
    }
}

void random_history_init(struct random_history *random, uint64_t seed, uint64_t operations)
{
    ASSERT(operations > 0);
    *random = (struct random_history){.now = 1, .operations = operations};
    prng_seed(&random->prng, seed);
    for (uint32_t i = 0; i < RANDOM_TAGS; i++) {
        random->next[i] = i == 1 ? RANDOM_START : 1;
    }
    for (uint32_t i = 0; i < RANDOM_CLIENTS; i++) {
        random->clients[i].op.client = i;
    }
}

static bool chance(struct random_history *random, unsigned permille)
{
    return prng_below(&random->prng, 1000) < permille;
}

static bool is_plain(const struct history_op *op)
{
    return op->tag == 0 && op->key == 0;
}

static bool lost(struct random_history *random, const struct history_op *op)
{
    static const unsigned permille[RANDOM_TAGS] = {LOST_PERMILLE, 0, LOST_KEYS_PERMILLE,
                                                   LOST_PERMILLE, LOST_PERMILLE};

    return chance(random, permille[op->tag]);
}

/* --- the service --- */

/* A node's segment goes on; when it is too short it is dropped for the next one. */
static uint64_t from_segment(struct random_history *random, const struct history_op *op)
{
    unsigned node = op->client % 3;
    uint64_t size = op->count > SEGMENT ? op->count : SEGMENT;
    uint64_t first;

    if (random->segment_end[node] - random->segment[node] < op->count) {
        random->segment[node] = random->next[TREND];
        random->next[TREND] += size;
        random->segment_end[node] = random->next[TREND];
    }
    first = random->segment[node];
    random->segment[node] += op->count;
    return first;
}

static void lose_window(struct random_history *random)
{
    struct history_op skipped = {.tag = MONOTONIC, .first = random->next[MONOTONIC]};

    skipped.count = 1 + (uint32_t)prng_below(&random->prng, WINDOW_MAX);
    random->next[MONOTONIC] += skipped.count;
    if (random->skipped.count == 0) {
        random->skipped = skipped;
    }
}

static void allocate(struct random_history *random, struct history_op *op)
{
    if (op->tag == MONOTONIC && chance(random, LOST_WINDOW_PERMILLE)) {
        lose_window(random);
    }
    if (op->tag == TREND) {
        op->first = from_segment(random, op);
        return;
    }
    op->first = random->next[op->tag];
    random->next[op->tag] += op->count;
}

/* --- the clients --- */

static void begin(struct random_history *random, struct random_client *client)
{
    static const uint32_t counts[] = {1, 1, 1, 1, 10, 10, 100, 7};
    struct history_op *op = &client->op;

    if (random->begun == random->operations) {
        return;
    }
    random->begun++;
    if (!client->again) {
        op->tag = (uint32_t)prng_below(&random->prng, RANDOM_TAGS);
        op->count = counts[prng_below(&random->prng, sizeof counts / sizeof counts[0])];
        op->key = 0;
        if (op->tag == 2 ||
            ((op->tag == 0 || op->tag == MONOTONIC) && chance(random, KEYS_PERMILLE))) {
            op->key = ++random->keys;
        }
        client->allocated = false;
    }
    op->sent = random->now;
    client->state = RANDOM_SENT;
}

/* The client stops waiting. With a key it tries again, mostly; without one its request may yet be
 * served if it was not. */
static void give_up(struct random_history *random, struct random_client *client)
{
    client->op.received = HISTORY_UNKNOWN;
    client->again = client->op.key != 0 && chance(random, 900);
    if (client->op.key == 0 && !client->allocated && random->late_count < RANDOM_LATE) {
        random->late[random->late_count++] = client->op;
    }
    if (client->allocated && is_plain(&client->op) && random->burnt.count == 0) {
        random->burnt = client->op;
    }
    client->state = RANDOM_IDLE;
}

/* One step of a client; true if an operation ended. */
static bool step(struct random_history *random, struct random_client *client)
{
    switch (client->state) {
    case RANDOM_IDLE:
        begin(random, client);
        return false;
    case RANDOM_SENT:
        if (lost(random, &client->op)) {
            give_up(random, client);
            return true;
        }
        if (!client->allocated) {
            allocate(random, &client->op);
            client->allocated = true;
        }
        client->state = RANDOM_SERVED;
        return false;
    case RANDOM_SERVED:
        if (lost(random, &client->op) || (is_plain(&client->op) && random->burnt.count == 0)) {
            give_up(random, client);
            return true;
        }
        client->op.received = random->now;
        client->again = client->op.key != 0 && chance(random, REPEAT_PERMILLE);
        client->state = RANDOM_IDLE;
        return true;
    }
    UNREACHABLE("state of a client");
}

bool random_history_next(struct random_history *random, struct history_op *ret_op)
{
    struct random_client *client;

    if (random->ended == random->operations) {
        return false;
    }
    do {
        /* Now and then two things happen at the same time. */
        random->now += prng_below(&random->prng, 4);
        if (random->late_count > 0 && chance(random, LATE_PERMILLE)) {
            allocate(random, &random->late[--random->late_count]);
        }
        client = &random->clients[prng_below(&random->prng, RANDOM_CLIENTS)];
    } while (!step(random, client));
    random->ended++;
    *ret_op = client->op;
    return true;
}
