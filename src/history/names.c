/*
 * names.c - see names.h. Thread: one owner each.
 */
#include "src/history/names.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/array.h"
#include "src/base/assert.h"
#include "src/base/hash.h"

#define SLOTS_MIN 64

void history_names_init(struct history_names *names)
{
    *names = (struct history_names){.slot_count = SLOTS_MIN};
    names->slots = calloc(SLOTS_MIN, sizeof *names->slots);
    ASSERT(names->slots != NULL);
}

void history_names_free(struct history_names *names)
{
    for (uint32_t i = 0; i < names->count; i++) {
        free(names->names[i].text);
    }
    free(names->names);
    free(names->slots);
    *names = (struct history_names){0};
}

static bool is_name(const struct history_name *name, const char *text, size_t len)
{
    return name->len == len && memcmp(name->text, text, len) == 0;
}

static uint32_t *find_slot(const struct history_names *names, const char *text, size_t len,
                           uint64_t hash)
{
    uint32_t mask = names->slot_count - 1;
    uint32_t at = (uint32_t)hash & mask;

    while (names->slots[at] != 0) {
        const struct history_name *name = &names->names[names->slots[at] - 1];

        if (name->hash == hash && is_name(name, text, len)) {
            break;
        }
        at = (at + 1) & mask;
    }
    return &names->slots[at];
}

/* Twice as many slots, so that at most half of them are in use. */
static void grow_slots(struct history_names *names)
{
    free(names->slots);
    names->slot_count *= 2;
    names->slots = calloc(names->slot_count, sizeof *names->slots);
    ASSERT(names->slots != NULL);
    for (uint32_t i = 0; i < names->count; i++) {
        const struct history_name *name = &names->names[i];

        *find_slot(names, name->text, name->len, name->hash) = i + 1;
    }
}

static void append(struct history_names *names, const char *text, size_t len, uint64_t hash)
{
    char *copy = malloc(len + 1);

    ASSERT(copy != NULL && names->count < UINT32_MAX / 4);
    memcpy(copy, text, len);
    copy[len] = '\0';
    names->names = array_room(names->names, names->count, &names->capacity, sizeof *names->names);
    names->names[names->count++] = (struct history_name){copy, len, hash};
}

uint32_t history_names_number(struct history_names *names, const char *text, size_t len)
{
    uint64_t hash;
    uint32_t *slot;

    ASSERT(text != NULL);
    if (names->count > 0 && is_name(&names->names[names->latest], text, len)) {
        return names->latest;
    }
    hash = hash_bytes(text, len, 0);
    slot = find_slot(names, text, len, hash);
    if (*slot == 0) {
        append(names, text, len, hash);
        *slot = names->count;
        names->latest = names->count - 1;
        if (names->count > names->slot_count / 2) {
            grow_slots(names);
        }
        return names->latest;
    }
    names->latest = *slot - 1;
    return names->latest;
}
