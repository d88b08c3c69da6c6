/*
 * test_saved.c - a fresh data directory is there as a whole or not at all, wherever the tool is
 * killed.
 *
 * This program's own calls that change a disk stand before libc's and count; a child is killed
 * right before the k-th of them, for every k. What it leaves is then looked at as the next start,
 * and the next try, would.
 *
 * Thread: one.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/tests/unit/test.h"
#include "raft/core/prepare.h"
#include "src/base/assert.h"
#include "src/id/codec/command.h"
#include "src/id/fsm/fsm_tables.h"
#include "src/node/recovery/recovery.h"
#include "src/node/recovery/saved.h"
#include "src/node/recovery/tests/recovery_fixture.h"
#include "src/state/codec/cluster_command.h"
#include "src/state/codec/session.h"
#include "storage/lmdb/store.h"

#define TAGS 300
#define CALLS_MAX 1000

/* --- the disk --- */

static unsigned kill_at; /* 0: never */
static unsigned calls;

static void count(void)
{
    calls++;
    if (kill_at != 0 && calls == kill_at) {
        (void)raise(SIGKILL);
    }
}

ssize_t pwrite(int fd, const void *data, size_t len, off_t at)
{
    count();
    return syscall(SYS_pwrite64, fd, data, len, at);
}

ssize_t write(int fd, const void *data, size_t len)
{
    count();
    return syscall(SYS_write, fd, data, len);
}

ssize_t writev(int fd, const struct iovec *parts, int part_count)
{
    count();
    return syscall(SYS_writev, fd, parts, part_count);
}

ssize_t pwritev(int fd, const struct iovec *parts, int part_count, off_t at)
{
    count();
    return syscall(SYS_pwritev, fd, parts, part_count, at, 0);
}

int fsync(int fd)
{
    count();
    return (int)syscall(SYS_fsync, fd);
}

int fdatasync(int fd)
{
    count();
    return (int)syscall(SYS_fdatasync, fd);
}

int rename(const char *from, const char *to)
{
    count();
    return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int mkdir(const char *path, mode_t mode)
{
    count();
    return (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}

/* --- the test --- */

struct world {
    struct fixture fixture;
    struct renewed renewed;
    char dir[64];
    char data[80];
    struct fresh fresh;
};

static int setup(void **state)
{
    static const struct renew_options options = {
        .raise = {.by_ids = true, .ids = 1000, .factor = 10}};
    struct world *world = calloc(1, sizeof *world);
    struct store_error error;

    ASSERT(world != NULL);
    (void)snprintf(world->dir, sizeof world->dir, "/tmp/leafd-fresh-XXXXXX");
    ASSERT(mkdtemp(world->dir) != NULL);
    (void)snprintf(world->data, sizeof world->data, "%s/data", world->dir);
    fixture_begin(&world->fixture);
    for (unsigned i = 0; i < TAGS; i++) {
        char name[16];

        (void)snprintf(name, sizeof name, "tag-%u", i);
        fixture_put(&world->fixture, name, i, TAG_MODE_TREND);
    }
    ASSERT(renew(fixture_saved(&world->fixture), &options, FIXTURE_NOW_MS, &world->renewed,
                 &error) == 0);
    world->fresh = (struct fresh){.dir = world->data,
                                  .cluster_id = "c-2",
                                  .node_id = 9,
                                  .address = "127.0.0.1:7",
                                  .index = world->fixture.index,
                                  .term = 2,
                                  .digest = world->renewed.digest,
                                  .rows = world->renewed.rows.data,
                                  .rows_len = world->renewed.rows.len};
    *state = world;
    return 0;
}

static void clear(const struct world *world)
{
    char command[256];

    (void)snprintf(command, sizeof command, "rm -rf %s %s/other", world->data, world->dir);
    ASSERT(system(command) == 0);
}

static int teardown(void **state)
{
    struct world *world = *state;

    clear(world);
    ASSERT(rmdir(world->dir) == 0);
    renewed_release(&world->renewed);
    fixture_end(&world->fixture);
    free(world);
    return 0;
}

/* A child writes, and is killed before its k-th call (0: not). True if it came to its end. */
static bool write_in_child(struct world *world, unsigned k, unsigned *ret_calls)
{
    struct store_error error = {""};
    int report[2];
    int status;
    pid_t pid;

    ASSERT(pipe(report) == 0);
    pid = fork();
    ASSERT(pid >= 0);
    if (pid == 0) {
        calls = 0;
        kill_at = k;
        if (fresh_write(&world->fresh, &error) != 0) {
            print_error("%s\n", error.text);
            _exit(1);
        }
        kill_at = 0;
        (void)syscall(SYS_write, report[1], &calls, sizeof calls);
        _exit(0);
    }
    ASSERT(waitpid(pid, &status, 0) == pid);
    ASSERT(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
    if (!WIFSIGNALED(status)) {
        ASSERT(read(report[0], ret_calls, sizeof *ret_calls) == sizeof *ret_calls);
    }
    (void)close(report[0]);
    (void)close(report[1]);
    return !WIFSIGNALED(status);
}

/* What is found in the directory: 1 a whole store, 0 none. */
static int found(const struct world *world)
{
    struct store_error error = {""};
    struct saved saved;
    int err = read_survivor(world->data, true, &saved, &error);

    if (err == ERR_NOT_FOUND) {
        return 0;
    }
    if (err != 0) {
        print_error("%s\n", error.text);
    }
    assert_int_equal(err, 0);
    assert_string_equal(saved.cluster_id, "c-2");
    assert_int_equal(saved.node_id, 9);
    assert_int_equal(saved.index, world->fresh.index);
    assert_string_equal(saved.address, "127.0.0.1:7");
    assert_int_equal(saved.count, world->renewed.row_count);
    saved_free(&saved);
    return 1;
}

/* As a node does. */
static void start(const struct world *world)
{
    struct store_lmdb_config config = {
        .dir = world->data, .map_bytes = 16 << 20, .identity = {.node_id = 9}};
    struct store_error error = {""};
    struct store *store;
    bool made;

    memcpy(config.identity.cluster_id, "c-2", sizeof "c-2");
    assert_int_equal(store_lmdb_open(&config, &store, &made, &error), 0);
    store->ops->close(store);
}

/* Shows backup-kill. */
static void test_a_kill_at_each_call_leaves_nothing_or_a_whole_store(void **state)
{
    struct world *world = *state;
    unsigned total = 0;
    unsigned nothing = 0;
    unsigned whole = 0;

    assert_true(write_in_child(world, 0, &total));
    assert_int_equal(found(world), 1);
    assert_in_range(total, 10, CALLS_MAX);
    for (unsigned k = 1; k <= total; k++) {
        struct store_error error = {""};
        unsigned ignored;

        clear(world);
        assert_false(write_in_child(world, k, &ignored));
        if (found(world) == 1) {
            whole++;
            assert_int_equal(fresh_check(world->data, &error), ERR_EXISTS);
        } else if (fresh_check(world->data, &error) == 0) {
            nothing++;
            assert_true(write_in_child(world, 0, &ignored)); /* and so the next try works */
            assert_int_equal(found(world), 1);
        } else {
            /* Behind the marker: whole, and only its name is to be given. A start does it. */
            assert_non_null(strstr(error.text, "made"));
            start(world);
            assert_int_equal(found(world), 1);
            whole++;
        }
    }
    assert_true(nothing > 5 && whole > 0);
}

/* A directory whose entries have it is refused by every start. */
static void test_a_term_that_cannot_be_does_not_come_along(void **state)
{
    struct world *world = *state;
    struct store_error error = {""};
    struct saved saved;

    world->fresh.term = LIMIT_PLAUSIBLE + 5;
    assert_int_equal(fresh_write(&world->fresh, &error), 0);
    assert_int_equal(read_survivor(world->data, true, &saved, &error), 0);
    assert_int_equal(saved.term, 1);
    assert_true(saved.log_term == LIMIT_PLAUSIBLE + 5); /* it is compared by what it has */
    saved_free(&saved);
}

/* What `leafd recover` says of the two directories: ERR_STALE if the other one knows more; else
 * that they are a majority of what this node takes for the members. */
static int compared(struct world *world, const char *other)
{
    char to[96];
    char *const argv[] = {"leafd",     "recover",     "--data-dir", world->data,
                          "--compare", (char *)other, "--out",      to,
                          "--yes",     "--raise-ids", "1",          NULL};

    (void)snprintf(to, sizeof to, "%s/to", world->dir);
    return recovery_run(argv, NULL);
}

/* A log knows more if its last entry is of a later term, however short it is; and by its length
 * where that is the same. */
static void test_a_survivor_is_compared_by_term_and_then_by_index(void **state)
{
    static const struct {
        uint64_t term;
        uint64_t index; /* so much longer */
        int other_term; /* that it is compared with: so much later */
        int other_index;
        bool knows_more;
    } cases[] = {
        {5, 9, 0, 0, false},  {5, 9, 0, 1, true},   {5, 9, 0, -1, false},
        {5, 9, 1, 0, true},   {5, 9, 1, -9, true},  {5, 9, 1, 9, true},
        {5, 9, -1, 0, false}, {5, 9, -1, 9, false}, {5, 9, -1, -9, false},
    };
    struct world *world = *state;
    const uint64_t least = world->fresh.index;
    char other[96];

    (void)snprintf(other, sizeof other, "%s/other", world->dir);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct store_error error = {""};

        world->fresh.dir = world->data;
        world->fresh.node_id = 9;
        world->fresh.term = cases[i].term;
        world->fresh.index = least + cases[i].index;
        assert_int_equal(fresh_write(&world->fresh, &error), 0);
        world->fresh.dir = other;
        world->fresh.node_id = 8;
        world->fresh.term = cases[i].term + (uint64_t)cases[i].other_term;
        world->fresh.index = least + cases[i].index + (uint64_t)cases[i].other_index;
        assert_int_equal(fresh_write(&world->fresh, &error), 0);
        assert_int_equal(compared(world, other), cases[i].knows_more ? ERR_STALE : ERR_INVALID);
        clear(world);
    }
}

/* A copy of the survivor itself, and a directory of a cluster of another name, say nothing. */
static void test_what_is_no_other_survivor(void **state)
{
    struct world *world = *state;
    struct store_error error = {""};
    char other[96];

    (void)snprintf(other, sizeof other, "%s/other", world->dir);
    for (unsigned i = 0; i < 2; i++) {
        world->fresh.dir = world->data;
        world->fresh.node_id = 9;
        world->fresh.cluster_id = "c-2";
        assert_int_equal(fresh_write(&world->fresh, &error), 0);
        world->fresh.dir = other;
        world->fresh.node_id = i == 0 ? 9 : 8;
        world->fresh.cluster_id = i == 0 ? "c-2" : "c-3";
        assert_int_equal(fresh_write(&world->fresh, &error), 0);
        assert_int_equal(compared(world, other), ERR_WRONG_NODE);
        clear(world);
    }
}

/* An entry behind the rows, of the term in which they were written. */
static void append(const struct world *world, const struct store_entry *entries, uint32_t count)
{
    struct store_lmdb_config config = {
        .dir = world->data, .map_bytes = 16 << 20, .identity = {.node_id = 9}};
    struct store_op op = {.kind = STORE_APPEND,
                          .index = world->fresh.index + 1,
                          .entries = entries,
                          .entry_count = count};
    struct store_op_list list = STAILQ_HEAD_INITIALIZER(list);
    struct store_error error = {""};
    struct store *store;
    bool made;

    memcpy(config.identity.cluster_id, "c-2", sizeof "c-2");
    assert_int_equal(store_lmdb_open(&config, &store, &made, &error), 0);
    STAILQ_INSERT_TAIL(&list, &op, link);
    assert_int_equal(store->ops->commit(store, &list, &error), 0);
    store->ops->close(store);
}

static bool has_tag(const struct saved *saved, const char *name)
{
    for (size_t i = 0; i < saved->count; i++) {
        const struct saved_row *row = &saved->rows[i];

        if (row->key[0] == FSM_TABLE_TAGS && row->key_len == 1 + strlen(name) &&
            memcmp(row->key + 1, name, strlen(name)) == 0) {
            return true;
        }
    }
    return false;
}

/* What the log has behind the rows counts, from its first entry on, as if all of it had been
 * acknowledged: tags, members, and the node's own address. */
static void test_the_log_behind_the_rows(void **state)
{
    static const char *const names[] = {"first", "last"};
    const struct member_move move = {.node_id = 9, .address = "127.0.0.1:8"};
    struct configuration configuration = {0};
    struct world *world = *state;
    struct store_error error = {""};
    struct store_entry entries[4];
    struct buf bytes[4] = {BUF_INIT};
    struct saved saved;

    for (unsigned i = 0; i < 2; i++) {
        const struct tag_put put = {.name = names[i], .name_len = (uint16_t)strlen(names[i])};

        command_put(&bytes[i], COMMAND_TAGS_PUT, &(struct command_list){.wall_ms = 1});
        command_item_put(&bytes[i], COMMAND_TAGS_PUT, &put);
        command_items_end(&bytes[i]);
    }
    cluster_command_put(&bytes[2], COMMAND_MEMBER_MOVE, &move);
    configuration_add(&configuration, 8, "127.0.0.1:6", ROLE_STANDBY);
    configuration_add(&configuration, 9, "127.0.0.1:7", ROLE_VOTER);
    configuration_encode(&configuration, &bytes[3]);
    for (unsigned i = 0; i < 4; i++) {
        if (i < 3) {
            session_stamp_put(&bytes[i], &(struct session_stamp){9, 1, i + 1, 1});
        }
        entries[i] = (struct store_entry){.term = world->fresh.term,
                                          .type = i < 3 ? 1 : 3,
                                          .len = (uint32_t)bytes[i].len,
                                          .data = bytes[i].data};
    }
    assert_int_equal(fresh_write(&world->fresh, &error), 0);
    append(world, entries, 4);
    assert_int_equal(read_survivor(world->data, true, &saved, &error), 0);
    assert_int_equal(saved.tail, 4);
    assert_true(has_tag(&saved, "first"));
    assert_true(has_tag(&saved, "last"));
    assert_false(has_tag(&saved, "none"));
    assert_string_equal(saved.address, "127.0.0.1:8");
    assert_int_equal(saved.members.count, 2);
    saved_free(&saved);
    for (unsigned i = 0; i < 4; i++) {
        buf_free(&bytes[i]);
    }
}

/* A leafd that does not know what the log has after the rows does not leave it out. */
static void test_a_log_that_a_newer_leafd_wrote(void **state)
{
    const struct level_command next = {.to = LEVEL_NEWEST + 1, .wall_ms = 1};
    struct world *world = *state;
    struct store_error error = {""};
    struct buf bytes = BUF_INIT;
    struct store_entry entry = {.term = world->fresh.term, .type = 1};
    struct saved saved;

    cluster_command_put(&bytes, COMMAND_LEVEL, &next);
    session_stamp_put(&bytes, &(struct session_stamp){9, 1, 1, 1});
    entry.len = (uint32_t)bytes.len;
    entry.data = bytes.data;
    assert_int_equal(fresh_write(&world->fresh, &error), 0);
    append(world, &entry, 1);
    assert_int_equal(read_survivor(world->data, true, &saved, &error), ERR_NEWER);
    assert_non_null(strstr(error.text, "raises the cluster to level"));
    buf_free(&bytes);
}

static void test_nothing_is_written_over_anything(void **state)
{
    static const char *const names[] = {"db", "made", "notes"};
    struct world *world = *state;
    struct store_error error = {""};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[128];

        clear(world);
        ASSERT(mkdir(world->data, 0700) == 0);
        (void)snprintf(path, sizeof path, "%s/%s", world->data, names[i]);
        ASSERT(mkdir(path, 0700) == 0);
        assert_int_equal(fresh_check(world->data, &error), ERR_EXISTS);
        assert_non_null(strstr(error.text, names[i]));
    }
    clear(world);
    assert_int_equal(fresh_check(world->data, &error), 0);
    assert_int_equal(fresh_write(&world->fresh, &error), 0);
    assert_int_equal(fresh_write(&world->fresh, &error), ERR_EXISTS);
    assert_int_equal(found(world), 1);
}

/* Whatever is between: links, dots, directories that are to be made. */
static void test_the_source_stays_as_it_is(void **state)
{
    static const struct {
        const char *dir; /* below the test's */
        bool inside;
    } cases[] = {
        {"data", true},           {"data/new", true},   {"data/new/er/", true},
        {"data/db/new", true},    {"link/new", true},   {"other/../data/new", true},
        {"datum", false},         {"other/new", false}, {"data/../new", false},
        {"data/into/new", false}, /* a link out of it */
    };
    struct world *world = *state;
    struct store_error error = {""};
    char path[192];
    char other[96];

    assert_int_equal(fresh_write(&world->fresh, &error), 0);
    (void)snprintf(other, sizeof other, "%s/other", world->dir);
    ASSERT(mkdir(other, 0700) == 0);
    (void)snprintf(path, sizeof path, "%s/link", world->dir);
    ASSERT(symlink(world->data, path) == 0);
    (void)snprintf(path, sizeof path, "%s/into", world->data);
    ASSERT(symlink(other, path) == 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", world->dir, cases[i].dir);
        assert_int_equal(fresh_check_outside(path, world->data, &error),
                         cases[i].inside ? ERR_EXISTS : 0);
    }
    assert_int_equal(fresh_check_outside("not/there", world->data, &error), 0);
    (void)snprintf(path, sizeof path, "%s/link", world->dir);
    assert_int_equal(fresh_check_outside("/", path, &error), 0);
    ASSERT(unlink(path) == 0 && rmdir(other) == 0);
    (void)snprintf(path, sizeof path, "%s/into", world->data);
    ASSERT(unlink(path) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_kill_at_each_call_leaves_nothing_or_a_whole_store,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_term_that_cannot_be_does_not_come_along, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_a_survivor_is_compared_by_term_and_then_by_index,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_is_no_other_survivor, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_log_behind_the_rows, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_log_that_a_newer_leafd_wrote, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_source_stays_as_it_is, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nothing_is_written_over_anything, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
