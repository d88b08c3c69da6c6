/*
 * verify.c - see verify.h. Thread: the load's.
 */
#include "scripts/bench/verify.h"

#include <string.h>

#include "src/base/assert.h"

#define ID_MAX ((uint64_t)INT64_MAX - 1)
#define RANGE_IDS_MAX 10000000

static const char not_an_id[] = "the body has something that is no id";
static const char wrong_count[] = "the body has another number of ids than asked for";
static const char not_rising[] = "ids of one reply do not rise";
static const char not_strict[] = "an id is below one acknowledged before its request was sent";

struct scan {
    const char *at;
    const char *end;
    uint64_t count; /* ids so far */
    uint64_t max;
};

/* A decimal id of 1 to 19 digits without leading zeros; 0 where there is none. */
static uint64_t scan_id(struct scan *scan)
{
    const char *begin = scan->at;
    uint64_t value = 0;

    while (scan->at < scan->end && *scan->at >= '0' && *scan->at <= '9' && scan->at - begin < 20) {
        value = value * 10 + (uint64_t)(*scan->at++ - '0');
    }
    if (scan->at == begin || *begin == '0' || scan->at - begin > 19 || value > ID_MAX) {
        return 0;
    }
    return value;
}

static bool scan_char(struct scan *scan, char c)
{
    if (scan->at < scan->end && *scan->at == c) {
        scan->at++;
        return true;
    }
    return false;
}

/* Take the range first..last into the set. */
static const char *take(const struct verify *verify, struct idset *set, uint32_t group,
                        uint64_t floor, struct scan *scan, uint64_t first, uint64_t last)
{
    if (first == 0 || last < first || last - first >= RANGE_IDS_MAX) {
        return not_an_id;
    }
    idset_add(set, group, first, last);
    if (verify->strict && first <= floor) {
        return not_strict;
    }
    if (first <= scan->max) {
        return not_rising;
    }
    scan->count += last - first + 1;
    scan->max = last;
    return NULL;
}

/* Ids that follow each other are put into the set at once. A bare id may end without a newline. */
static const char *verify_ids(const struct verify *verify, struct idset *set, uint32_t group,
                              uint64_t floor, struct scan *scan)
{
    const char *why = NULL;
    uint64_t first = 0;
    uint64_t last = 0;

    while (why == NULL && scan->at < scan->end) {
        uint64_t id = scan_id(scan);

        if (id == 0 || (!scan_char(scan, '\n') && (scan->at < scan->end || first != 0))) {
            return not_an_id;
        }
        if (first != 0 && id == last + 1 && id - first < RANGE_IDS_MAX) {
            last = id;
            continue;
        }
        if (first != 0) {
            why = take(verify, set, group, floor, scan, first, last);
        }
        first = id;
        last = id;
    }
    return why != NULL || first == 0 ? why : take(verify, set, group, floor, scan, first, last);
}

static const char *verify_ranges(const struct verify *verify, struct idset *set, uint32_t group,
                                 uint64_t floor, struct scan *scan)
{
    const char *why = NULL;

    while (why == NULL && scan->at < scan->end) {
        uint64_t first = scan_id(scan);
        bool apart = scan_char(scan, ' ');
        uint64_t last = scan_id(scan);

        why = apart && scan_char(scan, '\n') ? take(verify, set, group, floor, scan, first, last)
                                             : not_an_id;
    }
    return why;
}

/* The value after "name":, which must be an id; the rest of the JSON is taken on trust. */
static const char *verify_field(const struct verify *verify, struct idset *set, uint32_t group,
                                uint64_t floor, struct scan *scan)
{
    size_t len = strlen(verify->text);
    size_t left = (size_t)(scan->end - scan->at);
    const char *name = left > 0 ? memmem(scan->at, left, verify->text, len) : NULL;
    uint64_t id;

    if (name == NULL || name == scan->at || name[-1] != '"') {
        return "the body has no such field";
    }
    scan->at = name + len;
    if (!scan_char(scan, '"') || !scan_char(scan, ':')) {
        return "the body has no such field";
    }
    scan_char(scan, '"');
    id = scan_id(scan);
    return take(verify, set, group, floor, scan, id, id);
}

const char *verify_body(const struct verify *verify, struct idset *set, uint32_t group,
                        uint64_t floor, const char *body, size_t len, uint64_t *ret_max)
{
    struct scan scan = {.at = body, .end = body + len};
    const char *why = NULL;

    *ret_max = 0;
    switch (verify->kind) {
    case VERIFY_ANY:
        return NULL;
    case VERIFY_TEXT:
        return strlen(verify->text) == len && memcmp(verify->text, body, len) == 0
                   ? NULL
                   : "the body is another than expected";
    case VERIFY_IDS:
        why = verify_ids(verify, set, group, floor, &scan);
        break;
    case VERIFY_RANGES:
        why = verify_ranges(verify, set, group, floor, &scan);
        break;
    case VERIFY_FIELD:
        why = verify_field(verify, set, group, floor, &scan);
        break;
    default:
        UNREACHABLE("no such kind");
    }
    *ret_max = scan.max;
    if (why == NULL && (scan.count == 0 || (verify->count && scan.count != verify->count))) {
        why = wrong_count;
    }
    return why;
}
