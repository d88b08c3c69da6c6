/*
 * busiest.h - which tags grow fastest, over all nodes: found in bounded memory while the log is
 * applied, whatever number of tags there is.
 *
 * The happy path: busiest_note() hears by how much a tag's max_id rose; busiest_look() lists the
 * fastest with their rates.
 *
 * The algorithm is Space-Saving (Metwally, Agrawal, El Abbadi 2005): a tag that has no place takes
 * that of the one with the lowest weight, and inherits its weight. So a tag that makes up more than
 * one part in BUSIEST_PLACES of all growth has a place. Weights and growth fade: they halve in each
 * BUSIEST_HALF_MS. A rate is the faded growth of the tag since it got its place, by the faded time.
 *
 * Failure modes: where thousands of tags are equally busy, the list is of some of them. A tag that
 * is deleted stays until it fades. Rates are those of granted segments, of the last minutes.
 *
 * Thread: one owner (the raft loop).
 */
#ifndef LEAFD_RAFT_CLUSTER_BUSIEST_H
#define LEAFD_RAFT_CLUSTER_BUSIEST_H

#include <stddef.h>
#include <stdint.h>

#include "src/id/codec/tag.h"

#define BUSIEST_PLACES 64
#define BUSIEST_HALF_MS 60000

struct busiest_place {
    char name[LIMIT_TAG_NAME_BYTES + 1];
    uint16_t name_len;
    uint64_t hash;
    double weight;   /* ids, faded; with what it inherited */
    double grown;    /* ids, faded, since it has its place */
    double lasted_s; /* seconds, faded likewise */
};

struct busiest {
    uint64_t seed;
    uint64_t faded_ms; /* up to when everything is faded */
    size_t count;
    struct busiest_place places[BUSIEST_PLACES];
};

/* seed: random, so that nobody can choose names that are taken for each other. */
void busiest_init(struct busiest *busiest, uint64_t seed, uint64_t now_ms);

/* max_id of the tag rose by `grown` ids, > 0. */
void busiest_note(struct busiest *busiest, const char *name, size_t len, uint64_t grown,
                  uint64_t now_ms);

struct busiest_tag {
    const struct busiest_place *place; /* borrowed until the next note */
    double per_s;
};

/* The fastest, at most `max`, fastest first; returns how many. Those below one id in an hour are
 * left out. */
size_t busiest_look(struct busiest *busiest, uint64_t now_ms, struct busiest_tag *ret_tags,
                    size_t max);

#endif
