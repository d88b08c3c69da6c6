/*
 * rates.c - see rates.h. Thread: one.
 */
#include "src/ctl/cmd/rates.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/array.h"
#include "src/base/assert.h"
#include "src/ctl/cmd/command.h"

void rates_init(struct rates *rates)
{
    *rates = (struct rates){.by_tag = json_object()};
    ASSERT(rates->by_tag != NULL);
}

void rates_free(struct rates *rates)
{
    for (size_t i = 0; i < rates->count; i++) {
        free((char *)rates->list[i].tag);
    }
    free(rates->list);
    json_decref(rates->by_tag);
    *rates = (struct rates){0};
}

static struct rate *rate_of(struct rates *rates, const char *tag)
{
    const json_t *place = json_object_get(rates->by_tag, tag);
    struct rate *rate;

    if (place != NULL) {
        return &rates->list[json_integer_value(place)];
    }
    rates->list = array_room(rates->list, rates->count, &rates->capacity, sizeof *rates->list);
    rate = &rates->list[rates->count];
    *rate = (struct rate){.tag = strdup(tag), .lasts_s = -1};
    ASSERT(rate->tag != NULL &&
           json_object_set_new(rates->by_tag, tag, json_integer((json_int_t)rates->count)) == 0);
    rates->count++;
    return rate;
}

/* Ids that a node has of a tag. */
static uint64_t rates_left_of(const json_t *segment)
{
    uint64_t left = 0;

    for (size_t i = 0; i < field_count(segment, "slots"); i++) {
        const json_t *slot = field_item(segment, "slots", i);
        int64_t next = field_number(slot, "next_id", -1);
        int64_t end = field_number(slot, "end", -1);

        left += next >= 0 && end > next ? (uint64_t)(end - next) : 0;
    }
    return left;
}

static void add_segment(struct rates *rates, const json_t *segment)
{
    const char *tag = field_text(segment, "tag");
    const char *state = field_text(segment, "state");
    int64_t per_s = field_number(segment, "rate_per_s", 0);
    int64_t step = field_number(segment, "step", 0);
    uint64_t left = rates_left_of(segment);
    struct rate *rate;

    if (tag == NULL) {
        return;
    }
    rate = rate_of(rates, tag);
    rate->nodes++;
    rate->left += left;
    rate->step = step > 0 && (uint64_t)step > rate->step ? (uint64_t)step : rate->step;
    rate->per_s += per_s > 0 ? (uint64_t)per_s : 0;
    /* Nodes hold no ids of tags in the modes without segments. */
    if (per_s > 0 &&
        (state == NULL || (strcmp(state, "strict") != 0 && strcmp(state, "monotonic") != 0))) {
        double lasts_s = (double)left / (double)per_s;

        rate->lasts_s = rate->lasts_s < 0 || lasts_s < rate->lasts_s ? lasts_s : rate->lasts_s;
    }
}

void rates_add(struct rates *rates, const json_t *page)
{
    for (size_t i = 0; i < field_count(page, "segments"); i++) {
        add_segment(rates, field_item(page, "segments", i));
    }
}

static int busiest_first(const void *a, const void *b)
{
    const struct rate *one = a;
    const struct rate *two = b;

    if (one->per_s != two->per_s) {
        return one->per_s > two->per_s ? -1 : 1;
    }
    return strcmp(one->tag, two->tag);
}

/* Places are not kept: nothing may be added any more. */
void rates_sort(struct rates *rates)
{
    if (rates->count > 0) {
        qsort(rates->list, rates->count, sizeof *rates->list, busiest_first);
    }
    ASSERT(json_object_clear(rates->by_tag) == 0);
}
