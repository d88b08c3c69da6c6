/*
 * world.c - see world.h. Thread: one.
 */
#include "cluster-tests/history/tests/world.h"

#include <stdio.h>
#include <string.h>

#include "src/tests/unit/test.h"

void world_begin(struct history_world *w, enum history_mode mode, uint64_t start)
{
    w->history = history_new();
    assert_int_equal(history_tag(w->history, "t", 1), 0);
    assert_int_equal(history_declare(w->history, 0, mode, start), 0);
    for (unsigned i = 0; i < 10; i++) {
        char name[8];
        int len = snprintf(name, sizeof name, "c%u", i);

        assert_int_equal(history_client(w->history, name, (size_t)len), i);
    }
}

void put(struct history_world *w, uint32_t client, uint64_t sent, uint64_t received, uint64_t first,
         uint32_t count, uint64_t key)
{
    struct history_op op = {.client = client,
                            .sent = sent,
                            .received = received,
                            .first = first,
                            .count = count,
                            .key = key};

    assert_int_equal(history_add(w->history, &op), 0);
}

bool world_check(struct history_world *w, unsigned texts_max)
{
    bool clean = history_check(w->history, texts_max, &w->report);
    uint64_t sum = 0;

    for (unsigned i = 0; i < HISTORY_KINDS; i++) {
        sum += w->report.found[i];
    }
    assert_int_equal(sum, w->report.violations);
    assert_int_equal(clean, sum == 0);
    assert_true(w->report.text.len < sizeof w->text);
    if (w->report.text.len > 0) {
        memcpy(w->text, w->report.text.data, w->report.text.len);
    }
    w->text[w->report.text.len] = '\0';
    buf_free(&w->report.text);
    return clean;
}

void expect_clean(struct history_world *w)
{
    world_check(w, 10);
    assert_string_equal(w->text, "");
    assert_int_equal(w->report.violations, 0);
    history_free(w->history);
}

void expect(struct history_world *w, enum history_kind kind, const char *text)
{
    char line[4096];

    snprintf(line, sizeof line, "%s: tag \"t\": %s\n", history_kind_name(kind), text);
    assert_false(world_check(w, 10));
    assert_string_equal(w->text, line);
    assert_int_equal(w->report.found[kind], 1);
    assert_int_equal(w->report.violations, 1);
    history_free(w->history);
}
