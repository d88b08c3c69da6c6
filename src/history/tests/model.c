/*
 * model.c - see model.h. Thread: one.
 */
#include "src/history/tests/model.h"

#include <string.h>

#include "src/base/assert.h"

/* Ids that were acknowledged, of one operation or of all with its key and these ids. */
struct range {
    uint64_t first;
    uint64_t end;
    uint64_t sent;
    uint64_t received;
};

/* Operations of unknown outcome: one without a key, or all of a key. */
struct lost {
    uint64_t sent;
    unsigned count_count;
    uint32_t counts[MODEL_OPS]; /* it burnt one of these, or nothing */
    bool used;
};

struct gap {
    uint64_t from;
    uint64_t to;
    uint64_t deadline;
    bool refused;
};

struct facts {
    unsigned range_count;
    struct range ranges[MODEL_OPS];
    unsigned lost_count;
    struct lost lost[MODEL_OPS];
    unsigned gap_count;
    struct gap gaps[MODEL_IDS];
    uint64_t other_ids;
};

static bool is_answered(const struct history_op *op)
{
    return op->received != HISTORY_UNKNOWN;
}

static bool same_key(const struct history_op *a, const struct history_op *b)
{
    return a == b || (a->key != 0 && a->key == b->key);
}

/* The range of operation i, or nothing if one before it has the same key and range. */
static void find_range(const struct model *model, unsigned i, struct facts *facts)
{
    const struct history_op *op = &model->ops[i];
    struct range range = {op->first, op->first + op->count, op->sent, op->received};
    bool first_of_key = true;

    for (unsigned k = 0; k < model->count; k++) {
        const struct history_op *other = &model->ops[k];

        if (!same_key(op, other)) {
            continue;
        }
        range.sent = other->sent < range.sent ? other->sent : range.sent;
        if (!is_answered(other)) {
            continue;
        }
        first_of_key = first_of_key && k >= i;
        if (other->first == op->first && other->count == op->count) {
            if (k < i) {
                return;
            }
            range.received = other->received < range.received ? other->received : range.received;
        }
    }
    facts->other_ids += !first_of_key;
    facts->ranges[facts->range_count++] = range;
}

/* What operation i burnt with all of its key; nothing if one was answered or came before it. */
static void find_lost(const struct model *model, unsigned i, struct facts *facts)
{
    struct lost lost = {.sent = model->ops[i].sent};

    for (unsigned k = 0; k < model->count; k++) {
        const struct history_op *other = &model->ops[k];

        if (!same_key(&model->ops[i], other)) {
            continue;
        }
        if (is_answered(other) || k < i) {
            return;
        }
        lost.sent = other->sent < lost.sent ? other->sent : lost.sent;
        lost.counts[lost.count_count++] = other->count;
    }
    facts->lost[facts->lost_count++] = lost;
}

static void find_gaps(const struct model *model, struct facts *facts)
{
    bool covered[MODEL_IDS] = {false};
    uint64_t lowest = MODEL_IDS;
    uint64_t end = 0;

    for (unsigned i = 0; i < facts->range_count; i++) {
        const struct range *range = &facts->ranges[i];

        ASSERT(range->end <= MODEL_IDS);
        for (uint64_t id = range->first; id < range->end; id++) {
            covered[id] = true;
        }
        lowest = range->first < lowest ? range->first : lowest;
        end = range->end > end ? range->end : end;
    }
    lowest = model->start != HISTORY_NO_START ? model->start : lowest;
    for (uint64_t id = lowest; id < end; id++) {
        struct gap *gap = &facts->gaps[facts->gap_count];

        if (covered[id]) {
            continue;
        }
        *gap = (struct gap){.from = id, .deadline = UINT64_MAX};
        while (!covered[id]) {
            id++;
        }
        gap->to = id;
        for (unsigned i = 0; i < facts->range_count; i++) {
            if (facts->ranges[i].first >= id && facts->ranges[i].received < gap->deadline) {
                gap->deadline = facts->ranges[i].received;
            }
        }
        facts->gap_count++;
    }
}

static void find_facts(const struct model *model, struct facts *facts)
{
    memset(facts, 0, sizeof *facts);
    for (unsigned i = 0; i < model->count; i++) {
        if (is_answered(&model->ops[i])) {
            find_range(model, i, facts);
        } else {
            find_lost(model, i, facts);
        }
    }
    if (model->mode == HISTORY_STRICT) {
        find_gaps(model, facts);
    }
}

/* Does range i share an id with one that comes before it in the order of ids? */
static bool is_repeated(const struct facts *facts, unsigned i)
{
    const struct range *range = &facts->ranges[i];

    for (unsigned k = 0; k < facts->range_count; k++) {
        const struct range *other = &facts->ranges[k];
        bool before = other->first < range->first || (other->first == range->first && k < i);

        if (before && other->end > range->first) {
            return true;
        }
    }
    return false;
}

static bool is_strict(const struct facts *facts, unsigned i)
{
    for (unsigned k = 0; k < facts->range_count; k++) {
        if (facts->ranges[k].first > facts->ranges[i].first &&
            facts->ranges[k].received < facts->ranges[i].sent) {
            return false;
        }
    }
    return true;
}

static uint32_t least(const struct lost *lost)
{
    uint32_t count = lost->counts[0];

    for (unsigned i = 1; i < lost->count_count; i++) {
        count = lost->counts[i] < count ? lost->counts[i] : count;
    }
    return count;
}

static uint32_t most(const struct lost *lost)
{
    uint32_t count = 0;

    for (unsigned i = 0; i < lost->count_count; i++) {
        count = lost->counts[i] > count ? lost->counts[i] : count;
    }
    return count;
}

/* The conditions of history_dense.h for gap g, given those below it that were not refused. */
static bool conditions_hold(const struct facts *facts, unsigned g)
{
    const struct gap *gap = &facts->gaps[g];
    uint64_t length = gap->to - gap->from;
    bool fits = false;
    bool divides[MODEL_IDS];

    memset(divides, true, sizeof divides);
    for (uint64_t limit = 1; limit <= MODEL_IDS; limit++) {
        uint64_t missing = 0;
        uint64_t burnt = 0;

        for (unsigned i = 0; i <= g; i++) {
            uint64_t ids = facts->gaps[i].to - facts->gaps[i].from;

            missing += !facts->gaps[i].refused && ids <= limit ? ids : 0;
        }
        for (unsigned i = 0; i < facts->lost_count; i++) {
            const struct lost *lost = &facts->lost[i];

            burnt += lost->sent <= gap->deadline && least(lost) <= limit ? most(lost) : 0;
        }
        if (missing > burnt) {
            return false;
        }
    }
    for (unsigned i = 0; i < facts->lost_count; i++) {
        const struct lost *lost = &facts->lost[i];

        if (lost->sent > gap->deadline || least(lost) > length) {
            continue;
        }
        fits = true;
        for (unsigned k = 0; k < lost->count_count; k++) {
            for (uint32_t d = 1; d < MODEL_IDS; d++) {
                divides[d] = divides[d] && lost->counts[k] % d == 0;
            }
        }
    }
    for (uint32_t d = 1; d < MODEL_IDS; d++) {
        fits = fits && (!divides[d] || length % d == 0);
    }
    return fits;
}

void model_check(const struct model *model, uint64_t ret_found[HISTORY_KINDS])
{
    struct facts facts;

    find_facts(model, &facts);
    memset(ret_found, 0, HISTORY_KINDS * sizeof *ret_found);
    ret_found[HISTORY_OTHER_IDS] = facts.other_ids;
    for (unsigned i = 0; i < facts.range_count; i++) {
        ret_found[HISTORY_NOT_ONCE] += is_repeated(&facts, i);
        if (model->mode == HISTORY_STRICT) {
            ret_found[HISTORY_NOT_STRICT] += !is_strict(&facts, i);
            ret_found[HISTORY_BELOW_START] +=
                model->start != HISTORY_NO_START && facts.ranges[i].first < model->start;
        }
    }
    for (unsigned g = 0; g < facts.gap_count; g++) {
        facts.gaps[g].refused = !conditions_hold(&facts, g);
        ret_found[HISTORY_GAP] += facts.gaps[g].refused;
    }
}

/* --- all ways to fill the gaps --- */

/* A choice that was made: lost operation `lost` with its count number `count` at the next id. */
struct choice {
    unsigned lost;
    unsigned count;
};

struct search {
    struct facts facts;
    unsigned depth;
    struct choice choices[MODEL_OPS + 1];
    unsigned gap[MODEL_OPS + 1]; /* at each depth: the gap being filled ... */
    uint64_t at[MODEL_OPS + 1];  /* ... and its next id */
};

static bool can_be(const struct search *search, const struct choice *choice)
{
    const struct gap *gap = &search->facts.gaps[search->gap[search->depth]];
    const struct lost *lost = &search->facts.lost[choice->lost];

    return !lost->used && choice->count < lost->count_count && lost->sent <= gap->deadline &&
           lost->counts[choice->count] <= gap->to - search->at[search->depth];
}

/* Lay the chosen range; true if that filled the last gap. */
static bool lay(struct search *search, const struct choice *choice)
{
    unsigned depth = search->depth++;
    unsigned gap = search->gap[depth];
    uint64_t at = search->at[depth] + search->facts.lost[choice->lost].counts[choice->count];

    search->facts.lost[choice->lost].used = true;
    if (at == search->facts.gaps[gap].to) {
        gap++;
        at = gap < search->facts.gap_count ? search->facts.gaps[gap].from : 0;
    }
    search->gap[search->depth] = gap;
    search->at[search->depth] = at;
    search->choices[search->depth] = (struct choice){0, 0};
    return gap == search->facts.gap_count;
}

static void advance(struct choice *choice, const struct facts *facts)
{
    choice->count++;
    if (choice->count >= facts->lost[choice->lost].count_count) {
        choice->lost++;
        choice->count = 0;
    }
}

bool model_gaps_can_be(const struct model *model)
{
    struct search search = {.depth = 0};

    find_facts(model, &search.facts);
    if (search.facts.gap_count == 0) {
        return true;
    }
    search.at[0] = search.facts.gaps[0].from;
    for (;;) {
        struct choice *choice = &search.choices[search.depth];

        while (choice->lost < search.facts.lost_count && !can_be(&search, choice)) {
            advance(choice, &search.facts);
        }
        if (choice->lost < search.facts.lost_count) {
            if (lay(&search, choice)) {
                return true;
            }
            continue;
        }
        if (search.depth == 0) {
            return false;
        }
        search.depth--;
        choice = &search.choices[search.depth];
        search.facts.lost[choice->lost].used = false;
        advance(choice, &search.facts);
    }
}
