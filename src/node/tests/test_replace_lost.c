/*
 * test_replace_lost.c - under which id, and where, a node starts, by what is in its data directory.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/tests/unit/test.h"
#include "src/base/assert.h"
#include "src/node/replace_lost.h"

struct world {
    char root[64];
    struct config config;
    struct config_error error;
};

/* In libc's place: a disk that keeps what was synced, or says that it could not. */
static off_t synced_bytes; /* of the file that was synced last; -1: none was */
static bool sync_fails;

int fsync(int fd)
{
    struct stat st;

    assert_int_equal(fstat(fd, &st), 0);
    synced_bytes = st.st_size;
    errno = EIO;
    return sync_fails ? -1 : 0;
}

static void member(struct node_peers *peers, uint64_t id, const char *address)
{
    peers->peers[peers->count].id = id;
    (void)snprintf(peers->peers[peers->count++].address, sizeof peers->peers[0].address, "%s",
                   address);
}

static int set_up(void **state)
{
    struct world *world = calloc(1, sizeof *world);

    assert_non_null(world);
    (void)snprintf(world->root, sizeof world->root, "/tmp/test_lost.XXXXXX");
    assert_non_null(mkdtemp(world->root));
    *state = world;
    return 0;
}

static int tear_down(void **state)
{
    struct world *world = *state;
    char command[96];

    (void)snprintf(command, sizeof command, "rm -r %s", world->root);
    assert_int_equal(system(command), 0);
    free(world);
    return 0;
}

/* A start of node 3 of 3. */
static int start(struct world *world)
{
    struct config *config = &world->config;

    if (config->data.root != NULL) {
        (void)close(config->data.next_fd);
    }
    *config = (struct config){0};
    config->node.replica.replace_lost = true;
    config->node.node_id = 3;
    config->node.peer_address = "c:1";
    member(&config->node.members, 1, "a:1");
    member(&config->node.members, 2, "b:1");
    member(&config->node.members, 3, "c:1");
    config->data.dir = world->root;
    return lost_choose(config, &world->error);
}

static void make(const struct world *world, const char *name, bool directory, const char *content)
{
    char path[128];
    FILE *file;

    (void)snprintf(path, sizeof path, "%s/%s", world->root, name);
    if (directory) {
        assert_int_equal(mkdir(path, 0700), 0);
        return;
    }
    file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(content, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void expect(struct world *world, uint64_t id, size_t asked)
{
    char dir[128];

    assert_int_equal(start(world), 0);
    assert_int_equal(world->config.node.node_id, id);
    (void)snprintf(dir, sizeof dir, "%s/%u", world->root, (unsigned)id);
    assert_string_equal(world->config.data.dir, dir);
    assert_int_equal(world->config.node.join.count, asked);
    assert_int_equal(world->config.node.members.count, asked > 0 ? 0 : 3);
}

static void test_each_loss_is_the_next_id(void **state)
{
    struct world *world = *state;
    uint64_t id;

    expect(world, 3, 0);
    expect(world, 3, 0); /* a start alone changes nothing */
    synced_bytes = -1;
    assert_int_equal(lost_note(&world->config, &id, &world->error), 0);
    assert_int_equal(id, 1003);
    assert_true(synced_bytes > 0); /* it is known after a power loss, too */
    expect(world, 1003, 2);
    assert_string_equal(world->config.node.join.peers[1].address, "b:1");
    make(world, "1003", true, NULL); /* as the store does */
    assert_int_equal(lost_note(&world->config, &id, &world->error), 0);
    expect(world, 2003, 2);
    expect(world, 2003, 2);
}

static void test_what_counts(void **state)
{
    struct world *world = *state;

    make(world, "1004", true, NULL);      /* of another node */
    make(world, "01003", true, NULL);     /* no id */
    make(world, "+1003", true, NULL);     /* nor this */
    make(world, "66003", true, NULL);     /* beyond all ids */
    make(world, "1003x", true, NULL);     /* nor this */
    make(world, "2003.next", true, NULL); /* no file */
    make(world, "3003", false, "x");      /* no directory */
    expect(world, 3, 0);
    make(world, "65003", true, NULL); /* the last one */
    expect(world, 65003, 2);
}

/* The node then ends, and asks again at its next start: it goes on under no id that its disk may
 * forget. */
static void test_a_note_that_is_not_on_the_disk(void **state)
{
    struct world *world = *state;
    uint64_t id = 0;

    expect(world, 3, 0);
    sync_fails = true;
    assert_int_equal(lost_note(&world->config, &id, &world->error), ERR_IO);
    sync_fails = false;
    assert_int_equal(id, 0);
}

static void test_no_id_is_left(void **state)
{
    struct world *world = *state;
    uint64_t id = 0;

    make(world, "65003", true, NULL);
    expect(world, 65003, 2);
    assert_int_equal(lost_note(&world->config, &id, &world->error), ERR_INVALID);
    assert_non_null(strstr(world->error.text, "no node id left"));
    assert_int_equal(id, 0);
}

static void test_whom_it_was_told_to_ask(void **state)
{
    struct world *world = *state;

    make(world, "1003", true, NULL);
    assert_int_equal(start(world), 0);
    world->config.data.dir = world->root;
    world->config.node.node_id = 3;
    (void)close(world->config.data.next_fd);
    world->config.node.join.count = 0;
    member(&world->config.node.join, 0, "d:1");
    assert_int_equal(lost_choose(&world->config, &world->error), 0);
    assert_int_equal(world->config.node.join.count, 1);
    assert_string_equal(world->config.node.join.peers[0].address, "d:1");
}

static void test_a_store_of_before(void **state)
{
    struct world *world = *state;
    uint64_t id;

    make(world, "made", false, "x");
    assert_int_equal(start(world), 0);
    assert_int_equal(world->config.node.node_id, 3);
    assert_string_equal(world->config.data.dir, world->root);
    assert_int_equal(lost_note(&world->config, &id, &world->error), ERR_INVALID);
}

static void test_a_directory_that_cannot_be_used(void **state)
{
    struct world *world = *state;

    make(world, "1003.next", true, NULL);
    assert_int_equal(start(world), ERR_IO);
    assert_non_null(strstr(world->error.text, "1003.next"));
}

static void test_without_the_setting(void **state)
{
    struct world *world = *state;

    make(world, "1003", true, NULL);
    assert_int_equal(start(world), 0);
    (void)close(world->config.data.next_fd);
    world->config = (struct config){.node.node_id = 3, .data.dir = world->root};
    assert_int_equal(lost_choose(&world->config, &world->error), 0);
    assert_int_equal(world->config.node.node_id, 3);
    assert_ptr_equal(world->config.data.dir, world->root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_each_loss_is_the_next_id, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_counts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_note_that_is_not_on_the_disk, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_id_is_left, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_whom_it_was_told_to_ask, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_store_of_before, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_directory_that_cannot_be_used, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_without_the_setting, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
