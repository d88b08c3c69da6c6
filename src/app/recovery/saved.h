/*
 * saved.h - a state that a new cluster is to begin with: all rows at one index, out of a backup or
 * out of the directory of a node.
 *
 * The happy path: saved_add() of each row; saved_sort() if they did not come in order; then the
 * rows are there to be walked.
 *
 * Failure modes: none; what is read is checked by who reads it. Thread: main.
 */
#ifndef LEAFD_APP_RECOVERY_SAVED_H
#define LEAFD_APP_RECOVERY_SAVED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/base/limits.h"
#include "src/state/codec/cluster_command.h"

struct saved_row {
    uint8_t *key; /* owned; the value is behind it */
    uint32_t key_len;
    uint32_t value_len;
    /* Of a tag, as far as it is known: by how many ids it grew in so long. span_ms 0: not known */
    uint64_t grew;
    uint64_t span_ms;
};

struct saved {
    char cluster_id[LIMIT_CLUSTER_ID_BYTES + 1];
    struct uid uid;                        /* of the cluster; none: it has none yet */
    char version[32];                      /* of leafd that wrote a backup; "": it is none */
    uint64_t node_id;                      /* whose state it is */
    char address[LIMIT_ADDRESS_BYTES + 1]; /* of that node for its peers; "": not known */
    uint64_t index;                        /* of the state, and the term of that entry */
    uint64_t term;
    uint64_t tail;          /* of those, entries that it is not known whether they were committed */
    uint64_t wall_ms;       /* when it was taken; 0: not known */
    bool local;             /* the node asked nobody whether it was the newest */
    struct saved_row *rows; /* owned */
    size_t count;
    size_t capacity;
};

static inline const uint8_t *saved_value(const struct saved_row *row)
{
    return row->key + row->key_len;
}

/* Copies. Borrowed until the next one. */
struct saved_row *saved_add(struct saved *saved, const void *key, size_t key_len, const void *value,
                            size_t value_len);

/* Into the order of the keys; of rows with one key the one that was added last stays, and none if
 * that has no value: it was deleted. */
void saved_sort(struct saved *saved);

void saved_free(struct saved *saved);

#endif
