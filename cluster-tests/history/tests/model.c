/*
 * model.c - see model.h. Thread: one.
 */
#include "cluster-tests/history/tests/model.h"

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
    unsigned count_count;
    uint32_t counts[MODEL_OPS]; /* it burnt one of these, or nothing ... */
    uint64_t sent[MODEL_OPS];   /* ... which was asked for at this time */
    bool used;
};

struct gap {
    uint64_t from;
    uint64_t to;
    uint64_t deadline;
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
    struct lost lost = {.used = false};

    for (unsigned k = 0; k < model->count; k++) {
        const struct history_op *other = &model->ops[k];

        if (!same_key(&model->ops[i], other)) {
            continue;
        }
        if (is_answered(other) || k < i) {
            return;
        }
        lost.sent[lost.count_count] = other->sent;
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

    return !lost->used && choice->count < lost->count_count &&
           lost->sent[choice->count] <= gap->deadline &&
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

/* Can the operations of unknown outcome be laid into the gaps so that these are filled? */
static bool gaps_can_be(const struct facts *facts)
{
    struct search search = {.facts = *facts};

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

/* One gap after the other, each with those before it that can be. */
static uint64_t impossible_gaps(const struct facts *facts)
{
    struct facts kept = *facts;
    uint64_t impossible = 0;

    kept.gap_count = 0;
    for (unsigned i = 0; i < facts->gap_count; i++) {
        kept.gaps[kept.gap_count++] = facts->gaps[i];
        if (!gaps_can_be(&kept)) {
            kept.gap_count--;
            impossible++;
        }
    }
    return impossible;
}

void model_check(const struct model *model, uint64_t ret_found[HISTORY_KINDS])
{
    struct facts facts;

    find_facts(model, &facts);
    memset(ret_found, 0, HISTORY_KINDS * sizeof *ret_found);
    ret_found[HISTORY_OTHER_IDS] = facts.other_ids;
    for (unsigned i = 0; i < facts.range_count; i++) {
        ret_found[HISTORY_NOT_ONCE] += is_repeated(&facts, i);
        if (history_rises(model->mode)) {
            ret_found[HISTORY_NOT_STRICT] += !is_strict(&facts, i);
            ret_found[HISTORY_BELOW_START] +=
                model->start != HISTORY_NO_START && facts.ranges[i].first < model->start;
        }
    }
    ret_found[HISTORY_GAP] = impossible_gaps(&facts);
}
