/*
 * prepare.c - see prepare.h. Thread: the one that starts the driver, before the writer runs.
 */
#include "raft/core/prepare.h"

#include "raft/core/consensus.h"
#include "raft/core/rollback.h"
#include "raft/wire/wire.h"
#include "src/base/assert.h"
#include "src/base/log.h"
#include "src/state/codec/cluster_command.h"

/* The record: kind u8, incarnation u64. */
enum incarnation_kind {
    INCARNATION_MEMBER = 1,
    INCARNATION_JOINER = 2 /* of a joining node that has received no log yet */
};

/* What a start writes, in one commit. */
struct preparation {
    struct buf conf; /* of the first entry; empty: it exists, or must not */
    struct buf incarnation_record;
    struct buf incarnations_record;
    uint64_t incarnation;
    uint64_t term; /* after the start */
    uint64_t vote;
};

/* Count this start: one more than the last, with its random half added to the list. A store that
 * predates the record begins at 1. */
static int count_start(const struct store_loaded *loaded, uint32_t random,
                       struct preparation *preparation, struct store_error *ret_error)
{
    const struct buf *record = &loaded->locals[LOCAL_INCARNATION];
    const struct buf *had = &loaded->locals[LOCAL_INCARNATIONS];
    struct incarnations incarnations;
    struct reader reader;
    uint64_t last = 0;
    uint8_t kind;
    int rv;

    if (record->len > 0) {
        reader_init(&reader, record->data, record->len);
        kind = reader_u8(&reader);
        if (kind != INCARNATION_MEMBER && kind != INCARNATION_JOINER) {
            return store_error_set(
                ret_error, ERR_BAD_VERSION,
                "local record %d: the count of starts has version %u, supported are %d and %d",
                LOCAL_INCARNATION, kind, INCARNATION_MEMBER, INCARNATION_JOINER);
        }
        last = reader_u64(&reader);
        if (!reader_done(&reader) || last == 0 || last == UINT64_MAX) {
            return store_error_set(ret_error, ERR_CORRUPT,
                                   "local record %d: the count of starts is damaged",
                                   LOCAL_INCARNATION);
        }
    }
    preparation->incarnation = last + 1;
    rv = incarnations_load(&incarnations, had->data, had->len);
    if (rv == 0 && incarnations.newest >= preparation->incarnation) {
        rv = ERR_CORRUPT;
    }
    if (rv != 0) {
        return store_error_set(
            ret_error, rv, "local record %d: the list of starts is damaged or of another version",
            LOCAL_INCARNATIONS);
    }
    incarnations_add(&incarnations, preparation->incarnation, random);
    incarnations_save(&incarnations, &preparation->incarnations_record);
    return 0;
}

/* A number near the maximum would leave no room for another election, or entry; the core and every
 * peer would fail on it. The peer memory must be valid, and must not say that peers refused this
 * directory. */
static int check_loaded(const struct store_loaded *loaded, struct store_error *ret_error)
{
    const struct {
        const char *name;
        uint64_t value;
    } numbers[] = {
        {"term", loaded->term},
        {"state's index", loaded->position.index},
        {"log's last index", loaded->first_index + loaded->entry_count - 1},
    };
    const struct buf *record = &loaded->locals[LOCAL_PEERS];
    struct rollback memory;
    int rv;

    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        if (numbers[i].value >= LIMIT_PLAUSIBLE) {
            return store_error_set(ret_error, ERR_IMPLAUSIBLE,
                                   "the %s is %llu, and none can have got to %llu", numbers[i].name,
                                   ull(numbers[i].value), ull(LIMIT_PLAUSIBLE));
        }
    }
    rv = rollback_load(&memory, record->data, record->len);
    if (rv != 0) {
        return store_error_set(
            ret_error, rv,
            "local record %d: what is known of the peers is damaged or of another version",
            LOCAL_PEERS);
    }
    if (memory.older) {
        return store_error_set(ret_error, ERR_STALE,
                               "the data directory is an older copy and was refused by the "
                               "cluster: put the newest back, or join under a new id");
    }
    return 0;
}

bool prepare_is_empty(const struct store_loaded *loaded)
{
    return loaded->entry_count == 0 && loaded->position.index == 0;
}

bool prepare_first_list(const struct store_loaded *loaded, struct configuration *ret_configuration)
{
    const struct store_entry *first = loaded->entries;

    return loaded->entry_count > 0 && loaded->first_index == 1 && first->type == RAFT_CHANGE &&
           configuration_decode(first->data, first->len, ret_configuration) == 0;
}

bool prepare_is_joiner(const struct store_loaded *loaded)
{
    const struct buf *record = &loaded->locals[LOCAL_INCARNATION];

    return prepare_is_empty(loaded) && record->len > 0 && record->data[0] == INCARNATION_JOINER;
}

static int commit(struct store *store, struct preparation *preparation, struct store_loaded *loaded,
                  struct store_error *ret_error)
{
    const struct buf *record = &preparation->incarnation_record;
    const struct buf *had = &preparation->incarnations_record;
    const struct buf *conf = &preparation->conf;
    const struct store_entry entry = {1, RAFT_CHANGE, (uint32_t)conf->len, conf->data};
    struct store_op_list list = STAILQ_HEAD_INITIALIZER(list);
    struct store_op term = {
        .kind = STORE_HARD_STATE, .term = preparation->term, .vote = preparation->vote};
    struct store_op append = {
        .kind = STORE_APPEND, .index = 1, .entry_count = 1, .entries = &entry};
    struct store_op incarnation = {.kind = STORE_LOCAL,
                                   .local_key = LOCAL_INCARNATION,
                                   .local = record->data,
                                   .local_len = (uint32_t)record->len};
    struct store_op incarnations = {.kind = STORE_LOCAL,
                                    .local_key = LOCAL_INCARNATIONS,
                                    .local = had->data,
                                    .local_len = (uint32_t)had->len};
    int rv;

    ASSERT(preparation->incarnation > loaded->incarnation);
    ASSERT(preparation->term >= loaded->term);
    if (preparation->term > loaded->term) {
        STAILQ_INSERT_TAIL(&list, &term, link);
    }
    if (conf->len > 0) {
        STAILQ_INSERT_TAIL(&list, &append, link);
    }
    STAILQ_INSERT_TAIL(&list, &incarnation, link);
    STAILQ_INSERT_TAIL(&list, &incarnations, link);
    rv = store->ops->commit(store, &list, ret_error);
    if (rv != 0) {
        return rv;
    }
    loaded->incarnation = preparation->incarnation;
    buf_free(&loaded->locals[LOCAL_INCARNATION]);
    buf_move(&loaded->locals[LOCAL_INCARNATION], &preparation->incarnation_record);
    buf_free(&loaded->locals[LOCAL_INCARNATIONS]);
    buf_move(&loaded->locals[LOCAL_INCARNATIONS], &preparation->incarnations_record);
    loaded->term = preparation->term;
    loaded->vote = preparation->vote;
    if (conf->len > 0) {
        loaded->first_index = 1;
        store_loaded_add(loaded, &entry);
    }
    return 0;
}

int prepare_store(struct store *store, struct store_loaded *loaded, uint64_t node_id,
                  uint32_t random, const struct net_peer *members, size_t member_count,
                  struct store_error *ret_error)
{
    struct preparation preparation = {.term = loaded->term, .vote = loaded->vote};
    enum incarnation_kind kind = INCARNATION_MEMBER;
    struct configuration configuration = {0};
    bool is_empty = prepare_is_empty(loaded);
    const void *conf = loaded->position.conf; /* that the start runs with */
    size_t conf_len = loaded->position.conf_len;
    int rv = check_loaded(loaded, ret_error);

    if (rv == 0) {
        rv = count_start(loaded, random, &preparation, ret_error);
    }
    /* Was the log lost? Every start leaves a record and, but for nodes that join, a log, in one
     * commit. Versions that predate the record wrote term 1 and the first entry in two commits. */
    if (rv == 0 && is_empty && !prepare_is_joiner(loaded) &&
        (loaded->locals[LOCAL_INCARNATION].len > 0 || loaded->term > 1 || loaded->vote != 0)) {
        rv = store_error_set(ret_error, ERR_CORRUPT,
                             "the log and the state are gone: term %llu, vote %llu, and no entry",
                             ull(loaded->term), ull(loaded->vote));
    }
    for (size_t i = 0; i < loaded->entry_count; i++) { /* the last CHANGE of the log */
        if (loaded->entries[i].type == RAFT_CHANGE) {
            conf = loaded->entries[i].data;
            conf_len = loaded->entries[i].len;
        }
    }
    if (is_empty && (member_count == 0 || prepare_is_joiner(loaded))) {
        kind = INCARNATION_JOINER; /* the configuration comes with the log of the others */
    } else if (is_empty) {         /* term 1, and entry 1, which holds the configuration */
        for (size_t i = 0; i < member_count; i++) {
            configuration_add(&configuration, members[i].id, members[i].address, ROLE_VOTER);
        }
        configuration_encode(&configuration, &preparation.conf);
        preparation.term = 1;
        preparation.vote = 0;
    } else if (rv == 0 && configuration_decode(conf, conf_len, &configuration) != 0) {
        rv = store_error_set(ret_error, ERR_CORRUPT, "the log's configuration is damaged");
    }
    if (guard_sole_voter(&configuration, node_id)) { /* G11 */
        preparation.term++;
        preparation.vote = node_id;
    }
    buf_put_u8(&preparation.incarnation_record, (uint8_t)kind);
    buf_put_u64(&preparation.incarnation_record, preparation.incarnation);
    if (rv == 0) {
        rv = commit(store, &preparation, loaded, ret_error);
    }
    buf_free(&preparation.conf);
    buf_free(&preparation.incarnation_record);
    buf_free(&preparation.incarnations_record);
    return rv;
}

void prepare_member_record(uint64_t incarnation, struct buf *record)
{
    ASSERT(incarnation > 0);
    buf_put_u8(record, INCARNATION_MEMBER);
    buf_put_u64(record, incarnation);
}

int prepare_check_entries(const struct state *state, const struct store_loaded *loaded,
                          struct store_error *ret_error)
{
    const struct level_range own = state->facts.speaks;

    for (size_t i = 0; i < loaded->entry_count; i++) {
        const struct store_entry *entry = &loaded->entries[i];
        unsigned long long index = loaded->first_index + i;
        uint16_t to;

        if (index <= loaded->position.index || entry->type != RAFT_COMMAND ||
            state_can_apply(state, entry->data, entry->len)) {
            continue;
        }
        to = command_raises_to(entry->data, entry->len);
        if (to == 0) {
            return store_error_set(ret_error, ERR_NEWER,
                                   "entry %llu of the log is of a kind that this leafd does not "
                                   "know (it speaks levels %u to %u): start the newer one again",
                                   index, own.min, own.max);
        }
        return store_error_set(ret_error, ERR_NEWER,
                               "entry %llu of the log raises the cluster to level %u, and this "
                               "leafd speaks levels %u to %u: start the newer one again",
                               index, to, own.min, own.max);
    }
    return 0;
}

int prepare_load(struct store *store, struct state *state, struct store_loaded *ret_loaded,
                 struct store_error *ret_error)
{
    const struct level_range own = state->facts.speaks;
    int rv;

    state_load_begin(state);
    rv = store->ops->load(store, ret_loaded, state_load_row, state, ret_error);
    /* The store's own text does not mention levels. */
    if (rv == ERR_NEWER && state_level(state) > own.max) {
        return store_error_set(
            ret_error, rv,
            "the data are of a cluster at level %u, and this leafd speaks levels "
            "%u to %u: start the newer leafd again",
            state_level(state), own.min, own.max);
    }
    if (rv == ERR_NEWER) {
        return store_error_set(ret_error, rv,
                               "the data have rows that this leafd does not know (it speaks levels "
                               "%u to %u): a newer one wrote them, start that again",
                               own.min, own.max);
    }
    if (rv != 0) {
        return rv;
    }
    rv = state_load_end(state, ret_loaded->position.index);
    if (rv == ERR_BAD_VERSION) {
        (void)store_error_set(ret_error, rv,
                              "the cluster is at level %u, and this leafd speaks levels %u to %u: "
                              "upgrade by the versions between",
                              state_level(state), own.min, own.max);
    } else if (rv == 0) {
        rv = prepare_check_entries(state, ret_loaded, ret_error);
    } else {
        (void)store_error_set(ret_error, rv, "the rows contradict each other");
    }
    if (rv != 0) {
        store_loaded_release(ret_loaded);
    }
    return rv;
}
