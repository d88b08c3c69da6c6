/*
 * quorum.c - see quorum.h. Thread: any.
 */
#include "src/ctl/cmd/quorum.h"

#include <inttypes.h>
#include <stdio.h>

#include "src/ctl/cmd/fields.h"

static void count_voters(const json_t *status, struct quorum *quorum)
{
    int64_t self = field_number(status, "node_id", 0);

    for (size_t i = 0; i < field_count(status, "members"); i++) {
        const json_t *member = field_item(status, "members", i);

        if (field_is(member, "role", "voter")) {
            quorum->voters++;
            quorum->reachable +=
                field_number(member, "id", 0) == self || field_true(member, "reachable");
        }
    }
}

static void quorum_describe(struct quorum *quorum)
{
    const char *next = quorum->reachable < quorum->needed
                           ? "too few: no change is made, and held ids run out"
                       : quorum->survives_next_failure ? "survives the next failure"
                                                       : "the next failure stops it";

    (void)snprintf(quorum->text, sizeof quorum->text,
                   "%" PRId64 " of %" PRId64 " voters reached, %" PRId64 " needed: %s",
                   quorum->reachable, quorum->voters, quorum->needed, next);
}

void quorum_of(const json_t *status, struct quorum *ret)
{
    const json_t *told = json_object_get(status, "quorum");
    const char *text = field_text(told, "text");

    *ret = (struct quorum){0};
    count_voters(status, ret);
    ret->needed = field_number(told, "needed", ret->voters / 2 + 1);
    ret->reachable = field_number(told, "reachable", ret->reachable);
    ret->survives_next_failure = json_is_boolean(json_object_get(told, "survives_next_failure"))
                                     ? field_true(told, "survives_next_failure")
                                     : ret->reachable > ret->needed;
    if (text != NULL && *text != '\0') {
        (void)snprintf(ret->text, sizeof ret->text, "%s", text);
    } else {
        quorum_describe(ret);
    }
}
