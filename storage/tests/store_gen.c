/*
 * store_gen.c - see store_gen.h.
 */
#include "storage/tests/store_gen.h"

#include <stdlib.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "src/base/assert.h"
#include "src/base/hash.h"

/* An operation with the memory it points to. */
struct gen_op {
    struct store_op op; /* first */
    struct buf conf;
    struct buf stream;
    void *local;
    struct store_entry *entries;
    struct state_row *rows;
};

static struct gen_op *op_new(enum store_op_kind kind)
{
    struct gen_op *op = calloc(1, sizeof *op);

    ASSERT(op != NULL);
    op->op.kind = kind;
    return op;
}

static void *bytes_new(struct gen *gen, size_t len)
{
    uint8_t *bytes = malloc(len + 1);

    ASSERT(bytes != NULL);
    for (size_t i = 0; i < len; i++) {
        bytes[i] = (uint8_t)prng_next(&gen->prng);
    }
    return bytes;
}

static size_t key_make(size_t i, char key[16])
{
    struct buf buf = BUF_INIT;
    size_t len;

    buf_printf(&buf, "t%zu", i * 7919 % 1000);
    len = buf.len;
    memcpy(key, buf.data, len);
    buf_free(&buf);
    return len;
}

static uint64_t value_hash(struct gen *gen, size_t i)
{
    char key[16];
    size_t len = key_make(i, key);

    return gen->values[i].len == 0 ? 0
                                   : hash_row(key, len, gen->values[i].data, gen->values[i].len);
}

static void value_change(struct gen *gen, size_t i)
{
    size_t len = 1 + (size_t)prng_below(&gen->prng, 300);
    void *bytes = bytes_new(gen, len);

    gen->position.digest -= value_hash(gen, i);
    buf_free(&gen->values[i]);
    buf_put(&gen->values[i], bytes, len);
    gen->position.digest += value_hash(gen, i);
    free(bytes);
}

static void value_delete(struct gen *gen, size_t i)
{
    ASSERT(gen->values[i].len > 0);
    gen->position.digest -= value_hash(gen, i);
    buf_free(&gen->values[i]);
}

void gen_init(struct gen *gen, uint64_t seed)
{
    memset(gen, 0, sizeof *gen);
    prng_seed(&gen->prng, seed);
    gen->first = 1;
    gen->terms = calloc(GEN_LOG_MAX, sizeof *gen->terms);
    ASSERT(gen->terms != NULL);
    gen->max_entry_bytes = 400;
}

void gen_release(struct gen *gen)
{
    for (size_t i = 0; i < GEN_KEYS; i++) {
        buf_free(&gen->values[i]);
    }
    store_position_release(&gen->position);
    free(gen->terms);
}

struct store_op *gen_hard_state(struct gen *gen, uint64_t term, uint64_t vote)
{
    struct gen_op *op = op_new(STORE_HARD_STATE);

    gen->term = op->op.term = term;
    gen->vote = op->op.vote = vote;
    return &op->op;
}

struct store_op *gen_append(struct gen *gen, uint64_t index, uint32_t count)
{
    struct gen_op *op = op_new(STORE_APPEND);

    ASSERT(index + count < GEN_LOG_MAX);
    op->entries = calloc(count + 1, sizeof *op->entries);
    ASSERT(op->entries != NULL);
    for (uint32_t i = 0; i < count; i++) {
        struct store_entry *entry = &op->entries[i];

        entry->term = gen->term;
        entry->type = (uint8_t)(1 + prng_below(&gen->prng, 3));
        entry->len = (uint32_t)prng_below(&gen->prng, gen->max_entry_bytes);
        entry->data = bytes_new(gen, entry->len);
        gen->terms[index + i] = entry->term;
    }
    op->op.index = index;
    op->op.entries = op->entries;
    op->op.entry_count = count;
    gen->last = index + count - 1;
    return &op->op;
}

/* Move the generator's position, with a configuration that changes now and then. */
static void position_move(struct gen *gen, struct gen_op *op, uint64_t index, uint64_t term)
{
    gen->position.index = index;
    gen->position.term = term;
    if (index > 0 && prng_below(&gen->prng, 4) == 0) {
        free((void *)(uintptr_t)gen->position.conf);
        gen->position.conf_len = (uint32_t)(1 + prng_below(&gen->prng, 60));
        gen->position.conf = bytes_new(gen, gen->position.conf_len);
        gen->position.conf_index = index;
    }
    buf_put(&op->conf, gen->position.conf, gen->position.conf_len);
    op->op.position = gen->position;
    op->op.position.conf = op->conf.data;
}

struct store_op *gen_apply(struct gen *gen, uint64_t index, uint32_t changes)
{
    struct gen_op *op = op_new(STORE_APPLY);
    uint64_t term = index < gen->first ? gen->position.term : gen->terms[index];
    size_t i = 0;

    op->rows = calloc(changes + 1, sizeof *op->rows);
    ASSERT(op->rows != NULL);
    for (uint32_t n = 0; n < changes; n++) {
        struct state_row *row = &op->rows[n];
        char key[16];

        /* Often the same key again, so that one operation puts and deletes it several times. */
        if (n == 0 || prng_below(&gen->prng, 3) > 0) {
            i = (size_t)prng_below(&gen->prng, GEN_KEYS);
        }
        if (gen->values[i].len > 0 && prng_below(&gen->prng, 5) < 2) {
            value_delete(gen, i);
        } else {
            value_change(gen, i);
        }
        row->key_len = (uint32_t)key_make(i, key);
        row->key = memcpy(malloc(sizeof key), key, sizeof key);
        row->value_len = (uint32_t)gen->values[i].len;
        if (row->value_len > 0) {
            row->value = memcpy(malloc(row->value_len), gen->values[i].data, row->value_len);
        }
    }
    op->op.rows = op->rows;
    op->op.row_count = changes;
    position_move(gen, op, index, term);
    return &op->op;
}

struct store_op *gen_puts(struct gen *gen, uint64_t index)
{
    struct gen_op *op = op_new(STORE_APPLY);
    uint64_t term = index < gen->first ? gen->position.term : gen->terms[index];
    size_t from = (size_t)prng_below(&gen->prng, GEN_KEYS);

    op->rows = calloc(GEN_KEYS, sizeof *op->rows);
    ASSERT(op->rows != NULL);
    for (size_t n = 0; n < GEN_KEYS; n++) {
        size_t i = (from + n) % GEN_KEYS;
        struct state_row *row = &op->rows[n];
        char key[16];

        value_change(gen, i);
        row->key_len = (uint32_t)key_make(i, key);
        row->key = memcpy(malloc(sizeof key), key, sizeof key);
        row->value_len = (uint32_t)gen->values[i].len;
        row->value = memcpy(malloc(row->value_len), gen->values[i].data, row->value_len);
    }
    op->op.rows = op->rows;
    op->op.row_count = GEN_KEYS;
    position_move(gen, op, index, term);
    return &op->op;
}

static int key_order(const void *a, const void *b)
{
    char key_a[16] = {0};
    char key_b[16] = {0};

    (void)key_make(*(const size_t *)a, key_a);
    (void)key_make(*(const size_t *)b, key_b);
    return memcmp(key_a, key_b, sizeof key_a);
}

struct store_op *gen_install(struct gen *gen, uint64_t index)
{
    struct gen_op *op = op_new(STORE_INSTALL);
    size_t order[GEN_KEYS];
    char key[16];

    gen->position.digest = 0;
    for (size_t i = 0; i < GEN_KEYS; i++) {
        order[i] = i;
        buf_free(&gen->values[i]);
        if (prng_below(&gen->prng, 3) > 0) {
            value_change(gen, i);
        }
    }
    qsort(order, GEN_KEYS, sizeof order[0], key_order);
    for (size_t n = 0; n < GEN_KEYS; n++) {
        const struct buf *value = &gen->values[order[n]];
        size_t len = key_make(order[n], key);

        if (value->len > 0) {
            buf_put_str16(&op->stream, key, len);
            buf_put_str32(&op->stream, value->data, value->len);
        }
    }
    op->op.rows_stream = op->stream.data;
    op->op.rows_stream_len = op->stream.len;
    position_move(gen, op, index, gen->term);
    gen->first = index + 1;
    gen->last = index;
    return &op->op;
}

struct store_op *gen_compact(struct gen *gen, uint64_t index)
{
    struct gen_op *op = op_new(STORE_COMPACT);

    (void)gen;
    op->op.index = index;
    return &op->op;
}

struct store_op *gen_local(struct gen *gen, uint32_t key)
{
    struct gen_op *op = op_new(STORE_LOCAL);
    uint64_t most;

    op->op.local_key = key;
    /* Mostly small ones, now and then one of several pages. */
    most = prng_below(&gen->prng, 4) > 0 ? 200 : LIMIT_LOCAL_RECORD_BYTES;
    op->op.local_len = (uint32_t)(1 + prng_below(&gen->prng, most));
    op->op.local = op->local = bytes_new(gen, op->op.local_len);
    return &op->op;
}

/* A new term, or a vote in the present one, if that has none. */
static struct store_op *any_hard_state(struct gen *gen)
{
    bool within = gen->term > 0 && gen->vote == 0 && prng_below(&gen->prng, 2) == 0;
    uint64_t vote = prng_below(&gen->prng, 4);

    return gen_hard_state(gen, within ? gen->term : gen->term + 1, vote);
}

/* One draw a statement: the order of arguments is the compiler's, and a seed must mean the same
 * everywhere. */
struct store_op *gen_any(struct gen *gen)
{
    uint64_t applied = gen->position.index;
    uint64_t open = gen->last - applied;
    uint64_t die = gen->term == 0 ? 99 : prng_below(&gen->prng, 100);
    uint32_t count = (uint32_t)prng_below(&gen->prng, 12);

    if (die < 45) {
        uint64_t back = prng_below(&gen->prng, 4) == 0 ? prng_below(&gen->prng, open + 1) : 0;

        return gen_append(gen, gen->last + 1 - back, count);
    }
    if (die < 70) {
        return gen_apply(gen, applied + prng_below(&gen->prng, open + 1), count / 2);
    }
    if (die < 75) {
        return gen_puts(gen, applied + prng_below(&gen->prng, open + 1));
    }
    if (die < 85) {
        return gen_compact(gen, prng_below(&gen->prng, applied + 2));
    }
    if (die < 88) {
        return gen_install(gen, applied + prng_below(&gen->prng, open + 20));
    }
    if (die < 92) {
        return gen_local(gen, (uint32_t)prng_below(&gen->prng, LIMIT_LOCAL_RECORDS));
    }
    return any_hard_state(gen);
}

void gen_op_free(struct store_op *op)
{
    struct gen_op *gen_op = (struct gen_op *)op;

    for (uint32_t i = 0; i < op->entry_count; i++) {
        free((void *)(uintptr_t)gen_op->entries[i].data);
    }
    for (uint32_t i = 0; i < op->row_count; i++) {
        free((void *)(uintptr_t)gen_op->rows[i].key);
        free((void *)(uintptr_t)gen_op->rows[i].value);
    }
    free(gen_op->local);
    free(gen_op->entries);
    free(gen_op->rows);
    buf_free(&gen_op->conf);
    buf_free(&gen_op->stream);
    free(gen_op);
}

int gen_commit(struct store *store, struct store_op *op, struct store_error *ret_error)
{
    struct store_op_list list = STAILQ_HEAD_INITIALIZER(list);
    int err;

    STAILQ_INSERT_TAIL(&list, op, link);
    err = store->ops->commit(store, &list, ret_error);
    gen_op_free(op);
    return err;
}

static int dump_row(void *data, const struct state_row *row)
{
    struct buf *out = data;

    buf_put_str16(out, row->key, row->key_len);
    buf_put_str32(out, row->value, row->value_len);
    return 0;
}

static void dump_position(struct buf *out, const struct store_position *position)
{
    buf_put_u64(out, position->index);
    buf_put_u64(out, position->term);
    buf_put_u64(out, position->conf_index);
    buf_put_u64(out, position->digest);
    buf_put_str32(out, position->conf, position->conf_len);
}

int gen_dump(struct store *store, struct buf *out, struct store_error *ret_error)
{
    struct store_loaded loaded;
    int err = store->ops->load(store, &loaded, dump_row, out, ret_error);

    if (err != 0) {
        return err;
    }
    buf_put_str16(out, loaded.identity.cluster_id, strlen(loaded.identity.cluster_id));
    buf_put_u64(out, loaded.identity.node_id);
    buf_put_u64(out, loaded.term);
    buf_put_u64(out, loaded.vote);
    buf_put_u64(out, loaded.first_index);
    for (size_t i = 0; i < loaded.entry_count; i++) {
        buf_put_u64(out, loaded.entries[i].term);
        buf_put_u8(out, loaded.entries[i].type);
        buf_put_str32(out, loaded.entries[i].data, loaded.entries[i].len);
    }
    dump_position(out, &loaded.position);
    for (size_t i = 0; i < LIMIT_LOCAL_RECORDS; i++) {
        buf_put_str32(out, loaded.locals[i].data, loaded.locals[i].len);
    }
    store_loaded_release(&loaded);
    return 0;
}

void gen_must_dump(struct store *store, struct buf *content)
{
    struct store_error error = {""};

    content->len = 0;
    if (gen_dump(store, content, &error) != 0) {
        fail_msg("load: %s", error.text);
    }
}

bool gen_same(const struct buf *a, const struct buf *b)
{
    return a->len == b->len && memcmp(a->data, b->data, a->len) == 0;
}

int gen_snapshot(struct store *store, size_t max_bytes, struct buf *rows,
                 struct store_position *ret_position)
{
    struct store_snapshot *snapshot;
    struct store_position position;
    bool end = false;
    int err = store->ops->snapshot_open(store, &snapshot, &position);

    if (err != 0) {
        return err;
    }
    store_position_copy(ret_position, &position);
    while (err == 0 && !end) {
        err = store->ops->snapshot_read(store, snapshot, max_bytes, rows, &end);
    }
    store->ops->snapshot_close(store, snapshot);
    return err;
}
