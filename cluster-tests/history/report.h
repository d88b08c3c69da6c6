/*
 * report.h - what was found in a history: counts, and texts for the first ones; names as numbers,
 * each kept once and known by its place.
 *
 * Happy path: a check says what it found by report_begin(); if its text is wanted it appends the
 * entries involved by report_entry(), and a newline.
 *
 * Thread: one owner each.
 */
#ifndef LEAFD_HISTORY_REPORT_H
#define LEAFD_HISTORY_REPORT_H

#include "src/base/buf.h"
#include "src/base/hash.h"
#include "cluster-tests/history/entry.h"

struct history_name {
    struct hash_link link;
    uint32_t number;
    uint32_t hash;
    size_t len;
    char text[]; /* len bytes and a NUL */
};

struct history_names {
    struct history_name **names; /* by number */
    size_t count;
    size_t capacity;
    struct hash_table table;
};

void history_names_init(struct history_names *names);
void history_names_free(struct history_names *names);

/* The number of a name; a new one, counting from 0, if it was not known. */
uint32_t history_names_number(struct history_names *names, const char *text, size_t len);

enum history_kind {
    HISTORY_NOT_ONCE,
    HISTORY_OTHER_IDS, /* one key, two ranges */
    HISTORY_NOT_STRICT,
    HISTORY_BELOW_START,
    HISTORY_GAP,
    HISTORY_KINDS
};

/* No violation, as far as is known: a gap that is not decided. */
#define HISTORY_UNDECIDED HISTORY_KINDS

struct history_report {
    uint64_t operations;           /* all that were added */
    uint64_t unknown;              /* those of unknown outcome among them */
    uint64_t ids;                  /* acknowledged, the ids of a key counted once */
    uint64_t tags;                 /* that have operations */
    uint64_t violations;           /* all that were found */
    uint64_t found[HISTORY_KINDS]; /* the same by kind */
    uint64_t undecided;            /* gaps; no violations, as far as is known */
    struct buf text;               /* the first of both, a line each; to be freed by buf_free() */
};

/* "not_once", "other_ids", "not_strict", "below_start", "gap". Static memory. */
const char *history_kind_name(enum history_kind kind);

/* A report that is being written. */
struct report {
    const struct history_names *tags;
    const struct history_names *clients;
    uint32_t tag; /* that is being checked */
    unsigned texts_left;
    unsigned undecided_left; /* texts on what was not decided */
    struct history_report *to;
};

/* Count a violation, or HISTORY_UNDECIDED. True if its text is wanted, and then it is begun:
 * "kind: tag ...: ". */
bool report_begin(struct report *report, enum history_kind kind);

/* Append an answered entry to the text: "5..9 of client c1 (sent 100, received 200)". */
void report_entry(struct report *report, const struct history_entry *entry);

#endif
