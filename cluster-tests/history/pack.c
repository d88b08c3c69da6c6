/*
 * pack.c - see pack.h: a search through the gaps, depth first.
 *
 * The happy path: the state is a stack of pieces (operations by their class, which is a length),
 * those of the first gap first, each gap's from the longest to the shortest. A new gap is filled
 * with what is left. Where that fails pieces are taken off, and shorter ones tried, back into the
 * gaps before if need be. `kept` is the last stack that filled all gaps: a search without success
 * goes back to it.
 *
 * A key with several lengths has a class for each of them, and a group that says that one at most
 * is used.
 *
 * Thread: one owner each.
 */
#include "cluster-tests/history/pack.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/base/buf.h"

#define LEAST_STEPS 64       /* a gap's, even if all other steps are used up */
#define SUM_STEPS (1u << 22) /* lengths times classes: beyond, sums are not looked at */
#define DEAD_ENDS (1u << 10) /* a power of two */
#define PAIRS 8              /* of so many pieces before it a piece may make a pair with one */
#define NONE SIZE_MAX

struct gap {
    uint64_t length;
    size_t released; /* how many operations were sent by its deadline */
    size_t begin;    /* its first place in pieces ... */
    size_t kept;     /* ... and in kept */
};

/* A state from which the gaps from this one on cannot be filled. */
struct dead_end {
    uint64_t hash[2];
    size_t gap;
    uint64_t search; /* that found it; older ones do not count */
};

struct pack {
    const struct history_entry *unknown;
    size_t count;
    size_t classes;
    uint32_t *lengths;  /* of each class, not falling; of equal ones that without a group is last */
    uint32_t *groups;   /* of each class; 0: none, then all operations of this length are in it */
    uint32_t *class_of; /* each operation's */
    uint32_t *sent;     /* of each class: how many operations were released */
    uint32_t *free;     /* of each class: how many of those are not in use */
    bool *group_used;   /* by group */
    uint64_t *ids;      /* a Fenwick tree: the ids of what is free */
    size_t released;    /* how many operations the state has ... */
    size_t released_now; /* ... and how many there are */
    struct gap *gaps;
    size_t gap_count;
    size_t gap_capacity;
    uint32_t *pieces;
    size_t piece_count;
    uint32_t *kept;
    uint64_t hash[2]; /* of what is in use, by lengths */
    struct dead_end *dead_ends;
    uint64_t searches;
    uint64_t steps;      /* for a gap */
    uint64_t steps_left; /* for all */
};

struct search {
    size_t at;     /* the gap that is being filled ... */
    uint64_t rest; /* ... so much of it is left ... */
    size_t end;    /* ... and the next piece is of a class before this one */
    size_t lowest; /* gap that was touched */
    uint64_t steps;
    bool out; /* of steps */
};

size_t pack_upto(const uint32_t *lengths, size_t count, uint64_t length)
{
    size_t low = 0;
    size_t high = count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (lengths[middle] <= length) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* --- classes --- */

struct sorted {
    uint64_t key;
    uint32_t length;
    uint32_t group;
    size_t entry;
};

static int by_key(const void *a, const void *b)
{
    const struct sorted *x = a;
    const struct sorted *y = b;

    return history_order(x->key, y->key);
}

/* Those without a group after those that have one: group 0 counts as the highest. */
static int by_length(const void *a, const void *b)
{
    const struct sorted *x = a;
    const struct sorted *y = b;
    int order = history_order(x->length, y->length);

    return order != 0 ? order : history_order(x->group - 1, y->group - 1);
}

/* Operations of one key have a group; returns how many groups there are. */
static uint32_t find_groups(struct sorted *sorted, size_t count)
{
    uint32_t groups = 0;
    size_t next;

    qsort(sorted, count, sizeof *sorted, by_key);
    for (size_t i = 0; i < count; i = next) {
        for (next = i + 1; next < count && sorted[next].key == sorted[i].key;) {
            next++;
        }
        if (sorted[i].key == 0 || next == i + 1) {
            continue;
        }
        groups++;
        for (size_t k = i; k < next; k++) {
            sorted[k].group = groups;
        }
    }
    return groups;
}

static void make_classes(struct pack *pack)
{
    struct sorted *sorted = MUST_HAVE(calloc(pack->count, sizeof *sorted));
    uint32_t groups;

    for (size_t i = 0; i < pack->count; i++) {
        sorted[i].key = pack->unknown[i].key;
        sorted[i].length = pack->unknown[i].count;
        sorted[i].entry = i;
    }
    groups = find_groups(sorted, pack->count);
    qsort(sorted, pack->count, sizeof *sorted, by_length);
    for (size_t i = 0; i < pack->count; i++) {
        bool same = i > 0 && sorted[i].group == 0 && sorted[i - 1].group == 0 &&
                    sorted[i].length == sorted[i - 1].length;

        pack->classes += !same;
        pack->lengths[pack->classes - 1] = sorted[i].length;
        pack->groups[pack->classes - 1] = sorted[i].group;
        pack->class_of[sorted[i].entry] = (uint32_t)pack->classes - 1;
    }
    free(sorted);
    pack->group_used = MUST_HAVE(calloc((size_t)groups + 1, sizeof *pack->group_used));
}

/* The class of operations without a group that are so long, if one is free; or NONE. */
static size_t free_class(const struct pack *pack, uint64_t length)
{
    size_t end = pack_upto(pack->lengths, pack->classes, length);

    if (end == 0 || pack->lengths[end - 1] != length || pack->groups[end - 1] != 0 ||
        pack->free[end - 1] == 0) {
        return NONE;
    }
    return end - 1;
}

/* --- what is free --- */

static void change_ids(struct pack *pack, size_t class, bool more)
{
    uint64_t ids = pack->lengths[class];

    for (size_t at = class + 1; at <= pack->classes; at += at & -at) {
        pack->ids[at] += more ? ids : -ids;
    }
}

/* The ids of all that is free in the classes before end. Those of a group that is in use count. */
static uint64_t ids_before(const struct pack *pack, size_t end)
{
    uint64_t ids = 0;

    for (size_t at = end; at > 0; at -= at & -at) {
        ids += pack->ids[at];
    }
    return ids;
}

/* The last class before end in which something is free; ids are those before end, not 0. */
static size_t last_free(const struct pack *pack, uint64_t ids)
{
    size_t width = 1;
    size_t at = 0;

    while (width <= pack->classes / 2) {
        width *= 2;
    }
    for (; width > 0; width /= 2) {
        if (at + width <= pack->classes && pack->ids[at + width] < ids) {
            at += width;
            ids -= pack->ids[at];
        }
    }
    ASSERT(at < pack->classes && pack->free[at] > 0);
    return at;
}

static uint64_t mix(uint64_t value)
{
    value += 0x9e3779b97f4a7c15;
    value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9;
    value = (value ^ value >> 27) * 0x94d049bb133111eb;
    return value ^ value >> 31;
}

/* Use an operation of a class, or give it back. */
static void use(struct pack *pack, size_t class, bool used)
{
    uint32_t group = pack->groups[class];
    uint64_t name = group != 0 ? (uint64_t)1 << 32 | group : class;
    uint64_t sign = used ? 1 : UINT64_MAX;

    pack->free[class] += used ? UINT32_MAX : 1;
    change_ids(pack, class, !used);
    if (group != 0) {
        ASSERT(pack->group_used[group] != used);
        pack->group_used[group] = used;
    }
    pack->hash[0] += mix(name * 2) * sign;
    pack->hash[1] += mix(name * 2 + 1) * sign;
}

static void push(struct pack *pack, size_t class)
{
    ASSERT(pack->free[class] > 0 && pack->piece_count < pack->count);
    use(pack, class, true);
    pack->pieces[pack->piece_count++] = (uint32_t) class;
}

static size_t pop(struct pack *pack)
{
    size_t class = pack->pieces[--pack->piece_count];

    use(pack, class, false);
    return class;
}

/* Let the state have the first so many operations. */
static void release_upto(struct pack *pack, size_t released)
{
    while (pack->released < released) {
        size_t class = pack->class_of[pack->released++];

        pack->free[class]++;
        change_ids(pack, class, true);
    }
    while (pack->released > released) {
        size_t class = pack->class_of[--pack->released];

        ASSERT(pack->free[class] > 0);
        pack->free[class]--;
        change_ids(pack, class, false);
    }
}

/* --- the search --- */

static struct dead_end *dead_end_slot(struct pack *pack, size_t gap)
{
    return &pack->dead_ends[(pack->hash[0] ^ mix(gap)) & (DEAD_ENDS - 1)];
}

static bool is_hopeless(struct pack *pack, const struct search *search)
{
    const struct dead_end *end;

    if (pack->piece_count != pack->gaps[search->at].begin) {
        return false;
    }
    end = dead_end_slot(pack, search->at);
    return end->search == pack->searches && end->gap == search->at &&
           end->hash[0] == pack->hash[0] && end->hash[1] == pack->hash[1];
}

static void note_hopeless(struct pack *pack, size_t gap)
{
    *dead_end_slot(pack, gap) = (struct dead_end){
        .hash = {pack->hash[0], pack->hash[1]}, .gap = gap, .search = pack->searches};
}

/* Would a piece of this class stand beside one in its gap, while one of their sum is free? */
static bool makes_a_pair(const struct pack *pack, const struct search *search, size_t class)
{
    size_t begin = pack->gaps[search->at].begin;
    size_t count = pack->piece_count - begin;

    for (size_t i = 0; i < count && i < PAIRS; i++) {
        uint64_t other = pack->lengths[pack->pieces[pack->piece_count - 1 - i]];

        if (free_class(pack, other + pack->lengths[class]) != NONE) {
            return true;
        }
    }
    return false;
}

static void spend(struct search *search, uint64_t steps)
{
    search->out = search->out || search->steps < steps;
    search->steps -= search->out ? 0 : steps;
}

/* The next piece to try in the present gap, or NONE. */
static size_t choose(const struct pack *pack, struct search *search)
{
    size_t end = pack_upto(pack->lengths, pack->classes, search->rest);
    size_t whole = free_class(pack, search->rest);

    if (whole != NONE) {
        return whole < search->end ? whole : NONE; /* not: it was tried, further up in the order */
    }
    end = end < search->end ? end : search->end;
    while (!search->out) {
        uint64_t ids = ids_before(pack, end);
        size_t class;

        if (ids < search->rest) {
            return NONE;
        }
        class = last_free(pack, ids);
        if (!pack->group_used[pack->groups[class]] && !makes_a_pair(pack, search, class)) {
            return class;
        }
        end = class;
        spend(search, 1);
    }
    return NONE;
}

/* Take pieces off until there is another one to try; false if there is none in the first gap. */
static bool go_back(struct pack *pack, struct search *search)
{
    while (!search->out) {
        size_t class;

        if (pack->piece_count == pack->gaps[search->at].begin) {
            note_hopeless(pack, search->at);
            if (search->at == 0) {
                return false;
            }
            search->at--;
            search->rest = 0;
            search->lowest = search->at < search->lowest ? search->at : search->lowest;
            spend(search, pack->released - pack->gaps[search->at].released);
            if (search->out) {
                return true;
            }
            release_upto(pack, pack->gaps[search->at].released);
        }
        spend(search, 1);
        class = pop(pack);
        search->rest += pack->lengths[class];
        if (search->rest > pack->lengths[class] || pack->groups[class] != 0) {
            search->end = class;
            return true;
        }
    }
    return true;
}

/* Fill the last gap, from the state in which all others are filled. */
static enum pack_result fill(struct pack *pack, struct search *search)
{
    const struct gap *last = &pack->gaps[pack->gap_count - 1];

    for (;;) {
        struct gap *gap = &pack->gaps[search->at];
        size_t class;

        if (search->rest == 0 && gap == last) {
            return PACK_FITS;
        }
        if (search->rest == 0) {
            gap = &pack->gaps[++search->at];
            gap->begin = pack->piece_count;
            search->rest = gap->length;
            search->end = pack->classes;
            spend(search, gap->released - pack->released);
            release_upto(pack, gap->released);
        }
        spend(search, 1);
        class = is_hopeless(pack, search) ? NONE : choose(pack, search);
        if (class != NONE) {
            push(pack, class);
            search->rest -= pack->lengths[class];
            search->end = class + 1;
        } else if (!search->out && !go_back(pack, search)) {
            return PACK_NO_WAY;
        }
        if (search->out) {
            return PACK_UNDECIDED;
        }
    }
}

/* The present stack is the one that fills all gaps. */
static void keep(struct pack *pack, size_t lowest)
{
    size_t from = pack->gaps[lowest].begin;

    for (size_t i = lowest; i < pack->gap_count; i++) {
        pack->gaps[i].kept = pack->gaps[i].begin;
    }
    memcpy(pack->kept + from, pack->pieces + from,
           (pack->piece_count - from) * sizeof *pack->pieces);
}

/* Back to what was kept, without the last gap; all gaps from the lowest on were touched. */
static void put_back(struct pack *pack, size_t lowest)
{
    size_t last = pack->gap_count - 1;

    while (pack->piece_count > pack->gaps[lowest].begin) {
        (void)pop(pack);
    }
    for (size_t i = lowest; i < last; i++) {
        struct gap *gap = &pack->gaps[i];
        uint64_t rest = gap->length;

        release_upto(pack, gap->released);
        gap->begin = gap->kept;
        while (rest > 0) {
            size_t class = pack->kept[pack->piece_count];

            push(pack, class);
            rest -= pack->lengths[class];
        }
    }
    pack->gaps[last].begin = pack->piece_count;
    release_upto(pack, pack->released_now);
}

static enum pack_result search_for(struct pack *pack, uint64_t length)
{
    uint64_t least = pack->steps < LEAST_STEPS ? pack->steps : LEAST_STEPS;
    uint64_t most = pack->steps < pack->steps_left ? pack->steps : pack->steps_left;
    uint64_t steps = most > least ? most : least;
    struct search search = {
        .at = pack->gap_count - 1, .rest = length, .end = pack->classes, .steps = steps};
    enum pack_result result;

    search.lowest = search.at;
    pack->searches++;
    result = fill(pack, &search);
    steps -= search.out ? 0 : search.steps;
    pack->steps_left -= steps < pack->steps_left ? steps : pack->steps_left;
    if (result == PACK_FITS) {
        keep(pack, search.lowest);
    } else {
        put_back(pack, search.lowest);
    }
    return result;
}

/* --- sums --- */

/* Can some of the operations make up the length, if nothing else needs them? True also if that was
 * not found out. */
static bool has_sum(struct pack *pack, uint64_t length)
{
    size_t classes = pack_upto(pack->lengths, pack->classes, length);
    uint32_t *used; /* for each sum: of the present class, 0: it is no sum, else one more */

    if (classes == 0 || length > SUM_STEPS / classes || length * classes > pack->steps_left) {
        return classes > 0;
    }
    pack->steps_left -= length * classes;
    used = MUST_HAVE(calloc(length + 1, sizeof *used));
    used[0] = 1;
    for (size_t i = 0; i < classes; i++) {
        uint32_t step = pack->lengths[i];

        for (uint64_t sum = 0; sum <= length; sum++) {
            if (used[sum] > 0) {
                used[sum] = 1;
            } else if (sum >= step && used[sum - step] > 0 && used[sum - step] <= pack->sent[i]) {
                used[sum] = used[sum - step] + 1;
            }
        }
    }
    classes = used[length];
    free(used);
    return classes > 0;
}

/* --- all of it --- */

struct pack *pack_new(const struct history_entry *unknown, size_t count, uint64_t steps)
{
    struct pack *pack = MUST_HAVE(calloc(1, sizeof *pack));

    ASSERT(count > 0);
    pack->unknown = unknown;
    pack->count = count;
    pack->steps = steps;
    pack->steps_left = steps < UINT64_MAX / PACK_TIMES ? steps * PACK_TIMES : UINT64_MAX;
    pack->lengths = MUST_HAVE(calloc(count, sizeof *pack->lengths));
    pack->groups = MUST_HAVE(calloc(count, sizeof *pack->groups));
    pack->class_of = MUST_HAVE(calloc(count, sizeof *pack->class_of));
    pack->sent = MUST_HAVE(calloc(count, sizeof *pack->sent));
    pack->free = MUST_HAVE(calloc(count, sizeof *pack->free));
    pack->ids = MUST_HAVE(calloc(count + 1, sizeof *pack->ids));
    pack->pieces = MUST_HAVE(calloc(count, sizeof *pack->pieces));
    pack->kept = MUST_HAVE(calloc(count, sizeof *pack->kept));
    pack->dead_ends = MUST_HAVE(calloc(DEAD_ENDS, sizeof *pack->dead_ends));
    make_classes(pack);
    return pack;
}

void pack_free(struct pack *pack)
{
    free(pack->lengths);
    free(pack->groups);
    free(pack->class_of);
    free(pack->sent);
    free(pack->free);
    free(pack->group_used);
    free(pack->ids);
    free(pack->gaps);
    free(pack->pieces);
    free(pack->kept);
    free(pack->dead_ends);
    free(pack);
}

void pack_release(struct pack *pack)
{
    ASSERT(pack->released_now < pack->count);
    pack->sent[pack->class_of[pack->released_now]]++;
    pack->released_now++;
    release_upto(pack, pack->released_now);
}

enum pack_result pack_gap(struct pack *pack, uint64_t length)
{
    enum pack_result result;

    ASSERT(length > 0);
    pack->gaps = array_room(pack->gaps, pack->gap_count, &pack->gap_capacity, sizeof *pack->gaps);
    pack->gaps[pack->gap_count++] =
        (struct gap){.length = length, .released = pack->released_now, .begin = pack->piece_count};
    result = search_for(pack, length);
    if (result == PACK_FITS) {
        return result;
    }
    pack->gap_count--;
    return has_sum(pack, length) ? result : PACK_NO_SUM;
}
