/*
 * fsm_workers.c - see fsm_tables.h: worker ids.
 */
#include "src/id/fsm/fsm_tables.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/base/hash.h"
#include "src/base/prng.h"
#include "src/base/utf8.h"

/* --- the list --- */

/* The id's place in the list, or where it would be. */
static size_t list_place(const struct fsm_workers *workers, uint32_t id)
{
    size_t low = 0;
    size_t high = workers->count;

    if (id < workers->count && workers->list[id].row->id == id) {
        return id; /* none below it is missing */
    }
    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (workers->list[middle].row->id < id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

const struct worker_row *fsm_worker(const struct fsm *fsm, uint32_t id)
{
    size_t at = list_place(&fsm->workers, id);
    const struct worker_row *row = at < fsm->workers.count ? fsm->workers.list[at].row : NULL;

    return row != NULL && row->id == id ? row : NULL;
}

/* Replace the row, or insert it: a copy, which is returned. The texts may be the old row's. */
static const struct worker_row *list_set(struct fsm_workers *workers, const struct worker_row *row)
{
    size_t at = list_place(workers, row->id);
    struct worker_row *copy = MUST_HAVE(
        calloc(1, sizeof *copy + (size_t)row->name_len + 1 + (size_t)row->address_len + 1));
    char *name = (char *)(copy + 1);
    char *address = name + row->name_len + 1;

    memcpy(name, row->name, row->name_len);
    if (row->address_len > 0) {
        memcpy(address, row->address, row->address_len);
    }
    *copy = *row;
    copy->name = name;
    copy->address = address;
    if (at < workers->count && workers->list[at].row->id == row->id) {
        free(workers->list[at].row);
    } else {
        workers->list =
            array_room(workers->list, workers->count, &workers->room, sizeof *workers->list);
        memmove(&workers->list[at + 1], &workers->list[at],
                (workers->count - at) * sizeof *workers->list);
        workers->count++;
    }
    workers->list[at] =
        (struct fsm_worker){.row = copy,
                            .until_ms = copy->granted_until_ms & INT64_MAX,
                            .held = copy->state == WORKER_HELD,
                            .client = copy->client,
                            .name = hash_bytes(name, copy->name_len, workers->seed)};
    return copy;
}

/* --- acquire --- */

/* True if the time is further ahead of the log's than allowed. */
static bool ahead(const struct fsm *fsm, uint64_t ms, uint64_t by_ms)
{
    return ms > fsm->settings.log_ms + by_ms;
}

/* A row from a backup of an older leafd may have no owner: any client may use it. */
static bool is_anothers(const struct worker_row *row, uint64_t client, bool force)
{
    return !force && row->client != 0 && client != 0 && !client_is(row->client, client);
}

static bool window_fits(uint64_t window_ms)
{
    return window_ms >= LIMIT_WINDOW_MIN_MS && window_ms <= LIMIT_WINDOW_MAX_MS;
}

/* The first worker id that the layout has no room for. */
static uint32_t id_end(const struct fsm *fsm, const struct worker_acquire *acquire)
{
    return 1u << (acquire->bits != 0 ? acquire->bits : fsm->settings.layout.worker_bits);
}

/* The checks that need no rows. */
static int acquire_check(const struct fsm *fsm, const struct worker_acquire *acquire)
{
    if ((acquire->kind != WORKER_NODE && acquire->kind != WORKER_CLIENT) ||
        !window_fits(acquire->window_ms) || acquire->name_len > LIMIT_WORKER_NAME_BYTES ||
        tag_name_check(acquire->name, acquire->name_len, NULL) != 0 ||
        acquire->address_len > LIMIT_ADDRESS_BYTES ||
        utf8_text_check(acquire->address, acquire->address_len, false) != 0) {
        return ERR_INVALID;
    }
    if (!fsm->settings.has_layout || fsm->settings.log_ms == 0) {
        return ERR_EMPTY;
    }
    if (acquire->worker_id != WORKER_ID_ANY && acquire->worker_id >= id_end(fsm, acquire)) {
        return ERR_INVALID;
    }
    if (ahead(fsm, acquire->wall_ms, LIMIT_WORKER_AHEAD_MS) ||
        ahead(fsm, acquire->floor_ms, LIMIT_WINDOW_MAX_MS)) {
        return ERR_CLOCK_SKEW;
    }
    return 0;
}

/* Its window is over, whether it was released or not. */
static bool is_free(const struct fsm *fsm, const struct worker_row *row)
{
    return row->granted_until_ms < fsm->settings.log_ms;
}

static bool window_is_over(const struct fsm *fsm, const struct fsm_worker *worker)
{
    return worker->until_ms < fsm->settings.log_ms;
}

static bool is_named(const struct worker_row *row, const struct worker_acquire *acquire)
{
    return tag_name_compare(row->name, row->name_len, acquire->name, acquire->name_len) == 0;
}

/* A later window would begin further ahead of the clock with each acquire. */
static bool has_begun(const struct fsm *fsm, const struct worker_row *row)
{
    return row->granted_from_ms <= fsm->settings.log_ms;
}

/* The pool that the acquire takes from; NULL: from ids in no pool. */
static const struct worker_pool *pool_of(const struct fsm *fsm,
                                         const struct worker_acquire *acquire)
{
    return worker_pool_of(&fsm->settings.pools, acquire->zone, acquire->zone_len);
}

/* May the acquire take the worker id, if it is free? */
static bool is_offered(const struct fsm *fsm, const struct worker_acquire *acquire, uint32_t id)
{
    return worker_pool_with(&fsm->settings.pools, id) == pool_of(fsm, acquire);
}

/* 0 with the worker id to grant, ERR_CONFLICT with its holder, or ERR_NOT_OWNER: it is in another
 * zone's pool. */
static int choose_given(const struct fsm *fsm, const struct worker_acquire *acquire,
                        const struct worker_row *own, uint32_t *ret_id)
{
    uint32_t id = acquire->worker_id;
    const struct worker_row *row = fsm_worker(fsm, id);

    *ret_id = id;
    if (own != NULL && own->id == id) {
        return 0;
    }
    if (own != NULL && !is_free(fsm, own)) {
        *ret_id = own->id;
        return ERR_CONFLICT;
    }
    if (row != NULL && !is_free(fsm, row)) { /* a client may take it by its own name, or by force */
        bool may_take_over =
            acquire->kind == WORKER_CLIENT && row->kind == WORKER_CLIENT && has_begun(fsm, row) &&
            (acquire->force ||
             (is_named(row, acquire) && !is_anothers(row, acquire->client, false)));

        return may_take_over ? 0 : ERR_CONFLICT;
    }
    return is_offered(fsm, acquire, id) ? 0 : ERR_NOT_OWNER;
}

/* The lowest free id in [from, end). If there is none, *best is the choice: the released row whose
 * window ends first. */
static bool choose_from(const struct fsm *fsm, uint32_t from, uint32_t end,
                        const struct worker_row **best, uint32_t *ret_id)
{
    size_t at = list_place(&fsm->workers, from);

    for (uint32_t id = from; id < end; id++, at++) {
        const struct fsm_worker *worker = at < fsm->workers.count ? &fsm->workers.list[at] : NULL;
        const struct worker_row *row;

        if (worker == NULL || worker->row->id != id || window_is_over(fsm, worker)) {
            *ret_id = id;
            return true;
        }
        row = worker->row;
        if (row->state == WORKER_RELEASED && has_begun(fsm, row) &&
            (*best == NULL || row->granted_until_ms < (*best)->granted_until_ms)) {
            *best = row;
        }
    }
    return false;
}

/* The same, without ids in a pool. */
static bool choose_beside(const struct fsm *fsm, uint32_t from, uint32_t end,
                          const struct worker_row **best, uint32_t *ret_id)
{
    const struct worker_pools *pools = &fsm->settings.pools;

    while (from < end) {
        const struct worker_pool *pool = worker_pool_with(pools, from);
        uint32_t to = end;

        if (pool != NULL) {
            from = pool->last + 1u;
            continue;
        }
        for (uint32_t i = 0; i < pools->count; i++) {
            uint32_t first = pools->items[i].first;

            to = first > from && first < to ? first : to;
        }
        if (choose_from(fsm, from, to, best, ret_id)) {
            return true;
        }
        from = to;
    }
    return false;
}

/* 0 with the worker id to grant, or ERR_NO_WORKER_ID. */
static int choose_any(const struct fsm *fsm, const struct worker_acquire *acquire,
                      const struct worker_row *own, uint32_t *ret_id)
{
    const struct worker_pool *pool = pool_of(fsm, acquire);
    uint32_t end = id_end(fsm, acquire);
    uint32_t own_end = 1u << fsm->settings.layout.worker_bits;
    uint32_t from = end > own_end ? own_end : 0;
    uint32_t pool_end = pool == NULL ? 0 : pool->last < end ? pool->last + 1u : end;
    const struct worker_row *best = NULL;
    bool found;

    if (own != NULL && own->id < end && (!is_free(fsm, own) || is_offered(fsm, acquire, own->id))) {
        *ret_id = own->id;
        return 0;
    }
    found = pool != NULL ? choose_from(fsm, pool->first, pool_end, &best, ret_id)
                         : choose_beside(fsm, from, end, &best, ret_id) ||
                               choose_beside(fsm, 0, from, &best, ret_id);
    if (!found && best != NULL) {
        *ret_id = best->id;
    }
    return found || best != NULL ? 0 : ERR_NO_WORKER_ID;
}

/* Make the row the name's, with a window above all earlier ones of the id; row is the old row, or
 * zeros except for its id. */
static int acquire_window(const struct fsm *fsm, const struct worker_acquire *acquire,
                          struct worker_row *row)
{
    uint64_t from_ms = later_of(row->granted_until_ms, acquire->floor_ms);
    uint64_t until_ms = later_of(acquire->wall_ms, from_ms) + acquire->window_ms;

    if (ahead(fsm, until_ms, LIMIT_WORKER_AHEAD_MS + LIMIT_WINDOW_MAX_MS)) {
        return ERR_CLOCK_SKEW;
    }
    ASSERT(from_ms >= row->granted_until_ms && until_ms > from_ms);
    row->state = WORKER_HELD;
    row->kind = acquire->kind;
    row->client = acquire->client;
    row->epoch++;
    row->granted_from_ms = from_ms;
    row->granted_until_ms = until_ms;
    row->updated_ms = fsm->settings.log_ms;
    row->name = acquire->name;
    row->name_len = acquire->name_len;
    row->address = acquire->address;
    row->address_len = acquire->address_len;
    return 0;
}

/* The row of the name: the one it holds, else the one changed last; NULL: none. Rows of nodes and
 * clients are separate, except that no client may take a name that a node has or had. A client's
 * rows count only when free. */
static const struct worker_row *find_name(const struct fsm *fsm,
                                          const struct worker_acquire *acquire)
{
    const struct worker_row *best = NULL;
    uint64_t name = hash_bytes(acquire->name, acquire->name_len, fsm->workers.seed);

    for (size_t at = 0; at < fsm->workers.count; at++) {
        const struct worker_row *row = fsm->workers.list[at].row;

        if (fsm->workers.list[at].name != name || !is_named(row, acquire) ||
            (row->kind != WORKER_NODE && (acquire->kind != WORKER_CLIENT || !is_free(fsm, row)))) {
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

/* Put the row's key and value into the journal, which is returned. */
static struct journal *worker_journal(const struct fsm *fsm, const struct worker_row *row)
{
    struct journal *journal = fsm_journal(fsm);

    journal_key(journal, FSM_TABLE_WORKERS);
    worker_key_put(&journal->row, row->id);
    journal_value(journal);
    worker_row_put(&journal->row, row);
    return journal;
}

/* Insert or replace, and update digest, changes (NULL while loading) and listener. */
static void worker_put(struct fsm *fsm, const struct worker_row *row)
{
    const struct worker_row *old = fsm_worker(fsm, row->id);
    struct fsm_listener *listener = fsm->listener;

    ASSERT(row->id < LIMIT_WORKER_IDS && row->granted_from_ms <= row->granted_until_ms);
    ASSERT(old == NULL || row->epoch >= old->epoch);
    ASSERT(old == NULL || row->epoch == old->epoch ||
           row->granted_from_ms >= old->granted_until_ms); /* windows are disjoint */
    if (old != NULL) {
        journal_leave(worker_journal(fsm, old));
    }
    row = list_set(&fsm->workers, row); /* which frees the old one */
    journal_enter(worker_journal(fsm, row));
    if (listener != NULL && listener->worker_changed != NULL && !fsm_journal(fsm)->loading) {
        listener->worker_changed(listener, row);
    }
}

/* Release the row: no epoch can renew it, and it counts for no client. */
static void worker_row_release(const struct fsm *fsm, struct worker_row *row)
{
    row->state = WORKER_RELEASED;
    row->client = 0;
    row->updated_ms = fsm->settings.log_ms;
}

/* --- shares --- */

/* The number of worker ids below end that the client may hold. */
static unsigned share_of(const struct worker_acquire *acquire, uint32_t end)
{
    unsigned share =
        (end < LIMIT_WORKER_ROWS ? end : LIMIT_WORKER_ROWS) * (unsigned)acquire->percent / 100;

    if (acquire->most > 0) {
        return acquire->most;
    }
    return share < 1 ? 1 : share;
}

static bool is_same_client(uint64_t a, uint64_t b)
{
    return a == b || (a != 0 && b != 0 && client_is(a, b));
}

/* A client's worker ids below the end of a share, except one. */
struct holding {
    unsigned count;
    unsigned over;                  /* those whose windows are over */
    const struct worker_row *first; /* of these, the one that ended first; NULL: none */
};

static bool counts_for(const struct fsm *fsm, const struct fsm_worker *worker,
                       const struct worker_acquire *acquire, uint32_t end, uint32_t but)
{
    return is_same_client(worker->client, acquire->client) && worker->row->id != but &&
           worker->row->id < end &&
           (worker->row->state == WORKER_HELD || !window_is_over(fsm, worker));
}

static struct holding holding_of(const struct fsm *fsm, const struct worker_acquire *acquire,
                                 uint32_t end, uint32_t but)
{
    struct holding holding = {0};

    for (size_t at = 0; at < fsm->workers.count; at++) {
        const struct worker_row *row = fsm->workers.list[at].row;

        if (!counts_for(fsm, &fsm->workers.list[at], acquire, end, but)) {
            continue;
        }
        holding.count++;
        if (is_free(fsm, row)) {
            holding.over++;
            if (holding.first == NULL || row->granted_until_ms < holding.first->granted_until_ms) {
                holding.first = row;
            }
        }
    }
    return holding;
}

static void worker_leave(struct fsm *fsm, const struct worker_row *held)
{
    struct worker_row row = *held;

    worker_row_release(fsm, &row);
    worker_put(fsm, &row);
}

static int ends_order(const void *a, const void *b)
{
    const struct fsm_worker *left = a;
    const struct fsm_worker *right = b;

    return left->until_ms != right->until_ms
               ? (left->until_ms > right->until_ms) - (left->until_ms < right->until_ms)
               : (left->row->id > right->row->id) - (left->row->id < right->row->id);
}

/* Release `excess` ids of the client whose windows are over, those that ended first. In one pass:
 * after a lowered share there may be tens of thousands. */
static void share_cut(struct fsm *fsm, const struct worker_acquire *acquire, uint32_t end,
                      uint32_t but, unsigned excess)
{
    struct fsm_worker *over = MUST_HAVE(malloc(fsm->workers.count * sizeof *over));
    size_t count = 0;

    for (size_t at = 0; at < fsm->workers.count; at++) {
        if (counts_for(fsm, &fsm->workers.list[at], acquire, end, but) &&
            window_is_over(fsm, &fsm->workers.list[at])) {
            over[count++] = fsm->workers.list[at];
        }
    }
    ASSERT(count >= excess);
    qsort(over, count, sizeof *over, ends_order);
    for (unsigned i = 0; i < excess; i++) {
        worker_leave(fsm, over[i].row);
    }
    free(over);
}

/* Make room for one more worker id of the client, this one; or ERR_SHARE, and nothing is changed.
 * leaves: the id that its name leaves for it, or WORKER_ID_ANY. */
static int share_room(struct fsm *fsm, const struct worker_acquire *acquire, uint32_t id,
                      uint32_t leaves, struct worker_result *result)
{
    uint32_t own_end = 1u << fsm->settings.layout.worker_bits;
    /* The end of the worker ids of which a client has a share. Those beyond it, of a wider layout,
     * do not count: they are not taken from others of this one. An id of the cluster's own layout
     * is of that share, also for an acquire that names a wider one. */
    uint32_t end = id < own_end ? own_end : id_end(fsm, acquire);
    unsigned most = share_of(acquire, end);
    struct holding holding = holding_of(fsm, acquire, end, leaves);

    if (holding.count - holding.over >= most) {
        result->held = (uint16_t)(holding.count < UINT16_MAX ? holding.count : UINT16_MAX);
        result->most = (uint16_t)(most < UINT16_MAX ? most : UINT16_MAX);
        return ERR_SHARE;
    }
    if (holding.count == most) {
        worker_leave(fsm, holding.first);
    } else if (holding.count > most) {
        share_cut(fsm, acquire, end, leaves, holding.count - most + 1);
    }
    return 0;
}

/* --- a full table --- */

/* The row that a new one takes the place of (worker.h). NULL: none can be forgotten. */
static const struct worker_row *spare_row(const struct fsm *fsm)
{
    const struct fsm_worker *best = NULL;

    for (size_t at = 0; at < fsm->workers.count; at++) {
        const struct fsm_worker *worker = &fsm->workers.list[at];

        if (window_is_over(fsm, worker) && worker->row->kind == WORKER_CLIENT &&
            (best == NULL || worker->held < best->held ||
             (worker->held == best->held && worker->until_ms < best->until_ms))) {
            best = worker;
        }
    }
    return best != NULL ? best->row : NULL;
}

/* Nothing may begin below what the row had: the rules are raised before it goes. */
static void worker_forget(struct fsm *fsm, const struct worker_row *row)
{
    size_t at = list_place(&fsm->workers, row->id);

    ASSERT(fsm->workers.list[at].row == row && is_free(fsm, row) && row->kind == WORKER_CLIENT);
    fsm_settings_raise(fsm, row->epoch, row->granted_until_ms);
    journal_delete(worker_journal(fsm, row));
    free(fsm->workers.list[at].row);
    fsm->workers.count--;
    memmove(&fsm->workers.list[at], &fsm->workers.list[at + 1],
            (fsm->workers.count - at) * sizeof *fsm->workers.list);
}

/* Set a status, and the row that it is about, if any. */
static int show(struct worker_result *result, const struct worker_row *row, int status)
{
    result->has_row = true;
    result->row = *row;
    return status;
}

static int apply_acquire(struct fsm *fsm, const struct worker_acquire *acquire,
                         struct worker_result *result)
{
    const struct worker_row *own = find_name(fsm, acquire);
    const struct worker_row *old;
    const struct worker_row *spare;
    uint32_t forgotten = WORKER_ID_ANY;
    struct worker_row row = {0};
    bool is_given = acquire->worker_id != WORKER_ID_ANY;
    bool counts_already;
    int err = acquire_check(fsm, acquire);

    if (err != 0) {
        return err;
    }
    if (own != NULL && own->kind != acquire->kind) { /* a client must not take a node's name */
        return show(result, own, ERR_CONFLICT);
    }
    if (acquire->kind == WORKER_CLIENT && is_given) {
        own = NULL; /* then its name has this id as well */
    }
    err = is_given ? choose_given(fsm, acquire, own, &row.id)
                   : choose_any(fsm, acquire, own, &row.id);
    if (err == ERR_NO_WORKER_ID) {
        return err;
    }
    if (err == ERR_NOT_OWNER) { /* without a row */
        return ERR_CONFLICT;
    }
    old = fsm_worker(fsm, row.id);
    if (err != 0) {
        ASSERT(err == ERR_CONFLICT && old != NULL);
        return show(result, old, err);
    }
    if (acquire->kind == WORKER_CLIENT && old == NULL && fsm->workers.count >= LIMIT_WORKER_ROWS) {
        spare = spare_row(fsm);
        if (spare == NULL) {
            return ERR_NO_WORKER_ID;
        }
        forgotten = spare->id; /* the share may replace its row */
    }
    if (old != NULL) {
        row = *old;
    } else {
        row.epoch = fsm->settings.rules.epoch;
        row.granted_until_ms = fsm->settings.rules.until_ms;
    }
    counts_already =
        old != NULL && old->state == WORKER_HELD && is_same_client(old->client, acquire->client);
    err = acquire_window(fsm, acquire, &row);
    if (err != 0 && old != NULL && old->granted_until_ms > acquire->floor_ms) {
        return is_given ? show(result, old, ERR_CONFLICT)
                        : ERR_NO_WORKER_ID; /* not a clock error */
    }
    if (err == 0 && acquire->client != 0 && !counts_already) {
        err = share_room(fsm, acquire, row.id, own != NULL ? own->id : WORKER_ID_ANY, result);
    }
    if (err != 0) {
        return err;
    }
    if (own != NULL && own->id != row.id && own->state == WORKER_HELD) {
        worker_leave(fsm, own);
    }
    if (forgotten != WORKER_ID_ANY) {
        worker_forget(fsm, fsm_worker(fsm, forgotten));
    }
    worker_put(fsm, &row);
    return show(result, fsm_worker(fsm, row.id), 0);
}

static int apply_renew(struct fsm *fsm, const struct worker_renew *renew,
                       struct worker_result *result)
{
    const struct worker_row *old = fsm_worker(fsm, renew->worker_id);
    struct worker_row row;

    if (old == NULL) {
        return ERR_NOT_FOUND;
    }
    (void)show(result, old, 0);
    if (old->state != WORKER_HELD || old->epoch != renew->epoch) {
        return ERR_FENCED;
    }
    if (old->kind != renew->kind) { /* only the holder knows what it stamped */
        return ERR_CONFLICT;
    }
    if (is_anothers(old, renew->client, false)) {
        return ERR_NOT_OWNER;
    }
    if (!window_fits(renew->window_ms)) {
        return ERR_INVALID;
    }
    if (renew->expected_until_ms != 0 && renew->expected_until_ms != old->granted_until_ms) {
        return ERR_CONFLICT;
    }
    if (ahead(fsm, renew->wall_ms, LIMIT_WORKER_AHEAD_MS)) {
        return ERR_CLOCK_SKEW;
    }
    row = result->row;
    row.granted_until_ms = later_of(old->granted_until_ms, renew->wall_ms + renew->window_ms);
    row.last_timestamp_ms = later_of(old->last_timestamp_ms, renew->last_timestamp_ms);
    row.updated_ms = fsm->settings.log_ms;
    if (row.last_timestamp_ms > row.granted_until_ms) {
        return ERR_INVALID; /* such a time was never granted */
    }
    worker_put(fsm, &row);
    return show(result, fsm_worker(fsm, row.id), 0);
}

static int apply_release(struct fsm *fsm, const struct worker_release *release,
                         struct worker_result *result)
{
    const struct worker_row *old = fsm_worker(fsm, release->worker_id);
    struct worker_row row;

    if (old == NULL) {
        return ERR_NOT_FOUND;
    }
    (void)show(result, old, 0);
    if (old->epoch != release->epoch) {
        return ERR_FENCED;
    }
    if (old->kind != release->kind) { /* a node that is cut off would continue to stamp */
        return ERR_CONFLICT;
    }
    if (old->state != WORKER_HELD) {
        return 0; /* repeated */
    }
    if (is_anothers(old, release->client, release->force)) {
        return ERR_NOT_OWNER;
    }
    row = result->row;
    worker_row_release(fsm, &row);
    row.client = old->client; /* no other gets it before its window is over */
    if (release->last_timestamp_ms != 0) {
        uint64_t used_ms = later_of(old->last_timestamp_ms, release->last_timestamp_ms);

        /* Times reported before count too: a release cannot lower them. */
        if (used_ms < old->granted_until_ms && old->kind == WORKER_NODE) {
            row.granted_until_ms = later_of(old->granted_from_ms, used_ms);
        }
        row.last_timestamp_ms = used_ms < row.granted_until_ms ? used_ms : row.granted_until_ms;
    }
    worker_put(fsm, &row);
    return show(result, fsm_worker(fsm, row.id), 0);
}

/* --- reading --- */

const struct worker_row *fsm_worker_at(const struct fsm *fsm, size_t at)
{
    return at < fsm->workers.count ? fsm->workers.list[at].row : NULL;
}

void fsm_workers_apply(struct fsm *fsm, const struct command *command, struct buf *result)
{
    struct worker_result answer = {0};

    switch (command->type) {
    case COMMAND_WORKER_ACQUIRE:
    case COMMAND_WORKER_ACQUIRE_OF:
        answer.status = apply_acquire(fsm, &command->acquire, &answer);
        break;
    case COMMAND_WORKER_RENEW:
    case COMMAND_WORKER_RENEW_OF:
        answer.status = apply_renew(fsm, &command->renew, &answer);
        break;
    case COMMAND_WORKER_RELEASE:
    case COMMAND_WORKER_RELEASE_OF:
        answer.status = apply_release(fsm, &command->release, &answer);
        break;
    default:
        UNREACHABLE("not a command on worker ids");
    }
    worker_result_encode(&answer, result);
}

void fsm_workers_list(const struct fsm *fsm, const struct query *query, struct buf *result)
{
    struct worker_row *rows = MUST_HAVE(malloc(((size_t)query->limit + 1) * sizeof *rows));
    size_t count = 0;

    for (size_t at = list_place(&fsm->workers, query->first);
         at < fsm->workers.count && count < query->limit; at++) {
        rows[count++] = *fsm->workers.list[at].row;
    }
    worker_rows_encode(rows, count, fsm->settings.log_ms, result);
    free(rows);
}

/* How often a hash was seen, up to twice. */
struct name_seen {
    uint64_t hash; /* 0: the place is free */
    bool twice;
};

void fsm_worker_counts(const struct fsm *fsm, uint64_t *ret_held, uint64_t *ret_shared)
{
    struct name_seen *seen;
    size_t places = 2; /* a power of two, above the number of hashes */

    *ret_held = 0;
    *ret_shared = 0;
    while (places <= 2 * fsm->workers.count) {
        places *= 2;
    }
    seen = MUST_HAVE(calloc(places, sizeof *seen));
    for (size_t i = 0; i < fsm->workers.count; i++) {
        const struct fsm_worker *worker = &fsm->workers.list[i];
        uint64_t hash = worker->name + (worker->name == 0);
        size_t at = hash & (places - 1);

        *ret_held += worker->held;
        if (!worker->held || window_is_over(fsm, worker)) {
            continue;
        }
        while (seen[at].hash != 0 && seen[at].hash != hash) {
            at = (at + 1) & (places - 1);
        }
        *ret_shared += seen[at].hash == hash && !seen[at].twice; /* the second of its name */
        seen[at].twice = seen[at].hash == hash;
        seen[at].hash = hash;
    }
    free(seen);
}

int fsm_workers_load(struct fsm *fsm, const struct state_row *loaded)
{
    struct worker_row row = {0};
    int err;

    if (!worker_key_read(loaded->key + 1, loaded->key_len - 1, &row.id)) {
        return ERR_CORRUPT;
    }
    err = worker_row_read(loaded->value, loaded->value_len, &row);
    if (err == 0 && fsm_worker(fsm, row.id) != NULL) {
        err = ERR_EXISTS;
    }
    if (err == 0) {
        worker_put(fsm, &row);
    }
    return err;
}

void fsm_workers_clear(struct fsm_workers *workers)
{
    for (size_t at = 0; at < workers->count; at++) {
        free(workers->list[at].row);
    }
    free(workers->list);
    *workers = (struct fsm_workers){.seed = prng_entropy()};
}
