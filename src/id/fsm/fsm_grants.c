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
    FIELD_NUMBER(struct fsm_key, first),
    FIELD_NUMBER(struct fsm_key, count),
    FIELD_NUMBER(struct fsm_key, at_ms),
    FIELD_NUMBER(struct fsm_key, index),
    FIELD_NUMBER(struct fsm_key, position),
    FIELD_NUMBER(struct fsm_key, client),    /* if counted, or stepped */
    FIELD_NUMBER(struct fsm_key, increment), /* if stepped */
};
#define VALUE_FIELD_COUNT (sizeof VALUE_FIELDS / sizeof *VALUE_FIELDS)

static bool value_is_sound(const void *data)
{
    const struct fsm_key *key = data;

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

static const struct row_format *value_format(const struct fsm_key *key)
{
    return key->increment != 0 ? &STEPPED : key->client != 0 ? &COUNTED : &PLAIN;
}

static uint32_t key_link_hash(const struct hash_link *link)
{
    return CONTAINER(link, const struct fsm_key, link)->hash;
}

static uint32_t key_hash(const struct fsm *fsm, const struct fsm_row *row, const char *key,
                         size_t len)
{
    return (uint32_t)hash_bytes(key, len, (uintptr_t)row ^ fsm->keys.table.seed);
}

/* Memory of a key: its piece of malloc, and its bucket. */
static uint64_t key_bytes(size_t len)
{
    return (offsetof(struct fsm_key, key) + len + 8 + 15) / 16 * 16 + sizeof(struct hash_link *);
}

void fsm_keys_clear(struct fsm *fsm)
{
    struct fsm_keys *keys = &fsm->keys;
    struct fsm_key *key;
    struct fsm_key *next;

    for (key = TAILQ_FIRST(&keys->ages); key != NULL; key = next) {
        next = TAILQ_NEXT(key, age);
        fsm_owners_leave(&keys->owners, key->client, 1);
        free(key);
    }
    TAILQ_INIT(&keys->ages);
    hash_table_free(&keys->table);
    hash_table_init(&keys->table, key_link_hash);
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

/* Can this key directly follow `older`? An item makes one key, and the log's time never falls, nor
 * changes within an entry. */
static bool age_fits(const struct fsm_key *older, const struct fsm_key *key)
{
    if (older->index == key->index) {
        return older->position < key->position && older->at_ms == key->at_ms;
    }
    return older->index < key->index && older->at_ms <= key->at_ms;
}

/* --- one key --- */

/* Put the key's row, key and value, into the journal, which is returned. */
static struct journal *key_journal(struct fsm *fsm, const struct fsm_key *key)
{
    struct journal *journal = fsm_journal(fsm);

    journal_key(journal, FSM_TABLE_KEYS);
    buf_put_u8(&journal->row, (uint8_t)key->row->name_len);
    buf_put(&journal->row, key->row->name, key->row->name_len);
    buf_put(&journal->row, key->key, key->len);
    journal_record(journal, value_format(key), key);
    return journal;
}

/* Add a copy of this key of the tag, with this text, as the youngest. */
static void key_enter(struct fsm *fsm, struct fsm_row *row, const char *text, size_t len,
                      const struct fsm_key *from)
{
    struct fsm_keys *keys = &fsm->keys;
    struct fsm_key *key = MUST_HAVE(malloc(offsetof(struct fsm_key, key) + len));

    ASSERT(len >= 1 && len <= LIMIT_KEY_BYTES && keys->table.count < LIMIT_KEYS);
    memcpy(key, from, offsetof(struct fsm_key, key));
    key->row = row;
    key->hash = key_hash(fsm, row, text, len);
    key->len = (uint8_t)len;
    memcpy(key->key, text, len);
    fsm_owners_enter(&keys->owners, key->client, 1);
    hash_table_add(&keys->table, &key->link);
    keys->bytes += key_bytes(len);
    TAILQ_INSERT_TAIL(&keys->ages, key, age);
    journal_enter(key_journal(fsm, key));
}

/* The key of the tag, in force or not; NULL if there is none. */
static struct fsm_key *key_find(const struct fsm *fsm, const struct fsm_row *row, const char *key,
                                size_t len)
{
    uint32_t hash = key_hash(fsm, row, key, len);
    struct hash_link *link = hash_table_chain(&fsm->keys.table, hash);

    for (; link != NULL; link = link->next) {
        struct fsm_key *at = CONTAINER(link, struct fsm_key, link);

        if (at->hash == hash && at->row == row && at->len == len &&
            memcmp(at->key, key, len) == 0) {
            return at;
        }
    }
    return NULL;
}

static bool key_in_force(const struct fsm_key *key, uint64_t log_ms)
{
    return log_ms < key->at_ms + LIMIT_KEY_LIFE_MS;
}

/* Delete it; frees key. */
static void key_forget(struct fsm *fsm, struct fsm_key *key)
{
    struct fsm_keys *keys = &fsm->keys;

    journal_delete(key_journal(fsm, key));
    hash_table_remove(&keys->table, &key->link);
    keys->bytes -= key_bytes(key->len);
    TAILQ_REMOVE(&keys->ages, key, age);
    fsm_owners_leave(&keys->owners, key->client, 1);
    free(key);
}

/* As fsm_key_known(), for a tag's row, or NULL. *ret_expired: its key that is no longer in force;
 * NULL: there is none. All addresses are one client here, since a client that repeats a request to
 * another node may have another address there. */
static bool key_decides(const struct fsm *fsm, const struct fsm_row *row,
                        const struct strict_item *item, struct strict_result *result,
                        struct fsm_key **ret_expired)
{
    uint64_t log_ms = fsm->settings.log_ms;
    struct fsm_key *key = row != NULL ? key_find(fsm, row, item->key, item->key_len) : NULL;

    *ret_expired = NULL;
    if (log_ms == 0) {
        result->status = ERR_EMPTY;
        return true;
    }
    if (key == NULL || !key_in_force(key, log_ms)) {
        *ret_expired = key;
        return false;
    }
    if (key->client != 0 && item->client != 0 && !client_is(key->client, item->client) &&
        (client_is_named(key->client) || client_is_named(item->client))) { /* another client's */
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
    return true;
}

bool fsm_key_known(const struct fsm *fsm, const struct strict_item *item,
                   struct strict_result *result)
{
    struct fsm_key *expired;

    return key_decides(fsm, fsm_tags_find(&fsm->tags, item->name, item->name_len), item, result,
                       &expired);
}

void fsm_keys_expire(struct fsm *fsm, unsigned max)
{
    struct fsm_key *oldest;

    while (max > 0 && (oldest = TAILQ_FIRST(&fsm->keys.ages)) != NULL &&
           !key_in_force(oldest, fsm->settings.log_ms)) {
        key_forget(fsm, oldest);
        max--;
    }
}

/* --- loading --- */

int fsm_keys_load(struct fsm *fsm, const struct state_row *loaded)
{
    uint8_t version = loaded->value_len > 0 ? *(const uint8_t *)loaded->value : 0;
    size_t name_len = loaded->key_len > 1 ? loaded->key[1] : 0;
    const char *name = (const char *)loaded->key + 2;
    size_t len = loaded->key_len > 2 + name_len ? loaded->key_len - 2 - name_len : 0;
    const struct row_format *format = version == STEPPED.version   ? &STEPPED
                                      : version == COUNTED.version ? &COUNTED
                                                                   : &PLAIN;
    struct fsm_key value = {.len = 0};
    struct fsm_row *row;
    int err = row_read(loaded->value, loaded->value_len, format, &value);

    if (err != 0 || format != value_format(&value)) {
        return err != 0 ? err : ERR_CORRUPT;
    }
    if (len < 1 || len > LIMIT_KEY_BYTES || tag_name_check(name, name_len, NULL) != 0 ||
        fsm->keys.table.count >= LIMIT_KEYS) {
        return ERR_CORRUPT;
    }
    row = fsm_tags_expect(fsm, name, name_len);
    if (row == NULL) {
        return ERR_CORRUPT;
    }
    if (key_find(fsm, row, name + name_len, len) != NULL) {
        return ERR_EXISTS;
    }
    key_enter(fsm, row, name + name_len, len, &value);
    return 0;
}

int fsm_keys_order(struct fsm *fsm, uint64_t index, uint64_t log_ms)
{
    struct fsm_key_ages *ages = &fsm->keys.ages;
    size_t count = fsm->keys.table.count;
    struct fsm_key **sorted;
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
        if (at > 0 && !age_fits(sorted[at - 1], sorted[at])) {
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

/* 0, or why no ids are granted. R2: apply determines the range: the ids from max_id on, or all that
 * are left. */
static int grant_one(struct fsm *fsm, enum tag_mode mode, uint64_t node_id, uint64_t wall_ms,
                     const struct grant_item *item, struct grant_result *ret_result)
{
    struct fsm_row *row = fsm_tags_find(&fsm->tags, item->name, item->name_len);
    struct node_set *holders = &fsm->recalls.holders;
    struct tag_row tag;
    uint32_t most = LIMIT_TAG_STEP;
    uint64_t size = item->size;
    uint64_t first;
    uint64_t left;
    uint64_t end;

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
    left = tag_ids_left(&tag, &first);
    if (tag.recalling || left == 0) { /* a recalling tag is no trend tag */
        return tag.recalling ? ERR_CHANGING : ERR_EXHAUSTED;
    }
    if (mode == TAG_MODE_TREND) {
        if (!node_set_has(holders, node_id) &&
            (holders->count == LIMIT_SEGMENT_HOLDERS ||
             !node_set_change_row(holders, fsm_journal(fsm), FSM_TABLE_HOLDERS, node_id, true))) {
            return ERR_OVERLOADED;
        }
        size = size > 0 ? size : tag.step;
        most = tag.max_step;
    }
    size = size < most ? size : most;
    ret_result->size = (uint32_t)(size < left ? size : left);
    ret_result->increment = tag.increment;
    ret_result->first = first;
    end = ids_end(first, ret_result->size, tag.increment);
    ASSERT(end <= tag_bound(&tag));
    fsm_tags_move(fsm, row, end, wall_ms);
    return 0;
}

void fsm_ids_grant(struct fsm *fsm, enum tag_mode mode, uint64_t node_id,
                   struct command_list *command, struct buf *result)
{
    uint64_t wall_ms = displayable_ms(command->wall_ms);
    struct grant_result results[LIMIT_GRANTS_PER_ENTRY];
    struct grant_item item;
    size_t count = 0;

    while (command_next(command, &item)) {
        ASSERT(count < LIMIT_GRANTS_PER_ENTRY);
        results[count].status = grant_one(fsm, mode, node_id, wall_ms, &item, &results[count]);
        count++;
    }
    ASSERT(count == command->count);
    results_encode(RESULT_GRANTS, results, count, result);
}

void fsm_segments_give_back(struct fsm *fsm, struct command_list *command, struct buf *result)
{
    uint64_t wall_ms = displayable_ms(command->wall_ms);
    int32_t statuses[LIMIT_GRANTS_PER_ENTRY];
    struct give_back_item range;
    const struct give_back_item *item = &range;
    size_t count = 0;

    while (command_next(command, &range)) {
        struct fsm_row *row = fsm_tags_find(&fsm->tags, item->name, item->name_len);

        ASSERT(count < LIMIT_GRANTS_PER_ENTRY && item->first < item->end);
        if (row == NULL || row->deleted || row->mode == TAG_MODE_STRICT ||
            row->generation != item->generation || row->max_id != item->end) {
            statuses[count++] = ERR_CONFLICT; /* it stays burnt */
            continue;
        }
        fsm_tags_move(fsm, row, item->first, wall_ms);
        statuses[count++] = 0;
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
        fsm_tags_move(batch->fsm, batch->row, batch->tag.max_id,
                      displayable_ms(batch->head->wall_ms));
    }
}

/* As key_decides(). A key no longer in force is deleted: its tag treats it as new. */
static bool item_by_key(struct batch *batch, const struct strict_item *item,
                        struct strict_result *result)
{
    struct fsm_key *expired;
    bool decides = key_decides(batch->fsm, batch->row, item, result, &expired);

    if (expired != NULL) {
        key_forget(batch->fsm, expired);
    }
    return decides;
}

/* ERR_KEYS_FULL: there is no room for a new key, even after old ones are deleted. ERR_SHARE: the
 * client has as many as it may. */
static int key_room(struct batch *batch, const struct strict_item *item,
                    struct strict_result *result)
{
    struct fsm_keys *keys = &batch->fsm->keys;
    uint32_t limit = batch->head->key_limit < LIMIT_KEYS ? batch->head->key_limit : LIMIT_KEYS;
    uint32_t most = item->most != 0 ? item->most : batch->head->key_share;
    uint32_t held; /* LIMIT_KEYS at most */

    fsm_keys_expire(batch->fsm, EXPIRE_PER_KEY);
    if (keys->table.count >= limit) {
        result->detail = limit;
        return ERR_KEYS_FULL;
    }
    held = (uint32_t)fsm_owners_held(&keys->owners, item->client);
    if (item->client != 0 && held >= most) {
        result->detail = share_detail(held, most);
        return ERR_SHARE;
    }
    return 0;
}

/* Record the key with these ids. */
static void batch_key_add(struct batch *batch, const struct strict_item *item, uint16_t position,
                          uint64_t first)
{
    const struct fsm_key *newest = TAILQ_LAST(&batch->fsm->keys.ages, fsm_key_ages);
    const struct fsm_key key = {.first = first,
                                .at_ms = batch->fsm->settings.log_ms,
                                .index = batch->entry->index,
                                .client = item->client,
                                .count = item->count,
                                .increment = batch->tag.increment,
                                .position = position};

    ASSERT(key.at_ms > 0 && key.count > 0);
    ASSERT(newest == NULL || age_fits(newest, &key));
    key_enter(batch->fsm, batch->row, item->key, item->key_len, &key);
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

/* 0, or why no ids are allocated: from max_id on, or from a later id where a new period begins or
 * the increment skips numbers. */
static int item_apply(struct batch *batch, const struct strict_item *item, uint16_t position,
                      struct strict_result *result)
{
    struct tag_row *tag = &batch->tag;
    const struct fsm_recall *recall;
    uint64_t first;
    uint64_t end;
    uint64_t left;
    int err;

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
        recall = fsm_recalls_find(batch->fsm, batch->row);
        ASSERT(recall != NULL && recall->nodes.count > 0);
        result->detail = recall->nodes.ids[0]; /* a node that may still hold a segment of it */
        return ERR_CHANGING;
    }
    err = item->key_len > 0 ? key_room(batch, item, result) : 0;
    if (err != 0) {
        return err;
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
    ASSERT(first >= tag->max_id);
    result->first = first;
    result->increment = tag->increment;
    tag->max_id = ids_end(first, item->count, tag->increment);
    ASSERT(tag->max_id <= tag_bound(tag));
    if (item->key_len > 0) {
        batch_key_add(batch, item, position, first);
    }
    return 0;
}

/* --- keys of monotonic tags --- */

/* 0, or why the key does not get the ids. */
static int keyed_apply(struct batch *batch, const struct keyed_item *keyed, uint16_t position,
                       struct strict_result *result)
{
    const struct tag_row *tag = &batch->tag;
    int err;

    if (tag->mode != TAG_MODE_MONOTONIC) {
        result->detail = tag->mode;
        return ERR_WRONG_MODE;
    }
    if (tag->paused) {
        return ERR_PAUSED;
    }
    /* R9: ids taken in another term, or from a window of another generation, may be below ids that
     * others got since. */
    if (batch->head->term != batch->entry->term || keyed->generation != tag->generation ||
        tag->recalling || ids_end(keyed->first, keyed->item.count, tag->increment) > tag->max_id) {
        return ERR_STALE;
    }
    if (item_by_key(batch, &keyed->item, result)) {
        return result->status;
    }
    err = key_room(batch, &keyed->item, result);
    if (err != 0) {
        return err;
    }
    batch_key_add(batch, &keyed->item, position, keyed->first);
    result->first = keyed->first;
    result->increment = tag->increment;
    return 0;
}

void fsm_batch_apply(struct fsm *fsm, const struct machine_entry *entry,
                     struct command_list *command, bool keyed, struct buf *result)
{
    struct batch batch = {.fsm = fsm, .entry = entry, .head = command};
    struct strict_result results[LIMIT_STRICT_ITEMS];
    struct keyed_item item; /* of STRICT: its first member alone */
    uint16_t position = 0;

    ASSERT(command->count >= 1 && command->count <= LIMIT_STRICT_ITEMS);
    while (command_next(command, &item)) {
        struct strict_result *one = &results[position];

        ASSERT(position < command->count);
        if (batch.row == NULL || !fsm_row_is(batch.row, item.item.name, item.item.name_len)) {
            batch_close(&batch);
            batch.row = fsm_tags_find(&fsm->tags, item.item.name, item.item.name_len);
            batch.tag = batch.row != NULL ? fsm_row_tag(batch.row) : batch.tag;
        }
        *one = (struct strict_result){.generation = batch.row != NULL ? batch.tag.generation : 0};
        if (batch.row == NULL || batch.tag.deleted) {
            one->status = ERR_UNKNOWN_TAG;
        } else {
            one->status = keyed ? keyed_apply(&batch, &item, position, one)
                                : item_apply(&batch, &item.item, position, one);
        }
        position++;
    }
    ASSERT(position == command->count);
    batch_close(&batch);
    results_encode(RESULT_STRICT, results, command->count, result);
}
