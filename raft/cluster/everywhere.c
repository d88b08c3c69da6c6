/*
 * everywhere.c - see everywhere.h. Thread: the raft loop.
 */
#include "raft/cluster/everywhere.h"

#include <string.h>

#include "raft/wire/wire.h"
#include "src/base/assert.h"

#define LOOK_MS 20 /* between two askings, and how exact deadlines are */

void everywhere_init(struct everywhere *everywhere, struct driver *driver, struct net *net,
                     const struct clock *clock, struct requests *requests)
{
    memset(everywhere, 0, sizeof *everywhere);
    everywhere->driver = driver;
    everywhere->net = net;
    everywhere->clock = clock;
    everywhere->requests = requests;
    everywhere->look_ms = UINT64_MAX;
    TAILQ_INIT(&everywhere->waits);
}

/* --- what is known of the members --- */

static unsigned place_of(const struct everywhere *everywhere, uint64_t id)
{
    unsigned at = 0;

    while (at < LIMIT_NODES && everywhere->told_by[at] != id) {
        at++;
    }
    return at;
}

/* How far a member has applied the log, at least. */
static uint64_t applied_by(const struct everywhere *everywhere, uint64_t id)
{
    unsigned at = place_of(everywhere, id);

    if (id == everywhere->driver->config.node_id) {
        return driver_applied(everywhere->driver)->index;
    }
    return at < LIMIT_NODES ? everywhere->applied[at] : 0;
}

/* How far all have. */
static uint64_t applied_by_all(const struct everywhere *everywhere)
{
    const struct configuration *configuration = driver_configuration(everywhere->driver);
    uint64_t least = driver_applied(everywhere->driver)->index;

    for (unsigned i = 0; i < configuration->count; i++) {
        uint64_t applied = applied_by(everywhere, configuration->members[i].id);

        least = applied < least ? applied : least;
    }
    return least;
}

/* A place for a member's word: its own, a free one, or one of a node that is no member any more.
 * There is one, since id is a member, and a configuration names no more than LIMIT_NODES. */
static unsigned place_for(const struct everywhere *everywhere, uint64_t id)
{
    unsigned at = place_of(everywhere, id);

    if (at < LIMIT_NODES) {
        return at;
    }
    for (at = 0; at < LIMIT_NODES; at++) {
        if (driver_member(everywhere->driver, everywhere->told_by[at]) == NULL) {
            break;
        }
    }
    ASSERT(at < LIMIT_NODES);
    return at;
}

void everywhere_link_changed(struct everywhere *everywhere, uint64_t peer)
{
    unsigned at = place_of(everywhere, peer);

    if (at < LIMIT_NODES) {
        everywhere->told_by[at] = 0;
        everywhere->applied[at] = 0;
    }
}

/* --- frames --- */

static void send(struct everywhere *everywhere, uint64_t to, bool answer, uint64_t index)
{
    const struct wire_applied message = {answer, index};
    struct buf payload = BUF_INIT;

    wire_applied_encode(&message, &payload);
    (void)everywhere->net->ops->send(everywhere->net, to, FRAME_APPLIED, &payload);
    buf_free(&payload);
}

bool everywhere_receive(struct everywhere *everywhere, uint64_t from, const uint8_t *payload,
                        size_t len)
{
    struct wire_applied message;
    unsigned at;

    if (wire_applied_decode(payload, len, &message) != 0) {
        return false;
    }
    if (!message.answer) {
        send(everywhere, from, true, driver_applied(everywhere->driver)->index);
        return true;
    }
    if (driver_member(everywhere->driver, from) == NULL) {
        return true; /* a node of a newer configuration, perhaps: nothing waits for it here */
    }
    at = place_for(everywhere, from);
    everywhere->told_by[at] = from;
    everywhere->applied[at] = message.index;
    return true;
}

/* Those who are not known to have come as far as somebody waits for. */
static void ask_others(struct everywhere *everywhere)
{
    const struct configuration *configuration = driver_configuration(everywhere->driver);
    uint64_t highest = TAILQ_LAST(&everywhere->waits, request_list)->index;

    for (unsigned i = 0; i < configuration->count; i++) {
        uint64_t id = configuration->members[i].id;

        if (id != everywhere->driver->config.node_id && applied_by(everywhere, id) < highest) {
            send(everywhere, id, false, 0);
        }
    }
}

/* --- requests --- */

static void tell_missing(const struct everywhere *everywhere, uint64_t index,
                         struct id_missing *missing)
{
    const struct configuration *configuration = driver_configuration(everywhere->driver);
    struct net *net = everywhere->net;
    uint64_t self = everywhere->driver->config.node_id;

    missing->count = 0;
    if (applied_by(everywhere, self) < index) { /* perhaps it is no member any more */
        missing->nodes[missing->count].id = self;
        missing->nodes[missing->count++].reachable = true;
    }
    for (unsigned i = 0; i < configuration->count; i++) {
        uint64_t id = configuration->members[i].id;

        if (id != self && applied_by(everywhere, id) < index) {
            ASSERT(missing->count <= LIMIT_NODES);
            missing->nodes[missing->count].id = id;
            missing->nodes[missing->count++].reachable = net->ops->connected(net, id);
        }
    }
}

/* The request is on no list. */
static void finish(struct everywhere *everywhere, struct id_request *request, int status)
{
    if (status != 0) {
        tell_missing(everywhere, request->index, request->out);
    }
    requests_finish(everywhere->requests, request, status);
}

static void leave(struct everywhere *everywhere, struct id_request *request, int status)
{
    ASSERT(everywhere->count > 0);
    TAILQ_REMOVE(&everywhere->waits, request, link);
    everywhere->count--;
    finish(everywhere, request, status);
}

/* Into its place: they mostly come in order. */
static void insert(struct everywhere *everywhere, struct id_request *request)
{
    struct id_request *before = TAILQ_LAST(&everywhere->waits, request_list);

    while (before != NULL && before->index > request->index) {
        before = TAILQ_PREV(before, request_list, link);
    }
    if (before == NULL) {
        TAILQ_INSERT_HEAD(&everywhere->waits, request, link);
    } else {
        TAILQ_INSERT_AFTER(&everywhere->waits, before, request, link);
    }
}

void everywhere_submit(struct everywhere *everywhere, struct id_request *request)
{
    ASSERT(request->kind == ID_REQUEST_EVERYWHERE && request->out != NULL);
    if (everywhere->stopping) {
        finish(everywhere, request, ERR_SHUTTING_DOWN);
    } else if (everywhere->count >= LIMIT_EVERYWHERE_WAITS) {
        finish(everywhere, request, ERR_OVERLOADED);
    } else {
        insert(everywhere, request);
        if (everywhere->count++ == 0) {
            everywhere->look_ms = clock_now_ms(everywhere->clock);
        }
    }
}

static void look(struct everywhere *everywhere, uint64_t now_ms)
{
    struct id_request *request;
    struct id_request *next;

    for (request = TAILQ_FIRST(&everywhere->waits); request != NULL; request = next) {
        next = TAILQ_NEXT(request, link);
        if (request->deadline_ms <= now_ms) {
            leave(everywhere, request, ERR_TIMEOUT);
        }
    }
    if (everywhere->count > 0) {
        ask_others(everywhere);
        everywhere->look_ms = now_ms + LOOK_MS;
    } else {
        everywhere->look_ms = UINT64_MAX;
    }
}

void everywhere_turn(struct everywhere *everywhere)
{
    uint64_t now_ms = clock_now_ms(everywhere->clock);
    uint64_t all;
    struct id_request *request;

    if (everywhere->count == 0) {
        return;
    }
    all = applied_by_all(everywhere);
    while ((request = TAILQ_FIRST(&everywhere->waits)) != NULL && request->index <= all) {
        leave(everywhere, request, 0);
    }
    if (now_ms >= everywhere->look_ms) {
        look(everywhere, now_ms);
    }
}

uint64_t everywhere_next_ms(const struct everywhere *everywhere)
{
    return everywhere->count > 0 ? everywhere->look_ms : UINT64_MAX;
}

void everywhere_stop(struct everywhere *everywhere)
{
    struct id_request *request;

    everywhere->stopping = true;
    while ((request = TAILQ_FIRST(&everywhere->waits)) != NULL) {
        leave(everywhere, request, ERR_SHUTTING_DOWN);
    }
}
