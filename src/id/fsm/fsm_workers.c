/*
 * fsm_workers.c - the table of worker ids, and what acquire, renew and release do to it
 * (fsm_state.h; the rules are in worker.h).
 *
 * The happy path of an acquire: check what was asked, find the row that the name had, choose the
 * worker id, and grant the window above all windows that this id ever had. Of a renewal: the epoch
 * and the previous bound must be the row's, then the bound moves up. Of a release: the row becomes
 * free, and what its holder says it did not use is given back. Neither touches a row of the other
 * kind: a client's command, whatever it says, does nothing to a node's row.
 *
 * A name has one row that is held at most: one that asks for another worker id than the one it
 * holds is refused, and an expired one that it leaves behind becomes released, so that its old
 * epoch is fenced. Released rows keep their names; of several the one changed last counts.
 *
 * Failure modes go into the result, and then nothing was changed.
 *
 * Thread: one owner. Deterministic: only the state and the command decide.
 */
#include "src/id/fsm/fsm_state.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"

#define WORKER_KEY_BYTES 3 /* 'w' and the id, big-endian */

static void apply_acquire(struct fsm *fsm, const struct worker_acquire *acquire,
                          struct worker_result *result, struct fsm_changes *changes);
static void apply_renew(struct fsm *fsm, const struct worker_renew *renew,
                        struct worker_result *result, struct fsm_changes *changes);
static void apply_release(struct fsm *fsm, const struct worker_release *release,
                          struct worker_result *result, struct fsm_changes *changes);
static int acquire_check(const struct fsm *fsm, const struct worker_acquire *acquire);
static int acquire_choose(const struct fsm *fsm, const struct worker_acquire *acquire,
                          const struct worker_row *own, uint16_t *ret_id);
static int choose_given(const struct fsm *fsm, uint16_t id, const struct worker_row *own,
                        uint16_t *ret_id);
static int choose_any(const struct fsm *fsm, const struct worker_row *own, uint16_t *ret_id);
static int acquire_window(const struct fsm *fsm, const struct worker_acquire *acquire,
                          struct worker_row *row);
static bool is_free(const struct fsm *fsm, const struct worker_row *row);
static const struct worker_row *find_name(const struct fsm *fsm, const char *name, size_t len);
static struct worker_row *find_row(const struct fsm *fsm, uint16_t id);
static void put_row(struct fsm *fsm, const struct worker_row *row, struct fsm_changes *changes);
static void row_bytes(struct fsm *fsm, const struct worker_row *row, size_t *ret_key_len);
static void tell(struct fsm *fsm, const struct worker_row *row);
static bool ahead(const struct fsm *fsm, uint64_t ms, uint64_t by_ms);
static bool window_fits(uint64_t window_ms);
static uint64_t later(uint64_t a, uint64_t b);

int fsm_apply_worker(struct fsm *fsm, int type, const void *command, size_t len, struct buf *result,
                     struct fsm_changes *changes)
{
    struct worker_result answer = {0};
    struct worker_acquire acquire;
    struct worker_renew renew;
    struct worker_release release;
    int err = ERR_BAD_MESSAGE;

    switch (type) {
    case COMMAND_WORKER_ACQUIRE:
        err = worker_acquire_command_read(command, len, &acquire);
        if (err == 0) {
            apply_acquire(fsm, &acquire, &answer, changes);
        }
        break;
    case COMMAND_WORKER_RENEW:
        err = worker_renew_command_read(command, len, &renew);
        if (err == 0) {
            apply_renew(fsm, &renew, &answer, changes);
        }
        break;
    case COMMAND_WORKER_RELEASE:
        err = worker_release_command_read(command, len, &release);
        if (err == 0) {
            apply_release(fsm, &release, &answer, changes);
        }
        break;
    default:
        UNREACHABLE("not a command on worker ids");
    }
    if (err == 0) {
        worker_result_encode(&answer, result);
    }
    return err;
}

const struct worker_row *fsm_worker(const struct fsm *fsm, uint16_t worker_id)
{
    return find_row(fsm, worker_id);
}

void fsm_query_workers(const struct fsm *fsm, const struct query *query, struct buf *result)
{
    const struct worker_row *rows[LIMIT_WORKER_IDS];
    size_t count = 0;

    for (unsigned id = query->first; id < LIMIT_WORKER_IDS && count < query->limit; id++) {
        const struct worker_row *row = find_row(fsm, (uint16_t)id);

        if (row != NULL) {
            rows[count++] = row;
        }
    }
    worker_rows_encode(rows, count, fsm->log_ms, result);
}

int fsm_load_worker(struct fsm *fsm, const uint8_t *key, size_t key_len, const void *value,
                    size_t value_len)
{
    struct worker_row row;
    uint16_t id;
    int err;

    if (key_len != WORKER_KEY_BYTES) {
        return ERR_CORRUPT;
    }
    id = (uint16_t)(key[1] << 8 | key[2]);
    err = worker_row_decode(id, value, value_len, &row);
    if (err != 0) {
        return err;
    }
    if (find_row(fsm, id) != NULL) {
        return ERR_EXISTS;
    }
    put_row(fsm, &row, NULL);
    return 0;
}

void fsm_tell_workers(struct fsm *fsm)
{
    for (unsigned id = 0; id < LIMIT_WORKER_IDS; id++) {
        const struct worker_row *row = find_row(fsm, (uint16_t)id);

        if (row != NULL) {
            tell(fsm, row);
        }
    }
}

void fsm_workers_clear(struct fsm *fsm)
{
    free(fsm->workers);
    fsm->workers = NULL;
}

static void apply_acquire(struct fsm *fsm, const struct worker_acquire *acquire,
                          struct worker_result *result, struct fsm_changes *changes)
{
    const struct worker_row *own = find_name(fsm, acquire->name, acquire->name_len);
    const struct worker_row *old;
    struct worker_row row = {0};

    result->status = acquire_check(fsm, acquire);
    if (result->status != 0) {
        return;
    }
    if (own != NULL && own->kind != acquire->kind) { /* a client must not take a node's name */
        result->status = ERR_CONFLICT;
        result->has_row = true;
        result->row = *own;
        return;
    }
    result->status = acquire_choose(fsm, acquire, own, &row.id);
    old = result->status == ERR_NO_WORKER_ID ? NULL : find_row(fsm, row.id);
    if (result->status == ERR_CONFLICT) {
        ASSERT(old != NULL);
        result->has_row = true;
        result->row = *old;
    }
    if (result->status != 0) {
        return;
    }
    if (old != NULL) {
        row = *old;
    }
    result->status = acquire_window(fsm, acquire, &row);
    if (result->status != 0) {
        return;
    }
    if (own != NULL && own->id != row.id && own->state == WORKER_HELD) {
        struct worker_row left = *own;

        left.state = WORKER_RELEASED;
        left.updated_ms = fsm->log_ms;
        put_row(fsm, &left, changes);
    }
    put_row(fsm, &row, changes);
    result->has_row = true;
    result->row = row;
}

static void apply_renew(struct fsm *fsm, const struct worker_renew *renew,
                        struct worker_result *result, struct fsm_changes *changes)
{
    const struct worker_row *old = find_row(fsm, renew->worker_id);
    struct worker_row row;

    if (old == NULL) {
        result->status = ERR_NOT_FOUND;
        return;
    }
    result->has_row = true;
    result->row = *old;
    if (old->state != WORKER_HELD || old->epoch != renew->epoch) {
        result->status = ERR_FENCED;
        return;
    }
    if (old->kind != renew->kind) { /* the holder alone knows what it stamped */
        result->status = ERR_CONFLICT;
        return;
    }
    if (!window_fits(renew->window_ms)) {
        result->status = ERR_INVALID;
        return;
    }
    if (renew->expected_until_ms != 0 && renew->expected_until_ms != old->granted_until_ms) {
        result->status = ERR_CONFLICT;
        return;
    }
    if (ahead(fsm, renew->wall_ms, LIMIT_WORKER_AHEAD_MS)) {
        result->status = ERR_CLOCK_SKEW;
        return;
    }
    row = *old;
    row.granted_until_ms = later(old->granted_until_ms, renew->wall_ms + renew->window_ms);
    row.last_timestamp_ms = later(old->last_timestamp_ms, renew->last_timestamp_ms);
    row.updated_ms = fsm->log_ms;
    if (row.last_timestamp_ms > row.granted_until_ms) {
        result->status = ERR_INVALID; /* such a time was never granted */
        return;
    }
    put_row(fsm, &row, changes);
    result->row = row;
}

static void apply_release(struct fsm *fsm, const struct worker_release *release,
                          struct worker_result *result, struct fsm_changes *changes)
{
    const struct worker_row *old = find_row(fsm, release->worker_id);
    struct worker_row row;

    if (old == NULL) {
        result->status = ERR_NOT_FOUND;
        return;
    }
    result->has_row = true;
    result->row = *old;
    if (old->epoch != release->epoch) {
        result->status = ERR_FENCED;
        return;
    }
    if (old->kind != release->kind) { /* a node that is cut off would go on stamping */
        result->status = ERR_CONFLICT;
        return;
    }
    if (old->state != WORKER_HELD) {
        return; /* repeated */
    }
    row = *old;
    row.state = WORKER_RELEASED;
    row.updated_ms = fsm->log_ms;
    if (release->last_timestamp_ms != 0) {
        uint64_t used_ms = later(old->last_timestamp_ms, release->last_timestamp_ms);

        /* What was reported before counts too: a release cannot take it back. */
        if (used_ms < old->granted_until_ms) {
            row.granted_until_ms = later(old->granted_from_ms, used_ms);
        }
        row.last_timestamp_ms = used_ms < row.granted_until_ms ? used_ms : row.granted_until_ms;
    }
    put_row(fsm, &row, changes);
    result->row = row;
}

/* What can be told without looking at the rows. */
static int acquire_check(const struct fsm *fsm, const struct worker_acquire *acquire)
{
    if ((acquire->kind != WORKER_NODE && acquire->kind != WORKER_CLIENT) ||
        !window_fits(acquire->window_ms) || acquire->name_len > LIMIT_WORKER_NAME_BYTES ||
        tag_name_check(acquire->name, acquire->name_len, NULL) != 0 ||
        acquire->address_len > LIMIT_ADDRESS_BYTES ||
        tag_text_check(acquire->address, acquire->address_len, false) != 0) {
        return ERR_INVALID;
    }
    if (!fsm->has_layout || fsm->log_ms == 0) {
        return ERR_EMPTY;
    }
    if (acquire->worker_id != WORKER_ID_ANY &&
        acquire->worker_id >= 1u << fsm->layout.worker_bits) {
        return ERR_INVALID;
    }
    if (ahead(fsm, acquire->wall_ms, LIMIT_WORKER_AHEAD_MS) ||
        ahead(fsm, acquire->floor_ms, LIMIT_WINDOW_MAX_MS)) {
        return ERR_CLOCK_SKEW;
    }
    return 0;
}

/* 0 with the worker id to grant, ERR_NO_WORKER_ID, or ERR_CONFLICT with the one in the way. */
static int acquire_choose(const struct fsm *fsm, const struct worker_acquire *acquire,
                          const struct worker_row *own, uint16_t *ret_id)
{
    return acquire->worker_id != WORKER_ID_ANY ? choose_given(fsm, acquire->worker_id, own, ret_id)
                                               : choose_any(fsm, own, ret_id);
}

static int choose_given(const struct fsm *fsm, uint16_t id, const struct worker_row *own,
                        uint16_t *ret_id)
{
    const struct worker_row *row = find_row(fsm, id);

    *ret_id = id;
    if (own != NULL && own->id == id) {
        return 0;
    }
    if (own != NULL && !is_free(fsm, own)) {
        *ret_id = own->id;
        return ERR_CONFLICT;
    }
    return row == NULL || is_free(fsm, row) ? 0 : ERR_CONFLICT;
}

static int choose_any(const struct fsm *fsm, const struct worker_row *own, uint16_t *ret_id)
{
    unsigned count = 1u << fsm->layout.worker_bits;
    const struct worker_row *best = NULL;

    ASSERT(count <= LIMIT_WORKER_IDS);
    if (own != NULL) {
        *ret_id = own->id;
        return 0;
    }
    for (unsigned id = 0; id < count; id++) {
        const struct worker_row *row = find_row(fsm, (uint16_t)id);

        if (row == NULL) {
            *ret_id = (uint16_t)id;
            return 0;
        }
        if (is_free(fsm, row) && (best == NULL || row->granted_until_ms < best->granted_until_ms)) {
            best = row;
        }
    }
    if (best == NULL) {
        return ERR_NO_WORKER_ID;
    }
    *ret_id = best->id;
    return 0;
}

/* Make the row the name's, with a window above all that the id had before; row is the old row, or
 * zeros but for its id. */
static int acquire_window(const struct fsm *fsm, const struct worker_acquire *acquire,
                          struct worker_row *row)
{
    uint64_t from_ms = later(row->granted_until_ms, acquire->floor_ms);
    uint64_t until_ms = later(acquire->wall_ms, from_ms) + acquire->window_ms;

    if (ahead(fsm, until_ms, LIMIT_WORKER_AHEAD_MS + LIMIT_WINDOW_MAX_MS)) {
        return ERR_CLOCK_SKEW;
    }
    ASSERT(from_ms >= row->granted_until_ms && until_ms > from_ms);
    row->state = WORKER_HELD;
    row->kind = acquire->kind;
    row->epoch++;
    row->granted_from_ms = from_ms;
    row->granted_until_ms = until_ms;
    row->updated_ms = fsm->log_ms;
    memset(row->name, 0, sizeof row->name);
    memset(row->address, 0, sizeof row->address);
    ASSERT(acquire->name_len <= sizeof row->name && acquire->address_len <= sizeof row->address);
    row->name_len = acquire->name_len;
    row->address_len = acquire->address_len;
    memcpy(row->name, acquire->name, acquire->name_len);
    if (acquire->address_len > 0) {
        memcpy(row->address, acquire->address, acquire->address_len);
    }
    return 0;
}

/* Its holder gave it back, or let its window pass. */
static bool is_free(const struct fsm *fsm, const struct worker_row *row)
{
    return row->state == WORKER_RELEASED || row->granted_until_ms < fsm->log_ms;
}

/* The row that is the name's: the one it holds, else the one that changed last; NULL if none. */
static const struct worker_row *find_name(const struct fsm *fsm, const char *name, size_t len)
{
    const struct worker_row *best = NULL;

    for (unsigned id = 0; id < LIMIT_WORKER_IDS; id++) {
        const struct worker_row *row = find_row(fsm, (uint16_t)id);

        if (row == NULL || tag_name_compare(row->name, row->name_len, name, len) != 0) {
            continue;
        }
        if (row->state == WORKER_HELD) {
            return row;
        }
        if (best == NULL || row->updated_ms > best->updated_ms) {
            best = row;
        }
    }
    return best;
}

static struct worker_row *find_row(const struct fsm *fsm, uint16_t id)
{
    if (fsm->workers == NULL || id >= LIMIT_WORKER_IDS || fsm->workers[id].state == 0) {
        return NULL;
    }
    return &fsm->workers[id];
}

/* Insert or replace, and keep digest, changes (NULL while loading) and listener in step. */
static void put_row(struct fsm *fsm, const struct worker_row *row, struct fsm_changes *changes)
{
    const struct worker_row *old = find_row(fsm, row->id);
    size_t key_len;

    ASSERT(row->id < LIMIT_WORKER_IDS);
    if (old != NULL) {
        row_bytes(fsm, old, &key_len);
        fsm_scratch_leave(fsm, key_len);
    }
    if (fsm->workers == NULL) {
        fsm->workers = calloc(LIMIT_WORKER_IDS, sizeof *fsm->workers);
        ASSERT(fsm->workers != NULL);
    }
    fsm->workers[row->id] = *row;
    row_bytes(fsm, row, &key_len);
    fsm_scratch_enter(fsm, key_len, changes);
    if (!fsm->loading) {
        tell(fsm, &fsm->workers[row->id]);
    }
}

static void row_bytes(struct fsm *fsm, const struct worker_row *row, size_t *ret_key_len)
{
    fsm->scratch.len = 0;
    buf_put_u8(&fsm->scratch, FSM_TABLE_WORKERS);
    buf_put_u8(&fsm->scratch, (uint8_t)(row->id >> 8)); /* storage keeps the order of ids */
    buf_put_u8(&fsm->scratch, (uint8_t)row->id);
    *ret_key_len = fsm->scratch.len;
    worker_row_encode(row, &fsm->scratch);
}

static void tell(struct fsm *fsm, const struct worker_row *row)
{
    if (fsm->listener != NULL && fsm->listener->worker_changed != NULL) {
        fsm->listener->worker_changed(fsm->listener, row);
    }
}

/* True if the time is further ahead of the log's than allowed. */
static bool ahead(const struct fsm *fsm, uint64_t ms, uint64_t by_ms)
{
    return ms > fsm->log_ms + by_ms;
}

static bool window_fits(uint64_t window_ms)
{
    return window_ms >= LIMIT_WINDOW_MIN_MS && window_ms <= LIMIT_WINDOW_MAX_MS;
}

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}
