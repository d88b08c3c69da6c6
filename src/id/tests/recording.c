/*
 * recording.c - see recording.h. Thread: one.
 */
#include "src/id/tests/recording.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/base/hash.h"
#include "src/id/tests/id_apply.h"
#include "src/id/tests/id_random.h"
#include "src/tests/unit/hex.h"

#define ENTRIES 1500
#define SUM_EVERY 10
#define ROWS_AT (ENTRIES / 2)
#define SEED 20261122
#define LINE_BYTES (1U << 20)
#define MEMBERS_BYTES 80

/* A state machine, and the hash of what it has answered. */
struct side {
    struct id_apply apply;
    uint64_t results;
};

/* --- entries --- */

static void note_result(struct side *side, struct recording_counts *counts)
{
    const struct id_apply *apply = &side->apply;
    const struct buf *result = &apply->result;
    unsigned type = apply->last.data[1];
    int32_t status;

    side->results = hash_bytes(result->data, result->len, side->results);
    if (counts != NULL && type < sizeof counts->applied / sizeof *counts->applied) {
        counts->applied[type]++;
        counts->done[type] +=
            id_apply_refused(apply) == 0 &&
            (status_result_decode(result->data, result->len, &status) != 0 || status == 0);
    }
}

static void apply_entry(struct side *side, struct buf *command, struct recording_counts *counts)
{
    struct id_apply *apply = &side->apply;
    struct row_changes changes = {0};
    int err;

    apply->last.len = 0;
    buf_put(&apply->last, command->data, command->len);
    apply->result.len = 0;
    err = state_apply(fsm_state(apply->fsm), ++apply->index, apply->term, command->data,
                      command->len, &apply->result, &changes);
    side->results = hash_bytes(&err, sizeof err, side->results);
    note_result(side, counts);
    id_apply_keep(apply, &changes);
}

/* "1v,2s" or "-" */
static struct configuration members_read(const char *text)
{
    struct configuration members = {0};

    while (*text >= '1' && *text <= '9' && members.count < LIMIT_NODES) {
        configuration_add(&members, (uint64_t)(*text - '0'), "",
                          text[1] == 'v' ? ROLE_VOTER : ROLE_STANDBY);
        text += text[2] == ',' ? 3 : 2;
    }
    return members;
}

static void apply_conf(struct side *side, const char *before, const char *after)
{
    const struct configuration old = members_read(before);
    const struct configuration new = members_read(after);
    struct row_changes changes = {0};

    state_configured(fsm_state(side->apply.fsm), ++side->apply.index, &old, &new, &changes);
    id_apply_keep(&side->apply, &changes);
}

/* --- replaying --- */

struct replay {
    const char *path;
    unsigned line;
    struct side whole; /* from the first entry on */
    struct side late;  /* from the rows on */
    bool has_late;
    bool in_rows;
    struct recording_counts *counts;
};

static bool differs(const struct replay *replay, const char *what)
{
    printf("%s:%u: %s: the meaning or the bytes of this level have changed. That needs a new "
           "level, see docs/versions.md\n",
           replay->path, replay->line, what);
    return false;
}

static bool take_entry(struct replay *replay, uint64_t index, const char *hex)
{
    struct buf command = BUF_INIT;
    bool fits = index == replay->whole.apply.index + 1;

    hex_put(&command, hex);
    if (fits) {
        apply_entry(&replay->whole, &command, replay->counts);
    }
    if (fits && replay->has_late) {
        apply_entry(&replay->late, &command, NULL);
    }
    buf_free(&command);
    return fits || differs(replay, "an entry out of turn");
}

static bool take_sum(const struct replay *replay, uint64_t digest, uint64_t results)
{
    if (state_digest(fsm_state(replay->whole.apply.fsm)) != digest) {
        return differs(replay, "the state is another");
    }
    if (replay->whole.results != results) {
        return differs(replay, "a result is another");
    }
    if (replay->has_late && state_digest(fsm_state(replay->late.apply.fsm)) != digest) {
        return differs(replay, "the state is another, from the rows on");
    }
    return true;
}

static bool take_row(struct replay *replay, const char *key, const char *value)
{
    struct kept_row *row = &replay->late.apply.rows[replay->late.apply.row_count++];

    if (id_load_hex(replay->late.apply.fsm, key, value) != 0) {
        return differs(replay, "a row does not load");
    }
    hex_put(&row->key, key);
    hex_put(&row->value, value);
    return true;
}

static void begin_rows(struct replay *replay)
{
    id_apply_init(&replay->late.apply);
    state_load_begin(fsm_state(replay->late.apply.fsm));
    replay->late.apply.index = replay->whole.apply.index;
    replay->has_late = true;
    replay->in_rows = true;
}

static bool end_rows(struct replay *replay)
{
    replay->in_rows = false;
    return (state_load_end(fsm_state(replay->late.apply.fsm), replay->late.apply.index) == 0 &&
            state_digest(fsm_state(replay->late.apply.fsm)) ==
                state_digest(fsm_state(replay->whole.apply.fsm))) ||
           differs(replay, "the rows make another state");
}

static bool take_line(struct replay *replay, char *line)
{
    char *words[4] = {"", "", "", ""};
    size_t count = 0;
    uint64_t index;

    for (char *rest = line, *word; count < 4 && (word = strsep(&rest, " \n")) != NULL; count++) {
        words[count] = word;
    }
    index = strtoull(words[1], NULL, 10);
    if (replay->in_rows && strcmp(words[0], "row") != 0 && !end_rows(replay)) {
        return false;
    }
    if (strcmp(words[0], "entry") == 0) {
        return take_entry(replay, index, words[2]);
    }
    if (strcmp(words[0], "conf") == 0) {
        apply_conf(&replay->whole, words[2], words[3]);
        if (replay->has_late) {
            apply_conf(&replay->late, words[2], words[3]);
        }
        return true;
    }
    if (strcmp(words[0], "sum") == 0) {
        return take_sum(replay, strtoull(words[2], NULL, 16), strtoull(words[3], NULL, 16));
    }
    if (strcmp(words[0], "rows") == 0) {
        begin_rows(replay);
        return true;
    }
    return strcmp(words[0], "row") == 0     ? take_row(replay, words[1], words[2])
           : strcmp(words[0], "level") == 0 ? replay->line == 1
                                            : differs(replay, "a line of an unknown kind");
}

bool recording_replay(const char *path, struct recording_counts *ret_counts)
{
    struct replay *replay = calloc(1, sizeof *replay);
    FILE *file = fopen(path, "re");
    char *line = malloc(LINE_BYTES);
    bool same = file != NULL;

    ASSERT(replay != NULL && line != NULL);
    *ret_counts = (struct recording_counts){0};
    replay->path = path;
    replay->counts = ret_counts;
    id_apply_init(&replay->whole.apply);
    while (same && fgets(line, LINE_BYTES, file) != NULL) {
        replay->line++;
        same = take_line(replay, line);
    }
    same = same && (replay->has_late || differs(replay, "it has no rows, or no end"));
    if (replay->has_late) {
        id_apply_free(&replay->late.apply);
    }
    id_apply_free(&replay->whole.apply);
    if (file != NULL) {
        (void)fclose(file);
    }
    free(line);
    free(replay);
    return same;
}

/* --- recording --- */

struct recorder {
    FILE *file;
    struct side side;
    struct prng prng;
    char members[MEMBERS_BYTES]; /* of the last configuration */
    uint64_t steps;
};

static void put_hex(FILE *file, const struct buf *bytes)
{
    for (size_t i = 0; i < bytes->len; i++) {
        fprintf(file, "%02x", bytes->data[i]);
    }
}

static void record(struct recorder *recorder, struct buf *command)
{
    fprintf(recorder->file, "entry %" PRIu64 " ", recorder->side.apply.index + 1);
    put_hex(recorder->file, command);
    fprintf(recorder->file, "\n");
    apply_entry(&recorder->side, command, NULL);
    buf_free(command);
}

/* A configuration of some of the nodes 1 to 6; those that are gone never come back. */
static void record_conf(struct recorder *recorder)
{
    char before[MEMBERS_BYTES];
    size_t len = 0;

    memcpy(before, recorder->members, sizeof before);
    for (unsigned id = 1; id <= 6; id++) {
        bool was_removed = state_member_removed(fsm_state(recorder->side.apply.fsm), id);

        if (!was_removed && (id <= 3 || prng_below(&recorder->prng, 8) > 0)) {
            len += (size_t)snprintf(recorder->members + len, sizeof recorder->members - len,
                                    "%s%u%c", len > 0 ? "," : "", id,
                                    id <= 3 || prng_below(&recorder->prng, 2) ? 'v' : 's');
        }
    }
    fprintf(recorder->file, "conf %" PRIu64 " %s %s\n", recorder->side.apply.index + 1, before,
            recorder->members);
    apply_conf(&recorder->side, before, recorder->members);
}

/* What id_random_command() leaves out: what nodes say of themselves, and changes of the members. */
static void random_member_command(struct recorder *recorder, uint64_t node_id, struct buf *command)
{
    struct prng *prng = &recorder->prng;
    struct member_change change = {.kind = MEMBER_ADD, .node_id = 4 + prng_below(prng, 3)};
    struct node_info info = {.node_id = node_id,
                             .store_id = 77,
                             .http_address = "host:8080",
                             .version = "0.2.0",
                             .levels = {1, (uint16_t)(1 + prng_below(prng, 2))},
                             .incarnation = 1 + prng_below(prng, 3)};
    struct member_move move = {.node_id = 1 + prng_below(prng, 5)};
    const struct member_change *now = state_member_change(fsm_state(recorder->side.apply.fsm));

    switch (prng_below(prng, 5)) {
    case 0:
        (void)snprintf(info.peer_address, sizeof info.peer_address, "host:%u",
                       7081 + (unsigned)prng_below(prng, 3));
        cluster_command_put(command, COMMAND_NODE_INFO, &info);
        return;
    case 3:
        (void)snprintf(move.address, sizeof move.address, "moved:%u",
                       7081 + (unsigned)prng_below(prng, 3));
        cluster_command_put(command, COMMAND_MEMBER_MOVE, &move);
        return;
    case 1:
        change.kind = MEMBER_REMOVE;
        change.force = true;
        cluster_command_put(command, COMMAND_MEMBER_BEGIN, &change);
        return;
    case 2:
        memcpy(change.address, "host:7081", sizeof "host:7081");
        cluster_command_put(command, COMMAND_MEMBER_BEGIN, &change);
        return;
    default:
        change.index = now != NULL ? now->index : 1;
        change.given_up = prng_below(prng, 2) == 0;
        cluster_command_put(command, COMMAND_MEMBER_END, &change);
    }
}

/* The first entry of a term: the first of them is the birth of the cluster, the others are too late
 * for that. level: that it is born at, 0: it says none. */
static void record_birth(struct recorder *recorder, uint16_t level)
{
    struct prng *prng = &recorder->prng;
    const struct birth birth = {.uid = uid_make(prng_next(prng), prng_next(prng)),
                                .list_digest = prng_next(prng),
                                .wall_ms = 1700000000000,
                                .level = level};
    struct buf command = BUF_INIT;

    cluster_command_put(&command, level > 0 ? COMMAND_BIRTH_AT : COMMAND_BIRTH, &birth);
    record(recorder, &command);
}

/* Sometimes, where the level has it. */
static bool record_put_since(struct recorder *recorder, int type,
                             void (*put)(struct prng *prng, struct buf *buf), uint64_t node_id,
                             uint64_t step)
{
    const struct state *now = fsm_state(recorder->side.apply.fsm);
    bool does = state_level(now) >= state_since(now, type) && prng_below(&recorder->prng, 9) == 0;
    struct buf command = BUF_INIT;

    if (does) {
        put(&recorder->prng, &command);
        id_stamp_as(&command, node_id, 3, step, step);
        record(recorder, &command);
    }
    return does;
}

static void random_placement(struct prng *prng, struct buf *command)
{
    struct placement placement = {.node_id = 1 + prng_below(prng, 5),
                                  .set =
                                      (uint8_t)(prng_below(prng, 2) ? PLACE_WEIGHT : PLACE_DRAINED),
                                  .weight = (uint16_t)prng_below(prng, NODE_WEIGHT_MAX + 1),
                                  .drained = prng_below(prng, 2) == 0};

    if (prng_below(prng, 4) == 0) {
        placement.weight = NODE_WEIGHT_DEFAULT;
        placement.drained = false;
        placement.set = PLACE_WEIGHT | PLACE_DRAINED;
    }
    cluster_command_put(command, COMMAND_PLACEMENT, &placement);
}

static void random_cut(struct prng *prng, struct buf *command)
{
    struct client_cut cut = {.reason = "r", .by = "ops"};

    (void)snprintf(cut.who, sizeof cut.who, "10.0.0.%u", (unsigned)prng_below(prng, 80));
    cut.until_ms = prng_below(prng, 3) == 0 ? 0 : 1 + prng_below(prng, LIMIT_TIME_MAX_MS);
    cluster_command_put(command, COMMAND_CUT, &cut);
}

static bool record_of_level(struct recorder *recorder, uint64_t node_id, uint64_t step)
{
    return record_put_since(recorder, COMMAND_TAGS_PUT_BY, id_random_owned_put, node_id, step) ||
           record_put_since(recorder, COMMAND_TAGS_PUT_STEPPED, id_random_stepped_put, node_id,
                            step) ||
           record_put_since(recorder, COMMAND_PLACEMENT, random_placement, node_id, step) ||
           record_put_since(recorder, COMMAND_WORKER_ACQUIRE_OF, id_random_workers, node_id,
                            step) ||
           record_put_since(recorder, COMMAND_CUT, random_cut, node_id, step);
}

static void record_step(struct recorder *recorder)
{
    struct prng *prng = &recorder->prng;
    uint64_t step = recorder->steps++;
    /* Other nodes than those of id_random_command(), whose sessions they would end. */
    uint64_t node_id = 7 + prng_below(prng, 3);
    struct buf command = BUF_INIT;

    if (step == 0 || prng_below(prng, 100) == 0) {
        record_conf(recorder);
        return;
    }
    if (prng_below(prng, 300) == 0) {
        record_birth(recorder, 0);
        return;
    }
    if (record_of_level(recorder, node_id, step)) {
        return;
    }
    if (prng_below(prng, 6) == 0) {
        id_random_bounded_put(prng, &command);
        id_stamp_as(&command, node_id, 3, step, step);
        record(recorder, &command);
        return;
    }
    if (prng_below(prng, 7) == 0) {
        id_random_shaped_put(prng, &command);
        id_stamp_as(&command, node_id, 3, step, step);
        record(recorder, &command);
        return;
    }
    if (prng_below(prng, 7) == 0) {
        id_random_for_client(prng, &command);
        id_stamp_as(&command, node_id, 3, step, step);
        record(recorder, &command);
        return;
    }
    if (prng_below(prng, 12) == 0) {
        id_random_rekeyed_put(prng, &command);
        id_stamp_as(&command, node_id, 3, step, step);
        record(recorder, &command);
        return;
    }
    if (prng_below(prng, 6) == 0) {
        id_random_dated(prng, recorder->side.apply.fsm, &command);
        id_stamp_as(&command, node_id, 3, step, step);
        record(recorder, &command);
        return;
    }
    if (prng_below(prng, 4) == 0) {
        if (id_random_monotonic(prng, recorder->side.apply.fsm, &command)) {
            id_stamp_as(&command, node_id, 3, step, step);
        }
        record(recorder, &command);
        return;
    }
    if (prng_below(prng, 12) == 0) {
        id_random_layout(prng, &command);
        id_stamp_as(&command, node_id, 3, step, step);
    } else if (prng_below(prng, 6) == 0) {
        id_random_by_client(prng, fsm_state(recorder->side.apply.fsm)->facts.log_ms, &command);
        id_stamp_as(&command, node_id, 3, step, step);
    } else if (prng_below(prng, 8) > 0) {
        id_random_command(prng, step, &command);
    } else {
        random_member_command(recorder, node_id, &command);
        id_stamp_as(&command, node_id, 3, step, step);
    }
    record(recorder, &command);
}

static void record_rows(struct recorder *recorder)
{
    const struct id_apply *apply = &recorder->side.apply;

    fprintf(recorder->file, "rows %" PRIu64 "\n", apply->index);
    for (size_t i = 0; i < apply->row_count; i++) {
        fprintf(recorder->file, "row ");
        put_hex(recorder->file, &apply->rows[i].key);
        fprintf(recorder->file, " ");
        put_hex(recorder->file, &apply->rows[i].value);
        fprintf(recorder->file, "\n");
    }
}

static void record_sum(struct recorder *recorder)
{
    fprintf(recorder->file, "sum %" PRIu64 " %016" PRIx64 " %016" PRIx64 "\n",
            recorder->side.apply.index, state_digest(fsm_state(recorder->side.apply.fsm)),
            recorder->side.results);
}

/* From the first level to this one. */
static void record_raises(struct recorder *recorder, uint16_t level)
{
    for (uint16_t to = LEVEL_FIRST; to <= level; to++) {
        struct buf command = BUF_INIT;

        cluster_command_put(&command, COMMAND_LEVEL,
                            &(struct level_command){.to = to, .wall_ms = to});
        id_stamp_as(&command, 1, 1, to, to);
        record(recorder, &command);
    }
    ASSERT(state_level(fsm_state(recorder->side.apply.fsm)) == level);
}

int recording_write(const char *path, uint16_t level)
{
    struct recorder *recorder = calloc(1, sizeof *recorder);
    int err = 0;

    ASSERT(recorder != NULL);
    recorder->file = fopen(path, "wxe"); /* what was recorded once stays */
    if (recorder->file == NULL) {
        err = errno;
        free(recorder);
        return err;
    }
    id_apply_init(&recorder->side.apply);
    prng_seed(&recorder->prng, SEED + 13U * level);
    memcpy(recorder->members, "-", 2);
    fprintf(recorder->file, "level %u\n", level);
    if (level >= BIRTH_LEVEL_MIN) {
        record_birth(recorder, level);
    }
    record_raises(recorder, level);
    while (recorder->side.apply.index < ENTRIES) {
        record_step(recorder);
        if (recorder->side.apply.index % SUM_EVERY == 0) {
            record_sum(recorder);
        }
        if (recorder->side.apply.index == ROWS_AT) {
            record_rows(recorder);
        }
    }
    if (fclose(recorder->file) != 0) {
        err = errno;
    }
    id_apply_free(&recorder->side.apply);
    free(recorder);
    return err;
}
