/*
 * story.c - see story.h. Thread: one.
 */
#include "src/model/story.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "src/model/model.h"

struct text {
    char *at;
    size_t left;
};

__attribute__((format(printf, 2, 3))) static void put(struct text *text, const char *format, ...)
{
    va_list args;
    int wrote;

    va_start(args, format);
    wrote = vsnprintf(text->at, text->left, format, args);
    va_end(args);
    if (wrote > 0 && (size_t)wrote < text->left) {
        text->at += wrote;
        text->left -= (size_t)wrote;
    }
}

static void put_event(struct text *text, const struct graph *graph, const struct event *event)
{
    const char *file = event->site->file != NULL ? event->site->file : "";
    const char *name = strrchr(file, '/');

    put(text, "  %u.%-3u %-16s %-22s %-8s ", event->thread, event->index, event->site->what,
        event->site->place, order_name(graph_order(graph, event)));
    if (event->kind == EVENT_LOAD && event->from == GRAPH_INITIAL) {
        put(text, "reads %#llx, the first value", (unsigned long long)graph_value(graph, event));
    } else if (event->kind == EVENT_LOAD) {
        const struct event *from = &graph->events[event->from];

        put(text, "reads %#llx of %u.%u", (unsigned long long)graph_value(graph, event),
            from->thread, from->index);
        if (clock_has(&from->cause, event)) {
            put(text, ", which comes of it");
        }
    } else if (event->kind == EVENT_STORE) {
        put(text, "stores %#llx as no. %d", (unsigned long long)event->value, event->place + 1);
    }
    put(text, "   %s:%d %s\n", name != NULL ? name + 1 : file, event->site->line,
        event->site->func);
}

void story_write(const struct graph *graph, char *ret_text, size_t bytes)
{
    struct text text = {ret_text, bytes};

    ret_text[0] = '\0';
    for (unsigned thread = 0; thread < GRAPH_THREADS; thread++) {
        for (unsigned i = 0; i < graph->thread_count[thread]; i++) {
            put_event(&text, graph, &graph->events[graph->of[thread][i]]);
        }
    }
}
