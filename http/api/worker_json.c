/*
 * worker_json.c - see worker_json.h. Thread: pure functions, any.
 */
#include "http/api/worker_json.h"

#include "http/proto/text.h"
#include "src/base/assert.h"
#include "src/id/codec/command.h"

#define WHAT "a worker id's fields"
#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static int check_texts(const struct body_field *name, const struct body_field *address,
                       struct body_fault *ret_fault)
{
    char shown[BODY_SHOWN_BYTES];

    if (name->len < 1 || name->len > LIMIT_WORKER_NAME_BYTES ||
        tag_name_check(name->text, name->len, NULL) != 0) {
        return body_fail(ret_fault, "bad_request",
                         "name=%s is not 1 to %d bytes of UTF-8 without control characters",
                         text_show(name->text, name->len, shown, sizeof(shown)),
                         LIMIT_WORKER_NAME_BYTES);
    }
    if (address->len > LIMIT_ADDRESS_BYTES ||
        tag_text_check(address->text, address->len, false) != 0) {
        return body_fail(ret_fault, "bad_request",
                         "address=%s is not at most %d bytes of UTF-8 without control characters",
                         text_show(address->text, address->len, shown, sizeof(shown)),
                         LIMIT_ADDRESS_BYTES);
    }
    return 0;
}

int worker_json_read_acquire(const void *body, size_t len, struct worker_acquire *acquire,
                             struct buf *command, struct body_fault *ret_fault)
{
    struct body_field fields[] = {
        {.name = "name", .needed = true, .is_text = true},
        {.name = "address", .is_text = true, .text = ""},
        {.name = "window_ms",
         .min = LIMIT_WINDOW_MIN_MS,
         .max = LIMIT_WINDOW_MAX_MS,
         .number = WORKER_WINDOW_DEFAULT_MS},
        {.name = "worker_id", .max = LIMIT_WORKER_IDS - 1, .number = WORKER_ID_ANY},
        {.name = "from_ms", .max = WORKER_TIME_MAX_MS},
    };
    json_t *object;
    int rv = body_object(body, len, WHAT, fields, COUNT_OF(fields), &object, ret_fault);

    if (rv != 0) {
        return rv;
    }
    rv = check_texts(&fields[0], &fields[1], ret_fault);
    if (rv == 0) {
        acquire->name = fields[0].text;
        acquire->name_len = (uint16_t)fields[0].len;
        acquire->address = fields[1].text;
        acquire->address_len = (uint16_t)fields[1].len;
        acquire->window_ms = fields[2].number;
        acquire->worker_id = (uint16_t)fields[3].number;
        acquire->floor_ms = fields[4].number;
        command_put(command, COMMAND_WORKER_ACQUIRE, acquire);
    }
    json_decref(object);
    return rv;
}

int worker_json_read_renew(const void *body, size_t len, struct worker_renew *renew,
                           struct body_fault *ret_fault)
{
    struct body_field fields[] = {
        {.name = "epoch", .needed = true, .min = 1, .max = WORKER_EPOCH_MAX},
        {.name = "window_ms",
         .min = LIMIT_WINDOW_MIN_MS,
         .max = LIMIT_WINDOW_MAX_MS,
         .number = WORKER_WINDOW_DEFAULT_MS},
        {.name = "last_timestamp_ms", .max = WORKER_TIME_MAX_MS},
        {.name = "expected_until_ms", .max = WORKER_TIME_MAX_MS},
    };
    json_t *object;
    int rv = body_object(body, len, WHAT, fields, COUNT_OF(fields), &object, ret_fault);

    if (rv == 0) {
        renew->epoch = fields[0].number;
        renew->window_ms = fields[1].number;
        renew->last_timestamp_ms = fields[2].number;
        renew->expected_until_ms = fields[3].number;
        json_decref(object);
    }
    return rv;
}

/* Take a field of a release unless the query gave it too. */
static int merge(const struct body_field *field, uint64_t *to, struct body_fault *ret_fault)
{
    if (!field->present) {
        return 0;
    }
    if (*to != 0) {
        return body_fail(ret_fault, "bad_request", "%s is given in the query and in the body",
                         field->name);
    }
    *to = field->number;
    return 0;
}

int worker_json_read_release(const void *body, size_t len, struct worker_release *release,
                             struct body_fault *ret_fault)
{
    struct body_field fields[] = {
        {.name = "epoch", .min = 1, .max = WORKER_EPOCH_MAX},
        {.name = "last_timestamp_ms", .max = WORKER_TIME_MAX_MS},
    };
    json_t *object;
    int rv = body_object(body, len, WHAT, fields, COUNT_OF(fields), &object, ret_fault);

    if (rv != 0) {
        return rv;
    }
    json_decref(object); /* it has no texts */
    rv = merge(&fields[0], &release->epoch, ret_fault);
    return rv != 0 ? rv : merge(&fields[1], &release->last_timestamp_ms, ret_fault);
}

void worker_json_put_grant(const struct worker_row *row, struct buf *buf)
{
    buf_printf(buf, "{\"worker_id\":%u,\"epoch\":%llu,\"from_ms\":%llu,\"until_ms\":%llu}", row->id,
               (unsigned long long)row->epoch, (unsigned long long)row->granted_from_ms,
               (unsigned long long)row->granted_until_ms);
}

void worker_json_put_row(const struct worker_row *row, struct buf *buf)
{
    buf_printf(buf, "{\"worker_id\":%u,\"state\":\"%s\",\"kind\":\"%s\",\"name\":", row->id,
               row->state == WORKER_HELD ? "held" : "released",
               row->kind == WORKER_NODE ? "node" : "client");
    text_put_json(buf, row->name, row->name_len);
    buf_printf(buf, ",\"address\":");
    text_put_json(buf, row->address, row->address_len);
    buf_printf(buf,
               ",\"epoch\":%llu,\"from_ms\":%llu,\"until_ms\":%llu,\"last_timestamp_ms\":%llu,"
               "\"updated_ms\":%llu}",
               (unsigned long long)row->epoch, (unsigned long long)row->granted_from_ms,
               (unsigned long long)row->granted_until_ms,
               (unsigned long long)row->last_timestamp_ms, (unsigned long long)row->updated_ms);
}
