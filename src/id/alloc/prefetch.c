/*
 * prefetch.c - see prefetch.h.
 *
 * A record: version, entries {name, time of the last use, ids recently used}, to the end. All
 * records in their order are one list, busiest first. Only records whose bytes changed are written;
 * those after the list's end are emptied. After a crash between two writes a name may occur twice,
 * or be missing: the first counts.
 */
#include "src/id/alloc/prefetch.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/base/hash.h"
#include "src/id/codec/tag.h"

#define RECORD_VERSION 1
#define ENTRY_BYTES_MAX (2 + LIMIT_TAG_NAME_BYTES + 8 + 8)
#define HOUR_MS 3600000
#define FETCHES_PER_TURN 100 /* then the loop continues */

struct prefetch_entry {
    RB_ENTRY(prefetch_entry) by_name;
    struct id_tag *tag; /* NULL: not in use in this incarnation */
    uint64_t granted;   /* ids that arrived while it was watched, of this generation of its tag */
    uint64_t seen;      /* of those, used up at the last look */
    uint64_t busy;      /* ids used up recently: halved every hour */
    uint64_t hour;      /* for which busy was last halved */
    uint64_t last_ms;   /* wall time of the last look that found some used up */
    uint32_t generation;
    uint16_t name_len;
    char name[];
};

RB_HEAD(prefetch_tree, prefetch_entry);

struct prefetch {
    struct prefetch_config config;
    struct prefetch_ops ops;
    const struct clock *clock;
    struct timers *timers;
    struct prefetch_tree entries;
    size_t count;
    /* fetching: names in order, of an earlier incarnation */
    struct prefetch_entry **order; /* NULL: nothing is left to fetch */
    size_t order_count;
    size_t order_at;
    uint64_t fetch_began_ms;             /* monotonic; 0: not begun */
    uint64_t fetched;                    /* since then */
    struct timer fetch;                  /* until the rate allows the next one */
    struct timer look;                   /* until the next look */
    struct timer save;                   /* until the next writing */
    uint64_t written[LIMIT_LOCAL_LISTS]; /* hash of the record's bytes; 0: empty */
};

_Static_assert((uint64_t)LIMIT_PREFETCH_TAGS *ENTRY_BYTES_MAX <=
                   (uint64_t)LIMIT_LOCAL_LISTS * (LIMIT_LOCAL_RECORD_BYTES - ENTRY_BYTES_MAX - 1),
               "all names fit the records");

static int entry_order(struct prefetch_entry *a, struct prefetch_entry *b)
{
    return tag_name_compare(a->name, a->name_len, b->name, b->name_len);
}

/* RB_GENERATE_STATIC of libbsd wants BSD's __unused; not all that is generated is used here. */
RB_GENERATE_INTERNAL(prefetch_tree, prefetch_entry, by_name, entry_order,
                     __attribute__((unused)) static)

/* --- entries --- */

static struct prefetch_entry *entry_find(struct prefetch *prefetch, const char *name, size_t len)
{
    struct prefetch_entry *at = RB_ROOT(&prefetch->entries);
    int order = 0;

    while (at != NULL && (order = tag_name_compare(name, len, at->name, at->name_len)) != 0) {
        at = order < 0 ? RB_LEFT(at, by_name) : RB_RIGHT(at, by_name);
    }
    return at;
}

/* An entry of a name that has none. */
static struct prefetch_entry *entry_new(struct prefetch *prefetch, const char *name, size_t len)
{
    struct prefetch_entry *entry = MUST_HAVE(calloc(1, sizeof *entry + len + 1));

    ASSERT(len <= LIMIT_TAG_NAME_BYTES);
    memcpy(entry->name, name, len);
    entry->name_len = (uint16_t)len;
    ASSERT(RB_INSERT(prefetch_tree, &prefetch->entries, entry) == NULL);
    prefetch->count++;
    return entry;
}

static void entry_drop(struct prefetch *prefetch, struct prefetch_entry *entry)
{
    (void)RB_REMOVE(prefetch_tree, &prefetch->entries, entry);
    prefetch->count--;
    free(entry);
}

static void entry_age(struct prefetch_entry *entry, uint64_t time_ms)
{
    uint64_t hour = time_ms / HOUR_MS;

    if (hour > entry->hour) {
        uint64_t hours = hour - entry->hour;

        entry->busy = hours < 64 ? entry->busy >> hours : 0;
        entry->hour = hour;
    }
}

/* Restart the count from the present ids: at first, and when a newer generation burnt them. */
static void entry_count_anew(struct prefetch_entry *entry)
{
    entry->granted = segment_left(&entry->tag->buffer);
    entry->seen = 0;
    entry->generation = entry->tag->refill.generation;
}

static bool entry_is_old(const struct prefetch_entry *entry, uint64_t time_ms)
{
    return time_ms > entry->last_ms && time_ms - entry->last_ms > PREFETCH_KEEP_MS;
}

/* Busiest first; a total order. */
static int rank_order(const void *a, const void *b)
{
    struct prefetch_entry *left = *(struct prefetch_entry *const *)a;
    struct prefetch_entry *right = *(struct prefetch_entry *const *)b;

    if (left->busy != right->busy) {
        return left->busy > right->busy ? -1 : 1;
    }
    if (left->last_ms != right->last_ms) {
        return left->last_ms > right->last_ms ? -1 : 1;
    }
    return entry_order(left, right);
}

/* All entries in order of rank, owned by the caller. NULL: there are none. */
static struct prefetch_entry **ranked(struct prefetch *prefetch)
{
    struct prefetch_entry **list =
        MUST_HAVE(calloc(prefetch->count + 1, sizeof(struct prefetch_entry *)));
    struct prefetch_entry *entry;
    size_t n = 0;

    RB_FOREACH (entry, prefetch_tree, &prefetch->entries) {
        list[n++] = entry;
    }
    ASSERT(n == prefetch->count);
    qsort(list, n, sizeof(struct prefetch_entry *), rank_order);
    return list;
}

/* Names that wait are no longer fetched. */
static void order_end(struct prefetch *prefetch)
{
    free(prefetch->order);
    prefetch->order = NULL;
    prefetch->order_count = 0;
    prefetch->order_at = 0;
}

/* Look at all entries, and forget those of too low a rank, or too old and not in use. Returns the
 * rest in order. */
static struct prefetch_entry **prefetch_look(struct prefetch *prefetch, uint64_t time_ms)
{
    struct prefetch_entry *entry;
    struct prefetch_entry **list;
    size_t kept = 0;
    size_t count;

    RB_FOREACH (entry, prefetch_tree, &prefetch->entries) {
        uint64_t left;
        uint64_t used;
        uint64_t news;

        entry_age(entry, time_ms);
        if (entry->tag == NULL) {
            continue;
        }
        if (entry->generation != entry->tag->refill.generation) {
            entry_count_anew(entry);
        }
        left = segment_left(&entry->tag->buffer);
        used = entry->granted > left ? entry->granted - left : 0;
        news = used > entry->seen ? used - entry->seen : 0; /* since the last look */
        entry->seen = used;
        if (news > 0) {
            entry->busy = entry->busy + news < entry->busy ? UINT64_MAX : entry->busy + news;
            entry->last_ms = time_ms > entry->last_ms ? time_ms : entry->last_ms;
        }
    }
    list = ranked(prefetch);
    count = prefetch->count;
    for (size_t i = 0; i < count; i++) {
        /* While names wait to be fetched all are kept: there are no more than allowed. */
        if (prefetch->order == NULL && (kept >= prefetch->config.tags ||
                                        (list[i]->tag == NULL && entry_is_old(list[i], time_ms)))) {
            entry_drop(prefetch, list[i]);
        } else {
            list[kept++] = list[i];
        }
    }
    list[kept] = NULL;
    ASSERT(kept == prefetch->count);
    return list;
}

/* --- records --- */

static void write_record(struct prefetch *prefetch, unsigned number, const struct buf *buf)
{
    uint64_t hash = hash_bytes(buf->data, buf->len, 0);

    ASSERT(number < LIMIT_LOCAL_LISTS && buf->len <= LIMIT_LOCAL_RECORD_BYTES);
    if (hash == prefetch->written[number]) {
        return;
    }
    prefetch->written[number] = hash;
    prefetch->ops.write(prefetch->ops.data, number, buf->data, buf->len);
}

void prefetch_save(struct prefetch *prefetch, uint64_t time_ms)
{
    struct prefetch_entry **list;
    struct buf buf = BUF_INIT;
    unsigned number = 0;

    if (prefetch->config.tags == 0) {
        return;
    }
    list = prefetch_look(prefetch, time_ms);
    buf_put_u8(&buf, RECORD_VERSION);
    for (size_t i = 0; list[i] != NULL && i < prefetch->config.tags; i++) {
        if (entry_is_old(list[i], time_ms)) {
            continue; /* in use, but no id was taken for long */
        }
        if (buf.len + ENTRY_BYTES_MAX > LIMIT_LOCAL_RECORD_BYTES) {
            write_record(prefetch, number++, &buf);
            buf.len = 1;
        }
        buf_put_str16(&buf, list[i]->name, list[i]->name_len);
        buf_put_u64(&buf, list[i]->last_ms);
        buf_put_u64(&buf, list[i]->busy);
    }
    write_record(prefetch, number++, &buf);
    buf.len = 1;
    for (; number < LIMIT_LOCAL_LISTS; number++) {
        if (prefetch->written[number] != 0) {
            write_record(prefetch, number, &buf); /* the list was longer once */
        }
    }
    buf_free(&buf);
    free(list);
}

/* One entry; false at the end, or for malformed bytes (then reader_done() is false). */
static bool entry_read(struct reader *reader, const char **ret_name, size_t *ret_len,
                       uint64_t *ret_last_ms, uint64_t *ret_busy)
{
    if (reader_left(reader) == 0) {
        return false;
    }
    *ret_name = (const char *)reader_str16(reader, ret_len);
    *ret_last_ms = reader_u64(reader);
    *ret_busy = reader_u64(reader);
    if (!reader->bad && tag_name_check(*ret_name, *ret_len, NULL) != 0) {
        reader->bad = true;
    }
    return !reader->bad;
}

int prefetch_resume(struct prefetch *prefetch, unsigned number, const void *bytes, size_t len)
{
    struct reader reader;
    const char *name;
    size_t name_len;
    uint64_t last_ms;
    uint64_t busy;

    ASSERT(number < LIMIT_LOCAL_LISTS && prefetch->fetch_began_ms == 0);
    reader_init(&reader, bytes, len);
    if (len > 0 && reader_u8(&reader) != RECORD_VERSION) {
        return ERR_BAD_VERSION;
    }
    while (entry_read(&reader, &name, &name_len, &last_ms, &busy)) {
        continue;
    }
    if (!reader_done(&reader)) {
        return ERR_CORRUPT;
    }
    prefetch->written[number] = len > 0 ? hash_bytes(bytes, len, 0) : 0;
    reader_init(&reader, bytes, len);
    (void)reader_u8(&reader);
    while (prefetch->count < prefetch->config.tags &&
           entry_read(&reader, &name, &name_len, &last_ms, &busy)) {
        if (entry_find(prefetch, name, name_len) == NULL) {
            struct prefetch_entry *entry = entry_new(prefetch, name, name_len);

            entry->last_ms = last_ms;
            entry->busy = busy;
            entry->hour = last_ms / HOUR_MS;
        }
    }
    return 0;
}

/* --- public functions --- */

static void prefetch_arm(struct prefetch *prefetch, struct timer *timer, uint64_t ms)
{
    timer_arm(prefetch->timers, timer, clock_now_ms(prefetch->clock) + ms);
}

struct prefetch *prefetch_new(const struct prefetch_config *config, const struct prefetch_ops *ops,
                              const struct clock *clock, struct timers *timers)
{
    struct prefetch *prefetch = MUST_HAVE(calloc(1, sizeof *prefetch));

    ASSERT(config->tags <= LIMIT_PREFETCH_TAGS && (config->tags == 0 || config->rate_per_s > 0));
    prefetch->config = *config;
    prefetch->ops = *ops;
    prefetch->clock = clock;
    prefetch->timers = timers;
    prefetch->fetch.wakes = ops->wakes;
    prefetch->look.wakes = ops->wakes;
    prefetch->save.wakes = ops->wakes;
    RB_INIT(&prefetch->entries);
    if (config->tags > 0) {
        prefetch_arm(prefetch, &prefetch->look, PREFETCH_LOOK_MS);
        prefetch_arm(prefetch, &prefetch->save, PREFETCH_SAVE_MS);
    }
    return prefetch;
}

void prefetch_free(struct prefetch *prefetch)
{
    struct prefetch_entry *entry;

    if (prefetch == NULL) {
        return;
    }
    order_end(prefetch);
    timer_cancel(prefetch->timers, &prefetch->fetch);
    timer_cancel(prefetch->timers, &prefetch->look);
    timer_cancel(prefetch->timers, &prefetch->save);
    while ((entry = RB_MIN(prefetch_tree, &prefetch->entries)) != NULL) {
        entry_drop(prefetch, entry);
    }
    free(prefetch);
}

void prefetch_served(struct prefetch *prefetch, struct id_tag *tag)
{
    struct prefetch_entry *entry = entry_find(prefetch, tag->name, tag->name_len);

    if (prefetch->config.tags == 0) {
        return;
    }
    if (entry != NULL && entry->tag == tag && entry->generation == tag->refill.generation) {
        entry->granted += tag->refill.size;
        return;
    }
    if (entry == NULL && prefetch->count >= 2 * (size_t)prefetch->config.tags) {
        return; /* until the next look has removed the lower half */
    }
    entry = entry != NULL ? entry : entry_new(prefetch, tag->name, tag->name_len);
    entry->tag = tag;
    entry_count_anew(entry);
}

void prefetch_turn(struct prefetch *prefetch, uint64_t time_ms, bool ready)
{
    uint64_t now_ms = clock_now_ms(prefetch->clock);
    struct prefetch_entry *entry;

    if (prefetch->config.tags == 0) {
        return;
    }
    if (ready && prefetch->fetch_began_ms == 0) {
        prefetch->fetch_began_ms = now_ms > 0 ? now_ms : 1;
        RB_FOREACH (entry, prefetch_tree, &prefetch->entries) {
            entry_age(entry, time_ms);
        }
        prefetch->order = prefetch->count > 0 ? ranked(prefetch) : NULL;
        prefetch->order_count = prefetch->count;
    }
    if (ready && prefetch->order != NULL) { /* fetch as many as the rate allows by now */
        uint64_t began_ms = prefetch->fetch_began_ms;
        uint64_t rate = prefetch->config.rate_per_s;
        uint64_t allowed = (now_ms > began_ms ? now_ms - began_ms : 0) * rate / 1000 + 1;

        for (unsigned n = 0; n < FETCHES_PER_TURN && prefetch->order_at < prefetch->order_count &&
                             prefetch->fetched < allowed;
             n++) {
            entry = prefetch->order[prefetch->order_at++];
            /* A tag that is in use by now was fetched by its users. */
            if (entry->tag == NULL && !entry_is_old(entry, time_ms)) {
                prefetch->fetched++;
                prefetch->ops.fetch(prefetch->ops.data, entry->name, entry->name_len);
            }
        }
        if (prefetch->order_at == prefetch->order_count) {
            order_end(prefetch);
        } else {
            timer_arm(prefetch->timers, &prefetch->fetch,
                      began_ms + (prefetch->fetched * 1000 + rate - 1) / rate);
        }
    }
    if (!timer_is_armed(&prefetch->save)) {
        prefetch_arm(prefetch, &prefetch->save, PREFETCH_SAVE_MS);
        prefetch_arm(prefetch, &prefetch->look, PREFETCH_LOOK_MS);
        prefetch_save(prefetch, time_ms);
    } else if (!timer_is_armed(&prefetch->look)) {
        prefetch_arm(prefetch, &prefetch->look, PREFETCH_LOOK_MS);
        free(prefetch_look(prefetch, time_ms));
    }
}

size_t prefetch_count(const struct prefetch *prefetch)
{
    return prefetch->count;
}

size_t prefetch_waiting(const struct prefetch *prefetch)
{
    return prefetch->order_count - prefetch->order_at;
}
