/*
 * reload.c - see reload.h. Thread: main.
 */
#include "src/node/reload.h"

#include <stdlib.h>

#include "src/base/assert.h"
#include "src/base/clock.h"
#include "src/node/config/config.h"

#define TEXT_BYTES 1500 /* of changes in a line of the log; the rest is cut */
#define VALUE_BYTES 128

void reload_add(struct reload *reload, const struct reload_part *part, void *data)
{
    ASSERT(reload->part_count < RELOAD_PARTS_MAX);
    reload->parts[reload->part_count].part = part;
    reload->parts[reload->part_count++].data = data;
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

/* --- all or nothing --- */

static void reload_take(struct reload *reload, struct config *next)
{
    const struct config *before = reload->in_force != NULL ? reload->in_force : reload->started;
    enum log_level was = before->log_level;
    BUF_LOCAL(changes);
    BUF_LOCAL(kept);
    char text[TEXT_BYTES];

    for (size_t row = 0; row < setting_count; row++) {
        if (settings[row].live && !setting_same(row, before, next)) {
            /* A part takes it: "log.level = debug (was info)". */
            put_comma(&changes);
            buf_printf(&changes, "%s = %.*s (was %.*s)", settings[row].name, VALUE_BYTES,
                       value_of(next, row), VALUE_BYTES, value_of(before, row));
        } else if (!settings[row].live && !setting_same(row, reload->started, next)) {
            put_comma(&kept); /* it keeps the value of the start */
            buf_printf(&kept, "%s", settings[row].name);
        }
    }
    for (size_t i = 0; i < reload->part_count; i++) {
        BUF_LOCAL(words);

        reload->parts[i].part->commit(reload->parts[i].data, &words);
        if (words.len > 0) {
            put_comma(&changes);
            buf_printf(&changes, "%s: %s", reload->parts[i].part->name, buf_text(&words));
        }
    }
    /* The lines about the change are written at the lower of both levels. */
    log_set_level(was < next->log_level ? was : next->log_level);
    log_info("app", "reloaded", "changed=%s",
             changes.len > 0 ? log_quote(changes.data, changes.len, text, sizeof text) : "nothing");
    if (kept.len > 0) {
        log_warn("app", "settings differ from those in force, and take a restart", "settings=%s",
                 log_quote(kept.data, kept.len, text, sizeof text));
    }
    log_set_level(next->log_level);
    log_set_format(next->log_format);
    config_free(reload->in_force);
    reload->in_force = next;
    counter_add(&reload->counts->done, 1);
    atomic_store(&reload->counts->done_ms, clock_wall_ms(clock_system()));
}

bool reload_run(struct reload *reload)
{
    struct config *next = MUST_HAVE(calloc(1, sizeof *next));
    const char *part = "settings";
    enum config_action action;
    struct config_error error;
    size_t prepared = 0;
    int rv = config_load(reload->started->given.argc, reload->started->given.argv,
                         reload->started->given.env, next, &action, &error);

    for (; rv == 0 && prepared < reload->part_count; prepared += rv == 0) {
        part = reload->parts[prepared].part->name;
        rv = reload->parts[prepared].part->prepare(reload->parts[prepared].data, next, &error);
    }
    if (rv != 0) {
        while (prepared-- > 0) { /* the last one first */
            reload->parts[prepared].part->drop(reload->parts[prepared].data);
        }
        config_free(next);
        counter_add(&reload->counts->refused, 1);
        log_error("app", "the reload was refused, and nothing has changed", "part=%s reason=%s",
                  part, LOG_QUOTED(error.text, TEXT_BYTES));
        return false;
    }
    reload_take(reload, next);
    return true;
}

/* --- the keys between nodes --- */

static int keys_prepare(void *data, const struct config *next, struct config_error *ret_error)
{
    struct reload_keys *keys = data;
    char why[NET_KEYS_WHY_BYTES];

    ASSERT(keys->made == NULL);
    if (net_keys_make(&next->node.keys, &keys->made, why) != 0) {
        return config_fail(ret_error, "%s", why);
    }
    return 0;
}

static void keys_commit(void *data, struct buf *ret_changes)
{
    struct reload_keys *keys = data;
    unsigned renewed = 0;
    bool changed = false;

    if (*keys->node != NULL) {
        changed = node_keys_commit(*keys->node, keys->made, &renewed);
        atomic_store(&keys->counts->peer_until_s, (uint64_t)node_keys_until_s(*keys->node));
    } else {
        net_keys_unref(keys->made);
    }
    keys->made = NULL;
    if (changed) {
        buf_printf(ret_changes, "other keys between nodes, %u links to renew", renewed);
    }
}

static void keys_drop(void *data)
{
    struct reload_keys *keys = data;

    net_keys_unref(keys->made);
    keys->made = NULL;
}

const struct reload_part reload_keys_part = {.name = "keys between nodes",
                                             .prepare = keys_prepare,
                                             .commit = keys_commit,
                                             .drop = keys_drop};
