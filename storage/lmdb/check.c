/*
 * check.c - see check.h.
 */
#include "storage/lmdb/check.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <lmdb.h>

#include "src/base/assert.h"
#include "storage/lmdb/dir.h"
#include "storage/lmdb/record.h"

/*
 * --- file: the bytes of a data file, the walk over the pages of a meta page, and the file with its
 * two meta pages. In the child.
 */

/*
 * The bytes of a data file of LMDB 0.9 that are read here.
 *
 * Pages of equal size. Page: {number u64, pad u16, flags u16, lower u16, upper u16 (overflow: pages
 * u32)}, then node offsets u16 up to `lower`, nodes from `upper` to the end. Node: {size u32
 * (branch: child's low 32 bits), flags u16 (branch: child's high bits), key length u16}, key, value
 * or the number of its overflow page; padded to even. Pages 0 and 1 are meta pages, written in
 * turn. Integers are in the machine's order.
 */
_Static_assert(sizeof(size_t) == 8, "the page format is that of 64-bit systems");

#define PAGE_HEADER_BYTES 16
#define NODE_HEADER_BYTES 8
#define TREE_DEPTH_MAX 32
#define TREE_ROOT_NONE UINT64_MAX

enum page_flag { PAGE_BRANCH = 0x01, PAGE_LEAF = 0x02, PAGE_OVERFLOW = 0x04, PAGE_META = 0x08 };
enum node_flag { NODE_BIG = 0x01, NODE_TREE = 0x02 };
enum tree_kind { TREE_FREE, TREE_MAIN, TREE_META, TREE_LOG, TREE_STATE, TREE_KINDS };

/* LMDB's record of a tree: in meta pages, and as the value of a table's name. */
struct tree {
    uint32_t pad;
    uint16_t flags;
    uint16_t depth;
    uint64_t branch_pages;
    uint64_t leaf_pages;
    uint64_t overflow_pages;
    uint64_t entries;
    uint64_t root;
};

/* The contents of a meta page after its header. */
struct meta_page {
    uint32_t magic;
    uint32_t version;
    uint64_t map_address;
    uint64_t map_size;
    struct tree free; /* its pad is the page size */
    struct tree main;
    uint64_t last_page;
    uint64_t txn;
};
_Static_assert(sizeof(struct tree) == 48 && sizeof(struct meta_page) == 136, "no gaps");

static uint16_t page_u16(const uint8_t *at)
{
    uint16_t value;

    memcpy(&value, at, sizeof value);
    return value;
}

static uint32_t page_u32(const uint8_t *at)
{
    uint32_t value;

    memcpy(&value, at, sizeof value);
    return value;
}

static uint64_t page_u64(const uint8_t *at)
{
    uint64_t value;

    memcpy(&value, at, sizeof value);
    return value;
}

/* --- the pages of a meta page --- */

static const char *const tree_names[TREE_KINDS] = {"free list", "main", LMDB_TABLE_NAMES};

_Static_assert(TREE_KINDS == TREE_META + LMDB_TABLES, "a tree for each table, in their order");

struct key {
    const uint8_t *data; /* NULL: no bound */
    size_t len;
};

/* A page between the root and a leaf. */
struct frame {
    uint64_t page;
    unsigned next;  /* child to visit */
    struct key low; /* all keys of the page are in [low, high) */
    struct key high;
};

/* The walk over the trees of one meta page. */
struct walk {
    const uint8_t *map;
    size_t page_bytes;
    uint64_t file_pages; /* whole pages the file has */
    uint64_t last_page;
    uint64_t txn;
    uint8_t *seen; /* by page: reached, or free */
    uint64_t highest;
    bool known[TREE_KINDS]; /* a record of it was found: */
    struct tree trees[TREE_KINDS];
    uint64_t commit;     /* the number in the record `now`; 0: not found */
    enum tree_kind kind; /* of the tree being walked, */
    struct tree found;   /* and its counts */
    struct store_error *error;
};

struct node {
    struct key key;
    const uint8_t *data; /* leaf: inline value or overflow page number */
    uint64_t size;       /* leaf: of the value; branch: child page */
    uint16_t flags;
    size_t bytes; /* within the page */
};

static int bad_page(struct walk *walk, uint64_t page, const char *why)
{
    return store_error_set(walk->error, ERR_CORRUPT, "%s: page %" PRIu64 ": %s",
                           tree_names[walk->kind], page, why);
}

/* Note that a page is free, or in use: then the file must reach it. */
static int claim_page(struct walk *walk, uint64_t page, bool free)
{
    ASSERT(walk->last_page < UINT64_MAX);
    if (page < 2 || page > walk->last_page) {
        return bad_page(walk, page, "outside of the database");
    }
    if (page >= walk->file_pages && !free) {
        return bad_page(walk, page, "beyond the end of the file: it was cut");
    }
    if (walk->seen[page] != 0) {
        return bad_page(walk, page, "used twice, or free and in use");
    }
    walk->seen[page] = 1;
    walk->highest = page > walk->highest ? page : walk->highest;
    return 0;
}

static int page_compare_keys(const struct walk *walk, const struct key *a, const struct key *b)
{
    if (walk->kind == TREE_FREE) {
        uint64_t left = page_u64(a->data);
        uint64_t right = page_u64(b->data);

        ASSERT(a->len == sizeof left && b->len == sizeof right); /* check_page() saw to it */
        return left < right ? -1 : left > right;
    }
    return store_key_compare(a->data, a->len, b->data, b->len);
}

static unsigned node_count(const uint8_t *page)
{
    return (page_u16(page + 12) - PAGE_HEADER_BYTES) / 2u;
}

/* Read node i; false if it does not lie within the page. */
static bool get_node(const struct walk *walk, const uint8_t *page, unsigned i,
                     struct node *ret_node)
{
    bool leaf = page_u16(page + 10) == PAGE_LEAF;
    size_t at = page_u16(page + PAGE_HEADER_BYTES + 2 * i);
    size_t upper = page_u16(page + 14);
    uint64_t low;
    size_t key_len;

    if (at < upper || at + NODE_HEADER_BYTES > walk->page_bytes) {
        return false;
    }
    low = page_u16(page + at) | (uint64_t)page_u16(page + at + 2) << 16;
    ret_node->flags = page_u16(page + at + 4);
    key_len = page_u16(page + at + 6);
    ret_node->key = (struct key){page + at + NODE_HEADER_BYTES, key_len};
    ret_node->data = ret_node->key.data + key_len;
    ret_node->size = low;
    ret_node->bytes = NODE_HEADER_BYTES + key_len;
    if (!leaf) {
        ret_node->size |= (uint64_t)ret_node->flags << 32;
        ret_node->flags = 0;
    } else {
        ret_node->bytes += (ret_node->flags & NODE_BIG) != 0 ? sizeof(uint64_t) : (size_t)low;
    }
    ret_node->bytes += ret_node->bytes & 1;
    return at + ret_node->bytes <= walk->page_bytes;
}

/* Header, nodes and the order of keys of one page. */
static int check_page(struct walk *walk, const struct frame *frame)
{
    const uint8_t *page = walk->map + frame->page * walk->page_bytes;
    uint16_t flags = page_u16(page + 10);
    size_t lower = page_u16(page + 12);
    size_t upper = page_u16(page + 14);
    size_t filled = 0;
    struct key before = frame->low;

    ASSERT(frame->page < walk->file_pages && walk->seen[frame->page] != 0);
    if (page_u64(page) != frame->page || (flags != PAGE_BRANCH && flags != PAGE_LEAF)) {
        return bad_page(walk, frame->page, "header is damaged");
    }
    if (lower <= PAGE_HEADER_BYTES || (lower & 1) != 0 || lower > upper ||
        upper > walk->page_bytes || (flags == PAGE_BRANCH && node_count(page) < 2)) {
        return bad_page(walk, frame->page, "bounds are damaged");
    }
    for (unsigned i = 0; i < node_count(page); i++) {
        bool first_of_branch = flags == PAGE_BRANCH && i == 0; /* its key means nothing */
        struct node node;

        if (!get_node(walk, page, i, &node)) {
            return bad_page(walk, frame->page, "a node is outside");
        }
        filled += node.bytes;
        if (first_of_branch) {
            continue;
        }
        if (node.key.len == 0 || (walk->kind == TREE_FREE && node.key.len != 8) ||
            (before.data != NULL &&
             page_compare_keys(walk, &node.key, &before) < (i > 0 ? 1 : 0)) ||
            (frame->high.data != NULL && page_compare_keys(walk, &node.key, &frame->high) >= 0)) {
            return bad_page(walk, frame->page, "keys are out of order");
        }
        before = node.key;
    }
    return filled == walk->page_bytes - upper ? 0
                                              : bad_page(walk, frame->page, "nodes are damaged");
}

/* The bytes of a leaf's value, on overflow pages if it is large. */
static int get_value(struct walk *walk, uint64_t page, const struct node *node,
                     const uint8_t **ret_value)
{
    uint64_t first;
    uint64_t count;
    const uint8_t *at;

    *ret_value = node->data;
    if ((node->flags & NODE_BIG) == 0) {
        return 0;
    }
    first = page_u64(node->data);
    count = (PAGE_HEADER_BYTES - 1 + node->size) / walk->page_bytes + 1;
    if (first > walk->last_page || count > walk->last_page + 1 - first) {
        return bad_page(walk, page, "a large value is outside the database");
    }
    for (uint64_t i = 0; i < count; i++) {
        int err = claim_page(walk, first + i, false);

        if (err != 0) {
            return err;
        }
    }
    at = walk->map + first * walk->page_bytes;
    if (page_u64(at) != first || page_u16(at + 10) != PAGE_OVERFLOW || page_u32(at + 12) != count) {
        return bad_page(walk, first, "header of a large value is damaged");
    }
    walk->found.overflow_pages += count;
    *ret_value = at + PAGE_HEADER_BYTES;
    return 0;
}

/* A record of the free list: how many, then page numbers, falling. */
static int check_free(struct walk *walk, uint64_t page, const struct node *node,
                      const uint8_t *value)
{
    uint64_t count = node->size >= 8 ? page_u64(value) : UINT64_MAX;
    uint64_t above = UINT64_MAX;

    if (node->size % 8 != 0 || count > node->size / 8 - 1 || page_u64(node->key.data) > walk->txn) {
        return bad_page(walk, page, "a record of free pages is damaged");
    }
    for (uint64_t i = 1; i <= count; i++) {
        uint64_t id = page_u64(value + 8 * i);
        int err = id < above ? claim_page(walk, id, true)
                             : bad_page(walk, page, "free pages are out of order");

        if (err != 0) {
            return err;
        }
        above = id;
    }
    return 0;
}

static int check_table(struct walk *walk, uint64_t page, const struct node *node)
{
    for (unsigned i = TREE_META; i < TREE_KINDS; i++) {
        if (node->key.len != strlen(tree_names[i]) ||
            memcmp(node->key.data, tree_names[i], node->key.len) != 0) {
            continue;
        }
        if (node->flags != NODE_TREE || node->size != sizeof(struct tree)) {
            return bad_page(walk, page, "the record of a table is damaged");
        }
        memcpy(&walk->trees[i], node->data, sizeof walk->trees[i]);
        walk->known[i] = true;
        if (walk->trees[i].pad != 0 || walk->trees[i].flags != 0) {
            return bad_page(walk, page, "the flags of a table are damaged");
        }
        return 0;
    }
    return bad_page(walk, page, "a table that is none of a store's");
}

static int check_leaf(struct walk *walk, uint64_t page)
{
    const uint8_t *at = walk->map + page * walk->page_bytes;
    int err = 0;

    walk->found.leaf_pages++;
    walk->found.entries += node_count(at);
    for (unsigned i = 0; i < node_count(at) && err == 0; i++) {
        const uint8_t *value;
        struct node node;

        ASSERT(get_node(walk, at, i, &node));
        if (walk->kind == TREE_MAIN) {
            err = check_table(walk, page, &node);
            continue;
        }
        if ((node.flags & ~NODE_BIG) != 0) {
            return bad_page(walk, page, "flags of a node are damaged");
        }
        err = get_value(walk, page, &node, &value);
        if (err == 0 && walk->kind == TREE_FREE) {
            err = check_free(walk, page, &node, value);
        }
        /* The checksum before the number is checked later through LMDB, with all others. */
        if (err == 0 && walk->kind == TREE_META && node.key.len == strlen(LMDB_NOW) &&
            memcmp(node.key.data, LMDB_NOW, node.key.len) == 0 &&
            node.size >= LMDB_CRC_BYTES + sizeof walk->commit) {
            walk->commit = page_u64(value + LMDB_CRC_BYTES);
        }
    }
    return err;
}

static int check_counts(struct walk *walk, const struct tree *tree)
{
    const struct tree *found = &walk->found;

    if (found->branch_pages == tree->branch_pages && found->leaf_pages == tree->leaf_pages &&
        found->overflow_pages == tree->overflow_pages && found->entries == tree->entries) {
        return 0;
    }
    return store_error_set(walk->error, ERR_CORRUPT,
                           "%s: %" PRIu64 " records on %" PRIu64 "+%" PRIu64 "+%" PRIu64
                           " pages, but %" PRIu64 " on %" PRIu64 "+%" PRIu64 "+%" PRIu64
                           " were written",
                           tree_names[walk->kind], found->entries, found->branch_pages,
                           found->leaf_pages, found->overflow_pages, tree->entries,
                           tree->branch_pages, tree->leaf_pages, tree->overflow_pages);
}

/* Visit all pages of a tree in order, depth first, with a stack of its own. */
static int walk_tree(struct walk *walk, enum tree_kind kind)
{
    const struct tree *tree = &walk->trees[kind];
    struct frame stack[TREE_DEPTH_MAX];
    unsigned depth = 1;
    struct node node;
    unsigned i;
    int err;

    walk->kind = kind;
    walk->found = (struct tree){0};
    if (tree->root == TREE_ROOT_NONE) {
        return tree->depth == 0 ? check_counts(walk, tree) : bad_page(walk, tree->root, "no root");
    }
    if (tree->depth == 0 || tree->depth > TREE_DEPTH_MAX) {
        return bad_page(walk, tree->root, "depth of the tree is damaged");
    }
    stack[0] = (struct frame){.page = tree->root};
    err = claim_page(walk, tree->root, false);
    if (err == 0) {
        err = check_page(walk, &stack[0]);
    }
    while (err == 0 && depth > 0) {
        struct frame *top = &stack[depth - 1];
        const uint8_t *at = walk->map + top->page * walk->page_bytes;
        bool leaf = page_u16(at + 10) == PAGE_LEAF;

        if (leaf != (depth == tree->depth)) {
            err = bad_page(walk, top->page, "at a wrong depth");
        } else if (leaf) {
            err = check_leaf(walk, top->page);
            depth--;
        } else if (top->next == node_count(at)) {
            walk->found.branch_pages++;
            depth--;
        } else {
            ASSERT(depth < TREE_DEPTH_MAX); /* since depth < tree->depth */
            i = top->next++;
            ASSERT(get_node(walk, at, i, &node));
            stack[depth] = (struct frame){
                .page = node.size, .low = i == 0 ? top->low : node.key, .high = top->high};
            if (i + 1 < node_count(at)) {
                ASSERT(get_node(walk, at, i + 1, &node));
                stack[depth].high = node.key;
            }
            err = claim_page(walk, stack[depth].page, false);
            if (err == 0) {
                err = check_page(walk, &stack[depth]);
            }
            depth++;
        }
    }
    return err != 0 ? err : check_counts(walk, tree);
}

/* Check the pages that a meta page reaches. size: of the file at map. whole: all trees, else only
 * the path to the record `now`. ret_highest: NULL; or, if the last page is unknown but below
 * meta's, returns the highest page that is free or in use. */
static int check_pages(const uint8_t *map, size_t size, const struct meta_page *meta, bool whole,
                       uint64_t *ret_highest, struct store_error *ret_error)
{
    struct walk walk = {.map = map,
                        .page_bytes = meta->free.pad,
                        .file_pages = size / meta->free.pad,
                        .last_page = meta->last_page,
                        .txn = meta->txn,
                        .known = {[TREE_FREE] = true, [TREE_MAIN] = true},
                        .trees = {[TREE_FREE] = meta->free, [TREE_MAIN] = meta->main},
                        .error = ret_error};
    int err = 0;

    ASSERT(meta->free.pad >= 512 && meta->last_page >= 1); /* check_meta() saw to it */
    walk.seen = calloc(meta->last_page + 1, 1);
    if (walk.seen == NULL) {
        return store_error_set(ret_error, ERR_CORRUPT,
                               "meta page %u: the last page is %" PRIu64 ", with %" PRIu64
                               " in the file",
                               (unsigned)(meta->txn & 1), meta->last_page, walk.file_pages);
    }
    /* The main tree first: it names the tables. */
    for (unsigned i = TREE_MAIN; i < TREE_KINDS && err == 0; i++) {
        if (!walk.known[i]) {
            err =
                store_error_set(ret_error, ERR_CORRUPT, "main: table %s is missing", tree_names[i]);
        } else if (whole || i <= TREE_META) {
            err = walk_tree(&walk, (enum tree_kind)i);
        }
    }
    if (err == 0 && whole) {
        err = walk_tree(&walk, TREE_FREE);
    }
    /* Pages between the end of the file and the last page can only be free ones. */
    ASSERT(walk.highest <= walk.last_page);
    for (uint64_t page = walk.file_pages;
         err == 0 && whole && ret_highest == NULL && page <= walk.last_page; page++) {
        err = walk.seen[page] != 0 ? 0 : bad_page(&walk, page, "neither free nor in the file");
    }
    free(walk.seen);
    if (err == 0 && walk.commit != meta->txn) {
        err = store_error_set(ret_error, ERR_CORRUPT,
                              "meta page %u: transaction is %" PRIu64
                              ", its record now says %" PRIu64,
                              (unsigned)(meta->txn & 1), meta->txn, walk.commit);
    }
    if (ret_highest != NULL) {
        *ret_highest = walk.highest;
    }
    return err;
}

/* --- the file --- */

#define META_MAGIC 0xBEEFC0DEu
#define META_VERSION 1

#define UNFINISHED_PAGES 65536 /* the most that a single commit may lengthen the file by */

/* A commit whose meta page lacks only number and last page. */
struct unfinished {
    bool found;
    unsigned meta; /* page */
    size_t page_bytes;
    uint64_t last_page;
    uint64_t txn;
};

static int check_meta(const uint8_t *page, unsigned i, size_t page_bytes, size_t file_bytes,
                      struct meta_page *ret_meta, struct store_error *ret_error)
{
    memcpy(ret_meta, page + PAGE_HEADER_BYTES, sizeof *ret_meta);
    if (ret_meta->magic != META_MAGIC || page_u64(page) != i || page_u16(page + 10) != PAGE_META) {
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
    /* The file may end before the last page: LMDB does not write free pages at the end. But the
     * list of free pages, 8 bytes each, is in the file. */
    if (ret_meta->last_page < 1 ||
        ret_meta->last_page >= file_bytes / page_bytes + file_bytes / sizeof(uint64_t)) {
        return store_error_set(ret_error, ERR_CORRUPT,
                               "meta page %u: the last page is %" PRIu64 " in a file of %zu bytes",
                               i, ret_meta->last_page, file_bytes);
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
    if (check_pages(map, size, &later, true, &highest, &ignored) != 0) {
        return false;
    }
    *ret_unfinished = (struct unfinished){.found = true,
                                          .meta = (unsigned)(older->txn & 1),
                                          .page_bytes = older->free.pad,
                                          .last_page = highest > last_page ? highest : last_page,
                                          .txn = later.txn};
    return true;
}

/* One write of 16 bytes, the last two fields, within a sector: whole or not at all. */
static int finish_commit(const char *path, const struct unfinished *unfinished,
                         struct store_error *ret_error)
{
    const uint64_t fields[2] = {unfinished->last_page, unfinished->txn};
    off_t at = (off_t)(unfinished->meta * unfinished->page_bytes + PAGE_HEADER_BYTES +
                       offsetof(struct meta_page, last_page));
    int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    int err = 0;

    ASSERT(unfinished->found && (unfinished->txn & 1) == unfinished->meta);
    errno = EIO; /* the meaning of a short write */
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
    if (size < PAGE_HEADER_BYTES + sizeof *metas) {
        return store_error_set(ret_error, ERR_CORRUPT, "the file is cut: %zu bytes", size);
    }
    /* The page size is in the first meta page, in the pad of the free list's tree. */
    page_bytes = page_u32(map + PAGE_HEADER_BYTES + offsetof(struct meta_page, free.pad));
    if (page_bytes < 512 || page_bytes > 32768 || (page_bytes & (page_bytes - 1)) != 0) {
        return store_error_set(ret_error, ERR_CORRUPT, "meta page 0: page size is %zu", page_bytes);
    }
    if (size < 2 * page_bytes) {
        return store_error_set(ret_error, ERR_CORRUPT, "the file is cut: %zu bytes", size);
    }
    for (unsigned i = 0; i < 2; i++) {
        err = check_meta(map + i * page_bytes, i, page_bytes, size, &metas[i], ret_error);
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
    err = check_pages(map, size, &metas[newest], true, NULL, ret_error);
    if (err != 0) {
        return err;
    }
    err = check_pages(map, size, &metas[1 - newest], false, NULL, ret_error);
    return err != 0 && is_unfinished(map, size, &metas[newest], &metas[1 - newest], ret_unfinished)
               ? 0
               : err;
}

int lmdb_file_check(const char *path, struct store_error *ret_error)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct unfinished unfinished;
    struct stat st = {0};
    void *map;
    int err;

    if (fd < 0 && errno == ENOENT) {
        return store_error_set(ret_error, ERR_CORRUPT, "the database file %s is missing", path);
    }
    if (fd < 0 || fstat(fd, &st) != 0) {
        return store_error_set(ret_error, store_error_of(errno), "cannot open %s: %s", path,
                               strerror(errno));
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
        return store_error_set(ret_error, store_error_of(errno), "cannot map %s: %s", path,
                               strerror(errno));
    }
    err = check_file(map, (size_t)st.st_size, &unfinished, ret_error);
    if (err == 0 && unfinished.found) {
        err = finish_commit(path, &unfinished, ret_error);
        if (err == 0) { /* the map shows the write */
            err = check_file(map, (size_t)st.st_size, &unfinished, ret_error);
        }
    }
    (void)munmap(map, (size_t)st.st_size);
    return err;
}

/* --- check --- */

struct report {
    int err;
    struct store_error error;
};

/* --- the child --- */

/* LMDB found its own invariant broken: the signal reports it to the parent. */
static void assert_cb(MDB_env *env, const char *text)
{
    (void)env;
    (void)text;
    abort();
}

_Noreturn static void child_run(const char *dir, int fd)
{
    static const int fatal[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGALRM, SIGPIPE};
    static const int of_the_parent[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2};
    struct report report = {0};
    struct lmdb_env env = {.env = NULL};
    char *path = lmdb_path(dir, LMDB_DB "/" LMDB_DATA_FILE);
    char *db_path = lmdb_path(dir, LMDB_DB);
    sigset_t none;
    char go;

    /* Die by default actions, leave no core file, and do not outlive the parent. */
    for (size_t i = 0; i < sizeof fatal / sizeof fatal[0]; i++) {
        (void)signal(fatal[i], SIG_DFL);
    }
    /* If sent to the whole process group, the parent handles them. The child's end by one would
     * look like damage, and the inherited handlers write to the parent's pipes. */
    for (size_t i = 0; i < sizeof of_the_parent / sizeof of_the_parent[0]; i++) {
        (void)signal(of_the_parent[i], SIG_IGN);
    }
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)prctl(PR_SET_DUMPABLE, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (recv(fd, &go, 1, 0) != 1) {
        _exit(0); /* cancelled, or the parent is gone */
    }
    (void)alarm(LIMIT_STORE_CHECK_S);
    report.err = lmdb_file_check(path, &report.error);
    /* Verify every record through LMDB, as load() will. LMDB enlarges a map that is too small to
     * the size in its meta page. The map ends with the process. */
    if (report.err == 0) {
        report.err = lmdb_env_open(&env, db_path, 1 << 20, MDB_RDONLY | MDB_NOLOCK, &report.error);
    }
    if (report.err == 0) {
        (void)mdb_env_set_assert(env.env, assert_cb);
        report.err = lmdb_load(&env, NULL, NULL, NULL, &report.error);
    }
    _exit(write(fd, &report, sizeof report) == (ssize_t)sizeof report ? 0 : 2);
}

/* --- the parent --- */

int lmdb_checker_start(struct lmdb_checker *checker, const char *dir, struct store_error *ret_error)
{
    int fds[2] = {-1, -1}; /* the parent's, the child's */

    ASSERT(dir != NULL);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0 ||
        (checker->pid = fork()) < 0) {
        int err = store_error_set(ret_error, store_error_of(errno),
                                  "cannot start the check of the database: %s", strerror(errno));

        (void)close(fds[0]);
        (void)close(fds[1]);
        return err;
    }
    if (checker->pid == 0) {
        (void)close(fds[0]);
        child_run(dir, fds[1]);
    }
    (void)close(fds[1]);
    checker->fd = fds[0];
    return 0;
}

int lmdb_checker_end(struct lmdb_checker *checker)
{
    int status = 0;

    ASSERT(checker->pid > 0);
    (void)close(checker->fd);
    /* Where SIGCHLD is ignored there is no status (ECHILD): then only the report counts. */
    while (waitpid(checker->pid, &status, 0) < 0 && errno == EINTR) {
    }
    return status;
}

int lmdb_checker_run(struct lmdb_checker *checker, const char *dir, struct store_error *ret_error)
{
    /* On a socket, a child that has ended causes an error and no SIGPIPE. */
    bool whole = send(checker->fd, "", 1, MSG_NOSIGNAL) == 1;
    struct report report;
    size_t at = 0;
    int status;

    while (whole && at < sizeof report) {
        ssize_t got = read(checker->fd, (char *)&report + at, sizeof report - at);

        whole = got > 0 || (got < 0 && errno == EINTR);
        at += got > 0 ? (size_t)got : 0;
    }
    report.error.text[sizeof report.error.text - 1] = '\0';
    status = lmdb_checker_end(checker);
    if (WIFSIGNALED(status)) {
        return store_error_set(ret_error, ERR_CORRUPT,
                               "the check of %.100s/db was ended by signal %d (%s): the database "
                               "is damaged or cannot be read",
                               dir, WTERMSIG(status), strsignal(WTERMSIG(status)));
    }
    if (!whole || status != 0) {
        return store_error_set(ret_error, ERR_CORRUPT,
                               "the check of %.100s/db ended with status %d and no report", dir,
                               WEXITSTATUS(status));
    }
    if (report.err != 0) {
        *ret_error = report.error;
    }
    ASSERT(report.err <= 0); /* our own code's, over a socket that only it has */
    return report.err;
}
