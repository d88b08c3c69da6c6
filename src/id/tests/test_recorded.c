/*
 * test_recorded.c - what each level means, in entries that were recorded when it was the newest
 * (recording.h): every leafd that speaks the level makes the same state and results of them.
 *
 * With LEAFD_RECORD_LEVEL set it records the newest level instead, unless that was recorded before
 * (make record-level). Thread: one.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "src/id/codec/command.h"
#include "src/id/tests/recording.h"
#include "src/state/codec/cluster_command.h"

#define PATH_BYTES 64

static const char *path_of(unsigned level, char path[PATH_BYTES])
{
    (void)snprintf(path, PATH_BYTES, "src/id/tests/recorded/level-%u.txt", level);
    return path;
}

static void test_each_level_means_what_it_meant_when_it_was_recorded(void **state)
{
    struct recording_counts counts;
    char path[PATH_BYTES];

    (void)state;
    for (unsigned level = LEVEL_OLDEST; level <= LEVEL_NEWEST; level++) {
        assert_true(recording_replay(path_of(level, path), &counts));
    }
}

static void test_every_type_of_commands_that_a_level_has_is_in_its_recording(void **state)
{
    struct recording_counts counts;
    char path[PATH_BYTES];

    (void)state;
    for (unsigned level = LEVEL_OLDEST; level <= LEVEL_NEWEST; level++) {
        assert_true(recording_replay(path_of(level, path), &counts));
        for (int type = 1; type < RECORDED_TYPES; type++) {
            uint16_t since = (uint16_t)(command_since(type) + cluster_command_since(type));

            if (type == COMMAND_BIRTH && level >= BIRTH_LEVEL_MIN) {
                continue; /* always too late: that cluster was born by a COMMAND_BIRTH_AT */
            }
            if (since == 0 || since > level) {
                assert_int_equal(counts.applied[type], 0);
            } else if (counts.done[type] == 0) {
                fail_msg("level %u: type %d was applied %u times and never did anything", level,
                         type, counts.applied[type]);
            }
        }
    }
}

static int record_newest(void)
{
    char path[PATH_BYTES];
    int err = recording_write(path_of(LEVEL_NEWEST, path), LEVEL_NEWEST);

    if (err == EEXIST) {
        printf("%s is there: what a level means never changes once it was recorded. Bring a new "
               "level instead (LEVEL_NEWEST in src/state/codec/level.h, docs/versions.md)\n",
               path);
    } else if (err != 0) {
        printf("%s cannot be written: %s\n", path, strerror(err));
    } else {
        printf("%s: recorded\n", path);
    }
    return err == 0 ? 0 : 1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_level_means_what_it_meant_when_it_was_recorded),
        cmocka_unit_test(test_every_type_of_commands_that_a_level_has_is_in_its_recording),
    };

    if (getenv("LEAFD_RECORD_LEVEL") != NULL) {
        return record_newest();
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
