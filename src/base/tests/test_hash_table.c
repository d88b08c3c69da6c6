/*
 * test_hash_table.c - things are found as long as they are in the table, however it grew and
 * whatever left it. Thread: one.
 */
#include <stdlib.h>

#include "src/tests/unit/test.h"
#include "src/base/container.h"
#include "src/base/hash.h"
#include "src/base/prng.h"
#include "src/tests/unit/death.h"

#define THINGS 20000

struct thing {
    struct hash_link link;
    uint32_t hash;
    uint32_t number;
};

static uint32_t hash_of(const struct hash_link *link)
{
    return CONTAINER(link, const struct thing, link)->hash;
}

static struct thing *find(const struct hash_table *table, uint32_t hash, uint32_t number)
{
    struct hash_link *link = hash_table_chain(table, hash);

    for (; link != NULL; link = link->next) {
        struct thing *thing = CONTAINER(link, struct thing, link);

        if (thing->hash == hash && thing->number == number) {
            return thing;
        }
    }
    return NULL;
}

static void test_empty(void **state)
{
    struct hash_table table;

    (void)state;
    hash_table_init(&table, hash_of);
    assert_null(hash_table_chain(&table, 0));
    assert_null(hash_table_chain(&table, UINT32_MAX));
    hash_table_free(&table);
    assert_int_equal(table.count, 0);
}

/* Every thing is found after every number of things that are added, and the ones that left are not.
 * share: how many have the same hash. */
static void fill(uint32_t share)
{
    struct thing *things = calloc(THINGS, sizeof *things);
    struct hash_table table;
    struct prng prng;
    uint32_t in = 0;

    assert_non_null(things);
    prng_seed(&prng, share);
    hash_table_init(&table, hash_of);
    for (uint32_t i = 0; i < THINGS; i++) {
        things[i].hash = i % share == 0 ? (uint32_t)prng_next(&prng) : things[i - 1].hash;
        things[i].number = i;
        hash_table_add(&table, &things[i].link);
        assert_ptr_equal(find(&table, things[i / 2].hash, i / 2), &things[i / 2]);
    }
    assert_int_equal(table.count, THINGS);
    assert_int_equal(table.bucket_count, THINGS);
    for (uint32_t i = 0; i < THINGS; i++) {
        assert_ptr_equal(find(&table, things[i].hash, i), &things[i]);
    }
    for (uint32_t i = 0; i < THINGS; i += 2) {
        hash_table_remove(&table, &things[i].link);
    }
    for (uint32_t i = 0; i < THINGS; i++) {
        in += find(&table, things[i].hash, i) != NULL;
        assert_true((find(&table, things[i].hash, i) != NULL) == (i % 2 == 1));
    }
    assert_int_equal(in, table.count);
    hash_table_add(&table, &things[0].link);
    assert_ptr_equal(find(&table, things[0].hash, 0), &things[0]);
    assert_int_equal(table.bucket_count, THINGS); /* there is room: it does not grow */
    hash_table_free(&table);
    free(things);
}

static void test_growth_and_removal(void **state)
{
    (void)state;
    fill(1);
}

static void test_equal_hashes(void **state)
{
    (void)state;
    fill(50);
}

static void test_usable_after_free(void **state)
{
    struct thing thing = {.hash = 7, .number = 1};
    struct hash_table table;

    (void)state;
    hash_table_init(&table, hash_of);
    hash_table_add(&table, &thing.link);
    hash_table_free(&table);
    assert_null(hash_table_chain(&table, 7));
    hash_table_add(&table, &thing.link);
    assert_ptr_equal(find(&table, 7, 1), &thing);
    hash_table_free(&table);
}

static void remove_twice(void *data)
{
    struct thing here = {.hash = 1, .number = 1};
    struct thing gone = {.hash = 1, .number = 2};
    struct hash_table *table = data;

    hash_table_init(table, hash_of);
    hash_table_add(table, &here.link);
    hash_table_add(table, &gone.link);
    hash_table_remove(table, &gone.link);
    hash_table_remove(table, &gone.link);
}

static void test_removal_of_what_is_not_there(void **state)
{
    struct hash_table table;

    (void)state;
    assert_true(death_by_assert(remove_twice, &table));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_growth_and_removal),
        cmocka_unit_test(test_equal_hashes),
        cmocka_unit_test(test_usable_after_free),
        cmocka_unit_test(test_removal_of_what_is_not_there),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
