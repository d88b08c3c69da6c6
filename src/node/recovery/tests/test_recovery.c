/*
 * test_recovery.c - the command lines of restore and recover: what is taken, and which
 * message each fault gets.
 *
 * Thread: one.
 */
#include <string.h>

#include "src/tests/unit/test.h"
#include "src/node/recovery/recovery.h"

#define ARGUMENTS_MAX 24

/* The words of a line, parted by one space. */
static int read_line(enum options_command command, const char *line, struct options *ret_options,
                     struct config_error *ret_error)
{
    static char text[512];
    char *argv[ARGUMENTS_MAX] = {NULL};
    char *rest = text;
    size_t count = 0;

    strncpy(text, line, sizeof text - 1);
    while (line[0] != '\0' && rest != NULL) {
        assert_in_range(count, 0, ARGUMENTS_MAX - 2);
        argv[count++] = strsep(&rest, " ");
    }
    ret_error->text[0] = '\0';
    return options_read(command, argv, ret_options, ret_error);
}

#define PLACE "b --data-dir d --node-id 1 --peer-address h:1 "
#define DIRS "--data-dir d --out e "

static void test_what_is_taken(void **state)
{
    struct config_error error;
    struct options options;

    (void)state;
    assert_int_equal(read_line(OPTIONS_RESTORE,
                               PLACE "--raise-ids=7 --raise-time 2d --raise-factor 3 --cluster-id "
                                     "c --drop-keys --dry-run",
                               &options, &error),
                     0);
    assert_string_equal(options.file, "b");
    assert_string_equal(options.to_dir, "d");
    assert_string_equal(options.peer_address, "h:1");
    assert_string_equal(options.cluster_id, "c");
    assert_int_equal(options.node_id, 1);
    assert_true(options.renew.raise.by_ids && options.renew.raise.by_time);
    assert_int_equal(options.renew.raise.ids, 7);
    assert_int_equal(options.renew.raise.time_ms, 2 * 86400000);
    assert_int_equal(options.renew.raise.factor, 3);
    assert_true(options.renew.drop_keys && options.dry_run && !options.check);
    assert_int_equal(read_line(OPTIONS_RECOVER,
                               DIRS "--raise-ids 0 --compare x --compare=y --yes --lost 2 --lost=3",
                               &options, &error),
                     0);
    assert_string_equal(options.from_dir, "d");
    assert_string_equal(options.to_dir, "e");
    assert_int_equal(options.compare_count, 2);
    assert_string_equal(options.compare[1], "y");
    assert_int_equal(options.lost_count, 2);
    assert_int_equal(options.lost[0], 2);
    assert_int_equal(options.lost[1], 3);
    assert_true(options.yes && options.renew.raise.by_ids);
    assert_int_equal(options.renew.raise.factor, OPTIONS_FACTOR);
    assert_int_equal(read_line(OPTIONS_RESTORE, "b --check", &options, &error), 0);
    assert_int_equal(read_line(OPTIONS_RESTORE, "--help --nonsense", &options, &error), 0);
    assert_true(options.help);
}

static void test_what_is_refused(void **state)
{
    static const struct {
        enum options_command command;
        const char *line;
        const char *text;
    } faults[] = {
        {OPTIONS_RESTORE, "", "name the backup"},
        {OPTIONS_RESTORE, "--check", "name the backup"},
        {OPTIONS_RESTORE, "b c", "unknown argument \"c\""},
        {OPTIONS_RESTORE, "- --check", "FILE: \"-\" does not mean standard input"},
        {OPTIONS_RESTORE, "b --data-dir -", "--data-dir: \"-\" does not mean standard input"},
        {OPTIONS_RECOVER, "--data-dir -", "--data-dir: \"-\" does not mean standard input"},
        {OPTIONS_RECOVER, "--data-dir d --out=-", "--out: \"-\" does not mean standard input"},
        {OPTIONS_RECOVER, DIRS "--compare -", "--compare: \"-\" does not mean standard input"},
        {OPTIONS_READMIT, "--data-dir -", "--data-dir: \"-\" does not mean standard input"},
        {OPTIONS_RESTORE, "b", "--data-dir is missing"},
        {OPTIONS_RESTORE, "b --data-dir d", "--node-id is missing"},
        {OPTIONS_RESTORE, "b --data-dir d --node-id 1", "--peer-address is missing"},
        {OPTIONS_RESTORE, PLACE, "unknown argument \"\""},
        {OPTIONS_RESTORE, "b --data-dir d --node-id 1 --peer-address h:1",
         "by --raise-ids N or --raise-time 1h (or both)"},
        {OPTIONS_RESTORE, PLACE "--raise-factor 3", "say how far to raise"},
        {OPTIONS_RESTORE, PLACE "--raise-ids", "--raise-ids: the value is missing"},
        {OPTIONS_RESTORE, PLACE "--raise-ids x", "\"x\" is not a whole number from 0 to"},
        {OPTIONS_RESTORE, PLACE "--raise-ids 9223372036854775808", "is not a whole number"},
        {OPTIONS_RESTORE, PLACE "--raise-time 1", "is not a time such as 90s, 15m, 1h or 2d"},
        {OPTIONS_RESTORE, PLACE "--raise-time h", "is not a time"},
        {OPTIONS_RESTORE, PLACE "--raise-time 0s", "is not a time"},
        {OPTIONS_RESTORE, PLACE "--raise-time 367d", "is not a time"},
        {OPTIONS_RESTORE, PLACE "--raise-time -1h", "is not a time"},
        {OPTIONS_RESTORE, PLACE "--raise-ids 1 --raise-factor 0", "from 1 to 1000000"},
        {OPTIONS_RESTORE, PLACE "--raise-ids 1 --node-id 65536", "from 1 to 65535"},
        {OPTIONS_RESTORE, PLACE "--raise-ids 1 --peer-address 0.0.0.0:1", "is not an address"},
        {OPTIONS_RESTORE, PLACE "--raise-ids 1 --cluster-id a/b", "letters, digits"},
        {OPTIONS_RESTORE, PLACE "--raise-ids 1 --data-dir=", "must be a path"},
        {OPTIONS_RESTORE, PLACE "--raise-ids 1 --yes", "unknown argument \"--yes\""},
        {OPTIONS_RESTORE, PLACE "--raise-ids 1 --compare x", "unknown argument"},
        {OPTIONS_RECOVER, "--out e --raise-ids 1", "--data-dir is missing: the survivor's"},
        {OPTIONS_RECOVER, "--data-dir d --raise-ids 1", "--out is missing"},
        {OPTIONS_RECOVER, "--data-dir d --out e", "by --raise-ids N: ids that were handed out"},
        {OPTIONS_RECOVER, DIRS "--raise-time 1h", "unknown argument \"--raise-time\""},
        {OPTIONS_RECOVER, DIRS "--raise-ids 1 --lost 0", "\"0\" is not a whole number from 1 to"},
        {OPTIONS_RECOVER,
         DIRS "--lost 1 --lost 2 --lost 3 --lost 4 --lost 5 --lost 6 --lost 7 --lost 8",
         "--lost: given more than 7 times"},
        {OPTIONS_RESTORE, PLACE "--raise-ids 1 --lost 2", "unknown argument \"--lost\""},
        {OPTIONS_RECOVER, "file", "unknown argument \"file\""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        struct config_error error;
        struct options options;
        int rv = read_line(faults[i].command, faults[i].line, &options, &error);

        if (rv != ERR_INVALID || strstr(error.text, faults[i].text) == NULL) {
            print_error("%s: %d %s\n", faults[i].line, rv, error.text);
            fail();
        }
    }
}

static void test_help_names_each_flag(void **state)
{
    static const char *const of_both[] = {"--data-dir",  "--node-id",    "--peer-address",
                                          "--raise-ids", "--cluster-id", "--drop-keys",
                                          "--dry-run"};
    struct buf restore = BUF_INIT;
    struct buf recover = BUF_INIT;

    (void)state;
    options_help(OPTIONS_RESTORE, &restore);
    options_help(OPTIONS_RECOVER, &recover);
    buf_put_u8(&restore, '\0');
    buf_put_u8(&recover, '\0');
    for (size_t i = 0; i < sizeof of_both / sizeof of_both[0]; i++) {
        assert_non_null(strstr((char *)restore.data, of_both[i]));
        assert_non_null(strstr((char *)recover.data, of_both[i]));
    }
    assert_non_null(strstr((char *)restore.data, "--raise-factor"));
    assert_non_null(strstr((char *)restore.data, "--check"));
    assert_non_null(strstr((char *)recover.data, "--compare"));
    assert_non_null(strstr((char *)recover.data, "--yes"));
    assert_non_null(strstr((char *)recover.data, "--lost"));
    buf_free(&restore);
    buf_free(&recover);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_taken),
        cmocka_unit_test(test_what_is_refused),
        cmocka_unit_test(test_help_names_each_flag),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
