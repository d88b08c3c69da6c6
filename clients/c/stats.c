/* The counters of leafd.h, gathered. The happy path: leafd_stats(). Any thread. */
#include "client.h"
#include "segment.h"

#include <stdio.h>
#include <string.h>

#define READ(what) .what = atomic_load_explicit(&client->counters.what, memory_order_relaxed)

static void gather(struct leafd *client, struct leafd_stats *stats)
{
    (void)client_enter(client, NULL);
    *stats = (struct leafd_stats){READ(ids_segment), READ(ids_strict), READ(ids_snowflake),
                                  READ(requests),    READ(retries),    READ(failovers),
                                  READ(errors),      READ(waits),      READ(burnt),
                                  READ(clock_waits), READ(renewals)};
    pthread_mutex_lock(&client->lock);
    struct source *source = client->sources;
    pthread_mutex_unlock(&client->lock);
    /* Sources are put before others, and never taken away. */
    for (; source != NULL; source = source->next) {
        stats->ids_segment += segment_handed_out(source);
    }
}

void leafd_stats(struct leafd *client, struct leafd_stats *stats, size_t stats_bytes)
{
    struct leafd_stats all;
    gather(client, &all);
    memset(stats, 0, stats_bytes);
    memcpy(stats, &all, stats_bytes < sizeof all ? stats_bytes : sizeof all);
}

size_t leafd_stats_text(struct leafd *client, char *text, size_t text_bytes)
{
    struct leafd_stats all;
    gather(client, &all);
    const struct {
        const char *name;
        uint64_t value;
    } rows[] = {
        {"ids_segment", all.ids_segment},
        {"ids_strict", all.ids_strict},
        {"ids_snowflake", all.ids_snowflake},
        {"requests", all.requests},
        {"retries", all.retries},
        {"failovers", all.failovers},
        {"errors", all.errors},
        {"waits", all.waits},
        {"burnt", all.burnt},
        {"clock_waits", all.clock_waits},
        {"renewals", all.renewals},
    };
    size_t used = 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t room = used < text_bytes ? text_bytes - used : 0;
        used += (size_t)snprintf(room > 0 ? text + used : NULL, room,
                                 "# TYPE leafd_client_%s_total counter\n"
                                 "leafd_client_%s_total %llu\n",
                                 rows[i].name, rows[i].name, (unsigned long long)rows[i].value);
    }
    return used;
}
