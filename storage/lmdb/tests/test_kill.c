/*
 * test_kill.c - kill -9 at any moment: a child writes through the writer and tells on a pipe
 * what was acknowledged; after the kill every acknowledged operation is there, whole, and nothing
 * is torn.
 *
 * All content follows from the index alone (entry i, its two rows, one that it deletes, its local
 * record), so the parent knows what must be there. The second test kills children within a first
 * start, at random times.
 *
 * Shows P1-kill. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "src/tests/unit/test.h"
#include "src/base/assert.h"
#include "src/base/hash.h"
#include "storage/disk.h"
#include "storage/lmdb/store.h"
#include "storage/lmdb/tests/tmp_dir.h"
#include "storage/tests/store_gen.h"

#define ROUNDS 40
#define START_ROUNDS 40
#define ROWS 50
#define LIVES 7  /* a row of its own lives for so many indexes, and is deleted then */
#define LOCALS 3 /* records that take turns */
#define LOCAL_FIRST (LIMIT_LOCAL_RECORDS - LOCALS)
#define LOCAL_BYTES 5000
#define WINDOW 64
#define VALUE_BYTES_MAX 700

/* --- content by index --- */

static size_t value_of(uint64_t index, uint8_t value[VALUE_BYTES_MAX])
{
    struct prng prng;
    size_t len;

    prng_seed(&prng, index);
    len = 1 + (size_t)prng_below(&prng, VALUE_BYTES_MAX);
    for (size_t i = 0; i < len; i++) {
        value[i] = (uint8_t)prng_next(&prng);
    }
    return len;
}

static size_t key_of(uint64_t index, char key[16])
{
    return (size_t)snprintf(key, 16, "t%02u", (unsigned)(index % ROWS));
}

/* The row that is put with an index and deleted LIVES later. */
static size_t mortal_key_of(uint64_t index, char key[16])
{
    return (size_t)snprintf(key, 16, "d%llu", (unsigned long long)index);
}

static uint64_t mortal_hash(uint64_t index)
{
    char key[16];

    return hash_row(key, mortal_key_of(index, key), "v", 1);
}

/* The local record of an index: the index itself, and bytes that follow from it. */
static void local_of(uint64_t index, uint8_t local[LOCAL_BYTES])
{
    struct prng prng;

    prng_seed(&prng, ~index);
    for (size_t i = 0; i < LOCAL_BYTES; i++) {
        local[i] = (uint8_t)((i < 8 ? index >> (8 * i) : prng_next(&prng)) & 0xff);
    }
}

static uint64_t row_hash(uint64_t index)
{
    uint8_t value[VALUE_BYTES_MAX];
    char key[16];
    size_t len = value_of(index, value);

    return index == 0 ? 0 : hash_row(key, key_of(index, key), value, len);
}

/* The digest of the rows once `index` is applied, from the one before. */
static uint64_t digest_after(uint64_t digest, uint64_t index)
{
    digest += row_hash(index) - (index > ROWS ? row_hash(index - ROWS) : 0);
    return digest + mortal_hash(index) - (index > LIVES ? mortal_hash(index - LIVES) : 0);
}

/* --- the child --- */

/* Entry, rows and local record of one index: operations that go in one after the other. */
struct step {
    struct store_op hard;
    struct store_op append;
    struct store_op apply;
    struct store_op compact;
    struct store_op local;
    struct store_entry entry;
    struct state_row rows[3];
    uint8_t value[VALUE_BYTES_MAX];
    uint8_t local_bytes[LOCAL_BYTES];
    char keys[3][16];
};

struct child {
    struct step steps[WINDOW];
    struct writer *writer;
    struct disk *disk;
    uint64_t digest;
    uint64_t submitted;
    uint64_t done;
    int acks;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool notified; /* guarded by mutex */
};

static void notify_cb(void *data)
{
    struct child *child = data;

    ASSERT(pthread_mutex_lock(&child->mutex) == 0);
    child->notified = true;
    ASSERT(pthread_cond_signal(&child->changed) == 0);
    ASSERT(pthread_mutex_unlock(&child->mutex) == 0);
}

static void failed_cb(void *data, int err, const struct store_error *error)
{
    (void)data;
    (void)err;
    (void)fprintf(stderr, "commit failed: %s\n", error->text);
    _exit(3);
}

static void nothing_done(struct store_op *op)
{
    (void)op;
}

/* The last operation of an index is durable: acknowledge it. */
static void local_done(struct store_op *op)
{
    struct child *child = op->data;

    child->done++;
    ASSERT(op->local_key == LOCAL_FIRST + child->done % LOCALS);
    ASSERT(write(child->acks, &child->done, sizeof child->done) == sizeof child->done);
}

/* A row that replaces one, a new one, and the end of an old one. */
static void fill_rows(struct step *step, uint64_t index, size_t len)
{
    step->rows[0] =
        (struct state_row){(const uint8_t *)step->keys[0], (uint32_t)key_of(index, step->keys[0]),
                           step->value, (uint32_t)len};
    step->rows[1] = (struct state_row){(const uint8_t *)step->keys[1],
                                       (uint32_t)mortal_key_of(index, step->keys[1]), "v", 1};
    if (index > LIVES) {
        step->rows[2] =
            (struct state_row){(const uint8_t *)step->keys[2],
                               (uint32_t)mortal_key_of(index - LIVES, step->keys[2]), NULL, 0};
    }
}

static void submit_step(struct child *child)
{
    uint64_t index = ++child->submitted;
    struct step *step = &child->steps[index % WINDOW];
    uint64_t term = 1 + index / 20;
    size_t len = value_of(index, step->value);

    child->digest = digest_after(child->digest, index);
    memset(&step->hard, 0, sizeof step->hard);
    step->hard = (struct store_op){.kind = STORE_HARD_STATE, .term = term, .vote = 1};
    step->entry = (struct store_entry){term, 1, (uint32_t)len, step->value};
    step->append = (struct store_op){
        .kind = STORE_APPEND, .index = index, .entries = &step->entry, .entry_count = 1};
    fill_rows(step, index, len);
    step->apply =
        (struct store_op){.kind = STORE_APPLY,
                          .position = {.index = index, .term = term, .digest = child->digest},
                          .rows = step->rows,
                          .row_count = index > LIVES ? 3 : 2};
    local_of(index, step->local_bytes);
    step->local = (struct store_op){.kind = STORE_LOCAL,
                                    .local_key = (uint32_t)(LOCAL_FIRST + index % LOCALS),
                                    .local = step->local_bytes,
                                    .local_len = LOCAL_BYTES};
    step->compact =
        (struct store_op){.kind = STORE_COMPACT, .index = index > 200 ? index - 200 : 1};
    step->hard.done = step->append.done = step->compact.done = step->apply.done = nothing_done;
    step->local.done = local_done;
    step->local.data = child;
    child->disk->ops->submit(child->disk, &step->hard);
    child->disk->ops->submit(child->disk, &step->append);
    child->disk->ops->submit(child->disk, &step->compact);
    child->disk->ops->submit(child->disk, &step->apply);
    child->disk->ops->submit(child->disk, &step->local);
}

static int no_row(void *data, const struct state_row *row)
{
    (void)data;
    (void)row;
    return 0;
}

static struct store *open_store(const struct store_lmdb_config *config, struct store_loaded *loaded)
{
    struct store_error error = {""};
    struct store *store = NULL;
    bool made;

    if (store_lmdb_open(config, &store, &made, &error) != 0 ||
        store->ops->load(store, loaded, no_row, NULL, &error) != 0) {
        (void)fprintf(stderr, "open or load: %s\n", error.text);
        return NULL;
    }
    return store;
}

/* Go on from where the store stands until the kill. */
_Noreturn static void child_run(const struct store_lmdb_config *config, int acks)
{
    static struct child child;
    const struct writer_config writer_config = {
        .notify = notify_cb, .failed = failed_cb, .data = &child};
    struct store_loaded loaded;
    struct store *store = open_store(config, &loaded);

    if (store == NULL) {
        _exit(2);
    }
    ASSERT(pthread_mutex_init(&child.mutex, NULL) == 0);
    ASSERT(pthread_cond_init(&child.changed, NULL) == 0);
    child.acks = acks;
    child.submitted = child.done = loaded.position.index;
    child.digest = loaded.position.digest;
    ASSERT(writer_start(store, &writer_config, &child.writer) == 0);
    child.disk = writer_disk(child.writer);
    for (;;) {
        while (child.submitted - child.done < WINDOW) {
            submit_step(&child);
        }
        ASSERT(pthread_mutex_lock(&child.mutex) == 0);
        while (!child.notified) {
            ASSERT(pthread_cond_wait(&child.changed, &child.mutex) == 0);
        }
        child.notified = false;
        ASSERT(pthread_mutex_unlock(&child.mutex) == 0);
        (void)writer_complete(child.writer);
    }
}

/* --- the parent --- */

/* Start a child, take a random number of acknowledgements, kill it, and take what was still on the
 * way. Returns the last index acknowledged. */
static uint64_t run_and_kill(const struct store_lmdb_config *config, struct prng *prng)
{
    uint64_t want = 1 + prng_below(prng, 250);
    uint64_t last = 0;
    uint64_t index;
    int status = 0;
    int fds[2];
    pid_t pid;

    assert_int_equal(pipe(fds), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)close(fds[0]);
        child_run(config, fds[1]);
    }
    (void)close(fds[1]);
    while (read(fds[0], &index, sizeof index) == sizeof index) {
        last = index;
        if (want > 0 && --want == 0) {
            assert_int_equal(kill(pid, SIGKILL), 0);
        }
    }
    (void)close(fds[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    return last;
}

static int check_row(void *data, const struct state_row *row)
{
    uint64_t applied = *(const uint64_t *)data;

    for (uint64_t index = applied; index > 0 && index + ROWS > applied; index--) {
        uint8_t value[VALUE_BYTES_MAX];
        char key[16];

        if (index + LIVES > applied && row->key_len == mortal_key_of(index, key) &&
            memcmp(row->key, key, row->key_len) == 0) {
            return row->value_len == 1 && memcmp(row->value, "v", 1) == 0 ? 0 : ERR_CONFLICT;
        }
        if (row->key_len == key_of(index, key) && memcmp(row->key, key, row->key_len) == 0) {
            size_t len = value_of(index, value);

            return row->value_len == len && memcmp(row->value, value, len) == 0 ? 0 : ERR_CONFLICT;
        }
    }
    return ERR_NOT_FOUND;
}

/* Each local record is one of its turn: not before what was acknowledged, nor beyond what was
 * applied. */
static void check_locals(const struct store_loaded *loaded, uint64_t acked)
{
    for (unsigned k = 0; k < LOCALS; k++) {
        const struct buf *found = &loaded->locals[LOCAL_FIRST + k];
        uint64_t back = (acked + LOCALS - k) % LOCALS; /* to the last of this turn */
        uint8_t want[LOCAL_BYTES];
        uint64_t index = 0;

        if (acked < LOCALS && found->len == 0) {
            continue;
        }
        assert_int_equal(found->len, LOCAL_BYTES);
        for (unsigned i = 0; i < 8; i++) {
            index |= (uint64_t)found->data[i] << (8 * i);
        }
        assert_int_equal(index % LOCALS, k);
        assert_in_range(index, acked > back ? acked - back : 1, loaded->position.index);
        local_of(index, want);
        assert_memory_equal(found->data, want, LOCAL_BYTES);
    }
}

/* Open what the kill left: verified by load(), and with exactly the content its indexes stand for.
 */
static void check_after_kill(const struct store_lmdb_config *config, uint64_t acked)
{
    struct store_loaded loaded;
    struct store_error error;
    struct store *store = open_store(config, &loaded);
    uint64_t digest = 0;
    uint64_t applied;

    assert_non_null(store);
    applied = loaded.position.index;
    if (applied < acked || applied >= acked + WINDOW + 1) {
        fail_msg("acknowledged %llu, found %llu", (unsigned long long)acked,
                 (unsigned long long)applied);
    }
    assert_int_equal(loaded.first_index + loaded.entry_count > applied, true);
    for (size_t i = 0; i < loaded.entry_count; i++) {
        uint8_t value[VALUE_BYTES_MAX];
        uint64_t index = loaded.first_index + i;

        assert_int_equal(loaded.entries[i].term, 1 + index / 20);
        assert_int_equal(loaded.entries[i].len, value_of(index, value));
        assert_memory_equal(loaded.entries[i].data, value, loaded.entries[i].len);
    }
    for (uint64_t i = applied > ROWS ? applied - ROWS + 1 : 1; i <= applied; i++) {
        digest += row_hash(i);
    }
    for (uint64_t i = applied > LIVES ? applied - LIVES + 1 : 1; i <= applied; i++) {
        digest += mortal_hash(i);
    }
    check_locals(&loaded, acked);
    assert_int_equal(loaded.position.digest, digest);
    store_loaded_release(&loaded);
    if (store->ops->load(store, &loaded, check_row, &applied, &error) != 0) {
        fail_msg("rows: %s", error.text);
    }
    store_loaded_release(&loaded);
    store->ops->close(store);
}

/* Shows P5-kill. */
static void test_kill_loses_nothing_acknowledged(void **state)
{
    struct store_lmdb_config config = {
        .map_bytes = 64 << 20, .identity = {.cluster_id = "k", .node_id = 1, .store_id = 1}};
    struct tmp_dir dir;
    struct prng prng;
    uint64_t acked = 0;

    (void)state;
    prng_seed(&prng, 40);
    tmp_dir_make(&dir);
    config.dir = dir.path;
    for (unsigned round = 0; round < ROUNDS; round++) {
        uint64_t last = run_and_kill(&config, &prng);

        assert_true(last > acked);
        check_after_kill(&config, last);
        acked = last;
    }
    print_message("%u kills, %llu operations acknowledged\n", ROUNDS, (unsigned long long)acked);
    tmp_dir_remove(&dir);
}

/* Whenever a first start is cut short, the next one succeeds and finds an empty store. */
/* Shows lesson-fsync. */
static void test_kill_within_a_first_start(void **state)
{
    struct store_lmdb_config config = {
        .map_bytes = 1 << 20, .identity = {.cluster_id = "k", .node_id = 1, .store_id = 1}};
    struct prng prng;

    (void)state;
    prng_seed(&prng, 41);
    for (unsigned round = 0; round < START_ROUNDS; round++) {
        const struct timespec pause = {.tv_nsec = (long)prng_below(&prng, 6000000)};
        struct store_loaded loaded;
        struct store *store;
        struct tmp_dir dir;
        int status;
        pid_t pid;

        tmp_dir_make(&dir);
        config.dir = dir.path;
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            _exit(open_store(&config, &loaded) != NULL ? 0 : 2);
        }
        (void)nanosleep(&pause, NULL); /* the moment of the kill is what is drawn */
        assert_int_equal(kill(pid, SIGKILL), 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        store = open_store(&config, &loaded);
        assert_non_null(store);
        assert_int_equal(loaded.entry_count, 0);
        assert_int_equal(loaded.identity.store_id, 1);
        store_loaded_release(&loaded);
        store->ops->close(store);
        tmp_dir_remove(&dir);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kill_loses_nothing_acknowledged),
        cmocka_unit_test(test_kill_within_a_first_start),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
