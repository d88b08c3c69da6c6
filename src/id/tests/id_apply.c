/*
 * id_apply.c - see id_apply.h. Thread: one.
 */
#include "src/id/tests/id_apply.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/id/fsm/fsm_tables.h"
#include "src/tests/unit/hex.h"

static int apply_status(struct id_apply *apply, struct buf *command);
static struct worker_result apply_worker(struct id_apply *apply, struct buf *command);

struct state_row kept_row(const struct kept_row *kept)
{
    return (struct state_row){kept->key.data, (uint32_t)kept->key.len, kept->value.data,
                              (uint32_t)kept->value.len};
}

static void keep_row(struct id_apply *apply, const struct state_row *change)
{
    struct kept_row *row = apply->rows;

    while (row < apply->rows + apply->row_count &&
           (row->key.len != change->key_len ||
            memcmp(row->key.data, change->key, row->key.len) != 0)) {
        row++;
    }
    if (change->value_len == 0) { /* deleted, so it must be there */
        ASSERT(row < apply->rows + apply->row_count);
        buf_free(&row->key);
        buf_free(&row->value);
        apply->row_count--;
        memmove(row, row + 1, (size_t)(apply->rows + apply->row_count - row) * sizeof *row);
        apply->rows[apply->row_count] = (struct kept_row){BUF_INIT, BUF_INIT};
        return;
    }
    if (row == apply->rows + apply->row_count) {
        ASSERT(apply->row_count < ID_APPLY_ROWS);
        apply->row_count++;
    }
    row->key.len = row->value.len = 0;
    buf_put(&row->key, change->key, change->key_len);
    buf_put(&row->value, change->value, change->value_len);
}

void id_apply_init(struct id_apply *apply)
{
    *apply = (struct id_apply){.fsm = fsm_of(state_new(&fsm_machine)),
                               .term = 1,
                               .wall_ms = 1000,
                               .node_id = 1,
                               .key_limit = 1000};
}

void id_apply_free(struct id_apply *apply)
{
    for (size_t i = 0; i < apply->row_count; i++) {
        buf_free(&apply->rows[i].key);
        buf_free(&apply->rows[i].value);
    }
    buf_free(&apply->result);
    buf_free(&apply->last);
    state_free(fsm_state(apply->fsm));
}

struct id_apply *id_apply_new(void **state)
{
    struct id_apply *apply = calloc(1, sizeof *apply);

    ASSERT(apply != NULL);
    id_apply_init(apply);
    *state = apply;
    return apply;
}

int id_apply_begin(void **state)
{
    (void)id_apply_new(state);
    return 0;
}

int id_apply_end(void **state)
{
    struct id_apply *apply = *state;
    struct fsm *fsm = apply->fsm;
    struct fsm *loaded = fsm_of(state_new(&fsm_machine));
    struct fsm_usage usages[2];

    id_apply_load(apply, loaded);
    ASSERT(state_digest(fsm_state(loaded)) == state_digest(fsm_state(fsm)));
    ASSERT(loaded->recalls.count == fsm->recalls.count);
    ASSERT(loaded->keys.table.count == fsm->keys.table.count);
    ASSERT(loaded->tags.owners.table.count == fsm->tags.owners.table.count);
    ASSERT(loaded->tags.owners.bytes == fsm->tags.owners.bytes);
    fsm_usage(fsm, &usages[0]);
    fsm_usage(loaded, &usages[1]);
    ASSERT(memcmp(&usages[0], &usages[1], sizeof usages[0]) == 0);
    state_free(fsm_state(loaded));
    return id_apply_drop(state);
}

int id_apply_drop(void **state)
{
    id_apply_free(*state);
    free(*state);
    return 0;
}

/* Of a command, so that it can be given again. */
static bool is_answer(const uint8_t *key)
{
    return key[0] == 'a';
}

/* The stamp that the test has set for this command, or the next of the node. */
static void stamp(struct id_apply *apply, uint64_t node_id, struct buf *command)
{
    if (apply->next.node_id != 0) {
        session_stamp_put(command, &apply->next);
        apply->next.node_id = 0;
    } else {
        id_stamp(&apply->stamps, node_id, command);
    }
}

/* What a leader appends for itself has no stamp. (A NOOP and a birth are of tests that say so.) */
static bool is_leaders(const struct buf *command)
{
    int type = command_type(command->data, command->len);

    return type == COMMAND_WINDOW || type == COMMAND_KEYED;
}

/* Whether an entry was foreseen, not at all, in another place, or in another state, must not be
 * seen in what it does. */
static void foresee(struct id_apply *apply, const struct buf *command)
{
    uint64_t digest = state_digest(fsm_state(apply->fsm));

    if (apply->index % 4 != 0) {
        state_foresee(fsm_state(apply->fsm), apply->index + apply->index % 4, command->data,
                      command->len);
    }
    ASSERT(state_digest(fsm_state(apply->fsm)) == digest);
}

int id_apply_bytes(struct id_apply *apply, struct buf *command)
{
    struct row_changes changes = {0};
    int err;

    if (id_stamp_is_empty(command) && !is_leaders(command)) {
        stamp(apply, apply->node_id, command);
    }
    apply->last.len = 0;
    buf_put(&apply->last, command->data, command->len);
    apply->result.len = 0;
    foresee(apply, command);
    err = state_apply(fsm_state(apply->fsm), ++apply->index, apply->term, command->data,
                      command->len, &apply->result, &changes);
    apply->changed = 0;
    for (size_t i = 0; i < changes.count; i++) {
        apply->changed += !is_answer(changes.items[i].key);
    }
    id_apply_keep(apply, &changes);
    return err;
}

int id_apply_as(struct id_apply *apply, uint64_t node_id, struct buf *command)
{
    stamp(apply, node_id, command);
    return id_apply_bytes(apply, command);
}

struct buf id_apply_copy(const struct id_apply *apply)
{
    struct buf copy = BUF_INIT;

    buf_put(&copy, apply->last.data, apply->last.len);
    return copy;
}

void id_apply_again(struct id_apply *apply, struct buf *copy)
{
    int err = id_apply_bytes(apply, copy);

    ASSERT(err == 0);
}

int id_apply_refused(const struct id_apply *apply)
{
    struct session_refusal refusal;

    return session_refusal_decode(apply->result.data, apply->result.len, &refusal) ? refusal.status
                                                                                   : 0;
}

void id_apply_keep(struct id_apply *apply, struct row_changes *changes)
{
    for (size_t i = 0; i < changes->count; i++) {
        keep_row(apply, &changes->items[i]);
    }
    row_changes_release(changes);
}

struct grant_result id_apply_grant(struct id_apply *apply, const char *name, uint32_t size)
{
    return id_apply_grant_to(apply, apply->node_id, name, size);
}

struct grant_result id_apply_grant_to(struct id_apply *apply, uint64_t node_id, const char *name,
                                      uint32_t size)
{
    const struct grant_item item = {name, (uint16_t)strlen(name), size};
    struct buf command = BUF_INIT;
    struct grant_result result;
    size_t count = 0;
    int err;

    command_put(&command, COMMAND_GRANT, &(struct command_list){.wall_ms = apply->wall_ms});
    command_item_put(&command, COMMAND_GRANT, &item);
    command_items_end(&command);
    err = id_apply_as(apply, node_id, &command);
    ASSERT(err == 0);
    err = results_decode(RESULT_GRANTS, apply->result.data, apply->result.len, &result, 1, &count);
    ASSERT(err == 0 && count == 1);
    buf_free(&command);
    return result;
}

struct put_result id_apply_puts(struct id_apply *apply, const struct tag_put *puts, size_t count,
                                bool force)
{
    struct command_list head = {.force = force, .wall_ms = apply->wall_ms};
    struct buf command = BUF_INIT;
    struct put_result result;
    int err;

    for (size_t i = 0; i < count; i++) {
        head.stepped |= puts[i].step_fields != 0;
    }
    command_put(&command, command_type_for(COMMAND_TAGS_PUT, &head), &head);
    for (size_t i = 0; i < count; i++) {
        struct tag_put put = puts[i];

        if (put.name_len == 0) {
            put.name_len = (uint16_t)strlen(put.name);
        }
        if (put.description != NULL && put.description_len == 0) {
            put.description_len = (uint16_t)strlen(put.description);
        }
        command_item_put(&command, command_type_for(COMMAND_TAGS_PUT, &head), &put);
    }
    command_items_end(&command);
    err = id_apply_bytes(apply, &command);
    ASSERT(err == 0);
    err = put_result_decode(apply->result.data, apply->result.len, &result);
    ASSERT(err == 0);
    buf_free(&command);
    return result;
}

struct put_result id_apply_put(struct id_apply *apply, struct tag_put put, bool force)
{
    struct put_result result = id_apply_puts(apply, &put, 1, force);

    return result;
}

int id_apply_delete(struct id_apply *apply, const char *name)
{
    struct buf command = BUF_INIT;

    command_put(&command, COMMAND_TAG_DELETE,
                &(struct delete_command){
                    .name = name, .name_len = (uint16_t)(strlen(name)), .wall_ms = apply->wall_ms});
    return apply_status(apply, &command);
}

void id_apply_mode(struct id_apply *apply, const char *name, enum tag_mode mode)
{
    struct put_result result = id_apply_put(
        apply, (struct tag_put){.name = name, .fields = TAG_FIELD_MODE, .mode = (uint8_t)mode},
        false);

    ASSERT(result.status == 0);
}

void id_apply_strict(struct id_apply *apply, struct command_list batch,
                     const struct strict_item *items, size_t count,
                     struct strict_result *ret_results)
{
    struct buf command = BUF_INIT;
    struct session_refusal refusal;
    size_t got = 0;
    int err;

    batch.wall_ms = apply->wall_ms;
    command_put(&command, COMMAND_STRICT, &batch);
    for (size_t i = 0; i < count; i++) {
        struct strict_item item = items[i];

        if (item.name_len == 0) {
            item.name_len = (uint16_t)strlen(item.name);
        }
        if (item.key != NULL && item.key_len == 0) {
            item.key_len = (uint16_t)strlen(item.key);
        }
        command_item_put(&command, COMMAND_STRICT, &item);
    }
    command_items_end(&command);
    err = id_apply_bytes(apply, &command);
    ASSERT(err == 0);
    buf_free(&command);
    if (session_refusal_decode(apply->result.data, apply->result.len, &refusal)) {
        for (size_t i = 0; i < count; i++) {
            ret_results[i] =
                (struct strict_result){.status = refusal.status, .detail = refusal.incarnation};
        }
        return;
    }
    err = results_decode(RESULT_STRICT, apply->result.data, apply->result.len, ret_results, count,
                         &got);
    ASSERT(err == 0 && got == count);
}

struct strict_result id_apply_take(struct id_apply *apply, const char *name, uint32_t count)
{
    return id_apply_take_by(apply, name, NULL, count);
}

struct strict_result id_apply_take_by(struct id_apply *apply, const char *name, const char *key,
                                      uint32_t count)
{
    const struct strict_item item = {.name = name, .key = key, .count = count};
    const struct command_list batch = {.key_limit = apply->key_limit};
    struct strict_result result;

    id_apply_strict(apply, batch, &item, 1, &result);
    return result;
}

void id_apply_raise(struct id_apply *apply, uint16_t level)
{
    for (uint16_t to = (uint16_t)(state_level(fsm_state(apply->fsm)) + 1); to <= level; to++) {
        struct buf command = BUF_INIT;
        int status;

        cluster_command_put(&command, COMMAND_LEVEL,
                            &(struct level_command){.to = to, .wall_ms = 1});
        status = apply_status(apply, &command);
        ASSERT(status == 0);
    }
    ASSERT(state_level(fsm_state(apply->fsm)) == level);
}

struct grant_result id_apply_window(struct id_apply *apply, const char *name, uint32_t size)
{
    const struct grant_item item = {name, (uint16_t)strlen(name), size};
    struct buf command = BUF_INIT;
    struct grant_result result;
    size_t count = 0;
    int err;

    command_put(&command, COMMAND_WINDOW, &(struct command_list){.wall_ms = apply->wall_ms});
    command_item_put(&command, COMMAND_WINDOW, &item);
    command_items_end(&command);
    err = id_apply_bytes(apply, &command);
    ASSERT(err == 0);
    err = results_decode(RESULT_GRANTS, apply->result.data, apply->result.len, &result, 1, &count);
    ASSERT(err == 0 && count == 1);
    buf_free(&command);
    return result;
}

struct strict_result id_apply_keyed(struct id_apply *apply, uint64_t term, struct keyed_item keyed)
{
    const struct command_list head = {.wall_ms = apply->wall_ms,
                                      .key_limit = apply->key_limit,
                                      .key_share = apply->key_limit,
                                      .term = term};
    struct buf command = BUF_INIT;
    struct strict_result result;
    size_t count = 0;
    int err;

    keyed.item.name_len = (uint16_t)strlen(keyed.item.name);
    keyed.item.key_len = (uint16_t)strlen(keyed.item.key);
    command_put(&command, COMMAND_KEYED, &head);
    command_item_put(&command, COMMAND_KEYED, &keyed);
    command_items_end(&command);
    err = id_apply_bytes(apply, &command);
    ASSERT(err == 0);
    err = results_decode(RESULT_STRICT, apply->result.data, apply->result.len, &result, 1, &count);
    ASSERT(err == 0 && count == 1);
    buf_free(&command);
    return result;
}

int id_apply_give_back(struct id_apply *apply, struct give_back_item item)
{
    struct buf command = BUF_INIT;
    int32_t status = 1;
    size_t count = 0;
    int err;

    if (item.name_len == 0) {
        item.name_len = (uint16_t)strlen(item.name);
    }
    command_put(&command, COMMAND_GIVE_BACK, &(struct command_list){.wall_ms = apply->wall_ms});
    command_item_put(&command, COMMAND_GIVE_BACK, &item);
    command_items_end(&command);
    err = id_apply_bytes(apply, &command);
    ASSERT(err == 0);
    err =
        results_decode(RESULT_STATUSES, apply->result.data, apply->result.len, &status, 1, &count);
    ASSERT(err == 0 && count == 1);
    buf_free(&command);
    return status;
}

void id_apply_recalled(struct id_apply *apply, uint64_t node_id, const char *name,
                       uint32_t generation)
{
    struct buf command = BUF_INIT;
    int status;

    command_put(&command, COMMAND_RECALLED, NULL);
    command_item_put(&command, COMMAND_RECALLED,
                     &(struct recalled_item){name, (uint16_t)strlen(name), generation});
    command_items_end(&command);
    stamp(apply, node_id, &command);
    status = apply_status(apply, &command);
    ASSERT(status == 0);
}

int id_apply_layout(struct id_apply *apply, const struct snowflake_layout *layout)
{
    struct buf command = BUF_INIT;

    command_put(&command, COMMAND_LAYOUT, layout);
    return apply_status(apply, &command);
}

int id_apply_layout_put(struct id_apply *apply, const char *name, const struct named_layout *layout)
{
    struct layout_row row = {
        .name_len = (uint16_t)strlen(name), .layout = *layout, .created_ms = apply->wall_ms};
    struct buf command = BUF_INIT;

    ASSERT(row.name_len < sizeof row.name);
    memcpy(row.name, name, row.name_len);
    command_put(&command, COMMAND_LAYOUT_PUT, &row);
    return apply_status(apply, &command);
}

int id_apply_layout_delete(struct id_apply *apply, const char *name)
{
    struct buf command = BUF_INIT;

    command_put(&command, COMMAND_LAYOUT_DELETE,
                &(struct delete_command){
                    .name = name, .name_len = (uint16_t)strlen(name), .wall_ms = apply->wall_ms});
    return apply_status(apply, &command);
}

int id_apply_pools(struct id_apply *apply, const char *pools)
{
    struct buf command = BUF_INIT;

    command_put(&command, COMMAND_WORKER_POOLS,
                &(struct worker_pools_put){pools, (uint16_t)strlen(pools)});
    return apply_status(apply, &command);
}

int id_apply_clock(struct id_apply *apply, uint64_t cluster_ms)
{
    struct buf command = BUF_INIT;

    cluster_command_put(&command, COMMAND_CLOCK, &(struct clock_command){.cluster_ms = cluster_ms});
    return apply_status(apply, &command);
}

struct worker_result id_apply_acquire(struct id_apply *apply, struct worker_acquire acquire)
{
    struct buf command = BUF_INIT;

    if (acquire.name_len == 0) {
        acquire.name_len = (uint16_t)strlen(acquire.name);
    }
    if (acquire.address != NULL && acquire.address_len == 0) {
        acquire.address_len = (uint16_t)strlen(acquire.address);
    }
    if (acquire.kind == WORKER_CLIENT) {
        acquire.client = acquire.client != 0 ? acquire.client : ID_APPLY_OWNER;
        acquire.percent = acquire.percent != 0 ? acquire.percent : 100;
    }
    if (acquire.zone != NULL && acquire.zone_len == 0) {
        acquire.zone_len = (uint16_t)strlen(acquire.zone);
    }
    command_put(&command, command_type_for(COMMAND_WORKER_ACQUIRE, &acquire), &acquire);
    return apply_worker(apply, &command);
}

static uint64_t owner_of(const struct id_apply *apply, uint32_t worker_id)
{
    const struct worker_row *row = fsm_worker(apply->fsm, worker_id);

    return row != NULL && row->client != 0 ? row->client : ID_APPLY_OWNER;
}

struct worker_result id_apply_renew(struct id_apply *apply, struct worker_renew renew)
{
    struct buf command = BUF_INIT;

    if (renew.kind == 0) {
        const struct worker_row *row = fsm_worker(apply->fsm, renew.worker_id);

        renew.kind = row != NULL ? row->kind : WORKER_CLIENT;
    }
    if (renew.kind == WORKER_CLIENT && renew.client == 0) {
        renew.client = owner_of(apply, renew.worker_id);
    }
    command_put(&command, command_type_for(COMMAND_WORKER_RENEW, &renew), &renew);
    return apply_worker(apply, &command);
}

struct worker_result id_apply_release(struct id_apply *apply, struct worker_release release)
{
    struct buf command = BUF_INIT;

    if (release.kind == WORKER_CLIENT && release.client == 0) {
        release.client = owner_of(apply, release.worker_id);
    }
    command_put(&command, command_type_for(COMMAND_WORKER_RELEASE, &release), &release);
    return apply_worker(apply, &command);
}

bool id_apply_is_named(const struct worker_row *row, const char *name)
{
    return tag_name_compare(row->name, row->name_len, name, strlen(name)) == 0;
}

bool id_apply_same_worker(const struct worker_row *a, const struct worker_row *b)
{
    struct buf left = BUF_INIT;
    struct buf right = BUF_INIT;
    bool same;

    worker_row_put(&left, a);
    worker_row_put(&right, b);
    same = a->id == b->id && left.len == right.len && memcmp(left.data, right.data, left.len) == 0;
    buf_free(&left);
    buf_free(&right);
    return same;
}

const struct tag_row *id_apply_row(struct id_apply *apply, const char *name)
{
    const struct tag_row *row = fsm_tag(apply->fsm, name, strlen(name));

    ASSERT(row != NULL);
    return row;
}

const struct kept_row *id_apply_kept(const struct id_apply *apply, size_t at)
{
    for (size_t i = 0; i < apply->row_count; i++) {
        if (!is_answer(apply->rows[i].key.data) && at-- == 0) {
            return &apply->rows[i];
        }
    }
    return NULL;
}

static void load(const struct id_apply *apply, bool answers, struct fsm *fsm)
{
    int err;

    state_load_begin(fsm_state(fsm));
    for (size_t i = 0; i < apply->row_count; i++) {
        const struct state_row row = kept_row(&apply->rows[i]);

        if (answers || !is_answer(row.key)) {
            err = state_load_row(fsm_state(fsm), &row);
            ASSERT(err == 0);
        }
    }
    err = state_load_end(fsm_state(fsm), apply->index);
    ASSERT(err == 0);
}

void id_apply_load(const struct id_apply *apply, struct fsm *fsm)
{
    load(apply, true, fsm);
}

uint64_t id_apply_digest(const struct id_apply *apply)
{
    struct fsm *fsm = fsm_of(state_new(&fsm_machine));
    uint64_t digest;

    load(apply, false, fsm);
    digest = state_digest(fsm_state(fsm));
    state_free(fsm_state(fsm));
    return digest;
}

/* Apply a command that is answered a status, and free it. */
static int apply_status(struct id_apply *apply, struct buf *command)
{
    int32_t status;
    int err = id_apply_bytes(apply, command);

    ASSERT(err == 0);
    err = status_result_decode(apply->result.data, apply->result.len, &status);
    ASSERT(err == 0);
    buf_free(command);
    return status;
}

/* Apply a command on worker ids, and free it. */
static struct worker_result apply_worker(struct id_apply *apply, struct buf *command)
{
    struct worker_result result;
    int err = id_apply_bytes(apply, command);

    ASSERT(err == 0);
    err = worker_result_decode(apply->result.data, apply->result.len, &result);
    ASSERT(err == 0);
    buf_free(command);
    return result;
}

int id_load_hex(struct fsm *fsm, const char *key_hex, const char *value_hex)
{
    struct kept_row kept = {BUF_INIT, BUF_INIT};
    struct state_row row;
    int err;

    hex_put(&kept.key, key_hex);
    hex_put(&kept.value, value_hex);
    row = kept_row(&kept);
    err = state_load_row(fsm_state(fsm), &row);
    buf_free(&kept.key);
    buf_free(&kept.value);
    return err;
}
