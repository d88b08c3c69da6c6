/* See ranges.h. */
#include "ranges.h"

#include "fault.h"

#include <stdio.h>
#include <string.h>

static int ask_once(const struct ranges_request *request, const struct call *how, bool stepped,
                    struct grant *grant, struct leafd_error *error)
{
    struct leafd *client = request->source->client;
    char path[TEXT_ENCODED_BYTES + 96];
    (void)snprintf(path, sizeof path, "/api/segment/get/%s?count=%u&format=range%s%s",
                   request->path, request->count, request->options, stepped ? "&stepped=1" : "");
    struct call call = *how;
    call.client = client;
    call.door = &client->ids;
    call.request = (struct request){.method = "GET", .path = path, .key = request->key};
    call.range_ids = request->count;
    struct line *line;
    struct answer answer;
    if (client_call(&call, &line, &answer, error) != 0) {
        return -1;
    }
    const char *why = "its status";
    int found = -1;
    if (answer.status == 200) {
        found = text_read_ranges(answer.body, answer.body_bytes, request->count, stepped,
                                 grant->ranges, &why);
    }
    line_put(line);
    if (found < 0) {
        return fault(error, "bad_answer", answer.status, false, "no answer to %u ids of %s: %s",
                     request->count, request->source->name, why);
    }
    grant->at = 0;
    grant->count = found;
    grant->left = grant->total = request->count;
    grant->asked_ns = answer.asked_ns;
    grant->generation = answer.generation;
    grant->replayed = answer.replayed;
    return 0;
}

int ranges_ask(const struct ranges_request *request, const struct call *how, struct grant *grant,
               struct leafd_error *error)
{
    struct leafd_error own;
    error = error != NULL ? error : &own;
    bool stepped = atomic_load(request->stepped) && !request->plain_only;
    int result = ask_once(request, how, stepped, grant, error);
    if (result != 0 && !stepped && !request->plain_only && strcmp(error->code, "stepped") == 0) {
        atomic_store(request->stepped, true);
        result = ask_once(request, how, true, grant, error);
    }
    return result;
}
