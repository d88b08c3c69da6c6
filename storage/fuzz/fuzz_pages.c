/*
 * fuzz_pages.c - any damage to the pages of a data file: it is refused with a reason, or what was
 * written is all there, and goes on to be.
 *
 * The input is a list of changes of a good file, each {kind, page, offset, bytes}: bytes set, a
 * number added to a field, a page copied over another, the file cut. The check of the structure
 * runs here, where the sanitizers see each of its steps; what it lets pass is opened, read, written
 * to and read again.
 *
 * Thread: one.
 */
#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"
#include "storage/lmdb/check.h"
#include "storage/lmdb/store.h"
#include "storage/lmdb/tests/tmp_dir.h"
#include "storage/tests/store_gen.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

#define PAGE_BYTES 4096u
#define CHANGES_MAX 16
#define OPERATIONS 60

static struct {
    struct tmp_dir dir;
    char path[TMP_PATH_BYTES];
    struct store_lmdb_config config;
    struct buf file;    /* that is good, */
    struct buf content; /* and what a store has that is opened on it */
    uint64_t last;
    uint64_t term;
} stage;

static void remove_stage(void)
{
    tmp_dir_remove(&stage.dir);
}

static void set_stage(void)
{
    struct store_error error;
    struct store *store;
    struct gen gen;
    bool made;

    tmp_dir_make(&stage.dir);
    ASSERT(atexit(remove_stage) == 0);
    (void)tmp_dir_path(&stage.dir, "db/data.mdb", stage.path);
    stage.config =
        (struct store_lmdb_config){.dir = stage.dir.path,
                                   .map_bytes = 4 << 20,
                                   .identity = {.cluster_id = "d", .node_id = 1, .store_id = 1}};
    ASSERT(store_lmdb_open(&stage.config, &store, &made, &error) == 0);
    gen_init(&gen, 15);
    gen.max_entry_bytes = 300;
    for (unsigned i = 0; i < OPERATIONS; i++) {
        ASSERT(gen_commit(store, gen_any(&gen), &error) == 0);
    }
    gen.max_entry_bytes = 6000; /* pages of their own */
    ASSERT(gen_commit(store, gen_hard_state(&gen, gen.term + 1, 1), &error) == 0);
    ASSERT(gen_commit(store, gen_append(&gen, gen.last + 1, 4), &error) == 0);
    ASSERT(gen_dump(store, &stage.content, &error) == 0);
    stage.last = gen.last;
    stage.term = gen.term;
    store->ops->close(store);
    gen_release(&gen);
    file_read(stage.path, &stage.file);
}

/* --- changes --- */

static void set_bytes(struct buf *file, size_t at, struct reader *reader)
{
    size_t count = 1 + reader_u8(reader) % 16u;

    for (size_t i = 0; i < count && at + i < file->len && reader_left(reader) > 0; i++) {
        file->data[at + i] = reader_u8(reader);
    }
}

static void add_number(struct buf *file, size_t at, struct reader *reader)
{
    uint16_t field;

    if (at + sizeof field <= file->len) {
        memcpy(&field, file->data + at, sizeof field);
        field = (uint16_t)(field + reader_u16(reader));
        memcpy(file->data + at, &field, sizeof field);
    }
}

static void change(struct buf *file, struct reader *reader)
{
    uint8_t kind = reader_u8(reader);
    size_t pages = file->len / PAGE_BYTES;
    size_t page = pages > 0 ? reader_u8(reader) % pages : 0;
    size_t offset = reader_u16(reader) % PAGE_BYTES;
    size_t at = page * PAGE_BYTES + offset;

    if (pages == 0) {
        return;
    }
    switch (kind % 8) {
    case 0:
        file->len = at;
        break;
    case 1:
        memmove(file->data + page * PAGE_BYTES, file->data + offset % pages * PAGE_BYTES,
                PAGE_BYTES);
        break;
    case 2:
    case 3:
        /* A page's head, and the first of its nodes. */
        add_number(file, page * PAGE_BYTES + offset % 64, reader);
        break;
    case 4:
        add_number(file, at, reader);
        break;
    default:
        set_bytes(file, at, reader);
        break;
    }
}

/* --- what must hold --- */

/* Further operations use free pages and move most others. */
static void work_on(struct store *store)
{
    struct store_error error = {""};
    struct buf before = BUF_INIT;
    struct buf after = BUF_INIT;
    struct gen gen;
    bool made;

    gen_init(&gen, 7);
    gen.term = stage.term;
    gen.last = stage.last;
    gen.max_entry_bytes = 3000;
    ASSERT(gen_commit(store, gen_append(&gen, gen.last + 1, 4), &error) == 0);
    ASSERT(gen_commit(store, gen_append(&gen, gen.last + 1, 4), &error) == 0);
    ASSERT(gen_dump(store, &before, &error) == 0);
    store->ops->close(store);
    ASSERT(store_lmdb_open(&stage.config, &store, &made, &error) == 0);
    ASSERT(gen_dump(store, &after, &error) == 0);
    ASSERT(gen_same(&before, &after));
    store->ops->close(store);
    gen_release(&gen);
    buf_free(&before);
    buf_free(&after);
}

static void check_error(int err, const struct store_error *error)
{
    ASSERT(err == ERR_CORRUPT || err == ERR_BAD_VERSION);
    ASSERT(error->text[0] != '\0');
}

static void open_changed(void)
{
    struct store_error error = {""};
    struct store *store = NULL;
    struct buf content = BUF_INIT;
    bool made;
    int err = lmdb_file_check(stage.path, &error);

    if (err != 0) {
        check_error(err, &error);
        return;
    }
    err = store_lmdb_open(&stage.config, &store, &made, &error);
    if (err != 0) {
        check_error(err, &error);
        return;
    }
    err = gen_dump(store, &content, &error);
    if (err != 0) {
        check_error(err, &error);
        store->ops->close(store);
    } else {
        ASSERT(!made && gen_same(&content, &stage.content));
        work_on(store);
    }
    buf_free(&content);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct buf file = BUF_INIT;
    struct reader reader;

    if (stage.file.len == 0) {
        set_stage();
    }
    buf_put(&file, stage.file.data, stage.file.len);
    reader_init(&reader, data, len);
    for (unsigned i = 0; i < CHANGES_MAX && reader_left(&reader) > 3; i++) {
        change(&file, &reader);
    }
    file_write(stage.path, file.data, file.len);
    open_changed();
    buf_free(&file);
    return 0;
}
