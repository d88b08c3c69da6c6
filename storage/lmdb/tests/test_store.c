/*
 * test_store.c - the LMDB store around its data: the directory, the lock, whose data it is, a
 * first start that was cut short, a database that went missing, a map that is full.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/tests/unit/test.h"
#include "src/base/assert.h"
#include "src/base/hash.h"
#include "storage/lmdb/store.h"
#include "storage/tests/store_gen.h"
#include "storage/lmdb/tests/tmp_dir.h"

struct fixture {
    struct tmp_dir dir;
    char path[TMP_PATH_BYTES]; /* of the data directory: one that does not exist yet */
    struct store_lmdb_config config;
    struct store *store;
    bool made;
    struct store_error error;
};

static int setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);

    ASSERT(fixture != NULL);
    tmp_dir_make(&fixture->dir);
    (void)tmp_dir_path(&fixture->dir, "data", fixture->path);
    fixture->config =
        (struct store_lmdb_config){.dir = fixture->path,
                                   .map_bytes = 16 << 20,
                                   .identity = {.cluster_id = "one", .node_id = 2, .store_id = 7}};
    *state = fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;

    if (fixture->store != NULL) {
        fixture->store->ops->close(fixture->store);
    }
    tmp_dir_remove(&fixture->dir);
    free(fixture);
    return 0;
}

static int open_store(struct fixture *fixture)
{
    fixture->error.text[0] = '\0';
    return store_lmdb_open(&fixture->config, &fixture->store, &fixture->made, &fixture->error);
}

static void close_store(struct fixture *fixture)
{
    fixture->store->ops->close(fixture->store);
    fixture->store = NULL;
}

static void must_open(struct fixture *fixture, bool made)
{
    if (open_store(fixture) != 0) {
        fail_msg("open: %s", fixture->error.text);
    }
    assert_int_equal(fixture->made, made);
}

/* Opening must fail so, with a text that holds `text`; and leave nothing open. */
static void must_refuse(struct fixture *fixture, int err, const char *text)
{
    assert_int_equal(open_store(fixture), err);
    assert_null(fixture->store);
    if (strstr(fixture->error.text, text) == NULL) {
        fail_msg("the text is: %s", fixture->error.text);
    }
}

static void must_commit(struct fixture *fixture, struct store_op *op)
{
    if (gen_commit(fixture->store, op, &fixture->error) != 0) {
        fail_msg("commit: %s", fixture->error.text);
    }
}

static int no_row(void *data, const struct state_row *row)
{
    (void)row;
    return *(int *)data;
}

static void must_load(struct fixture *fixture, struct store_loaded *ret_loaded)
{
    int row_err = 0;

    if (fixture->store->ops->load(fixture->store, ret_loaded, no_row, &row_err, &fixture->error) !=
        0) {
        fail_msg("load: %s", fixture->error.text);
    }
}

static const char *in_data(struct fixture *fixture, const char *name, char path[TMP_PATH_BYTES])
{
    ASSERT(snprintf(path, TMP_PATH_BYTES, "%s/%s", fixture->path, name) < TMP_PATH_BYTES);
    return path;
}

static void test_store_lmdb_is_made_once(void **state)
{
    struct fixture *fixture = *state;
    struct store_loaded loaded;
    struct stat st;

    must_open(fixture, true);
    assert_int_equal(stat(fixture->path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    must_load(fixture, &loaded);
    assert_int_equal(loaded.first_index, 1);
    assert_int_equal(loaded.entry_count, 0);
    assert_int_equal(loaded.position.index, 0);
    store_loaded_release(&loaded);
    close_store(fixture);

    fixture->config.identity.store_id = 8; /* read from the store, not taken from the caller */
    must_open(fixture, false);
    must_load(fixture, &loaded);
    assert_int_equal(loaded.identity.store_id, 7);
    assert_int_equal(loaded.identity.node_id, 2);
    assert_string_equal(loaded.identity.cluster_id, "one");
    store_loaded_release(&loaded);
}

static void test_store_lmdb_belongs_to_one_node(void **state)
{
    struct fixture *fixture = *state;

    must_open(fixture, true);
    close_store(fixture);
    fixture->config.identity.node_id = 3;
    must_refuse(fixture, ERR_WRONG_NODE, "belongs to node 2 of cluster one, not to node 3");
    fixture->config.identity.node_id = 2;
    memcpy(fixture->config.identity.cluster_id, "two", 4);
    must_refuse(fixture, ERR_WRONG_NODE, "not to node 2 of cluster two");
    memcpy(fixture->config.identity.cluster_id, "one", 4);
    must_open(fixture, false);
}

static void test_store_lmdb_locks_its_directory(void **state)
{
    struct fixture *fixture = *state;
    struct store *other;
    char want[64];
    int status = 0;
    pid_t pid;

    must_open(fixture, true);
    (void)snprintf(want, sizeof want, "is in use by process %ld", (long)getpid());
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        bool made;
        int err = store_lmdb_open(&fixture->config, &other, &made, &fixture->error);

        _exit(err == ERR_LOCKED && strstr(fixture->error.text, want) != NULL ? 42 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 42);
    other = fixture->store;
    fixture->store = NULL;
    must_refuse(fixture, ERR_LOCKED, want); /* the same process is no exception */
    fixture->store = other;
    close_store(fixture);
    must_open(fixture, false);
}

static void test_store_lmdb_leaves_a_directory_of_others_alone(void **state)
{
    struct fixture *fixture = *state;
    char path[TMP_PATH_BYTES];

    assert_int_equal(mkdir(fixture->path, 0700), 0);
    file_write(in_data(fixture, "hosts", path), "theirs", 6);
    must_refuse(fixture, ERR_UNSAFE_DIRECTORY, "files that are not leafd's (hosts)");
    assert_int_equal(access(in_data(fixture, "lock", path), F_OK), -1);
    fixture->config.loose_mode = true; /* says nothing of whose it is */
    must_refuse(fixture, ERR_UNSAFE_DIRECTORY, "choose an empty directory");

    /* A `db` without our file in it is theirs, too. */
    assert_int_equal(unlink(in_data(fixture, "hosts", path)), 0);
    assert_int_equal(mkdir(in_data(fixture, "db", path), 0700), 0);
    must_refuse(fixture, ERR_UNSAFE_DIRECTORY, "(db)");
    assert_int_equal(rmdir(path), 0);

    /* What a file system of its own begins with is nobody's. Once the store is made, files beside
     * it are the operator's affair. */
    assert_int_equal(mkdir(in_data(fixture, "lost+found", path), 0700), 0);
    assert_int_equal(mkdir(in_data(fixture, ".snapshot", path), 0755), 0);
    assert_int_equal(mkdir(in_data(fixture, ".snapshots", path), 0755), 0);
    assert_int_equal(mkdir(in_data(fixture, ".zfs", path), 0755), 0);
    must_open(fixture, true);
    close_store(fixture);
    file_write(in_data(fixture, "notes", path), "ours", 4);
    must_open(fixture, false);
}

static void test_store_lmdb_refuses_a_mode_that_is_too_loose(void **state)
{
    static const mode_t loose[] = {0750, 0701, 0720, 02770, 0777};
    struct fixture *fixture = *state;
    char want[32];

    assert_int_equal(mkdir(fixture->path, 0700), 0);
    for (size_t i = 0; i < sizeof loose / sizeof loose[0]; i++) {
        assert_int_equal(chmod(fixture->path, loose[i]), 0);
        (void)snprintf(want, sizeof want, "has mode %04o", (unsigned)loose[i]);
        must_refuse(fixture, ERR_UNSAFE_DIRECTORY, want);
    }
    fixture->config.loose_mode = true;
    must_open(fixture, true);
    close_store(fixture);
    fixture->config.loose_mode = false; /* of one that was made, too */
    must_refuse(fixture, ERR_UNSAFE_DIRECTORY, "chmod 700");
    assert_int_equal(chmod(fixture->path, 0700), 0);
    must_open(fixture, false);
}

/* A name of ours that is a link, or anything else than we would have made, is refused before
 * anything is opened: whatever it points at stays as it was. */
static void test_store_lmdb_follows_no_links(void **state)
{
    static const char *const names[] = {"lock",   "made",        "made.new",   "db",
                                        "db.new", "db/data.mdb", "db/lock.mdb"};
    struct fixture *fixture = *state;
    char path[TMP_PATH_BYTES];
    char aside[TMP_PATH_BYTES + 8];

    must_open(fixture, true);
    close_store(fixture);
    (void)snprintf(aside, sizeof aside, "%s.aside", fixture->path);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        bool is_there = access(in_data(fixture, names[i], path), F_OK) == 0;

        assert_true(!is_there || rename(path, aside) == 0);
        assert_int_equal(symlink(is_there ? aside : "/dev/null", path), 0);
        must_refuse(fixture, ERR_UNSAFE_DIRECTORY, "is a symbolic link, not a ");
        assert_int_equal(unlink(path), 0);
        assert_int_equal(mkfifo(path, 0600), 0); /* and none is waited for */
        must_refuse(fixture, ERR_UNSAFE_DIRECTORY, "is something else, not a ");
        assert_int_equal(unlink(path), 0);
        assert_true(!is_there || rename(aside, path) == 0);
    }
    assert_int_equal(link(in_data(fixture, "lock", path), aside), 0);
    must_refuse(fixture, ERR_UNSAFE_DIRECTORY, "is also linked elsewhere");
    assert_int_equal(unlink(aside), 0);
    must_open(fixture, false);
}

/* Of another user: refused but in loose mode. Only root can try. */
static void test_store_lmdb_refuses_another_owner(void **state)
{
    struct fixture *fixture = *state;
    char path[TMP_PATH_BYTES];

    if (geteuid() != 0) {
        skip();
    }
    must_open(fixture, true);
    close_store(fixture);
    assert_int_equal(chown(fixture->path, 4711, 0), 0);
    must_refuse(fixture, ERR_UNSAFE_DIRECTORY, "belongs to user 4711, but leafd runs as user 0");
    assert_int_equal(chown(fixture->path, 0, 0), 0);
    assert_int_equal(chown(in_data(fixture, "db/data.mdb", path), 4711, 0), 0);
    must_refuse(fixture, ERR_UNSAFE_DIRECTORY, "data.mdb belongs to user 4711");
    fixture->config.loose_mode = true;
    must_open(fixture, false);
}

static void test_store_lmdb_notices_that_it_is_lost(void **state)
{
    struct fixture *fixture = *state;
    char path[TMP_PATH_BYTES];
    char aside[TMP_PATH_BYTES + 8];
    struct store_error error;

    must_open(fixture, true);
    assert_false(fixture->store->ops->lost(fixture->store, &error));
    (void)snprintf(aside, sizeof aside, "%s.aside", fixture->path);
    assert_int_equal(rename(fixture->path, aside), 0);
    assert_true(fixture->store->ops->lost(fixture->store, &error));
    assert_non_null(strstr(error.text, "/lock was deleted or moved away"));
    assert_int_equal(rename(aside, fixture->path), 0);
    assert_false(fixture->store->ops->lost(fixture->store, &error));
    /* Another in its place is not it. */
    assert_int_equal(rename(in_data(fixture, "db/data.mdb", path), aside), 0);
    file_write(path, "another", 7);
    assert_true(fixture->store->ops->lost(fixture->store, &error));
    assert_non_null(strstr(error.text, "/db/data.mdb was deleted"));
    assert_int_equal(rename(aside, path), 0);
    assert_false(fixture->store->ops->lost(fixture->store, &error));
}

static void test_store_lmdb_forgets_an_unfinished_start(void **state)
{
    struct fixture *fixture = *state;
    char path[TMP_PATH_BYTES];

    assert_int_equal(mkdir(fixture->path, 0700), 0);
    assert_int_equal(mkdir(in_data(fixture, "db.new", path), 0700), 0);
    file_write(in_data(fixture, "db.new/data.mdb", path), "half", 4);
    must_open(fixture, true);
    assert_int_equal(access(in_data(fixture, "db.new", path), F_OK), -1);
}

/* The crash between marker and rename: all is there but the name. */
static void test_store_lmdb_finishes_a_start(void **state)
{
    struct fixture *fixture = *state;
    struct store_loaded loaded;
    char from[TMP_PATH_BYTES];
    char to[TMP_PATH_BYTES];

    must_open(fixture, true);
    close_store(fixture);
    assert_int_equal(rename(in_data(fixture, "db", from), in_data(fixture, "db.new", to)), 0);
    fixture->config.identity.store_id = 99;
    must_open(fixture, true);
    must_load(fixture, &loaded);
    assert_int_equal(loaded.identity.store_id, 7);
    store_loaded_release(&loaded);
}

static void test_store_lmdb_misses_its_database(void **state)
{
    struct fixture *fixture = *state;
    char from[TMP_PATH_BYTES];
    char to[TMP_PATH_BYTES];

    must_open(fixture, true);
    close_store(fixture);
    assert_int_equal(rename(in_data(fixture, "db", from), in_data(fixture, "away", to)), 0);
    must_refuse(fixture, ERR_CORRUPT, "is missing from a directory that had one");
    must_refuse(fixture, ERR_CORRUPT, "is missing from a directory that had one");
    assert_int_equal(mkdir(from, 0700), 0);
    must_refuse(fixture, ERR_CORRUPT, "data.mdb is missing");
    assert_int_equal(rmdir(from), 0);
    assert_int_equal(rename(to, from), 0);
    must_open(fixture, false);
}

static void test_store_lmdb_checks_its_marker(void **state)
{
    struct fixture *fixture = *state;
    char path[TMP_PATH_BYTES];

    must_open(fixture, true);
    close_store(fixture);
    (void)in_data(fixture, "made", path);
    assert_int_equal(unlink(path), 0);
    must_open(fixture, false); /* written again */
    close_store(fixture);
    assert_int_equal(access(path, F_OK), 0);
    file_write(path, "leafd store 0000000000000008\n", 29);
    must_refuse(fixture, ERR_CORRUPT, "names store 0000000000000008");
    file_write(path, "", 0);
    must_refuse(fixture, ERR_CORRUPT, "is not the marker");
}

static void test_store_lmdb_needs_its_parent(void **state)
{
    struct fixture *fixture = *state;

    ASSERT(snprintf(fixture->path, sizeof fixture->path, "%s/no/where", fixture->dir.path) > 0);
    must_refuse(fixture, ERR_IO, "cannot make data directory");
}

static void test_store_lmdb_row_fn_ends_load(void **state)
{
    struct fixture *fixture = *state;
    struct store_loaded loaded;
    struct gen gen;
    int row_err = ERR_BAD_VERSION;

    gen_init(&gen, 3);
    must_open(fixture, true);
    must_commit(fixture, gen_hard_state(&gen, 1, 1));
    must_commit(fixture, gen_append(&gen, 1, 1));
    must_commit(fixture, gen_apply(&gen, 1, 3));
    assert_int_equal(
        fixture->store->ops->load(fixture->store, &loaded, no_row, &row_err, &fixture->error),
        ERR_BAD_VERSION);
    assert_non_null(strstr(fixture->error.text, "state record t"));
    gen_release(&gen);
}

/* A snapshot is a fixed view, whatever is installed meanwhile; no more than the limit are open. */
static void test_store_lmdb_snapshot_is_fixed(void **state)
{
    struct fixture *fixture = *state;
    struct store_snapshot *snapshots[LIMIT_STORE_SNAPSHOTS + 1];
    struct store_position position;
    struct buf rows = BUF_INIT;
    struct gen gen;
    uint64_t digest;
    bool end = false;

    gen_init(&gen, 4);
    must_open(fixture, true);
    must_commit(fixture, gen_hard_state(&gen, 1, 1));
    must_commit(fixture, gen_append(&gen, 1, 9));
    must_commit(fixture, gen_apply(&gen, 9, 60));
    digest = gen.position.digest;
    for (size_t i = 0; i < LIMIT_STORE_SNAPSHOTS; i++) {
        assert_int_equal(
            fixture->store->ops->snapshot_open(fixture->store, &snapshots[i], &position), 0);
    }
    assert_int_equal(fixture->store->ops->snapshot_open(
                         fixture->store, &snapshots[LIMIT_STORE_SNAPSHOTS], &position),
                     ERR_OVERLOADED);
    must_commit(fixture, gen_install(&gen, 20));
    must_commit(fixture, gen_append(&gen, 21, 9));
    while (!end) {
        size_t before = rows.len;

        assert_int_equal(
            fixture->store->ops->snapshot_read(fixture->store, snapshots[1], 700, &rows, &end), 0);
        assert_true(rows.len > before && rows.len - before <= 700);
    }
    assert_int_equal(position.index, 9);
    assert_int_equal(store_rows_check(rows.data, rows.len, digest, &fixture->error), 0);
    fixture->store->ops->snapshot_close(fixture->store, snapshots[0]);
    assert_int_equal(fixture->store->ops->snapshot_open(fixture->store, &snapshots[0], &position),
                     0);
    assert_int_equal(position.index, 20);
    buf_free(&rows);
    gen_release(&gen);
    /* closing the store closes the snapshots with it */
}

/* A snapshot that was closed holds nothing any more: LMDB has room for 126 readers, and could not
 * use pages again that one of them may still look at. */
static void test_store_lmdb_snapshots_end_with_their_close(void **state)
{
    struct fixture *fixture = *state;
    struct store_snapshot *snapshot;
    struct store_position position;
    struct store_space space;
    uint64_t used_before;
    struct gen gen;

    gen_init(&gen, 5);
    must_open(fixture, true);
    must_commit(fixture, gen_hard_state(&gen, 1, 1));
    must_commit(fixture, gen_append(&gen, 1, 9));
    must_commit(fixture, gen_apply(&gen, 9, 60));
    fixture->store->ops->space(fixture->store, &space);
    used_before = space.used_bytes;
    for (unsigned i = 0; i < 200; i++) {
        assert_int_equal(fixture->store->ops->snapshot_open(fixture->store, &snapshot, &position),
                         0);
        must_commit(fixture, gen_hard_state(&gen, 2 + i, 1));
        fixture->store->ops->snapshot_close(fixture->store, snapshot);
    }
    fixture->store->ops->space(fixture->store, &space);
    assert_in_range(space.used_bytes, used_before / 2, 2 * used_before);
    gen_release(&gen);
}

/* A node that has seen a term may vote in it later: that write changes the vote alone. */
static void test_store_lmdb_keeps_a_vote_in_a_term_that_it_had(void **state)
{
    struct fixture *fixture = *state;
    struct store_loaded loaded;
    struct gen gen;

    gen_init(&gen, 7);
    must_open(fixture, true);
    must_commit(fixture, gen_hard_state(&gen, 5, 0));
    must_commit(fixture, gen_hard_state(&gen, 5, 3));
    close_store(fixture);
    must_open(fixture, false);
    must_load(fixture, &loaded);
    assert_int_equal(loaded.term, 5);
    assert_int_equal(loaded.vote, 3);
    store_loaded_release(&loaded);
    gen_release(&gen);
}

/* A long compaction takes LIMIT_COMPACT_PER_COMMIT entries a commit; what is left when the store is
 * closed waits until it is asked for again. */
static void test_store_lmdb_compacts_in_chunks(void **state)
{
    struct fixture *fixture = *state;
    struct store_loaded loaded;
    struct gen gen;

    gen_init(&gen, 6);
    gen.max_entry_bytes = 16;
    must_open(fixture, true);
    must_commit(fixture, gen_hard_state(&gen, 1, 0));
    must_commit(fixture, gen_append(&gen, 1, 3 * LIMIT_COMPACT_PER_COMMIT));
    must_commit(fixture, gen_apply(&gen, gen.last, 1));
    must_commit(fixture, gen_compact(&gen, gen.last + 1));
    must_commit(fixture, gen_hard_state(&gen, 2, 0));
    for (unsigned i = 0; i < 2; i++) {
        must_load(fixture, &loaded);
        assert_int_equal(loaded.first_index, 1 + 2 * LIMIT_COMPACT_PER_COMMIT);
        assert_int_equal(loaded.entry_count, LIMIT_COMPACT_PER_COMMIT);
        store_loaded_release(&loaded);
        close_store(fixture);
        must_open(fixture, false);
        must_commit(fixture, gen_hard_state(&gen, 3 + i, 0));
    }
    must_commit(fixture, gen_compact(&gen, gen.last + 1));
    must_load(fixture, &loaded);
    assert_int_equal(loaded.first_index, 1 + 3 * LIMIT_COMPACT_PER_COMMIT);
    assert_int_equal(loaded.entry_count, 0);
    store_loaded_release(&loaded);
    gen_release(&gen);
}

/* The largest entry and the largest row. */
static void test_store_lmdb_takes_the_largest(void **state)
{
    static uint8_t data[LIMIT_ENTRY_BYTES];
    struct fixture *fixture = *state;
    struct store_op_list list = STAILQ_HEAD_INITIALIZER(list);
    struct store_entry entry = {.term = 1, .type = 2, .len = sizeof data, .data = data};
    struct state_row row = {data, LIMIT_ROW_KEY_BYTES, data + 1000, LIMIT_ROW_VALUE_BYTES};
    struct store_op vote = {.kind = STORE_HARD_STATE, .term = 1};
    struct store_op append = {
        .kind = STORE_APPEND, .index = 1, .entries = &entry, .entry_count = 1};
    struct store_op apply = {
        .kind = STORE_APPLY, .position = {.index = 1, .term = 1}, .rows = &row, .row_count = 1};
    struct store_loaded loaded;
    struct prng prng;

    prng_seed(&prng, 9);
    for (size_t i = 0; i < sizeof data; i++) {
        data[i] = (uint8_t)prng_next(&prng);
    }
    apply.position.digest = hash_row(row.key, row.key_len, row.value, row.value_len);
    fixture->config.map_bytes = 32 << 20;
    must_open(fixture, true);
    STAILQ_INSERT_TAIL(&list, &vote, link);
    STAILQ_INSERT_TAIL(&list, &append, link);
    STAILQ_INSERT_TAIL(&list, &apply, link);
    if (fixture->store->ops->commit(fixture->store, &list, &fixture->error) != 0) {
        fail_msg("commit: %s", fixture->error.text);
    }
    close_store(fixture);
    must_open(fixture, false);
    must_load(fixture, &loaded);
    assert_int_equal(loaded.entries[0].type, 2);
    assert_int_equal(loaded.entries[0].len, sizeof data);
    assert_memory_equal(loaded.entries[0].data, data, sizeof data);
    store_loaded_release(&loaded);
}

/* A full map: told before, refused without a trace, and over once the log is compacted. */
/* Shows P8-disk. */
static void test_store_lmdb_full_map(void **state)
{
    struct fixture *fixture = *state;
    struct store_space space;
    struct buf before = BUF_INIT;
    struct buf after = BUF_INIT;
    struct gen gen;
    bool low_first = false;
    int err = 0;

    fixture->config.map_bytes = 2 << 20;
    gen_init(&gen, 5);
    gen.max_entry_bytes = 16000;
    must_open(fixture, true);
    must_commit(fixture, gen_hard_state(&gen, 1, 1));
    fixture->store->ops->space(fixture->store, &space);
    assert_int_equal(space.map_bytes, 2 << 20);
    assert_false(space.low);
    while (err == 0) {
        uint64_t last = gen.last;

        fixture->store->ops->space(fixture->store, &space);
        low_first = low_first || space.low;
        err = gen_commit(fixture->store, gen_append(&gen, gen.last + 1, 3), &fixture->error);
        gen.last = err == 0 ? gen.last : last;
    }
    assert_int_equal(err, ERR_DISK_FULL);
    assert_true(low_first);
    assert_int_equal(gen_dump(fixture->store, &before, &fixture->error), 0);
    close_store(fixture);
    must_open(fixture, false);
    assert_int_equal(gen_dump(fixture->store, &after, &fixture->error), 0);
    assert_int_equal(before.len, after.len);
    assert_memory_equal(before.data, after.data, before.len);

    must_commit(fixture, gen_apply(&gen, gen.last, 1));
    must_commit(fixture, gen_compact(&gen, gen.last));
    must_commit(fixture, gen_hard_state(&gen, 2, 1));
    fixture->store->ops->space(fixture->store, &space);
    assert_false(space.low);
    must_commit(fixture, gen_append(&gen, gen.last + 1, 3));
    buf_free(&before);
    buf_free(&after);
    gen_release(&gen);
}

/* The bytes of format 6. A change of them needs a new format number. */
static void test_store_lmdb_golden_bytes(void **state)
{
    /* key, checksum, term, type, data */
    static const uint8_t entry[] = {0, 0, 0, 0, 0, 0, 0, 1, 0x0f, 0x21, 0x02, 0x92,
                                    3, 0, 0, 0, 0, 0, 0, 0, 1,    'a',  'b',  'c'};
    static const uint8_t row[] = {'t', 'n', 'a', 'm', 'e', 0x0b, 0x63, 0xd8, 0x56, 'v'};
    /* key, checksum; format, magic, cluster, node, store */
    static const uint8_t identity[] = {
        'i', 'd', 'e', 'n', 't', 'i', 't',  'y', 0xdb, 0x9a, 0xb7, 0xf9, 6, 0, 0,   0,   0x0b,
        0,   'l', 'e', 'a', 'f', 'd', 0x20, 's', 't',  'o',  'r',  'e',  3, 0, 'o', 'n', 'e',
        2,   0,   0,   0,   0,   0,   0,    0,   7,    0,    0,    0,    0, 0, 0,   0};
    /* key, checksum; transaction, term, vote; first and last index, last term; index, term and
     * configuration of the position, its digest, no configuration; local record 17's checksum */
    static const uint8_t now[] = {'n',  'o',  'w',  0x7d, 0xa9, 0x66, 0x32, 4, 0,    0, 0, 0, 0,
                                  0,    0,    3,    0,    0,    0,    0,    0, 0,    0, 2, 0, 0,
                                  0,    0,    0,    0,    0,    1,    0,    0, 0,    0, 0, 0, 0,
                                  1,    0,    0,    0,    0,    0,    0,    0, 3,    0, 0, 0, 0,
                                  0,    0,    0,    1,    0,    0,    0,    0, 0,    0, 0, 3, 0,
                                  0,    0,    0,    0,    0,    0,    0,    0, 0,    0, 0, 0, 0,
                                  0,    0x9f, 0xdd, 0x85, 0x6d, 0x3e, 0xf4, 3, 0x21, 0, 0, 0, 0,
                                  0x11, 0,    0x93, 0x5f, 0x3c, 0xa9};
    static const uint8_t local[] = {'l', 'o',  'c',  'a',  'l',  '.', '1',
                                    '7', 0x3d, 0xe0, 0xac, 0x1e, 'x'};
    const struct {
        const void *bytes;
        size_t len;
    } cases[] = {{identity, sizeof identity},
                 {now, sizeof now},
                 {local, sizeof local},
                 {entry, sizeof entry},
                 {row, sizeof row}};
    struct fixture *fixture = *state;
    struct store_op_list list = STAILQ_HEAD_INITIALIZER(list);
    struct store_entry first = {.term = 3, .type = 1, .len = 3, .data = "abc"};
    struct state_row name = {(const uint8_t *)"tname", 5, "v", 1};
    struct store_op vote = {.kind = STORE_HARD_STATE, .term = 3, .vote = 2};
    struct store_op append = {
        .kind = STORE_APPEND, .index = 1, .entries = &first, .entry_count = 1};
    struct store_op apply = {.kind = STORE_APPLY,
                             .position = {.index = 1, .term = 3, .digest = 0x2103f43e6d85dd9f},
                             .rows = &name,
                             .row_count = 1};
    struct store_op list_of_17 = {
        .kind = STORE_LOCAL, .local_key = 17, .local = "x", .local_len = 1};
    char path[TMP_PATH_BYTES];
    struct buf file = BUF_INIT;

    must_open(fixture, true);
    STAILQ_INSERT_TAIL(&list, &vote, link);
    STAILQ_INSERT_TAIL(&list, &append, link);
    STAILQ_INSERT_TAIL(&list, &apply, link);
    STAILQ_INSERT_TAIL(&list, &list_of_17, link);
    if (fixture->store->ops->commit(fixture->store, &list, &fixture->error) != 0) {
        fail_msg("commit: %s", fixture->error.text);
    }
    close_store(fixture);
    file_read(in_data(fixture, "db/data.mdb", path), &file);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (memmem(file.data, file.len, cases[i].bytes, cases[i].len) == NULL) {
            fail_msg("case %zu is not in the file", i);
        }
    }
    buf_free(&file);
}

/* --- opened to be read, or made with a content --- */

static void test_a_look_takes_anybodys_store_and_makes_none(void **state)
{
    struct fixture *fixture = *state;
    struct store_loaded loaded;
    struct stat st;

    fixture->config.use = STORE_LMDB_LOOK;
    must_refuse(fixture, ERR_NOT_FOUND, "there is no store");
    assert_int_not_equal(stat(fixture->path, &st), 0); /* and no directory was made */
    fixture->config.use = STORE_LMDB_NODE;
    must_open(fixture, true);
    fixture->config.use = STORE_LMDB_LOOK;
    fixture->config.identity = (struct store_identity){.node_id = 0};
    close_store(fixture);
    must_open(fixture, false);
    must_load(fixture, &loaded);
    assert_string_equal(loaded.identity.cluster_id, "one");
    assert_int_equal(loaded.identity.node_id, 2);
    store_loaded_release(&loaded);
}

/* A restore was stopped between the mark and the last rename: it is whole. */
static void test_a_look_finishes_a_start(void **state)
{
    struct fixture *fixture = *state;
    char from[TMP_PATH_BYTES];
    char to[TMP_PATH_BYTES];

    must_open(fixture, true);
    close_store(fixture);
    assert_int_equal(rename(in_data(fixture, "db", from), in_data(fixture, "db.new", to)), 0);
    fixture->config.use = STORE_LMDB_LOOK;
    must_open(fixture, true);
}

static void test_a_fresh_store_has_its_content_from_the_first_commit(void **state)
{
    struct fixture *fixture = *state;
    struct store_op_list first = STAILQ_HEAD_INITIALIZER(first);
    struct store_op term = {.kind = STORE_HARD_STATE, .term = 7};
    struct store_op local = {.kind = STORE_LOCAL, .local_key = 3, .local = "x", .local_len = 1};
    struct store_loaded loaded;

    STAILQ_INSERT_TAIL(&first, &term, link);
    STAILQ_INSERT_TAIL(&first, &local, link);
    fixture->config.use = STORE_LMDB_FRESH;
    fixture->config.first = &first;
    must_open(fixture, true);
    must_load(fixture, &loaded);
    assert_int_equal(loaded.term, 7);
    assert_int_equal(loaded.locals[3].len, 1);
    store_loaded_release(&loaded);
    close_store(fixture);
    must_refuse(fixture, ERR_EXISTS, "there is a store in");
    fixture->config.use = STORE_LMDB_NODE;
    fixture->config.first = NULL;
    must_open(fixture, false);
    must_load(fixture, &loaded);
    assert_int_equal(loaded.term, 7);
    store_loaded_release(&loaded);
}

/* An operation that does not fit: nothing is there afterwards. */
static void test_a_fresh_store_that_fails_is_none(void **state)
{
    struct fixture *fixture = *state;
    struct store_op_list first = STAILQ_HEAD_INITIALIZER(first);
    struct store_op gap = {.kind = STORE_COMPACT, .index = 9};

    STAILQ_INSERT_TAIL(&first, &gap, link);
    fixture->config.use = STORE_LMDB_FRESH;
    fixture->config.first = &first;
    must_refuse(fixture, ERR_CORRUPT, "compact");
    fixture->config.use = STORE_LMDB_LOOK;
    fixture->config.first = NULL;
    must_refuse(fixture, ERR_NOT_FOUND, "there is no store");
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_store_lmdb_is_made_once),
        TEST(test_store_lmdb_belongs_to_one_node),
        TEST(test_store_lmdb_locks_its_directory),
        TEST(test_store_lmdb_leaves_a_directory_of_others_alone),
        TEST(test_store_lmdb_refuses_a_mode_that_is_too_loose),
        TEST(test_store_lmdb_follows_no_links),
        TEST(test_store_lmdb_refuses_another_owner),
        TEST(test_store_lmdb_notices_that_it_is_lost),
        TEST(test_store_lmdb_forgets_an_unfinished_start),
        TEST(test_store_lmdb_finishes_a_start),
        TEST(test_a_look_finishes_a_start),
        TEST(test_store_lmdb_misses_its_database),
        TEST(test_store_lmdb_checks_its_marker),
        TEST(test_store_lmdb_needs_its_parent),
        TEST(test_store_lmdb_row_fn_ends_load),
        TEST(test_store_lmdb_snapshot_is_fixed),
        TEST(test_store_lmdb_snapshots_end_with_their_close),
        TEST(test_store_lmdb_keeps_a_vote_in_a_term_that_it_had),
        TEST(test_store_lmdb_compacts_in_chunks),
        TEST(test_store_lmdb_takes_the_largest),
        TEST(test_store_lmdb_full_map),
        TEST(test_store_lmdb_golden_bytes),
        cmocka_unit_test_setup_teardown(test_a_look_takes_anybodys_store_and_makes_none, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_a_fresh_store_has_its_content_from_the_first_commit,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_fresh_store_that_fails_is_none, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
