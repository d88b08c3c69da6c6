/*
 * pages.c - see pages.h. Thread: start-up, in the child of check.c.
 */
#include "storage/lmdb/pages.h"

#include <inttypes.h>
#include <stdlib.h>

#include "src/base/assert.h"
#include "storage/lmdb/format.h"

static const char *const tree_names[TREE_KINDS] = {"free list", "main", LMDB_TABLE_NAMES};

_Static_assert(TREE_KINDS == TREE_META + LMDB_TABLES, "a tree for each table, in their order");

struct key {
    const uint8_t *data; /* NULL: no bound */
    size_t len;
};

/* A page on the way from the root to a leaf. */
struct frame {
    uint64_t page;
    unsigned next;  /* child to visit */
    struct key low; /* all keys of the page are >= low and < high */
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
    struct tree trees[TREE_KINDS];
    uint64_t commit;   /* of the record; 0: not found */
    struct tree found; /* counted, of the tree being walked */
    struct store_error *error;
};

struct node {
    struct key key;
    const uint8_t *data; /* leaf: inline value or overflow page number */
    uint64_t size;       /* leaf: of the value; branch: child page */
    uint16_t flags;
    size_t bytes; /* within the page */
};

static int check_unwritten(struct walk *walk);
static int walk_tree(struct walk *walk, const struct tree *tree);

int lmdb_pages_check(const uint8_t *map, size_t size, const struct meta_page *meta, bool whole,
                     uint64_t *ret_highest, struct store_error *ret_error)
{
    struct walk walk = {.map = map,
                        .page_bytes = meta->free.pad,
                        .file_pages = size / meta->free.pad,
                        .last_page = meta->last_page,
                        .txn = meta->txn,
                        .error = ret_error};
    int err = 0;

    walk.seen = calloc(meta->last_page + 1, 1);
    if (walk.seen == NULL) {
        return store_error_set(ret_error, ERR_CORRUPT,
                               "meta page %u: the last page is %" PRIu64 ", with %" PRIu64
                               " in the file",
                               (unsigned)(meta->txn & 1), meta->last_page, walk.file_pages);
    }
    walk.trees[TREE_FREE] = meta->free;
    walk.trees[TREE_MAIN] = meta->main;
    /* The main tree first: it names the tables. */
    for (unsigned i = TREE_MAIN; i < TREE_KINDS && err == 0; i++) {
        if (!walk.trees[i].known) {
            err =
                store_error_set(ret_error, ERR_CORRUPT, "main: table %s is missing", tree_names[i]);
        } else if (whole || i <= TREE_META) {
            err = walk_tree(&walk, &walk.trees[i]);
        }
    }
    if (err == 0 && whole) {
        err = walk_tree(&walk, &walk.trees[TREE_FREE]);
    }
    if (err == 0 && whole && ret_highest == NULL) {
        err = check_unwritten(&walk);
    }
    free(walk.seen);
    if (err == 0 && walk.commit != meta->txn) {
        err = store_error_set(ret_error, ERR_CORRUPT,
                              "meta page %u: transaction is %" PRIu64
                              ", its commit record says %" PRIu64,
                              (unsigned)(meta->txn & 1), meta->txn, walk.commit);
    }
    if (ret_highest != NULL) {
        *ret_highest = walk.highest;
    }
    return err;
}

static int bad_page(struct walk *walk, uint64_t page, const char *why)
{
    return store_error_set(walk->error, ERR_CORRUPT, "%s: page %" PRIu64 ": %s",
                           tree_names[walk->found.kind], page, why);
}

/* Note that a page is free, or in use: then the file must reach it. */
static int claim_page(struct walk *walk, uint64_t page, bool free)
{
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

/* Pages between the end of the file and the last page can only be free ones. */
static int check_unwritten(struct walk *walk)
{
    for (uint64_t page = walk->file_pages; page <= walk->last_page; page++) {
        if (walk->seen[page] == 0) {
            return bad_page(walk, page, "neither free nor in the file");
        }
    }
    return 0;
}

static int compare_keys(const struct walk *walk, const struct key *a, const struct key *b)
{
    if (walk->found.kind == TREE_FREE) {
        uint64_t left = get_u64(a->data);
        uint64_t right = get_u64(b->data);

        return left < right ? -1 : left > right;
    }
    if (store_key_less(a->data, a->len, b->data, b->len)) {
        return -1;
    }
    return store_key_less(b->data, b->len, a->data, a->len) ? 1 : 0;
}

static unsigned node_count(const uint8_t *page)
{
    return (get_u16(page + 12) - PAGE_HEADER_BYTES) / 2u;
}

/* Read node i; false if it does not lie within the page. */
static bool get_node(const struct walk *walk, const uint8_t *page, unsigned i,
                     struct node *ret_node)
{
    bool leaf = get_u16(page + 10) == PAGE_LEAF;
    size_t at = get_u16(page + PAGE_HEADER_BYTES + 2 * i);
    size_t upper = get_u16(page + 14);
    uint64_t low;
    size_t key_len;

    if (at < upper || at + NODE_HEADER_BYTES > walk->page_bytes) {
        return false;
    }
    low = get_u16(page + at) | (uint64_t)get_u16(page + at + 2) << 16;
    ret_node->flags = get_u16(page + at + 4);
    key_len = get_u16(page + at + 6);
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
    uint16_t flags = get_u16(page + 10);
    size_t lower = get_u16(page + 12);
    size_t upper = get_u16(page + 14);
    size_t filled = 0;
    struct key before = frame->low;

    if (get_u64(page) != frame->page || (flags != PAGE_BRANCH && flags != PAGE_LEAF)) {
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
            return bad_page(walk, frame->page, "a node lies outside");
        }
        filled += node.bytes;
        if (first_of_branch) {
            continue;
        }
        if (node.key.len == 0 || (walk->found.kind == TREE_FREE && node.key.len != 8) ||
            (before.data != NULL && compare_keys(walk, &node.key, &before) < (i > 0 ? 1 : 0)) ||
            (frame->high.data != NULL && compare_keys(walk, &node.key, &frame->high) >= 0)) {
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
    first = get_u64(node->data);
    count = (PAGE_HEADER_BYTES - 1 + node->size) / walk->page_bytes + 1;
    if (first > walk->last_page || count > walk->last_page + 1 - first) {
        return bad_page(walk, page, "a large value lies outside of the database");
    }
    for (uint64_t i = 0; i < count; i++) {
        int err = claim_page(walk, first + i, false);

        if (err != 0) {
            return err;
        }
    }
    at = walk->map + first * walk->page_bytes;
    if (get_u64(at) != first || get_u16(at + 10) != PAGE_OVERFLOW || get_u32(at + 12) != count) {
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
    uint64_t count = node->size >= 8 ? get_u64(value) : UINT64_MAX;
    uint64_t above = UINT64_MAX;

    if (node->size % 8 != 0 || count > node->size / 8 - 1 || get_u64(node->key.data) > walk->txn) {
        return bad_page(walk, page, "a record of free pages is damaged");
    }
    for (uint64_t i = 1; i <= count; i++) {
        uint64_t id = get_u64(value + 8 * i);
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
        if (node->flags != NODE_TREE || node->size != TREE_BYTES) {
            return bad_page(walk, page, "the record of a table is damaged");
        }
        get_tree(node->data, (enum tree_kind)i, &walk->trees[i]);
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
        if (walk->found.kind == TREE_MAIN) {
            err = check_table(walk, page, &node);
            continue;
        }
        if ((node.flags & ~NODE_BIG) != 0) {
            return bad_page(walk, page, "flags of a node are damaged");
        }
        err = get_value(walk, page, &node, &value);
        if (err == 0 && walk->found.kind == TREE_FREE) {
            err = check_free(walk, page, &node, value);
        }
        /* {crc u32, number u64}: the checksum is looked at with all the others, through LMDB. */
        if (err == 0 && walk->found.kind == TREE_META && node.key.len == strlen("commit") &&
            memcmp(node.key.data, "commit", node.key.len) == 0 && node.size == 12) {
            walk->commit = get_u64(value + LMDB_CRC_BYTES);
        }
    }
    return err;
}

/* The frame of the next child of a branch page. */
static void next_child(const struct walk *walk, struct frame *parent, struct frame *ret_child)
{
    const uint8_t *at = walk->map + parent->page * walk->page_bytes;
    unsigned i = parent->next++;
    struct node node;

    ASSERT(get_node(walk, at, i, &node));
    *ret_child = (struct frame){
        .page = node.size, .low = i == 0 ? parent->low : node.key, .high = parent->high};
    if (i + 1 < node_count(at)) {
        ASSERT(get_node(walk, at, i + 1, &node));
        ret_child->high = node.key;
    }
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
                           tree_names[tree->kind], found->entries, found->branch_pages,
                           found->leaf_pages, found->overflow_pages, tree->entries,
                           tree->branch_pages, tree->leaf_pages, tree->overflow_pages);
}

/* Visit all pages of a tree in order, depth first, with a stack of its own. */
static int walk_tree(struct walk *walk, const struct tree *tree)
{
    struct frame stack[TREE_DEPTH_MAX];
    unsigned depth = 1;
    int err;

    walk->found = (struct tree){.kind = tree->kind};
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
        bool leaf = get_u16(at + 10) == PAGE_LEAF;

        if (leaf != (depth == tree->depth)) {
            err = bad_page(walk, top->page, "at a wrong depth");
        } else if (leaf) {
            err = check_leaf(walk, top->page);
            depth--;
        } else if (top->next == node_count(at)) {
            walk->found.branch_pages++;
            depth--;
        } else {
            next_child(walk, top, &stack[depth]);
            err = claim_page(walk, stack[depth].page, false);
            if (err == 0) {
                err = check_page(walk, &stack[depth]);
            }
            depth++;
        }
    }
    return err != 0 ? err : check_counts(walk, tree);
}
