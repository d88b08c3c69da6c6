/*
 * takeover.c - see takeover.h. Thread: one.
 */
#include "src/ctl/cmd/takeover.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "http/proto/text.h"
#include "src/base/assert.h"
#include "src/base/limits.h"
#include "src/ctl/cmd/fields.h"
#include "src/ctl/cmd/target.h"

#define CALL_BYTES (3 << 20)     /* of a body; leafd takes 8 MiB */
#define CALL_TIMEOUT_MS 60000    /* 10,000 tags, on a slow disk, or through an election */
#define DEFAULT_MAX_STEP 1000000 /* of a tag that is made without one */
#define TOLD 20                  /* tags of a kind that are named */

void takeover_init(struct takeover *takeover, struct ctl *ctl, const struct import_tags *tags)
{
    size_t count = tags->count + 1;

    *takeover = (struct takeover){.ctl = ctl,
                                  .tags = tags,
                                  .states = MUST_HAVE(calloc(count, sizeof *takeover->states)),
                                  .before = MUST_HAVE(calloc(count, sizeof *takeover->before)),
                                  .after = MUST_HAVE(calloc(count, sizeof *takeover->after))};
}

void takeover_free(struct takeover *takeover)
{
    free(takeover->states);
    free(takeover->before);
    free(takeover->after);
}

/* --- the cluster's tags --- */

typedef void (*each_t)(struct takeover *takeover, size_t which, const json_t *tag);

static void each_of_page(struct takeover *takeover, const json_t *page, each_t each)
{
    for (size_t i = 0; i < field_count(page, "tags"); i++) {
        const json_t *tag = field_item(page, "tags", i);
        const char *name = field_text(tag, "tag");
        const struct import_tag *found =
            name != NULL ? tags_find(takeover->tags, name, strlen(name)) : NULL;

        if (found != NULL) {
            each(takeover, (size_t)(found - takeover->tags->list), tag);
        }
    }
}

/* All tags of the cluster that are in the file too, from the first to the last name of the file. */
static enum ctl_exit read_cluster(struct takeover *takeover, each_t each)
{
    char *after = NULL;
    enum ctl_exit code = CTL_DONE;

    do {
        TARGET_LOCAL(target);
        ANSWER_LOCAL(answer);
        const char *next;

        target_init(&target, "/api/tags", NULL);
        target_add_number(&target, "limit", LIMIT_TAGS_PER_PAGE);
        target_add(&target, "after", after);
        code = ctl_get(takeover->ctl, target_text(&target), &answer);
        if (code != CTL_DONE) {
            break;
        }
        each_of_page(takeover, answer.json, each);
        next = field_text(answer.json, "next");
        if (next != NULL && after != NULL && strcmp(next, after) <= 0) {
            code = ctl_fail(CTL_INTERNAL, "the next page of tags begins before this one");
        }
        free(after);
        after = code == CTL_DONE && next != NULL ? strdup(next) : NULL;
    } while (after != NULL);
    free(after);
    return code;
}

/* --- compare --- */

static bool takeover_has_text(const json_t *tag, const char *field, const char *text, size_t len)
{
    const char *there = field_text(tag, field);

    return there != NULL && strlen(there) == len && memcmp(there, text, len) == 0;
}

static void compare_tag(struct takeover *takeover, size_t which, const json_t *there)
{
    const struct import_tag *tag = &takeover->tags->list[which];
    uint64_t max_id = (uint64_t)field_number(there, "max_id", 0);
    bool same = max_id == tag->max_id && (uint64_t)field_number(there, "step", 0) == tag->step &&
                (!tag->has_description ||
                 takeover_has_text(there, "description", tag->description, tag->description_len));

    takeover->before[which] = max_id;
    takeover->states[which] = same                   ? TAKEOVER_THERE
                              : max_id > tag->max_id ? TAKEOVER_AHEAD
                                                     : TAKEOVER_CHANGE;
}

/* As leafd decides it (PUT /api/tags in docs/http-api.md). */
static bool takeover_needs_force(const struct takeover *takeover, size_t which)
{
    uint64_t max_id = takeover->tags->list[which].max_id;
    uint64_t before = takeover->states[which] == TAKEOVER_NEW ? 1 : takeover->before[which];

    return takeover->states[which] <= TAKEOVER_CHANGE &&
           ((max_id > before && max_id - before > LIMIT_MAX_ID_JUMP) ||
            TAG_MAX_ID - max_id < LIMIT_MAX_ID_LEFT);
}

static void tell_forced(const struct takeover *takeover, size_t which)
{
    const struct import_tag *tag = &takeover->tags->list[which];
    char place[ROW_PLACE_BYTES];

    ctl_progress("needs force: %s: tag '%.*s' would go on at %" PRIu64, row_place(tag->row, place),
                 (int)tag->name_len, tag->name, tag->max_id);
}

static void tell_ahead(const struct takeover *takeover, size_t which)
{
    const struct import_tag *tag = &takeover->tags->list[which];
    char place[ROW_PLACE_BYTES];

    ctl_progress(
        "%s: %s: tag '%.*s' is at %" PRIu64 " in the cluster, beyond %" PRIu64 " in the file",
        takeover->skip_ahead ? "left alone" : "would repeat ids", row_place(tag->row, place),
        (int)tag->name_len, tag->name, takeover->before[which], tag->max_id);
}

enum ctl_exit takeover_compare(struct takeover *takeover)
{
    size_t forced = 0;
    size_t ahead = 0;
    enum ctl_exit code;

    memset(takeover->states, TAKEOVER_NEW, takeover->tags->count);
    code = read_cluster(takeover, compare_tag);
    if (code != CTL_DONE) {
        return code;
    }
    memset(takeover->counts, 0, sizeof takeover->counts);
    for (size_t i = 0; i < takeover->tags->count; i++) {
        takeover->counts[takeover->states[i]]++;
        if (takeover_needs_force(takeover, i) && !takeover->force && forced++ < TOLD) {
            tell_forced(takeover, i);
        }
        if (takeover->states[i] == TAKEOVER_AHEAD && ahead++ < TOLD) {
            tell_ahead(takeover, i);
        }
    }
    if (forced > 0) {
        return ctl_fail(CTL_REFUSED,
                        "nothing was imported: %zu tags need force. Are these numbers "
                        "right? --force takes them; nobody may use these tags "
                        "meanwhile",
                        forced);
    }
    if (ahead > 0 && !takeover->skip_ahead) {
        return ctl_fail(CTL_REFUSED,
                        "nothing was imported: %zu tags are further in the cluster. If "
                        "they are in use there already, --skip-ahead leaves them as "
                        "they are",
                        ahead);
    }
    return CTL_DONE;
}

/* --- send --- */

static void takeover_put_tag(struct buf *body, const struct import_tag *tag)
{
    buf_printf(body, "%s{\"tag\":", body->len > 1 ? "," : "");
    text_put_json(body, tag->name, tag->name_len);
    buf_printf(body, ",\"max_id\":\"%" PRIu64 "\",\"step\":%" PRIu64, tag->max_id, tag->step);
    if (tag->has_description) {
        buf_printf(body, ",\"description\":");
        text_put_json(body, tag->description, tag->description_len);
    }
    if (tag->step > DEFAULT_MAX_STEP) {
        buf_printf(body, ",\"max_step\":%" PRIu64, tag->step);
    }
    buf_put(body, "}", 1);
}

/* Of one call that failed: what is done, and what to do. */
static enum ctl_exit takeover_print_failure(const struct takeover *takeover, size_t group,
                                            enum ctl_exit code, struct answer *answer)
{
    bool unknown = code == CTL_UNKNOWN || answer->repeated;

    (void)ctl_failed(code, answer);
    if (unknown) {
        ctl_progress("%zu tags were imported; of the next %zu it is not known", takeover->sent,
                     group);
    } else if (takeover->sent > 0) {
        ctl_progress("%zu tags were imported, the others were not", takeover->sent);
    } else {
        ctl_progress("nothing was imported");
    }
    if (unknown || takeover->sent > 0) {
        ctl_progress("run it again to complete it; with --skip-ahead if tags are in use meanwhile");
    }
    return code;
}

static enum ctl_exit send_call(struct takeover *takeover, struct buf *body, size_t group,
                               bool force)
{
    ANSWER_LOCAL(answer);
    enum ctl_exit code;

    buf_put(body, "]", 1);
    const struct ask ask = {.method = "POST",
                            .target = force ? "/api/tags?force=1" : "/api/tags",
                            .body = buf_text(body),
                            .timeout_ms = CALL_TIMEOUT_MS,
                            .once = force};

    code = cluster_ask(takeover->ctl->cluster, &ask, &answer);
    if (code != CTL_DONE) {
        return takeover_print_failure(takeover, group, code, &answer);
    }
    takeover->sent += group;
    ctl_progress("%zu of %zu tags sent", takeover->sent,
                 takeover->counts[TAKEOVER_NEW] + takeover->counts[TAKEOVER_CHANGE]);
    return CTL_DONE;
}

/* Those that need force, or those that do not. */
static enum ctl_exit send_kind(struct takeover *takeover, bool force)
{
    BUF_LOCAL(body);
    size_t group = 0;
    enum ctl_exit code = CTL_DONE;

    for (size_t i = 0; code == CTL_DONE && i < takeover->tags->count; i++) {
        if (takeover->states[i] > TAKEOVER_CHANGE || takeover_needs_force(takeover, i) != force) {
            continue;
        }
        if (group == 0) {
            body.len = 0;
            buf_put(&body, "[", 1);
        }
        takeover_put_tag(&body, &takeover->tags->list[i]);
        group++;
        if (group == LIMIT_TAGS_PER_BULK || body.len > CALL_BYTES) {
            code = send_call(takeover, &body, group, force);
            group = 0;
        }
    }
    if (code == CTL_DONE && group > 0) {
        code = send_call(takeover, &body, group, force);
    }
    return code;
}

enum ctl_exit takeover_send(struct takeover *takeover)
{
    enum ctl_exit code = send_kind(takeover, false);

    return code == CTL_DONE ? send_kind(takeover, true) : code;
}

/* --- read back --- */

static void read_back(struct takeover *takeover, size_t which, const json_t *there)
{
    takeover->after[which] = (uint64_t)field_number(there, "max_id", 0) + 1;
}

enum ctl_exit takeover_verify(struct takeover *takeover)
{
    size_t missing = 0;
    enum ctl_exit code = read_cluster(takeover, read_back);

    if (code != CTL_DONE) {
        ctl_progress("all was sent, but could not be read back");
        return code;
    }
    for (size_t i = 0; i < takeover->tags->count; i++) {
        const struct import_tag *tag = &takeover->tags->list[i];

        if (takeover->after[i] < tag->max_id + 1 && missing++ < TOLD) {
            ctl_progress("not as it was sent: tag '%.*s'%s", (int)tag->name_len, tag->name,
                         takeover->after[i] == 0 ? " is not there" : " is behind it");
        }
    }
    return missing == 0 ? CTL_DONE
                        : ctl_fail(CTL_INTERNAL, "%zu tags are not as they were sent", missing);
}
