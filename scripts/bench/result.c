/*
 * result.c - see result.h. Thread: the load's.
 */
#include "scripts/bench/result.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>

#include "scripts/bench/nanoseconds.h"
#include "src/base/assert.h"

#define NS_PER_S UINT64_C(1000000000)
#define STEP_BITS 8
#define STEPS (UINT64_C(1) << 26) /* pages of those that are not used are not there */

void result_init(struct result *result)
{
    *result = (struct result){0};
    idset_init(&result->ids);
    result->latencies = MUST_HAVE(calloc(STEPS, sizeof *result->latencies));
}

void result_free(struct result *result)
{
    idset_free(&result->ids);
    free(result->latencies);
    result->latencies = NULL;
}

void result_begin(struct result *result, uint64_t duration_ns)
{
    result->begin_ns = nanoseconds(CLOCK_MONOTONIC);
    result->stop_ns = result->begin_ns + duration_ns;
}

static uint64_t step_of(uint64_t latency_ns)
{
    uint64_t step = latency_ns >> STEP_BITS;

    return step < STEPS ? step : STEPS - 1;
}

void result_good(struct result *result, uint64_t now_ns, uint64_t latency_ns, uint64_t ids)
{
    result->good++;
    if (now_ns <= result->stop_ns) {
        result->good_in_time++;
        result->ids_in_time += ids;
    }
    result->latencies[step_of(latency_ns)]++;
    if (latency_ns > result->latency_max_ns) {
        result->latency_max_ns = latency_ns;
    }
}

void result_bad(struct result *result, const char *format, ...)
{
    va_list args;

    if (result->first_bad[0] != '\0') {
        return;
    }
    va_start(args, format);
    vsnprintf(result->first_bad, sizeof result->first_bad, format, args);
    va_end(args);
    /* What a broken server sent must not break the report. */
    for (char *at = result->first_bad; *at; at++) {
        if (*at < ' ' || *at > '~' || *at == '"' || *at == '\\') {
            *at = *at == '"' ? '\'' : ' ';
        }
    }
}

/* The latency in us that `percent` of 100 good replies did not exceed. */
static double percentile_us(const struct result *result, double percent)
{
    uint64_t last = step_of(result->latency_max_ns);
    uint64_t rank = (uint64_t)((double)result->good * percent / 100);
    uint64_t below = 0;
    uint64_t step = 0;

    rank += (double)rank < (double)result->good * percent / 100 ? 1 : 0;
    while (step < last && (below += result->latencies[step]) < rank) {
        step++;
    }
    return step == last ? (double)result->latency_max_ns / 1000
                        : (double)(((step + 1) << STEP_BITS) - 1) / 1000;
}

static void print_statuses(const struct result *result, FILE *out)
{
    const char *comma = "";

    fputs("\"statuses\":{", out);
    for (size_t i = 0; i < RESULT_STATUS_MAX; i++) {
        if (result->statuses[i] == 0) {
            continue;
        }
        if (i == 0) {
            fprintf(out, "%s\"error\":%" PRIu64, comma, result->statuses[i]);
        } else {
            fprintf(out, "%s\"%zu\":%" PRIu64, comma, i, result->statuses[i]);
        }
        comma = ",";
    }
    fputs("},", out);
}

static void print_latency(const struct result *result, FILE *out)
{
    static const struct {
        const char *name;
        double percent;
    } points[] = {{"p50", 50}, {"p90", 90}, {"p99", 99}, {"p99.9", 99.9}};

    fputs("\"latency_us\":{", out);
    for (size_t i = 0; i < sizeof points / sizeof points[0]; i++) {
        fprintf(out, "\"%s\":%.3f,", points[i].name, percentile_us(result, points[i].percent));
    }
    fprintf(out, "\"max\":%.3f},", (double)result->latency_max_ns / 1000);
}

static void print_ids(const struct idset *ids, FILE *out)
{
    fprintf(out, "\"ids\":{\"count\":%" PRIu64 ",\"duplicates\":%" PRIu64,
            ids->added - ids->duplicates, ids->duplicates);
    if (ids->duplicates != 0) {
        fprintf(out, ",\"first_duplicate\":%" PRIu64, ids->first_duplicate);
    }
    if (ids->added != 0) {
        fprintf(out, ",\"min\":%" PRIu64 ",\"max\":%" PRIu64, ids->min, ids->max);
    }
    fputs("}", out);
}

bool result_print(struct result *result, FILE *out)
{
    double seconds = (double)(result->stop_ns - result->begin_ns) / (double)NS_PER_S;
    bool good;

    idset_sum(&result->ids);
    /* Each request that was not answered by a good reply is sent and not good. */
    good = result->sent > 0 && result->good == result->sent && result->broken == 0 &&
           result->closed == 0 && result->ids.duplicates == 0;
    fprintf(out, "{\"ok\":%s,\"seconds\":%.9g,\"sent\":%" PRIu64 ",\"good\":%" PRIu64 ",",
            good ? "true" : "false", seconds, result->sent, result->good);
    fprintf(out, "\"rate\":%.9g,\"ids_rate\":%.9g,",
            seconds > 0 ? (double)result->good_in_time / seconds : 0,
            seconds > 0 ? (double)result->ids_in_time / seconds : 0);
    print_statuses(result, out);
    fprintf(out,
            "\"bad_body\":%" PRIu64 ",\"broken\":%" PRIu64 ",\"closed\":%" PRIu64
            ",\"unanswered\":%" PRIu64 ",\"first_bad\":\"%s\",",
            result->bad_body, result->broken, result->closed, result->unanswered,
            result->first_bad);
    print_latency(result, out);
    print_ids(&result->ids, out);
    fputs("}\n", out);
    return good;
}
