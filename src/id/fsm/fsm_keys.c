/*
 * fsm_keys.c - the table of idempotency keys (fsm_state.h): which ids a key of a tag stands for.
 *
 * The happy path: a strict allocation with a new key is remembered by fsm_key_add(); the same key
 * finds it for LIMIT_KEY_LIFE_MS of the log's time; later commands and the log's clock delete it,
 * the oldest first.
 *
 * Memory: 67 bytes and the key in one piece of malloc (8 bytes more, in steps of 16), and 8 bytes
 * of the buckets: 120 bytes for a key of 36, the name of the tag being its row's. The buckets are
 * split one at a time (linear hashing). The hash is seeded with the address of the row, which no
 * client can know; nothing that is replicated depends on it.
 *
 * Failure modes: a full table is the caller's to refuse. A row that no apply can have made is
 * ERR_CORRUPT.
 *
 * Thread: one owner. Deterministic: only the state and the command decide.
 */
#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/base/hash.h"
#include "src/id/fsm/fsm_state.h"

#define ROW_VERSION 1

_Static_assert(2 + LIMIT_TAG_NAME_BYTES + LIMIT_KEY_BYTES <= LIMIT_ROW_KEY_BYTES, "a row's key");
_Static_assert(LIMIT_TAG_NAME_BYTES <= UINT8_MAX && LIMIT_KEY_BYTES <= UINT8_MAX, "lengths");
_Static_assert(LIMIT_STRICT_ITEMS <= UINT16_MAX, "positions");

static struct fsm_key *key_new(struct fsm *fsm, struct fsm_row *row, const char *key, size_t len);
static void key_enter(struct fsm *fsm, struct fsm_key *key, struct fsm_changes *changes);
static void key_bytes(struct fsm *fsm, const struct fsm_key *key, size_t *ret_key_len);
static int load_value(struct reader *reader, struct fsm_key *ret_key);
static int age_order(const void *a, const void *b);
static bool age_fits(const struct fsm_key *older, const struct fsm_key *key);
static uint32_t key_hash(const struct fsm_row *row, const char *key, size_t len);
static struct fsm_key **bucket_of(const struct fsm_keys *keys, uint32_t hash);
static struct fsm_key **bucket_at(const struct fsm_keys *keys, uint32_t number);
static void bucket_add(struct fsm_keys *keys);

/* --- commands --- */

size_t fsm_key_count(const struct fsm *fsm)
{
    return fsm->keys.count;
}

struct fsm_key *fsm_key_find(const struct fsm *fsm, const struct fsm_row *row, const char *key,
                             size_t len)
{
    uint32_t hash = key_hash(row, key, len);
    struct fsm_key *at = fsm->keys.bucket_count > 0 ? *bucket_of(&fsm->keys, hash) : NULL;

    while (at != NULL && (at->hash != hash || at->row != row || at->len != len ||
                          memcmp(at->key, key, len) != 0)) {
        at = at->next;
    }
    return at;
}

bool fsm_key_in_force(const struct fsm *fsm, const struct fsm_key *key)
{
    return fsm->log_ms < key->at_ms + LIMIT_KEY_LIFE_MS;
}

void fsm_key_add(struct fsm *fsm, struct fsm_row *row, const struct strict_item *item,
                 uint64_t first, uint64_t index, uint16_t position, struct fsm_changes *changes)
{
    struct fsm_key *key = key_new(fsm, row, item->key, item->key_len);
    const struct fsm_key *newest = TAILQ_LAST(&fsm->keys.ages, fsm_key_ages);

    ASSERT(fsm->log_ms > 0);
    key->first = first;
    key->count = item->count;
    key->at_ms = fsm->log_ms;
    key->index = index;
    key->position = position;
    ASSERT(newest == NULL || age_fits(newest, key));
    key_enter(fsm, key, changes);
}

void fsm_key_forget(struct fsm *fsm, struct fsm_key *key, struct fsm_changes *changes)
{
    struct fsm_key **at = bucket_of(&fsm->keys, key->hash);
    size_t key_len;

    key_bytes(fsm, key, &key_len);
    fsm_scratch_delete(fsm, key_len, changes);
    while (*at != key) {
        ASSERT(*at != NULL);
        at = &(*at)->next;
    }
    *at = key->next;
    TAILQ_REMOVE(&fsm->keys.ages, key, age);
    fsm->keys.count--;
    free(key);
}

void fsm_keys_expire(struct fsm *fsm, unsigned max, struct fsm_changes *changes)
{
    struct fsm_key *oldest;

    while (max > 0 && (oldest = TAILQ_FIRST(&fsm->keys.ages)) != NULL &&
           !fsm_key_in_force(fsm, oldest)) {
        fsm_key_forget(fsm, oldest, changes);
        max--;
    }
}

/* --- loading --- */

int fsm_load_key(struct fsm *fsm, const uint8_t *key, size_t key_len, const void *value,
                 size_t value_len)
{
    size_t name_len = key_len > 1 ? key[1] : 0;
    const char *name = (const char *)key + 2;
    size_t len = key_len > 2 + name_len ? key_len - 2 - name_len : 0;
    struct fsm_key loaded = {0};
    struct fsm_key *made;
    struct fsm_row *row;
    struct reader reader;
    int err;

    reader_init(&reader, value, value_len);
    err = load_value(&reader, &loaded);
    if (err != 0) {
        return err;
    }
    if (len < 1 || len > LIMIT_KEY_BYTES || tag_name_check(name, name_len, NULL) != 0 ||
        fsm->keys.count >= LIMIT_KEYS) {
        return ERR_CORRUPT;
    }
    row = fsm_row_expect(fsm, name, name_len);
    if (row == NULL) {
        return ERR_CORRUPT;
    }
    if (fsm_key_find(fsm, row, name + name_len, len) != NULL) {
        return ERR_EXISTS;
    }
    made = key_new(fsm, row, name + name_len, len);
    made->first = loaded.first;
    made->count = loaded.count;
    made->at_ms = loaded.at_ms;
    made->index = loaded.index;
    made->position = loaded.position;
    key_enter(fsm, made, NULL);
    return 0;
}

int fsm_keys_order(struct fsm *fsm, uint64_t index)
{
    struct fsm_key_ages *ages = &fsm->keys.ages;
    size_t count = fsm->keys.count;
    struct fsm_key **sorted;
    struct fsm_key *key;
    size_t at = 0;
    int err = 0;

    if (count == 0) {
        return 0;
    }
    sorted = malloc(count * sizeof(struct fsm_key *));
    ASSERT(sorted != NULL);
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
    if (sorted[count - 1]->index > index || sorted[count - 1]->at_ms > fsm->log_ms) {
        err = ERR_CORRUPT; /* younger than the state */
    }
    free(sorted);
    return err;
}

void fsm_keys_clear(struct fsm *fsm)
{
    struct fsm_keys *keys = &fsm->keys;
    struct fsm_key *key;

    while ((key = TAILQ_FIRST(&keys->ages)) != NULL) {
        TAILQ_REMOVE(&keys->ages, key, age);
        free(key);
    }
    for (uint32_t i = 0; i * FSM_KEY_CHUNK < keys->bucket_count; i++) {
        free(keys->chunks[i]);
        keys->chunks[i] = NULL;
    }
    keys->count = 0;
    keys->bucket_count = 0;
}

/* --- one key --- */

/* A key in its bucket, without its ids yet; key_enter() must follow. */
static struct fsm_key *key_new(struct fsm *fsm, struct fsm_row *row, const char *key, size_t len)
{
    struct fsm_key *made = malloc(offsetof(struct fsm_key, key) + len);
    struct fsm_key **bucket;

    ASSERT(made != NULL);
    ASSERT(len >= 1 && len <= LIMIT_KEY_BYTES && fsm->keys.count < LIMIT_KEYS);
    if (fsm->keys.count >= fsm->keys.bucket_count) {
        bucket_add(&fsm->keys);
    }
    made->row = row;
    made->hash = key_hash(row, key, len);
    made->len = (uint8_t)len;
    memcpy(made->key, key, len);
    bucket = bucket_of(&fsm->keys, made->hash);
    made->next = *bucket;
    *bucket = made;
    fsm->keys.count++;
    return made;
}

/* It takes its place as the youngest, and comes into the digest. */
static void key_enter(struct fsm *fsm, struct fsm_key *key, struct fsm_changes *changes)
{
    size_t key_len;

    TAILQ_INSERT_TAIL(&fsm->keys.ages, key, age);
    key_bytes(fsm, key, &key_len);
    fsm_scratch_enter(fsm, key_len, changes);
}

static void key_bytes(struct fsm *fsm, const struct fsm_key *key, size_t *ret_key_len)
{
    fsm->scratch.len = 0;
    buf_put_u8(&fsm->scratch, FSM_TABLE_KEYS);
    buf_put_u8(&fsm->scratch, (uint8_t)key->row->tag.name_len);
    buf_put(&fsm->scratch, key->row->tag.name, key->row->tag.name_len);
    buf_put(&fsm->scratch, key->key, key->len);
    *ret_key_len = fsm->scratch.len;
    buf_put_u8(&fsm->scratch, ROW_VERSION);
    buf_put_u64(&fsm->scratch, key->first);
    buf_put_u32(&fsm->scratch, key->count);
    buf_put_u64(&fsm->scratch, key->at_ms);
    buf_put_u64(&fsm->scratch, key->index);
    buf_put_u16(&fsm->scratch, key->position);
}

static int load_value(struct reader *reader, struct fsm_key *ret_key)
{
    if (reader_left(reader) > 0 && reader_u8(reader) != ROW_VERSION) {
        return ERR_BAD_VERSION;
    }
    ret_key->first = reader_u64(reader);
    ret_key->count = reader_u32(reader);
    ret_key->at_ms = reader_u64(reader);
    ret_key->index = reader_u64(reader);
    ret_key->position = reader_u16(reader);
    if (reader->bad || reader->len == 0) {
        return ERR_TRUNCATED;
    }
    if (!reader_done(reader) || ret_key->count < 1 || ret_key->count > LIMIT_COUNT ||
        ret_key->first > (uint64_t)TAG_MAX_ID_END - ret_key->count || ret_key->at_ms < 1 ||
        ret_key->position >= LIMIT_STRICT_ITEMS) {
        return ERR_CORRUPT;
    }
    return 0;
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

/* Can key be the next after older? An item makes one key, and the log's time never falls, nor moves
 * within an entry. */
static bool age_fits(const struct fsm_key *older, const struct fsm_key *key)
{
    if (older->index == key->index) {
        return older->position < key->position && older->at_ms == key->at_ms;
    }
    return older->index < key->index && older->at_ms <= key->at_ms;
}

/* --- buckets --- */

static uint32_t key_hash(const struct fsm_row *row, const char *key, size_t len)
{
    return (uint32_t)hash_bytes(key, len, (uintptr_t)row);
}

/* Number of the bucket: the hash's low bits, one bit less where that bucket is not there yet. */
static struct fsm_key **bucket_of(const struct fsm_keys *keys, uint32_t hash)
{
    uint32_t mask = UINT32_MAX >> __builtin_clz(keys->bucket_count);
    uint32_t number = hash & mask;

    return bucket_at(keys, number < keys->bucket_count ? number : number & (mask >> 1));
}

static struct fsm_key **bucket_at(const struct fsm_keys *keys, uint32_t number)
{
    ASSERT(number < keys->bucket_count);
    return &keys->chunks[number / FSM_KEY_CHUNK][number % FSM_KEY_CHUNK];
}

/* One bucket more: what belongs there comes from the one that stood for it. */
static void bucket_add(struct fsm_keys *keys)
{
    uint32_t number = keys->bucket_count;
    struct fsm_key *chain = number > 0 ? *bucket_of(keys, number) : NULL;

    if (number % FSM_KEY_CHUNK == 0) {
        struct fsm_key **chunk = calloc(FSM_KEY_CHUNK, sizeof(struct fsm_key *));

        ASSERT(chunk != NULL && number / FSM_KEY_CHUNK < FSM_KEY_CHUNKS);
        keys->chunks[number / FSM_KEY_CHUNK] = chunk;
    }
    if (number > 0) {
        *bucket_of(keys, number) = NULL;
    }
    keys->bucket_count++;
    while (chain != NULL) {
        struct fsm_key *key = chain;
        struct fsm_key **bucket = bucket_of(keys, key->hash);

        chain = key->next;
        key->next = *bucket;
        *bucket = key;
    }
}
