/*
 * names.c - see names.h. Thread: one owner each.
 */
#include "cluster-tests/history/names.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/base/buf.h"
#include "src/base/container.h"
#include "src/base/hash.h"

static uint32_t hash_of(const struct hash_link *link)
{
    return CONTAINER(link, const struct history_name, link)->hash;
}

void history_names_init(struct history_names *names)
{
    *names = (struct history_names){0};
    hash_table_init(&names->table, hash_of);
}

void history_names_free(struct history_names *names)
{
    for (size_t i = 0; i < names->count; i++) {
        free(names->names[i]);
    }
    free(names->names);
    hash_table_free(&names->table);
    history_names_init(names);
}

static struct history_name *append(struct history_names *names, const char *text, size_t len,
                                   uint32_t hash)
{
    struct history_name *name = MUST_HAVE(malloc(sizeof *name + len + 1));

    ASSERT(names->count < UINT32_MAX);
    name->number = (uint32_t)names->count;
    name->hash = hash;
    name->len = len;
    memcpy(name->text, text, len);
    name->text[len] = '\0';
    names->names = array_room(names->names, names->count, &names->capacity, sizeof *names->names);
    names->names[names->count++] = name;
    hash_table_add(&names->table, &name->link);
    return name;
}

static struct history_name *find(const struct history_names *names, const char *text, size_t len,
                                 uint32_t hash)
{
    struct hash_link *link = hash_table_chain(&names->table, hash);

    for (; link != NULL; link = link->next) {
        struct history_name *name = CONTAINER(link, struct history_name, link);

        if (name->hash == hash && name->len == len && memcmp(name->text, text, len) == 0) {
            return name;
        }
    }
    return NULL;
}

uint32_t history_names_number(struct history_names *names, const char *text, size_t len)
{
    uint32_t hash = (uint32_t)hash_bytes(text, len, 0);
    struct history_name *name = find(names, text, len, hash);

    ASSERT(text != NULL);
    if (name == NULL) {
        name = append(names, text, len, hash);
    }
    return name->number;
}
