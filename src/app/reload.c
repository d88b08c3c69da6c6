/*
 * reload.c - see reload.h. Thread: main.
 */
#include "src/app/reload.h"

#include <stdlib.h>
#include <string.h>

#include "src/app/config/load.h"
#include "src/app/config/table.h"
#include "src/base/assert.h"
#include "src/base/clock.h"

#define TEXT_BYTES 1500 /* of what a line of the log says of changes; the rest is cut */
#define VALUE_BYTES 128

struct quoted {
    char text[TEXT_BYTES];
};

static const char *quote(const struct buf *text, struct quoted *out)
{
    return log_quote(text->data, text->len, out->text, sizeof out->text);
}

void reload_init(struct reload *reload, const struct config *started, struct http_reloads *counts)
{
    *reload = (struct reload){.started = started, .counts = counts};
}

void reload_add(struct reload *reload, const struct reload_part *part)
{
    ASSERT(reload->part_count < RELOAD_PARTS_MAX);
    reload->parts[reload->part_count++] = *part;
}

static void config_free(struct config *config)
{
    if (config != NULL) {
        config_release(config);
        free(config);
    }
}

void reload_release(struct reload *reload)
{
    config_free(reload->in_force);
    reload->in_force = NULL;
}

static const struct config *before(const struct reload *reload)
{
    return reload->in_force != NULL ? reload->in_force : reload->started;
}

/* --- what changes --- */

static const char *value_of(const struct config *config, size_t row)
{
    const char *text = config->origins[row].text;

    return text != NULL ? text : "";
}

static void put_comma(struct buf *out)
{
    if (out->len > 0) {
        buf_printf(out, ", ");
    }
}

/* Settings that parts take: "log.level = debug (was info)". */
static void put_changed(const struct reload *reload, const struct config *next, struct buf *out)
{
    for (size_t row = 0; row < setting_count; row++) {
        if (settings[row].live && !setting_same(row, before(reload), next)) {
            put_comma(out);
            buf_printf(out, "%s = %.*s (was %.*s)", settings[row].name, VALUE_BYTES,
                       value_of(next, row), VALUE_BYTES, value_of(before(reload), row));
        }
    }
}

/* Those that keep the value of the start. */
static void put_kept(const struct reload *reload, const struct config *next, struct buf *out)
{
    for (size_t row = 0; row < setting_count; row++) {
        if (!settings[row].live && !setting_same(row, reload->started, next)) {
            put_comma(out);
            buf_printf(out, "%s", settings[row].name);
        }
    }
}

/* --- all or nothing --- */

/* 0, or ERR_INVALID: then *ret_part refused, and nothing is prepared. */
static int prepare_all(struct reload *reload, const struct config *next, const char **ret_part,
                       struct config_error *ret_error)
{
    for (size_t i = 0; i < reload->part_count; i++) {
        const struct reload_part *part = &reload->parts[i];

        *ret_part = part->name;
        if (part->prepare(part->data, next, ret_error) != 0) {
            while (i-- > 0) { /* those that have prepared, the last one first */
                reload->parts[i].drop(reload->parts[i].data);
            }
            return ERR_INVALID;
        }
    }
    return 0;
}

static void commit_all(struct reload *reload, struct buf *changes)
{
    for (size_t i = 0; i < reload->part_count; i++) {
        const struct reload_part *part = &reload->parts[i];
        BUF_LOCAL(words);

        part->commit(part->data, &words);
        if (words.len > 0) {
            put_comma(changes);
            buf_printf(changes, "%s: %s", part->name, buf_text(&words));
        }
    }
}

static void refuse(struct reload *reload, const char *part, const struct config_error *error)
{
    struct quoted reason;

    http_reloads_add(&reload->counts->refused);
    log_error("app", "the reload was refused, and nothing has changed", "part=%s reason=%s", part,
              log_quote(error->text, strlen(error->text), reason.text, sizeof reason.text));
}

/* The lines are written at the lower one of both levels: they tell of the change. */
static void tell(const struct reload *reload, const struct config *next, const struct buf *changes)
{
    BUF_LOCAL(kept);
    struct quoted text;

    log_info("app", "reloaded", "changed=%s", changes->len > 0 ? quote(changes, &text) : "nothing");
    put_kept(reload, next, &kept);
    if (kept.len > 0) {
        log_warn("app", "settings differ from those in force, and take a restart", "settings=%s",
                 quote(&kept, &text));
    }
}

static void take(struct reload *reload, struct config *next)
{
    enum log_level was = before(reload)->log_level;
    BUF_LOCAL(changes);

    put_changed(reload, next, &changes);
    commit_all(reload, &changes);
    log_set_level(was < next->log_level ? was : next->log_level);
    tell(reload, next, &changes);
    log_set_level(next->log_level);
    log_set_format(next->log_format);
    config_free(reload->in_force);
    reload->in_force = next;
    http_reloads_add(&reload->counts->done);
    http_reloads_set(&reload->counts->done_ms, clock_wall_ms(clock_system()));
}

bool reload_run(struct reload *reload)
{
    struct config *next = MUST_HAVE(calloc(1, sizeof *next));
    const char *part = "settings";
    struct config_error error;

    if (config_load_again(reload->started, next, &error) != 0 ||
        prepare_all(reload, next, &part, &error) != 0) {
        config_free(next);
        refuse(reload, part, &error);
        return false;
    }
    take(reload, next);
    return true;
}
