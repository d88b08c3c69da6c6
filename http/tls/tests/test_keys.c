/*
 * test_keys.c - keys of session tickets: which one seals, which open, and for how long.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "http/tls/tls.h"

static uint64_t now_ms;

static uint64_t now(const struct clock *clock)
{
    (void)clock;
    return now_ms;
}

static const struct clock fake_clock = {.now_ms = now, .wall_ms = now};

static struct tls_key newest(struct tls_keys *keys)
{
    struct tls_key key;

    assert_true(tls_keys_newest(keys, &key));
    return key;
}

/* Does the key of this name open, and with what it sealed? */
static bool opens(struct tls_keys *keys, const struct tls_key *key, bool *ret_newest)
{
    struct tls_key found;
    bool known = tls_keys_find(keys, key->name, &found, ret_newest);

    if (known) {
        assert_memory_equal(&found, key, sizeof found);
    }
    return known;
}

static void test_rotation(void **state)
{
    struct tls_key first;
    struct tls_keys keys;
    bool is_newest;

    (void)state;
    now_ms = 5;
    tls_keys_init(&keys, &fake_clock);
    first = newest(&keys);
    now_ms = 5 + TLS_KEY_MS - 1;
    assert_memory_equal(newest(&keys).name, first.name, sizeof first.name);
    assert_true(opens(&keys, &first, &is_newest));
    assert_true(is_newest);
    now_ms = 5 + TLS_KEY_MS;
    assert_memory_not_equal(newest(&keys).name, first.name, sizeof first.name);
    assert_true(opens(&keys, &first, &is_newest));
    assert_false(is_newest);
    /* What it sealed at its last moment is good for as long as was said. */
    now_ms = 5 + TLS_KEY_MS + TLS_TICKET_S * 1000;
    assert_true(opens(&keys, &first, &is_newest));
    now_ms = 5 + TLS_KEYS * TLS_KEY_MS;
    assert_false(opens(&keys, &first, &is_newest));
    tls_keys_release(&keys);
}

/* Nobody came for a day: what was sealed before it is beyond reach. */
static void test_quiet_day(void **state)
{
    struct tls_key first;
    struct tls_keys keys;
    bool is_newest;

    (void)state;
    now_ms = 0;
    tls_keys_init(&keys, &fake_clock);
    first = newest(&keys);
    now_ms = 86400000;
    assert_false(opens(&keys, &first, &is_newest));
    for (unsigned i = 0; i < TLS_KEYS; i++) {
        assert_memory_not_equal(keys.ring[i].cipher, first.cipher, sizeof first.cipher);
    }
    tls_keys_release(&keys);
}

static void test_unknown(void **state)
{
    struct tls_key key = {.name = "nobody's"};
    struct tls_keys keys;
    bool is_newest;

    (void)state;
    now_ms = 0;
    tls_keys_init(&keys, &fake_clock);
    assert_false(opens(&keys, &key, &is_newest));
    (void)newest(&keys);
    assert_false(opens(&keys, &key, &is_newest));
    tls_keys_release(&keys);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rotation),
        cmocka_unit_test(test_quiet_day),
        cmocka_unit_test(test_unknown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
