/*
 * busiest.c - see busiest.h. Thread: one owner.
 */
#include "raft/cluster/busiest.h"

#include <string.h>

#include "src/base/assert.h"
#include "src/base/hash.h"

#define RATE_MIN_PER_S (1.0 / 3600)
#define LASTED_MIN_S 10.0 /* a rate is measured over no less: one segment says little */
#define FADE_STEP_MS 1000
#define LN_2 0.693147

void busiest_init(struct busiest *busiest, uint64_t seed, uint64_t now_ms)
{
    memset(busiest, 0, sizeof *busiest);
    busiest->seed = seed;
    busiest->faded_ms = now_ms;
}

/* 2 to the power of -x, x >= 0, to one part in a thousand: the C library's is one more library. */
static double half_to(double x)
{
    double value = 1;

    for (; x >= 1 && value > 0; x -= 1) {
        value /= 2;
    }
    return value * (1 - x * (0.693147 - x * (0.240227 - x * (0.055504 - x * 0.009618))));
}

/* Seconds of the past count the less the longer ago they are: the sum of all of them is bounded. */
static void fade(struct busiest *busiest, uint64_t now_ms)
{
    uint64_t passed_ms = now_ms > busiest->faded_ms ? now_ms - busiest->faded_ms : 0;
    double keeps;

    if (passed_ms < FADE_STEP_MS) {
        return;
    }
    keeps = half_to((double)passed_ms / BUSIEST_HALF_MS);
    for (size_t i = 0; i < busiest->count; i++) {
        struct busiest_place *place = &busiest->places[i];
        double half_s = BUSIEST_HALF_MS / 1000.0;

        place->weight *= keeps;
        place->grown *= keeps;
        /* the integral of the fading over the time that passed */
        place->lasted_s = place->lasted_s * keeps + (1 - keeps) * half_s / LN_2;
    }
    busiest->faded_ms = now_ms;
}

static struct busiest_place *find(struct busiest *busiest, const char *name, size_t len,
                                  uint64_t hash)
{
    for (size_t i = 0; i < busiest->count; i++) {
        struct busiest_place *place = &busiest->places[i];

        if (place->hash == hash && place->name_len == len && memcmp(place->name, name, len) == 0) {
            return place;
        }
    }
    return NULL;
}

/* A place for another tag: a free one, or that of the lightest. */
static struct busiest_place *take(struct busiest *busiest)
{
    struct busiest_place *lightest = &busiest->places[0];

    if (busiest->count < BUSIEST_PLACES) {
        lightest = &busiest->places[busiest->count++];
        lightest->weight = 0;
        return lightest;
    }
    for (size_t i = 1; i < busiest->count; i++) {
        if (busiest->places[i].weight < lightest->weight) {
            lightest = &busiest->places[i];
        }
    }
    return lightest;
}

void busiest_note(struct busiest *busiest, const char *name, size_t len, uint64_t grown,
                  uint64_t now_ms)
{
    uint64_t hash = hash_bytes(name, len, busiest->seed);
    struct busiest_place *place = find(busiest, name, len, hash);

    ASSERT(len <= LIMIT_TAG_NAME_BYTES && grown > 0);
    fade(busiest, now_ms);
    if (place == NULL) {
        place = take(busiest);
        memcpy(place->name, name, len);
        place->name[len] = '\0';
        place->name_len = (uint16_t)len;
        place->hash = hash;
        place->grown = 0;
        place->lasted_s = 0;
    }
    place->weight += (double)grown;
    place->grown += (double)grown;
}

static double rate_of(const struct busiest_place *place)
{
    return place->grown / (place->lasted_s > LASTED_MIN_S ? place->lasted_s : LASTED_MIN_S);
}

size_t busiest_look(struct busiest *busiest, uint64_t now_ms, struct busiest_tag *ret_tags,
                    size_t max)
{
    size_t count = 0;

    ASSERT(max > 0);
    fade(busiest, now_ms);
    for (size_t i = 0; i < busiest->count; i++) {
        struct busiest_tag tag = {&busiest->places[i], rate_of(&busiest->places[i])};
        size_t at;

        if (tag.per_s < RATE_MIN_PER_S || (count == max && tag.per_s <= ret_tags[max - 1].per_s)) {
            continue;
        }
        count += count < max;
        for (at = count - 1; at > 0 && ret_tags[at - 1].per_s < tag.per_s; at--) {
            ret_tags[at] = ret_tags[at - 1];
        }
        ret_tags[at] = tag;
    }
    return count;
}
