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
#define ENTRY_MS 60000  /* how long one may take. It ends before if the leadership does */
#define AGAIN_MS 100    /* after one that was not appended */
#define RETURN_ABANDON_MS 1000

/* The leader's data of one tag. */
struct window {
    struct hash_link link;
    TAILQ_ENTRY(window) use;     /* by when it was used */
    struct batch_item want;      /* idle while it lasts */
    SLIST_ENTRY(window) touched; /* while a batch is checked */
    uint64_t term;               /* 0: there is no window */
    uint64_t low;                /* the next id; left are those below high, by its increment */
    uint64_t high;
    uint32_t increment; /* 0: 1 */
    uint32_t generation;
    uint32_t size; /* granted last */
    bool closed;   /* given back, or about to be; stays closed */
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
    const struct fsm *fsm;
    const struct clock *clock;
    struct hash_table table;
    struct window_list uses; /* the one used longest ago first */
    struct batcher wants;    /* a place's note: the term; closed by windows_close() */
    uint64_t term;           /* of the last batch that was to take */
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
    if (window->want.where != BATCH_IDLE) {
        batcher_remove(&windows->wants, &window->want);
    }
    TAILQ_REMOVE(&windows->uses, window, use);
    hash_table_remove(&windows->table, &window->link);
    free(window);
}

void windows_forget(struct windows *windows)
{
    struct window *window;

    /* R7: a command under way then finds no window. */
    while ((window = TAILQ_FIRST(&windows->uses)) != NULL) {
        window_free(windows, window);
    }
    ASSERT(windows->table.count == 0 && windows->counts.left == 0);
    batcher_open(&windows->wants, true);
}

/* NULL: there is no room for it, and all are busy. */
static struct window *find_or_make(struct windows *windows, const char *name, size_t len)
{
    uint32_t hash = (uint32_t)hash_bytes(name, len, windows->table.seed);
    struct hash_link *link = hash_table_chain(&windows->table, hash);
    struct window *window;

    for (; link != NULL; link = link->next) {
        window = CONTAINER(link, struct window, link);
        if (window->name_len == len && memcmp(window->name, name, len) == 0) {
            return window;
        }
    }
    if (windows->table.count >= LIMIT_WINDOWS) { /* make room */
        window = TAILQ_FIRST(&windows->uses);
        while (window != NULL && (window->want.where != BATCH_IDLE || window->is_touched)) {
            window = TAILQ_NEXT(window, use);
        }
        if (window == NULL) {
            return NULL;
        }
        window_free(windows, window);
    }
    ASSERT(len <= LIMIT_TAG_NAME_BYTES);
    window = MUST_HAVE(calloc(1, sizeof *window + len));
    memcpy(window->name, name, len);
    window->name_len = (uint16_t)len;
    window->hash = hash;
    window->since_ms = clock_now_ms(windows->clock);
    hash_table_add(&windows->table, &window->link);
    TAILQ_INSERT_TAIL(&windows->uses, window, use);
    return window;
}

/* --- taking --- */

/* A batch that is being checked. */
struct look {
    struct windows *windows;
    struct window_terms terms;
    const struct tag_row *row; /* of the last item's tag; NULL: unknown */
    struct window *window;     /* its window, once one was needed */
    const char *name;          /* NULL: no item yet */
    uint16_t name_len;
    struct touched_list touched;
    bool is_short;
};

/* The item's ids come after those of earlier items. 0, or why it has none. The caller has checked
 * that the tag exists and is monotonic. */
static int item_ask(struct look *look, const struct strict_item *item, struct strict_result *result)
{
    const struct tag_row *row = look->row;
    struct window *window = look->window;
    bool is_own;
    uint64_t left;
    uint64_t total;
    uint64_t first;

    if (window == NULL) {
        window = find_or_make(look->windows, look->name, look->name_len);
        look->window = window;
    }
    if (window == NULL) {
        return ERR_OVERLOADED;
    }
    if (!window->is_touched) {
        if (window->term != 0 && window->generation != row->generation) {
            burn(look->windows, window, &look->windows->counts.burnt_generation);
        }
        window->is_touched = true;
        window->asked = 0;
        SLIST_INSERT_HEAD(&look->touched, window, touched);
    }
    /* R6: how many ids the window has for this round. */
    is_own = window->term == look->terms.round && window->term == look->terms.now;
    left = is_own && window->generation == row->generation && !window->closed ? left_of(window) : 0;
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
    if (item->key_len > 0 && fsm_key_known(look->windows->fsm, item, result)) {
        return result->status;
    }
    if (row->recalling) {
        result->detail = fsm_recall_waits_for(look->windows->fsm, item->name, item->name_len);
        return ERR_CHANGING;
    }
    return item_ask(look, item, result);
}

static void look_end(struct look *look)
{
    struct windows *windows = look->windows;
    struct window *window;

    while ((window = SLIST_FIRST(&look->touched)) != NULL) {
        bool wanted = false;

        SLIST_REMOVE_HEAD(&look->touched, touched);
        window->is_touched = false;
        if (window->asked == 0) {
            continue;
        }
        if (!look->is_short) { /* all ids are available: low rises (R6) */
            ASSERT(window->asked <= left_of(window));
            window->low += window->asked * increment_of(window->increment);
            window->taken += window->asked;
            windows->counts.taken += window->asked;
            windows->counts.left -= window->asked;
            wanted = left_of(window) < window->size / 2;
            TAILQ_REMOVE(&windows->uses, window, use);
            TAILQ_INSERT_TAIL(&windows->uses, window, use);
        } else if (window->asked > left_of(window) || window->term != look->terms.now ||
                   window->closed) {
            const struct tag_row *row = fsm_tag(windows->fsm, window->name, window->name_len);
            uint64_t together = window->need + window->asked;
            uint64_t most = window->asked > window->need ? window->asked : window->need;

            /* The need of the waiting batches grows, but not above max_step for all of them
             * together; the largest batch still gets all of its ids at once. */
            most = most > row->max_step ? most : row->max_step;
            window->need = together < most ? together : most;
            wanted = true;
        }
        if (wanted && window->want.where == BATCH_IDLE) {
            batcher_add(&windows->wants, &window->want, 0);
        }
    }
    windows->counts.waits += look->is_short;
}

int windows_take(struct windows *windows, struct window_terms terms, struct command_list batch,
                 struct window_taken *ret_taken)
{
    struct look look = {.windows = windows, .terms = terms};
    struct strict_item item;

    if (terms.round != terms.now) {
        return ERR_STALE;
    }
    windows->term = terms.now;
    if (windows->wants.closed) {
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
            look.row = fsm_tag(windows->fsm, item.name, item.name_len);
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

/* The ids to ask for. Measures how many were taken a second: up at once, down by halves. A window
 * that lasted far too short is doubled while that is not known. */
static uint32_t window_size(struct window *window, const struct tag_row *row, uint64_t now_ms)
{
    bool is_short = window->size > 0 && now_ms < window->opened_ms + WINDOW_COVER_MS / 4;
    uint64_t passed_ms = now_ms > window->since_ms ? now_ms - window->since_ms : 0;
    uint64_t doubled = 2 * (uint64_t)window->size;
    uint64_t size;

    if (passed_ms >= RATE_MIN_MS) {
        uint64_t rate = window->taken * 1000 / passed_ms; /* taken: far below 2^53 in its life */

        window->rate = rate > window->rate ? rate : (rate + window->rate) / 2;
        window->taken = 0;
        window->since_ms = now_ms;
    }
    size = window->rate * WINDOW_COVER_MS / 1000;
    size = is_short && size < doubled ? doubled : size;
    size = size > row->step ? size : row->step;
    size = size < row->max_step ? size : row->max_step;
    size = size > window->need ? size : window->need;
    return (uint32_t)(size < LIMIT_TAG_STEP ? size : LIMIT_TAG_STEP);
}

static void windows_pack(struct batcher *batcher, struct batch *batch,
                         struct batch_item *const *items, uint32_t count, uint64_t now_ms)
{
    struct windows *windows = CONTAINER(batcher, struct windows, wants);

    command_put(&batch->request.payload, COMMAND_WINDOW,
                &(struct command_list){.wall_ms = clock_wall_ms(windows->clock)});
    batch->request.deadline_ms = now_ms + ENTRY_MS;
    for (uint32_t i = 0; i < count; i++) {
        struct window *window = CONTAINER(items[i], struct window, want);
        const struct tag_row *row = fsm_tag(windows->fsm, window->name, window->name_len);
        struct grant_item item = {window->name, window->name_len, 0};

        if (row != NULL && !row->deleted && row->mode == TAG_MODE_MONOTONIC) {
            item.size = window_size(window, row, now_ms);
            batch_put(batch, &window->want, windows->term, &item);
        }
        window->need = 0;
    }
    windows->counts.entries += batch->count > 0;
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

/* A place of a COMMAND_WINDOW is answered; term: in which it was proposed. */
static void windows_granted(struct batcher *batcher, struct batch_item *item, uint64_t term,
                            int err, const void *result, uint64_t now_ms)
{
    struct windows *windows = CONTAINER(batcher, struct windows, wants);
    const struct grant_result *grant = result;

    if (err != 0 && item != NULL) {
        batcher_add(batcher, item, now_ms + AGAIN_MS);
    }
    if (err != 0 || grant->status != 0) {
        return; /* where nothing can be granted, waiting batches see it in the applied row */
    }
    if (item != NULL) {
        window_opened(windows, CONTAINER(item, struct window, want), term, grant);
    } else {
        windows->counts.burnt_window += grant->size; /* R7 */
    }
}

/* --- giving back --- */

void windows_close(struct windows *windows, uint64_t deadline_ms)
{
    struct window *window;

    batcher_open(&windows->wants, false);
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
    return windows->wants.closed;
}

void windows_open(struct windows *windows)
{
    batcher_open(&windows->wants, true);
}

const struct window_counts *windows_counts(const struct windows *windows)
{
    return &windows->counts;
}

/* --- begin and end --- */

struct windows *windows_new(const struct fsm *fsm, const struct clock *clock, struct timers *timers,
                            struct id_proposer *proposer)
{
    static const struct batcher_ops ops = {.pack = windows_pack, .result = windows_granted};
    const struct batcher_config wants = {.kind = CLUSTER_REQUEST_COMMAND,
                                         .command = COMMAND_WINDOW,
                                         .result = RESULT_GRANTS,
                                         .once = true,
                                         .items = LIMIT_GRANTS_PER_ENTRY,
                                         .batches = LIMIT_WINDOWS / LIMIT_GRANTS_PER_ENTRY,
                                         .abandon_ms = RETURN_ABANDON_MS};
    struct windows *windows = MUST_HAVE(calloc(1, sizeof *windows));

    windows->fsm = fsm;
    windows->clock = clock;
    hash_table_init(&windows->table, window_hash_of);
    TAILQ_INIT(&windows->uses);
    batcher_init(&windows->wants, &wants, &ops, clock, timers, proposer);
    returns_init(&windows->returns, &windows->counts.returned, &windows->counts.burnt_stop,
                 RETURN_ABANDON_MS, clock, timers, proposer);
    return windows;
}

void windows_free(struct windows *windows)
{
    if (windows != NULL) {
        windows_forget(windows);
        batcher_release(&windows->wants);
        batcher_release(&windows->returns.batcher);
        hash_table_free(&windows->table);
        free(windows);
    }
}
