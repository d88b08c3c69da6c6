/*
 * window.c - see window.h.
 *
 *   none --wanted--> in an entry --applied, own, same term--> open --taken--> low rises
 *    ^                                                          |
 *    +--------- leadership or term lost; closed; another generation
 */
#include "src/service/window.h"

#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "src/base/assert.h"
#include "src/base/container.h"
#include "src/base/hash.h"
#include "src/id/alloc/batch.h"

#define RATE_MIN_MS 100 /* the least time over which a rate is measured */
#define RETURN_ABANDON_MS 1000

/* The leader's data of one tag. */
struct window {
    struct hash_link link;
    TAILQ_ENTRY(window) use;     /* by when it was used */
    TAILQ_ENTRY(window) want;    /* while wanted */
    SLIST_ENTRY(window) touched; /* while a batch is checked */
    uint64_t term;               /* 0: there is no window */
    uint64_t low;                /* the next id; left are those below high, by its increment */
    uint64_t high;
    uint32_t increment; /* 0: 1 */
    uint32_t generation;
    uint32_t size; /* granted last */
    bool closed;   /* given back, or about to be; stays closed */
    bool in_flight;
    bool wanted;
    bool is_touched;
    uint64_t asked;     /* by the batch being checked */
    uint64_t need;      /* by waiting batches, since it was proposed last */
    uint64_t taken;     /* since */
    uint64_t since_ms;  /* the rate was measured */
    uint64_t opened_ms; /* or extended */
    uint64_t rate;      /* ids a second */
    uint32_t hash;
    uint16_t name_len;
    char name[];
};

TAILQ_HEAD(window_list, window);
SLIST_HEAD(touched_list, window);

struct windows {
    const struct clock *clock;
    struct hash_table table;
    struct window_list uses;   /* the one used longest ago first */
    struct window_list wanted; /* oldest first */
    bool closing;
    struct returns returns;
    struct window_counts counts;
};

static uint32_t window_hash_of(const struct hash_link *link)
{
    return CONTAINER(link, const struct window, link)->hash;
}

/* --- one window --- */

static uint64_t left_of(const struct window *window)
{
    ASSERT(window->low <= window->high);
    return (window->high - window->low) / increment_of(window->increment);
}

/* Empty the window; its ids left count as burnt. */
static void burn(struct windows *windows, struct window *window, uint64_t *cause)
{
    uint64_t left = left_of(window);

    *cause += window->closed ? 0 : left; /* else already counted, or given back */
    windows->counts.left -= left;
    windows->counts.open -= window->term != 0;
    window->low = window->high;
    window->term = 0;
}

static void window_free(struct windows *windows, struct window *window)
{
    burn(windows, window, &windows->counts.burnt_window);
    if (window->wanted) {
        TAILQ_REMOVE(&windows->wanted, window, want);
    }
    TAILQ_REMOVE(&windows->uses, window, use);
    hash_table_remove(&windows->table, &window->link);
    free(window);
}

void windows_forget(struct windows *windows)
{
    struct window *window;

    /* R7: a command in flight then finds no window. */
    while ((window = TAILQ_FIRST(&windows->uses)) != NULL) {
        window_free(windows, window);
    }
    ASSERT(windows->table.count == 0 && windows->counts.left == 0);
    windows->closing = false;
}

static struct window *window_find(const struct windows *windows, const char *name, size_t len)
{
    struct hash_link *link =
        hash_table_chain(&windows->table, (uint32_t)hash_bytes(name, len, windows->table.seed));

    for (; link != NULL; link = link->next) {
        struct window *window = CONTAINER(link, struct window, link);

        if (window->name_len == len && memcmp(window->name, name, len) == 0) {
            return window;
        }
    }
    return NULL;
}

/* Make room for one more. False: all are busy. */
static bool window_make_room(struct windows *windows)
{
    struct window *window;

    if (windows->table.count < LIMIT_WINDOWS) {
        return true;
    }
    TAILQ_FOREACH (window, &windows->uses, use) {
        if (!window->in_flight && !window->wanted && !window->is_touched) {
            window_free(windows, window);
            return true;
        }
    }
    return false;
}

/* NULL: there is no room for it. */
static struct window *find_or_make(struct windows *windows, const char *name, size_t len)
{
    struct window *window = window_find(windows, name, len);

    if (window == NULL && window_make_room(windows)) {
        ASSERT(len <= LIMIT_TAG_NAME_BYTES);
        window = MUST_HAVE(calloc(1, sizeof *window + len));
        memcpy(window->name, name, len);
        window->name_len = (uint16_t)len;
        window->hash = (uint32_t)hash_bytes(name, len, windows->table.seed);
        window->since_ms = clock_now_ms(windows->clock);
        hash_table_add(&windows->table, &window->link);
        TAILQ_INSERT_TAIL(&windows->uses, window, use);
    }
    return window;
}

static void want(struct windows *windows, struct window *window)
{
    if (!window->wanted && !window->in_flight) {
        window->wanted = true;
        TAILQ_INSERT_TAIL(&windows->wanted, window, want);
    }
}

/* --- taking --- */

/* A batch that is being checked. */
struct look {
    struct windows *windows;
    const struct fsm *fsm;
    struct window_terms terms;
    const struct tag_row *row; /* of the last item's tag; NULL: unknown */
    struct window *window;     /* its window, once one was needed */
    const char *name;          /* NULL: no item yet */
    uint16_t name_len;
    struct touched_list touched;
    bool is_short;
};

/* R6: how many ids the window has for this round. The caller has checked that the tag exists and is
 * monotonic. */
static uint64_t usable(const struct look *look, const struct window *window)
{
    bool is_own = window->term == look->terms.round && window->term == look->terms.now;

    return is_own && window->generation == look->row->generation && !window->closed
               ? left_of(window)
               : 0;
}

static struct window *look_window(struct look *look)
{
    struct window *window = look->window;

    if (window == NULL) {
        window = find_or_make(look->windows, look->name, look->name_len);
        look->window = window;
    }
    if (window != NULL && !window->is_touched) {
        if (window->term != 0 && window->generation != look->row->generation) {
            burn(look->windows, window, &look->windows->counts.burnt_generation);
        }
        window->is_touched = true;
        window->asked = 0;
        SLIST_INSERT_HEAD(&look->touched, window, touched);
    }
    return window;
}

/* The item's ids come after those of earlier items. 0, or why it has none. */
static int item_ask(struct look *look, const struct strict_item *item, struct strict_result *result)
{
    const struct tag_row *row = look->row;
    struct window *window = look_window(look);
    uint64_t left;
    uint64_t total;
    uint64_t first;

    if (window == NULL) {
        return ERR_OVERLOADED;
    }
    left = usable(look, window);
    total = left + tag_ids_left(row, &first);
    if (item->count > total - window->asked) {
        result->detail = total - window->asked;
        return ERR_EXHAUSTED;
    }
    result->first = window->low + window->asked * increment_of(window->increment);
    result->increment = window->increment;
    window->asked += item->count;
    look->is_short = look->is_short || window->asked > left;
    return 0;
}

/* 0, or why the item gets no ids. */
static int item_look(struct look *look, const struct strict_item *item,
                     struct strict_result *result)
{
    const struct tag_row *row = look->row;

    *result = (struct strict_result){.generation = row != NULL ? row->generation : 0};
    if (row == NULL || row->deleted) {
        return ERR_UNKNOWN_TAG;
    }
    if (row->mode != TAG_MODE_MONOTONIC) {
        result->detail = row->mode;
        return ERR_WRONG_MODE;
    }
    if (row->paused) {
        return ERR_PAUSED;
    }
    if (item->key_len > 0 && fsm_key_known(look->fsm, item, result)) {
        return result->status;
    }
    if (row->recalling) {
        result->detail = fsm_recall_waits_for(look->fsm, item->name, item->name_len);
        return ERR_CHANGING;
    }
    return item_ask(look, item, result);
}

/* All ids are available: low rises (R6). */
static void commit_take(struct windows *windows, struct window *window)
{
    ASSERT(window->asked <= left_of(window));
    window->low += window->asked * increment_of(window->increment);
    window->taken += window->asked;
    windows->counts.taken += window->asked;
    windows->counts.left -= window->asked;
    if (left_of(window) < window->size / 2) {
        want(windows, window);
    }
    TAILQ_REMOVE(&windows->uses, window, use);
    TAILQ_INSERT_TAIL(&windows->uses, window, use);
}

static void look_end(struct look *look)
{
    struct window *window;

    while ((window = SLIST_FIRST(&look->touched)) != NULL) {
        SLIST_REMOVE_HEAD(&look->touched, touched);
        window->is_touched = false;
        if (window->asked == 0) {
            continue;
        }
        if (!look->is_short) {
            commit_take(look->windows, window);
        } else if (window->asked > left_of(window) || window->term != look->terms.now ||
                   window->closed) {
            const struct tag_row *row = fsm_tag(look->fsm, window->name, window->name_len);
            uint64_t together = window->need + window->asked;
            uint64_t most = window->asked > window->need ? window->asked : window->need;

            /* The need of the waiting batches grows, but not above max_step for all of them
             * together; the largest batch still gets all of its ids at once. */
            most = most > row->max_step ? most : row->max_step;
            window->need = together < most ? together : most;
            want(look->windows, window);
        }
    }
    look->windows->counts.waits += look->is_short;
}

int windows_take(struct windows *windows, const struct fsm *fsm, struct window_terms terms,
                 struct command_list batch, struct window_taken *ret_taken)
{
    struct look look = {.windows = windows, .fsm = fsm, .terms = terms};
    struct strict_item item;

    if (terms.round != terms.now) {
        return ERR_STALE;
    }
    if (windows->closing) {
        return ERR_EMPTY;
    }
    SLIST_INIT(&look.touched);
    ret_taken->count = 0;
    ret_taken->keyed = 0;
    while (command_next(&batch, &item)) {
        struct strict_result *result = &ret_taken->results[ret_taken->count++];

        ASSERT(ret_taken->count <= LIMIT_STRICT_ITEMS);
        if (look.name == NULL || look.name_len != item.name_len ||
            memcmp(look.name, item.name, item.name_len) != 0) {
            look.name = item.name;
            look.name_len = item.name_len;
            look.row = fsm_tag(fsm, item.name, item.name_len);
            look.window = NULL;
        }
        result->status = item_look(&look, &item, result);
        ret_taken->keyed += window_item_is_keyed(&item, result);
    }
    look_end(&look);
    return look.is_short ? ERR_EMPTY : 0;
}

int windows_read(const void *data, size_t len, struct command_list *ret_batch)
{
    struct command command;

    if (command_read(data, len, &command) != 0 || command.type != COMMAND_STRICT) {
        return ERR_BAD_MESSAGE;
    }
    *ret_batch = command.list;
    return 0;
}

void windows_keyed(const struct command_list *batch, const struct window_taken *taken,
                   uint64_t term, struct buf *command)
{
    struct command_list head = {.wall_ms = batch->wall_ms,
                                .key_limit = batch->key_limit,
                                .key_share = batch->key_share,
                                .term = term};
    struct command_list items = *batch;
    struct keyed_item keyed;
    uint32_t at = 0;

    ASSERT(taken->keyed > 0);
    command_put(command, COMMAND_KEYED, &head);
    for (; command_next(&items, &keyed.item); at++) {
        const struct strict_result *result = &taken->results[at];

        if (window_item_is_keyed(&keyed.item, result)) {
            keyed.first = result->first;
            keyed.generation = result->generation;
            command_item_put(command, COMMAND_KEYED, &keyed);
        }
    }
    command_items_end(command);
}

/* --- entries --- */

/* Measure recent ids a second: up at once, down by halves. */
static void measure(struct window *window, uint64_t now_ms)
{
    uint64_t passed_ms = now_ms > window->since_ms ? now_ms - window->since_ms : 0;
    uint64_t rate;

    if (passed_ms < RATE_MIN_MS) {
        return;
    }
    rate = window->taken * 1000 / passed_ms; /* taken: far below 2^53 in a life of a window */
    window->rate = rate > window->rate ? rate : (rate + window->rate) / 2;
    window->taken = 0;
    window->since_ms = now_ms;
}

/* A window that lasted far too short is doubled while the rate is not known. */
static uint32_t size_of(const struct window *window, const struct tag_row *row, uint64_t now_ms)
{
    bool is_short = window->size > 0 && now_ms < window->opened_ms + WINDOW_COVER_MS / 4;
    uint64_t rated = window->rate * WINDOW_COVER_MS / 1000;
    uint64_t size =
        is_short && rated < 2 * (uint64_t)window->size ? 2 * (uint64_t)window->size : rated;

    size = size > row->step ? size : row->step;
    size = size < row->max_step ? size : row->max_step;
    size = size > window->need ? size : window->need;
    return (uint32_t)(size < LIMIT_TAG_STEP ? size : LIMIT_TAG_STEP);
}

bool windows_propose(struct windows *windows, const struct fsm *fsm, struct buf *command,
                     bool *ret_more)
{
    uint64_t now_ms = clock_now_ms(windows->clock);
    uint32_t count = 0;
    struct window *window;

    *ret_more = false;
    if (windows->closing || TAILQ_EMPTY(&windows->wanted)) {
        return false;
    }
    command_put(command, COMMAND_WINDOW,
                &(struct command_list){.wall_ms = clock_wall_ms(windows->clock)});
    while (count < LIMIT_GRANTS_PER_ENTRY && (window = TAILQ_FIRST(&windows->wanted)) != NULL) {
        const struct tag_row *row = fsm_tag(fsm, window->name, window->name_len);
        struct grant_item item = {window->name, window->name_len, 0};

        TAILQ_REMOVE(&windows->wanted, window, want);
        window->wanted = false;
        measure(window, now_ms);
        if (row != NULL && !row->deleted && row->mode == TAG_MODE_MONOTONIC) {
            item.size = size_of(window, row, now_ms);
            command_item_put(command, COMMAND_WINDOW, &item);
            window->in_flight = true;
            count++;
        }
        window->need = 0;
    }
    command_items_end(command);
    *ret_more = !TAILQ_EMPTY(&windows->wanted);
    windows->counts.entries += count > 0;
    return count > 0;
}

/* R3: extend the window if the new ids continue it; else the new window replaces it. */
static void window_opened(struct windows *windows, struct window *window, uint64_t term,
                          const struct grant_result *result)
{
    bool extends = window->term == term && window->generation == result->generation &&
                   window->high == result->first && !window->closed;

    if (!extends) {
        burn(windows, window, &windows->counts.burnt_window);
        window->term = term;
        window->generation = result->generation;
        window->low = result->first;
        window->high = result->first;
        window->increment = result->increment;
        window->closed = false;
        windows->counts.open++;
    }
    ASSERT(result->first >= window->low);
    window->high += (uint64_t)result->size * increment_of(result->increment);
    window->size = result->size;
    window->opened_ms = clock_now_ms(windows->clock);
    windows->counts.left += result->size;
}

/* An item of a COMMAND_WINDOW has ended; with a result, if it was applied. */
static void item_over(struct windows *windows, uint64_t term, const struct grant_item *item,
                      const struct grant_result *result)
{
    struct window *window = window_find(windows, item->name, item->name_len);

    if (window != NULL) {
        window->in_flight = false;
        if (result != NULL && result->status == 0) {
            window_opened(windows, window, term, result);
        }
    } else if (result != NULL) {
        windows->counts.burnt_window += result->size;
    }
}

static void entry_over(struct windows *windows, uint64_t term, const struct buf *bytes,
                       const struct grant_result *results, size_t count)
{
    struct command command;
    struct grant_item item;
    size_t at = 0;
    int rv = command_read(bytes->data, bytes->len, &command);

    ASSERT(rv == 0 && command.type == COMMAND_WINDOW); /* it was made here */
    for (; command_next(&command.list, &item); at++) {
        item_over(windows, term, &item, at < count ? &results[at] : NULL);
    }
}

void windows_granted(struct windows *windows, uint64_t term, const struct buf *command,
                     const void *result, size_t len)
{
    struct grant_result results[LIMIT_GRANTS_PER_ENTRY];
    size_t count = 0;

    if (results_decode(RESULT_GRANTS, result, len, results, LIMIT_GRANTS_PER_ENTRY, &count) != 0) {
        count = 0; /* the level in force has no windows */
    }
    entry_over(windows, term, command, results, count);
}

void windows_lost(struct windows *windows, const struct buf *command)
{
    entry_over(windows, 0, command, NULL, 0);
}

/* --- giving back --- */

void windows_close(struct windows *windows, uint64_t deadline_ms)
{
    struct window *window;

    windows->closing = true;
    TAILQ_FOREACH (window, &windows->uses, use) {
        struct give_back_item item = {window->name, window->name_len, window->generation,
                                      window->low, 0};

        if (window->term == 0 || window->closed || window->low == window->high) {
            continue;
        }
        item.end = window->high - increment_of(window->increment) + 1;
        window->closed = true; /* R10: before any node is informed */
        returns_put(&windows->returns, &item, left_of(window), deadline_ms);
    }
    returns_send(&windows->returns);
}

bool windows_given_back(const struct windows *windows)
{
    return windows->returns.batcher.batch_count == 0;
}

bool windows_are_closed(const struct windows *windows)
{
    return windows->closing;
}

void windows_open(struct windows *windows)
{
    windows->closing = false;
}

const struct window_counts *windows_counts(const struct windows *windows)
{
    return &windows->counts;
}

/* --- begin and end --- */

struct windows *windows_new(const struct clock *clock, struct timers *timers,
                            struct id_proposer *proposer)
{
    struct windows *windows = MUST_HAVE(calloc(1, sizeof *windows));

    windows->clock = clock;
    hash_table_init(&windows->table, window_hash_of);
    TAILQ_INIT(&windows->uses);
    TAILQ_INIT(&windows->wanted);
    returns_init(&windows->returns, &windows->counts.returned, &windows->counts.burnt_stop,
                 RETURN_ABANDON_MS, clock, timers, proposer);
    return windows;
}

void windows_free(struct windows *windows)
{
    if (windows != NULL) {
        windows_forget(windows);
        batcher_release(&windows->returns.batcher);
        hash_table_free(&windows->table);
        free(windows);
    }
}
