/*
 * test_commands.c - the table of commands: no two of a name, no option that hides a setting, and
 * the command lines that it takes.
 */
#include "src/ctl/cmd/command.h"

#include <string.h>

#include "src/tests/unit/test.h"

static void test_names_are_their_own(void **state)
{
    (void)state;
    for (const struct command *one = COMMANDS; one->family != NULL; one++) {
        assert_non_null(one->summary);
        assert_true(one->run != NULL || one->path != NULL);
        for (const struct command *other = one + 1; other->family != NULL; other++) {
            bool same_family = strcmp(one->family, other->family) == 0;

            /* A family is one command without a name, or several with one. */
            assert_true(!same_family || (one->name != NULL && other->name != NULL &&
                                         strcmp(one->name, other->name) != 0));
        }
    }
}

/* A row with a path takes an operand for each word of its usage, the first one in place of '*'. */
static void test_rows_take_their_operands(void **state)
{
    (void)state;
    for (const struct command *command = COMMANDS; command->family != NULL; command++) {
        size_t words = command->operands != NULL ? 1 : 0;
        size_t takes = 0;

        for (const char *c = command->operands; c != NULL && *c != '\0'; c++) {
            words += *c == ' ';
        }
        while (takes < COMMAND_OPERANDS_MAX && command->takes[takes].given != NULL) {
            takes++;
        }
        assert_int_equal(takes, command->path != NULL ? words : 0);
        assert_true(command->path == NULL || strchr(command->path, '*') == NULL || takes > 0);
        assert_true(command->path == NULL || command->run != NULL || command->waits ||
                    (command->form != NULL) + (command->columns != NULL || command->put != NULL) ==
                        1);
        assert_true(command->run != NULL || (command->columns != NULL) == (command->list != NULL));
    }
}

static void test_no_option_hides_a_setting(void **state)
{
    (void)state;
    for (const struct command *command = COMMANDS; command->family != NULL; command++) {
        const struct option_about *options = command->options;
        size_t count = 0;

        for (; options != NULL && options[count].name != NULL; count++) {
            assert_string_not_equal(options[count].name, "json");
            assert_string_not_equal(options[count].name, "help");
            assert_string_not_equal(options[count].name, "version");
            assert_string_not_equal(options[count].name, "token");
            assert_true(options[count].letter != 'h');
            for (unsigned setting = 0; setting < SETTINGS; setting++) {
                assert_string_not_equal(options[count].name, SETTINGS_ABOUT[setting].name);
            }
            for (size_t i = 0; i < count; i++) {
                assert_string_not_equal(options[count].name, options[i].name);
                assert_true(options[count].letter == 0 ||
                            options[count].letter != options[i].letter);
            }
        }
        assert_true(count <= COMMAND_OPTIONS_MAX);
    }
}

/* The option of this name; NULL: the command has none. */
static const struct option_about *option_of(const struct command *command, const char *name)
{
    const struct option_about *option = command->options;

    while (option != NULL && option->name != NULL && strcmp(option->name, name) != 0) {
        option++;
    }
    return option != NULL && option->name != NULL ? option : NULL;
}

/* Completions know an option by its name alone. */
static void test_an_option_has_a_value_everywhere_or_nowhere(void **state)
{
    (void)state;
    for (const struct command *one = COMMANDS; one->family != NULL; one++) {
        for (const struct option_about *a = one->options; a != NULL && a->name != NULL; a++) {
            for (const struct command *two = one + 1; two->family != NULL; two++) {
                const struct option_about *b = option_of(two, a->name);

                assert_true(b == NULL || (a->value != NULL) == (b->value != NULL));
            }
        }
    }
}

/* Parse words that end with NULL. */
static enum ctl_exit parse(struct ctl *ctl, const char *const *words, bool *run)
{
    char *argv[16] = {(char *)"leafctl"};
    int argc = 1;

    for (; words[argc - 1] != NULL; argc++) {
        argv[argc] = (char *)words[argc - 1];
    }
    *ctl = (struct ctl){0};
    return args_parse(ctl, argc, argv, run);
}

static void test_command_lines(void **state)
{
    struct ctl ctl;
    bool run;

    (void)state;
    assert_int_equal(parse(&ctl,
                           (const char *const[]){"--server=a:1", "next", "-n", "5", "--json", "tag",
                                                 "--ranges", NULL},
                           &run),
                     CTL_DONE);
    assert_string_equal(ctl.command->family, "next");
    assert_string_equal(ctl.args.operands[0], "tag");
    assert_string_equal(ctl_option(&ctl, "count"), "5");
    assert_string_equal(ctl_option(&ctl, "ranges"), "");
    assert_null(ctl_option(&ctl, "idempotency-key"));
    assert_true(ctl.json);
    assert_string_equal(ctl.settings.values[SETTING_SERVER], "a:1");
    settings_free(&ctl.settings);

    assert_int_equal(parse(&ctl, (const char *const[]){"next", "-n7", "--", "--json", NULL}, &run),
                     CTL_DONE);
    assert_string_equal(ctl.args.operands[0], "--json");
    assert_string_equal(ctl_option(&ctl, "count"), "7");
    assert_false(ctl.json);

    assert_int_equal(parse(&ctl, (const char *const[]){"members", NULL}, &run), CTL_DONE);
    assert_string_equal(ctl.command->name, "list");
    assert_int_equal(parse(&ctl, (const char *const[]){"members", "x", NULL}, &run), CTL_USAGE);
    assert_int_equal(parse(&ctl, (const char *const[]){"members", "--help", NULL}, &run), CTL_DONE);
    assert_false(run);
    assert_true(ctl.out.len > 0);
    buf_free(&ctl.out);
    assert_int_equal(parse(&ctl, (const char *const[]){NULL}, &run), CTL_USAGE);
    assert_int_equal(parse(&ctl, (const char *const[]){"leader", NULL}, &run), CTL_DONE);
    assert_int_equal(parse(&ctl, (const char *const[]){"leader", "1", NULL}, &run), CTL_DONE);
    assert_int_equal(parse(&ctl, (const char *const[]){"leader", "1", "2", NULL}, &run), CTL_USAGE);
    assert_int_equal(parse(&ctl, (const char *const[]){"status", "1", NULL}, &run), CTL_USAGE);
    assert_int_equal(parse(&ctl, (const char *const[]){"members", "add", "1", NULL}, &run),
                     CTL_USAGE);
    assert_int_equal(
        parse(&ctl, (const char *const[]){"members", "add", "1", "a:1", "b:1", NULL}, &run),
        CTL_USAGE);
    assert_int_equal(parse(&ctl, (const char *const[]){"restore", "1", "2", "3", "4", NULL}, &run),
                     CTL_DONE);
    assert_int_equal(
        parse(&ctl, (const char *const[]){"a", "b", "c", "d", "e", "f", "g", NULL}, &run),
        CTL_USAGE);
}

/* Every operand, option and setting that names a file: only `import` reads standard input. */
static void test_a_dash_is_no_file(void **state)
{
    struct ctl ctl;
    bool run;

    (void)state;
    for (const struct command *at = COMMANDS; at->family != NULL; at++) {
        const char *words[] = {at->family, at->name != NULL ? at->name : "-", "-", NULL};

        if (at->operands != NULL && strstr(at->operands, "FILE") != NULL) {
            words[1 + (at->name != NULL)] = "-";
            words[2 + (at->name != NULL)] = NULL;
            assert_int_equal(parse(&ctl, words, &run), at->source != NULL ? CTL_DONE : CTL_USAGE);
        }
        for (EACH_OPTION(option, at->options)) {
            char text[64];

            if (option->value == NULL || strstr(option->value, "FILE") == NULL) {
                continue;
            }
            (void)snprintf(text, sizeof text, "--%s=-", option->name);
            words[1 + (at->name != NULL)] = text;
            words[2 + (at->name != NULL)] = NULL;
            assert_int_equal(parse(&ctl, words, &run), CTL_USAGE);
        }
    }
    for (unsigned i = 0; i < SETTINGS; i++) {
        const char *words[] = {"status", NULL, NULL};
        char text[64];
        BUF_LOCAL(why);

        if (strcmp(SETTINGS_ABOUT[i].value, "FILE") != 0) {
            continue;
        }
        (void)snprintf(text, sizeof text, "--%s=-", SETTINGS_ABOUT[i].name);
        words[1] = text;
        assert_int_equal(parse(&ctl, words, &run), CTL_DONE);
        assert_int_equal(settings_load(&ctl.settings, &why), ERR_INVALID);
        assert_non_null(strstr(buf_text(&why), "one of that name is ./-"));
        settings_free(&ctl.settings);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_are_their_own),
        cmocka_unit_test(test_rows_take_their_operands),
        cmocka_unit_test(test_no_option_hides_a_setting),
        cmocka_unit_test(test_an_option_has_a_value_everywhere_or_nowhere),
        cmocka_unit_test(test_command_lines),
        cmocka_unit_test(test_a_dash_is_no_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
