/*
 * test_reload.c - all parts take new settings, or none does; with parts that note what is asked of
 * them, and a config file that changes.
 *
 * The log is read from a file in the place of stderr. Thread: one.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/tests/unit/test.h"
#include "src/node/config/config.h"
#include "src/node/reload.h"

struct part {
    char name;
    bool refuses;
    const char *changes;
    const struct config *seen;
};

struct fixture {
    char dir[64];
    char path[96];
    char *argv[4];
    char *env[1];
    struct config started;
    struct http_reloads counts;
    struct reload reload;
    struct node *node; /* NULL */
    struct reload_keys keys;
    struct part parts[3];
    int saved_stderr;
    int log_fd;
};

static char events[64]; /* "p1 p2 d1": who prepared, committed, dropped */

static void event(char what, const struct part *part)
{
    size_t len = strlen(events);

    (void)snprintf(events + len, sizeof events - len, "%s%c%c", len > 0 ? " " : "", what,
                   part->name);
}

static int prepare(void *data, const struct config *next, struct config_error *ret_error)
{
    struct part *part = data;

    event('p', part);
    part->seen = next;
    return part->refuses ? config_fail(ret_error, "the file \"x\" is empty") : 0;
}

static void commit(void *data, struct buf *ret_changes)
{
    struct part *part = data;

    event('c', part);
    if (part->changes != NULL) {
        buf_printf(ret_changes, "%s", part->changes);
    }
}

static void drop(void *data)
{
    event('d', data);
}

static void write_file(struct fixture *f, const char *more)
{
    FILE *file = fopen(f->path, "w");

    assert_non_null(file);
    assert_true(fprintf(file, "node.id = 1\ncluster.members = 1=127.0.0.1:7081\n%s", more) > 0);
    assert_int_equal(fclose(file), 0);
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    enum config_action action;
    struct config_error error;

    assert_non_null(f);
    (void)snprintf(f->dir, sizeof f->dir, "/tmp/leafd-reload-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    (void)snprintf(f->path, sizeof f->path, "%s/leafd.conf", f->dir);
    write_file(f, "log.level = info\n");
    f->argv[0] = "leafd";
    f->argv[1] = "--config";
    f->argv[2] = f->path;
    assert_int_equal(config_load(3, f->argv, f->env, &f->started, &action, &error), 0);
    log_setup(f->started.log_level, 1);
    f->reload = (struct reload){.started = &f->started, .counts = &f->counts};
    f->keys = (struct reload_keys){.node = &f->node, .counts = &f->counts};
    reload_add(&f->reload, &reload_keys_part, &f->keys); /* what it makes is freed each time */
    for (int i = 0; i < 3; i++) {
        static const struct reload_part parts[] = {
            {.name = "first", .prepare = prepare, .commit = commit, .drop = drop},
            {.name = "second", .prepare = prepare, .commit = commit, .drop = drop},
            {.name = "third", .prepare = prepare, .commit = commit, .drop = drop}};

        f->parts[i].name = (char)('1' + i);
        reload_add(&f->reload, &parts[i], &f->parts[i]);
    }
    events[0] = '\0';
    f->saved_stderr = dup(STDERR_FILENO);
    f->log_fd = open(f->dir, O_TMPFILE | O_RDWR, 0600);
    assert_true(f->log_fd >= 0);
    assert_int_equal(dup2(f->log_fd, STDERR_FILENO), STDERR_FILENO);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(dup2(f->saved_stderr, STDERR_FILENO), STDERR_FILENO);
    (void)close(f->saved_stderr);
    (void)close(f->log_fd);
    reload_release(&f->reload);
    config_release(&f->started);
    assert_int_equal(unlink(f->path), 0);
    assert_int_equal(rmdir(f->dir), 0);
    free(f);
    return 0;
}

/* Run; its result, and what it logged. */
static bool run(struct fixture *f, char *ret_log, size_t size)
{
    ssize_t len;
    bool done;

    assert_int_equal(ftruncate(f->log_fd, 0), 0);
    assert_int_equal(lseek(f->log_fd, 0, SEEK_SET), 0);
    events[0] = '\0';
    done = reload_run(&f->reload);
    len = pread(f->log_fd, ret_log, size - 1, 0);
    assert_true(len >= 0);
    ret_log[len] = '\0';
    return done;
}

#define assert_says(log, text)                                                                     \
    do {                                                                                           \
        if (strstr(log, text) == NULL) {                                                           \
            fail_msg("the log says:\n%s\nand not:\n%s", log, text);                                \
        }                                                                                          \
    } while (0)

static void test_nothing_changed(void **state)
{
    struct fixture *f = *state;
    char log[4096];

    assert_true(run(f, log, sizeof log));
    assert_string_equal(events, "p1 p2 p3 c1 c2 c3");
    assert_says(log, "level=info node=1 at=app msg=\"reloaded\" changed=nothing\n");
    assert_null(strstr(log, "restart"));
    assert_int_equal(f->counts.done, 1);
    assert_int_equal(f->counts.refused, 0);
    assert_true(f->counts.done_ms > 0);
}

static void test_what_changed_is_said(void **state)
{
    struct fixture *f = *state;
    char log[4096];

    f->parts[1].changes = "now CN=shop until 2027-01-31";
    f->parts[2].changes = "3 tokens";
    write_file(f, "log.level = debug\n");
    assert_true(run(f, log, sizeof log));
    assert_says(log, "changed=\"log.level = debug (was info), second: now CN=shop until "
                     "2027-01-31, third: 3 tokens\"\n");
    f->parts[1].changes = NULL;
    f->parts[2].changes = NULL;
    assert_true(run(f, log, sizeof log));
    assert_says(log, "changed=nothing\n");
    assert_int_equal(f->counts.done, 2);
}

/* The line that says so is always written: at the lower of both levels. */
static void test_log_level(void **state)
{
    struct fixture *f = *state;
    char log[4096];

    write_file(f, "log.level = error\n");
    assert_true(run(f, log, sizeof log));
    assert_says(log, "log.level = error (was info)");
    log_warn("app", "not to be seen", NULL);
    assert_true(run(f, log, sizeof log));
    assert_string_equal(log, "");
    write_file(f, "log.level = debug\n");
    assert_true(run(f, log, sizeof log));
    assert_says(log, "log.level = debug (was error)");
}

/* Those that need a restart are named each time, and compared with what is in force: the values of
 * the start. */
static void test_what_takes_a_restart(void **state)
{
    struct fixture *f = *state;
    char log[4096];

    write_file(f,
               "http.listen = 127.0.0.1:9999\nraft.election-ms = 2000\ndata.map-bytes = 16GiB\n");
    for (int i = 0; i < 2; i++) {
        assert_true(run(f, log, sizeof log));
        assert_says(log, "changed=nothing\n");
        assert_says(log, "level=warn node=1 at=app msg=\"settings differ from those in force, and "
                         "take a restart\" settings=\"http.listen, http.advertise, admin.listen, "
                         "raft.election-ms, segment.cover-ms\"\n");
    }
    write_file(f, "data.map-bytes = 16384MiB\n");
    assert_true(run(f, log, sizeof log));
    assert_null(strstr(log, "restart"));
}

/* None has committed, those that had prepared have dropped it, the last one first. */
static void test_a_part_refuses(void **state)
{
    struct fixture *f = *state;
    char log[4096];

    write_file(f, "log.level = debug\n");
    f->parts[2].refuses = true;
    assert_false(run(f, log, sizeof log));
    assert_string_equal(events, "p1 p2 p3 d2 d1");
    assert_says(log, "level=error node=1 at=app msg=\"the reload was refused, and nothing has "
                     "changed\" part=third reason=\"the file \\\"x\\\" is empty\"\n");
    log_debug("app", "not to be seen", NULL);
    f->parts[2].refuses = false;
    f->parts[0].refuses = true;
    assert_false(run(f, log, sizeof log));
    assert_string_equal(events, "p1");
    assert_null(strstr(log, "not to be seen"));
    assert_int_equal(f->counts.refused, 2);
    assert_int_equal(f->counts.done, 0);
    f->parts[0].refuses = false;
    assert_true(run(f, log, sizeof log));
    assert_says(log, "log.level = debug (was info)");
}

static void test_bad_settings(void **state)
{
    struct fixture *f = *state;
    char log[4096];

    write_file(f, "log.level = loud\n");
    assert_false(run(f, log, sizeof log));
    assert_string_equal(events, "");
    assert_says(log, "part=settings reason=");
    assert_says(log, "leafd.conf:3: log.level: \\\"loud\\\" is not valid");
    assert_int_equal(unlink(f->path), 0);
    assert_false(run(f, log, sizeof log));
    assert_says(log, "leafd.conf: cannot open: No such file or directory");
    assert_int_equal(mkfifo(f->path, 0600), 0);
    assert_false(run(f, log, sizeof log));
    assert_says(log, "leafd.conf: is not a regular file");
    assert_int_equal(f->counts.refused, 3);
    assert_int_equal(f->counts.done_ms, 0);
}

/* What the parts were shown stays until the next reload has gone well. */
static void test_next_lives(void **state)
{
    struct fixture *f = *state;
    char log[4096];

    write_file(f, "log.level = warn\n");
    assert_true(run(f, log, sizeof log));
    assert_ptr_equal(f->reload.in_force, f->parts[0].seen);
    f->parts[1].refuses = true;
    assert_false(run(f, log, sizeof log));
    assert_int_equal(f->reload.in_force->log_level, LOG_LEVEL_WARN);
    assert_ptr_not_equal(f->reload.in_force, f->parts[0].seen);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_nothing_changed),      TEST(test_what_changed_is_said), TEST(test_log_level),
        TEST(test_what_takes_a_restart), TEST(test_a_part_refuses),       TEST(test_bad_settings),
        TEST(test_next_lives),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
