/*
 * tell.c - see tell.h. Thread: pure functions, any.
 */
#include "src/app/recovery/tell.h"

#include <inttypes.h>
#include <stdio.h>

#include "http/proto/text.h"
#include "src/state/journal.h"

#define SPAN_BYTES 32

/* "3 d 2 h", "2 h 5 min", "14 s". */
static const char *span(uint64_t ms, char out[SPAN_BYTES])
{
    uint64_t s = ms / 1000;

    if (s >= 86400) {
        (void)snprintf(out, SPAN_BYTES, "%" PRIu64 " d %" PRIu64 " h", s / 86400, s % 86400 / 3600);
    } else if (s >= 3600) {
        (void)snprintf(out, SPAN_BYTES, "%" PRIu64 " h %" PRIu64 " min", s / 3600, s % 3600 / 60);
    } else if (s >= 120) {
        (void)snprintf(out, SPAN_BYTES, "%" PRIu64 " min", s / 60);
    } else {
        (void)snprintf(out, SPAN_BYTES, "%" PRIu64 " s", s);
    }
    return out;
}

static uint64_t age_ms(const struct saved *saved, uint64_t now_ms)
{
    return saved->wall_ms != 0 && now_ms > saved->wall_ms ? now_ms - saved->wall_ms : 0;
}

static void tell_backup(const struct saved *saved, uint64_t now_ms, struct buf *out)
{
    char uid[UID_TEXT_BYTES];
    char time[TEXT_TIME_BYTES];
    char age[SPAN_BYTES];

    buf_printf(out,
               "The backup is whole: cluster %s (uid %s), the state at index %" PRIu64
               " (term %" PRIu64 "),\ntaken by node %" PRIu64 " (leafd %s) at %s, %s ago.\n",
               saved->cluster_id, uid_text(&saved->uid, uid), saved->index, saved->term,
               saved->node_id, saved->version, text_time_rfc3339(saved->wall_ms, time),
               span(age_ms(saved, now_ms), age));
    if (saved->local) {
        buf_printf(out, "It was taken with consistency=local: the node asked nobody, and what the "
                        "others knew by then may be missing.\n");
    }
}

void tell_file(const struct saved *saved, uint64_t now_ms, struct buf *out)
{
    size_t tags = 0;
    size_t measured = 0;

    for (size_t i = 0; i < saved->count; i++) {
        if (saved->rows[i].key[0] == FSM_TABLE_TAGS) {
            tags++;
            measured += saved->rows[i].span_ms > 0;
        }
    }
    tell_backup(saved, now_ms, out);
    buf_printf(out,
               "%zu rows, %zu of them tags (deleted ones too), of %zu of which is known how "
               "fast they grew.\n",
               saved->count, tags, measured);
}

static void tell_survivor(const struct options *options, const struct saved *saved, struct buf *out)
{
    char uid[UID_TEXT_BYTES];

    buf_printf(out,
               "The directory is whole: cluster %s (uid %s), node %" PRIu64
               ".\nIts log ends at term %" PRIu64 ", index %" PRIu64 ".\n",
               saved->cluster_id, uid_text(&saved->uid, uid), saved->node_id, saved->term,
               saved->index);
    if (saved->tail > 0) {
        buf_printf(out,
                   "The last %" PRIu64 " entries may not have been acknowledged to anybody; they "
                   "count as if they were.\n",
                   saved->tail);
    }
    if (options->compare_count > 0) {
        buf_printf(out, "No survivor that it was compared with (%u) knows more.\n",
                   options->compare_count);
    }
    for (unsigned i = 0; i < options->lost_count; i++) {
        buf_printf(out, "Node %" PRIu64 " is taken for lost: it must never start again.\n",
                   options->lost[i]);
    }
}

void tell_source(const struct options *options, const struct saved *saved,
                 const struct renewed *renewed, uint64_t now_ms, struct buf *out)
{
    char time[TEXT_TIME_BYTES];

    if (options->command == OPTIONS_RESTORE) {
        tell_backup(saved, now_ms, out);
    } else {
        tell_survivor(options, saved, out);
    }
    buf_printf(out, "\n%zu tags:\n", renewed->tag_count);
    buf_put(out, renewed->tags.data, renewed->tags.len);
    if (renewed->clamped > 0) {
        buf_printf(out,
                   "%zu tags could NOT be raised so far: they end there, and are exhausted. If you "
                   "know the last\nid that was handed out of one, set max_id behind it, with "
                   "force=1.\n",
                   renewed->clamped);
    }
    if (renewed->workers > 0) {
        buf_printf(out, "%zu worker ids: all are released, and none may stamp a time up to %s.\n",
                   renewed->workers, text_time_rfc3339(now_ms, time));
    }
    if (renewed->keys > 0) {
        buf_printf(out, "%zu idempotency keys: %s\n", renewed->keys,
                   options->drop_keys
                       ? "dropped; who asks again with one gets other ids than before."
                       : "kept; who asks again with one gets the ids that were its own.");
    }
}

/* The raise is by time: how it stands to the backup's age. */
static void tell_time(const struct raise *raise, uint64_t age, struct buf *out)
{
    char raised[SPAN_BYTES];
    char whole[SPAN_BYTES];
    char old[SPAN_BYTES];
    uint64_t covered = raise->time_ms * raise->factor;

    buf_printf(out,
               "- Ids of a tag that grew, in the time from the backup to the end of the old "
               "cluster, by more than\n  it would grow in %s as fast as measured, times %" PRIu64
               " (and by more than %" PRIu64 " of its largest segments).\n",
               span(raise->time_ms, raised), raise->factor, raise->factor);
    if (age > covered) {
        buf_printf(out,
                   "  WARNING: the backup is %s old. At the measured rate that is more than the "
                   "raise covers (%s).\n  Unless the old cluster ended long ago, give a longer "
                   "--raise-time.\n",
                   span(age, old), span(covered, whole));
    } else if (age > raise->time_ms) {
        buf_printf(out,
                   "  The backup is %s old, longer than %s: only the factor covers the rest.\n",
                   span(age, old), span(raise->time_ms, raised));
    }
}

void tell_limits(const struct options *options, const struct saved *saved,
                 const struct renewed *renewed, uint64_t now_ms, struct buf *out)
{
    const struct raise *raise = &options->raise;
    const char *since = options->command == OPTIONS_RESTORE ? "after the backup was taken"
                                                            : "by entries that only lost nodes had";

    buf_printf(out, "\nWhat the raise cannot cover, so that ids would come twice:\n");
    if (raise->by_ids) {
        buf_printf(out, "- Ids of a tag of which more than %" PRIu64 " were granted %s%s.\n",
                   raise->ids, since, raise->by_time ? ", where that is the larger raise" : "");
    }
    if (raise->by_time) {
        tell_time(raise, age_ms(saved, now_ms), out);
    }
    buf_put(out, renewed->limits.data, renewed->limits.len);
    buf_printf(out,
               "- Tags that were made %s: they are not known here. Whoever makes one again\n"
               "  must give it a max_id above all that was handed out; one with a secret shape "
               "another text, too,\n  since its key is another one.\n"
               "- Texts of a tag with {key} whose key was changed more than once since.\n"
               "- Old nodes that still run: they go on handing out what they hold. Stop them "
               "first, all of them.\n"
               "- Generators of snowflake ids that hold a worker id of the old cluster: have them "
               "acquire anew.\n",
               since);
    if (options->command == OPTIONS_RECOVER) {
        buf_printf(out,
                   "\nWhat may be lost: everything that the lost nodes acknowledged and this one "
                   "does not have:\nchanges of tags (made, deleted, max_id, mode) behind index "
                   "%" PRIu64 ".\n",
                   saved->index);
    } else {
        buf_printf(out, "\nWhat is lost: every change of a tag since the backup.\n");
    }
}

void tell_result(const struct options *options, const struct fresh *fresh,
                 const struct renewed *renewed, struct buf *out)
{
    char uid[UID_TEXT_BYTES];

    if (options->dry_run) {
        buf_printf(out, "\nA dry run: nothing was written.\n");
        return;
    }
    buf_printf(out,
               "\nWritten: %s has %zu rows, for node %" PRIu64
               " of a new cluster \"%s\"\n(uid %s), of "
               "which it is the only member.\n"
               "Next: start it (node.id=%" PRIu64 ", cluster.id=%s, its peer address %s);\n"
               "then start the other nodes with empty directories and join=%s.\n",
               fresh->dir, renewed->row_count, fresh->node_id, fresh->cluster_id,
               uid_text(&renewed->uid, uid), fresh->node_id, fresh->cluster_id, fresh->address,
               fresh->address);
}
