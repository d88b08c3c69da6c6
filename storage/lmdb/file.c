/*
 * file.c - see file.h. Thread: start-up, in the child of check.c.
 */
#include "storage/lmdb/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <lmdb.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/assert.h"
#include "storage/lmdb/layout.h"
#include "storage/lmdb/pages.h"

#define META_MAGIC 0xBEEFC0DEu
#define META_VERSION 1

#define META_LAST_PAGE (PAGE_HEADER_BYTES + 24 + 2 * TREE_BYTES) /* u64, then the transaction */
#define UNFINISHED_PAGES 65536 /* by which a single commit may lengthen the file */

/* A commit of which only number and last page are missing in its meta page. */
struct unfinished {
    bool found;
    unsigned meta; /* page */
    size_t page_bytes;
    uint64_t last_page;
    uint64_t txn;
};

static int check_file(const uint8_t *map, size_t size, struct unfinished *ret_unfinished,
                      struct store_error *ret_error);
static int finish_commit(const char *path, const struct unfinished *unfinished,
                         struct store_error *ret_error);

int lmdb_file_check(const char *path, struct store_error *ret_error)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct unfinished unfinished;
    struct stat st = {0};
    void *map;
    int err;

    if (fd < 0 && errno == ENOENT) {
        return store_error_set(ret_error, ERR_CORRUPT, "the database file %s is missing", path);
    }
    if (fd < 0 || fstat(fd, &st) != 0) {
        return store_error_set(ret_error, ERR_IO, "cannot open %s: %s", path, strerror(errno));
    }
    if (!S_ISREG(st.st_mode) || st.st_size < 2 * PAGE_HEADER_BYTES) {
        (void)close(fd);
        return store_error_set(ret_error, ERR_CORRUPT,
                               "the database file %s is cut or no file: %lld bytes", path,
                               (long long)st.st_size);
    }
    map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    (void)close(fd);
    if (map == MAP_FAILED) {
        return store_error_set(ret_error, ERR_IO, "cannot map %s: %s", path, strerror(errno));
    }
    err = check_file(map, (size_t)st.st_size, &unfinished, ret_error);
    if (err == 0 && unfinished.found) {
        err = finish_commit(path, &unfinished, ret_error);
        if (err == 0) { /* the map shows what was written */
            err = check_file(map, (size_t)st.st_size, &unfinished, ret_error);
        }
    }
    (void)munmap(map, (size_t)st.st_size);
    return err;
}

static void get_meta(const uint8_t *page, struct meta_page *ret_meta)
{
    const uint8_t *at = page + PAGE_HEADER_BYTES;

    /* magic, version, map address, map size, two trees, last page, transaction */
    ret_meta->magic = get_u32(at);
    ret_meta->version = get_u32(at + 4);
    get_tree(at + 24, TREE_FREE, &ret_meta->free);
    get_tree(at + 24 + TREE_BYTES, TREE_MAIN, &ret_meta->main);
    ret_meta->last_page = get_u64(at + 24 + 2 * TREE_BYTES);
    ret_meta->txn = get_u64(at + 32 + 2 * TREE_BYTES);
}

static int check_meta(const uint8_t *page, unsigned i, size_t page_bytes,
                      struct meta_page *ret_meta, struct store_error *ret_error)
{
    get_meta(page, ret_meta);
    if (ret_meta->magic != META_MAGIC || get_u64(page) != i || get_u16(page + 10) != PAGE_META) {
        return store_error_set(ret_error, ERR_CORRUPT,
                               "meta page %u: no meta page of LMDB (magic %08" PRIx32 ")", i,
                               ret_meta->magic);
    }
    if (ret_meta->version != META_VERSION) {
        return store_error_set(ret_error, ERR_BAD_VERSION,
                               "meta page %u: LMDB format %" PRIu32 ", supported is %d", i,
                               ret_meta->version, META_VERSION);
    }
    if (ret_meta->free.pad != page_bytes || ret_meta->free.flags != MDB_INTEGERKEY ||
        ret_meta->main.pad != 0 || ret_meta->main.flags != 0 || ret_meta->txn == 0 ||
        (ret_meta->txn & 1) != i) {
        return store_error_set(ret_error, ERR_CORRUPT,
                               "meta page %u: page size %" PRIu32 ", flags %x %x, transaction "
                               "%" PRIu64 " do not belong to a store",
                               i, ret_meta->free.pad, ret_meta->free.flags, ret_meta->main.flags,
                               ret_meta->txn);
    }
    /* The file may end before the last page: LMDB does not write free pages at the end. */
    if (ret_meta->last_page < 1 || ret_meta->last_page >= (UINT64_C(1) << 48) / page_bytes) {
        return store_error_set(ret_error, ERR_CORRUPT, "meta page %u: the last page is %" PRIu64, i,
                               ret_meta->last_page);
    }
    return 0;
}

/* Is it the older meta page with the trees of the commit after the newest? */
static bool is_unfinished(const uint8_t *map, size_t size, const struct meta_page *newest,
                          const struct meta_page *older, struct unfinished *ret_unfinished)
{
    uint64_t last_page =
        older->last_page > newest->last_page ? older->last_page : newest->last_page;
    struct meta_page later = *older;
    struct store_error ignored;
    uint64_t highest;

    later.txn = newest->txn + 1;
    later.last_page = last_page + UNFINISHED_PAGES;
    if (lmdb_pages_check(map, size, &later, true, &highest, &ignored) != 0) {
        return false;
    }
    *ret_unfinished = (struct unfinished){.found = true,
                                          .meta = (unsigned)(older->txn & 1),
                                          .page_bytes = older->free.pad,
                                          .last_page = highest > last_page ? highest : last_page,
                                          .txn = later.txn};
    return true;
}

static int check_trees(const uint8_t *map, size_t size, const struct meta_page *newest,
                       const struct meta_page *older, struct unfinished *ret_unfinished,
                       struct store_error *ret_error)
{
    int err = lmdb_pages_check(map, size, newest, true, NULL, ret_error);

    if (err != 0) {
        return err;
    }
    err = lmdb_pages_check(map, size, older, false, NULL, ret_error);
    return err != 0 && is_unfinished(map, size, newest, older, ret_unfinished) ? 0 : err;
}

/* One write of 16 bytes, within a sector: it is there or it is not. */
static int finish_commit(const char *path, const struct unfinished *unfinished,
                         struct store_error *ret_error)
{
    const uint64_t fields[2] = {unfinished->last_page, unfinished->txn};
    off_t at = (off_t)(unfinished->meta * unfinished->page_bytes + META_LAST_PAGE);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    int err = 0;

    errno = EIO; /* what a short write means */
    if (fd < 0 || pwrite(fd, fields, sizeof fields, at) != (ssize_t)sizeof fields ||
        fdatasync(fd) != 0) {
        err = store_error_set(ret_error, ERR_IO, "cannot finish commit %" PRIu64 " of %s: %s",
                              unfinished->txn, path, strerror(errno));
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    return err;
}

static int check_file(const uint8_t *map, size_t size, struct unfinished *ret_unfinished,
                      struct store_error *ret_error)
{
    struct meta_page metas[2];
    size_t page_bytes;
    unsigned newest;
    int err;

    *ret_unfinished = (struct unfinished){.found = false};
    if (size < PAGE_HEADER_BYTES + 24 + 4) {
        return store_error_set(ret_error, ERR_CORRUPT, "the file is cut: %zu bytes", size);
    }
    /* The page size stands in the first meta page, in the pad of the free list's tree. */
    page_bytes = get_u32(map + PAGE_HEADER_BYTES + 24);
    if (page_bytes < 512 || page_bytes > 32768 || (page_bytes & (page_bytes - 1)) != 0) {
        return store_error_set(ret_error, ERR_CORRUPT, "meta page 0: page size is %zu", page_bytes);
    }
    if (size < 2 * page_bytes) {
        return store_error_set(ret_error, ERR_CORRUPT, "the file is cut: %zu bytes", size);
    }
    for (unsigned i = 0; i < 2; i++) {
        err = check_meta(map + i * page_bytes, i, page_bytes, &metas[i], ret_error);
        if (err != 0) {
            return err;
        }
    }
    newest = metas[1].txn > metas[0].txn ? 1 : 0;
    if (metas[newest].txn != metas[1 - newest].txn + 1) {
        return store_error_set(ret_error, ERR_CORRUPT,
                               "meta pages: transactions %" PRIu64 " and %" PRIu64
                               " do not follow each other",
                               metas[0].txn, metas[1].txn);
    }
    return check_trees(map, size, &metas[newest], &metas[1 - newest], ret_unfinished, ret_error);
}
