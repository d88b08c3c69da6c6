/*
 * fsm_keys.c - see fsm_keys.h.
 */
#include "src/id/fsm/fsm_keys.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/base/container.h"
#include "src/base/fields.h"
#include "src/base/hash.h"

_Static_assert(2 + LIMIT_TAG_NAME_BYTES + LIMIT_KEY_BYTES <= LIMIT_ROW_KEY_BYTES, "a row's key");
_Static_assert(LIMIT_TAG_NAME_BYTES <= UINT8_MAX && LIMIT_KEY_BYTES <= UINT8_MAX, "lengths");
_Static_assert(LIMIT_STRICT_ITEMS <= UINT16_MAX, "positions");

static const struct field VALUE_FIELDS[] = {
    FIELD_NUMBER(struct fsm_key_ids, first),
    FIELD_NUMBER(struct fsm_key_ids, count),
    FIELD_NUMBER(struct fsm_key_ids, at_ms),
    FIELD_NUMBER(struct fsm_key_ids, index),
    FIELD_NUMBER(struct fsm_key_ids, position),
    FIELD_NUMBER(struct fsm_key_ids, client), /* if counted */
};
#define VALUE_FIELD_COUNT (sizeof VALUE_FIELDS / sizeof *VALUE_FIELDS)

static bool value_is_sound(const void *data)
{
    const struct fsm_key_ids *key = data;

    return key->count >= 1 && key->count <= LIMIT_COUNT &&
           key->first <= (uint64_t)TAG_MAX_ID_END - key->count && key->at_ms >= 1 &&
           key->position < LIMIT_STRICT_ITEMS;
}

static const struct row_format PLAIN =
    ROW_FORMAT(ROW_VERSION, FIELDS_FIRST(VALUE_FIELDS, VALUE_FIELD_COUNT - 1), value_is_sound);
/* Of a key that counts for a client. */
static const struct row_format COUNTED =
    ROW_FORMAT(ROW_VERSION + 1, FIELDS_FIRST(VALUE_FIELDS, VALUE_FIELD_COUNT), value_is_sound);

static int value_read(const struct row_loaded *loaded, struct fsm_key_ids *ret_value)
{
    const uint8_t *bytes = loaded->value;
    bool counted = loaded->value_len > 0 && bytes[0] == COUNTED.version;
    int err = row_read(bytes, loaded->value_len, counted ? &COUNTED : &PLAIN, ret_value);

    return err == 0 && counted != (ret_value->client != 0) ? ERR_CORRUPT : err;
}

static uint32_t hash_of(const struct hash_link *link)
{
    return CONTAINER(link, const struct fsm_key, link)->hash;
}

static uint32_t key_hash(const struct fsm_keys *keys, const struct fsm_row *row, const char *key,
                         size_t len)
{
    return (uint32_t)hash_bytes(key, len, (uintptr_t)row ^ keys->table.seed);
}

/* Memory of a key: its piece of malloc, and its bucket. */
static uint64_t bytes_of(size_t len)
{
    return (offsetof(struct fsm_key, key) + len + 8 + 15) / 16 * 16 + sizeof(struct hash_link *);
}

void fsm_keys_init(struct fsm_keys *keys, struct fsm_tags *tags)
{
    keys->journal = tags->journal;
    keys->tags = tags;
    TAILQ_INIT(&keys->ages);
    hash_table_init(&keys->table, hash_of);
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
        .position = key->position,
    };
}

/* Can a key of these ids be the next after older? An item makes one key, and the log's time never
 * falls, nor moves within an entry. */
static bool age_fits(const struct fsm_key *older, const struct fsm_key_ids *ids)
{
    if (older->index == ids->index) {
        return older->position < ids->position && older->at_ms == ids->at_ms;
    }
    return older->index < ids->index && older->at_ms <= ids->at_ms;
}

/* --- one key --- */

/* The key's row, key and value, into the journal. */
static void journal_put(struct fsm_keys *keys, const struct fsm_key *key)
{
    struct buf *row = &keys->journal->row;
    const struct fsm_key_ids value = ids_of(key);

    journal_key(keys->journal, FSM_TABLE_KEYS);
    buf_put_u8(row, (uint8_t)key->row->tag.name_len);
    buf_put(row, key->row->tag.name, key->row->tag.name_len);
    buf_put(row, key->key, key->len);
    journal_record(keys->journal, value.client != 0 ? &COUNTED : &PLAIN, &value);
}

/* A key of these ids takes its place as the youngest, and comes into the digest. */
static void key_enter(struct fsm_keys *keys, struct fsm_row *row, const char *text, size_t len,
                      const struct fsm_key_ids *ids)
{
    struct fsm_key *key = MUST_HAVE(malloc(offsetof(struct fsm_key, key) + len));

    ASSERT(len >= 1 && len <= LIMIT_KEY_BYTES && keys->table.count < LIMIT_KEYS);
    key->row = row;
    key->owner = fsm_owners_enter(&keys->owners, ids->client, 1);
    key->first = ids->first;
    key->count = ids->count;
    key->at_ms = ids->at_ms;
    key->index = ids->index;
    key->position = ids->position;
    key->hash = key_hash(keys, row, text, len);
    key->len = (uint8_t)len;
    memcpy(key->key, text, len);
    hash_table_add(&keys->table, &key->link);
    keys->bytes += bytes_of(len);
    TAILQ_INSERT_TAIL(&keys->ages, key, age);
    journal_put(keys, key);
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

static bool key_belongs_to(const struct fsm_key *key, uint64_t client)
{
    uint64_t owner = key->owner != NULL ? key->owner->client : 0;

    return owner == 0 || client == 0 || client_is(owner, client) ||
           (!client_is_named(owner) && !client_is_named(client));
}

void fsm_key_tell(const struct fsm_key *key, const struct strict_item *item,
                  struct strict_result *result)
{
    if (!key_belongs_to(key, item->client)) {
        result->status = ERR_KEY_CONFLICT;
        result->detail = 0;
    } else if (key->count == item->count) {
        result->first = key->first;
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
    journal_put(keys, key);
    journal_delete(keys->journal);
    hash_table_remove(&keys->table, &key->link);
    keys->bytes -= bytes_of(key->len);
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
