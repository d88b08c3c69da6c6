/* Strict ids (docs/clients.md, Strict ids): each call is a request with a key, which all its
 * retries share. The happy path is one answer of one range. Any thread. */
#include "client.h"

#include "fault.h"
#include "text.h"

#include <stdio.h>

struct leafd_strict {
    struct source source;
    char name[TEXT_ENCODED_BYTES]; /* as an element of a path */
};

static int ask(struct leafd_strict *strict, uint32_t count, const char *key,
               struct leafd_range *range, bool *replayed, uint64_t until_ns,
               struct leafd_error *error)
{
    struct leafd *client = strict->source.client;
    char path[sizeof strict->name + 64];
    (void)snprintf(path, sizeof path, "/api/segment/get/%s?count=%u&format=range", strict->name,
                   count);
    struct line *line;
    struct answer answer;
    if (client_get(client, &client->ids, path, key, until_ns, &line, &answer, error) != 0) {
        return -1;
    }
    struct leafd_range ranges[TEXT_RANGES_MAX];
    const char *why = "its status";
    int found = -1;
    if (answer.status == 200) {
        found = text_read_ranges(answer.body, answer.body_bytes, count, ranges, &why);
        why = found > 1 ? "strict ids come in one range" : why;
    }
    line_put(line);
    if (found != 1) {
        return fault(error, "bad_answer", answer.status, false, "no answer to %u ids of %s: %s",
                     count, strict->source.name, why);
    }
    *range = ranges[0];
    if (replayed != NULL) {
        *replayed = answer.replayed;
    }
    return 0;
}

static int check(uint32_t count, const char *key, struct leafd_error *error)
{
    if (count < 1 || count > TEXT_COUNT_MAX) {
        return fault(error, "bad_setting", 0, false, "count=%u must be from 1 to %d", count,
                     TEXT_COUNT_MAX);
    }
    return text_check_key(key, error);
}

int leafd_strict_take(struct leafd_strict *strict, uint32_t count, const char *key,
                      struct leafd_range *range, bool *replayed, uint32_t deadline_ms,
                      struct leafd_error *error)
{
    struct leafd *client = strict->source.client;
    uint64_t until_ns = client_until_ns(client, deadline_ms);
    char own[TEXT_OWN_KEY_CHARS + 1];
    if (client_enter(client, error) != 0) {
        return -1;
    }
    int result = check(count, key, error);
    if (result == 0) {
        if (key == NULL) {
            text_make_key(own);
            key = own;
        }
        COUNT(client, waits);
        result = ask(strict, count, key, range, replayed, until_ns, error);
        if (result != 0) {
            (void)fault_keyed(error, key);
        }
    }
    if (result == 0) {
        ADD(client, ids_strict, count);
    } else {
        COUNT(client, errors);
    }
    return result;
}

int64_t leafd_strict_next(struct leafd_strict *strict, struct leafd_error *error)
{
    struct leafd_range range;
    return leafd_strict_take(strict, 1, NULL, &range, NULL, 0, error) == 0 ? range.first : -1;
}

/* Nothing is kept, so there is nothing to end. */
static const struct source_kind kind = {source_nothing, source_nothing, source_nothing,
                                        source_nothing};

static bool make(void *source)
{
    struct leafd_strict *strict = source;
    text_encode(strict->source.name, strict->name);
    return true;
}

struct leafd_strict *leafd_strict(struct leafd *client, const char *tag, struct leafd_error *error)
{
    return client_source(client, &kind, tag != NULL ? tag : "", sizeof(struct leafd_strict), make,
                         error);
}
