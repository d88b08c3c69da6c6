/*
 * recovery_fixture.c - see recovery_fixture.h.
 */
#include "src/node/recovery/tests/recovery_fixture.h"

#include <stdio.h>
#include <string.h>

#include "src/base/assert.h"

static void apply(struct fixture *fixture, struct buf *command)
{
    struct row_changes changes = {0};
    struct buf result = BUF_INIT;

    ASSERT(state_apply(fixture->state, ++fixture->index, 1, command->data, command->len, &result,
                       &changes) == 0);
    for (size_t i = 0; i < changes.count; i++) {
        const struct state_row *row = &changes.items[i];

        saved_add(&fixture->saved, row->key, row->key_len, row->value, row->value_len);
    }
    row_changes_release(&changes);
    buf_free(&result);
    buf_free(command);
}

void fixture_apply(struct fixture *fixture, struct buf *command)
{
    const struct session_stamp stamp = {FIXTURE_NODE, 1, ++fixture->seq, fixture->seq};

    session_stamp_put(command, &stamp);
    apply(fixture, command);
}

void fixture_born(struct fixture *fixture, const struct birth *birth)
{
    struct buf command = BUF_INIT;

    cluster_command_put(&command, COMMAND_BIRTH, birth);
    apply(fixture, &command);
}

void fixture_raise(struct fixture *fixture)
{
    for (uint16_t to = LEVEL_FIRST + 1; to <= fixture->state->facts.speaks.max; to++) {
        struct buf command = BUF_INIT;

        cluster_command_put(&command, COMMAND_LEVEL,
                            &(struct level_command){.to = to, .wall_ms = 1});
        fixture_apply(fixture, &command);
    }
}

void fixture_begin(struct fixture *fixture)
{
    const struct snowflake_layout layout = {SNOWFLAKE_EPOCH_MS, 41, 4, 12};
    const struct clock_command time = {FIXTURE_LOG_MS};
    struct buf command = BUF_INIT;

    *fixture = (struct fixture){.state = state_new(&fsm_machine)};
    fixture->fsm = fsm_of(fixture->state);
    (void)snprintf(fixture->saved.cluster_id, sizeof fixture->saved.cluster_id, "c-1");
    fixture->saved.node_id = FIXTURE_NODE;
    fixture->saved.term = 2;
    command_put(&command, COMMAND_LAYOUT, &layout);
    fixture_apply(fixture, &command);
    cluster_command_put(&command, COMMAND_CLOCK, &time);
    fixture_apply(fixture, &command);
}

void fixture_end(struct fixture *fixture)
{
    saved_free(&fixture->saved);
    state_free(fixture->state);
}

void fixture_put(struct fixture *fixture, const char *tag, uint64_t max_id, enum tag_mode mode)
{
    const struct command_list list = {.wall_ms = FIXTURE_LOG_MS, .force = true};
    const struct tag_put put = {.name = tag,
                                .name_len = (uint16_t)strlen(tag),
                                .fields = TAG_FIELD_MAX_ID | TAG_FIELD_MODE,
                                .mode = (uint8_t)mode,
                                .max_id = max_id};
    struct buf command = BUF_INIT;

    command_put(&command, COMMAND_TAGS_PUT, &list);
    command_item_put(&command, COMMAND_TAGS_PUT, &put);
    command_items_end(&command);
    fixture_apply(fixture, &command);
}

void fixture_put_shaped(struct fixture *fixture, const char *tag, const char *shape,
                        uint64_t max_id, enum tag_mode mode)
{
    const struct command_list list = {.wall_ms = FIXTURE_LOG_MS, .force = true};
    char bytes[TAG_SHAPE_BYTES_MAX];
    struct tag_put put = {.name = tag,
                          .name_len = (uint16_t)strlen(tag),
                          .fields = TAG_FIELD_MAX_ID | TAG_FIELD_MODE | TAG_FIELD_SHAPE,
                          .mode = (uint8_t)mode,
                          .max_id = max_id,
                          .shape = bytes,
                          .shape_len = (uint16_t)strlen(shape)};
    struct buf command = BUF_INIT;

    memcpy(bytes, shape, put.shape_len);
    if (strstr(shape, "{secret") != NULL) {
        memset(bytes + put.shape_len, 0, 1 + SHAPE_KEY_BYTES);
        memcpy(bytes + put.shape_len + 1, tag,
               put.name_len < SHAPE_KEY_BYTES ? put.name_len : SHAPE_KEY_BYTES);
        put.shape_len = (uint16_t)(put.shape_len + 1 + SHAPE_KEY_BYTES);
    }
    command_put(&command, COMMAND_TAGS_PUT, &list);
    command_item_put(&command, COMMAND_TAGS_PUT, &put);
    command_items_end(&command);
    fixture_apply(fixture, &command);
}

void fixture_delete(struct fixture *fixture, const char *tag)
{
    const struct delete_command deletion = {tag, (uint16_t)strlen(tag), FIXTURE_LOG_MS};
    struct buf command = BUF_INIT;

    command_put(&command, COMMAND_TAG_DELETE, &deletion);
    fixture_apply(fixture, &command);
}

void fixture_grant(struct fixture *fixture, const char *tag, uint32_t size)
{
    const struct command_list list = {.wall_ms = FIXTURE_LOG_MS, .force = true};
    const struct grant_item item = {tag, (uint16_t)strlen(tag), size};
    struct buf command = BUF_INIT;

    command_put(&command, COMMAND_GRANT, &list);
    command_item_put(&command, COMMAND_GRANT, &item);
    command_items_end(&command);
    fixture_apply(fixture, &command);
}

void fixture_strict(struct fixture *fixture, const char *tag, uint32_t count, const char *key)
{
    const struct command_list list = {.wall_ms = FIXTURE_LOG_MS, .key_limit = 100};
    const struct strict_item item = {.name = tag,
                                     .name_len = (uint16_t)strlen(tag),
                                     .key = key,
                                     .key_len = (uint16_t)strlen(key),
                                     .count = count};
    struct buf command = BUF_INIT;

    command_put(&command, COMMAND_STRICT, &list);
    command_item_put(&command, COMMAND_STRICT, &item);
    command_items_end(&command);
    fixture_apply(fixture, &command);
}

void fixture_acquire(struct fixture *fixture, const char *name, uint64_t window_ms)
{
    const struct worker_acquire acquire = {.kind = WORKER_CLIENT,
                                           .worker_id = WORKER_ID_ANY,
                                           .window_ms = window_ms,
                                           .wall_ms = FIXTURE_LOG_MS,
                                           .name = name,
                                           .name_len = (uint16_t)strlen(name),
                                           .address = "",
                                           .client = 9,
                                           .percent = 100};
    struct buf command = BUF_INIT;

    command_put(&command, COMMAND_WORKER_ACQUIRE, &acquire);
    fixture_apply(fixture, &command);
}

struct saved *fixture_saved(struct fixture *fixture)
{
    saved_sort(&fixture->saved);
    fixture->saved.index = fixture->index;
    return &fixture->saved;
}
