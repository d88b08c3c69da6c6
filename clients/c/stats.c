/* The counters and gauges of leafd.h. The happy path: leafd_stats(), leafd_stats_text(). Any
 * thread. */
#include "client.h"
#include "segment.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define READ(what) .what = atomic_load_explicit(&client->counters.what, memory_order_relaxed)

static void gather(struct leafd *client, struct leafd_stats *stats)
{
    (void)client_enter(client, NULL);
    *stats = (struct leafd_stats){READ(ids_segment), READ(ids_strict), READ(ids_snowflake),
                                  READ(requests),    READ(retries),    READ(failovers),
                                  READ(errors),      READ(waits),      READ(burnt),
                                  READ(clock_waits), READ(renewals),   READ(hedges)};
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

void leafd_gauges(struct leafd *client, void (*each)(void *user, const struct leafd_gauge *gauge),
                  void *user)
{
    (void)client_enter(client, NULL);
    pthread_mutex_lock(&client->lock);
    struct source *source = client->sources;
    pthread_mutex_unlock(&client->lock);
    for (; source != NULL; source = source->next) {
        char name[SOURCE_NAME_BYTES];
        struct leafd_gauge gauge = {.name = name};
        memcpy(name, source->name, sizeof name);
        if (!atomic_load(&source->closed) && source->kind->gauge(source, &gauge, name)) {
            each(user, &gauge);
        }
    }
}

/* A text that grows like that of snprintf(). */
struct page {
    char *text;
    size_t bytes, used;
};

static void print(struct page *page, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void print(struct page *page, const char *format, ...)
{
    size_t room = page->used < page->bytes ? page->bytes - page->used : 0;
    va_list arguments;
    va_start(arguments, format);
    page->used +=
        (size_t)vsnprintf(room > 0 ? page->text + page->used : NULL, room, format, arguments);
    va_end(arguments);
}

/* One value of the gauge that the page is at, or none, where the source is not of its kind. */
struct gauge_page {
    struct page *page;
    enum { IDS_LEFT, RANGE_AGE, WINDOW_END } what;
};

static void print_gauge(void *user, const struct leafd_gauge *gauge)
{
    static const char *const names[] = {"ids_left", "range_age_seconds", "window_end_seconds"};
    struct gauge_page *at = user;
    if (gauge->is_window != (at->what == WINDOW_END)) {
        return;
    }
    print(at->page, "leafd_client_%s{%s=\"", names[at->what], gauge->is_window ? "name" : "tag");
    for (const char *c = gauge->name; *c != 0; c++) {
        print(at->page, *c == '"' || *c == '\\' ? "\\%c" : "%c", *c);
    }
    if (at->what == IDS_LEFT) {
        print(at->page, "\"} %llu\n", (unsigned long long)gauge->ids_left);
    } else {
        int64_t ms = gauge->is_window ? gauge->window_end_ms : (int64_t)gauge->age_ms;
        print(at->page, "\"} %lld.%03lld\n", (long long)ms / 1000, (long long)ms % 1000);
    }
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
        {"hedges", all.hedges},
    };
    struct page page = {text, text_bytes, 0};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        print(&page,
              "# TYPE leafd_client_%s_total counter\n"
              "leafd_client_%s_total %llu\n",
              rows[i].name, rows[i].name, (unsigned long long)rows[i].value);
    }
    struct gauge_page at = {&page, IDS_LEFT};
    print(&page, "# TYPE leafd_client_ids_left gauge\n");
    leafd_gauges(client, print_gauge, &at);
    print(&page, "# TYPE leafd_client_range_age_seconds gauge\n");
    at.what = RANGE_AGE;
    leafd_gauges(client, print_gauge, &at);
    print(&page, "# TYPE leafd_client_window_end_seconds gauge\n");
    at.what = WINDOW_END;
    leafd_gauges(client, print_gauge, &at);
    return page.used;
}
