/*
 * handlers_health.c - GET /livez, /readyz, /version: answered from atomics, without asking anybody.
 *
 * Ready means that this node can hand out ids: it has its state, does not stop, and either holds
 * segments or can have them granted. A disk that is nearly full does not make a node unready while
 * it holds segments or while nothing is missing: it is shown as a check that failed. Snowflake ids
 * that are refused do not either, since segments are served: a warning tells why, with numbers. Nor
 * do settings that are not what the log knows.
 *
 * Thread: the loop's.
 */
#include "http/api/handlers.h"

#include <string.h>

#include "http/api/context.h"
#include "http/api/request.h"
#include "http/api/refusal.h"

#define CHECK_COUNT_MAX 9
#define MEMORY_TEXT_BYTES 160
#define BIRTH_TEXT_BYTES 700 /* LIMIT_NODES members, with the longest birth_wait_text() */

struct check {
    const char *name;
    const char *reason; /* when it fails */
    bool ok;
    bool needed; /* readiness depends on it */
};

struct checks {
    struct check items[CHECK_COUNT_MAX];
    int count;
    unsigned differs; /* bits of enum id_difference: why the check "settings" fails */
    char memory_text[MEMORY_TEXT_BYTES]; /* why the check "memory" fails */
    char birth_text[BIRTH_TEXT_BYTES];   /* why the check "born" fails */
    int refusal;                         /* why the check "snowflake" fails */
    char refusal_text[REFUSAL_TEXT_BYTES];
};

int handle_livez(struct conn *conn)
{
    buf_printf(reply_begin(conn), "{\"status\":\"alive\"}");
    return 200;
}

/* For whom the birth of the cluster waits. Returns ret_text. */
static const char *birth_text(const struct id_health *health, char ret_text[BIRTH_TEXT_BYTES])
{
    BUF_LOCAL(text);
    const char *comma = ": ";
    size_t len;

    buf_printf(&text, "the cluster is not born yet, as far as this node has heard");
    for (size_t i = 0; i < LIMIT_NODES; i++) {
        uint32_t wait = atomic_load(&health->birth_waits[i]);

        if (wait != 0) {
            buf_printf(&text, "%snode %u %s", comma, wait >> 8,
                       birth_wait_text((enum birth_wait)(wait & 0xff)));
            comma = "; ";
        }
    }
    len = text.len < BIRTH_TEXT_BYTES ? text.len : BIRTH_TEXT_BYTES - 1;
    memcpy(ret_text, text.data, len);
    ret_text[len] = '\0';
    return ret_text;
}

/* How much of data.memory-bytes is taken. */
static uint64_t memory_percent(const struct id_health *health)
{
    uint64_t max_bytes = atomic_load(&health->state_max_bytes);

    return max_bytes > 0 ? atomic_load(&health->state_bytes) * 100 / max_bytes : 0;
}

static const char *memory_text(const struct id_health *health, char ret_text[MEMORY_TEXT_BYTES])
{
    uint64_t percent = memory_percent(health);

    (void)snprintf(ret_text, MEMORY_TEXT_BYTES,
                   "tags and keys take %llu %% of data.memory-bytes; %s", ull(percent),
                   percent >= ID_STATE_NEARLY_FULL_PERCENT ? "nearly all: new ones are refused next"
                                                           : "at 100 % new ones are refused");
    return ret_text;
}

static void checks_make(const struct id_backend *backend, struct checks *ret_checks)
{
    const struct id_health *health = backend->health;
    bool leader = atomic_load(&health->leader_known);
    bool disk_ok = !atomic_load(&health->disk_low);
    bool held = atomic_load(&health->segments_held) > 0;
    struct check *items = ret_checks->items;
    struct uid uid;
    bool born = id_health_uid(health, &uid);

    ret_checks->refusal = 0;
    if (atomic_load(&health->joining)) {
        items[0] = (struct check){
            "member", "the node waits to be let in by its cluster, see its log", false, true};
        ret_checks->count = 1;
        return;
    }
    items[0] = (struct check){"started", "the log is still being loaded",
                              atomic_load(&health->started), true};
    items[1] = (struct check){"applied", "the state is older than at this node's last stop",
                              atomic_load(&health->applied_once), true};
    items[2] =
        (struct check){"serving", "the node is stopping", !atomic_load(&health->stopping), true};
    items[3] = (struct check){"ids",
                              leader ? "the disk is nearly full and no ids are held"
                                     : "no leader is known and no ids are held",
                              held || (leader && disk_ok), true};
    items[4] = (struct check){"disk", "the disk is nearly full", disk_ok, false};
    items[5] =
        (struct check){"born", born ? "" : birth_text(health, ret_checks->birth_text), born, true};
    ret_checks->count = 6;
    ret_checks->refusal = refusal_now(backend);
    if (ret_checks->refusal != 0) {
        (void)refusal_text(backend, ret_checks->refusal, ret_checks->refusal_text,
                           sizeof(ret_checks->refusal_text));
    }
    items[ret_checks->count++] =
        (struct check){"memory", memory_text(health, ret_checks->memory_text),
                       memory_percent(health) < ID_STATE_HIGH_PERCENT, false};
    ret_checks->differs = atomic_load(&health->differs);
    items[ret_checks->count++] = (struct check){"settings", "settings are not what the log knows",
                                                ret_checks->differs == 0, false};
    if (refusal_enabled(backend)) {
        items[ret_checks->count++] =
            (struct check){"snowflake", ret_checks->refusal_text, ret_checks->refusal == 0, false};
    }
}

/* The numbers of a refusal, for machines. */
static void put_refusal(const struct id_backend *backend, const struct checks *checks,
                        struct buf *buf)
{
    buf_printf(buf, ",\"code\":\"%s\"", err_code(checks->refusal));
    text_put_field(buf, ",\"reason\":", checks->refusal_text);
    buf_printf(buf, ",\"clock_off_ms\":%lld,\"wait_until_ms\":%llu",
               (long long)atomic_load(&backend->health->clock_off_ms),
               ull(refusal_wait_until_ms(backend, checks->refusal)));
}

/* The names of the settings. */
static void put_differing_settings(unsigned differs, struct buf *buf)
{
    const char *comma = "";

    buf_printf(buf, ",\"differ\":[");
    for (unsigned i = 0; i < ID_DIFFERENCES; i++) {
        if ((differs & 1U << i) != 0) {
            buf_printf(buf, "%s\"%s\"", comma, id_difference_setting(i));
            comma = ",";
        }
    }
    buf_printf(buf, "]");
}

static void put_checks(const struct id_backend *backend, const struct checks *checks,
                       struct buf *buf)
{
    buf_printf(buf, ",\"checks\":[");
    for (int i = 0; i < checks->count; i++) {
        const struct check *check = &checks->items[i];

        buf_printf(buf, "%s{\"name\":\"%s\",\"ok\":%s,\"needed\":%s", i > 0 ? "," : "", check->name,
                   check->ok ? "true" : "false", check->needed ? "true" : "false");
        if (check->reason == checks->refusal_text && !check->ok) {
            put_refusal(backend, checks, buf);
        } else if (check->reason == checks->birth_text ||
                   (check->reason == checks->memory_text && !check->ok)) {
            text_put_field(buf, ",\"reason\":", check->reason);
        }
        if (strcmp(check->name, "settings") == 0 && !check->ok) {
            put_differing_settings(checks->differs, buf);
        }
        buf_printf(buf, "}");
    }
    buf_printf(buf, "]");
}

/* Why the node is not ready, and beside it that snowflake ids are refused. */
static void put_reasons(const struct checks *checks, bool ready, struct buf *buf)
{
    const char *comma = "";

    if (ready && checks->refusal == 0) {
        return;
    }
    buf_printf(buf, ",\"%s\":[", ready ? "warnings" : "reasons");
    for (int i = 0; i < checks->count; i++) {
        const struct check *check = &checks->items[i];

        if (!check->ok && (check->needed || check->reason == checks->refusal_text)) {
            text_put_field(buf, comma, check->reason);
            comma = ",";
        }
    }
    buf_printf(buf, "]");
}

int handle_readyz(struct conn *conn)
{
    const struct id_backend *backend = api_loop(conn)->backend;
    struct param options[] = {{.name = "verbose", .kind = PARAM_TEXT}};
    struct buf *json = reply_begin(conn);
    struct checks checks;
    bool ready = true;

    if (!request_options(conn, options, 1)) {
        return ANSWERED;
    }
    checks_make(backend, &checks);
    for (int i = 0; i < checks.count; i++) {
        ready = ready && (checks.items[i].ok || !checks.items[i].needed);
    }
    buf_printf(json, "{\"status\":\"%s\"", ready ? "ready" : "not ready");
    put_reasons(&checks, ready, json);
    if (options[0].present) {
        put_checks(backend, &checks, json);
    }
    buf_printf(json, "}");
    return ready ? 200 : 503;
}

int handle_version(struct conn *conn)
{
    const struct http_build *build = api_loop(conn)->api->build;
    struct buf *json = reply_begin(conn);

    text_put_field(json, "{\"version\":", build->version);
    text_put_field(json, ",\"commit\":", build->commit);
    buf_printf(json, ",\"level\":%u,\"levels\":{\"min\":%u,\"max\":%u}",
               atomic_load(&api_loop(conn)->backend->health->level), level_own.min, level_own.max);
    buf_printf(json, ",\"libraries\":%s}", build->libraries);
    return 200;
}
