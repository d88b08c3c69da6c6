/* A request from its first try to its answer: nodes, rounds, deadlines (docs/clients.md, Nodes and
 * retries). The happy path is one attempt at the node that was asked last. Any thread. */
#include "client.h"

#include "discover.h"
#include "fault.h"
#include "second.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    FIRST_ROUND_MS = 20,
    FIRST_PATIENCE_MS = 1000, /* or a quarter of attempt_ms, if that is longer */
    LONGEST_ROUND_MS = 1000,
    FAILURE_BYTES = 150,
    LEAST_HEDGE_MS = 20, /* no second request before */
    USUAL_PARTS = 8,     /* of the usual time, one of which is the last one's */
    CODE_BYTES = sizeof((struct leafd_error *)0)->code
};

/* What a call knows of its attempts. */
struct attempts {
    unsigned at;        /* the node that is asked */
    unsigned failed;    /* of this round */
    unsigned untrusted; /* and of these by their certificate */
    unsigned rounds;    /* that are over */
    unsigned sent;
    bool quota; /* the last answer was one: it is the client's own */
    bool cut;   /* the last attempt, by the call's end */
    uint32_t round_ms;
    uint32_t retry_after_s;
    struct nodes *nodes; /* that the round asks */
    char failures[NODES_MAX][FAILURE_BYTES];
};

/* What an answer means to the call. */
enum verdict {
    DONE,
    REFUSED, /* *error says how */
    ELSEWHERE,
    LATER /* here, when it said */
};

uint64_t client_until_ns(const struct leafd *client, uint32_t deadline_ms)
{
    uint64_t ms = deadline_ms > 0 ? deadline_ms : client->settings.deadline_ms;
    return now_ns() + ms * NS_PER_MS;
}

uint64_t client_spot(const struct nodes *nodes, unsigned at)
{
    return (uint64_t)nodes->serial * NODES_MAX + at;
}

void client_leave_node(struct leafd *client, struct door *door, const struct nodes *nodes,
                       unsigned from, unsigned to)
{
    if (door_leave(door, nodes, from, to)) {
        char texts[2][NODE_TEXT_BYTES];
        struct node old = node_of(nodes, from), new = node_of(nodes, to);
        COUNT(client, failovers);
        node_text(&old, texts[0]);
        node_text(&new, texts[1]);
        client_event(client,
                     (struct leafd_event){.kind = "failover", .from = texts[0], .to = texts[1]});
    }
}

uint64_t client_patience_ns(const struct leafd *client)
{
    uint64_t usual_ns = atomic_load(&client->usual_ns);
    uint64_t least_ns = (uint64_t)LEAST_HEDGE_MS * NS_PER_MS;
    return usual_ns == 0             ? client->settings.connect_ms * NS_PER_MS
           : 2 * usual_ns > least_ns ? 2 * usual_ns
                                     : least_ns;
}

/* A range request was answered. Of two at the same moment one may not count. */
static void learn_time(struct leafd *client, uint64_t took_ns)
{
    uint64_t usual_ns = atomic_load(&client->usual_ns);
    atomic_store(&client->usual_ns,
                 usual_ns == 0 ? took_ns + 1
                               : usual_ns - usual_ns / USUAL_PARTS + took_ns / USUAL_PARTS);
}

static bool is_code(const char *code)
{
    size_t bytes = code == NULL ? 0 : strlen(code);
    return bytes > 0 && bytes < CODE_BYTES &&
           code[strspn(code, "abcdefghijklmnopqrstuvwxyz0123456789_")] == 0;
}

/* The server's error, from its JSON: false if it is none. */
static bool read_error(const struct answer *answer, struct leafd_error *error)
{
    json_t *json = json_loadb(answer->body, answer->body_bytes, 0, NULL);
    const char *code = json_string_value(json_object_get(json, "code"));
    const char *message = json_string_value(json_object_get(json, "message"));
    bool good = is_code(code) && message != NULL;
    if (good) {
        bool again = answer_is_elsewhere(answer) || answer->status == 429 || answer->status == 423;
        bool shaped = answer->status == 400 && strcmp(code, "bad_request") == 0 &&
                      strstr(message, " has a shape, ") != NULL;
        (void)fault(error, code, answer->status, again, "%.900s%s", message,
                    shaped ? "; use texts() of the client" : "");
    }
    json_decref(json);
    return good;
}

static enum verdict judge(const struct answer *answer, struct leafd_error *error)
{
    if (answer->status >= 200 && answer->status <= 299) {
        if (answer->strange) {
            (void)fault(error, "bad_answer", answer->status, false,
                        "an answer whose Leafd-Generation is no number");
        }
        return answer->strange ? REFUSED : DONE;
    }
    bool known = answer->status >= 400 && read_error(answer, error);
    if (answer_is_elsewhere(answer)) {
        if (!known) {
            (void)fault(error, "unreachable", answer->status, true, "%d without a reason",
                        answer->status);
        }
        return ELSEWHERE;
    }
    if (known && answer->status == 429 && strcmp(error->code, "quota") == 0) {
        return LATER;
    }
    if (!known) {
        (void)fault(error, "bad_answer", answer->status, false,
                    "an answer with status %d that is none of leafd's", answer->status);
    }
    return REFUSED;
}

/* Of an attempt that the call's end cut short the failure before it says more. */
static void note(struct attempts *attempts, const char *code, const char *text)
{
    char *into = attempts->failures[attempts->at];
    if (attempts->cut && *into != 0) {
        return;
    }
    (void)snprintf(into, FAILURE_BYTES, "%.39s%s%.100s", code, *code != 0 ? ": " : "", text);
}

/* Twice as long after each round, up to most_ms. */
static uint64_t patience_ms(uint64_t first_ms, unsigned rounds, uint64_t most_ms)
{
    return rounds < 20 && first_ms << rounds < most_ms ? first_ms << rounds : most_ms;
}

/* When an attempt has to have a connection, and when it ends: a node that is silent leaves time for
 * those that the round has not asked yet. */
static struct limits limits_of(const struct call *call, const struct attempts *attempts)
{
    const struct settings *settings = &call->client->settings;
    uint64_t now = now_ns();
    uint64_t left_ns = call->until_ns == UINT64_MAX ? settings->deadline_ms * NS_PER_MS
                       : call->until_ns > now       ? call->until_ns - now
                                                    : 0;
    uint64_t share_ns = left_ns / (attempts->nodes->count - attempts->failed);
    uint64_t first_ms =
        settings->attempt_ms / 4 > FIRST_PATIENCE_MS ? settings->attempt_ms / 4 : FIRST_PATIENCE_MS;
    uint64_t within_ns = patience_ms(first_ms, attempts->rounds, settings->attempt_ms) * NS_PER_MS;
    uint64_t connect_ns =
        patience_ms(settings->connect_ms, attempts->rounds, settings->attempt_ms) * NS_PER_MS;
    within_ns = within_ns < share_ns ? within_ns : share_ns;
    const struct nodes *nodes = attempts->nodes;
    if (attempts->rounds == 0 &&
        nodes->list[nodes->count - 1].tier > nodes->list[attempts->at].tier) {
        /* The nodes of a tier share the time until the next one is asked. */
        uint64_t tier_ns = first_ms * NS_PER_MS * 3 / 2 / nodes_in_tier(nodes, attempts->at);
        within_ns = within_ns < tier_ns ? within_ns : tier_ns;
    }
    return (struct limits){
        .connected_ns = now + (connect_ns < within_ns ? connect_ns : within_ns),
        .until_ns = now + within_ns,
    };
}

/* One attempt at the present address. */
static enum verdict attempt(const struct call *call, struct attempts *attempts, struct line **line,
                            struct answer *answer, struct leafd_error *error)
{
    struct leafd *client = call->client;
    struct limits limits = limits_of(call, attempts);
    COUNT(client, requests);
    if (attempts->sent++ > 0) {
        COUNT(client, retries);
    }
    if (call->progress != NULL) {
        atomic_store(&call->progress->at, client_spot(attempts->nodes, attempts->at));
        atomic_store(&call->progress->since_ns, now_ns());
    }
    enum ask asked = second_ask(call, attempts->nodes, &attempts->at, line, &limits, answer);
    if (call->progress != NULL) {
        atomic_store(&call->progress->since_ns, 0);
    }
    attempts->cut = now_ns() >= call->until_ns;
    attempts->quota = attempts->quota && attempts->cut;
    switch (asked) {
    case ASK_CLOSED:
        (void)fault(error, "closed", 0, false, "the client was closed");
        return REFUSED;
    case ASK_TOO_LONG:
        (void)fault(error, "bad_answer", answer->status, false,
                    "an answer that is longer than any of leafd's");
        return REFUSED;
    case ASK_BAD_FILE:
        (void)fault(error, "bad_setting", 0, false,
                    "ca_file=%.200s, cert_file=%.200s and key_file=%.200s must be certificates and "
                    "a key in PEM: %s",
                    client->settings.ca_file, client->settings.cert_file, client->settings.key_file,
                    answer->why);
        return REFUSED;
    case ASK_UNTRUSTED:
        attempts->untrusted++;
        note(attempts, "", answer->why);
        return ELSEWHERE;
    case ASK_FAILED:
        note(attempts, "", answer->why);
        return ELSEWHERE;
    case ASK_ANSWERED:
        break;
    }
    enum verdict verdict = judge(answer, error);
    attempts->quota = verdict == LATER;
    if (verdict == REFUSED && answer->status >= 300 && strcmp(error->code, "bad_answer") == 0) {
        /* It is no leafd: the next call begins elsewhere. */
        const struct nodes *nodes = attempts->nodes;
        client_leave_node(client, call->door, nodes, attempts->at,
                          (attempts->at + 1) % nodes->count);
    }
    if (verdict == ELSEWHERE || verdict == LATER) {
        note(attempts, error->code, error->message);
        attempts->retry_after_s = answer->retry_after_s;
    }
    if (verdict == DONE && call->range_ids > 0) {
        learn_time(client, now_ns() - answer->asked_ns);
    }
    const char *why =
        verdict == DONE && call->refuses != NULL ? call->refuses(call->taker, answer) : NULL;
    if (why != NULL) {
        ADD(client, burnt, call->range_ids);
        note(attempts, "", why);
        verdict = ELSEWHERE;
    }
    return verdict;
}

/* All failures, one behind the other. */
static void list_failures(const struct attempts *attempts, char *into, size_t bytes)
{
    const struct nodes *nodes = attempts->nodes;
    size_t used = 0;
    into[0] = 0;
    for (unsigned i = 0; i < nodes->count && used < bytes; i++) {
        const char *why = attempts->failures[i][0] != 0 ? attempts->failures[i] : "not asked";
        /* So that the last ones are in it, too, each has its part alone. */
        int room = (int)(bytes / nodes->count);
        char text[NODE_TEXT_BYTES], one[NODE_TEXT_BYTES + FAILURE_BYTES];
        struct node node = node_of(nodes, i);
        node_text(&node, text);
        (void)snprintf(one, sizeof one, "%s%s (%s)", i > 0 ? "; " : "", text, why);
        int wrote = snprintf(into + used, bytes - used, "%.*s", room, one);
        used += wrote > 0 ? (size_t)wrote : 0;
    }
}

/* The error of a call that ends now. */
static int give_up(const struct attempts *attempts, struct leafd_error *error)
{
    char failures[sizeof error->message];
    list_failures(attempts, failures, sizeof failures);
    return fault(error, attempts->quota ? "quota" : "unreachable", attempts->quota ? 429 : 0, true,
                 "no node answered by the deadline: %s", failures);
}

/* Nobody wants it any more. Those who wait hear how it stands. */
static bool is_unwanted(const struct call *call, const struct attempts *attempts)
{
    struct leafd_error error;
    if (call->wanted == NULL || attempts->sent == 0) {
        return false;
    }
    (void)give_up(attempts, &error);
    return !call->wanted(call->context, &error, attempts->rounds);
}

/* After a round: a random half to all of its time, and what Retry-After says. */
static void wait_for_round(const struct call *call, struct attempts *attempts)
{
    if (is_unwanted(call, attempts)) {
        return;
    }
    uint64_t now = now_ns();
    uint32_t half_ms = attempts->round_ms / 2;
    uint64_t wait_ms = half_ms + (now >> 4) % (half_ms + 1);
    if (wait_ms < (uint64_t)attempts->retry_after_s * 1000) {
        wait_ms = (uint64_t)attempts->retry_after_s * 1000;
    }
    attempts->round_ms *= 2;
    if (attempts->round_ms > LONGEST_ROUND_MS) {
        attempts->round_ms = LONGEST_ROUND_MS;
    }
    attempts->retry_after_s = 0;
    uint64_t until_ns = now + wait_ms * NS_PER_MS;
    client_pause(call->client, until_ns < call->until_ns ? until_ns : call->until_ns);
}

/* The time is over, or nobody wants it any more. */
static bool is_over(const struct call *call, const struct attempts *attempts)
{
    return now_ns() >= call->until_ns || (call->is_second && attempts->rounds > 0) ||
           is_unwanted(call, attempts);
}

/* Of the nodes that are still there. */
static void keep_failures(struct attempts *attempts, const struct nodes *before)
{
    char kept[NODES_MAX][FAILURE_BYTES] = {{0}};
    char texts[2][NODE_TEXT_BYTES];
    for (unsigned i = 0; i < attempts->nodes->count; i++) {
        struct node now = node_of(attempts->nodes, i);
        node_text(&now, texts[0]);
        for (unsigned old = 0; old < before->count; old++) {
            struct node was = node_of(before, old);
            node_text(&was, texts[1]);
            if (strcmp(texts[0], texts[1]) == 0) {
                memcpy(kept[i], attempts->failures[old], FAILURE_BYTES);
            }
        }
    }
    memcpy(attempts->failures, kept, sizeof kept);
}

/* The nodes as they are now; they may be others than in the round before. */
static void find_nodes(const struct call *call, struct attempts *attempts, bool failed)
{
    struct nodes *before = attempts->nodes;
    uint64_t now = now_ns();
    uint64_t left_ns = call->until_ns == UINT64_MAX ? call->client->settings.deadline_ms * NS_PER_MS
                       : call->until_ns > now       ? call->until_ns - now
                                                    : 0;
    discover_nodes(call->client, call->door, failed, left_ns / 4 / NS_PER_MS);
    uint64_t connect_ms = call->client->settings.connect_ms, left_ms = left_ns / NS_PER_MS;
    attempts->nodes =
        door_nodes(call->door, failed, connect_ms < left_ms ? connect_ms : left_ms, &attempts->at);
    if (before != NULL && before != attempts->nodes) {
        keep_failures(attempts, before);
    }
    if (before != NULL) {
        nodes_put(call->door, before);
    }
}

/* False: no node of the round is trusted, which no other round would change. */
static bool try_elsewhere(const struct call *call, struct attempts *attempts)
{
    unsigned count = attempts->nodes->count;
    unsigned from = attempts->at;
    attempts->at = call->is_second ? nodes_beside(attempts->nodes, from) : (from + 1) % count;
    client_leave_node(call->client, call->door, attempts->nodes, from, attempts->at);
    if (++attempts->failed < count) {
        return true;
    }
    if (attempts->untrusted == count) {
        return false;
    }
    attempts->failed = attempts->untrusted = 0;
    attempts->rounds++;
    if (!call->is_second) {
        wait_for_round(call, attempts);
        if (call->door->named || call->door->discovery.wanted) {
            find_nodes(call, attempts, true);
        }
    }
    return true;
}

static int run(const struct call *call, struct attempts *attempts, struct line **line,
               struct answer *answer, struct leafd_error *error)
{
    char failures[900];
    while (!is_over(call, attempts)) {
        if (atomic_load(&call->client->closed) && !call->after_close) {
            return fault(error, "closed", 0, false, "the client was closed");
        }
        char why[FOREIGN_BYTES] = "", text[FOREIGN_BYTES + 16];
        enum foreign foreign = discover_foreign(call->client, attempts->nodes, attempts->at, why);
        if (foreign == FOREIGN_ALL) {
            return fault(
                error, "other_cluster", 0, false,
                "the nodes are of %s: ids of the two may be the same. If that is meant, make "
                "a new client; else correct endpoints",
                why);
        }
        if (foreign == FOREIGN_ONE) {
            (void)snprintf(text, sizeof text, "it is of %s", why);
            note(attempts, "", text);
        }
        switch (foreign == FOREIGN_ONE ? ELSEWHERE : attempt(call, attempts, line, answer, error)) {
        case DONE:
            return 0;
        case REFUSED:
            return -1;
        case LATER:
            wait_for_round(call, attempts);
            break;
        case ELSEWHERE:
            if (!try_elsewhere(call, attempts)) {
                list_failures(attempts, failures, sizeof failures);
                return fault(error, "untrusted", 0, false,
                             "no node has a certificate that is trusted here (ca_file): %s",
                             failures);
            }
            break;
        }
    }
    return give_up(attempts, error);
}

int client_call(const struct call *call, struct line **line, struct answer *answer,
                struct leafd_error *error)
{
    struct leafd_error own;
    error = error != NULL ? error : &own;
    struct attempts *attempts = calloc(1, sizeof *attempts);
    *line = attempts != NULL ? line_get(&call->client->lines) : NULL;
    if (*line == NULL) {
        free(attempts);
        return fault(error, "no_memory", 0, true, "there is no memory for a request");
    }
    find_nodes(call, attempts, false);
    if (call->is_second) {
        const struct nodes *nodes = attempts->nodes;
        unsigned at = (unsigned)(call->not_at % NODES_MAX);
        bool is_there = client_spot(nodes, at) == call->not_at;
        attempts->at = nodes_beside(nodes, is_there ? at : attempts->at);
        unsigned others = nodes_in_tier(nodes, attempts->at) - 1;
        attempts->failed = nodes->count - (others > 0 ? others : 1);
    }
    attempts->round_ms = FIRST_ROUND_MS;
    int result = run(call, attempts, line, answer, error);
    nodes_put(call->door, attempts->nodes);
    free(attempts);
    if (result != 0) {
        line_put(*line);
        *line = NULL;
    }
    return result;
}

int client_get(struct leafd *client, struct door *door, const char *path, const char *key,
               uint64_t until_ns, struct line **line, struct answer *answer,
               struct leafd_error *error)
{
    struct call call = {
        .client = client,
        .door = door,
        .request = {.method = "GET", .path = path, .key = key},
        .until_ns = until_ns,
    };
    return client_call(&call, line, answer, error);
}
