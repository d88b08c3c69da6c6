/* One request for ranges of a tag's ids (docs/clients.md, Segment ids and Strict ids).
 *
 * The happy path: ranges_ask(), whose answer is in *grant. A tag whose ids do not follow each other
 * refuses the first request of a source ("stepped"); it is sent again at once with stepped=1, and
 * so are all later ones of that source. Failure modes: those of a call; an answer that is none.
 * Any thread. */
#ifndef LEAFD_CLIENTS_C_RANGES_H
#define LEAFD_CLIENTS_C_RANGES_H

#include "client.h"
#include "text.h"

/* Ranges of one answer, of which the first ones may be gone already. */
struct grant {
    struct leafd_series ranges[TEXT_RANGES_MAX];
    int at, count;
    uint64_t left, total; /* ids */
    uint64_t asked_ns;    /* when the request was sent */
    uint64_t generation;  /* of the answer; 0: not said */
    bool replayed;
};

/* What the last answers to a source had. */
struct given {
    pthread_mutex_t lock; /* of all that follows */
    uint64_t generation;  /* the newest that an answer had; 0: none */
    uint64_t above;       /* all ids of that generation that came */
    uint64_t count;       /* of ranges, ever */
    struct given_range {
        uint64_t generation;
        int64_t first, last;
        uint64_t key; /* by which they were asked for, as a hash; 0: none */
    } ranges[TEXT_RANGES_MAX];
};

/* Of a new source, which is all 0 else, or in a child of fork, where the rest is kept. */
void given_init(struct given *given);
void given_free(struct given *given);

/* What stands for a text in a range of one id: two texts have the same only once in 2^63. */
int64_t given_text(const char *text);

/* Why an answer is not taken: it is of an older generation than one before, or has ids that one of
 * the last ranges had, which was asked for without this key, as an answer has that a cache or a
 * proxy gives again. NULL: it is taken, and noted. key: NULL for none. */
const char *given_refuses(struct given *given, const struct grant *grant, const char *key);

struct ranges_request {
    struct source *source; /* whose ids */
    /* As of given_refuses(). Any thread. */
    const char *(*refuses)(void *taker, const struct grant *grant);
    void *taker;
    const char *path; /* of the tag, an element of a path */
    uint32_t count;
    const char *options;  /* more of them, from & on */
    const char *key;      /* NULL: none */
    atomic_bool *stepped; /* kept by the source */
    bool one;             /* the answer must be one range */
    bool plain_only;      /* of a caller who could not take steps: an error, then */
};

/* how: all but the client, the door and the request. 0 or -1. */
int ranges_ask(const struct ranges_request *request, const struct call *how, struct grant *grant,
               struct leafd_error *error);
#endif
