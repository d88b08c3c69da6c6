/*
 * test_id_table.c - the table of tags in use: finding, order, growth, readers beside the writer,
 * and what a tag costs.
 *
 * Threads: the threaded test runs readers of its own.
 */
#include <inttypes.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "src/base/assert.h"
#include "src/base/limits.h"
#include "src/base/prng.h"
#include "src/id/alloc/id_table.h"
#include "src/id/fsm/fsm.h"
#include "src/tests/unit/collide.h"
#include "src/tests/unit/death.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

#ifdef __SANITIZE_THREAD__
#define NAMES 20000U /* through five growths, not seven */
#else
#define NAMES 100000U
#endif
#define READERS 3

struct name {
    char text[24];
    size_t len;
};

static struct name name_of(uint64_t number)
{
    struct name name;

    /* Scattered over the order of names. */
    name.len = (size_t)snprintf(name.text, sizeof name.text, "%08x.tag.%07" PRIu64,
                                (uint32_t)number * 2654435761U, number);
    return name;
}

static struct id_tag *insert(struct id_table *table, const char *name)
{
    return id_table_insert(table, name, strlen(name));
}

static int setup(void **state)
{
    *state = id_table_new(prng_entropy());
    return 0;
}

static int teardown(void **state)
{
    id_table_free(*state);
    return 0;
}

static size_t count(struct id_table *table)
{
    size_t tags = 0;

    for (struct id_tag *tag = NULL; (tag = id_table_after(table, tag)) != NULL;) {
        tags++;
    }
    return tags;
}

static void test_new_table_is_empty(void **state)
{
    assert_int_equal(count(*state), 0);
    assert_null(id_table_find(*state, "a", 1));
    assert_null(id_table_find(*state, NULL, 0));
    assert_null(id_table_next(*state, "", 0, "", 0));
    id_table_free(NULL);
}

static void test_insert_makes_an_empty_active_tag(void **state)
{
    struct id_tag *tag = insert(*state, "order");

    assert_non_null(tag);
    assert_string_equal(tag->name, "order");
    assert_int_equal(tag->name_len, 5);
    assert_int_equal(tag->state, ID_TAG_ACTIVE);
    assert_int_equal(tag->refill.max_step, 0);
    assert_false(tag->refill_wanted);
    assert_int_equal(tag->demand, 0);
    assert_int_equal(tag->waiting_loops, 0);
    assert_int_equal(tag->refill.loads, 0);
    assert_int_equal(segment_left(&tag->buffer), 0);
    assert_true(segment_can_publish(&tag->buffer));
    assert_ptr_equal(id_table_find(*state, "order", 5), tag);
    assert_ptr_equal(insert(*state, "order"), tag); /* made once */
    assert_int_equal(count(*state), 1);
    assert_null(id_table_find(*state, "orde", 4));
    assert_null(id_table_find(*state, "order", 4));
}

static void test_names_at_their_limits(void **state)
{
    char name[LIMIT_TAG_NAME_BYTES];
    struct id_tag *tag;

    memset(name, 'n', sizeof name);
    tag = id_table_insert(*state, name, sizeof name);
    assert_ptr_equal(id_table_find(*state, name, sizeof name), tag);
    assert_null(id_table_find(*state, name, sizeof name - 1));
    assert_non_null(id_table_insert(*state, name, 1));
    assert_ptr_equal(id_table_find(*state, name, sizeof name), tag);
}

static void insert_too_long(void *data)
{
    char name[LIMIT_TAG_NAME_BYTES + 1];

    memset(name, 'n', sizeof name);
    (void)id_table_insert(data, name, sizeof name);
}

static void test_longer_names_are_a_mistake(void **state)
{
    assert_true(death_by_assert(insert_too_long, *state));
}

/* Through several growths: every entry stays where it is and is found. */
static void test_growth_moves_no_entry(void **state)
{
    struct id_tag **tags = calloc(NAMES, sizeof(struct id_tag *));

    assert_non_null(tags);
    for (uint32_t i = 0; i < NAMES; i++) {
        struct name name = name_of(i);

        tags[i] = id_table_insert(*state, name.text, name.len);
        assert_non_null(tags[i]);
    }
    assert_int_equal(count(*state), NAMES);
    for (uint32_t i = 0; i < NAMES; i++) {
        struct name name = name_of(i);
        struct name other = name_of(i + NAMES);

        assert_ptr_equal(id_table_find(*state, name.text, name.len), tags[i]);
        assert_null(id_table_find(*state, other.text, other.len));
    }
    free(tags);
}

static const char *next_name(struct id_table *table, const char *prefix, const char *after)
{
    struct id_tag *tag = id_table_next(table, prefix, strlen(prefix), after, strlen(after));

    return tag != NULL ? tag->name : "(none)";
}

static void test_next_goes_in_byte_order(void **state)
{
    insert(*state, "b");
    insert(*state, "a/2");
    insert(*state, "a");
    insert(*state, "a/1");
    insert(*state, "\xc3\xa9");
    insert(*state, "a0");
    assert_string_equal(next_name(*state, "", ""), "a");
    assert_string_equal(next_name(*state, "", "a"), "a/1");
    assert_string_equal(next_name(*state, "", "a/1"), "a/2");
    assert_string_equal(next_name(*state, "", "a/2"), "a0");
    assert_string_equal(next_name(*state, "", "a0"), "b");
    assert_string_equal(next_name(*state, "", "b"), "\xc3\xa9");
    assert_string_equal(next_name(*state, "", "\xc3\xa9"), "(none)");
    assert_string_equal(next_name(*state, "", "a1"), "b"); /* after need not exist */
}

static void test_next_keeps_to_the_prefix(void **state)
{
    char longest[LIMIT_TAG_NAME_BYTES + 10];

    insert(*state, "a");
    insert(*state, "a/1");
    insert(*state, "a/2");
    insert(*state, "b");
    assert_string_equal(next_name(*state, "a/", ""), "a/1");
    assert_string_equal(next_name(*state, "a/", "a"), "a/1"); /* after lies before the prefix */
    assert_string_equal(next_name(*state, "a/", "a/1"), "a/2");
    assert_string_equal(next_name(*state, "a/", "a/2"), "(none)");
    assert_string_equal(next_name(*state, "a/", "zz"), "(none)");
    assert_string_equal(next_name(*state, "a/1", "a/1"), "(none)");
    assert_string_equal(next_name(*state, "c", ""), "(none)");
    memset(longest, 'a', sizeof longest);
    assert_null(id_table_next(*state, longest, sizeof longest, "", 0));
    assert_ptr_equal(id_table_next(*state, "", 0, longest, sizeof longest),
                     id_table_find(*state, "b", 1));
}

static void test_next_visits_each_once(void **state)
{
    struct id_tag *tag = NULL;
    struct id_tag *last = NULL;
    size_t visited = 0;

    for (uint32_t i = 0; i < 5000; i++) {
        struct name name = name_of(i);

        assert_non_null(id_table_insert(*state, name.text, name.len));
    }
    tag = id_table_next(*state, "", 0, "", 0);
    while (tag != NULL) {
        assert_true(last == NULL || strcmp(last->name, tag->name) < 0);
        last = tag;
        visited++;
        tag = id_table_next(*state, "", 0, tag->name, tag->name_len);
    }
    assert_int_equal(visited, 5000);
}

/* --- readers beside the writer --- */

struct race {
    struct id_table *table;
    _Atomic uint32_t inserted; /* names below it are in the table */
    _Atomic uint64_t found;
};

static void *read_names(void *data)
{
    struct race *race = data;
    struct prng prng;
    uint32_t inserted = 0;

    prng_seed(&prng, (uint64_t)(uintptr_t)&prng);
    while (inserted < NAMES) {
        struct name name;
        struct id_tag *tag;
        uint64_t number = prng_below(&prng, NAMES);

        inserted = atomic_load_explicit(&race->inserted, memory_order_acquire);
        name = name_of(number);
        tag = id_table_find(race->table, name.text, name.len);
        ASSERT_IMPLIES(number < inserted, tag != NULL);
        if (tag == NULL) {
            continue;
        }
        /* All of the entry is there, and can be used at once. */
        ASSERT(tag->name_len == name.len && memcmp(tag->name, name.text, name.len) == 0);
        ASSERT(atomic_load(&tag->state) == ID_TAG_ACTIVE);
        atomic_fetch_add_explicit(&tag->demand, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&race->found, 1, memory_order_relaxed);
    }
    return NULL;
}

static void test_readers_while_the_writer_inserts(void **state)
{
    struct race race = {.table = *state};
    pthread_t readers[READERS];
    uint64_t demand = 0;

    for (size_t i = 0; i < READERS; i++) {
        assert_int_equal(pthread_create(&readers[i], NULL, read_names, &race), 0);
    }
    for (uint32_t i = 0; i < NAMES; i++) {
        struct name name = name_of(i);

        assert_non_null(id_table_insert(race.table, name.text, name.len));
        atomic_store_explicit(&race.inserted, i + 1, memory_order_release);
    }
    for (size_t i = 0; i < READERS; i++) {
        assert_int_equal(pthread_join(readers[i], NULL), 0);
    }
    for (uint32_t i = 0; i < NAMES; i++) {
        struct name name = name_of(i);

        demand += id_table_find(race.table, name.text, name.len)->demand;
    }
    assert_true(demand == race.found); /* each name was one and the same entry for all */
}

/* --- what a tag costs --- */

static size_t heap_bytes(void)
{
    struct mallinfo2 info = mallinfo2();

    return info.uordblks + info.hblkhd;
}

/* The row of the state machine and the entry of the table together, with names of 20 bytes and an
 * index half way to the next growth: what it is, so that growth is seen. 144 + 192 are the two
 * structs, 48 their names, 6 the links, 28 the index and its older ones. */
static void test_memory_of_a_tag(void **state)
{
    const uint32_t count = 9U << (SANITIZED ? 11 : 14); /* a sanitizer's heap shows no cost */
    struct fsm *fsm = fsm_of(state_new(&fsm_machine));
    size_t before = heap_bytes();
    struct buf value = BUF_INIT;
    struct tag_row row = {.step = 1, .max_step = 1, .generation = 1};

    row_put(&value, tag_row_format(&row), &row);
    state_load_begin(fsm_state(fsm));
    for (uint32_t i = 0; i < count; i++) {
        struct name name = name_of(i);
        uint8_t key[32] = "t";
        const struct state_row bytes = {key, (uint32_t)name.len + 1, value.data,
                                        (uint32_t)value.len};

        memcpy(key + 1, name.text, name.len);
        assert_int_equal(state_load_row(fsm_state(fsm), &bytes), 0);
        assert_non_null(id_table_insert(*state, name.text, name.len));
    }
    assert_int_equal(state_load_end(fsm_state(fsm), 1), 0);
    assert_int_equal(fsm_tag_count(fsm), count);
    if (!SANITIZED) {
        size_t fixed =
            2 * 32768 * sizeof(void *); /* the arenas' lists of chunks, mostly untouched */
        size_t each = (heap_bytes() - before - fixed) / count;

        print_message("a tag costs %zu bytes\n", each);
        assert_in_range(each, 200, 424);
    }
    buf_free(&value);
    state_free(fsm_state(fsm));
}

static void find_all(collide_name *names, size_t count, void *data)
{
    for (size_t i = 0; i < count; i++) {
        assert_non_null(id_table_find(data, names[i], COLLIDE_NAME_BYTES - 1));
    }
}

/* Names that clients chose to be in one place cost no more than others: nobody knows the places. */
/* Shows attack-hash. */
static void test_names_that_are_to_collide(void **state)
{
    enum { COUNT = 2048, TOP_BITS = 12 }; /* they are half of the index's places */
    const uint64_t mask = UINT64_MAX << (64 - TOP_BITS);
    collide_name *names = calloc(COUNT, sizeof *names);
    collide_name *others = calloc(COUNT, sizeof *others);
    struct id_table *table = id_table_new(prng_entropy());
    uint64_t chosen_ns;
    uint64_t others_ns;

    assert_non_null(names);
    assert_non_null(others);
    collide_make(0, mask, COUNT, names);
    collide_make_others(COUNT, others);
    for (size_t i = 0; i < COUNT; i++) {
        assert_non_null(id_table_insert(*state, names[i], COLLIDE_NAME_BYTES - 1));
        assert_non_null(id_table_insert(table, others[i], COLLIDE_NAME_BYTES - 1));
    }
    chosen_ns = collide_cost_ns(find_all, names, COUNT, *state);
    others_ns = collide_cost_ns(find_all, others, COUNT, table);
    print_message("%u names that are to collide: %" PRIu64 " ns, others: %" PRIu64 " ns\n", COUNT,
                  chosen_ns, others_ns);
    assert_true(chosen_ns < 5 * others_ns);
    id_table_free(table);
    free(others);
    free(names);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_new_table_is_empty, setup, teardown),
        cmocka_unit_test_setup_teardown(test_insert_makes_an_empty_active_tag, setup, teardown),
        cmocka_unit_test_setup_teardown(test_names_at_their_limits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_longer_names_are_a_mistake, setup, teardown),
        cmocka_unit_test_setup_teardown(test_growth_moves_no_entry, setup, teardown),
        cmocka_unit_test_setup_teardown(test_next_goes_in_byte_order, setup, teardown),
        cmocka_unit_test_setup_teardown(test_next_keeps_to_the_prefix, setup, teardown),
        cmocka_unit_test_setup_teardown(test_next_visits_each_once, setup, teardown),
        cmocka_unit_test_setup_teardown(test_readers_while_the_writer_inserts, setup, teardown),
        cmocka_unit_test_setup_teardown(test_memory_of_a_tag, setup, teardown),
        cmocka_unit_test_setup_teardown(test_names_that_are_to_collide, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
