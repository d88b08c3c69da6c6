/*
 * snowflake.c - snowflake ids: GET and POST /api/snowflake/get/{key}; named layouts, /api/layouts;
 * decoding ids, also the texts of tags with a shape; and the reasons of refusals, in words and
 * numbers.
 *
 * The happy path of taking: one compare-and-swap claims the ids, the reply is appended to the
 * connection's output. No lock, no allocation, no system call (the clock is read through the vDSO).
 * When a millisecond has too few ids, those it has are taken and kept, and the request parks with a
 * deadline. No event could wake it: new ids come only with time, or when the raft loop extends the
 * mark. So the loop's timer lets parked requests try again each millisecond, oldest first, for each
 * layout separately. When a reply has no room for one more range, its shortest range is given up:
 * a request can get the most that the layout allows, though others claim from the same
 * milliseconds.
 *
 * A layout's PUT is checked here, proposed, and answered once it is in the log. Layouts are read,
 * and snowflake ids decoded, by what this node has applied; texts of a tag with a shape by the
 * cluster's row; /decodeSnowflakeId, as in Leaf, by Leaf's layout.
 *
 * Failure modes: forbidden by the rules 400 and 409; an unusable clock or window 503 at once; the
 * deadline 503; the layout's end 507. Ids claimed for a request that then fails are burnt. A
 * layout's name with other fields, and a cluster whose level is too low, 409; no such layout 404;
 * one name too many 503. A text that is no id, or none of this layout, 400 (Leaf's route: 200 with
 * errorMsg); the cluster's layout not known yet 503.
 *
 * Threads: the loop's; refusals: any. Their numbers are read from atomics at about the same moment.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "http/api/audited.h"
#include "http/api/ids.h"
#include "http/api/request.h"
#include "http/proto/text.h"
#include "src/base/assert.h"
#include "src/base/container.h"
#include "src/base/hot.h"
#include "src/id/codec/snowflake_layout.h"
#include "src/id/codec/tag.h"
#include "src/id/snowflake/snowflake.h"

/* --- why ids are refused --- */

/* Of this node's worker ids: the latest end of a window, and the time after which the first one is
 * usable again. 0 if it has none. */
struct slot_times {
    uint64_t window_end_ms;
    uint64_t caught_up_ms;
};

static struct slot_times slot_times(const struct snowflake *snowflake)
{
    uint32_t count = atomic_load_explicit(&snowflake->slot_count, memory_order_acquire);
    struct slot_times times = {.caught_up_ms = UINT64_MAX};

    for (uint32_t i = 0; i < count; i++) {
        const struct snowflake_slot *slot = &snowflake->slots[i];
        uint64_t until_ms = atomic_load_explicit(&slot->until_ms, memory_order_relaxed);
        uint64_t used_ms = snowflake_last_used_ms(snowflake, slot);
        uint64_t from_ms = atomic_load_explicit(&slot->from_ms, memory_order_relaxed);
        uint64_t slot_ms = used_ms > from_ms ? used_ms : from_ms;

        if (atomic_load_explicit(&slot->limit_ms, memory_order_relaxed) == 0) {
            continue;
        }
        if (until_ms > times.window_end_ms) {
            times.window_end_ms = until_ms;
        }
        if (slot_ms < times.caught_up_ms) {
            times.caught_up_ms = slot_ms;
        }
    }
    times.caught_up_ms = times.caught_up_ms != UINT64_MAX ? times.caught_up_ms : 0;
    return times;
}

bool refusal_enabled(const struct id_backend *backend)
{
    return atomic_load_explicit(&backend->snowflake->refusal, memory_order_relaxed) != ERR_DISABLED;
}

int refusal_now(const struct id_backend *backend)
{
    return refusal_enabled(backend) ? atomic_load(&backend->health->snowflake_refusal) : 0;
}

uint64_t refusal_wait_until_ms(const struct id_backend *backend, int err)
{
    uint64_t until_ms = atomic_load(&backend->health->clock_wait_until_ms);

    /* The claim may have seen it before the backend did. */
    return until_ms == 0 && err == ERR_CLOCK_BACKWARDS ? slot_times(backend->snowflake).caught_up_ms
                                                       : until_ms;
}

const char *refusal_text(const struct id_backend *backend, int err, char *out, size_t size)
{
    uint64_t now_ms = clock_wall_ms(backend->clock);
    uint64_t until_ms = refusal_wait_until_ms(backend, err);
    long long off_ms = (long long)atomic_load(&backend->health->clock_off_ms);
    uint64_t end_ms;

    switch (err) {
    case ERR_WINDOW_EXPIRED:
        end_ms = slot_times(backend->snowflake).window_end_ms;
        (void)snprintf(
            out, size,
            "%s: it ended at %llu (%s), %llu ms ago, and ids continue when a majority of "
            "the nodes has renewed it",
            err_text(err), ull(end_ms), TEXT_TIME(end_ms),
            ull(now_ms > end_ms ? now_ms - end_ms : 0));
        return out;
    case ERR_EPOCH_EXHAUSTED:
        end_ms = snowflake_last_ms(&backend->snowflake->layout);
        (void)snprintf(out, size, "%s: its last millisecond was %llu (%s)", err_text(err),
                       ull(end_ms), TEXT_TIME(end_ms));
        return out;
    case ERR_NO_WORKER_ID:
        (void)snprintf(out, size,
                       "%s, or none was granted to this node yet; GET /api/workers shows who holds "
                       "them",
                       err_text(err));
        return out;
    case ERR_EMPTY:
        (void)snprintf(out, size, "this node is still being granted its worker id");
        return out;
    case ERR_DISK_FULL:
        (void)snprintf(out, size,
                       "the disk of this node stands still, and ids continue when it has written");
        return out;
    default:
        break;
    }
    /* The clock is wrong. */
    if (off_ms == 0 && until_ms > now_ms) { /* no other clock heard yet: use our own past */
        off_ms = -(long long)(until_ms - now_ms);
    }
    if (until_ms == 0) {
        (void)snprintf(out, size,
                       "%s: it is off by %lld ms, and ids continue when it has been set right",
                       err_text(err), off_ms);
    } else {
        (void)snprintf(
            out, size,
            "%s: it is off by %lld ms, and ids continue when it shows %llu (%s), which is "
            "in %llu ms",
            err_text(err), off_ms, ull(until_ms), TEXT_TIME(until_ms),
            ull(until_ms > now_ms ? until_ms - now_ms : 0));
    }
    return out;
}

/* --- taking ids --- */

/* Before parked requests try again. */
#define RETRY_MS 1

/* A node that has just started, or was fenced off, has no worker id for a moment. A request waits
 * this long before it is refused for that. */
#define WORKER_ID_WAIT_MS 500

HOT static unsigned sequence_bits(const struct snowflake *snowflake, const struct id_claim *claim)
{
    return claim->layout != NULL ? claim->layout->row.layout.bits.sequence_bits
                                 : snowflake->layout.sequence_bits;
}

/* Does the layout allow the claim? 0, ERR_TOO_LARGE or ERR_NOT_CONTIGUOUS. 0 while the cluster's
 * own layout is not known. */
HOT static int claim_check(const struct snowflake *snowflake, const struct id_claim *claim)
{
    if (!atomic_load_explicit(&snowflake->ready, memory_order_acquire)) {
        return 0;
    }
    /* A reply holds full units of time of one worker id. */
    if (claim->count > (uint64_t)LIMIT_RANGES_PER_REPLY << sequence_bits(snowflake, claim)) {
        return ERR_TOO_LARGE;
    }
    if (claim->contiguous && claim->count > 1u << sequence_bits(snowflake, claim)) {
        return ERR_NOT_CONTIGUOUS;
    }
    return 0;
}

/* This node has no worker id. Is there none for it, rather than one being acquired? */
static bool no_worker_id(const struct id_health *health)
{
    return atomic_load(&health->snowflake_refusal) == ERR_NO_WORKER_ID &&
           atomic_load(&health->leader_known) && atomic_load(&health->applied_once);
}

/* Claim the ids still wanted, as many as the time allows. 0; ERR_EMPTY: try again in a millisecond;
 * or the error that refuses it. */
HOT static int claim_take(struct api_loop *loop, struct id_claim *claim)
{
    struct id_backend *backend = loop->backend;
    int rv = claim_check(backend->snowflake, claim);
    struct segment_range range;
    bool notify;

    ASSERT(claim->left > 0);
    while (rv == 0 && claim->left > 0) {
        id_claim_make_room(claim);
        rv = snowflake_claim(backend->snowflake, claim->layout, loop->index, claim->left,
                             prng_next(&loop->prng), &range, &notify);
        if (notify) {
            backend->ops->notify(backend);
        }
        /* The rest of a millisecond is burnt if too short for a contiguous request. */
        if (rv == 0 && (!claim->contiguous || range.count == claim->left)) {
            id_claim_insert(claim, &range);
        }
    }
    if (rv == ERR_NO_WORKER_ID) {
        uint64_t until_ms = claim->deadline_ms - claim->timeout_ms + WORKER_ID_WAIT_MS;

        return no_worker_id(backend->health) && uv_now(loop->conns->uv) >= until_ms ? rv
                                                                                    : ERR_EMPTY;
    }
    /* It waits for a mark, which the disk will not write soon. */
    return rv == ERR_EMPTY && atomic_load(&backend->health->snowflake_refusal) == ERR_DISK_FULL
               ? ERR_DISK_FULL
               : rv;
}

/* Answer a claim that is complete or refused. */
HOT static int snowflake_answer(struct conn *conn, const struct id_claim *claim, int rv)
{
    const struct id_backend *backend = api_loop(conn)->backend;
    const struct layout_row *row = claim->layout != NULL ? &claim->layout->row : NULL;
    char text[REFUSAL_TEXT_BYTES];
    char layout[LIMIT_LAYOUT_NAME_BYTES + sizeof "layout "] = "this cluster's layout";

    if (rv == 0) {
        return ids_answer(conn, claim, NULL);
    }
    if (row != NULL) {
        (void)snprintf(layout, sizeof layout, "layout %s", row->name);
    }
    switch (row != NULL ? rv : 0) { /* errors of a named layout alone, or in other words */
    case ERR_NOT_FOUND:
        return request_looks_again(conn)
                   ? ANSWERED
                   : reply_error(conn, 404, "unknown_layout", "%s was deleted", layout);
    case ERR_CONFLICT:
        return reply_error(conn, 409, "no_worker_id",
                           "none of this node's worker ids fits the %u worker bits of %s, which "
                           "end at %u; GET /api/workers shows who holds which",
                           row->layout.bits.worker_bits, layout,
                           (1u << row->layout.bits.worker_bits) - 1);
    case ERR_EPOCH_EXHAUSTED:
        return reply_error(conn, 507, err_code(rv),
                           "the time of %s is over: its last millisecond was %llu (%s)", layout,
                           ull(named_layout_last_ms(&row->layout)),
                           TEXT_TIME(named_layout_last_ms(&row->layout)));
    default:
        break;
    }
    switch (rv) {
    case ERR_TOO_LARGE:
        return reply_error(
            conn, 400, "bad_count",
            "count=%u is more than the %llu ids of %d %s, which is the most that one reply holds "
            "in %s",
            claim->count,
            ull((uint64_t)LIMIT_RANGES_PER_REPLY << sequence_bits(backend->snowflake, claim)),
            LIMIT_RANGES_PER_REPLY, row != NULL ? "units of time" : "milliseconds", layout);
    case ERR_NOT_CONTIGUOUS:
        return reply_error(conn, 409, "not_contiguous",
                           "count=%u does not fit one %s, which has %u ids in %s", claim->count,
                           row != NULL ? "unit of time" : "millisecond",
                           1u << sequence_bits(backend->snowflake, claim), layout);
    case ERR_CLOCK_BACKWARDS:
    case ERR_CLOCK_SKEW:
    case ERR_WINDOW_EXPIRED:
    case ERR_EPOCH_EXHAUSTED:
    case ERR_NO_WORKER_ID:
        return reply_error(conn,
                           rv == ERR_EPOCH_EXHAUSTED ? 507
                           : rv == ERR_NO_WORKER_ID  ? 409
                                                     : 503,
                           err_code(rv), "%s", refusal_text(backend, rv, text, sizeof text));
    case ERR_DISABLED:
        return reply_error(conn, 503, "disabled", "snowflake ids are switched off on this node");
    default:
        return reply_err(conn, rv);
    }
}

static int snowflake_late(struct conn *conn, struct id_claim *claim, struct id_tag *tag)
{
    const struct id_backend *backend = api_loop(conn)->backend;
    bool has_none = atomic_load(&backend->snowflake->slot_count) == 0;

    ASSERT(tag == NULL);
    if (no_worker_id(backend->health)) {
        return snowflake_answer(conn, claim, ERR_NO_WORKER_ID);
    }
    if (has_none && !atomic_load(&backend->health->leader_known)) {
        return reply_error(
            conn, 503, "no_leader",
            "this node has no worker id yet, and no leader is known to grant one; waited %u ms",
            claim->timeout_ms);
    }
    return reply_error(conn, 503, "timeout", "%u of %u ids were not there within %u ms",
                       claim->left, claim->count, claim->timeout_ms);
}

void snowflake_retry_fire(struct timer *timer, uint64_t now_ms)
{
    struct api_loop *loop = CONTAINER(timer, struct api_loop, snowflake_retry);
    const void *clock = NULL;
    uint64_t seq = 0;
    struct waiter *waiter;

    while ((waiter = waiters_find(&loop->waiters, NULL, clock, seq)) != NULL) {
        int rv = claim_take(loop, &waiter->claim);

        clock = waiter->clock;
        seq = 0;
        if (rv == ERR_EMPTY) {
            timer_arm_by(&loop->conns->timers, timer, now_ms + RETRY_MS);
            seq = UINT64_MAX; /* claims of another layout do not wait for this one's clock */
            continue;
        }
        snowflake_answer(parked_resume(waiter), &waiter->claim, rv);
        free(waiter);
    }
}

HOT int snowflake_begin(struct conn *conn, struct id_claim *claim)
{
    struct api_loop *loop = api_loop(conn);
    const struct waiter *first =
        loop->waiters.count > 0 ? waiters_find(&loop->waiters, NULL, claim->layout, 0) : NULL;
    int rv;

    if (first != NULL && first->clock == claim->layout) { /* parked claims come first */
        rv = claim_check(loop->backend->snowflake, claim);
        rv = rv == 0 ? ERR_EMPTY : rv;
    } else {
        rv = claim_take(loop, claim);
    }
    if (rv != ERR_EMPTY) {
        return snowflake_answer(conn, claim, rv);
    }
    if (parked_begin(conn, claim, NULL, snowflake_late)) {
        timer_arm_by(&loop->conns->timers, &loop->snowflake_retry,
                     uv_now(loop->conns->uv) + RETRY_MS);
    }
    return ANSWERED;
}

HOT int handle_snowflake_get(struct conn *conn)
{
    struct request *request = &conn->request;
    struct id_claim claim;

    if (!ids_read(conn, &claim, true)) {
        return ANSWERED;
    }
    /* For a repeated head: the key is only a name. */
    request->known = claim.name_len == request->name_len ? conn : NULL;
    if (claim.keyed) {
        return reply_error(
            conn, 400, "bad_key",
            "an Idempotency-Key needs a tag in strict mode; snowflake ids have no tag");
    }
    return snowflake_begin(conn, &claim);
}

/* --- reading --- */

/* The name in the path, never encoded. NULL: answered. */
static const char *layout_path_name(struct conn *conn, size_t *ret_len)
{
    const char *name = conn_at(conn, conn->request.name_at);

    *ret_len = conn->request.name_len;
    if (!layout_name_fits(name, *ret_len)) {
        (void)reply_error(conn, 400, "bad_request",
                          "layout %s: a name is 1 to %d of a-z, 0-9, '-', '_' and '.', and begins "
                          "with a letter or digit",
                          TEXT_SHOWN(name, *ret_len, SHOWN_BYTES), LIMIT_LAYOUT_NAME_BYTES);
        return NULL;
    }
    return name;
}

int handle_layout_get(struct conn *conn)
{
    size_t len;
    const char *name = layout_path_name(conn, &len);
    const struct layout_words *named = name != NULL ? layout_named(conn, name, len) : NULL;

    if (named == NULL) {
        return ANSWERED;
    }
    layout_row_json_put(&named->row, snowflake_named_is_deleted(named), reply_begin(conn));
    return 200;
}

int handle_layouts_list(struct conn *conn)
{
    const struct layout_words_all *all = &api_loop(conn)->backend->snowflake->named;
    uint32_t count = atomic_load_explicit(&all->count, memory_order_acquire);
    const struct layout_words *before = NULL;
    struct buf *json = reply_begin(conn);

    buf_printf(json, "{\"layouts\":[");
    for (uint32_t i = 0; i < count; i++) { /* in the order of names */
        const struct layout_words *named = NULL;

        for (uint32_t k = 0; k < count; k++) {
            const struct layout_words *other = all->items[k];

            if ((before == NULL || strcmp(other->row.name, before->row.name) > 0) &&
                (named == NULL || strcmp(other->row.name, named->row.name) < 0)) {
                named = other;
            }
        }
        before = named;
        buf_printf(json, "%s", i > 0 ? "," : "");
        layout_row_json_put(&named->row, snowflake_named_is_deleted(named), json);
    }
    buf_printf(json, "]}");
    return 200;
}

/* --- changes --- */

static int layout_put_cb(struct conn *conn, struct call *call)
{
    const struct layout_row *row = &call->layout;
    int status = call_status(call);

    switch (status) {
    case 0:
        layout_row_json_put(row, false, reply_begin(conn));
        return 200;
    case ERR_CONFLICT:
        return reply_error(conn, 409, "conflict",
                           "layout %s has other fields already, and what a name means never "
                           "changes, not even when it was deleted: GET /api/layouts/%s shows them",
                           row->name, row->name);
    case ERR_OVERLOADED:
        return reply_error(conn, 503, "overloaded",
                           "there are %d names of layouts already, deleted ones among them",
                           LIMIT_LAYOUTS);
    case ERR_INVALID:
        return reply_error(conn, 400, "bad_request",
                           "by the cluster's time epoch_ms is ahead, or the layout's time is "
                           "over");
    default:
        return status;
    }
}

enum put_field { PRESET, UNIT, EPOCH, TIME_BITS, WORKER_BITS, SEQUENCE_BITS, ORDER, FIELD_COUNT };

int handle_layout_put(struct conn *conn)
{
    struct param fields[FIELD_COUNT] = {
        [PRESET] = {.name = "preset", .kind = PARAM_TEXT},
        [UNIT] = {.name = "unit_ms", .max = UINT16_MAX},
        [EPOCH] = {.name = "epoch_ms", .max = LIMIT_TIME_MAX_MS},
        [TIME_BITS] = {.name = "time_bits", .max = UINT8_MAX},
        [WORKER_BITS] = {.name = "worker_bits", .max = UINT8_MAX},
        [SEQUENCE_BITS] = {.name = "sequence_bits", .max = UINT8_MAX},
        [ORDER] = {.name = "order",
                   .kind = PARAM_WORD,
                   .words = layout_orders,
                   .rule = "is not time-worker-sequence or time-sequence-worker"},
    };
    const struct param *preset = &fields[PRESET];
    struct layout_row row = {.created_ms = clock_wall_ms(api_loop(conn)->backend->clock),
                             .layout.unit_ms = 1};
    struct named_layout *layout = &row.layout;
    struct call *call;
    const char *why;
    size_t len;
    const char *name = layout_path_name(conn, &len);

    if (name == NULL || !request_options(conn, NULL, 0) ||
        !request_body(conn, "a layout's fields", "{}", fields, COUNT_OF(fields))) {
        return ANSWERED;
    }
    if (preset->present && !named_layout_preset(preset->text, preset->len, layout)) {
        return reply_error(conn, 400, "bad_request",
                           "preset=%s is not leaf, js53, twitter, discord, sonyflake or baidu",
                           TEXT_SHOWN(preset->text, preset->len, BODY_SHOWN_BYTES));
    }
    for (unsigned i = EPOCH; i <= SEQUENCE_BITS && !preset->present; i++) {
        if (!fields[i].present) {
            return reply_error(conn, 400, "bad_request", "%s is missing, and so is a preset",
                               fields[i].name);
        }
    }
    /* The given fields override the preset's. */
#define GIVEN(field, member) (fields[field].present ? fields[field].number : (member))
    layout->unit_ms = (uint16_t)GIVEN(UNIT, layout->unit_ms);
    layout->bits.epoch_ms = GIVEN(EPOCH, layout->bits.epoch_ms);
    layout->bits.time_bits = (uint8_t)GIVEN(TIME_BITS, layout->bits.time_bits);
    layout->bits.worker_bits = (uint8_t)GIVEN(WORKER_BITS, layout->bits.worker_bits);
    layout->bits.sequence_bits = (uint8_t)GIVEN(SEQUENCE_BITS, layout->bits.sequence_bits);
    layout->order = (uint8_t)GIVEN(ORDER, layout->order);
#undef GIVEN
    if (named_layout_check(layout, row.created_ms, &why) != 0) {
        return reply_error(conn, 400, "bad_request", "%s", why);
    }
    memcpy(row.name, name, len);
    row.name_len = (uint16_t)len;
    call = call_new(CLUSTER_REQUEST_COMMAND, layout_put_cb);
    call->layout = row;
    command_put(&call->request.payload, COMMAND_LAYOUT_PUT, &row);
    return audited_submit(conn, call, api_loop(conn)->api->settings->default_timeout_ms);
}

static int layout_delete_cb(struct conn *conn, struct call *call)
{
    int status = call_status(call);

    if (status == ERR_NOT_FOUND) {
        return reply_error(conn, 404, "unknown_layout", "there is no layout %s, or no more",
                           call->layout.name);
    }
    return status != 0 ? status : 204;
}

int handle_layout_delete(struct conn *conn)
{
    struct call *call;
    size_t len;
    const char *name = layout_path_name(conn, &len);

    if (name == NULL || !request_options(conn, NULL, 0)) {
        return ANSWERED;
    }
    call = call_new(CLUSTER_REQUEST_COMMAND, layout_delete_cb);
    call->layout = (struct layout_row){.name_len = (uint16_t)len};
    memcpy(call->layout.name, name, len);
    command_put(&call->request.payload, COMMAND_LAYOUT_DELETE,
                &(struct delete_command){.name = call->layout.name,
                                         .name_len = call->layout.name_len,
                                         .wall_ms = clock_wall_ms(api_loop(conn)->backend->clock)});
    return audited_submit(conn, call, api_loop(conn)->api->settings->default_timeout_ms);
}

/* --- decoding ids --- */

/* Is the cluster's layout known here? False: answered. */
static bool snowflake_is_known(struct conn *conn)
{
    const struct snowflake *snowflake = api_loop(conn)->backend->snowflake;

    return atomic_load_explicit(&snowflake->ready, memory_order_acquire) ||
           reply_error(conn, 503, "no_leader",
                       "the cluster's layout is not known on this node yet");
}

bool snowflake_take_apart(struct conn *conn, const struct layout_words *named, uint64_t id,
                          struct snowflake_parts *ret_parts)
{
    if (named != NULL) { /* uses all bits of the id */
        return named_layout_decode(&named->row.layout, id, ret_parts) ||
               reply_error(conn, 400, "bad_request",
                           "id %llu is of no time that can be shown in layout %s", ull(id),
                           named->row.name);
    }
    if (!snowflake_is_known(conn)) {
        return false;
    }
    *ret_parts = snowflake_decode(&api_loop(conn)->backend->snowflake->layout, id);
    return true;
}

int handle_snowflake_decode(struct conn *conn)
{
    struct param options[] = {{.name = "layout", .kind = PARAM_TEXT}};
    const struct snowflake *snowflake = api_loop(conn)->backend->snowflake;
    const char *text = conn_at(conn, conn->request.name_at);
    size_t len = conn->request.name_len;
    struct snowflake_parts parts;
    enum id_form form;
    bool is_long = long_id_read(text, len, &form, &parts);
    const struct layout_words *named;
    struct buf *json;
    uint64_t id = 0;

    if (!request_options(conn, options, 1) || !layout_of(conn, &options[0], &named) ||
        ((named != NULL || !is_long) && !request_path_number(conn, "id", 0, INT64_MAX, &id))) {
        return ANSWERED;
    }
    if (named == NULL && is_long) {
        if (!snowflake_is_known(conn)) {
            return ANSWERED;
        }
        if (!snowflake_parts_fit(&snowflake->layout, &parts)) {
            return reply_error(conn, 400, "bad_request",
                               "%s is not of this cluster: its time, worker id or sequence is "
                               "beyond the layout",
                               TEXT_SHOWN(text, len, SHOWN_BYTES));
        }
        id = snowflake_compose(&snowflake->layout, parts.unix_ms, parts.worker, parts.sequence);
    }
    if (!snowflake_take_apart(conn, named, id, &parts)) {
        return ANSWERED;
    }
    json = reply_begin(conn);
    buf_printf(json, "{\"id\":\"%llu\"", ull(id));
    if (named != NULL) {
        buf_printf(json, ",\"layout\":\"%s\"", named->row.name);
    }
    buf_printf(json, ",\"timestamp_ms\":%llu,\"time\":\"%s\",\"worker_id\":%u,\"sequence\":%u}",
               ull(parts.unix_ms), TEXT_TIME(parts.unix_ms), parts.worker, parts.sequence);
    return 200;
}

/* --- the smallest id of a time --- */

bool snowflake_id_at(struct conn *conn, const struct param *time, const struct param *named,
                     uint64_t *ret_id)
{
    char times[2][TEXT_TIME_BYTES];
    const struct snowflake *snowflake = api_loop(conn)->backend->snowflake;
    const struct layout_words *words;
    struct named_layout layout;
    uint64_t last_ms;
    uint64_t time_ms;

    if (!layout_of(conn, named, &words) || (words == NULL && !snowflake_is_known(conn))) {
        return false;
    }
    layout = words != NULL ? words->row.layout : named_layout_of(&snowflake->layout);
    if (text_parse_time(time->text, time->len, &time_ms) != 0) {
        return reply_error(conn, 400, "bad_request",
                           "time=%s is neither Unix milliseconds nor a time of RFC 3339 with its "
                           "zone, such as 2026-11-20T11:03:58Z",
                           TEXT_SHOWN(time->text, time->len, SHOWN_BYTES));
    }
    last_ms = named_layout_last_ms(&layout);
    return named_layout_at(&layout, time_ms, ret_id) ||
           reply_error(conn, 400, "bad_request",
                       "time=%s is outside the layout, whose times are %llu (%s) to %llu (%s)",
                       TEXT_SHOWN(time->text, time->len, SHOWN_BYTES), ull(layout.bits.epoch_ms),
                       text_time_rfc3339(layout.bits.epoch_ms, times[0]), ull(last_ms),
                       text_time_rfc3339(last_ms, times[1]));
}

int handle_snowflake_at(struct conn *conn)
{
    static const char *const formats[] = {"text", "json", NULL};
    struct param options[] = {
        {.name = "time", .kind = PARAM_TEXT},
        {.name = "layout", .kind = PARAM_TEXT},
        {.name = "format", .kind = PARAM_WORD, .words = formats, .rule = "is not text or json"}};
    struct buf *out;
    uint64_t id;

    if (!request_options(conn, options, COUNT_OF(options))) {
        return ANSWERED;
    }
    if (!options[0].present) {
        return reply_error(conn, 400, "bad_request", "the option time is missing");
    }
    if (!snowflake_id_at(conn, &options[0], &options[1], &id)) {
        return ANSWERED;
    }
    out = reply_begin(conn);
    if (options[2].number == 1) {
        buf_printf(out, "{\"id\":\"%llu\"}", ull(id));
        return 200;
    }
    buf_printf(out, "%llu", ull(id));
    return reply_made(conn, ANSWER_TEXT, NULL);
}

/* --- texts of tags with a shape --- */

/* The id of the text by the row's shape. */
static int decode_cb(struct conn *conn, struct call *call)
{
    const struct buf *reply = &call->request.reply;
    const char *text = call->decode.text;
    size_t len = call->decode.len;
    const struct tag_row *row;
    TAG_ROWS_LOCAL(rows);
    struct buf *json;
    struct shape shape;
    uint64_t id = 0;

    if (tag_rows_decode(reply->data, reply->len, &rows) != 0 || rows.count != 1) {
        return ERR_BAD_MESSAGE;
    }
    row = &rows.rows[0];
    if (row->shape_len == 0) {
        return reply_error(conn, 409, "no_shape", "tag %s has no shape: its ids are numbers",
                           TEXT_SHOWN(row->name, row->name_len, SHOWN_BYTES));
    }
    ASSERT(tag_shape(row->shape, row->shape_len, &shape, NULL) == 0); /* checked by decoding */
    if (!shape_read(&shape, api_loop(conn)->ff1, text, len, &id)) {
        return reply_error(
            conn, 400, "bad_id", "%s is not an id of the shape %s%s",
            TEXT_SHOWN(text, len, SHOWN_BYTES),
            TEXT_SHOWN(row->shape, tag_shape_text_len(row->shape, row->shape_len), SHOWN_BYTES),
            shape.check != SHAPE_CHECK_NONE ? ", or its check is wrong" : "");
    }
    json = reply_begin(conn);
    text_put_field_of(json, "{\"tag\":", row->name, row->name_len);
    buf_printf(json, ",\"id\":\"%llu\",\"granted\":%s}", ull(id),
               id < row->max_id ? "true" : "false");
    return 200;
}

int handle_segment_decode(struct conn *conn)
{
    struct param options[] = {{.name = "text", .kind = PARAM_TEXT}, OPTION_CONSISTENCY};
    char name[LIMIT_TAG_NAME_BYTES];
    struct call *call;
    size_t name_len;

    if (!request_tag_name(conn, name, &name_len) || !request_options(conn, options, 2)) {
        return ANSWERED;
    }
    if (!options[0].present || options[0].len == 0 || options[0].len > SHAPE_ID_BYTES_MAX) {
        return reply_error(conn, 400, "bad_request", "the option text is 1 to %d bytes: an id",
                           SHAPE_ID_BYTES_MAX);
    }
    call = call_new(CLUSTER_REQUEST_QUERY, decode_cb);
    call->request.local = options[1].number == 1;
    call->decode.len = (uint16_t)options[0].len;
    memcpy(call->decode.text, options[0].text, options[0].len);
    query_get_encode(&call->request.payload, name, name_len);
    return call_submit(conn, call);
}

/* --- snowflake ids, as Leaf does --- */

int handle_leaf_decode(struct conn *conn)
{
    static const struct snowflake_layout leaf = SNOWFLAKE_LEAF_LAYOUT;
    struct param options[] = {{.name = "snowflakeId", .kind = PARAM_TEXT}};
    struct buf *json = reply_begin(conn);
    struct snowflake_parts parts;
    char local[TEXT_TIME_BYTES];
    int64_t fraction_ms;
    const char *text;
    bool is_negative;
    uint64_t value;
    size_t at = 0;
    time_t seconds;
    struct tm tm;
    int64_t ms;
    int64_t id;

    if (!request_options(conn, options, 1) || !request_form(conn, options, 1)) {
        return ANSWERED;
    }
    if (!options[0].present) {
        return reply_error(conn, 400, "bad_request", "the option snowflakeId is missing");
    }
    /* As Java's Long.parseLong: an optional sign and digits, in range. */
    text = options[0].text;
    is_negative = options[0].len > 0 && text[0] == '-';
    at += is_negative || (options[0].len > 0 && text[0] == '+');
    while (at + 1 < options[0].len && text[at] == '0') {
        at++;
    }
    if (text_parse_decimal(text + at, options[0].len - at, 0, (uint64_t)INT64_MAX + is_negative,
                           &value) != 0) {
        buf_printf(json, "{\"errorMsg\":\"snowflake Id反解析发生异常!\"}");
        return 200;
    }
    id = (int64_t)(is_negative ? 0 - value : value);
    parts = snowflake_decode(&leaf, (uint64_t)id);
    /* The time has the sign: the shift is arithmetic, as Java's. Negative ids give times before the
     * epoch, back to 1941. */
    ms = (id >> (leaf.worker_bits + leaf.sequence_bits)) + (int64_t)leaf.epoch_ms;
    fraction_ms = (ms % 1000 + 1000) % 1000;
    seconds = (ms - fraction_ms) / 1000;
    ASSERT(localtime_r(&seconds, &tm) != NULL);
    ASSERT(strftime(local, sizeof local, "%Y-%m-%d %H:%M:%S", &tm) > 0);
    buf_printf(json, "{\"workerId\":\"%u\",\"sequenceId\":\"%u\",\"timestamp\":\"%lld(%s.%03d)\"}",
               parts.worker, parts.sequence, (long long)ms, local, (int)fraction_ms);
    return 200;
}
