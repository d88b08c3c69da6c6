/*
 * waiting.c - see waiting.h. Thread: main, but for the backend's functions.
 */
#include "src/app/waiting.h"

#include <stdlib.h>

#include "src/base/assert.h"

struct waiting {
    struct doors doors;
    struct id_backend backend;
    struct id_health health;
    struct snowflake snowflake; /* without workers: to decode ids */
};

static void submit(struct id_backend *backend, struct id_request *request)
{
    (void)backend;
    request->status = ERR_NO_LEADER;
    request->done(request);
}

/* No ids come: who asked for them waits for its time. */
static void want(struct id_backend *backend, struct id_tag *tag)
{
    (void)backend;
    (void)tag;
}

static void notify(struct id_backend *backend)
{
    (void)backend;
}

struct waiting *waiting_begin(const struct config *config, struct tls *tls,
                              const struct http_build *build, const struct files_split *files)
{
    static const struct id_backend_ops ops = {.submit = submit, .want = want, .notify = notify};
    struct waiting *waiting = MUST_HAVE(calloc(1, sizeof *waiting));

    waiting->backend = (struct id_backend){.ops = &ops,
                                           .table = id_table_new(0), /* it stays empty */
                                           .snowflake = &waiting->snowflake,
                                           .health = &waiting->health,
                                           .clock = clock_system(),
                                           .refill_percent = config->node.refill_percent};
    snowflake_init(&waiting->snowflake, waiting->backend.clock);
    atomic_store(&waiting->health.joining, true);
    if (doors_open(&waiting->doors, config, tls, build, &waiting->backend, files) != 0) {
        waiting_end(waiting);
        return NULL;
    }
    return waiting;
}

void waiting_end(struct waiting *waiting)
{
    if (waiting != NULL) {
        doors_close(&waiting->doors);
        id_table_free(waiting->backend.table);
        free(waiting);
    }
}
