/*
 * names.h - names as numbers: each name is kept once and known by its place.
 *
 * Thread: one owner each.
 */
#ifndef LEAFD_HISTORY_NAMES_H
#define LEAFD_HISTORY_NAMES_H

#include <stddef.h>
#include <stdint.h>

#include "src/base/hash.h"

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

#endif
