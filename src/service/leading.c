/*
 * leading.c - see leading.h. Thread: the raft loop.
 */
#include "src/service/leading.h"

#include <stdio.h>

#include "src/base/utf8.h"
#include "src/service/dates.h"

/* --- before a command is in the log --- */

/* What a leader proposes by itself. */
static bool leading_is_for_leaders_alone(const void *data, size_t len)
{
    int type = command_number(data, len);

    return type == COMMAND_LAYOUT || type == COMMAND_WINDOW || type == COMMAND_KEYED;
}

bool leading_accepts(enum cluster_request_kind kind, const void *data, size_t len)
{
    struct command_list batch;

    return kind == CLUSTER_REQUEST_LEADER ? windows_read(data, len, &batch) == 0
                                          : !leading_is_for_leaders_alone(data, len);
}

/* Would this put make a tag whose name has what nobody sees? One that is there stays of use. The
 * name of a tag that was deleted is as good as new. */
static bool hides_in_name(const struct fsm *fsm, const struct tag_put *put, char *why, size_t size)
{
    const struct tag_row *row;
    char place[LOOKS_WHY_BYTES];

    if (!looks_hidden(put->name, put->name_len, place)) {
        return false;
    }
    row = fsm_tag(fsm, put->name, put->name_len);
    (void)snprintf(why, size, "name: %s", place);
    return row == NULL || row->deleted;
}

/* Puts that a leader does not propose, which apply would carry out. True: the result is as if apply
 * had refused. */
static bool refuse_puts(const struct fsm *fsm, struct command_list list,
                        struct put_result *ret_refused)
{
    char known[SHAPE_ZONE_BYTES_MAX + 1] = "";
    struct tag_put put;
    bool refused = false;

    *ret_refused = (struct put_result){.status = ERR_INVALID};
    while (!refused && command_next(&list, &put)) {
        refused = hides_in_name(fsm, &put, ret_refused->why, sizeof ret_refused->why) ||
                  dates_refuse(fsm, &put, known, ret_refused->why, sizeof ret_refused->why);
        ret_refused->failed_at += !refused;
    }
    return refused;
}

/* The same of a client's new name for a worker id. */
static bool refuse_worker(const struct fsm *fsm, const struct worker_acquire *acquire)
{
    char place[LOOKS_WHY_BYTES];
    const struct worker_row *row;
    bool refused =
        acquire->kind == WORKER_CLIENT && looks_hidden(acquire->name, acquire->name_len, place);

    for (size_t at = 0; refused && (row = fsm_worker_at(fsm, at)) != NULL; at++) {
        refused = tag_name_compare(row->name, row->name_len, acquire->name, acquire->name_len) != 0;
    }
    return refused;
}

enum service_admission leading_admit(const struct fsm *fsm, bool is_bounded, const void *data,
                                     size_t len, uint64_t *ret_adds_bytes, struct buf *reply)
{
    int type = command_type(data, len);
    bool is_put = command_puts_tags(type);
    struct command command;
    struct put_result puts;

    *ret_adds_bytes = 0;
    if ((!is_put && !command_acquires(type)) || command_read(data, len, &command) != 0) {
        return SERVICE_ADMITS;
    }
    if (is_put && refuse_puts(fsm, command.list, &puts)) {
        put_result_encode(&puts, reply);
        return SERVICE_ANSWERS;
    }
    if (!is_put && refuse_worker(fsm, &command.acquire)) {
        worker_result_encode(&(struct worker_result){.status = ERR_INVALID}, reply);
        return SERVICE_ANSWERS;
    }
    if (is_put && is_bounded) {
        *ret_adds_bytes = fsm_adds(fsm, command.list);
    }
    return SERVICE_ADMITS;
}

/* --- monotonic ids --- */

enum service_lead leading_lead(struct windows *windows, const struct fsm *fsm,
                               struct service_lead_ask *ask, struct window_taken *taken)
{
    const struct window_terms terms = {.round = ask->round_term, .now = ask->term};
    struct command_list batch;

    ask->status = windows_read(ask->payload->data, ask->payload->len, &batch);
    if (ask->status == 0) {
        ask->status = windows_take(windows, fsm, terms, batch, taken);
    }
    if (ask->status == ERR_STALE) {
        return SERVICE_STALE;
    }
    if (ask->status == ERR_EMPTY) {
        return SERVICE_WAITS;
    }
    if (ask->status != 0) {
        return SERVICE_LED;
    }
    results_encode(RESULT_STRICT, taken->results, taken->count, ask->reply);
    if (taken->keyed == 0) {
        return SERVICE_LED;
    }
    windows_keyed(&batch, taken, ask->term, ask->entry); /* R9 */
    return SERVICE_APPENDS;
}

int leading_led(const struct buf *payload, const void *result, size_t len,
                struct window_taken *taken, struct buf *reply)
{
    struct strict_result *results = taken->results;
    struct strict_result said[LIMIT_STRICT_ITEMS];
    struct command_list batch;
    struct strict_item item;
    size_t count = 0;
    size_t said_count = 0;
    size_t at = 0;

    if (windows_read(payload->data, payload->len, &batch) != 0 ||
        results_decode(RESULT_STRICT, reply->data, reply->len, results, LIMIT_STRICT_ITEMS,
                       &count) != 0 ||
        results_decode(RESULT_STRICT, result, len, said, LIMIT_STRICT_ITEMS, &said_count) != 0) {
        return ERR_BAD_MESSAGE;
    }
    for (size_t i = 0; i < count && command_next(&batch, &item); i++) {
        if (window_item_is_keyed(&item, &results[i]) && at < said_count) {
            results[i] = said[at++];
        }
    }
    reply->len = 0;
    results_encode(RESULT_STRICT, results, count, reply);
    return 0;
}
