/*
 * backups.c - see backups.h. Thread: the raft loop.
 */
#include "src/service/backups.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/base/container.h"
#include "src/base/hash.h"
#include "src/base/log.h"
#include "src/state/journal.h"

#define LOOK_MS 20 /* does the store need the room of a paused view? */
#define CAPACITY_MIN 64

/* --- growth --- */

static void period_begin(struct growth_period *period, uint64_t began_ms)
{
    free(period->slots);
    *period = (struct growth_period){.began_ms = began_ms};
}

void growth_reset(struct growth *growth, uint64_t now_ms)
{
    growth->newest = 0;
    growth->count = 1;
    period_begin(&growth->periods[0], now_ms);
}

void growth_free(struct growth *growth)
{
    for (unsigned i = 0; i < GROWTH_PERIODS; i++) {
        period_begin(&growth->periods[i], 0);
    }
}

/* The period `back` periods before the newest. */
static const struct growth_period *period_at(const struct growth *growth, unsigned back)
{
    ASSERT(back < growth->count);
    return &growth->periods[(growth->newest + GROWTH_PERIODS - back) % GROWTH_PERIODS];
}

/* Begin the periods that have begun since the newest one. */
static void growth_turn_over(struct growth *growth, uint64_t now_ms)
{
    uint64_t began_ms = growth->periods[growth->newest].began_ms;
    uint64_t over = now_ms > began_ms ? (now_ms - began_ms) / GROWTH_PERIOD_MS : 0;

    /* After a long pause the last periods are enough: nothing changed in them. */
    if (over > GROWTH_PERIODS) {
        began_ms += (over - GROWTH_PERIODS) * GROWTH_PERIOD_MS;
        over = GROWTH_PERIODS;
    }
    for (; over > 0; over--) {
        began_ms += GROWTH_PERIOD_MS;
        growth->newest = (growth->newest + 1) % GROWTH_PERIODS;
        growth->count += growth->count < GROWTH_PERIODS;
        period_begin(&growth->periods[growth->newest], began_ms);
    }
}

struct backup_growth growth_look(struct growth *growth, uint64_t now_ms)
{
    struct backup_growth look = {.whole = true};

    growth_turn_over(growth, now_ms);
    look.since_ms = period_at(growth, growth->count - 1)->began_ms;
    look.until_ms = now_ms > look.since_ms ? now_ms : look.since_ms;
    for (unsigned back = 0; back < growth->count; back++) {
        look.whole = look.whole && !period_at(growth, back)->full;
    }
    return look;
}

static uint64_t growth_hash_of(const struct growth *growth, const char *name, size_t len)
{
    uint64_t hash = hash_bytes(name, len, growth->seed);

    return hash != 0 ? hash : 1;
}

/* The slot of this hash, or the free slot for it. capacity > 0. */
static struct growth_slot *slot_of(const struct growth_period *period, uint64_t hash)
{
    size_t at = (size_t)hash & (period->capacity - 1);

    while (period->slots[at].hash != 0 && period->slots[at].hash != hash) {
        at = (at + 1) & (period->capacity - 1);
    }
    return &period->slots[at];
}

void growth_note(struct growth *growth, const struct tag_row *row, uint64_t now_ms)
{
    uint64_t hash = growth_hash_of(growth, row->name, row->name_len);
    struct growth_period *period;
    struct growth_slot *slot;

    growth_turn_over(growth, now_ms);
    period = &growth->periods[growth->newest];
    if (period->capacity > 0 && slot_of(period, hash)->hash == hash) {
        return;
    }
    if (period->count == LIMIT_GROWTH_TAGS) {
        period->full = true;
        return;
    }
    if (2 * (period->count + 1) > period->capacity) { /* at most half full */
        struct growth_period larger = *period;

        larger.capacity = period->capacity > 0 ? 2 * period->capacity : CAPACITY_MIN;
        larger.slots = MUST_HAVE(calloc(larger.capacity, sizeof *larger.slots));
        for (size_t i = 0; i < period->capacity; i++) {
            if (period->slots[i].hash != 0) {
                *slot_of(&larger, period->slots[i].hash) = period->slots[i];
            }
        }
        free(period->slots);
        *period = larger;
    }
    slot = slot_of(period, hash);
    *slot = (struct growth_slot){hash, row->max_id};
    period->count++;
}

bool growth_tag(const struct growth *growth, const char *name, size_t len, uint64_t *ret_max_id)
{
    uint64_t hash = growth_hash_of(growth, name, len);

    for (unsigned back = growth->count; back-- > 0;) {
        const struct growth_period *period = period_at(growth, back);

        if (period->capacity > 0 && slot_of(period, hash)->hash == hash) {
            *ret_max_id = slot_of(period, hash)->max_id;
            return true;
        }
    }
    return false;
}

/* --- answers --- */

static void backups_answer(struct backups *backups, int status)
{
    struct cluster_request *asked = backups->asked;

    timer_cancel(backups->on->timers, &backups->due);
    backups->asked = NULL;
    if (asked != NULL) {
        answers_put(backups->on->answers, asked, status);
    }
}

/* --- the disk --- */

static void backups_read_cb(void *data)
{
    const struct backups *backups = data;

    context_wake(backups->on, WAKE_BACKUPS);
}

/* The view is closed: answer a waiting request. */
static void backups_look_closed(struct backups *backups)
{
    if (backups->state == BACKUPS_CLOSING && disk_view_is_closed(&backups->view)) {
        backups->state = BACKUPS_NONE;
        backups_answer(backups, backups->status);
    }
}

/* End the backup. */
static void end(struct backups *backups, int status)
{
    backups->status = status;
    backups->figures.failed += !backups->whole;
    backups->state = BACKUPS_CLOSING;
    disk_view_drop(&backups->view);
    backups_look_closed(backups);
}

/* --- the rows, as a file --- */

/* Put the rows of a chunk, and before them how far their tags grew. */
static void put_rows(struct backups *backups, const struct buf *chunk, struct buf *out)
{
    struct growth *growth = backups->growth;
    const struct backup_growth of = growth_look(growth, id_tags_ms(backups->context));
    struct backup_tag_growth tag;
    struct backup_row row;
    struct reader records;
    uint64_t count = 0;

    backup_growth_begin(&backups->writer, &of, out);
    reader_init(&records, chunk->data, chunk->len);
    while (backup_row_next(&records, &row)) {
        count++;
        tag.name = (const char *)row.key + 1;
        tag.name_len = (uint16_t)(row.key_len - 1);
        if (row.key[0] == FSM_TABLE_TAGS &&
            growth_tag(growth, tag.name, tag.name_len, &tag.max_id)) {
            backup_growth_put(&backups->writer, &tag, out);
        }
    }
    ASSERT(reader_done(&records));
    backup_growth_end(&backups->writer, out);
    backup_put_rows(&backups->writer, chunk->data, chunk->len, count, out);
}

/* A part was read: answer with it. */
static void backups_go_on(struct backups *backups)
{
    const struct store_position *at = &backups->view.read.position;
    const struct buf *chunk = &backups->view.read.chunk;
    struct id_backup *what = backups->asked->out;
    struct buf *out = &backups->asked->reply;
    int status = backups->view.read.status;

    if (status != 0) {
        log_warn("backup", "a backup was given up", "err=%s", err_code(status));
        end(backups, status);
        return;
    }
    if (backups->view.first) {
        struct backup_head head = {.level = state_level(backups->on->state),
                                   .node_id = backups->on->node_id,
                                   .index = at->index,
                                   .term = at->term,
                                   .digest = at->digest,
                                   .wall_ms = clock_wall_ms(backups->on->clock),
                                   .log_ms = backups->on->state->facts.log_ms,
                                   .local = backups->local};
        const struct birth *birth = state_birth(backups->on->state);

        if (birth != NULL) {
            head.uid[0] = birth->uid.high;
            head.uid[1] = birth->uid.low;
        }
        if (backups->on->config->cluster_id != NULL) {
            strncpy(head.cluster_id, backups->on->config->cluster_id, sizeof head.cluster_id - 1);
        }
        strncpy(head.version, LEAFD_VERSION, sizeof head.version - 1);
        backup_put_head(&backups->writer, &head, out);
    }
    if (chunk->len > 0) {
        put_rows(backups, chunk, out);
    }
    what->number = backups->number;
    what->end = backups->view.read.end;
    if (what->end) {
        backup_put_end(&backups->writer, out);
        backups->whole = true;
        backups->figures.taken++;
        backups->figures.last_ms = clock_wall_ms(backups->on->clock);
        backups->figures.last_bytes = backups->writer.totals.bytes;
        log_info("backup", "a backup was taken", "rows=%llu bytes=%llu",
                 ull(backups->writer.totals.rows), ull(backups->writer.totals.bytes));
        end(backups, 0);
        return;
    }
    backups->state = BACKUPS_PAUSED;
    backups_answer(backups, 0);
    context_arm_in(backups->on, &backups->due, LIMIT_BACKUP_IDLE_MS);
    context_arm_in(backups->on, &backups->look, LOOK_MS);
}

/* --- the begin --- */

static void catch_up(struct backups *backups, uint64_t deadline_ms)
{
    backups->state = BACKUPS_CATCHING_UP;
    timer_arm(backups->on->timers, &backups->due, deadline_ms);
    context_wake(backups->on, WAKE_BACKUPS);
}

static void backups_queried_cb(struct cluster_request *query)
{
    struct backups *backups = CONTAINER(query, struct backups, query);
    int status = query->status;

    backups->index = query->index;
    buf_free(&query->payload);
    buf_free(&query->reply);
    if (backups->stopped) {
        return;
    }
    ASSERT(backups->state == BACKUPS_ASKING && backups->asked != NULL);
    if (status != 0) {
        end(backups, status);
        return;
    }
    catch_up(backups, backups->asked->deadline_ms);
}

/* The time of the request, or of the pause, is over. */
static void backups_due_cb(struct timer *timer, uint64_t now_ms)
{
    struct backups *backups = CONTAINER(timer, struct backups, due);

    (void)now_ms;
    ASSERT(backups->state == BACKUPS_CATCHING_UP || backups->state == BACKUPS_PAUSED);
    if (backups->state == BACKUPS_PAUSED) {
        log_warn("backup", "a backup was given up", "reason=\"the client asks for no more of it\"");
    }
    end(backups, ERR_TIMEOUT);
}

void backups_submit(struct backups *backups, struct cluster_request *request)
{
    const struct id_backup *what = request->out;

    ASSERT(request->kind == ID_REQUEST_BACKUP);
    if (backups->state != (what->number == 0 ? BACKUPS_NONE : BACKUPS_PAUSED) ||
        (what->number != 0 && what->number != backups->number)) {
        answers_put(backups->on->answers, request,
                    what->number == 0 ? ERR_OVERLOADED : ERR_NOT_FOUND);
        return;
    }
    backups->asked = request;
    if (what->number != 0) { /* the next part */
        timer_cancel(backups->on->timers, &backups->due);
        if (what->close) {
            end(backups, 0);
        } else if (context_now_ms(backups->on) >= backups->until_ms) {
            log_warn("backup", "a backup was given up", "reason=\"it takes longer than %d s\"",
                     LIMIT_BACKUP_MS / 1000);
            end(backups, ERR_TIMEOUT);
        } else {
            backups->state = BACKUPS_READING;
            disk_view_read(&backups->view, LIMIT_BACKUP_CHUNK_BYTES);
        }
        return;
    }
    backups->number++;
    backups->local = what->local;
    backups->whole = false;
    backups->until_ms = context_now_ms(backups->on) + LIMIT_BACKUP_MS;
    if (what->local) {
        backups->index = 0;
        catch_up(backups, request->deadline_ms);
        return;
    }
    backups->state = BACKUPS_ASKING;
    backups->query = (struct cluster_request){.kind = CLUSTER_REQUEST_QUERY,
                                              .deadline_ms = request->deadline_ms,
                                              .done = backups_queried_cb};
    query_workers_encode(&backups->query.payload, 0, 1); /* any query that is quick to answer */
    backups->on->submit(backups->on, &backups->query);
}

void backups_turn(struct backups *backups)
{
    struct driver *driver = backups->on->driver;
    uint64_t applied = driver_applied(driver)->index;

    if (disk_view_take(&backups->view)) {
        backups_go_on(backups);
    }
    backups_look_closed(backups);
    if (backups->state == BACKUPS_PAUSED && atomic_load(&backups->view.snapshot->ended)) {
        log_warn("backup", "a backup was given up",
                 "reason=\"changes need the room that it keeps: is its client slow?\"");
        timer_cancel(backups->on->timers, &backups->due);
        end(backups, ERR_DISK_FULL);
    } else if (backups->state == BACKUPS_PAUSED && !timer_is_armed(&backups->look)) {
        context_arm_in(backups->on, &backups->look, LOOK_MS);
    }
    if (backups->state == BACKUPS_CATCHING_UP && applied >= backups->index && applied > 0 &&
        !driver->applier.installing) {
        timer_cancel(backups->on->timers, &backups->due);
        applier_write(&driver->applier, true);
        backups->state = BACKUPS_READING;
        disk_view_read(&backups->view, LIMIT_BACKUP_CHUNK_BYTES);
    }
}

void backups_stop(struct backups *backups)
{
    backups->stopped = true;
    disk_view_abandon(&backups->view);
    backups_answer(backups, ERR_SHUTTING_DOWN);
}

void backups_init(struct backups *backups, struct id_context *context, struct growth *growth)
{
    *backups = (struct backups){
        .context = context,
        .on = context->on,
        .growth = growth,
        /* none of an earlier start */
        .number = context->on->config->driver.seed >> 16,
        .view = {.disk = context->on->disk, .came = backups_read_cb, .data = backups}};
    timer_init(&backups->due, backups_due_cb);
    backups->look.wakes = WAKE_BACKUPS;
}
