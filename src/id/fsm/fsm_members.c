/*
 * fsm_members.c - the state machine's part of membership (member.h): the change under way, and the
 * node ids that were removed.
 *
 * The happy path: COMMAND_MEMBER_BEGIN makes the row of the change; configurations come through
 * fsm_configured(), which remembers ids that went, each as a row of its own, and takes the row of
 * the change away once its goal is reached.
 *
 * Failure modes: a change that does not fit the state is told so and changes nothing. A row that no
 * apply can have made is ERR_CORRUPT.
 *
 * Thread: one owner. Deterministic: only the state and the entry decide.
 */
#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/id/fsm/fsm_state.h"

#define REMOVED_ROW_VERSION 1
#define REMOVED_KEY_BYTES 9 /* the table's letter and the id, big-endian */

static void change_bytes(struct fsm *fsm, size_t *ret_key_len)
{
    fsm->scratch.len = 0;
    buf_put_u8(&fsm->scratch, FSM_TABLE_MEMBERS);
    *ret_key_len = fsm->scratch.len;
    member_change_row_encode(&fsm->members.change, &fsm->scratch);
}

/* Take the row of the change away, if there is one. */
static void change_forget(struct fsm *fsm, struct fsm_changes *changes)
{
    size_t key_len;

    if (fsm->members.change.kind == 0) {
        return;
    }
    change_bytes(fsm, &key_len);
    fsm_scratch_delete(fsm, key_len, changes);
    fsm->members.change = (struct member_change){0};
}

static void change_put(struct fsm *fsm, const struct member_change *change,
                       struct fsm_changes *changes)
{
    size_t key_len;

    if (fsm->members.change.kind != 0) {
        change_bytes(fsm, &key_len);
        fsm_scratch_leave(fsm, key_len);
    }
    fsm->members.change = *change;
    change_bytes(fsm, &key_len);
    fsm_scratch_enter(fsm, key_len, changes);
}

/* Where the id stands in the sorted array, or would. */
static size_t removed_place(const struct fsm *fsm, uint64_t node_id)
{
    size_t at = 0;

    while (at < fsm->members.removed_count && fsm->members.removed[at] < node_id) {
        at++;
    }
    return at;
}

static void removed_bytes(struct fsm *fsm, uint64_t node_id, size_t *ret_key_len)
{
    fsm->scratch.len = 0;
    buf_put_u8(&fsm->scratch, FSM_TABLE_REMOVED);
    for (int shift = 56; shift >= 0; shift -= 8) {
        buf_put_u8(&fsm->scratch, (uint8_t)(node_id >> shift));
    }
    *ret_key_len = fsm->scratch.len;
    buf_put_u8(&fsm->scratch, REMOVED_ROW_VERSION);
}

static void removed_put(struct fsm *fsm, uint64_t node_id, struct fsm_changes *changes)
{
    struct fsm_members *members = &fsm->members;
    size_t at = removed_place(fsm, node_id);
    size_t key_len;

    if (fsm_member_removed(fsm, node_id)) {
        return;
    }
    members->removed =
        realloc(members->removed, (members->removed_count + 1) * sizeof *members->removed);
    ASSERT(members->removed != NULL);
    memmove(&members->removed[at + 1], &members->removed[at],
            (members->removed_count - at) * sizeof *members->removed);
    members->removed[at] = node_id;
    members->removed_count++;
    removed_bytes(fsm, node_id, &key_len);
    fsm_scratch_enter(fsm, key_len, changes);
}

const struct member_change *fsm_member_change(const struct fsm *fsm)
{
    return fsm->members.change.kind != 0 ? &fsm->members.change : NULL;
}

bool fsm_member_removed(const struct fsm *fsm, uint64_t node_id)
{
    size_t at = removed_place(fsm, node_id);

    return at < fsm->members.removed_count && fsm->members.removed[at] == node_id;
}

/* --- configurations --- */

static const struct member *member_find(const struct member *members, size_t count,
                                        uint64_t node_id)
{
    for (size_t i = 0; i < count; i++) {
        if (members[i].node_id == node_id) {
            return &members[i];
        }
    }
    return NULL;
}

/* A node is no member any more, and never will be again: everything the state machine keeps for it
 * alone ends here. */
static void fsm_node_removed(struct fsm *fsm, uint64_t node_id, struct fsm_changes *changes)
{
    removed_put(fsm, node_id, changes);
    fsm_holder_removed(fsm, node_id, changes);
    fsm_session_removed(fsm, node_id, changes);
}

static bool change_is_complete(const struct member_change *change, const struct member *after,
                               size_t count)
{
    const struct member *member = member_find(after, count, change->node_id);

    return change->kind == MEMBER_ADD ? member != NULL && member->voter : member == NULL;
}

void fsm_configured(struct fsm *fsm, uint64_t index, const struct member *before,
                    size_t before_count, const struct member *after, size_t after_count,
                    struct fsm_changes *changes)
{
    const struct member_change *change = &fsm->members.change;

    ASSERT(!fsm->loading);
    for (size_t i = 0; i < before_count; i++) {
        if (member_find(after, after_count, before[i].node_id) == NULL) {
            fsm_node_removed(fsm, before[i].node_id, changes);
        }
    }
    if (change->kind != 0 && change_is_complete(change, after, after_count)) {
        change_forget(fsm, changes);
    }
    fsm_digest_remember(fsm, index);
}

/* --- commands --- */

static bool same_change(const struct member_change *a, const struct member_change *b)
{
    return a->kind == b->kind && a->node_id == b->node_id && strcmp(a->address, b->address) == 0;
}

static int begin(struct fsm *fsm, struct member_change *change, uint64_t index,
                 struct fsm_changes *changes)
{
    const struct member_change *now = &fsm->members.change;
    bool under_way = now->kind != 0 && !now->given_up;

    if (fsm_member_removed(fsm, change->node_id)) {
        return ERR_REMOVED;
    }
    if (under_way && same_change(now, change)) {
        return 0;
    }
    if (under_way && (change->kind != MEMBER_REMOVE || now->kind != MEMBER_ADD ||
                      now->node_id != change->node_id)) {
        return ERR_EXISTS;
    }
    change->index = index;
    change_put(fsm, change, changes);
    return 0;
}

static int end(struct fsm *fsm, uint64_t index, bool given_up, struct fsm_changes *changes)
{
    struct member_change change = fsm->members.change;

    if (change.kind == 0 || change.given_up || change.index != index) {
        return ERR_NOT_FOUND;
    }
    if (!given_up) {
        change_forget(fsm, changes);
        return 0;
    }
    change.given_up = true;
    change_put(fsm, &change, changes);
    return 0;
}

int fsm_apply_member(struct fsm *fsm, int type, uint64_t index, const void *command, size_t len,
                     struct buf *result, struct fsm_changes *changes)
{
    struct member_change change;
    uint64_t begun;
    bool given_up;
    int err;

    if (type == COMMAND_MEMBER_BEGIN) {
        err = member_begin_command_read(command, len, &change);
        if (err == 0) {
            status_result_encode(begin(fsm, &change, index, changes), result);
        }
    } else {
        err = member_end_command_read(command, len, &begun, &given_up);
        if (err == 0) {
            status_result_encode(end(fsm, begun, given_up, changes), result);
        }
    }
    return err;
}

/* --- loading --- */

int fsm_load_member_change(struct fsm *fsm, size_t key_len, const void *value, size_t value_len)
{
    struct member_change change;
    int err;

    if (key_len != 1) {
        return ERR_CORRUPT;
    }
    err = member_change_row_decode(value, value_len, &change);
    if (err != 0) {
        return err;
    }
    if (fsm->members.change.kind != 0) {
        return ERR_EXISTS;
    }
    change_put(fsm, &change, NULL);
    return 0;
}

int fsm_load_member_removed(struct fsm *fsm, const uint8_t *key, size_t key_len, const void *value,
                            size_t value_len)
{
    const uint8_t *bytes = value;
    uint64_t node_id = 0;

    if (key_len != REMOVED_KEY_BYTES || value_len != 1) {
        return ERR_CORRUPT;
    }
    if (bytes[0] != REMOVED_ROW_VERSION) {
        return ERR_BAD_VERSION;
    }
    for (size_t i = 1; i < REMOVED_KEY_BYTES; i++) {
        node_id = node_id << 8 | key[i];
    }
    if (node_id < 1 || node_id > LIMIT_NODE_ID) {
        return ERR_CORRUPT;
    }
    if (fsm_member_removed(fsm, node_id)) {
        return ERR_EXISTS;
    }
    removed_put(fsm, node_id, NULL);
    return 0;
}

void fsm_members_clear(struct fsm *fsm)
{
    free(fsm->members.removed);
    fsm->members = (struct fsm_members){0};
}
