/*
 * target.c - see target.h. Thread: one.
 */
#include "src/ctl/cmd/target.h"

#include <inttypes.h>
#include <stdio.h>

#include "src/ctl/net/exchange.h"

void target_init(struct target *target, const char *path, const char *name)
{
    *target = (struct target){0};
    buf_printf(&target->text, "%s", path);
    if (name != NULL) {
        exchange_encode(&target->text, name);
    }
}

void target_add(struct target *target, const char *option, const char *value)
{
    if (value != NULL) {
        buf_printf(&target->text, "%c%s=", target->has_option ? '&' : '?', option);
        exchange_encode(&target->text, value);
        target->has_option = true;
    }
}

void target_add_number(struct target *target, const char *option, uint64_t value)
{
    char text[24];

    (void)snprintf(text, sizeof text, "%" PRIu64, value);
    target_add(target, option, text);
}

const char *target_text(struct target *target)
{
    return buf_text(&target->text);
}

void target_free(struct target *target)
{
    buf_free(&target->text);
}
