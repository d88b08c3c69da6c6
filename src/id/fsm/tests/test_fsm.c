/*
 * test_fsm.c - the state machine as a whole: queries, nodes, digests, loading, the listener, and
 * that no bytes can stop it or lead two of them apart. What commands do to tags is in
 * test_fsm_tags.c, lists are in test_fsm_list.c.
 *
 * Thread: one.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "src/base/prng.h"
#include "src/id/tests/id_apply.h"
#include "src/id/tests/id_random.h"
#include "src/tests/unit/hex.h"

static void make(struct id_apply *a, const char *name)
{
    assert_int_equal(id_apply_put(a, (struct tag_put){.name = name}, false).status, 0);
}

/* --- queries --- */

static void test_query_get(void **state)
{
    struct id_apply *a = *state;
    struct buf query = BUF_INIT;
    struct buf answer = BUF_INIT;
    struct tag_rows rows;

    query_get_encode(&query, "order", 5);
    assert_int_equal(fsm_query(a->fsm, query.data, query.len, &answer), ERR_UNKNOWN_TAG);
    assert_int_equal(answer.len, 0);
    make(a, "order");
    assert_int_equal(fsm_query(a->fsm, query.data, query.len, &answer), 0);
    assert_int_equal(tag_rows_decode(answer.data, answer.len, &rows), 0);
    assert_int_equal(rows.count, 1);
    assert_memory_equal(rows.rows[0].name, "order", rows.rows[0].name_len);
    tag_rows_release(&rows);
    assert_int_equal(id_apply_delete(a, "order"), 0);
    answer.len = 0;
    assert_int_equal(fsm_query(a->fsm, query.data, query.len, &answer), ERR_UNKNOWN_TAG);
    assert_int_equal(fsm_query(a->fsm, query.data, query.len - 1, &answer), ERR_BAD_MESSAGE);
    assert_int_equal(answer.len, 0);
    buf_free(&query);
    buf_free(&answer);
}

/* --- nodes --- */

static int put_node(struct id_apply *a, uint64_t id, const char *address)
{
    struct node_info info = {.node_id = id, .store_id = 5, .version = "0.1.0", .levels = {1, 1}};
    struct buf command = BUF_INIT;
    int err;

    memcpy(info.http_address, address, strlen(address) + 1);
    cluster_command_put(&command, COMMAND_NODE_INFO, &info);
    a->next = (struct session_stamp){id, 1, a->index + 1, a->index + 1};
    err = id_apply_bytes(a, &command);
    buf_free(&command);
    return err;
}

static void test_nodes_are_registered(void **state)
{
    struct id_apply *a = *state;
    const uint64_t ids[] = {300, 2, 65535, 1, 40, 3, 5, 4, 9, 8};
    struct node_info info;

    assert_null(state_node(fsm_state(a->fsm), 1));
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        assert_int_equal(put_node(a, ids[i], "h:1"), 0);
        assert_int_equal(a->changed, 1);
    }
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        assert_non_null(state_node(fsm_state(a->fsm), ids[i]));
        info = *state_node(fsm_state(a->fsm), ids[i]);
        assert_true(info.node_id == ids[i]);
    }
    assert_null(state_node(fsm_state(a->fsm), 6));
    assert_int_equal(put_node(a, 2, "h:1"), 0);
    assert_int_equal(a->changed, 0); /* nothing differs */
    assert_int_equal(put_node(a, 2, "h:2"), 0);
    assert_int_equal(a->changed, 1);
    assert_non_null(state_node(fsm_state(a->fsm), 2));
    info = *state_node(fsm_state(a->fsm), 2);
    assert_string_equal(info.http_address, "h:2");
    assert_int_equal(fsm_tag_count(a->fsm), 0);
}

static void test_a_node_tells_of_itself_alone(void **state)
{
    struct id_apply *a = *state;
    struct node_info info = {.node_id = 2, .store_id = 5, .levels = {1, 1}};
    struct buf command = BUF_INIT;

    cluster_command_put(&command, COMMAND_NODE_INFO, &info);
    assert_int_equal(id_apply_as(a, 1, &command), ERR_BAD_MESSAGE);
    assert_int_equal(id_apply_as(a, 2, &command), 0);
    assert_int_equal(a->changed, 1);
    buf_free(&command);
}

static void test_row_keys_are_golden(void **state)
{
    struct id_apply *a = *state;

    make(a, "a/b");
    assert_int_equal(put_node(a, 0x0102, "h:1"), 0);
    assert_int_equal(a->row_count, 4);
    assert_true(hex_equal(&a->rows[0].key, "74 612f62"));
    assert_true(hex_equal(&a->rows[1].key, "61 0000000000000001 0000"));
    assert_true(hex_equal(&a->rows[2].key, "6e 0000000000000102"));
    assert_true(hex_equal(&a->rows[3].key, "61 0000000000000102 0000"));
}

/* --- noop and digest --- */

static int32_t apply_status(struct id_apply *a, struct buf *command, int wanted)
{
    int32_t status = 1;

    assert_int_equal(id_apply_bytes(a, command), wanted);
    assert_int_equal(status_result_decode(a->result.data, a->result.len, &status), 0);
    buf_free(command);
    return status;
}

/* Not even who began the term; and of one that carries a stamp, the answer stays. */
static void test_noop_changes_nothing(void **state)
{
    struct id_apply *a = *state;
    struct buf command = BUF_INIT;
    struct buf result = BUF_INIT;
    struct row_changes changes = {0};
    uint64_t digest = state_digest(fsm_state(a->fsm));

    cluster_command_put(&command, COMMAND_NOOP, NULL);
    assert_int_equal(
        state_apply(fsm_state(a->fsm), ++a->index, 1, command.data, command.len, &result, &changes),
        0);
    assert_int_equal(changes.count, 0);
    assert_true(state_digest(fsm_state(a->fsm)) == digest);
    assert_int_equal(apply_status(a, &command, 0), 0);
    assert_int_equal(a->changed, 0);
    assert_int_equal(a->row_count, 1);
    assert_true(id_apply_digest(a) == digest);
    buf_free(&result);
}

static void check_digest(struct id_apply *a, uint64_t index, uint64_t digest, int wanted)
{
    struct buf command = BUF_INIT;

    cluster_command_put(&command, COMMAND_DIGEST,
                        &(struct digest_command){.index = index, .digest = digest});
    assert_int_equal(apply_status(a, &command, wanted), 0); /* the rows are the same anyway */
}

static void test_digest_is_compared_at_its_index(void **state)
{
    struct id_apply *a = *state;
    uint64_t first;
    uint64_t second;

    make(a, "a"); /* index 1 */
    first = state_digest(fsm_state(a->fsm));
    make(a, "b"); /* index 2 */
    second = state_digest(fsm_state(a->fsm));
    assert_true(first != second && first != 0);
    check_digest(a, 1, first, 0);
    check_digest(a, 2, second, 0);
    check_digest(a, 1, second, ERR_DIVERGED);
    check_digest(a, 2, first, ERR_DIVERGED);
    second =
        state_digest(fsm_state(a->fsm)); /* the digest commands themselves count as any other */
    check_digest(a, a->index, second, 0);
    check_digest(a, a->index - 1, first, ERR_DIVERGED);
    check_digest(a, 100, 1, 0); /* not there yet */
    check_digest(a, 0, 1, 0);
}

static void test_digest_memory_is_8192_entries(void **state)
{
    struct id_apply *a = *state;

    make(a, "a"); /* index 1 */
    while (a->index < 8192) {
        struct buf command = BUF_INIT;

        cluster_command_put(&command, COMMAND_NOOP, NULL);
        assert_int_equal(apply_status(a, &command, 0), 0);
    }
    check_digest(a, 1, 12345, ERR_DIVERGED); /* this is entry 8193, and takes 1's place */
    check_digest(a, 1, 12345, 0);
    check_digest(a, 8193, 12345, ERR_DIVERGED);
}

static void test_digest_undoes_changes(void **state)
{
    struct id_apply *a = *state;
    struct tag_put put = {.name = "a", .fields = TAG_FIELD_STEP, .step = 10};
    uint64_t first;

    struct fsm *loaded = fsm_of(state_new(&fsm_machine));

    (void)id_apply_put(a, put, false);
    first = id_apply_digest(a);
    put.step = 11;
    (void)id_apply_put(a, put, false);
    assert_true(id_apply_digest(a) != first);
    put.step = 10;
    (void)id_apply_put(a, put, false);
    assert_true(id_apply_digest(a) == first);
    id_apply_load(a, loaded); /* and with the answers, it is that of the rows that are left */
    assert_true(state_digest(fsm_state(loaded)) == state_digest(fsm_state(a->fsm)));
    state_free(fsm_state(loaded));
}

/* --- loading --- */

/* Shows lesson-install. */
static void test_load_replaces_everything(void **state)
{
    struct id_apply *a = *state;
    struct fsm *other = fsm_of(state_new(&fsm_machine));
    struct id_apply b;

    make(a, "a");
    make(a, "b");
    (void)id_apply_put(
        a, (struct tag_put){.name = "a", .fields = TAG_FIELD_DESCRIPTION, .description = "A"},
        false);
    assert_int_equal(id_apply_delete(a, "b"), 0);
    assert_int_equal(put_node(a, 3, "h:3"), 0);
    id_apply_init(&b);
    make(&b, "zzz");
    assert_int_equal(put_node(&b, 4, "h:4"), 0);
    id_apply_load(a, b.fsm); /* over what was there */
    id_apply_load(a, other);
    assert_true(state_digest(fsm_state(b.fsm)) == state_digest(fsm_state(a->fsm)));
    assert_true(state_digest(fsm_state(other)) == state_digest(fsm_state(a->fsm)));
    assert_int_equal(fsm_tag_count(b.fsm), 2);
    assert_null(fsm_tag(b.fsm, "zzz", 3));
    assert_null(state_node(fsm_state(b.fsm), 4));
    assert_non_null(state_node(fsm_state(b.fsm), 3));
    assert_string_equal(fsm_tag(b.fsm, "a", 1)->description, "A");
    assert_true(fsm_tag(b.fsm, "b", 1)->deleted);
    /* Only the digest at the loaded index is remembered. */
    b.index = a->index;
    b.stamps = a->stamps;
    check_digest(&b, 1, 12345, 0);
    check_digest(&b, a->index, 12345, ERR_DIVERGED);
    id_apply_free(&b);
    state_free(fsm_state(other));
}

/* Shows P7-log. */
static void test_load_refuses_damage(void **state)
{
    const char *tag = "03 00 00 00 01000000 0a000000 64000000 0500000000000000 "
                      "0000000000000000 0000000000000000 0000";
    const char *node = "02 0500000000000000 0000 0000 0000 0100 0100 0000000000000000";
    struct fsm *fsm = ((struct id_apply *)*state)->fsm;

    state_load_begin(fsm_state(fsm));
    assert_int_equal(id_load_hex(fsm, "74 61", tag), 0);
    assert_int_equal(id_load_hex(fsm, "74 61", tag), ERR_EXISTS);
    assert_int_equal(id_load_hex(fsm, "74", tag), ERR_CORRUPT);    /* no name */
    assert_int_equal(id_load_hex(fsm, "74 0a", tag), ERR_CORRUPT); /* a line feed */
    assert_int_equal(id_load_hex(fsm, "74 62", ""), ERR_TRUNCATED);
    assert_int_equal(id_load_hex(fsm, "74 62", "01"), ERR_BAD_VERSION);
    assert_int_equal(id_load_hex(fsm, "74 62", "03 00"), ERR_TRUNCATED);
    assert_int_equal(id_load_hex(fsm, "", tag), ERR_CORRUPT);
    assert_int_equal(id_load_hex(fsm, "7a 61", tag), ERR_NEWER); /* no such table, yet */
    assert_int_equal(id_load_hex(fsm, "6e 0000000000000001", node), 0);
    assert_int_equal(id_load_hex(fsm, "6e 0000000000000001", node), ERR_EXISTS);
    assert_int_equal(id_load_hex(fsm, "6e 00000000000001", node), ERR_CORRUPT); /* 7 bytes */
    assert_int_equal(id_load_hex(fsm, "6e 000000000000000001", node), ERR_CORRUPT);
    assert_int_equal(id_load_hex(fsm, "6e 0000000000000000", node), ERR_CORRUPT); /* node 0 */
    assert_int_equal(id_load_hex(fsm, "6e 0000000000010000", node), ERR_CORRUPT); /* 65536 */
    assert_int_equal(id_load_hex(fsm, "6e 0000000000000002", "02 05"), ERR_TRUNCATED);
    assert_int_equal(id_load_hex(fsm, "6e 0000000000000002", "09"), ERR_BAD_VERSION);
    assert_int_equal(state_load_end(fsm_state(fsm), 1), 0);
    assert_int_equal(fsm_tag_count(fsm), 1);
}

/* --- listener --- */

struct watcher {
    struct fsm_listener listener;
    char heard[64];
};

static void tag_changed_cb(struct fsm_listener *listener, const struct tag_row *row,
                           const struct fsm_tag_before *before)
{
    struct watcher *watcher = (struct watcher *)listener;
    size_t len = strlen(watcher->heard);

    (void)before;
    (void)snprintf(watcher->heard + len, sizeof watcher->heard - len, "%s%s:%u ", row->name,
                   row->deleted ? "-" : "", row->generation);
}

static void test_listener_hears_of_each_change(void **state)
{
    struct id_apply *a = *state;
    struct watcher watcher = {.listener = {.tag_changed = tag_changed_cb}};
    struct fsm *other = fsm_of(state_new(&fsm_machine));
    const struct tag_put puts[2] = {{.name = "b"}, {.name = "a"}};

    fsm_listen(a->fsm, &watcher.listener);
    (void)id_apply_puts(a, puts, 2, false);
    (void)id_apply_grant(a, "a", 1);
    (void)id_apply_grant(a, "none", 1);
    (void)id_apply_delete(a, "b");
    assert_string_equal(watcher.heard, "b:1 a:1 a:1 b-:2 ");
    fsm_listen(a->fsm, NULL);
    make(a, "c");
    assert_string_equal(watcher.heard, "b:1 a:1 a:1 b-:2 ");
    watcher.heard[0] = '\0';
    fsm_listen(other, &watcher.listener);
    id_apply_load(a, other); /* all of them, when the load is through */
    assert_string_equal(watcher.heard, "a:1 b-:2 c:1 ");
    state_free(fsm_state(other));
}

static void before_cb(struct fsm_listener *listener, const struct tag_row *row,
                      const struct fsm_tag_before *before)
{
    struct watcher *watcher = (struct watcher *)listener;
    size_t len = strlen(watcher->heard);

    if (before->known) {
        (void)snprintf(watcher->heard + len, sizeof watcher->heard - len, "%s:%llu ", row->name,
                       (unsigned long long)before->max_id);
    }
    assert_true(before->known || (before->max_id == 0 && !before->recalling));
}

/* With what it was; a new one was nothing. */
static void test_listener_hears_what_each_was(void **state)
{
    struct id_apply *a = *state;
    struct watcher watcher = {.listener = {.tag_changed = before_cb}};
    struct fsm *other = fsm_of(state_new(&fsm_machine));

    fsm_listen(a->fsm, &watcher.listener);
    make(a, "a");
    assert_string_equal(watcher.heard, "");
    (void)id_apply_grant(a, "a", 10);
    (void)id_apply_grant(a, "a", 10);
    (void)id_apply_delete(a, "a");
    assert_string_equal(watcher.heard, "a:1 a:11 a:21 ");
    watcher.heard[0] = '\0';
    fsm_listen(other, &watcher.listener);
    id_apply_load(a, other); /* nothing changes by that */
    assert_string_equal(watcher.heard, "");
    state_free(fsm_state(other));
}

/* --- any bytes --- */

/* Mutations make names of their own: begin anew when there are so many rows. */
#define RESTART_ROWS 448
#define RESTART_STEPS 10000

/* The rows that were listed give the same state again; then both begin anew. */
static void compare_and_restart(struct id_apply *a, struct id_apply *b)
{
    struct fsm *loaded = fsm_of(state_new(&fsm_machine));

    id_apply_load(a, loaded);
    assert_true(state_digest(fsm_state(loaded)) == state_digest(fsm_state(a->fsm)));
    assert_int_equal(fsm_tag_count(loaded), fsm_tag_count(a->fsm));
    state_free(fsm_state(loaded));
    id_apply_free(a);
    id_apply_free(b);
    id_apply_init(a);
    id_apply_init(b);
}

/* Now and then, the command becomes one that gives back the topmost ids of a tag, or a copy of the
 * last such command. */
static void maybe_give_back(struct prng *prng, const struct fsm *fsm, struct give_back_item *last,
                            struct buf *command)
{
    static char name[4];
    const struct tag_row *row;
    struct session_stamp stamp;

    if (prng_below(prng, 8) != 0 || session_stamp_read(command->data, command->len, &stamp) != 0 ||
        stamp.node_id == 0) {
        return;
    }
    id_random_name(prng, name);
    row = fsm_tag(fsm, name, 2);
    if (prng_below(prng, 3) > 0 && row != NULL && row->max_id > 0) {
        *last = (struct give_back_item){.name = row->name,
                                        .name_len = row->name_len,
                                        .generation = row->generation,
                                        .first = row->max_id - row->max_id / 8 - 1,
                                        .end = row->max_id};
    }
    if (last->name_len > 0) {
        command->len = 0;
        command_put(command, COMMAND_GIVE_BACK, &(struct command_list){.wall_ms = 0});
        command_item_put(command, COMMAND_GIVE_BACK, last);
        command_items_end(command);
        session_stamp_put(command, &stamp);
    }
}

/* Two state machines go through the same bytes: nothing stops them, and they never differ in result
 * or digest. */
/* Shows P7-log, lesson-deterministic. */
static void test_any_bytes_keep_replicas_equal(void **state)
{
    struct id_apply *a = *state;
    struct id_apply *b = calloc(1, sizeof *b);
    struct give_back_item given = {0};
    size_t bad = 0;
    struct prng prng;

    assert_non_null(b);
    id_apply_init(b);
    prng_seed(&prng, 2026);
    for (unsigned i = 0; i < 100000; i++) {
        struct buf command = BUF_INIT;
        int err;

        id_random_bytes(&prng, i, &command);
        maybe_give_back(&prng, a->fsm, &given, &command);
        err = id_apply_bytes(a, &command);
        assert_int_equal(id_apply_bytes(b, &command), err);
        buf_free(&command);
        /* A mutated digest command may name an entry, and then differ from it. */
        assert_true(err == 0 || err == ERR_BAD_MESSAGE || err == ERR_NEWER || err == ERR_DIVERGED);
        bad += err != 0;
        assert_int_equal(a->result.len, b->result.len);
        assert_memory_equal(a->result.data, b->result.data, a->result.len);
        assert_true(state_digest(fsm_state(a->fsm)) == state_digest(fsm_state(b->fsm)));
        if (a->row_count > RESTART_ROWS || i % RESTART_STEPS == 0) {
            compare_and_restart(a, b);
            given = (struct give_back_item){0};
        }
    }
    assert_in_range(bad, 10000, 60000);
    compare_and_restart(a, b);
    id_apply_free(b);
    free(b);
}

/* What test_random_grants_never_overlap knows of a tag. */
struct granted {
    uint64_t end; /* of what was granted in this generation and not given back */
    uint32_t generation;
    struct buf given;   /* the command that gave back last */
    uint64_t given_seq; /* its number */
};

#define HOLDER 9      /* no node of id_random.c */
#define HOLDER_HAS 50 /* commands that it waits for */

/* Half of the segment is given back. */
static void give_back_half(struct id_apply *a, const char *name, struct granted *granted,
                           const struct grant_result *result)
{
    struct give_back_item item = {.name = name,
                                  .generation = result->generation,
                                  .first = result->first + result->size / 2,
                                  .end = granted->end};

    assert_int_equal(id_apply_give_back(a, item), 0);
    granted->end = item.first;
    buf_free(&granted->given);
    granted->given = id_apply_copy(a);
    granted->given_seq = a->stamps.seqs[HOLDER];
}

/* A copy comes of what was given back before: it is told the same again, or too late for that. True
 * if it was awaited. */
static bool give_back_again(struct id_apply *a, struct granted *granted)
{
    uint64_t digest = state_digest(fsm_state(a->fsm));
    bool awaited = granted->given_seq >= a->stamps.awaited[HOLDER];
    int32_t status = 1;
    size_t count = 0;

    id_apply_again(a, &granted->given);
    assert_int_equal(a->changed, 0);
    assert_true(state_digest(fsm_state(a->fsm)) == digest);
    assert_int_equal(id_apply_refused(a), awaited ? 0 : ERR_STALE);
    if (awaited) {
        assert_int_equal(
            results_decode(RESULT_STATUSES, a->result.data, a->result.len, &status, 1, &count), 0);
        assert_int_equal(status, 0);
    }
    return awaited;
}

/* Another command of the node. */
static void await_one_more(struct id_stamps *stamps)
{
    uint64_t next = stamps->seqs[HOLDER] + 1;

    stamps->awaited[HOLDER] = next > HOLDER_HAS ? next - HOLDER_HAS : 1;
}

/* Grants of random commands, ranges given back and copies of that never hand out an id of a
 * generation twice. */
static void test_random_grants_never_overlap(void **state)
{
    struct granted tags[16] = {{0}};
    struct id_apply *a = *state;
    struct prng prng;
    unsigned counts[4] = {0};

    prng_seed(&prng, 99);
    a->node_id = HOLDER;
    for (unsigned i = 0; i < 20000; i++) {
        struct buf command = BUF_INIT;
        char name[4];
        struct grant_result result;
        struct granted *tag;

        id_random_command(&prng, i, &command);
        assert_int_equal(id_apply_bytes(a, &command), 0);
        buf_free(&command);
        id_random_name(&prng, name);
        tag = &tags[(name[0] - 'a') * 4 + (name[1] - 'a')];
        await_one_more(&a->stamps);
        result = id_apply_grant(a, name, 1 + (uint32_t)prng_below(&prng, 5000));
        assert_true(result.generation >= tag->generation);
        if (result.generation > tag->generation) {
            tag->generation = result.generation;
            tag->end = 0;
        }
        if (result.status != 0) {
            continue;
        }
        assert_true(result.first >= tag->end);
        tag->end = result.first + result.size;
        counts[0]++;
        if (tag->given.len > 0 && prng_below(&prng, 2) == 0) {
            counts[1 + give_back_again(a, tag)]++;
        } else if (prng_below(&prng, 2) == 0) {
            await_one_more(&a->stamps);
            give_back_half(a, name, tag, &result);
            counts[3]++;
        }
    }
    for (size_t i = 0; i < 16; i++) {
        buf_free(&tags[i].given);
    }
    assert_true(counts[0] > 1000 && counts[1] > 300 && counts[2] > 300 && counts[3] > 300);
}

static void apply_newer(struct id_apply *a, const char *hex)
{
    struct buf command = BUF_INIT;

    hex_put(&command, hex);
    assert_int_equal(id_apply_bytes(a, &command), ERR_NEWER);
    assert_int_equal(a->result.len, 0); /* as if it were not there yet */
    buf_free(&command);
}

static void test_bad_bytes_are_told_so(void **state)
{
    struct id_apply *a = *state;
    struct buf command = BUF_INIT;

    assert_int_equal(apply_status(a, &command, ERR_BAD_MESSAGE), ERR_BAD_MESSAGE);
    apply_newer(a, "04 01 " ID_STAMP_EMPTY); /* a later version */
    hex_put(&command, "03 01");              /* without its stamp */
    assert_int_equal(apply_status(a, &command, ERR_BAD_MESSAGE), ERR_BAD_MESSAGE);
    apply_newer(a, "03 3f " ID_STAMP_EMPTY); /* a later command */
    query_get_encode(&command, "a", 1);
    assert_int_equal(id_apply_bytes(a, &command), ERR_NEWER);
    buf_free(&command);
    /* Good items before the broken one change nothing. */
    command_put(&command, COMMAND_TAGS_PUT, &(struct command_list){.force = false, .wall_ms = 1});
    command_item_put(&command, COMMAND_TAGS_PUT, &(struct tag_put){.name = "a", .name_len = 1});
    assert_int_equal(apply_status(a, &command, ERR_BAD_MESSAGE), ERR_BAD_MESSAGE);
    assert_int_equal(fsm_tag_count(a->fsm), 0);
    assert_int_equal(a->row_count, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, id_apply_begin, id_apply_drop)
    const struct CMUnitTest tests[] = {
        TEST(test_query_get),
        TEST(test_nodes_are_registered),
        TEST(test_a_node_tells_of_itself_alone),
        TEST(test_row_keys_are_golden),
        TEST(test_noop_changes_nothing),
        TEST(test_digest_is_compared_at_its_index),
        TEST(test_digest_memory_is_8192_entries),
        TEST(test_digest_undoes_changes),
        TEST(test_load_replaces_everything),
        TEST(test_load_refuses_damage),
        TEST(test_listener_hears_of_each_change),
        TEST(test_listener_hears_what_each_was),
        TEST(test_any_bytes_keep_replicas_equal),
        TEST(test_random_grants_never_overlap),
        TEST(test_bad_bytes_are_told_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
