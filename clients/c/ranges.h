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

struct ranges_request {
    struct source *source; /* whose ids */
    const char *path;      /* of the tag, an element of a path */
    uint32_t count;
    const char *options;  /* more of them, from & on */
    const char *key;      /* NULL: none */
    atomic_bool *stepped; /* kept by the source */
    bool plain_only;      /* of a caller who could not take steps: an error, then */
};

/* how: all but the client, the door and the request. 0 or -1. */
int ranges_ask(const struct ranges_request *request, const struct call *how, struct grant *grant,
               struct leafd_error *error);
#endif
