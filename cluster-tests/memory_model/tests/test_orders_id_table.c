/*
 * test_orders_id_table.c - the table of tags under the whole of C11's memory model: a reader that
 * finds a tag sees all of it, while the owner inserts and the index grows; plain memory included.
 *
 * The index begins with two slots here, so that three tags make it grow twice.
 *
 * Threads: none of the system; see model.h.
 */
#include "src/tests/unit/test.h"
#include "src/id/alloc/id_table.h"
#include "cluster-tests/memory_model/model_atomic.h"
#include "cluster-tests/memory_model/tests/orders.h"

#undef memcmp

#define READERS 2
#define TAGS 3
#define LOOKS 3

struct bound {
    unsigned tags; /* that the owner inserts */
    unsigned looks[READERS];
    uint8_t tag[READERS][LOOKS]; /* that they look for, one after the other */
    bool told;                   /* they know which ones must be there */
};

static const char *const names[TAGS] = {"orders", "users", "items"};

static struct {
    struct id_table *table;
    _Atomic uint32_t inserted; /* tags below it are in the table */
    struct id_tag *tags[TAGS]; /* the owner's */
    struct id_tag *found[READERS][LOOKS];
} at;

static const struct bound *bound(void)
{
    return orders_bound;
}

static void set_up(void)
{
    memset((void *)&at, 0, sizeof at);
    at.table = id_table_new(0);
    atomic_init(&at.inserted, 0);
}

static void own(void)
{
    for (unsigned i = 0; i < bound()->tags; i++) {
        at.tags[i] = id_table_insert(at.table, names[i], strlen(names[i]));
        MODEL_CHECK(at.tags[i] != NULL);
        if (bound()->told) {
            atomic_store_explicit(&at.inserted, i + 1, memory_order_release);
        }
    }
}

/* All of the entry is there, and can be used at once. */
static void use(struct id_tag *tag, const char *name)
{
    struct segment_range range;
    struct segment_view view;

    model_plain(&tag->name_len, sizeof tag->name_len, false);
    model_plain(tag->name, strlen(name) + 1, false);
    MODEL_CHECK(tag->name_len == strlen(name) && memcmp(tag->name, name, tag->name_len) == 0);
    MODEL_CHECK(atomic_load_explicit(&tag->state, memory_order_relaxed) == ID_TAG_ACTIVE);
    MODEL_CHECK(segment_claim(&tag->buffer, 1, 1, &range, &view) == ERR_EMPTY);
    (void)atomic_fetch_add_explicit(&tag->demand, 1, memory_order_relaxed);
}

static void read_as(unsigned reader)
{
    for (unsigned i = 0; i < bound()->looks[reader]; i++) {
        unsigned tag = bound()->tag[reader][i];
        uint32_t inserted =
            bound()->told ? atomic_load_explicit(&at.inserted, memory_order_acquire) : 0;
        struct id_tag *found = id_table_find(at.table, names[tag], strlen(names[tag]));

        at.found[reader][i] = found;
        MODEL_CHECK(found != NULL || tag >= inserted);
        if (found != NULL) {
            use(found, names[tag]);
        }
        for (unsigned j = 0; j < i; j++) { /* what was found once is found again */
            MODEL_CHECK(at.found[reader][j] == NULL || bound()->tag[reader][j] != tag ||
                        found == at.found[reader][j]);
        }
    }
}

static void read_0(void)
{
    read_as(0);
}

static void read_1(void)
{
    read_as(1);
}

static void check(void)
{
    unsigned count = 0;

    for (struct id_tag *tag = NULL; (tag = id_table_after(at.table, tag)) != NULL;) {
        count++;
    }
    MODEL_CHECK(count == bound()->tags);
    for (unsigned i = 0; i < bound()->tags; i++) {
        struct id_tag *tag = id_table_find(at.table, names[i], strlen(names[i]));
        uint64_t demand = 0;

        MODEL_CHECK(tag == at.tags[i]);
        for (unsigned reader = 0; reader < READERS; reader++) {
            for (unsigned j = 0; j < bound()->looks[reader]; j++) {
                demand += at.found[reader][j] == tag;
            }
        }
        MODEL_CHECK(atomic_load_explicit(&tag->demand, memory_order_relaxed) == demand);
    }
}

#define CASE(is_it_long, title, ...)                                                               \
    {                                                                                              \
        .scenario = {.name = (title),                                                              \
                     .setup = set_up,                                                              \
                     .threads = {own, read_0, read_1},                                             \
                     .finish = check,                                                              \
                     .late_max = 1},                                                               \
        .bound = &(const struct bound){__VA_ARGS__}, .is_long = (is_it_long),                      \
    }

static const struct orders_case cases[] = {
    CASE(false, "a tag, looked for twice", .tags = 1, .looks = {2, 1}, .tag = {{0, 0}, {0}}),
    CASE(false, "three tags and two growths", .tags = 3, .looks = {2, 1}, .tag = {{1, 0}, {2}}),
    CASE(false, "tags that are known to be there", .tags = 3, .looks = {2}, .tag = {{2, 1}},
         .told = true),
    CASE(false, "three tags, looked for by both", .tags = 3, .looks = {3, 2},
         .tag = {{0, 1, 2}, {2, 2}}),
    CASE(true, "long: three tags, looked for again", .tags = 3, .looks = {3, 3},
         .tag = {{0, 2, 2}, {1, 2, 0}}),
};

#define COUNT (sizeof cases / sizeof cases[0])

static void test_the_id_table_under_all_orders_of_memory(void **state)
{
    (void)state;
    orders_hold(cases, COUNT);
}

static void test_each_order_of_the_id_table_is_needed(void **state)
{
    (void)state;
    orders_weaken(cases, COUNT, "id_table.c", NULL, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_id_table_under_all_orders_of_memory),
        cmocka_unit_test(test_each_order_of_the_id_table_is_needed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
