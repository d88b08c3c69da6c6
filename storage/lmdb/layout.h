/*
 * layout.h - the bytes of an LMDB 0.9 data file, as far as the check of it reads them.
 *
 * Pages of equal size. Page: {number u64, pad u16, flags u16, lower u16, upper u16 (overflow: pages
 * u32)}, then node offsets u16 up to `lower`, nodes from `upper` to the end. Node: {size u32
 * (branch: child's low 32 bits), flags u16 (branch: child's high bits), key length u16}, key, value
 * or the number of its overflow page; padded to even. Pages 0 and 1 are meta pages, written in
 * turn. Integers are in the machine's order.
 *
 * Thread: pure functions.
 */
#ifndef LEAFD_STORAGE_LMDB_LAYOUT_H
#define LEAFD_STORAGE_LMDB_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

_Static_assert(sizeof(size_t) == 8, "the page format is that of 64-bit systems");

#define PAGE_HEADER_BYTES 16
#define NODE_HEADER_BYTES 8
#define TREE_BYTES 48 /* LMDB's record of a tree: in meta pages, and as value of a table's name */
#define TREE_DEPTH_MAX 32
#define TREE_ROOT_NONE UINT64_MAX

enum page_flag { PAGE_BRANCH = 0x01, PAGE_LEAF = 0x02, PAGE_OVERFLOW = 0x04, PAGE_META = 0x08 };
enum node_flag { NODE_BIG = 0x01, NODE_TREE = 0x02 };
enum tree_kind { TREE_FREE, TREE_MAIN, TREE_META, TREE_LOG, TREE_STATE, TREE_KINDS };

struct tree {
    enum tree_kind kind;
    bool known; /* a record of it was found */
    uint32_t pad;
    uint16_t flags;
    uint16_t depth;
    uint64_t branch_pages;
    uint64_t leaf_pages;
    uint64_t overflow_pages;
    uint64_t entries;
    uint64_t root;
};

struct meta_page {
    uint32_t magic;
    uint32_t version;
    struct tree free; /* its pad is the page size */
    struct tree main;
    uint64_t last_page;
    uint64_t txn;
};

static inline uint16_t get_u16(const uint8_t *at)
{
    uint16_t value;

    memcpy(&value, at, sizeof value);
    return value;
}

static inline uint32_t get_u32(const uint8_t *at)
{
    uint32_t value;

    memcpy(&value, at, sizeof value);
    return value;
}

static inline uint64_t get_u64(const uint8_t *at)
{
    uint64_t value;

    memcpy(&value, at, sizeof value);
    return value;
}

static inline void get_tree(const uint8_t *at, enum tree_kind kind, struct tree *ret_tree)
{
    *ret_tree = (struct tree){.kind = kind,
                              .known = true,
                              .pad = get_u32(at),
                              .flags = get_u16(at + 4),
                              .depth = get_u16(at + 6),
                              .branch_pages = get_u64(at + 8),
                              .leaf_pages = get_u64(at + 16),
                              .overflow_pages = get_u64(at + 24),
                              .entries = get_u64(at + 32),
                              .root = get_u64(at + 40)};
}

#endif
