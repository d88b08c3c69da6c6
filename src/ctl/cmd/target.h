/*
 * target.h - the target of a request: a path, and options behind it. Thread: one.
 */
#ifndef LEAFD_CTL_CMD_TARGET_H
#define LEAFD_CTL_CMD_TARGET_H

#include <stdint.h>

#include "src/base/buf.h"

struct target {
    struct buf text;
    bool has_option;
};

/* path, and name percent-encoded behind it unless it is NULL. */
void target_init(struct target *target, const char *path, const char *name);

/* An option; value NULL: it is left out. */
void target_add(struct target *target, const char *option, const char *value);
void target_add_number(struct target *target, const char *option, uint64_t value);

/* Borrowed until the next option. */
const char *target_text(struct target *target);
void target_free(struct target *target);

/* One that is freed at the end of its block. */
#define TARGET_LOCAL(name) struct target name __attribute__((cleanup(target_free))) = {0}

#endif
