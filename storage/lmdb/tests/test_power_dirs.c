/*
 * test_power_dirs.c - power loss and directories: what was made or renamed is there under its
 * name for certain once its directory was synced, and not before; nor is what was written into it.
 * Whatever the disk kept, the next start finds a whole store; and once a start
 * has succeeded, it finds that very store with all that was acknowledged, not a new one.
 *
 * The data directory is made below a directory of the test's own. This program's mkdir(), rename(),
 * remove(), writes and syncs stand before libc's: around each of them it looks at the tree as it is
 * and keeps, for every directory, its entries as of its last sync and all states since, and for
 * every file its content as of its last sync. A disk after a power loss is made of any of these, by
 * a seed, and opened. Changes of one directory stay in their order; of two directories either may
 * come first.
 *
 * The second test has each of these calls fail once, as a process that is killed there would leave
 * it, starts again, and then loses the power: the second start must not take for durable what it
 * finds. The third lets syncs of directories do nothing, and must see the loss.
 *
 * test_power.c has the same for the writes within the data file. Thread: one.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "src/tests/unit/test.h"
#include "src/base/assert.h"
#include "storage/lmdb/store.h"
#include "storage/tests/store_mem.h"
#include "storage/tests/store_gen.h"
#include "storage/lmdb/tests/tmp_dir.h"

#define SEEDS 6
#define COMMITS 4
#define CALLS_MAX 200 /* of a first start; there are fewer */
#define NODES_MAX 32
#define ENTRIES_MAX 8
#define STATES_MAX 64
#define NAME_BYTES 16
#define SECTOR_BYTES 512
#define IMAGE_PERCENT 40 /* of the moments */

struct entry {
    char name[NAME_BYTES];
    unsigned node; /* index of it */
};

/* What a directory has in it, by name. */
struct listing {
    struct entry entries[ENTRIES_MAX];
    unsigned count;
};

/* A file or directory that there is, or was. */
struct node {
    ino_t inode;
    bool removed; /* its number may be another's by now */
    bool is_dir;
    struct listing states[STATES_MAX]; /* of a directory: as of its last sync, then all since */
    unsigned state_count;
    struct buf durable;        /* of a file: as of its last sync */
    char path[TMP_PATH_BYTES]; /* where it was seen last */
};

enum kept { KEPT_NOTHING, KEPT_ALL, KEPT_SOME }; /* of what was not synced */

static struct {
    bool on;
    pid_t pid; /* not in the child that checks the data */
    bool ignore_dir_syncs;
    unsigned calls;
    unsigned fail_at; /* this one fails; 0: none */
    char root[TMP_PATH_BYTES];
    struct node nodes[NODES_MAX];
    unsigned node_count;
    struct prng prng;
    void (*moment)(void);
} disk;

struct world {
    struct tmp_dir dir;
    struct tmp_dir after; /* where images are opened */
    char data[TMP_PATH_BYTES];
    struct store *store;
    struct store *mem; /* the same operations, for the content that must be found */
    struct gen gen;
    bool started;      /* a start has succeeded */
    struct buf before; /* content as of the last acknowledged commit */
    struct buf now;    /* and with the one under way */
    unsigned images;
    unsigned lost;
};

static struct world *world; /* of the test that runs */

/* --- what the disk may hold --- */

static struct node *node_of(ino_t inode)
{
    for (unsigned i = 0; i < disk.node_count; i++) {
        if (disk.nodes[i].inode == inode && !disk.nodes[i].removed) {
            return &disk.nodes[i];
        }
    }
    return NULL;
}

/* A new one is an empty file or directory: nothing of it was synced. */
static struct node *node_make(const char *path)
{
    struct node *node;
    struct stat st;

    ASSERT(lstat(path, &st) == 0);
    node = node_of(st.st_ino);
    if (node == NULL) {
        ASSERT(disk.node_count < NODES_MAX);
        node = &disk.nodes[disk.node_count++];
        *node = (struct node){.inode = st.st_ino, .is_dir = S_ISDIR(st.st_mode), .state_count = 1};
    }
    ASSERT(node->is_dir == S_ISDIR(st.st_mode));
    (void)snprintf(node->path, sizeof node->path, "%s", path);
    return node;
}

static int compare_entries(const void *a, const void *b)
{
    return strcmp(((const struct entry *)a)->name, ((const struct entry *)b)->name);
}

static void list(const char *path, struct listing *ret_listing)
{
    DIR *dir = opendir(path);
    struct dirent *found;

    memset(ret_listing, 0, sizeof *ret_listing);
    ASSERT(dir != NULL);
    while ((found = readdir(dir)) != NULL) {
        struct entry *entry = &ret_listing->entries[ret_listing->count];

        if (strcmp(found->d_name, ".") != 0 && strcmp(found->d_name, "..") != 0) {
            ASSERT(ret_listing->count < ENTRIES_MAX && strlen(found->d_name) < NAME_BYTES);
            memcpy(entry->name, found->d_name, strlen(found->d_name));
            ret_listing->count++;
        }
    }
    ASSERT(closedir(dir) == 0);
    qsort(ret_listing->entries, ret_listing->count, sizeof ret_listing->entries[0],
          compare_entries);
}

/* Look at a directory and all below it, and note what is new. */
static void observe(struct node *node)
{
    struct listing now;

    list(node->path, &now);
    for (unsigned i = 0; i < now.count; i++) {
        char path[TMP_PATH_BYTES];
        struct node *below;

        ASSERT(snprintf(path, sizeof path, "%s/%s", node->path, now.entries[i].name) <
               TMP_PATH_BYTES);
        below = node_make(path);
        now.entries[i].node = (unsigned)(below - disk.nodes);
        if (below->is_dir) {
            observe(below);
        }
    }
    if (memcmp(&now, &node->states[node->state_count - 1], sizeof now) != 0) {
        ASSERT(node->state_count < STATES_MAX);
        node->states[node->state_count++] = now;
    }
}

static void observe_all(void)
{
    observe(node_make(disk.root)); /* the first of all nodes */
}

static void node_sync(struct node *node)
{
    if (!node->is_dir) {
        buf_free(&node->durable);
        file_read(node->path, &node->durable);
    } else if (!disk.ignore_dir_syncs) {
        node->states[0] = node->states[node->state_count - 1];
        node->state_count = 1;
    }
}

/* --- a disk after a power loss --- */

static void image_file(const struct node *node, enum kept kept, const char *to)
{
    struct buf content = BUF_INIT;
    struct buf now = BUF_INIT;

    buf_put(&content, node->durable.data, node->durable.len);
    if (kept != KEPT_NOTHING && !node->removed) {
        file_read(node->path, &now);
    }
    for (size_t at = 0; at < now.len; at += SECTOR_BYTES) {
        size_t len = now.len - at < SECTOR_BYTES ? now.len - at : SECTOR_BYTES;

        if (kept == KEPT_ALL || prng_below(&disk.prng, 2) == 0) {
            file_put(&content, at, now.data + at, len);
        }
    }
    file_write(to, content.data, content.len);
    buf_free(&content);
    buf_free(&now);
}

static void image_dir(const struct node *node, enum kept kept, const char *to)
{
    unsigned last = node->state_count - 1;
    unsigned state = kept == KEPT_NOTHING ? 0 : last;
    const struct listing *listing;

    if (kept == KEPT_SOME) {
        state = (unsigned)prng_below(&disk.prng, node->state_count);
    }
    listing = &node->states[state];
    for (unsigned i = 0; i < listing->count; i++) {
        const struct node *below = &disk.nodes[listing->entries[i].node];
        char path[TMP_PATH_BYTES];

        ASSERT(snprintf(path, sizeof path, "%s/%s", to, listing->entries[i].name) < TMP_PATH_BYTES);
        if (below->is_dir) {
            ASSERT(syscall(SYS_mkdirat, AT_FDCWD, path, 0700) == 0);
            image_dir(below, kept, path);
        } else {
            image_file(below, kept, path);
        }
    }
}

/* Start on such a disk. What is wrong, or NULL. */
static const char *start_on(const char *data, char text[400])
{
    struct store_lmdb_config config = {
        .dir = data,
        .map_bytes = 1 << 20,
        .identity = {.cluster_id = "power", .node_id = 1, .store_id = 2}};
    struct store_error error = {""};
    struct buf found = BUF_INIT;
    const char *wrong = NULL;
    struct store *store;
    bool made;

    if (store_lmdb_open(&config, &store, &made, &error) != 0) {
        (void)snprintf(text, 400, "it does not start: %s", error.text);
        return text;
    }
    if (gen_dump(store, &found, &error) != 0) {
        (void)snprintf(text, 400, "it does not load: %s", error.text);
        wrong = text;
    } else if (world->started && made) {
        wrong = "it was made anew after a start that had succeeded";
    } else if (!gen_same(&found, &world->before) && !gen_same(&found, &world->now)) {
        wrong = "other content than any that was committed";
    }
    store->ops->close(store);
    buf_free(&found);
    return wrong;
}

static void lose_power(enum kept kept)
{
    char data[TMP_PATH_BYTES];
    char text[400];
    const char *wrong;
    bool on = disk.on;

    disk.on = false;
    tmp_dir_remove(&world->after);
    tmp_dir_make(&world->after);
    image_dir(&disk.nodes[0], kept, world->after.path);
    wrong = start_on(tmp_dir_path(&world->after, "data", data), text);
    world->images++;
    world->lost += wrong != NULL;
    if (wrong != NULL && !disk.ignore_dir_syncs) {
        fail_msg("power lost at call %u (call %u had failed), %s kept: %s", disk.calls,
                 disk.fail_at,
                 kept == KEPT_NOTHING ? "nothing" : (kept == KEPT_ALL ? "all" : "some"), wrong);
    }
    disk.on = on;
}

static void any_moment(void)
{
    if (prng_below(&disk.prng, 100) < IMAGE_PERCENT) {
        lose_power((enum kept)prng_below(&disk.prng, 3));
    }
}

/* --- in libc's place --- */

/* Before a call that changes the disk. True: it is to fail. */
static bool strikes(void)
{
    observe_all();
    if (disk.moment != NULL) {
        disk.moment();
    }
    errno = EIO;
    return ++disk.calls == disk.fail_at;
}

static bool path_is_ours(const char *path)
{
    return disk.on && disk.pid == getpid() && strncmp(path, disk.root, strlen(disk.root)) == 0;
}

static struct node *fd_node(int fd)
{
    struct stat st;

    if (!disk.on || disk.pid != getpid() || fstat(fd, &st) != 0 ||
        !(S_ISREG(st.st_mode) || S_ISDIR(st.st_mode))) {
        return NULL;
    }
    observe_all();
    return node_of(st.st_ino);
}

int mkdir(const char *path, mode_t mode)
{
    return path_is_ours(path) && strikes() ? -1 : (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}

int rename(const char *from, const char *to)
{
    return path_is_ours(from) && strikes()
               ? -1
               : (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int remove(const char *path)
{
    struct stat st;

    if (path_is_ours(path) && strikes()) {
        return -1;
    }
    if (lstat(path, &st) != 0) {
        return -1;
    }
    if (path_is_ours(path)) {
        node_of(st.st_ino)->removed = true;
    }
    return (int)syscall(SYS_unlinkat, AT_FDCWD, path, S_ISDIR(st.st_mode) ? AT_REMOVEDIR : 0);
}

static int sync_of(int fd, long number)
{
    struct node *node = fd_node(fd);

    if (node != NULL && strikes()) {
        return -1;
    }
    if (node != NULL) {
        node_sync(node);
    }
    /* The disk under the test need not be waited for. */
    return disk.pid == getpid() ? 0 : (int)syscall(number, fd);
}

int fsync(int fd)
{
    return sync_of(fd, SYS_fsync);
}

int fdatasync(int fd)
{
    return sync_of(fd, SYS_fdatasync);
}

ssize_t pwrite(int fd, const void *data, size_t len, off_t at)
{
    struct node *node = fd_node(fd);

    if (node != NULL && strikes()) {
        return -1;
    }
    if (node != NULL && (fcntl(fd, F_GETFL) & O_DSYNC) != 0) {
        /* Past the cache, as LMDB writes its meta pages. */
        file_put(&node->durable, (size_t)at, data, len);
    }
    return syscall(SYS_pwrite64, fd, data, len, at);
}

ssize_t writev(int fd, const struct iovec *parts, int count)
{
    return fd_node(fd) != NULL && strikes() ? -1 : syscall(SYS_writev, fd, parts, count);
}

ssize_t write(int fd, const void *data, size_t len)
{
    return fd_node(fd) != NULL && strikes() ? -1 : syscall(SYS_write, fd, data, len);
}

/* --- the tests --- */

static void world_make(uint64_t seed, bool ignore_dir_syncs)
{
    struct store_identity identity = {.cluster_id = "power", .node_id = 1, .store_id = 1};

    world = calloc(1, sizeof *world);
    ASSERT(world != NULL);
    tmp_dir_make(&world->dir);
    tmp_dir_make(&world->after);
    (void)tmp_dir_path(&world->dir, "data", world->data);
    world->mem = store_mem_new(&identity);
    gen_init(&world->gen, seed);
    gen_must_dump(world->mem, &world->before);
    buf_put(&world->now, world->before.data, world->before.len);
    memset(&disk, 0, sizeof disk);
    (void)snprintf(disk.root, sizeof disk.root, "%s", world->dir.path);
    disk.pid = getpid();
    disk.ignore_dir_syncs = ignore_dir_syncs;
    prng_seed(&disk.prng, seed);
    observe_all();
    disk.on = true;
}

static void world_release(void)
{
    disk.on = false;
    for (unsigned i = 0; i < disk.node_count; i++) {
        buf_free(&disk.nodes[i].durable);
    }
    if (world->store != NULL) {
        world->store->ops->close(world->store);
    }
    store_mem_free(world->mem);
    gen_release(&world->gen);
    buf_free(&world->before);
    buf_free(&world->now);
    tmp_dir_remove(&world->dir);
    tmp_dir_remove(&world->after);
    free(world);
}

static int try_start(struct store_error *ret_error)
{
    struct store_lmdb_config config = {
        .dir = world->data,
        .map_bytes = 1 << 20,
        .identity = {.cluster_id = "power", .node_id = 1, .store_id = 1}};
    bool made;
    int err = store_lmdb_open(&config, &world->store, &made, ret_error);

    world->started = world->started || err == 0;
    return err;
}

static void start(void)
{
    struct store_error error = {""};

    if (try_start(&error) != 0) {
        fail_msg("start, with call %u failed before: %s", disk.fail_at, error.text);
    }
}

static void commit_one(void)
{
    struct store_op_list list = STAILQ_HEAD_INITIALIZER(list);
    struct store_op *op = gen_any(&world->gen);
    struct store_error error = {""};

    STAILQ_INSERT_TAIL(&list, op, link);
    assert_int_equal(world->mem->ops->commit(world->mem, &list, &error), 0);
    gen_must_dump(world->mem, &world->now);
    if (world->store->ops->commit(world->store, &list, &error) != 0) {
        fail_msg("commit: %s", error.text);
    }
    world->before.len = 0; /* it was acknowledged */
    buf_put(&world->before, world->now.data, world->now.len);
    gen_op_free(op);
}

/* A first start, some commits, a second start: power is lost around any call. */
static void run_incarnation(void)
{
    disk.moment = any_moment;
    for (unsigned incarnation = 0; incarnation < 2; incarnation++) {
        start();
        lose_power(KEPT_NOTHING);
        lose_power(KEPT_SOME);
        for (unsigned i = 0; i < COMMITS; i++) {
            commit_one();
        }
        lose_power(KEPT_NOTHING);
        world->store->ops->close(world->store);
        world->store = NULL;
    }
}

/* Shows P1-power. */
static void test_power_loss_keeps_what_was_made_and_renamed(void **state)
{
    unsigned images = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        world_make(seed, false);
        run_incarnation();
        images += world->images;
        world_release();
    }
    print_message("%u losses of power\n", images);
    assert_true(images > SEEDS * 20);
}

/* Shows P1-power. */
static void test_power_loss_after_a_start_that_was_cut_short(void **state)
{
    unsigned cut_short = 0;
    unsigned call;

    (void)state;
    for (call = 1; call <= CALLS_MAX; call++) {
        struct store_error error = {""};
        bool over;

        world_make(call, false);
        disk.fail_at = call;
        if (try_start(&error) != 0) {
            cut_short++;
            start();
        }
        over = disk.calls < call;
        disk.fail_at = over ? 0 : disk.fail_at;
        lose_power(KEPT_NOTHING);
        lose_power(KEPT_SOME);
        commit_one();
        lose_power(KEPT_NOTHING);
        world_release();
        if (over) {
            break;
        }
    }
    print_message("%u starts cut short by one of %u calls\n", cut_short, call - 1);
    assert_in_range(cut_short, 12, CALLS_MAX - 1);
}

/* The test's own proof: a disk that forgets names loses stores. */
static void test_power_loss_is_seen_without_syncs_of_directories(void **state)
{
    (void)state;
    world_make(3, true);
    run_incarnation();
    print_message("%u of %u losses of power lost the store\n", world->lost, world->images);
    assert_true(world->lost > 5);
    world_release();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_power_loss_keeps_what_was_made_and_renamed),
        cmocka_unit_test(test_power_loss_after_a_start_that_was_cut_short),
        cmocka_unit_test(test_power_loss_is_seen_without_syncs_of_directories),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
