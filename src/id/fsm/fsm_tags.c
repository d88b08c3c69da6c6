/*
 * fsm_tags.c - see fsm_tables.h: owners and tags.
 */
#include "src/id/fsm/fsm_tables.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/base/container.h"
#include "src/base/hash.h"
#include "src/base/prng.h"

/* --- fsm_owners --- */

/* Its piece of malloc, and its bucket. */
#define OWNER_BYTES ((sizeof(struct fsm_owner) + 8 + 15) / 16 * 16 + sizeof(void *))

static uint32_t owner_hash_of(const struct hash_link *link)
{
    return CONTAINER(link, const struct fsm_owner, link)->hash;
}

void fsm_owners_clear(struct fsm_owners *owners)
{
    ASSERT(owners->table.count == 0 && owners->bytes == 0);
    hash_table_free(&owners->table);
    hash_table_init(&owners->table, owner_hash_of);
}

/* Clients are hashes already, but with a seed that is the same on all nodes. */
static uint32_t client_hash(const struct fsm_owners *owners, uint64_t client)
{
    return (uint32_t)hash_bytes(&client, sizeof client, owners->table.seed);
}

/* NULL: its total is 0, or client is 0. */
static struct fsm_owner *owner_find(const struct fsm_owners *owners, uint64_t client)
{
    struct hash_link *link =
        client != 0 ? hash_table_chain(&owners->table, client_hash(owners, client)) : NULL;

    for (; link != NULL; link = link->next) {
        struct fsm_owner *owner = CONTAINER(link, struct fsm_owner, link);

        if (owner->client == client) {
            return owner;
        }
    }
    return NULL;
}

void fsm_owners_enter(struct fsm_owners *owners, uint64_t client, uint64_t amount)
{
    struct fsm_owner *owner = owner_find(owners, client);

    ASSERT(amount > 0);
    if (client == 0) {
        return;
    }
    if (owner == NULL) {
        owner = MUST_HAVE(calloc(1, sizeof *owner));
        owner->client = client;
        owner->hash = client_hash(owners, client);
        hash_table_add(&owners->table, &owner->link);
        owners->bytes += OWNER_BYTES;
    }
    owner->held += amount;
}

void fsm_owners_leave(struct fsm_owners *owners, uint64_t client, uint64_t amount)
{
    struct fsm_owner *owner = owner_find(owners, client);

    ASSERT((owner != NULL) == (client != 0));
    if (owner == NULL) {
        return;
    }
    ASSERT(owner->held >= amount);
    owner->held -= amount;
    if (owner->held == 0) {
        hash_table_remove(&owners->table, &owner->link);
        owners->bytes -= OWNER_BYTES;
        free(owner);
    }
}

uint64_t fsm_owners_held(const struct fsm_owners *owners, uint64_t client)
{
    const struct fsm_owner *owner = owner_find(owners, client);

    return owner != NULL ? owner->held : 0;
}

/* --- fsm_tags --- */

#define WALK_TRIES 16
#define MALLOC_BYTES 8 /* malloc's own, for each piece; sizes are multiples of twice that */
#define ALIGNED(bytes, unit) (((uint64_t)(bytes) + (unit)-1) / (unit) * (unit))
#define TIME_MASK ((1ULL << 48) - 1) /* of a row's times, which keep below it */

static int row_order(const struct fsm_row *a, const struct fsm_row *b)
{
    return tag_name_compare(a->name, a->name_len, b->name, b->name_len);
}

/* RB_GENERATE_STATIC of libbsd wants BSD's __unused; not all that is generated is used here. */
RB_GENERATE_INTERNAL(fsm_row_tree, fsm_row, link, row_order, __attribute__((unused)) static)

static int row_compare(const char *name, size_t len, const struct fsm_row *row)
{
    return tag_name_compare(name, len, row->name, row->name_len);
}

/* The row before this one, before NULL the last; NULL: none. */
static struct fsm_row *tags_before(const struct fsm_tags *tags, struct fsm_row *row)
{
    struct fsm_row_tree *rows = (struct fsm_row_tree *)(uintptr_t)&tags->rows;

    return row != NULL ? RB_PREV(fsm_row_tree, rows, row) : RB_MAX(fsm_row_tree, rows);
}

struct fsm_row *fsm_tags_find(const struct fsm_tags *tags, const char *name, size_t len)
{
    struct fsm_row *row = fsm_tags_seek(tags, name, len);

    return row != NULL && row_compare(name, len, row) == 0 ? row : NULL;
}

struct fsm_row *fsm_tags_walk(const struct fsm_tags *tags, struct fsm_tags_walk *walk,
                              const char *name, size_t len)
{
    bool tries = walk->last != NULL && walk->misses <= walk->hits + walk->count / WALK_TRIES;
    struct fsm_row *row = tries ? fsm_tags_next(walk->last) : NULL;
    int order = row != NULL ? row_compare(name, len, row) : -1;

    walk->count++;
    if (tries && (order == 0 || (order < 0 && row_compare(name, len, walk->last) > 0))) {
        walk->hits++;
    } else {
        walk->misses += tries ? 1 : 0;
        row = fsm_tags_seek(tags, name, len);
        order = row != NULL ? row_compare(name, len, row) : -1;
    }
    walk->after = row;
    if (order == 0) {
        walk->last = row;
        return row;
    }
    walk->last = tags_before(tags, row);
    return NULL;
}

struct fsm_row *fsm_tags_seek(const struct fsm_tags *tags, const char *name, size_t len)
{
    struct fsm_row *row = RB_ROOT(&tags->rows);
    struct fsm_row *first = NULL;

    while (row != NULL) {
        int order = row_compare(name, len, row);

        if (order == 0) {
            return row;
        }
        first = order < 0 ? row : first;
        row = order < 0 ? RB_LEFT(row, link) : RB_RIGHT(row, link);
    }
    return first;
}

struct fsm_row *fsm_tags_next(struct fsm_row *row)
{
    return RB_NEXT(fsm_row_tree, NULL, row);
}

/* Insert into the tree, between two rows: a search would miss the caches at each step. If others
 * were made between them since, the row comes after all of them, or after the newest (t9, t10,
 * t11), or its place is searched for. */
static void enter_between(struct fsm_tags *tags, struct fsm_row *row, struct fsm_row *before,
                          struct fsm_row *after)
{
    struct fsm_row *now = tags_before(tags, after);
    struct fsm_row *twin;

    ASSERT(after == NULL || row_order(row, after) < 0);
    if (now != before && row_order(now, row) >= 0) {
        now = tags->newest;
        after = now != NULL ? fsm_tags_next(now) : NULL;
        if (now == NULL || row_order(now, row) >= 0 ||
            (after != NULL && row_order(row, after) >= 0)) {
            twin = RB_INSERT(fsm_row_tree, &tags->rows, row);
            ASSERT(twin == NULL);
            return;
        }
    }
    if (after != NULL && RB_LEFT(after, link) == NULL) {
        RB_SET(row, after, link);
        RB_LEFT(after, link) = row;
    } else {
        RB_SET(row, now, link);
        *(now != NULL ? &RB_RIGHT(now, link) : &RB_ROOT(&tags->rows)) = row;
    }
    fsm_row_tree_RB_INSERT_COLOR(&tags->rows, row);
}

struct fsm_row *fsm_tags_make(struct fsm_tags *tags, const char *name, size_t len,
                              struct fsm_row *before, struct fsm_row *after)
{
    struct fsm_row *row;
    uint32_t handle;

    ASSERT(len >= 1 && len <= LIMIT_TAG_NAME_BYTES);
    if (tags->count >= LIMIT_TAGS) {
        return NULL;
    }
    handle = arena_alloc(&tags->arena, offsetof(struct fsm_row, name) + len + 1);
    ASSERT(handle != 0); /* the arena holds LIMIT_TAGS rows with the longest names */
    row = arena_at(&tags->arena, handle);
    memcpy(row->name, name, len);
    row->name_len = (uint16_t)len;
    enter_between(tags, row, before, after);
    tags->newest = row;
    tags->count++;
    return row;
}

/* --- what few tags have --- */

/* 0: the tag has none of it. */
static size_t rest_bytes(const struct tag_row *tag)
{
    size_t texts = (size_t)tag->description_len + tag->shape_len + tag->reason_len;
    bool has = texts > 0 || tag->max != 0 || tag->increment != 0 || tag->cover_s != 0;

    return has ? offsetof(struct fsm_rest, texts) + texts + 1 : 0;
}

static struct fsm_rest *rest_new(const struct tag_row *tag)
{
    struct fsm_rest *rest;

    ASSERT(tag->description_len <= LIMIT_TAG_DESCRIPTION_BYTES);
    ASSERT(tag->shape_len <= TAG_SHAPE_BYTES_MAX && tag->reason_len <= LIMIT_TAG_REASON_BYTES);
    if (rest_bytes(tag) == 0) {
        return NULL;
    }
    rest = MUST_HAVE(calloc(1, rest_bytes(tag)));
    rest->max = tag->max;
    rest->increment = tag->increment;
    rest->offset = tag->offset;
    rest->cover_s = tag->cover_s;
    rest->description_len = tag->description_len;
    rest->shape_len = tag->shape_len;
    rest->reason_len = tag->reason_len;
    memcpy(rest->texts, tag->description, tag->description_len);
    if (tag->shape_len > 0) {
        memcpy(rest->texts + tag->description_len + 1, tag->shape, tag->shape_len);
    }
    if (tag->reason_len > 0) {
        memcpy(rest->texts + tag->description_len + 1 + tag->shape_len, tag->reason,
               tag->reason_len);
    }
    return rest;
}

struct tag_row fsm_row_tag(const struct fsm_row *row)
{
    const struct fsm_rest *rest = row->rest;
    const char *empty = row->name + row->name_len;
    struct tag_row tag = {.name = row->name,
                          .description = empty,
                          .shape = empty,
                          .reason = empty,
                          .name_len = row->name_len,
                          .mode = row->mode,
                          .deleted = row->deleted,
                          .recalling = row->recalling,
                          .paused = row->paused,
                          .generation = row->generation,
                          .step = row->step,
                          .max_step = row->max_step,
                          .max_id = row->max_id,
                          .created_ms = row->created_ms,
                          .updated_ms = row->updated_ms,
                          .client = row->client};

    if (rest != NULL) {
        tag.description = rest->texts;
        tag.shape = tag.description + rest->description_len + 1;
        tag.reason = tag.shape + rest->shape_len;
        tag.description_len = rest->description_len;
        tag.shape_len = rest->shape_len;
        tag.reason_len = rest->reason_len;
        tag.max = rest->max;
        tag.increment = rest->increment;
        tag.offset = rest->offset;
        tag.cover_s = rest->cover_s;
    }
    return tag;
}

/* Set the row to this, with this rest, which it owns. */
static void row_become(struct fsm_row *row, const struct tag_row *tag, struct fsm_rest *rest)
{
    free(row->rest);
    row->rest = rest;
    row->max_id = tag->max_id;
    row->client = tag->client;
    row->created_ms = tag->created_ms & TIME_MASK;
    row->mode = tag->mode;
    row->deleted = tag->deleted;
    row->recalling = tag->recalling;
    row->paused = tag->paused;
    row->updated_ms = tag->updated_ms & TIME_MASK;
    row->generation = tag->generation;
    row->step = tag->step;
    row->max_step = tag->max_step;
}

void fsm_row_set(struct fsm_row *row, const struct tag_row *tag)
{
    row_become(row, tag, rest_new(tag)); /* tag may borrow from the old texts */
}

/* --- changes --- */

uint64_t fsm_tag_bytes(const struct tag_row *tag)
{
    uint64_t row = ALIGNED(offsetof(struct fsm_row, name) + tag->name_len + 1, ARENA_UNIT_BYTES);
    bool may_rekey = tag_is_rekeyable(tag);
    size_t keys = may_rekey ? SHAPE_KEYS_MAX : 1;
    struct tag_row full = *tag;
    uint64_t rest;
    /* A node that uses a tag keeps another copy of its shape, ready for use. */
    uint64_t used = LIMIT_TAG_USED_BYTES + tag->name_len +
                    (tag->shape_len > 0 ? sizeof(struct shape) + keys * SHAPE_KEY_BYTES : 0);

    /* All keys count from the beginning, so that a full state takes another for a leaked one. */
    if (may_rekey) {
        full.shape_len = (uint16_t)(tag_shape_text_len(tag->shape, tag->shape_len) + 1 +
                                    SHAPE_KEYS_MAX * SHAPE_KEY_BYTES);
    }
    rest = rest_bytes(&full);
    rest = rest > 0 ? ALIGNED(MALLOC_BYTES + rest, 2 * MALLOC_BYTES) : 0;
    return row + rest + (tag->deleted ? 0 : used);
}

/* Start or stop counting the row. */
static void count_row(struct fsm_counts *counts, const struct tag_row *tag, bool starts)
{
    uint64_t by = starts ? 1 : UINT64_MAX; /* -1 */

    counts->bytes += by * fsm_tag_bytes(tag);
    counts->dead += tag->deleted ? by : 0;
    counts->dated += tag_is_dated(tag) ? by : 0;
}

/* Put the row's key and value into the journal. */
static void tag_journal(struct journal *journal, const struct tag_row *tag)
{
    journal_key(journal, FSM_TABLE_TAGS);
    buf_put(&journal->row, tag->name, tag->name_len);
    journal_record(journal, tag_row_format(tag), tag);
}

static void tag_remember(struct fsm_tags *tags, const struct tag_row *tag)
{
    tags->before =
        (struct fsm_tag_before){.known = true, .recalling = tag->recalling, .max_id = tag->max_id};
}

void fsm_tags_change_begin(struct fsm *fsm, struct fsm_row *row)
{
    const struct tag_row tag = fsm_row_tag(row);

    tag_remember(&fsm->tags, &tag);
    count_row(&fsm->tags.counts, &tag, false);
    tag_journal(fsm_journal(fsm), &tag);
    journal_leave(fsm_journal(fsm));
}

static void tag_notify(struct fsm *fsm, const struct tag_row *tag)
{
    struct fsm_listener *listener = fsm->listener;

    if (listener != NULL && listener->tag_changed != NULL && !fsm_journal(fsm)->loading) {
        listener->tag_changed(listener, tag, &fsm->tags.before);
    }
    fsm->tags.before = (struct fsm_tag_before){0};
}

void fsm_tags_change_end(struct fsm *fsm, struct fsm_row *row)
{
    const struct tag_row tag = fsm_row_tag(row);

    count_row(&fsm->tags.counts, &tag, true);
    tag_journal(fsm_journal(fsm), &tag);
    journal_enter(fsm_journal(fsm));
    tag_notify(fsm, &tag);
}

void fsm_tags_move(struct fsm *fsm, struct fsm_row *row, uint64_t max_id, uint64_t wall_ms)
{
    fsm_tags_change_begin(fsm, row);
    row->max_id = max_id;
    row->updated_ms = later_of(row->updated_ms, wall_ms) & TIME_MASK;
    fsm_tags_change_end(fsm, row);
}

void fsm_tags_ready(struct fsm *fsm, struct fsm_change *change, struct fsm_changes_sum *sum)
{
    const struct tag_row *tag = &change->tag;
    struct journal *journal = fsm_journal(fsm);

    if (change->row != NULL) {
        const struct tag_row old = fsm_row_tag(change->row);

        change->keeps_share =
            tag->client == old.client && tag_share_bytes(tag) == tag_share_bytes(&old);
        tag_journal(journal, &old);
        sum->digest -= journal_hash(journal);
        count_row(&sum->counts, &old, false);
    }
    change->rest = rest_new(tag);
    tag_journal(journal, tag);
    sum->digest += journal_hash(journal);
    count_row(&sum->counts, tag, true);
    row_changes_add(&sum->rows, journal->row.data, journal->key_len,
                    journal->row.len - journal->key_len);
}

struct fsm_row *fsm_tags_change(struct fsm *fsm, struct fsm_change *change)
{
    struct fsm_tags *tags = &fsm->tags;
    struct fsm_row *row = change->row;
    struct tag_row tag;

    if (row == NULL) {
        row = fsm_tags_make(tags, change->tag.name, change->tag.name_len, change->before,
                            change->after);
        ASSERT(row != NULL);
    } else {
        tag = fsm_row_tag(row);
        tag_remember(tags, &tag);
        if (!change->keeps_share) {
            fsm_owners_leave(&tags->owners, tag.client, tag_share_bytes(&tag));
        }
    }
    if (!change->keeps_share) {
        fsm_owners_enter(&tags->owners, change->tag.client, tag_share_bytes(&change->tag));
    }
    row_become(row, &change->tag, change->rest);
    change->rest = NULL;
    tag = fsm_row_tag(row);
    tag_notify(fsm, &tag);
    return row;
}

void fsm_tags_clear(struct fsm *fsm)
{
    struct fsm_tags *tags = &fsm->tags;

    for (struct fsm_row *row = fsm_tags_seek(tags, "", 0); row != NULL; row = fsm_tags_next(row)) {
        const struct tag_row tag = fsm_row_tag(row);

        fsm_owners_leave(&tags->owners, tag.client, tag_share_bytes(&tag));
        free(row->rest);
    }
    arena_free(&tags->arena);
    *tags = (struct fsm_tags){.seed = prng_entropy(), .owners = tags->owners};
    fsm_owners_clear(&tags->owners);
}

/* --- reading --- */

const struct tag_row *fsm_tag(const struct fsm *fsm, const char *name, size_t name_len)
{
    const struct fsm_row *row = fsm_tags_find(&fsm->tags, name, name_len);

    if (row == NULL) {
        return NULL;
    }
    *fsm->shown = fsm_row_tag(row);
    return fsm->shown;
}

size_t fsm_tag_count(const struct fsm *fsm)
{
    return fsm->tags.count;
}

bool fsm_has_dates(const struct fsm *fsm)
{
    return fsm->tags.counts.dated > 0;
}

void fsm_tag_marks(const struct fsm *fsm, const void *command, size_t len, struct buf *marks)
{
    struct fsm_tags_walk walk = {0};
    struct tag_names names;
    const char *name;
    size_t name_len;

    tag_names_begin(&names, command, len);
    buf_reserve(marks, (size_t)names.left * TAG_MARK_BYTES);
    while (tag_names_next(&names, &name, &name_len)) {
        const struct fsm_row *row = fsm_tags_walk(&fsm->tags, &walk, name, name_len);

        buf_put_u32(marks, row != NULL ? row->generation : 0);
    }
}

void fsm_tags_list(const struct fsm_tags *tags, const struct query *query, struct buf *result)
{
    struct tag_row *rows = MUST_HAVE(malloc((query->limit + 1) * sizeof *rows));
    bool by_after = query->after_len > 0 && tag_name_compare(query->after, query->after_len,
                                                             query->name, query->name_len) >= 0;
    struct fsm_row *row = by_after ? fsm_tags_seek(tags, query->after, query->after_len)
                                   : fsm_tags_seek(tags, query->name, query->name_len);
    struct tag_row looked_at; /* the last one */
    const struct tag_row *next = NULL;
    size_t count = 0;
    size_t looks = 0;

    if (by_after && row != NULL && row_compare(query->after, query->after_len, row) == 0) {
        row = fsm_tags_next(row);
    }
    for (; row != NULL; row = fsm_tags_next(row)) {
        if (row->name_len < query->name_len ||
            memcmp(row->name, query->name, query->name_len) != 0) {
            break; /* past the prefix */
        }
        if (looks == LIMIT_ROWS_PER_LOOK) { /* the loop has others to serve */
            next = &looked_at;
            break;
        }
        if (!row->deleted && count == query->limit) {
            next = &rows[count - 1];
            break;
        }
        looked_at = fsm_row_tag(row);
        if (!row->deleted) {
            rows[count++] = looked_at;
        }
        looks++;
    }
    tag_rows_encode(rows, count, next, result);
    free(rows);
}

/* --- loading --- */

struct fsm_row *fsm_tags_expect(struct fsm *fsm, const char *name, size_t len)
{
    struct fsm_tags *tags = &fsm->tags;
    struct fsm_row *row = fsm_tags_seek(tags, name, len);

    ASSERT(fsm_journal(fsm)->loading);
    if (row != NULL && row_compare(name, len, row) == 0) {
        return row;
    }
    row = fsm_tags_make(tags, name, len, tags_before(tags, row), row);
    tags->hollow_count += row != NULL;
    return row;
}

int fsm_tags_load(struct fsm *fsm, const struct state_row *loaded)
{
    struct fsm_tags *tags = &fsm->tags;
    const char *name = (const char *)loaded->key + 1;
    size_t name_len = loaded->key_len - 1;
    struct tag_row tag;
    struct fsm_row *row;
    int err = tag_row_decode(name, name_len, loaded->value, loaded->value_len, &tag);

    if (err != 0) {
        return err;
    }
    row = fsm_tags_expect(fsm, name, name_len);
    if (row == NULL) {
        return ERR_CORRUPT; /* more rows than a node can have made */
    }
    if (row->step != 0) {
        return ERR_EXISTS;
    }
    fsm_row_set(row, &tag);
    fsm_owners_enter(&tags->owners, tag.client, tag_share_bytes(&tag));
    tags->hollow_count--;
    tags->recalling_count += tag.recalling && !tag.deleted;
    fsm_tags_change_end(fsm, row);
    return 0;
}
