/*
 * fsm_grants.c - see fsm_tables.h: keys and grants.
 */
#include "src/id/fsm/fsm_tables.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/base/container.h"
#include "src/base/fields.h"
#include "src/base/hash.h"

/* --- fsm_keys --- */

_Static_assert(2 + LIMIT_TAG_NAME_BYTES + LIMIT_KEY_BYTES <= LIMIT_ROW_KEY_BYTES, "a row's key");
_Static_assert(LIMIT_TAG_NAME_BYTES <= UINT8_MAX && LIMIT_KEY_BYTES <= UINT8_MAX, "lengths");
_Static_assert(LIMIT_STRICT_ITEMS <= UINT16_MAX, "positions");

static const struct field VALUE_FIELDS[] = {
    FIELD_NUMBER(struct fsm_key_ids, first),
    FIELD_NUMBER(struct fsm_key_ids, count),
    FIELD_NUMBER(struct fsm_key_ids, at_ms),
    FIELD_NUMBER(struct fsm_key_ids, index),
    FIELD_NUMBER(struct fsm_key_ids, position),
    FIELD_NUMBER(struct fsm_key_ids, client),    /* if counted, or stepped */
    FIELD_NUMBER(struct fsm_key_ids, increment), /* if stepped */
};
#define VALUE_FIELD_COUNT (sizeof VALUE_FIELDS / sizeof *VALUE_FIELDS)

static bool value_is_sound(const void *data)
{
    const struct fsm_key_ids *key = data;

    return key->count >= 1 && key->count <= LIMIT_COUNT && key->increment != 1 &&
           key->increment <= LIMIT_TAG_INCREMENT &&
           key->first <= (uint64_t)TAG_MAX_ID_END - ids_end(0, key->count, key->increment) &&
           key->at_ms >= 1 && key->position < LIMIT_STRICT_ITEMS;
}

static const struct row_format PLAIN =
    ROW_FORMAT(ROW_VERSION, FIELDS_FIRST(VALUE_FIELDS, VALUE_FIELD_COUNT - 2), value_is_sound);
/* The row of a key that counts for a client. */
static const struct row_format COUNTED =
    ROW_FORMAT(ROW_VERSION + 1, FIELDS_FIRST(VALUE_FIELDS, VALUE_FIELD_COUNT - 1), value_is_sound);
/* The row of a key whose ids have an increment. */
static const struct row_format STEPPED =
    ROW_FORMAT(ROW_VERSION + 2, FIELDS(VALUE_FIELDS), value_is_sound);

static const struct row_format *value_format(const struct fsm_key_ids *value)
{
    return value->increment != 0 ? &STEPPED : value->client != 0 ? &COUNTED : &PLAIN;
}

static int value_read(const struct row_loaded *loaded, struct fsm_key_ids *ret_value)
{
    const uint8_t *bytes = loaded->value;
    uint8_t version = loaded->value_len > 0 ? bytes[0] : 0;
    const struct row_format *format = version == STEPPED.version   ? &STEPPED
                                      : version == COUNTED.version ? &COUNTED
                                                                   : &PLAIN;
    int err = row_read(bytes, loaded->value_len, format, ret_value);

    return err == 0 && format != value_format(ret_value) ? ERR_CORRUPT : err;
}

static uint32_t key_link_hash(const struct hash_link *link)
{
    return CONTAINER(link, const struct fsm_key, link)->hash;
}

static uint32_t key_hash(const struct fsm_keys *keys, const struct fsm_row *row, const char *key,
                         size_t len)
{
    return (uint32_t)hash_bytes(key, len, (uintptr_t)row ^ keys->table.seed);
}

/* Memory of a key: its piece of malloc, and its bucket. */
static uint64_t key_bytes(size_t len)
{
    return (offsetof(struct fsm_key, key) + len + 8 + 15) / 16 * 16 + sizeof(struct hash_link *);
}

void fsm_keys_init(struct fsm_keys *keys, struct fsm_tags *tags)
{
    keys->journal = tags->journal;
    keys->tags = tags;
    TAILQ_INIT(&keys->ages);
    hash_table_init(&keys->table, key_link_hash);
    fsm_owners_init(&keys->owners);
}

void fsm_keys_moved(struct fsm_keys *keys, struct fsm_tags *tags)
{
    struct fsm_key *first = keys->ages.tqh_first;

    keys->journal = tags->journal;
    keys->tags = tags;
    if (first != NULL) {
        first->age.tqe_prev = &keys->ages.tqh_first;
    } else {
        TAILQ_INIT(&keys->ages);
    }
}

void fsm_keys_clear(struct fsm_keys *keys)
{
    struct fsm_key *key;

    while ((key = TAILQ_FIRST(&keys->ages)) != NULL) {
        TAILQ_REMOVE(&keys->ages, key, age);
        fsm_owners_leave(&keys->owners, key->owner, 1);
        free(key);
    }
    hash_table_free(&keys->table);
    fsm_owners_clear(&keys->owners);
    keys->bytes = 0;
}

/* --- age --- */

static int age_order(const void *a, const void *b)
{
    const struct fsm_key *left = *(struct fsm_key *const *)a;
    const struct fsm_key *right = *(struct fsm_key *const *)b;

    if (left->index != right->index) {
        return left->index < right->index ? -1 : 1;
    }
    return left->position < right->position ? -1 : left->position > right->position;
}

static struct fsm_key_ids ids_of(const struct fsm_key *key)
{
    return (struct fsm_key_ids){
        .first = key->first,
        .at_ms = key->at_ms,
        .index = key->index,
        .client = key->owner != NULL ? key->owner->client : 0,
        .count = key->count,
        .increment = key->increment,
        .position = key->position,
    };
}

/* Can a key of these ids directly follow `older`? An item makes one key, and the log's time never
 * falls, nor changes within an entry. */
static bool age_fits(const struct fsm_key *older, const struct fsm_key_ids *ids)
{
    if (older->index == ids->index) {
        return older->position < ids->position && older->at_ms == ids->at_ms;
    }
    return older->index < ids->index && older->at_ms <= ids->at_ms;
}

/* --- one key --- */

/* Put the key's row, key and value, into the journal. */
static void key_journal(struct fsm_keys *keys, const struct fsm_key *key)
{
    struct buf *row = &keys->journal->row;
    const struct fsm_key_ids value = ids_of(key);

    journal_key(keys->journal, FSM_TABLE_KEYS);
    buf_put_u8(row, (uint8_t)key->row->name_len);
    buf_put(row, key->row->name, key->row->name_len);
    buf_put(row, key->key, key->len);
    journal_record(keys->journal, value_format(&value), &value);
}

/* Add a key of these ids as the youngest, and to the digest. */
static void key_enter(struct fsm_keys *keys, struct fsm_row *row, const char *text, size_t len,
                      const struct fsm_key_ids *ids)
{
    struct fsm_key *key = MUST_HAVE(malloc(offsetof(struct fsm_key, key) + len));

    ASSERT(len >= 1 && len <= LIMIT_KEY_BYTES && keys->table.count < LIMIT_KEYS);
    key->row = row;
    key->owner = fsm_owners_enter(&keys->owners, ids->client, 1);
    key->first = ids->first;
    key->count = ids->count;
    key->increment = ids->increment;
    key->at_ms = ids->at_ms;
    key->index = ids->index;
    key->position = ids->position;
    key->hash = key_hash(keys, row, text, len);
    key->len = (uint8_t)len;
    memcpy(key->key, text, len);
    hash_table_add(&keys->table, &key->link);
    keys->bytes += key_bytes(len);
    TAILQ_INSERT_TAIL(&keys->ages, key, age);
    key_journal(keys, key);
    journal_enter(keys->journal);
}

/* --- commands --- */

struct fsm_key *fsm_key_find(const struct fsm_keys *keys, const struct fsm_row *row,
                             const char *key, size_t len)
{
    uint32_t hash = key_hash(keys, row, key, len);
    struct hash_link *link = hash_table_chain(&keys->table, hash);

    for (; link != NULL; link = link->next) {
        struct fsm_key *at = CONTAINER(link, struct fsm_key, link);

        if (at->hash == hash && at->row == row && at->len == len &&
            memcmp(at->key, key, len) == 0) {
            return at;
        }
    }
    return NULL;
}

void fsm_key_answer(const struct fsm_key *key, const struct strict_item *item,
                    struct strict_result *result)
{
    uint64_t owner = key->owner != NULL ? key->owner->client : 0;
    bool is_anothers = owner != 0 && item->client != 0 && !client_is(owner, item->client) &&
                       (client_is_named(owner) || client_is_named(item->client));

    if (is_anothers) {
        result->status = ERR_KEY_CONFLICT;
        result->detail = 0;
    } else if (key->count == item->count) {
        result->first = key->first;
        result->increment = key->increment;
        result->replayed = true;
    } else {
        result->status = ERR_KEY_CONFLICT;
        result->detail = key->count;
    }
}

void fsm_key_add(struct fsm_keys *keys, struct fsm_row *row, const struct strict_item *item,
                 const struct fsm_key_ids *ids)
{
    const struct fsm_key *newest = TAILQ_LAST(&keys->ages, fsm_key_ages);

    ASSERT(ids->at_ms > 0 && ids->count > 0);
    ASSERT(newest == NULL || age_fits(newest, ids));
    key_enter(keys, row, item->key, item->key_len, ids);
}

void fsm_key_forget(struct fsm_keys *keys, struct fsm_key *key)
{
    key_journal(keys, key);
    journal_delete(keys->journal);
    hash_table_remove(&keys->table, &key->link);
    keys->bytes -= key_bytes(key->len);
    TAILQ_REMOVE(&keys->ages, key, age);
    fsm_owners_leave(&keys->owners, key->owner, 1);
    free(key);
}

void fsm_keys_expire(struct fsm_keys *keys, uint64_t log_ms, unsigned max)
{
    struct fsm_key *oldest;

    while (max > 0 && (oldest = TAILQ_FIRST(&keys->ages)) != NULL &&
           !fsm_key_in_force(oldest, log_ms)) {
        fsm_key_forget(keys, oldest);
        max--;
    }
}

/* --- loading --- */

int fsm_keys_load(struct fsm_keys *keys, const struct row_loaded *loaded)
{
    size_t name_len = loaded->key_len > 1 ? loaded->key[1] : 0;
    const char *name = (const char *)loaded->key + 2;
    size_t len = loaded->key_len > 2 + name_len ? loaded->key_len - 2 - name_len : 0;
    struct fsm_key_ids value = {0};
    struct fsm_row *row;
    int err = value_read(loaded, &value);

    if (err != 0) {
        return err;
    }
    if (len < 1 || len > LIMIT_KEY_BYTES || tag_name_check(name, name_len, NULL) != 0 ||
        keys->table.count >= LIMIT_KEYS) {
        return ERR_CORRUPT;
    }
    row = fsm_tags_expect(keys->tags, name, name_len);
    if (row == NULL) {
        return ERR_CORRUPT;
    }
    if (fsm_key_find(keys, row, name + name_len, len) != NULL) {
        return ERR_EXISTS;
    }
    key_enter(keys, row, name + name_len, len, &value);
    return 0;
}

int fsm_keys_order(struct fsm_keys *keys, uint64_t index, uint64_t log_ms)
{
    struct fsm_key_ages *ages = &keys->ages;
    size_t count = keys->table.count;
    struct fsm_key **sorted;
    struct fsm_key_ids ids;
    struct fsm_key *key;
    size_t at = 0;
    int err = 0;

    if (count == 0) {
        return 0;
    }
    sorted = MUST_HAVE(malloc(count * sizeof(struct fsm_key *)));
    TAILQ_FOREACH (key, ages, age) {
        ASSERT(at < count);
        sorted[at++] = key;
    }
    qsort(sorted, count, sizeof(struct fsm_key *), age_order);
    TAILQ_INIT(ages);
    for (at = 0; at < count; at++) {
        TAILQ_INSERT_TAIL(ages, sorted[at], age);
        ids = ids_of(sorted[at]);
        if (at > 0 && !age_fits(sorted[at - 1], &ids)) {
            err = ERR_CORRUPT;
        }
    }
    if (sorted[count - 1]->index > index || sorted[count - 1]->at_ms > log_ms) {
        err = ERR_CORRUPT; /* younger than the state */
    }
    free(sorted);
    return err;
}

/* --- fsm_grants --- */

/* Expired keys deleted for each new one: so a table full of them has room for all keys of a batch,
 * and shrinks. */
#define EXPIRE_PER_KEY 2
_Static_assert(EXPIRE_PER_KEY *LIMIT_STRICT_ITEMS <= LIMIT_KEYS_FORGOTTEN, "keys of a command");

/* --- segments --- */

/* Take this many ids from max_id on, or all that are left: at least one. */
static void grant_ids(struct fsm_tags *tags, struct fsm_row *row, const struct tag_row *tag,
                      uint32_t size, uint64_t wall_ms, struct grant_result *ret_result)
{
    uint64_t left = tag_ids_left(tag, &ret_result->first);
    uint64_t end;

    ASSERT(left > 0);
    if (size > left) {
        size = (uint32_t)left;
    }
    ret_result->size = size;
    ret_result->increment = tag->increment;
    end = ids_end(ret_result->first, size, tag->increment);
    ASSERT(end <= tag_bound(tag));
    fsm_tags_move(tags, row, end, wall_ms);
}

/* 0, or why no ids are granted. R2: apply determines the range. */
static int grant_one(struct fsm_recalls *recalls, enum tag_mode mode, uint64_t node_id,
                     uint64_t wall_ms, const struct grant_item *item,
                     struct grant_result *ret_result)
{
    struct fsm_row *row = fsm_tags_find(recalls->tags, item->name, item->name_len);
    struct tag_row tag;
    uint32_t most = LIMIT_TAG_STEP;
    uint32_t size = item->size;
    uint64_t first;

    *ret_result = (struct grant_result){.generation = row != NULL ? row->generation : 0};
    if (row == NULL || row->deleted) {
        return ERR_UNKNOWN_TAG;
    }
    tag = fsm_row_tag(row);
    ret_result->step = tag.step;
    ret_result->max_step = tag.max_step;
    ASSERT(tag.step >= 1 && tag.step <= tag.max_step);
    ASSERT(tag.max_id <= tag_bound(&tag));
    if (tag.mode != mode) {
        return ERR_WRONG_MODE;
    }
    if (tag.paused) {
        return ERR_PAUSED;
    }
    if (tag.recalling || tag_ids_left(&tag, &first) == 0) { /* a recalling tag is no trend tag */
        return tag.recalling ? ERR_CHANGING : ERR_EXHAUSTED;
    }
    if (mode == TAG_MODE_TREND) {
        if (!fsm_holder_add(recalls, node_id)) {
            return ERR_OVERLOADED;
        }
        size = size > 0 ? size : tag.step;
        most = tag.max_step;
    }
    grant_ids(recalls->tags, row, &tag, size < most ? size : most, wall_ms, ret_result);
    return 0;
}

void fsm_ids_grant(struct fsm_recalls *recalls, enum tag_mode mode, uint64_t node_id,
                   struct command_list *command, struct buf *result)
{
    uint64_t wall_ms = displayable_ms(command->wall_ms);
    struct grant_result results[LIMIT_GRANTS_PER_ENTRY];
    struct grant_item item;
    size_t count = 0;

    while (command_next(command, &item)) {
        ASSERT(count < LIMIT_GRANTS_PER_ENTRY);
        results[count].status = grant_one(recalls, mode, node_id, wall_ms, &item, &results[count]);
        count++;
    }
    ASSERT(count == command->count);
    results_encode(RESULT_GRANTS, results, count, result);
}

/* False: the range stays burnt. */
static bool give_back_one(struct fsm_tags *tags, const struct give_back_item *item,
                          uint64_t wall_ms)
{
    struct fsm_row *row = fsm_tags_find(tags, item->name, item->name_len);

    ASSERT(item->first < item->end);
    if (row == NULL || row->deleted || row->mode == TAG_MODE_STRICT ||
        row->generation != item->generation || row->max_id != item->end) {
        return false;
    }
    fsm_tags_move(tags, row, item->first, wall_ms);
    return true;
}

void fsm_segments_give_back(struct fsm_tags *tags, struct command_list *command, struct buf *result)
{
    uint64_t wall_ms = displayable_ms(command->wall_ms);
    int32_t statuses[LIMIT_GRANTS_PER_ENTRY];
    struct give_back_item item;
    size_t count = 0;

    while (command_next(command, &item)) {
        ASSERT(count < LIMIT_GRANTS_PER_ENTRY);
        statuses[count++] = give_back_one(tags, &item, wall_ms) ? 0 : ERR_CONFLICT;
    }
    ASSERT(count == command->count);
    results_encode(RESULT_STATUSES, statuses, count, result);
}

/* --- strict ids --- */

/* The state while a batch is applied. */
struct batch {
    struct fsm *fsm;
    const struct machine_entry *entry; /* the batch's */
    const struct command_list *head;
    struct fsm_row *row; /* of the last item's tag; NULL: unknown, or no item yet */
    struct tag_row tag;  /* the same, with the max_id of the items so far */
};

/* Put the items' max_id into the present row. */
static void batch_close(struct batch *batch)
{
    if (batch->row != NULL && batch->row->max_id != batch->tag.max_id) {
        fsm_tags_move(&batch->fsm->tags, batch->row, batch->tag.max_id,
                      displayable_ms(batch->head->wall_ms));
    }
}

/* Make the row of the item's tag, or NULL, the present one. */
static void batch_turn_to(struct batch *batch, const struct strict_item *item)
{
    if (batch->row != NULL && fsm_row_is(batch->row, item->name, item->name_len)) {
        return;
    }
    batch_close(batch);
    batch->row = fsm_tags_find(&batch->fsm->tags, item->name, item->name_len);
    if (batch->row != NULL) {
        batch->tag = fsm_row_tag(batch->row);
    }
}

/* True if the key decides: it is known and in force, or cannot be looked up yet. A key no longer in
 * force is deleted: its tag treats it as new. */
static bool item_by_key(struct batch *batch, const struct strict_item *item,
                        struct strict_result *result)
{
    struct fsm_keys *keys = &batch->fsm->keys;
    uint64_t log_ms = batch->fsm->settings.log_ms;
    struct fsm_key *key;

    if (log_ms == 0) {
        result->status = ERR_EMPTY;
        return true;
    }
    key = fsm_key_find(keys, batch->row, item->key, item->key_len);
    if (key == NULL) {
        return false;
    }
    if (!fsm_key_in_force(key, log_ms)) {
        fsm_key_forget(keys, key);
        return false;
    }
    fsm_key_answer(key, item, result);
    return true;
}

/* True if there is no room for a new key, even after old ones are deleted. */
static bool keys_full(struct batch *batch, uint64_t *ret_limit)
{
    uint32_t limit = batch->head->key_limit < LIMIT_KEYS ? batch->head->key_limit : LIMIT_KEYS;

    fsm_keys_expire(&batch->fsm->keys, batch->fsm->settings.log_ms, EXPIRE_PER_KEY);
    if (batch->fsm->keys.table.count < limit) {
        return false;
    }
    *ret_limit = limit;
    return true;
}

/* True if the client has as many keys as it may. */
static bool share_full(const struct batch *batch, const struct strict_item *item,
                       uint64_t *ret_detail)
{
    uint32_t most = item->most != 0 ? item->most : batch->head->key_share;
    /* LIMIT_KEYS at most. */
    uint32_t held = (uint32_t)fsm_owners_held(&batch->fsm->keys.owners, item->client);

    if (item->client == 0 || held < most) {
        return false;
    }
    *ret_detail = share_detail(held, most);
    return true;
}

/* Record the key with these ids. */
static void batch_key_add(struct batch *batch, const struct strict_item *item, uint16_t position,
                          uint64_t first)
{
    const struct fsm_key_ids ids = {.first = first,
                                    .at_ms = batch->fsm->settings.log_ms,
                                    .index = batch->entry->index,
                                    .client = item->client,
                                    .count = item->count,
                                    .increment = batch->tag.increment,
                                    .position = position};

    fsm_key_add(&batch->fsm->keys, batch->row, item, &ids);
}

/* Allocate from result->first on: max_id, or a later id where a new period begins or the increment
 * skips numbers. */
static void item_allocate(struct batch *batch, const struct strict_item *item, uint16_t position,
                          struct strict_result *result)
{
    struct tag_row *tag = &batch->tag;

    ASSERT(result->first >= tag->max_id);
    tag->max_id = ids_end(result->first, item->count, tag->increment);
    ASSERT(tag->max_id <= tag_bound(tag));
    result->increment = tag->increment;
    if (item->key_len > 0) {
        batch_key_add(batch, item, position, result->first);
    }
}

/* The ids left in the item's period. Once a later period has begun, an earlier one is over: no
 * client gets an id of yesterday after one of today. 0, or ERR_EMPTY. */
static int period_ids(const struct batch *batch, const struct strict_item *item,
                      uint64_t *ret_first, uint64_t *ret_end)
{
    const struct tag_row *tag = &batch->tag;
    struct shape shape;

    ASSERT(tag_shape(tag->shape, tag->shape_len, &shape, NULL) == 0); /* a row keeps that rule */
    if (item->period == 0 || batch->fsm->settings.log_ms == 0 ||
        !shape_period_is_near((enum date_part)shape.date.unit, item->period,
                              batch->fsm->settings.log_ms)) {
        return ERR_EMPTY;
    }
    shape_period_ids(&shape, tag->max_id, item->period, ret_first, ret_end);
    return 0;
}

/* 0, or why no ids are allocated. */
static int item_apply(struct batch *batch, const struct strict_item *item, uint16_t position,
                      struct strict_result *result)
{
    const struct tag_row *tag = batch->row != NULL ? &batch->tag : NULL;
    const struct fsm_recall *recall;
    uint64_t first;
    uint64_t end;
    uint64_t left;

    *result = (struct strict_result){.generation = tag != NULL ? tag->generation : 0};
    if (tag == NULL || tag->deleted) {
        return ERR_UNKNOWN_TAG;
    }
    if (tag->mode != TAG_MODE_STRICT) {
        result->detail = tag->mode;
        return ERR_WRONG_MODE;
    }
    if (tag->paused) {
        return ERR_PAUSED;
    }
    if (item->key_len > 0 && item_by_key(batch, item, result)) {
        return result->status;
    }
    if (tag->recalling) {
        recall = fsm_recalls_find(&batch->fsm->recalls, batch->row);
        ASSERT(recall != NULL && recall->nodes.count > 0);
        result->detail = recall->nodes.ids[0]; /* a node that may still hold a segment of it */
        return ERR_CHANGING;
    }
    if (item->key_len > 0 && keys_full(batch, &result->detail)) {
        return ERR_KEYS_FULL;
    }
    if (item->key_len > 0 && share_full(batch, item, &result->detail)) {
        return ERR_SHARE;
    }
    ASSERT(tag->max_id <= tag_bound(tag));
    left = tag_ids_left(tag, &first);
    if (tag_is_dated(tag)) { /* which has no increment */
        if (period_ids(batch, item, &first, &end) != 0) {
            return ERR_EMPTY;
        }
        end = end < tag_bound(tag) ? end : tag_bound(tag);
        left = first < end ? end - first : 0;
    }
    if (item->count > left) {
        result->detail = left;
        return ERR_EXHAUSTED;
    }
    result->first = first;
    item_allocate(batch, item, position, result);
    return 0;
}

void fsm_strict_apply(struct fsm *fsm, const struct machine_entry *entry,
                      struct command_list *command, struct buf *result)
{
    struct batch batch = {.fsm = fsm, .entry = entry, .head = command};
    struct strict_result results[LIMIT_STRICT_ITEMS];
    struct strict_item item;
    uint16_t position = 0;

    ASSERT(command->count >= 1 && command->count <= LIMIT_STRICT_ITEMS);
    while (command_next(command, &item)) {
        ASSERT(position < command->count);
        batch_turn_to(&batch, &item);
        results[position].status = item_apply(&batch, &item, position, &results[position]);
        position++;
    }
    ASSERT(position == command->count);
    batch_close(&batch);
    results_encode(RESULT_STRICT, results, command->count, result);
}

/* --- keys of monotonic tags --- */

/* R9: ids taken in another term, or from a window of another generation, may be below ids that
 * others got since. */
static bool is_late(const struct batch *batch, const struct keyed_item *keyed)
{
    const struct tag_row *tag = &batch->tag;

    return batch->head->term != batch->entry->term || keyed->generation != tag->generation ||
           tag->recalling || ids_end(keyed->first, keyed->item.count, tag->increment) > tag->max_id;
}

/* 0, or why the key does not get the ids. */
static int keyed_apply(struct batch *batch, const struct keyed_item *keyed, uint16_t position,
                       struct strict_result *result)
{
    const struct tag_row *tag = batch->row != NULL ? &batch->tag : NULL;

    *result = (struct strict_result){.generation = tag != NULL ? tag->generation : 0};
    if (tag == NULL || tag->deleted) {
        return ERR_UNKNOWN_TAG;
    }
    if (tag->mode != TAG_MODE_MONOTONIC) {
        result->detail = tag->mode;
        return ERR_WRONG_MODE;
    }
    if (is_late(batch, keyed) || tag->paused) {
        return tag->paused ? ERR_PAUSED : ERR_STALE;
    }
    if (item_by_key(batch, &keyed->item, result)) {
        return result->status;
    }
    if (keys_full(batch, &result->detail)) {
        return ERR_KEYS_FULL;
    }
    if (share_full(batch, &keyed->item, &result->detail)) {
        return ERR_SHARE;
    }
    batch_key_add(batch, &keyed->item, position, keyed->first);
    result->first = keyed->first;
    result->increment = tag->increment;
    return 0;
}

void fsm_keyed_apply(struct fsm *fsm, const struct machine_entry *entry,
                     struct command_list *command, struct buf *result)
{
    struct batch batch = {.fsm = fsm, .entry = entry, .head = command};
    struct strict_result results[LIMIT_STRICT_ITEMS];
    struct keyed_item keyed;
    uint16_t position = 0;

    ASSERT(command->count >= 1 && command->count <= LIMIT_STRICT_ITEMS);
    while (command_next(command, &keyed)) {
        ASSERT(position < command->count);
        batch_turn_to(&batch, &keyed.item);
        results[position].status = keyed_apply(&batch, &keyed, position, &results[position]);
        position++;
    }
    ASSERT(position == command->count);
    results_encode(RESULT_STRICT, results, command->count, result);
}
