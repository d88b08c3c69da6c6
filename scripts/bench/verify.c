/*
 * verify.c - see verify.h. Thread: the load's.
 */
#include "scripts/bench/verify.h"

#include <string.h>

#include "src/base/assert.h"

#define ID_MAX ((uint64_t)INT64_MAX - 1)
#define RANGE_IDS_MAX 10000000

static const char not_an_id[] = "the body has something that is no id";
static const char no_field[] = "the body has no such field";

/* A body that is gone through, and where its ids go. */
struct scan {
    const char *at;
    const char *end;
    struct idset *set;
    uint32_t group;
    uint64_t floor; /* ids must be above it; 0: they need not */
    struct verified found;
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

/* Take the ids first..last into the set. */
static const char *scan_take(struct scan *scan, uint64_t first, uint64_t last)
{
    if (first == 0 || last < first || last - first >= RANGE_IDS_MAX) {
        return not_an_id;
    }
    idset_add(scan->set, scan->group, first, last);
    if (first <= scan->floor) {
        return "an id is below one acknowledged before its request was sent";
    }
    if (first <= scan->found.max) {
        return "ids of one reply do not rise";
    }
    scan->found.count += last - first + 1;
    scan->found.max = last;
    return NULL;
}

/* A bare id may end without a newline. */
static const char *scan_ids(struct scan *scan)
{
    const char *why = NULL;

    while (why == NULL && scan->at < scan->end) {
        uint64_t id = scan_id(scan);
        bool alone = scan->found.count == 0 && scan->at == scan->end;

        why = alone || scan_char(scan, '\n') ? scan_take(scan, id, id) : not_an_id;
    }
    return why;
}

static const char *scan_ranges(struct scan *scan)
{
    const char *why = NULL;

    while (why == NULL && scan->at < scan->end) {
        uint64_t first = scan_id(scan);
        bool apart = scan_char(scan, ' ');
        uint64_t last = scan_id(scan);

        why = apart && scan_char(scan, '\n') ? scan_take(scan, first, last) : not_an_id;
    }
    return why;
}

/* The value after "name":, which must be an id; the rest of the JSON is taken on trust. */
static const char *scan_field(struct scan *scan, const char *field)
{
    size_t left = (size_t)(scan->end - scan->at);
    const char *name = left > 0 ? memmem(scan->at, left, field, strlen(field)) : NULL;
    uint64_t id;

    if (name == NULL || name == scan->at || name[-1] != '"') {
        return no_field;
    }
    scan->at = name + strlen(field);
    if (!scan_char(scan, '"') || !scan_char(scan, ':')) {
        return no_field;
    }
    scan_char(scan, '"');
    id = scan_id(scan);
    return scan_take(scan, id, id);
}

const char *verify_body(const struct verify *verify, struct idset *set, uint32_t group,
                        uint64_t floor, const char *body, size_t len, struct verified *ret)
{
    struct scan scan = {body, body + len, set, group, verify->strict ? floor : 0, {0}};
    const char *why = NULL;

    *ret = (struct verified){0};
    switch (verify->kind) {
    case VERIFY_ANY:
        return NULL;
    case VERIFY_TEXT:
        return strlen(verify->text) == len && memcmp(verify->text, body, len) == 0
                   ? NULL
                   : "the body is another than expected";
    case VERIFY_IDS:
        why = scan_ids(&scan);
        break;
    case VERIFY_RANGES:
        why = scan_ranges(&scan);
        break;
    case VERIFY_FIELD:
        why = scan_field(&scan, verify->text);
        break;
    default:
        UNREACHABLE("no such kind");
    }
    *ret = scan.found;
    if (why == NULL && (ret->count == 0 || (verify->count && ret->count != verify->count))) {
        why = "the body has another number of ids than asked for";
    }
    return why;
}
