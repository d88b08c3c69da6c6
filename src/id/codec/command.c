/*
 * command.c - see command.h: the bytes of commands, each from the table of its struct's fields; of
 * queries, and of the answers to commands and queries (answers on worker ids: worker.c).
 */
#include "src/id/codec/command.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/base/container.h"

#define ITEM_SIZE_MAX 128
#define ITEM 1 /* before each item */
#define END 0  /* after the last */

/* The bytes of a type of commands, after the stamp. */
struct form {
    uint16_t since; /* the level that introduced it; 0: there is no such type */
    struct fields fields;
    bool (*is_sound)(const void *record); /* NULL: all readable values are */
    const struct item_format *items;      /* NULL: it has no list; with max: at least 1 item */
};

/* --- items --- */

static const struct field GRANT_FIELDS[] = {
    FIELD_STRING(struct grant_item, name),
    FIELD_NUMBER(struct grant_item, size),
};
static const struct item_format GRANTS =
    ITEM_FORMAT(FIELDS(GRANT_FIELDS), struct grant_item, NULL, LIMIT_GRANTS_PER_ENTRY);

static bool window_is_sound(const void *data)
{
    return ((const struct grant_item *)data)->size >= 1;
}

static const struct item_format WINDOWS =
    ITEM_FORMAT(FIELDS(GRANT_FIELDS), struct grant_item, window_is_sound, LIMIT_GRANTS_PER_ENTRY);

static const struct field PUT_FIELDS[] = {
    FIELD_STRING(struct tag_put, name),        FIELD_NUMBER(struct tag_put, fields),
    FIELD_NUMBER(struct tag_put, max_id),      FIELD_NUMBER(struct tag_put, step),
    FIELD_NUMBER(struct tag_put, max_step),    FIELD_NUMBER(struct tag_put, mode),
    FIELD_STRING(struct tag_put, description), FIELD_NUMBER(struct tag_put, max),
    FIELD_STRING(struct tag_put, shape),       FIELD_NUMBER(struct tag_put, key_number),
    FIELD_STRING(struct tag_put, key),         FIELD_NUMBER(struct tag_put, step_fields),
    FIELD_NUMBER(struct tag_put, increment),   FIELD_NUMBER(struct tag_put, offset),
    FIELD_NUMBER(struct tag_put, cover_s),     FIELD_BOOL(struct tag_put, paused),
    FIELD_STRING(struct tag_put, reason),
};
#define PUT_FIELDS_STEPPED (sizeof PUT_FIELDS / sizeof *PUT_FIELDS)
#define PUT_FIELD_COUNT (PUT_FIELDS_STEPPED - 6)
FIELDS_FLAT(put, PUT_FIELDS, PUT_FIELD_COUNT)
FIELDS_FLAT(put_stepped, PUT_FIELDS, PUT_FIELDS_STEPPED)

/* The bytes of a shape in a put: with one key. */
#define PUT_SHAPE_BYTES_MAX (SHAPE_SPEC_BYTES_MAX + 1 + SHAPE_KEY_BYTES)

static bool put_is_sound(const void *data)
{
    const struct tag_put *put = data;
    bool has_key = (put->fields & TAG_FIELD_KEY) != 0;

    return put->shape_len <= PUT_SHAPE_BYTES_MAX && put->key_number < SHAPE_KEYS_MAX &&
           put->key_len == (has_key ? SHAPE_KEY_BYTES : 0);
}

static const struct item_format PUTS =
    ITEM_FORMAT(FIELDS_STRAIGHT(put, PUT_FIELDS, PUT_FIELD_COUNT), struct tag_put, put_is_sound, 0);
static const struct item_format STEPPED_PUTS = ITEM_FORMAT(
    FIELDS_STRAIGHT(put_stepped, PUT_FIELDS, PUT_FIELDS_STEPPED), struct tag_put, put_is_sound, 0);

static const struct field STRICT_FIELDS[] = {
    FIELD_STRING(struct strict_item, name),  FIELD_STRING(struct strict_item, key),
    FIELD_NUMBER(struct strict_item, count), FIELD_NUMBER(struct strict_item, client),
    FIELD_NUMBER(struct strict_item, most),  FIELD_NUMBER(struct strict_item, period),
};
#define STRICT_FIELD_COUNT (sizeof STRICT_FIELDS / sizeof *STRICT_FIELDS)
FIELDS_FLAT(strict, STRICT_FIELDS, STRICT_FIELD_COUNT)

static bool strict_item_is_sound(const void *data)
{
    const struct strict_item *item = data;

    return item->key_len <= LIMIT_KEY_BYTES && item->count >= 1 && item->count <= LIMIT_COUNT;
}

static const struct item_format STRICTS =
    ITEM_FORMAT(FIELDS_STRAIGHT(strict, STRICT_FIELDS, STRICT_FIELD_COUNT), struct strict_item,
                strict_item_is_sound, LIMIT_STRICT_ITEMS);

static const struct field KEYED_FIELDS[] = {
    FIELD_STRING(struct keyed_item, item.name),  FIELD_STRING(struct keyed_item, item.key),
    FIELD_NUMBER(struct keyed_item, item.count), FIELD_NUMBER(struct keyed_item, item.client),
    FIELD_NUMBER(struct keyed_item, item.most),  FIELD_NUMBER(struct keyed_item, first),
    FIELD_NUMBER(struct keyed_item, generation),
};

static bool keyed_is_sound(const void *data)
{
    const struct keyed_item *keyed = data;

    return strict_item_is_sound(&keyed->item) && keyed->item.key_len >= 1 &&
           keyed->first < TAG_MAX_ID_END && keyed->item.count <= TAG_MAX_ID_END - keyed->first;
}

static const struct item_format KEYEDS =
    ITEM_FORMAT(FIELDS(KEYED_FIELDS), struct keyed_item, keyed_is_sound, LIMIT_STRICT_ITEMS);

static const struct field GIVE_BACK_FIELDS[] = {
    FIELD_STRING(struct give_back_item, name),
    FIELD_NUMBER(struct give_back_item, generation),
    FIELD_NUMBER(struct give_back_item, first),
    FIELD_NUMBER(struct give_back_item, end),
};

static bool give_back_is_sound(const void *data)
{
    const struct give_back_item *item = data;

    return item->first < item->end && item->end <= TAG_MAX_ID_END;
}

static const struct item_format GIVE_BACKS = ITEM_FORMAT(
    FIELDS(GIVE_BACK_FIELDS), struct give_back_item, give_back_is_sound, LIMIT_GRANTS_PER_ENTRY);

static const struct field RECALLED_FIELDS[] = {
    FIELD_STRING(struct recalled_item, name),
    FIELD_NUMBER(struct recalled_item, generation),
};
static const struct item_format RECALLS =
    ITEM_FORMAT(FIELDS(RECALLED_FIELDS), struct recalled_item, NULL, LIMIT_GRANTS_PER_ENTRY);

/* --- commands --- */

static const struct field LIST_FIELDS[] = {FIELD_NUMBER(struct command_list, wall_ms)};

static const struct field PUT_LIST_FIELDS[] = {
    FIELD_BOOL(struct command_list, force),
    FIELD_BOOL(struct command_list, is_dump),
    FIELD_NUMBER(struct command_list, wall_ms),
};

static const struct field PUT_BY_LIST_FIELDS[] = {
    FIELD_BOOL(struct command_list, force),     FIELD_BOOL(struct command_list, is_dump),
    FIELD_NUMBER(struct command_list, wall_ms), FIELD_NUMBER(struct command_list, client),
    FIELD_NUMBER(struct command_list, most),
};

static bool put_by_is_sound(const void *data)
{
    return ((const struct command_list *)data)->client != 0;
}

static const struct field STRICT_LIST_FIELDS[] = {
    FIELD_NUMBER(struct command_list, wall_ms),
    FIELD_NUMBER(struct command_list, key_limit),
    FIELD_NUMBER(struct command_list, key_share),
};

static const struct field KEYED_LIST_FIELDS[] = {
    FIELD_NUMBER(struct command_list, wall_ms),
    FIELD_NUMBER(struct command_list, term),
    FIELD_NUMBER(struct command_list, key_limit),
    FIELD_NUMBER(struct command_list, key_share),
};

static const struct field DELETE_FIELDS[] = {
    FIELD_NUMBER(struct delete_command, wall_ms),
    FIELD_STRING(struct delete_command, name),
};

static const struct field ACQUIRE_FIELDS[] = {
    FIELD_NUMBER(struct worker_acquire, kind),
    FIELD_SHORT(struct worker_acquire, worker_id),
    FIELD_NUMBER(struct worker_acquire, floor_ms),
    FIELD_NUMBER(struct worker_acquire, window_ms),
    FIELD_NUMBER(struct worker_acquire, wall_ms),
    FIELD_STRING(struct worker_acquire, name),
    FIELD_STRING(struct worker_acquire, address),
    FIELD_NUMBER(struct worker_acquire, client),
    FIELD_NUMBER(struct worker_acquire, most),
    FIELD_NUMBER(struct worker_acquire, percent),
    FIELD_BOOL(struct worker_acquire, force),
    /* Of WORKER_ACQUIRE_OF, which begins after the first two: */
    FIELD_NUMBER(struct worker_acquire, bits),
    FIELD_STRING(struct worker_acquire, zone),
    FIELD_NUMBER(struct worker_acquire, kind),
    FIELD_NUMBER(struct worker_acquire, worker_id),
};
#define ACQUIRE_FIELD_COUNT (sizeof ACQUIRE_FIELDS / sizeof *ACQUIRE_FIELDS)

/* A client's worker id has an owner; a node's has none. */
static bool has_owner(uint8_t kind, uint64_t client)
{
    return (kind == WORKER_CLIENT) == (client != 0);
}

static bool acquire_is_sound(const void *data)
{
    const struct worker_acquire *acquire = data;

    return has_owner(acquire->kind, acquire->client) &&
           (acquire->kind != WORKER_CLIENT || (acquire->percent >= 1 && acquire->percent <= 100));
}

static bool acquire_of_is_sound(const void *data)
{
    const struct worker_acquire *acquire = data;

    return acquire_is_sound(data) && acquire->bits <= WORKER_BITS_MAX &&
           acquire->zone_len <= LIMIT_ZONE_BYTES;
}

static const struct field POOLS_FIELDS[] = {FIELD_STRING(struct worker_pools_put, pools)};

static const struct field RENEW_FIELDS[] = {
    FIELD_SHORT(struct worker_renew, worker_id),
    FIELD_NUMBER(struct worker_renew, epoch),
    FIELD_NUMBER(struct worker_renew, expected_until_ms),
    FIELD_NUMBER(struct worker_renew, window_ms),
    FIELD_NUMBER(struct worker_renew, last_timestamp_ms),
    FIELD_NUMBER(struct worker_renew, wall_ms),
    FIELD_NUMBER(struct worker_renew, kind),
    FIELD_NUMBER(struct worker_renew, client),
    FIELD_NUMBER(struct worker_renew, worker_id), /* of _OF, in place of the first */
};
#define RENEW_FIELD_COUNT (sizeof RENEW_FIELDS / sizeof *RENEW_FIELDS - 1)

static bool renew_is_sound(const void *data)
{
    const struct worker_renew *renew = data;

    return has_owner(renew->kind, renew->client);
}

static const struct field RELEASE_FIELDS[] = {
    FIELD_SHORT(struct worker_release, worker_id),
    FIELD_NUMBER(struct worker_release, epoch),
    FIELD_NUMBER(struct worker_release, last_timestamp_ms),
    FIELD_NUMBER(struct worker_release, kind),
    FIELD_NUMBER(struct worker_release, client),
    FIELD_BOOL(struct worker_release, force),
    FIELD_NUMBER(struct worker_release, worker_id), /* of _OF, in place of the first */
};
#define RELEASE_FIELD_COUNT (sizeof RELEASE_FIELDS / sizeof *RELEASE_FIELDS - 1)

static bool release_is_sound(const void *data)
{
    const struct worker_release *release = data;

    return has_owner(release->kind, release->client);
}

/* By type: its first level, its fields, its check, its items. */
static const struct form FORMS[] = {
    [COMMAND_GRANT] = {1, FIELDS(LIST_FIELDS), NULL, &GRANTS},
    [COMMAND_TAGS_PUT] = {1, FIELDS(PUT_LIST_FIELDS), NULL, &PUTS},
    [COMMAND_TAG_DELETE] = {1, FIELDS(DELETE_FIELDS), NULL, NULL},
    [COMMAND_LAYOUT] = {1, FIELDS(snowflake_layout_fields), NULL, NULL},
    [COMMAND_WORKER_ACQUIRE] = {1, FIELDS_FIRST(ACQUIRE_FIELDS, ACQUIRE_FIELD_COUNT - 4),
                                acquire_is_sound, NULL},
    [COMMAND_WORKER_RENEW] = {1, FIELDS_FIRST(RENEW_FIELDS, RENEW_FIELD_COUNT), renew_is_sound,
                              NULL},
    [COMMAND_WORKER_RELEASE] = {1, FIELDS_FIRST(RELEASE_FIELDS, RELEASE_FIELD_COUNT),
                                release_is_sound, NULL},
    [COMMAND_STRICT] = {1, FIELDS(STRICT_LIST_FIELDS), NULL, &STRICTS},
    [COMMAND_GIVE_BACK] = {1, FIELDS(LIST_FIELDS), NULL, &GIVE_BACKS},
    [COMMAND_RECALLED] = {.since = 1, .items = &RECALLS},
    [COMMAND_WINDOW] = {1, FIELDS(LIST_FIELDS), NULL, &WINDOWS},
    [COMMAND_KEYED] = {1, FIELDS(KEYED_LIST_FIELDS), NULL, &KEYEDS},
    [COMMAND_LAYOUT_PUT] = {1, FIELDS_FIRST(layout_put_fields, LAYOUT_PUT_FIELDS), NULL, NULL},
    [COMMAND_LAYOUT_DELETE] = {1, FIELDS(DELETE_FIELDS), NULL, NULL},
    [COMMAND_TAGS_PUT_BY] = {2, FIELDS(PUT_BY_LIST_FIELDS), put_by_is_sound, &PUTS},
    [COMMAND_TAGS_PUT_STEPPED] = {3, FIELDS(PUT_BY_LIST_FIELDS), NULL, &STEPPED_PUTS},
    [COMMAND_WORKER_ACQUIRE_OF] = {3, FIELDS_FIRST(ACQUIRE_FIELDS + 2, ACQUIRE_FIELD_COUNT - 2),
                                   acquire_of_is_sound, NULL},
    [COMMAND_WORKER_POOLS] = {3, FIELDS(POOLS_FIELDS), NULL, NULL},
    [COMMAND_WORKER_RENEW_OF] = {3, FIELDS_FIRST(RENEW_FIELDS + 1, RENEW_FIELD_COUNT),
                                 renew_is_sound, NULL},
    [COMMAND_WORKER_RELEASE_OF] = {3, FIELDS_FIRST(RELEASE_FIELDS + 1, RELEASE_FIELD_COUNT),
                                   release_is_sound, NULL},
};

/* --- writing --- */

static bool id_is_wide(uint32_t id)
{
    return id >= WORKER_IDS_NARROW && id != WORKER_ID_ANY;
}

enum command_type command_type_for(enum command_type type, const void *record)
{
    const struct command_list *head = record;
    const struct worker_acquire *acquire = record;
    const struct worker_renew *renew = record;
    const struct worker_release *release = record;

    switch (type) {
    case COMMAND_TAGS_PUT:
        return head->stepped       ? COMMAND_TAGS_PUT_STEPPED
               : head->client != 0 ? COMMAND_TAGS_PUT_BY
                                   : type;
    case COMMAND_WORKER_ACQUIRE:
        return acquire->bits != 0 || acquire->zone_len != 0 || id_is_wide(acquire->worker_id)
                   ? COMMAND_WORKER_ACQUIRE_OF
                   : type;
    case COMMAND_WORKER_RENEW:
        return id_is_wide(renew->worker_id) ? COMMAND_WORKER_RENEW_OF : type;
    default:
        ASSERT(type == COMMAND_WORKER_RELEASE);
        return id_is_wide(release->worker_id) ? COMMAND_WORKER_RELEASE_OF : type;
    }
}

void command_put(struct buf *buf, enum command_type type, const void *record)
{
    command_fields_put(buf, type, &FORMS[type].fields, record);
}

void command_item_put(struct buf *buf, enum command_type type, const void *item)
{
    const struct item_format *items = FORMS[type].items;

    ASSERT(items != NULL && buf->data[1] == type);
    ASSERT(items->is_sound == NULL || items->is_sound(item));
    buf_put_u8(buf, ITEM);
    fields_put(buf, &items->fields, item);
}

void command_items_end(struct buf *buf)
{
    buf_put_u8(buf, END);
}

/* --- reading --- */

int command_type(const void *data, size_t len)
{
    int type = command_number(data, len);

    return type >= 0 && command_since(type) == 0 ? ERR_NEWER : type;
}

uint16_t command_since(int type)
{
    return type >= 0 && (size_t)type < sizeof FORMS / sizeof FORMS[0] ? FORMS[type].since : 0;
}

bool command_next(struct command_list *list, void *ret_item)
{
    const struct item_format *of = list->of;
    uint8_t mark = reader_u8(&list->items);

    if (list->items.bad || mark == END) {
        return false;
    }
    memset(ret_item, 0, of->size);
    if (mark != ITEM || !fields_read(&list->items, &of->fields, ret_item) ||
        (of->is_sound != NULL && !of->is_sound(ret_item))) {
        list->items.bad = true;
    }
    return !list->items.bad;
}

int command_read(const void *data, size_t len, struct command *ret_command)
{
    _Alignas(max_align_t) unsigned char item[ITEM_SIZE_MAX];
    int type = command_type(data, len);
    struct command_list *list = &ret_command->list;
    struct command_list walk;
    const struct form *form;
    struct reader reader;

    memset(ret_command, 0, sizeof *ret_command);
    if (type < 0 || session_stamp_read(data, len, &ret_command->stamp) != 0) {
        return ERR_BAD_MESSAGE;
    }
    ret_command->type = (enum command_type)type;
    form = &FORMS[type];
    reader_init(&reader, data, len);
    (void)reader_bytes(&reader, SESSION_STAMP_AT + SESSION_STAMP_BYTES);
    if (!fields_read(&reader, &form->fields, list) ||
        (form->is_sound != NULL && !form->is_sound(list))) {
        return ERR_BAD_MESSAGE;
    }
    if (form->items != NULL) { /* all must be well formed, and the end of the command */
        ASSERT(form->items->size <= sizeof item);
        list->of = form->items;
        list->items = reader;
        walk = *list;
        while (command_next(&walk, item)) {
            list->count++;
        }
        reader = walk.items;
        if (list->of->max != 0 && (list->count < 1 || list->count > list->of->max)) {
            return ERR_BAD_MESSAGE;
        }
    }
    if (type == COMMAND_WORKER_ACQUIRE && ret_command->acquire.worker_id == UINT16_MAX) {
        ret_command->acquire.worker_id = WORKER_ID_ANY; /* it has 2 bytes there */
    }
    return reader_done(&reader) ? 0 : ERR_BAD_MESSAGE;
}

/* --- one item for the batcher --- */

void strict_item_encode(const struct strict_item *item, struct buf *buf)
{
    ASSERT(strict_item_is_sound(item));
    message_fields_put(buf, REQUEST_STRICT, &STRICTS.fields, item);
}

int strict_item_decode(const void *data, size_t len, struct strict_item *ret_item)
{
    return message_fields_read(data, len, REQUEST_STRICT, &STRICTS.fields, ret_item) &&
                   strict_item_is_sound(ret_item)
               ? 0
               : ERR_BAD_MESSAGE;
}

/* --- queries --- */

static const struct field QUERY_GET_FIELDS[] = {FIELD_STRING(struct query, name)};

static const struct field QUERY_LIST_FIELDS[] = {
    FIELD_STRING(struct query, name),
    FIELD_STRING(struct query, after),
    FIELD_NUMBER(struct query, limit),
};

static const struct field QUERY_WORKERS_FIELDS[] = {
    FIELD_SHORT(struct query, first), FIELD_NUMBER(struct query, limit),
    FIELD_NUMBER(struct query, first), /* of WORKERS_WIDE, in place of the first */
};

/* By type; and the highest limit. */
static const struct {
    struct fields fields;
    uint32_t limit;
} QUERIES[] = {
    [QUERY_TAG_GET] = {FIELDS(QUERY_GET_FIELDS), 0},
    [QUERY_TAG_LIST] = {FIELDS(QUERY_LIST_FIELDS), LIMIT_TAGS_PER_PAGE},
    [QUERY_WORKERS] = {FIELDS_FIRST(QUERY_WORKERS_FIELDS, 2), WORKER_ROWS_MAX},
    [QUERY_WORKERS_WIDE] = {FIELDS_FIRST(QUERY_WORKERS_FIELDS + 1, 2), WORKER_ROWS_MAX},
    [QUERY_POOLS] = {FIELDS(QUERY_GET_FIELDS), 0},
};

static void query_put(struct buf *buf, const struct query *query)
{
    message_fields_put(buf, QUERY_BASE + query->type, &QUERIES[query->type].fields, query);
}

void query_get_encode(struct buf *buf, const char *name, size_t name_len)
{
    query_put(buf,
              &(struct query){.type = QUERY_TAG_GET, .name = name, .name_len = (uint16_t)name_len});
}

void query_list_encode(struct buf *buf, const char *prefix, size_t prefix_len, const char *after,
                       size_t after_len, uint32_t limit)
{
    query_put(buf, &(struct query){.type = QUERY_TAG_LIST,
                                   .name = prefix,
                                   .name_len = (uint16_t)prefix_len,
                                   .after = after,
                                   .after_len = (uint16_t)after_len,
                                   .limit = limit});
}

void query_pools_encode(struct buf *buf)
{
    query_put(buf, &(struct query){.type = QUERY_POOLS, .name = ""});
}

void query_workers_encode(struct buf *buf, uint32_t first, uint16_t limit)
{
    query_put(buf, &(struct query){.type = first <= UINT16_MAX ? QUERY_WORKERS : QUERY_WORKERS_WIDE,
                                   .first = first,
                                   .limit = limit});
}

int query_decode(const void *data, size_t len, struct query *ret_query)
{
    unsigned type = len > 1 ? ((const uint8_t *)data)[1] - (unsigned)QUERY_BASE : 0;
    struct query query = {.type = (enum query_type)type};

    if (type >= sizeof QUERIES / sizeof QUERIES[0] || QUERIES[type].fields.count == 0 ||
        !message_fields_read(data, len, QUERY_BASE + type, &QUERIES[type].fields, &query) ||
        query.limit > QUERIES[type].limit || (query.limit < 1) != (QUERIES[type].limit == 0) ||
        (type == QUERY_WORKERS_WIDE && query.first <= UINT16_MAX)) {
        return ERR_BAD_MESSAGE;
    }
    query.type = type == QUERY_WORKERS_WIDE ? QUERY_WORKERS : query.type;
    *ret_query = query;
    return 0;
}

/* --- results --- */

static const struct field GRANT_RESULT_FIELDS[] = {
    FIELD_NUMBER(struct grant_result, status),    FIELD_NUMBER(struct grant_result, size),
    FIELD_NUMBER(struct grant_result, first),     FIELD_NUMBER(struct grant_result, generation),
    FIELD_NUMBER(struct grant_result, step),      FIELD_NUMBER(struct grant_result, max_step),
    FIELD_NUMBER(struct grant_result, increment), /* of the stepped form */
};

static bool grant_result_is_sound(const void *data)
{
    const struct grant_result *result = data;

    return result->status <= 0 && (result->status == 0) == (result->size > 0) &&
           result->increment <= LIMIT_TAG_INCREMENT;
}

static const struct field STRICT_RESULT_FIELDS[] = {
    FIELD_NUMBER(struct strict_result, status),     FIELD_BOOL(struct strict_result, replayed),
    FIELD_NUMBER(struct strict_result, generation), FIELD_NUMBER(struct strict_result, first),
    FIELD_NUMBER(struct strict_result, increment), /* of the stepped form */
};
#define STRICT_RESULT_FIELD_COUNT (COUNT_OF(STRICT_RESULT_FIELDS) - 1)
FIELDS_FLAT(strict_result, STRICT_RESULT_FIELDS, STRICT_RESULT_FIELD_COUNT)

static bool strict_result_is_sound(const void *data)
{
    const struct strict_result *result = data;

    return result->status <= 0 && (result->status == 0 || !result->replayed) &&
           result->increment <= LIMIT_TAG_INCREMENT;
}

static const struct field STATUS_FIELDS[] = {{FIELD_KIND_U32, 0, sizeof(int32_t), 0}};

static bool status_result_is_sound(const void *status)
{
    return *(const int32_t *)status <= 0;
}

/* The results of lists. Where they can have an increment they have another form, in which all have
 * one. */
static const struct results {
    enum result_type type;
    enum result_type stepped;
    size_t increment_at; /* in an item's struct, a uint32_t; 0: they have none */
    struct item_format format;
    struct item_format stepped_format;
} RESULTS[] = {
    {RESULT_GRANTS, RESULT_GRANTS_STEPPED, offsetof(struct grant_result, increment),
     ITEM_FORMAT(FIELDS_FIRST(GRANT_RESULT_FIELDS, COUNT_OF(GRANT_RESULT_FIELDS) - 1),
                 struct grant_result, grant_result_is_sound, LIMIT_GRANTS_PER_ENTRY),
     ITEM_FORMAT(FIELDS(GRANT_RESULT_FIELDS), struct grant_result, grant_result_is_sound,
                 LIMIT_GRANTS_PER_ENTRY)},
    {RESULT_STRICT, RESULT_STRICT_STEPPED, offsetof(struct strict_result, increment),
     ITEM_FORMAT(FIELDS_STRAIGHT(strict_result, STRICT_RESULT_FIELDS, STRICT_RESULT_FIELD_COUNT),
                 struct strict_result, strict_result_is_sound, LIMIT_STRICT_ITEMS),
     ITEM_FORMAT(FIELDS(STRICT_RESULT_FIELDS), struct strict_result, strict_result_is_sound,
                 LIMIT_STRICT_ITEMS)},
    {.type = RESULT_STATUSES,
     .format = ITEM_FORMAT(FIELDS(STATUS_FIELDS), int32_t, status_result_is_sound,
                           LIMIT_GRANTS_PER_ENTRY)},
};

static const struct results *results_of(enum result_type type)
{
    const struct results *of = RESULTS;

    while (of->type != type) {
        of++;
        ASSERT(of < RESULTS + COUNT_OF(RESULTS));
    }
    return of;
}

/* The head of a result of the type, or of its stepped form; 0: it has none. */
static bool result_head_read(struct reader *reader, const void *data, size_t len,
                             enum result_type type, enum result_type stepped, bool *ret_stepped)
{
    *ret_stepped = len > 1 && stepped != 0 && ((const uint8_t *)data)[1] == stepped;
    return message_head_read(reader, data, len, *ret_stepped ? stepped : type);
}

void results_encode(enum result_type type, const void *results, size_t count, struct buf *buf)
{
    const struct results *of = results_of(type);
    const struct item_format *format = &of->format;
    const char *increment = (const char *)results + of->increment_at;
    const char *item = results;
    bool stepped = false;

    for (size_t i = 0; i < count && of->increment_at != 0; i++, increment += format->size) {
        stepped |= *(const uint32_t *)(const void *)increment != 0;
    }
    format = stepped ? &of->stepped_format : format;
    ASSERT(count <= format->max);
    message_head_put(buf, stepped ? of->stepped : of->type);
    buf_reserve(buf, sizeof(uint32_t) + count * format->size); /* enough, except for long strings */
    buf_put_u32(buf, (uint32_t)count);
    for (size_t i = 0; i < count; i++, item += format->size) {
        ASSERT(format->is_sound == NULL || format->is_sound(item));
        fields_put(buf, &format->fields, item);
    }
}

int results_decode(enum result_type type, const void *data, size_t len, void *ret_results,
                   size_t max, size_t *ret_count)
{
    const struct results *of = results_of(type);
    struct reader reader;
    bool stepped;

    return result_head_read(&reader, data, len, type, of->stepped, &stepped)
               ? message_items_read(&reader, stepped ? &of->stepped_format : &of->format,
                                    ret_results, max, ret_count)
               : ERR_BAD_MESSAGE;
}

static const struct field PUT_RESULT_FIELDS[] = {
    FIELD_NUMBER(struct put_result, status), FIELD_NUMBER(struct put_result, failed_at),
    FIELD_NUMBER(struct put_result, made),   FIELD_NUMBER(struct put_result, changed),
    FIELD_NUMBER(struct put_result, max_id), FIELD_NUMBER(struct put_result, asked),
    FIELD_TEXT(struct put_result, why),
};
static const struct fields PUT_RESULT = FIELDS(PUT_RESULT_FIELDS);

/* The format of rows in messages. */
static const struct item_format *row_items(bool stepped)
{
    return stepped ? &tag_stepped_item_format : &tag_item_format;
}

void put_result_encode(const struct put_result *result, struct buf *buf)
{
    bool stepped = result->status == 0 && tag_form(&result->first) == TAG_FORM_STEPPED;

    ASSERT(result->status <= 0);
    message_head_put(buf, stepped ? RESULT_PUT_STEPPED : RESULT_PUT);
    fields_put(buf, &PUT_RESULT, result);
    if (result->status == 0) {
        fields_put(buf, &row_items(stepped)->fields, &result->first);
    }
}

int put_result_decode(const void *data, size_t len, struct put_result *ret_result)
{
    struct reader reader;
    struct put_result result = {0};
    bool stepped;

    if (!result_head_read(&reader, data, len, RESULT_PUT, RESULT_PUT_STEPPED, &stepped) ||
        !fields_read(&reader, &PUT_RESULT, &result)) {
        return ERR_BAD_MESSAGE;
    }
    if ((result.status == 0 && (!fields_read(&reader, &row_items(stepped)->fields, &result.first) ||
                                !row_items(stepped)->is_sound(&result.first))) ||
        !reader_done(&reader)) {
        return ERR_BAD_MESSAGE;
    }
    *ret_result = result;
    return 0;
}

static const struct field NEXT_FIELDS[] = {FIELD_CHARS(struct tag_rows, next)};
static const struct fields NEXT = FIELDS(NEXT_FIELDS);

void tag_rows_encode(const struct tag_row *rows, size_t count, const struct tag_row *next,
                     struct buf *buf)
{
    bool stepped = false;

    ASSERT(count <= LIMIT_TAGS_PER_PAGE);
    for (size_t i = 0; i < count; i++) {
        stepped = stepped || tag_form(&rows[i]) == TAG_FORM_STEPPED;
    }
    message_head_put(buf, stepped ? RESULT_ROWS_STEPPED : RESULT_ROWS);
    buf_put_str16(buf, next != NULL ? next->name : NULL, next != NULL ? next->name_len : 0);
    buf_put_u32(buf, (uint32_t)count);
    for (size_t i = 0; i < count; i++) {
        fields_put(buf, &row_items(stepped)->fields, &rows[i]);
    }
}

int tag_rows_decode(const void *data, size_t len, struct tag_rows *ret_rows)
{
    struct reader reader;
    struct tag_rows rows = {0};
    bool stepped;

    if (!result_head_read(&reader, data, len, RESULT_ROWS, RESULT_ROWS_STEPPED, &stepped) ||
        !fields_read(&reader, &NEXT, &rows)) {
        return ERR_BAD_MESSAGE;
    }
    rows.rows = message_items_read_all(&reader, row_items(stepped), &rows.count);
    if (rows.rows == NULL) {
        return ERR_BAD_MESSAGE;
    }
    *ret_rows = rows;
    return 0;
}

void tag_rows_release(struct tag_rows *rows)
{
    free(rows->rows);
    *rows = (struct tag_rows){0};
}

/* --- tag_marks --- */

void tag_names_begin(struct tag_names *names, const void *command, size_t len)
{
    struct command *of = &names->of;

    names->left = 0;
    if (command_read(command, len, of) != 0) {
        return;
    }
    if (command_puts_tags((int)of->type) && of->list.count <= LIMIT_TAGS_PER_BULK) {
        names->left = of->list.count;
    } else if (of->type == COMMAND_TAG_DELETE) {
        names->left = 1;
    }
}

bool tag_names_next(struct tag_names *names, const char **ret_name, size_t *ret_len)
{
    struct tag_put put;
    bool there;

    if (names->left == 0) {
        return false;
    }
    names->left--;
    if (names->of.type == COMMAND_TAG_DELETE) {
        *ret_name = names->of.deletion.name;
        *ret_len = names->of.deletion.name_len;
        return true;
    }
    there = command_next(&names->of.list, &put);
    ASSERT(there);
    *ret_name = put.name;
    *ret_len = put.name_len;
    return true;
}
