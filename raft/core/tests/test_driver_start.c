/*
 * test_driver_start.c - a driver's beginning and end: the first configuration, the count of starts,
 * starts from what a disk holds, what is refused, and that a driver that ended only frees.
 *
 * Thread: one.
 */
#include "src/tests/unit/test.h"
#include "raft/core/driver.h"
#include "raft/core/prepare.h"
#include "raft/core/tests/raft_bench.h"
#include "src/base/assert.h"
#include "src/id/codec/command.h"
#include "src/id/fsm/fsm.h"

static const struct boot FOLLOWER = {
    .id = 2, .term = 2, .last = 3, .last_term = 2, .servers = 3, .roles = THREE_VOTERS};
static const struct boot FIRST = {
    .id = 1, .term = 1, .last = 1, .last_term = 1, .servers = 3, .roles = THREE_VOTERS};
static const struct net_peer MEMBERS[3] = {{1, "s1"}, {2, "s2"}, {3, "s3"}};

static struct store *new_store(void)
{
    struct store_identity identity = {.cluster_id = "test", .node_id = 1, .store_id = 1};

    return store_mem_new(&identity);
}

static struct store_loaded load(struct store *store)
{
    struct store_error error = {{0}};
    struct store_loaded loaded;

    assert_int_equal(store->ops->load(store, &loaded, NULL, NULL, &error), 0);
    return loaded;
}

static int prepare(struct store *store, struct store_loaded *loaded, size_t members)
{
    struct store_error error = {{0}};
    int rv = prepare_store(store, loaded, 1, 7, MEMBERS, members, &error);

    if (rv != 0) {
        assert_true(error.text[0] != '\0');
    }
    return rv;
}

static void expect_first_entry(const struct store_loaded *loaded, unsigned members)
{
    struct buf conf = BUF_INIT;

    conf_of_roles(THREE_VOTERS, members, &conf);
    assert_int_equal(loaded->first_index, 1);
    assert_int_equal(loaded->entry_count, 1);
    assert_int_equal(loaded->entries[0].term, 1);
    assert_int_equal(loaded->entries[0].type, RAFT_CHANGE);
    assert_int_equal(loaded->entries[0].len, conf.len);
    assert_memory_equal(loaded->entries[0].data, conf.data, conf.len);
    buf_free(&conf);
}

/* --- the first configuration --- */

static void test_a_new_store_gets_the_configuration_as_entry_1(void **state)
{
    struct store *store = new_store();
    struct store_loaded loaded = load(store);

    (void)state;
    assert_int_equal(prepare(store, &loaded, 3), 0);
    assert_int_equal(loaded.term, 1);
    assert_int_equal(loaded.vote, 0);
    expect_first_entry(&loaded, 3);
    store_loaded_release(&loaded);
    loaded = load(store); /* and so does the disk */
    assert_int_equal(loaded.term, 1);
    expect_first_entry(&loaded, 3);
    store_loaded_release(&loaded);
    store_mem_free(store);
}

static void test_a_used_store_is_left_alone(void **state)
{
    struct store *store = new_store();
    struct store_loaded loaded = load(store);

    (void)state;
    assert_int_equal(prepare(store, &loaded, 3), 0);
    store_loaded_release(&loaded);
    loaded = load(store);
    assert_int_equal(prepare(store, &loaded, 2), 0); /* other members in its configuration file */
    assert_int_equal(loaded.term, 1);
    expect_first_entry(&loaded, 3);
    store_loaded_release(&loaded);
    store_mem_free(store);
}

static void commit_op(struct store *store, struct store_op op)
{
    struct store_op_list list = STAILQ_HEAD_INITIALIZER(list);
    struct store_error error = {{0}};

    STAILQ_INSERT_TAIL(&list, &op, link);
    assert_int_equal(store->ops->commit(store, &list, &error), 0);
}

static int load_whole(struct store *store)
{
    struct state *whole = state_new(&fsm_machine);
    struct store_error error = {{0}};
    struct store_loaded loaded;
    int rv = prepare_load(store, whole, &loaded, &error);

    if (rv == 0) {
        rv = prepare_store(store, &loaded, 1, 7, MEMBERS, 3, &error);
        store_loaded_release(&loaded);
    }
    state_free(whole);
    return rv;
}

/* Entry 2 is this command. */
static void append_second(struct store *store, const struct buf *command)
{
    const struct store_entry entry = {1, RAFT_COMMAND, (uint32_t)command->len, command->data};

    commit_op(store, (struct store_op){
                         .kind = STORE_APPEND, .index = 2, .entry_count = 1, .entries = &entry});
}

static void expect_refused_as_it_was(const struct buf *command)
{
    struct store *store = new_store();
    struct store_loaded before = load(store);
    struct store_loaded after;

    assert_int_equal(prepare(store, &before, 3), 0);
    store_loaded_release(&before);
    append_second(store, command);
    before = load(store);
    assert_int_equal(load_whole(store), ERR_NEWER);
    after = load(store);
    assert_int_equal(after.term, before.term);
    assert_int_equal(after.vote, before.vote);
    assert_int_equal(after.entry_count, before.entry_count);
    for (unsigned i = 0; i < LIMIT_LOCAL_RECORDS; i++) {
        assert_int_equal(after.locals[i].len, before.locals[i].len);
        if (before.locals[i].len > 0) {
            assert_memory_equal(after.locals[i].data, before.locals[i].data, before.locals[i].len);
        }
    }
    store_loaded_release(&before);
    store_loaded_release(&after);
    store_mem_free(store);
}

/* A leafd that is too old for what is in the log changes nothing, not even the count of starts. */
static void test_a_log_of_a_later_level_is_refused_as_it_was(void **state)
{
    struct store *store = new_store();
    struct store_loaded loaded = load(store);
    struct buf command = BUF_INIT;

    (void)state;
    cluster_command_put(&command, COMMAND_LEVEL,
                        &(struct level_command){.to = (uint16_t)(level_own.max + 1), .wall_ms = 1});
    expect_refused_as_it_was(&command);
    command.data[1] = 250; /* a type that nobody knows yet */
    expect_refused_as_it_was(&command);
    command.len = 0;
    cluster_command_put(&command, COMMAND_LEVEL,
                        &(struct level_command){.to = level_own.max, .wall_ms = 1});
    assert_int_equal(prepare(store, &loaded, 3), 0);
    append_second(store, &command);
    assert_int_equal(load_whole(store), 0);
    store_loaded_release(&loaded);
    store_mem_free(store);
    buf_free(&command);
}

/* Earlier versions wrote them apart. */
static void test_a_crash_between_term_and_first_entry(void **state)
{
    struct store *store = new_store();
    struct store_loaded loaded;

    (void)state;
    commit_op(store, (struct store_op){.kind = STORE_HARD_STATE, .term = 1});
    loaded = load(store);
    assert_int_equal(prepare(store, &loaded, 3), 0);
    expect_first_entry(&loaded, 3);
    store_loaded_release(&loaded);
    loaded = load(store);
    expect_first_entry(&loaded, 3);
    store_loaded_release(&loaded);
    store_mem_free(store);
}

/* A start makes one commit: if it fails nothing was changed, and the next start gets through. */
static void test_a_failing_write_is_reported(void **state)
{
    for (unsigned starts = 0; starts <= 1; starts++) {
        struct store *store = new_store();
        struct store_loaded loaded = load(store);

        (void)state;
        if (starts > 0) {
            assert_int_equal(prepare(store, &loaded, 1), 0);
            store_loaded_release(&loaded);
            loaded = load(store);
        }
        store_mem_fail_commit(store, 1, ERR_IO);
        assert_int_equal(prepare(store, &loaded, 1), ERR_IO);
        assert_int_equal(loaded.incarnation, 0);
        assert_int_equal(loaded.term, starts > 0 ? 2 : 0);
        assert_int_equal(loaded.entry_count, starts);
        store_loaded_release(&loaded);
        loaded = load(store);
        assert_int_equal(loaded.term, starts > 0 ? 2 : 0);
        store_mem_fail_commit(store, 2, ERR_IO); /* and there is no second one to fail */
        assert_int_equal(prepare(store, &loaded, 1), 0);
        expect_first_entry(&loaded, 1);
        assert_int_equal(loaded.term, 2 + starts);
        assert_int_equal(loaded.vote, 1);
        assert_int_equal(loaded.incarnation, 1 + starts);
        store_loaded_release(&loaded);
        store_mem_fail_commit(store, 0, 0);
        store_mem_free(store);
    }
}

/* --- the life of a node --- */

static void test_each_start_is_an_incarnation_of_its_own(void **state)
{
    struct store *store = new_store();
    struct store_loaded loaded;

    (void)state;
    for (uint64_t incarnation = 1; incarnation <= 5; incarnation++) {
        loaded = load(store);
        assert_int_equal(loaded.incarnation, 0); /* not counted yet */
        assert_int_equal(prepare(store, &loaded, 3), 0);
        assert_int_equal(loaded.incarnation, incarnation);
        store_loaded_release(&loaded);
    }
    loaded = load(store); /* one that does not get as far as to prepare is none */
    store_loaded_release(&loaded);
    loaded = load(store);
    assert_int_equal(prepare(store, &loaded, 3), 0);
    assert_int_equal(loaded.incarnation, 6);
    assert_int_equal(loaded.locals[LOCAL_INCARNATION].len, 9);
    assert_memory_equal(loaded.locals[LOCAL_INCARNATION].data, "\1\6\0\0\0\0\0\0\0", 9);
    store_loaded_release(&loaded);
    loaded = load(store); /* and the random half of each is on the disk */
    assert_int_equal(loaded.locals[LOCAL_INCARNATIONS].len, 9 + 6 * 4);
    assert_memory_equal(loaded.locals[LOCAL_INCARNATIONS].data,
                        "\1\6\0\0\0\0\0\0\0\7\0\0\0\7\0\0\0", 17);
    store_loaded_release(&loaded);
    store_mem_free(store);
}

static void set_incarnation(struct store *store, const char *bytes, uint32_t len)
{
    commit_op(store, (struct store_op){.kind = STORE_LOCAL,
                                       .local_key = LOCAL_INCARNATION,
                                       .local = bytes,
                                       .local_len = len});
}

/* Entry 1, as it comes from another node. */
static void append_first(struct store *store)
{
    struct store_entry entry = {1, RAFT_CHANGE, 0, NULL};
    struct buf conf = BUF_INIT;

    conf_of_roles(THREE_VOTERS, 3, &conf);
    entry.data = conf.data;
    entry.len = (uint32_t)conf.len;
    commit_op(store, (struct store_op){
                         .kind = STORE_APPEND, .index = 1, .entries = &entry, .entry_count = 1});
    buf_free(&conf);
}

/* A store from before there was a count, with leases in the records beside it. */
static void test_a_store_without_an_incarnation_begins_at_1(void **state)
{
    struct store *store = new_store();
    struct store_loaded loaded;

    (void)state;
    commit_op(store, (struct store_op){.kind = STORE_HARD_STATE, .term = 7, .vote = 2});
    append_first(store);
    commit_op(store, (struct store_op){
                         .kind = STORE_LOCAL, .local_key = 15, .local = "lease", .local_len = 5});
    loaded = load(store);
    assert_int_equal(prepare(store, &loaded, 3), 0);
    assert_int_equal(loaded.incarnation, 1);
    assert_int_equal(loaded.term, 7);
    assert_int_equal(loaded.vote, 2);
    assert_memory_equal(loaded.locals[15].data, "lease", 5);
    store_loaded_release(&loaded);
    store_mem_free(store);
}

/* Counting from 1 again would make two incarnations look the same. */
static void test_a_damaged_incarnation_is_refused(void **state)
{
    const struct {
        const char *bytes;
        uint32_t len;
        int err;
    } cases[] = {
        {"\1\5\0\0\0\0\0\0\0", 9, 0},
        {"\1\5\0\0\0\0\0\0", 8, ERR_CORRUPT},
        {"\1\5\0\0\0\0\0\0\0\0", 10, ERR_CORRUPT},
        {"\1", 1, ERR_CORRUPT},
        {"\1\0\0\0\0\0\0\0\0", 9, ERR_CORRUPT},
        {"\1\xff\xff\xff\xff\xff\xff\xff\xff", 9, ERR_CORRUPT},
        {"\1\xfe\xff\xff\xff\xff\xff\xff\xff", 9, 0},
        {"\0\5\0\0\0\0\0\0\0", 9, ERR_BAD_VERSION},
        {"\2\5\0\0\0\0\0\0\0", 9, 0}, /* it joined, and was killed before the mark went */
        {"\2\5\0\0\0\0\0\0", 8, ERR_CORRUPT},
        {"\3\5\0\0\0\0\0\0\0", 9, ERR_BAD_VERSION},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct store *store = new_store();
        struct store_loaded loaded = load(store);
        uint64_t incarnation;

        assert_int_equal(prepare(store, &loaded, 3), 0);
        store_loaded_release(&loaded);
        set_incarnation(store, cases[i].bytes, cases[i].len);
        loaded = load(store);
        incarnation = loaded.incarnation;
        assert_int_equal(prepare(store, &loaded, 3), cases[i].err);
        assert_int_equal(incarnation == loaded.incarnation, cases[i].err != 0);
        store_loaded_release(&loaded);
        store_mem_free(store);
    }
}

/* --- nodes that join, and logs that were lost --- */

static void test_a_store_that_joins_is_marked_until_it_has_a_log(void **state)
{
    struct store *store = new_store();
    struct store_loaded loaded = load(store);

    (void)state;
    assert_false(prepare_is_joiner(&loaded));
    for (uint64_t incarnation = 1; incarnation <= 3;
         incarnation++) { /* it waits; what it knows of terms does not matter */
        assert_int_equal(prepare(store, &loaded, incarnation == 2 ? 3 : 0), 0);
        assert_true(prepare_is_joiner(&loaded));
        assert_int_equal(loaded.entry_count, 0);
        assert_int_equal(loaded.incarnation, incarnation);
        store_loaded_release(&loaded);
        commit_op(store, (struct store_op){.kind = STORE_HARD_STATE, .term = 10 * incarnation});
        loaded = load(store);
        assert_true(prepare_is_joiner(&loaded));
        assert_int_equal(loaded.locals[LOCAL_INCARNATION].data[0], 2);
        assert_int_equal(loaded.term, 10 * incarnation);
    }
    store_loaded_release(&loaded);
    append_first(store);
    loaded = load(store);
    assert_false(prepare_is_joiner(&loaded));
    assert_int_equal(prepare(store, &loaded, 0), 0); /* the mark goes */
    assert_int_equal(loaded.locals[LOCAL_INCARNATION].data[0], 1);
    assert_int_equal(loaded.incarnation, 4);
    store_loaded_release(&loaded);
    store_mem_free(store);
}

/* No entry, no state, but signs of an earlier start: neither begins a log nor waits for one. */
static void test_a_lost_log_is_refused(void **state)
{
    static const struct {
        uint64_t term;
        uint64_t vote;
        bool started;
        int err;
    } cases[] = {
        {0, 0, false, 0},           {1, 0, false, 0},           {1, 1, false, ERR_CORRUPT},
        {2, 0, false, ERR_CORRUPT}, {9, 2, false, ERR_CORRUPT}, {0, 0, true, ERR_CORRUPT},
        {1, 0, true, ERR_CORRUPT},  {9, 1, true, ERR_CORRUPT},
    };

    (void)state;
    for (size_t i = 0; i < 2 * sizeof cases / sizeof cases[0]; i++) {
        size_t k = i / 2;
        size_t members = i % 2 == 0 ? 3 : 0; /* without any: it is told to join */
        struct store *store = new_store();
        struct store_loaded loaded;

        commit_op(store, (struct store_op){.kind = STORE_HARD_STATE,
                                           .term = cases[k].term,
                                           .vote = cases[k].vote});
        if (cases[k].started) {
            set_incarnation(store, "\1\5\0\0\0\0\0\0\0", 9);
        }
        loaded = load(store);
        assert_false(prepare_is_joiner(&loaded));
        assert_int_equal(prepare(store, &loaded, members), cases[k].err);
        assert_int_equal(loaded.incarnation, cases[k].err == 0 ? 1 : 0);
        assert_int_equal(prepare_is_joiner(&loaded), cases[k].err == 0 && members == 0);
        store_loaded_release(&loaded);
        store_mem_free(store);
    }
}

static void append_conf(struct store *store, const void *data, uint32_t len)
{
    struct store_op hard = {.kind = STORE_HARD_STATE, .term = 1};
    struct store_entry entry = {1, RAFT_CHANGE, len, data};
    struct store_op op = {.kind = STORE_APPEND, .index = 1, .entry_count = 1, .entries = &entry};
    struct store_op_list list = STAILQ_HEAD_INITIALIZER(list);
    struct store_error error = {{0}};

    STAILQ_INSERT_TAIL(&list, &hard, link);
    STAILQ_INSERT_TAIL(&list, &op, link);
    assert_int_equal(store->ops->commit(store, &list, &error), 0);
}

static void test_a_damaged_configuration_is_refused(void **state)
{
    struct store *store = new_store();
    struct store_loaded loaded;

    (void)state;
    append_conf(store, "\1\0\0\0", 4);
    loaded = load(store);
    assert_int_equal(prepare(store, &loaded, 3), ERR_CORRUPT);
    store_loaded_release(&loaded);
    store_mem_free(store);
}

/* --- start --- */

/* Try to start on what was loaded; nothing may be left behind by a failure. */
static int try_start(const struct store_loaded *loaded)
{
    struct driver_config config = {
        .node_id = 1, .address = "s1", .heartbeat_ms = 100, .election_ms = 1000, .seed = 1};
    struct fake_observer observer;
    struct fake_clock clock;
    struct fake_disk disk;
    struct fake_net net;
    struct timers timers = {.sequence = 0};
    struct driver driver;
    struct state *whole = state_new(&fsm_machine);
    int rv;

    fake_observer_init(&observer);
    fake_clock_init(&clock, BOOT_MS);
    fake_disk_init(&disk, NULL);
    fake_net_init(&net);
    rv = driver_start(&driver, &config, &disk.base, &net.base, &clock.base, &timers, whole,
                      &observer.base, loaded);
    driver_close(&driver);
    fake_net_free(&net);
    state_free(whole);
    return rv;
}

static void test_start_refuses_a_damaged_change(void **state)
{
    struct buf conf = BUF_INIT;
    struct store_entry entries[3] = {
        {1, RAFT_CHANGE, 0, NULL}, {1, RAFT_CHANGE, 3, "\1\2\3"}, {1, RAFT_CHANGE, 0, NULL}};
    struct store_loaded loaded = {
        .term = 1, .first_index = 1, .entries = entries, .entry_count = 3};

    (void)state;
    conf_of_roles(THREE_VOTERS, 3, &conf);
    entries[0].data = entries[2].data = conf.data;
    entries[0].len = entries[2].len = (uint32_t)conf.len;
    assert_int_equal(try_start(&loaded), ERR_CORRUPT); /* the last one, which is fine, hides it */
    buf_free(&conf);
}

static void test_start_refuses_a_damaged_position(void **state)
{
    struct store_loaded loaded = {.term = 1, .first_index = 6};

    (void)state;
    loaded.position = (struct store_position){5, 1, 1, "\7\7\7\7\7\7\7\7", 8, 0};
    assert_int_equal(try_start(&loaded), ERR_CORRUPT);
}

static void test_start_goes_on_from_the_middle_of_the_log(void **state)
{
    const struct boot boot = {.id = 2,
                              .term = 5,
                              .last = 60,
                              .last_term = 2,
                              .applied = 40,
                              .first = 31,
                              .servers = 3,
                              .roles = THREE_VOTERS};
    struct raft_message heartbeat = append_of(1, 5, 60, 2, 50, NULL, 0);
    BENCH bench = {0};

    (void)state;
    bench_start(&bench, &boot);
    assert_int_equal(driver_applied(&bench.driver)->index, 40);
    assert_int_equal(bench.driver.commit, 40);
    assert_int_equal(bench.driver.log.first, 31);
    assert_int_equal(entry_log_last(&bench.driver.log), 60);
    bench_receive(&bench, &heartbeat);
    bench_run(&bench);
    assert_int_equal(driver_applied(&bench.driver)->index, 50);
    assert_int_equal(bench.observer.applied_count, 10);
}

static void test_a_restart_has_what_was_acknowledged(void **state)
{
    struct raft_entry entries[2] = {entry_of(2, NULL), entry_of(2, NULL)};
    struct raft_message append = append_of(1, 2, 3, 2, 5, entries, 2);
    BENCH bench = {0};

    (void)state;
    bench_start(&bench, &FOLLOWER);
    bench_receive(&bench, &append);
    bench_run(&bench);
    assert_int_equal(driver_applied(&bench.driver)->index, 5);
    append = append_of(1, 2, 5, 2, 5, entries, 2);
    bench_receive(&bench, &append); /* 6 and 7 do not get to the disk */
    bench_crash(&bench);
    bench_restart(&bench);
    assert_int_equal(entry_log_last(&bench.driver.log), 5);
    assert_int_equal(driver_applied(&bench.driver)->index, 5);
    assert_int_equal(bench_term(&bench), 2);
}

/* --- what comes over the wire --- */

static void test_malformed_frames_are_told(void **state)
{
    struct raft_message vote = vote_of(1, 3, 9, 2, false);
    struct raft_message heartbeat = append_of(1, 2, 3, 2, 3, NULL, 0);
    struct buf payload = BUF_INIT;
    BENCH bench = {0};

    (void)state;
    bench_start(&bench, &FOLLOWER);
    message_encode(&heartbeat, 0, &payload);
    for (size_t len = 0; len < payload.len; len++) {
        assert_false(bench_frame(&bench, 1, FRAME_RAFT, payload.data, len));
    }
    assert_false(bench_frame(&bench, 1, FRAME_REQUEST, payload.data, payload.len));
    assert_true(bench_frame(&bench, 1, FRAME_RAFT, payload.data, payload.len));
    payload.len = 0;
    message_encode(&vote, 0, &payload); /* server 3 asks in the name of server 1 */
    assert_false(bench_frame(&bench, 3, FRAME_RAFT, payload.data, payload.len));
    assert_int_equal(bench_term(&bench), 2);
    assert_false(bench_frame(&bench, 1, FRAME_SNAPSHOT_CHUNK, payload.data, payload.len));
    assert_false(bench_frame(&bench, 1, FRAME_SNAPSHOT_ACK, payload.data, payload.len));
    assert_int_equal(bench.observer.failed_count, 0);
    buf_free(&payload);
}

/* --- the end --- */

static void test_a_driver_that_was_quieted_only_frees(void **state)
{
    struct raft_message vote = vote_of(1, 3, 9, 2, false);
    struct raft_entry entry = entry_of(2, NULL);
    struct raft_message append = append_of(1, 3, 3, 2, 3, &entry, 1);
    BENCH bench = {0};
    unsigned roles;

    (void)state;
    bench_start(&bench, &FOLLOWER);
    bench_receive(&bench, &vote);
    bench_receive(&bench, &append);
    assert_int_equal(fake_disk_count(&bench.disk, STORE_HARD_STATE), 1);
    assert_int_equal(fake_disk_count(&bench.disk, STORE_APPEND), 1);
    roles = bench.observer.role_count;
    driver_quiesce(&bench.driver);
    assert_false(driver_is_quiet(&bench.driver));
    bench_disk_run(&bench);
    assert_true(driver_is_quiet(&bench.driver));
    assert_int_equal(bench.net.frame_count, 0); /* no vote, no acknowledgement */
    assert_int_equal(bench.driver.persisted, 3);
    bench_receive(&bench, &vote); /* taken and forgotten */
    bench.clock.now_ms += 100000;
    bench_tick(&bench);
    assert_false(driver_turn(&bench.driver));
    assert_int_equal(bench_submit(&bench, 1), ERR_NOT_LEADER);
    assert_true(timers_next_ms(&bench.timers) == UINT64_MAX);
    assert_true(driver_transfer(&bench.driver, 0));
    assert_false(driver_leads(&bench.driver));
    assert_int_equal(bench.disk.queued, 0);
    assert_int_equal(bench.observer.role_count, roles);
    assert_int_equal(bench.observer.failed_count, 0); /* it did not fail */
}

static int submit_digest(struct bench *bench, uint64_t index, uint64_t digest)
{
    struct buf bytes = BUF_INIT;
    uint64_t at;
    uint64_t term;
    int rv;

    cluster_command_put(&bytes, COMMAND_DIGEST,
                        &(struct digest_command){.index = index, .digest = digest});
    session_stamp_put(&bytes, &(struct session_stamp){1, 1, index, index});
    rv = driver_submit(&bench->driver, &bytes, 1, &at, &term);
    buf_free(&bytes);
    return rv;
}

/* The owner has to find out who is wrong: until then nothing is applied, nor served. */
/* Shows lesson-deterministic. */
static void test_a_state_that_differs_halts_the_node(void **state)
{
    BENCH bench = {0};

    (void)state;
    bench_start(&bench, &FIRST);
    bench_elect(&bench);
    bench_ack(&bench, 2);
    bench_run(&bench);
    assert_int_equal(submit_digest(&bench, 2, state_digest(bench.state)), 0);
    bench_run(&bench);
    bench_ack(&bench, 2);
    bench_run(&bench);
    assert_int_equal(driver_applied(&bench.driver)->index, 3);
    assert_int_equal(bench.observer.failed_count, 0);
    assert_int_equal(submit_digest(&bench, 3, state_digest(bench.state) + 1), 0);
    bench_run(&bench);
    bench_ack(&bench, 2);
    bench_run(&bench);
    assert_int_equal(bench.observer.diverged_count, 1);
    assert_true(bench.driver.halted);
    assert_false(driver_leads(&bench.driver));
    assert_int_equal(submit_digest(&bench, 4, 4711), 0);
    bench_run(&bench);
    bench_ack(&bench, 2);
    bench_run(&bench);
    assert_int_equal(driver_applied(&bench.driver)->index, 4); /* and nothing after it */
    assert_int_equal(bench.observer.failed_count, 0);
    bench.driver.halted = false;
    bench_run(&bench);
    assert_int_equal(driver_applied(&bench.driver)->index, 5);
    assert_int_equal(bench.observer.diverged_count, 2); /* it is the next one that differs */
    driver_end_diverged(&bench.driver, "wrong");
    assert_int_equal(bench.observer.failed_count, 1);
    assert_int_equal(bench.observer.failed_err, ERR_DIVERGED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_new_store_gets_the_configuration_as_entry_1),
        cmocka_unit_test(test_a_used_store_is_left_alone),
        cmocka_unit_test(test_a_log_of_a_later_level_is_refused_as_it_was),
        cmocka_unit_test(test_a_crash_between_term_and_first_entry),
        cmocka_unit_test(test_a_failing_write_is_reported),
        cmocka_unit_test(test_each_start_is_an_incarnation_of_its_own),
        cmocka_unit_test(test_a_store_without_an_incarnation_begins_at_1),
        cmocka_unit_test(test_a_damaged_incarnation_is_refused),
        cmocka_unit_test(test_a_store_that_joins_is_marked_until_it_has_a_log),
        cmocka_unit_test(test_a_lost_log_is_refused),
        cmocka_unit_test(test_a_damaged_configuration_is_refused),
        cmocka_unit_test(test_start_refuses_a_damaged_change),
        cmocka_unit_test(test_start_refuses_a_damaged_position),
        cmocka_unit_test(test_start_goes_on_from_the_middle_of_the_log),
        cmocka_unit_test(test_a_restart_has_what_was_acknowledged),
        cmocka_unit_test(test_malformed_frames_are_told),
        cmocka_unit_test(test_a_driver_that_was_quieted_only_frees),
        cmocka_unit_test(test_a_state_that_differs_halts_the_node),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
