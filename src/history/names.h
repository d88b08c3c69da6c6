/*
 * names.h - names as numbers: each name is kept once and known by its place.
 *
 * An open table of hashes; the name asked for last is found without it, since files have long runs
 * of one client. Thread: one owner each.
 */
#ifndef LEAFD_HISTORY_NAMES_H
#define LEAFD_HISTORY_NAMES_H

#include <stddef.h>
#include <stdint.h>

struct history_name {
    char *text; /* len bytes and a NUL */
    size_t len;
    uint64_t hash;
};

struct history_names {
    struct history_name *names;
    uint32_t count;
    size_t capacity;
    uint32_t *slots; /* number + 1 of a name, 0: empty; slot_count is a power of two */
    uint32_t slot_count;
    uint32_t latest; /* asked for last */
};

void history_names_init(struct history_names *names);
void history_names_free(struct history_names *names);

/* The number of a name; a new one, counting from 0, if it was not known. */
uint32_t history_names_number(struct history_names *names, const char *text, size_t len);

#endif
