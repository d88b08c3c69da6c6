/*
 * raft_bench.c - see raft_bench.h. Thread: the test's.
 */
#include "raft/core/consensus.h"
#include "raft/core/tests/raft_bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/base/hash.h"
#include "src/id/fsm/fsm.h"

static void commit(struct store *store, struct store_op *op)
{
    struct store_op_list list = STAILQ_HEAD_INITIALIZER(list);
    struct store_error error = {{0}};

    STAILQ_INSERT_TAIL(&list, op, link);
    ASSERT(store->ops->commit(store, &list, &error) == 0);
}

static void fill_log(struct store *store, const struct boot *boot, const struct buf *conf)
{
    struct store_op op = {.kind = STORE_APPEND, .index = 1, .entry_count = (uint32_t)boot->last};
    struct store_entry *entries = calloc(boot->last, sizeof *entries);

    ASSERT(entries != NULL);
    for (uint64_t i = 0; i < boot->last; i++) {
        entries[i] = i == 0 ? (struct store_entry){1, RAFT_CHANGE, (uint32_t)conf->len, conf->data}
                            : (struct store_entry){boot->last_term, RAFT_COMMAND, sizeof NOOP_BYTES,
                                                   NOOP_BYTES};
    }
    op.entries = entries;
    commit(store, &op);
    free(entries);
}

/* One row of the state: a tag with a long description. */
static void put_row(unsigned n, struct buf *key, struct buf *value)
{
    char name[16];
    char text[200];
    struct tag_row row = {.generation = 1, .step = 10, .max_step = 100, .max_id = n};

    row.name_len = (uint16_t)snprintf(name, sizeof name, "row-%06u", n);
    memset(text, 'd', sizeof text);
    row.name = name;
    row.description = text;
    row.description_len = sizeof text;
    buf_put_u8(key, 't');
    buf_put(key, name, row.name_len);
    row_put(value, tag_row_format(&row), &row);
}

/* The state at the applied index, with as many rows as asked for. */
static void fill_state(struct store *store, const struct boot *boot, unsigned count,
                       const struct buf *conf)
{
    struct store_op op = {.kind = STORE_APPLY, .row_count = count};
    struct state_row *rows = calloc(count + 1, sizeof *rows);
    struct buf *bytes = calloc(2 * (size_t)count + 1, sizeof *bytes);
    uint64_t digest = 0;

    ASSERT(rows != NULL && bytes != NULL);
    for (unsigned i = 0; i < count; i++) {
        struct buf *key = &bytes[2 * i];
        struct buf *value = &bytes[2 * i + 1];

        put_row(i, key, value);
        rows[i] =
            (struct state_row){key->data, (uint32_t)key->len, value->data, (uint32_t)value->len};
        digest += hash_row(key->data, key->len, value->data, value->len);
    }
    op.rows = rows;
    op.position = (struct store_position){
        boot->applied, boot->applied == 1 ? 1 : boot->last_term, 1, conf->data, (uint32_t)conf->len,
        digest};
    commit(store, &op);
    for (size_t i = 0; i < 2 * (size_t)count; i++) {
        buf_free(&bytes[i]);
    }
    free(bytes);
    free(rows);
}

static void fill_store(struct store *store, const struct boot *boot, unsigned rows)
{
    struct store_op hard = {.kind = STORE_HARD_STATE, .term = boot->term, .vote = boot->vote};
    struct store_op compact = {.kind = STORE_COMPACT, .index = boot->first};
    struct buf conf = BUF_INIT;

    conf_of_roles(boot->roles, boot->servers, &conf);
    commit(store, &hard);
    if (boot->last > 0) {
        fill_log(store, boot, &conf);
    }
    if (boot->applied > 0) {
        fill_state(store, boot, rows, &conf);
    }
    if (boot->first > 1) {
        commit(store, &compact);
    }
    buf_free(&conf);
}

/* A new driver on what the store holds. */
static void start(struct bench *bench)
{
    struct driver_config config = {0};
    struct store_loaded loaded;
    struct store_error error = {{0}};
    static const char *const addresses[] = {"", "s1", "s2", "s3", "s4", "s5"};

    bench->state = state_new(bench->machine != NULL ? bench->machine : &fsm_machine);
    state_load_begin(bench->state);
    ASSERT(bench->store->ops->load(bench->store, &loaded, state_load_row, bench->state, &error) ==
           0);
    ASSERT(state_load_end(bench->state, loaded.position.index) == 0);
    config.node_id = bench->id;
    config.address = addresses[bench->id];
    config.heartbeat_ms = BOOT_HEARTBEAT_MS;
    config.election_ms = BOOT_ELECTION_MS;
    config.applier.snapshot_entries = bench->snapshot_entries > 0 ? bench->snapshot_entries : 1000;
    config.applier.trailing_entries = bench->trailing_entries > 0 ? bench->trailing_entries : 100;
    config.applier.rows_join_ms = bench->rows_join_ms;
    config.applier.rows_hold_ms = bench->rows_hold_ms;
    config.applier.rows_many_ms = bench->rows_many_ms;
    config.seed = bench->id;
    config.incarnation = bench->incarnation;
    fake_disk_init(&bench->disk, bench->store);
    fake_net_init(&bench->net);
    fake_observer_init(&bench->observer);
    bench->timers = (struct timers){.sequence = 0};
    ASSERT(driver_start(&bench->driver, &config, &bench->disk.base, &bench->net.base,
                        &bench->clock.base, &bench->timers, bench->state, &bench->observer.base,
                        &loaded) == 0);
    store_loaded_release(&loaded);
}

void bench_start(struct bench *bench, const struct boot *boot)
{
    struct store_identity identity = {.cluster_id = "test", .node_id = boot->id, .store_id = 1};

    bench->id = boot->id;
    bench->store = store_mem_new(&identity);
    fill_store(bench->store, boot, bench->rows);
    fake_clock_init(&bench->clock, BOOT_MS);
    start(bench);
}

static void end_driver(struct bench *bench)
{
    driver_close(&bench->driver);
    state_free(bench->state);
    fake_net_free(&bench->net);
}

bool bench_disk_step(struct bench *bench)
{
    bool done = fake_disk_step(&bench->disk);

    driver_take_events(&bench->driver);
    return done;
}

void bench_disk_run(struct bench *bench)
{
    while (bench_disk_step(bench)) {
        continue;
    }
}

void bench_crash(struct bench *bench)
{
    driver_quiesce(&bench->driver);
    do { /* what the driver takes back may close a view, which is a read of its own */
        fake_disk_lose(&bench->disk);
    } while (!driver_is_quiet(&bench->driver));
    end_driver(bench);
    bench->store->ops->close(bench->store);
    store_mem_reopen(bench->store);
}

void bench_restart(struct bench *bench)
{
    start(bench);
}

void bench_close(struct bench *bench)
{
    driver_quiesce(&bench->driver);
    bench_disk_run(bench);
    end_driver(bench);
    store_mem_free(bench->store);
}

bool bench_frame(struct bench *bench, uint64_t from, enum frame_type type, const void *data,
                 size_t len)
{
    bool fine = driver_receive(&bench->driver, from, type, data, len);

    (void)driver_turn(&bench->driver);
    return fine;
}

bool bench_takes(struct bench *bench, const struct raft_message *message)
{
    struct buf payload = BUF_INIT;
    bool fine;

    message_encode(message, 1, &payload);
    fine = bench_frame(bench, message->server_id, FRAME_RAFT, payload.data, payload.len);
    buf_free(&payload);
    return fine;
}

void bench_receive(struct bench *bench, const struct raft_message *message)
{
    ASSERT(bench_takes(bench, message));
}

bool bench_sent(struct bench *bench, uint64_t to, enum raft_message_type type,
                struct raft_message *ret_message)
{
    struct fake_frame *frame;
    bool found = false;
    uint64_t transfer;

    while (!found && (frame = fake_net_take(&bench->net)) != NULL) {
        if (frame->to == to && frame->type == FRAME_RAFT && frame->payload.data[0] == type) {
            ASSERT(message_decode(frame->payload.data, frame->payload.len, ret_message,
                                  &transfer) == 0);
            found = true;
        }
        fake_frame_free(frame);
    }
    return found;
}

void bench_run(struct bench *bench)
{
    do {
        bench_disk_run(bench);
    } while (driver_turn(&bench->driver) || bench->disk.queued > 0);
}

void bench_tick(struct bench *bench)
{
    driver_take_events(&bench->driver);
    timers_run(&bench->timers, bench->clock.now_ms);
}

void bench_timeout(struct bench *bench)
{
    uint64_t at = timers_next_ms(&bench->timers);

    bench->clock.now_ms = at > bench->clock.now_ms ? at : bench->clock.now_ms;
    bench_tick(bench);
    (void)driver_turn(&bench->driver);
}

void bench_elect(struct bench *bench)
{
    struct raft *raft = &bench->driver.consensus->raft;
    struct raft_message vote;

    bench_run(bench);
    while (raft_state(raft) != RAFT_CANDIDATE) {
        bench_timeout(bench);
    }
    vote = vote_result_of(2, raft_current_term(raft) + 1, true, true);
    bench_receive(bench, &vote);
    bench_run(bench);
    vote = vote_result_of(2, raft_current_term(raft), true, false);
    bench_receive(bench, &vote);
    ASSERT(raft_state(raft) == RAFT_LEADER);
    bench_run(bench);
    fake_net_clear(&bench->net);
}

void bench_ack(struct bench *bench, uint64_t from)
{
    struct raft_message ack =
        append_result_of(from, bench_term(bench), 0, entry_log_last(&bench->driver.log));

    bench_receive(bench, &ack);
}

int bench_submit(struct bench *bench, unsigned n)
{
    struct buf commands[LIMIT_ENTRIES_PER_FRAME];
    uint64_t first;
    uint64_t term;
    uint64_t last = entry_log_last(&bench->driver.log);
    int rv;

    for (unsigned i = 0; i < n; i++) {
        commands[i] =
            (struct buf){.data = (uint8_t *)(uintptr_t)NOOP_BYTES, .len = sizeof NOOP_BYTES};
    }
    rv = driver_submit(&bench->driver, commands, n, &first, &term);
    if (rv == 0) {
        ASSERT(first == last + 1 && term == bench_term(bench));
    }
    return rv;
}

uint64_t bench_term(const struct bench *bench)
{
    return driver_term(&bench->driver);
}
