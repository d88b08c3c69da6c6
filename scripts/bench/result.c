/*
 * result.c - see result.h. Thread: the load's.
 */
#include "scripts/bench/result.h"

#include <stdarg.h>
#include <stdlib.h>
#include <time.h>

#include <jansson.h>

#include "src/base/assert.h"

#define NS_PER_S UINT64_C(1000000000)
#define NS_PER_MS UINT64_C(1000000)

uint64_t result_clock_ns(void)
{
    struct timespec now;

    ASSERT(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

void result_init(struct result *result)
{
    *result = (struct result){0};
    idset_init(&result->ids);
}

void result_free(struct result *result)
{
    idset_free(&result->ids);
    free(result->slots);
    result->slots = NULL;
}

void result_begin(struct result *result, uint64_t duration_ns, uint64_t grace_ns, bool timeline)
{
    result->begin_ns = result_clock_ns();
    result->stop_ns = result->begin_ns + duration_ns;
    result->last_good_ns = result->begin_ns;
    if (timeline) {
        result->slot_count = (duration_ns + grace_ns) / (RESULT_SLOT_MS * NS_PER_MS) + 2;
        result->slots = calloc(result->slot_count, sizeof *result->slots);
        ASSERT(result->slots != NULL);
    }
}

/* The slot of a time; beyond the end of the timeline its last one. NULL without a timeline. */
static struct result_slot *slot_at(struct result *result, uint64_t now_ns)
{
    uint64_t slot = (now_ns - result->begin_ns) / (RESULT_SLOT_MS * NS_PER_MS);

    if (result->slots == NULL || now_ns < result->begin_ns) {
        return NULL;
    }
    return &result->slots[slot < result->slot_count ? slot : result->slot_count - 1];
}

void result_good(struct result *result, uint64_t now_ns, uint64_t latency_ns, uint64_t ids)
{
    struct result_slot *slot = slot_at(result, now_ns);

    result->good++;
    if (now_ns <= result->stop_ns) {
        result->good_in_time++;
        result->ids_in_time += ids;
    }
    hist_add(&result->latency, latency_ns);
    if (now_ns - result->last_good_ns > result->longest_gap_ns) {
        result->longest_gap_ns = now_ns - result->last_good_ns;
    }
    result->last_good_ns = now_ns;
    if (slot != NULL) {
        slot->good++;
        slot->max_ns = latency_ns > slot->max_ns ? latency_ns : slot->max_ns;
    }
}

/* What a broken server sent must not break the report. */
static void keep_printable(char *text)
{
    for (; *text; text++) {
        if (*text < ' ' || *text > '~') {
            *text = ' ';
        }
    }
}

void result_bad(struct result *result, uint64_t now_ns, const char *format, ...)
{
    struct result_slot *slot = slot_at(result, now_ns);
    va_list args;

    if (slot != NULL) {
        slot->bad++;
    }
    if (result->first_bad[0] == '\0') {
        va_start(args, format);
        vsnprintf(result->first_bad, sizeof result->first_bad, format, args);
        va_end(args);
        keep_printable(result->first_bad);
    }
}

bool result_is_good(const struct result *result)
{
    for (size_t i = 0; i < RESULT_STATUS_MAX; i++) {
        if (i != 200 && result->statuses[i] != 0) {
            return false;
        }
    }
    return result->sent > 0 && result->good == result->sent && result->bad_body == 0 &&
           result->broken == 0 && result->closed == 0 && result->unanswered == 0 &&
           result->ids.duplicates == 0;
}

static void put_number(json_t *object, const char *name, uint64_t value)
{
    json_object_set_new(object, name, json_integer((json_int_t)value));
}

static void put_real(json_t *object, const char *name, double value)
{
    json_object_set_new(object, name, json_real(value));
}

static json_t *statuses_json(const struct result *result)
{
    json_t *object = json_object();
    char name[16];

    for (size_t i = 0; i < RESULT_STATUS_MAX; i++) {
        if (result->statuses[i] != 0) {
            snprintf(name, sizeof name, "%zu", i);
            put_number(object, i == 0 ? "error" : name, result->statuses[i]);
        }
    }
    return object;
}

static json_t *latency_json(const struct hist *hist)
{
    static const struct {
        const char *name;
        double percent;
    } points[] = {{"p50", 50}, {"p90", 90}, {"p99", 99}, {"p99.9", 99.9}, {"p99.99", 99.99}};
    json_t *object = json_object();

    for (size_t i = 0; i < sizeof points / sizeof points[0]; i++) {
        put_real(object, points[i].name, (double)hist_percentile(hist, points[i].percent) / 1000);
    }
    put_real(object, "max", (double)hist->max / 1000);
    put_real(object, "mean", hist_mean(hist) / 1000);
    return object;
}

static json_t *ids_json(const struct result *result)
{
    const struct idset *ids = &result->ids;
    json_t *object = json_object();

    put_number(object, "count", ids->count);
    put_number(object, "duplicates", ids->duplicates);
    if (ids->duplicates != 0) {
        put_number(object, "first_duplicate", ids->first_duplicate);
    }
    if (ids->count != 0) {
        put_number(object, "min", ids->min);
        put_number(object, "max", ids->max);
    }
    return object;
}

/* Slots up to the last one in which something happened: [good, bad, longest latency in us]. */
static json_t *timeline_json(const struct result *result)
{
    json_t *array = json_array();
    size_t count = result->slot_count;

    while (count > 0 && result->slots[count - 1].good + result->slots[count - 1].bad == 0) {
        count--;
    }
    for (size_t i = 0; i < count; i++) {
        const struct result_slot *slot = &result->slots[i];

        json_array_append_new(array, json_pack("[I, I, f]", (json_int_t)slot->good,
                                               (json_int_t)slot->bad, (double)slot->max_ns / 1000));
    }
    return array;
}

int result_print(const struct result *result, FILE *out)
{
    double seconds = (double)(result->stop_ns - result->begin_ns) / (double)NS_PER_S;
    json_t *root = json_object();
    int rv;

    json_object_set_new(root, "ok", json_boolean(result_is_good(result)));
    put_real(root, "seconds", seconds);
    put_number(root, "sent", result->sent);
    put_number(root, "good", result->good);
    put_real(root, "rate", seconds > 0 ? (double)result->good_in_time / seconds : 0);
    put_real(root, "ids_rate", seconds > 0 ? (double)result->ids_in_time / seconds : 0);
    json_object_set_new(root, "statuses", statuses_json(result));
    put_number(root, "bad_body", result->bad_body);
    put_number(root, "broken", result->broken);
    put_number(root, "closed", result->closed);
    put_number(root, "unanswered", result->unanswered);
    json_object_set_new(root, "first_bad", json_string_nocheck(result->first_bad));
    put_real(root, "longest_gap_ms", (double)result->longest_gap_ns / (double)NS_PER_MS);
    json_object_set_new(root, "latency_us", latency_json(&result->latency));
    json_object_set_new(root, "ids", ids_json(result));
    if (result->slots != NULL) {
        put_number(root, "slot_ms", RESULT_SLOT_MS);
        json_object_set_new(root, "timeline", timeline_json(result));
    }
    rv = json_dumpf(root, out, JSON_COMPACT | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(9));
    json_decref(root);
    return rv == 0 && fputc('\n', out) != EOF && fflush(out) == 0 ? 0 : -1;
}
