/*
 * raft_liar.c - see raft_liar.h. Thread: the test's.
 */
#include "raft/core/tests/raft_liar.h"

#include <string.h>

#include "raft/core/tests/raft_lies.h"
#include "src/base/assert.h"

#define HONEST_MAX 8 /* requests of clients at once */
#define LOOK_MS 1000 /* of the others alone, afterwards */
#define STEPS_MAX 100000
#define PROMISED                                                                                   \
    (1ULL << 48) /* far beyond what a short play can reach by rises that are believed */

struct honest {
    struct asked asked[HONEST_MAX];
    bool used[HONEST_MAX];
};

/* Start a victim, after its operator has taken the mark of an older copy away, if it is there: a
 * liar that leads can tell the log of a later start of it. */
static void start_victim(struct liar *liar, uint64_t id)
{
    struct store *store = ring_node(&liar->ring, id)->store;
    struct store_op_list list = STAILQ_HEAD_INITIALIZER(list);
    struct store_op op = {.kind = STORE_LOCAL, .local_key = LOCAL_PEERS};
    struct store_error error = {{0}};
    struct store_loaded loaded;
    struct rollback memory;
    BUF_LOCAL(record);

    ASSERT(store->ops->load(store, &loaded, NULL, NULL, &error) == 0);
    ASSERT(rollback_load(&memory, loaded.locals[LOCAL_PEERS].data,
                         loaded.locals[LOCAL_PEERS].len) == 0);
    store_loaded_release(&loaded);
    if (memory.older) {
        memory.older = false;
        rollback_save(&memory, &record);
        op.local = record.data;
        op.local_len = (uint32_t)record.len;
        STAILQ_INSERT_TAIL(&list, &op, link);
        ASSERT(store->ops->commit(store, &list, &error) == 0);
    }
    ring_restart(&liar->ring, id);
}

/* A victim that ended by itself: only so. */
static void bury(struct liar *liar, struct liar_result *result)
{
    for (uint64_t id = 1; id <= liar->ring.count; id++) {
        struct ring_node *node = ring_node(&liar->ring, id);

        if (node->up && node->replica.driver.failed) {
            node->disk_held = false; /* a witness writes before it says why */
            ring_settle(&liar->ring);
            ASSERT(node->failed_err == ERR_CONTRADICTED || node->failed_err == ERR_DIVERGED ||
                   node->failed_err == ERR_STALE ||       /* told of a later start of it */
                   node->failed_err == ERR_OTHER_BIRTH || /* a snapshot gave it another uid */
                   node->failed_err == ERR_NEWER); /* an entry is of a kind it does not know */
            /* What it made durable is not for a later leafd: that would end it at each start. */
            ASSERT(!liar->over || node->failed_err != ERR_NEWER);
            result->ended++;
            result->alarms += node->replica.driver.trust.alarm.count;
            ring_crash(&liar->ring, id);
        }
    }
}

static void check(struct liar *liar, struct liar_result *result)
{
    bury(liar, result);
    for (uint64_t id = 1; id <= liar->ring.count; id++) {
        struct driver *driver = &ring_node(&liar->ring, id)->replica.driver;

        if (!ring_node(&liar->ring, id)->up) {
            continue;
        }
        /* One that joins has nothing yet to compare with. */
        if (id <= liar->ring.count - liar->ring.joiners) {
            ASSERT(driver_term(driver) < PROMISED);
            ASSERT(driver_last_index(driver) < PROMISED);
        }
        ASSERT(driver_term(driver) < LIMIT_PLAUSIBLE + STEPS_MAX);
        ASSERT(driver_last_index(driver) < LIMIT_PLAUSIBLE + STEPS_MAX);
    }
}

/* --- between the lies --- */

static void reap(struct honest *honest, bool all)
{
    for (unsigned i = 0; i < HONEST_MAX; i++) {
        if (honest->used[i] && (all || honest->asked[i].done > 0)) {
            ASSERT(honest->asked[i].done == 1);
            asked_free(&honest->asked[i]);
            honest->used[i] = false;
        }
    }
}

static void client(struct liar *liar, struct honest *honest, uint64_t id)
{
    static const char *const names[] = {"a", "b", "c"};
    const char *name = names[liar_below(liar->source, 3)];
    unsigned i = (unsigned)liar_below(liar->source, HONEST_MAX);

    reap(honest, false);
    if (honest->used[i] || !ring_node(&liar->ring, id)->up) {
        return;
    }
    switch (liar_below(liar->source, 4)) {
    case 0:
        asked_get(&honest->asked[i], name);
        break;
    case 1:
        asked_open(&honest->asked[i], name);
        break;
    case 2:
        asked_delete(&honest->asked[i], name);
        break;
    default:
        asked_put(&honest->asked[i], name, 1 + liar_byte(liar->source));
        break;
    }
    honest->used[i] = true;
    ask(&liar->ring, id, &honest->asked[i], 500);
}

/* Take ids, so that segments are asked for. */
static void claim(struct liar *liar, uint64_t id)
{
    struct replica *replica = &ring_node(&liar->ring, id)->replica;
    struct id_service *ids = &ring_node(&liar->ring, id)->ids;
    struct segment_range range;
    struct segment_view view;
    struct id_tag *tag;

    if (!ring_node(&liar->ring, id)->up) {
        return;
    }
    tag = id_table_find(ids->table, "a", 1);
    if (tag != NULL && segment_claim(&tag->buffer, 5, 5, &range, &view) != 0 &&
        !atomic_exchange(&tag->refill_wanted, true)) {
        allocator_want(ids->allocator, tag);
        (void)replica_turn(replica);
    }
}

static void stop_or_start(struct liar *liar, uint64_t id)
{
    if (ring_node(&liar->ring, id)->up) {
        ring_crash(&liar->ring, id);
    } else {
        start_victim(liar, id);
    }
}

static void hear_honest(struct liar *liar, bool heard)
{
    ring_isolate(&liar->ring, liar->id, !heard);
    for (uint64_t id = 1; id <= liar->ring.count; id++) {
        liar->ring.cut[id][liar->id] = false; /* it hears everything */
    }
}

static void lie(struct liar *liar)
{
    static void (*const lies[])(struct liar * liar) = {
        lie_message, lie_message, lie_message,   lie_message, lie_snapshot, lie_request,
        lie_reply,   lie_small,   lie_handshake, lie_bytes,   lie_compare,  lie_buffers};

    lies[liar_below(liar->source, sizeof lies / sizeof lies[0])](liar);
}

static void step(struct liar *liar, struct honest *honest)
{
    uint64_t draw = liar_below(liar->source, 32);
    uint64_t id = 1 + liar_below(liar->source, liar->ring.count);

    if (id == liar->id) {
        id = id % liar->ring.count + 1;
    }
    liar->victim = id;
    if (!ring_node(&liar->ring, id)->up && draw % 2 == 0) {
        start_victim(liar, id);
    }
    if (draw < 20) {
        if (ring_node(&liar->ring, id)->up) {
            lie(liar);
        }
    } else if (draw < 24) {
        ring_run_ms(&liar->ring, liar_byte(liar->source));
    } else if (draw < 26) {
        client(liar, honest, id);
    } else if (draw < 28) {
        claim(liar, id);
    } else if (draw == 28) {
        stop_or_start(liar, id);
    } else if (draw == 29) {
        hear_honest(liar, liar_below(liar->source, 2) == 1);
    } else if (draw == 30) {
        ring_node(&liar->ring, id)->disk_held = liar_below(liar->source, 2) == 1;
    } else {
        ring_settle(&liar->ring);
    }
}

/* --- the whole play --- */

static void begin(struct liar *liar)
{
    uint8_t how = liar_byte(liar->source);

    liar->ring.snapshot_entries = how & 1 ? 4 : 1000;
    liar->ring.keeps_time = (how & 2) != 0;
    liar->ring.workers = (how & 2) != 0 ? 1 : 0;
    liar->ring.joiners = (how & 12) == 12 ? 1 : 0;
    liar->ring.digest_ms = how & 16 ? 500 : 0;
    ring_start(&liar->ring, 3);
    (void)ring_elect(&liar->ring);
    ring_make(&liar->ring, 1, "a", 100);
    liar->id = 1 + (how >> 5) % (3 - liar->ring.joiners);
    hear_honest(liar, false);
}

/* What the liar made durable is loaded again, by each victim alone, and then beside the others. */
static void start_anew(struct liar *liar, struct liar_result *result)
{
    liar->over = true;
    ring_isolate(&liar->ring, liar->id, true);
    for (uint64_t id = 1; id <= 3; id++) {
        struct ring_node *node = ring_node(&liar->ring, id);

        if (id == liar->id) {
            continue;
        }
        node->disk_held = false;
        if (node->up) {
            ring_settle(&liar->ring);
            check(liar, result);
        }
        if (node->up) {
            ring_crash(&liar->ring, id);
        }
        start_victim(liar, id);
        ring_settle(&liar->ring);
        check(liar, result);
        result->loaded++;
    }
    for (uint64_t id = 1; id <= 3; id++) {
        if (id != liar->id && !ring_node(&liar->ring, id)->up) {
            start_victim(liar, id);
        }
    }
}

/* The others alone: what stopped starts again, and nothing fires. */
static void look(struct liar *liar, struct liar_result *result)
{
    start_anew(liar, result);
    for (uint64_t ms = 0; ms < LOOK_MS; ms += 5) {
        ring_run_ms(&liar->ring, 5);
        check(liar, result);
    }
    ring_close(&liar->ring);
}

void liar_play(struct liar_source *source, unsigned steps, struct liar_result *ret_result)
{
    struct liar liar = {.source = source};
    struct honest honest = {.used = {false}};

    memset(ret_result, 0, sizeof *ret_result);
    begin(&liar);
    for (unsigned i = 0; i < steps && !liar_is_out(source); i++) {
        step(&liar, &honest);
        check(&liar, ret_result);
    }
    for (uint64_t id = 1; id <= 3; id++) {
        if (ring_node(&liar.ring, id)->up) {
            ret_result->alarms += ring_node(&liar.ring, id)->replica.driver.trust.alarm.count;
        }
    }
    look(&liar, ret_result);
    ret_result->frames = liar.frames;
    ret_result->refused = liar.refused;
    reap(&honest, true);
}
