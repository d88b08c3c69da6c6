/*
 * test_zone.c - which names are zones, what their clocks show, and that many zones and times in any
 * order show the same read once as read anew.
 *
 * Thread: one.
 */
#include <stdio.h>

#include "src/tests/unit/test.h"
#include "src/base/prng.h"
#include "src/base/zone.h"

#define HOUR_MS 3600000LL
#define NOON_MS 1700049600000ULL /* 2023-11-15T12:00:00Z */

static void test_names(void **state)
{
    static const char *const zones[] = {"Europe/Berlin", "Asia/Tokyo", "UTC",    "Etc/GMT+8",
                                        "EST5EDT",       "GMT",        "Etc/UTC"};
    /* what the rules of POSIX take, the database's folders, and its other files */
    static const char *const none[] = {"GMT+8",       "UTC+8", "CST8", "XYZ-3",  "AAA+10",
                                       "EST5",        "+8",    "Z",    "Europe", "Mars",
                                       "leapseconds", "",      "08",   "x/y"};

    (void)state;
    for (size_t i = 0; i < sizeof zones / sizeof zones[0]; i++) {
        assert_true(zone_is_known(zones[i]));
    }
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        if (zone_is_known(none[i])) {
            fail_msg("%s is taken for a zone", none[i]);
        }
    }
}

/* Without what was kept of other calls. */
static bool local_anew(const char *name, uint64_t utc_ms, uint64_t *ret_local_ms)
{
    struct zones *zones = zones_new();
    bool known = zones_local_ms(zones, name, utc_ms, ret_local_ms);

    zones_free(zones);
    return known;
}

static void test_what_clocks_show(void **state)
{
    static const struct {
        const char *zone;
        uint64_t utc_ms;
        int64_t ahead_ms;
    } cases[] = {
        {"", NOON_MS, 0},
        {"UTC", NOON_MS + 999, 0},
        {"Europe/Berlin", NOON_MS, HOUR_MS},
        {"Europe/Berlin", 1679792399999, HOUR_MS}, /* a millisecond before summer */
        {"Europe/Berlin", 1679792400000, 2 * HOUR_MS},
        {"Asia/Tokyo", NOON_MS, 9 * HOUR_MS},
        {"America/New_York", NOON_MS, -5 * HOUR_MS},
    };
    struct zones *zones = zones_new();

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint64_t once = 0;
        uint64_t anew = 0;

        assert_true(zones_local_ms(zones, cases[i].zone, cases[i].utc_ms, &once));
        assert_true(local_anew(cases[i].zone, cases[i].utc_ms, &anew));
        assert_int_equal((int64_t)(once - cases[i].utc_ms), cases[i].ahead_ms);
        assert_int_equal(once, anew);
    }
    zones_free(zones);
}

/* More zones than are kept, unknown ones among them, at times that also go back. */
static void test_more_zones_than_are_kept(void **state)
{
    static const char *const names[] = {"Europe/Berlin", "Asia/Tokyo", "No/Such", "Africa/Cairo",
                                        "America/New_York"};
    struct zones *zones = zones_new();
    struct prng prng;

    (void)state;
    prng_seed(&prng, 1);
    for (unsigned i = 0; i < 3000; i++) {
        uint64_t utc_ms = NOON_MS + prng_below(&prng, 3000) * 4000000;
        char other[ZONE_NAME_BYTES_MAX + 1];
        const char *name = names[prng_below(&prng, 5)];
        uint64_t once = 0;
        uint64_t anew = 0;

        (void)snprintf(other, sizeof other, "Etc/GMT+%u",
                       (unsigned)prng_below(&prng, 3 * ZONES_MAX));
        name = prng_below(&prng, 2) == 0 ? name : other;
        assert_int_equal(zones_local_ms(zones, name, utc_ms, &once),
                         local_anew(name, utc_ms, &anew));
        assert_true(anew == 0 || once == anew);
    }
    zones_free(zones);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_what_clocks_show),
        cmocka_unit_test(test_more_zones_than_are_kept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
