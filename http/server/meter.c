/*
 * meter.c - see meter.h. Thread: a loop's.
 */
#include "http/server/meter.h"

#include "src/base/assert.h"
#include "src/base/hot.h"

#define SMALL_PART 4 /* this part of the room for bodies is for small ones alone */

static uint64_t at_least(uint64_t value, uint64_t least)
{
    return value > least ? value : least;
}

void meter_init(struct conn_meter *meter, const struct http_settings *settings)
{
    /* One bulk body has to fit, whatever is set, and as many loops as there are. */
    uint64_t least_bytes = LIMIT_HTTP_BODY_BYTES / (SMALL_PART - 1) * SMALL_PART + SMALL_PART;

    ASSERT(settings->loops > 0);
    *meter = (struct conn_meter){
        .bodies_max = at_least(settings->bodies_bytes / settings->loops, least_bytes),
        .client_max = at_least(settings->client_bodies_bytes, LIMIT_HTTP_BODY_BYTES),
        .output_max =
            at_least(settings->output_bytes / settings->loops, LIMIT_HTTP_OUTPUT_MIN_BYTES),
        .input_max = at_least(settings->input_bytes / settings->loops, LIMIT_HTTP_INPUT_MIN_BYTES),
    };
    meter->large_max = meter->bodies_max - meter->bodies_max / SMALL_PART;
    ASSERT(meter->large_max >= LIMIT_HTTP_BODY_BYTES);
    TAILQ_INIT(&meter->later);
    TAILQ_INIT(&meter->no_room);
    TAILQ_INIT(&meter->bodies);
    TAILQ_INIT(&meter->inputs);
}

bool meter_is_clear(const struct conn_meter *meter)
{
    return meter->body_bytes == 0 && meter->output_bytes == 0 && meter->input_bytes == 0 &&
           meter->waiting_bytes == 0 && TAILQ_EMPTY(&meter->later) &&
           TAILQ_EMPTY(&meter->no_room) && TAILQ_EMPTY(&meter->bodies) &&
           TAILQ_EMPTY(&meter->inputs);
}

/* --- refusals --- */

const struct refusal_answer *refusal_answer(enum meter_refusal refusal)
{
    static const struct refusal_answer answers[METER_REFUSALS] = {
        [REFUSED_FULL] = {"connections", 503, "overloaded", "too many connections are open"},
        [REFUSED_SHARE] = {"connections_share", 503, "overloaded",
                           "many connections are open, and this client has more than its share"},
        [REFUSED_CONNECTIONS] = {"connections_quota", 429, "quota",
                                 "this client has too many connections"},
        [REFUSED_LARGE] = {"body_large", 413, "body_too_large",
                           "the body is larger than this route takes (limit in bytes)"},
        [REFUSED_BODIES] = {"bodies", 503, "overloaded",
                            "too many request bodies are being received"},
        [REFUSED_BODY_SHARE] = {"bodies_share", 503, "overloaded",
                                "this client's request bodies take all the room that one client "
                                "may take (a twelfth of http.memory-bytes)"},
        [REFUSED_BODY_QUOTA] = {"bodies_quota", 429, "quota",
                                "this client sends as many request bodies at a time as its quota "
                                "allows"},
        [REFUSED_BODY_SLOW] = {"body_slow", 408, "too_slow",
                               "the request's body came slowly, and its place was needed for "
                               "another"},
        [REFUSED_INPUT] = {"input", 408, "too_slow",
                           "the request came slowly, and its place was needed for another"},
        [REFUSED_READER] = {.name = "reader_slow"},
        [REFUSED_REQUESTS] = {.name = "requests_quota", .status = 429},
        [REFUSED_IDS] = {.name = "ids_quota", .status = 429},
        [REFUSED_KEYS] = {.name = "keys_share"},
        [REFUSED_WORKERS] = {.name = "workers_share"},
        [REFUSED_TAGS] = {.name = "tags_share"},
    };

    return &answers[refusal];
}

/* --- turns --- */

void meter_put_off(struct metered *metered, struct metered_queue *queue)
{
    if (metered->put_off == NULL) {
        metered->put_off = queue;
        TAILQ_INSERT_TAIL(queue, metered, put_off_link);
    }
}

void meter_put_on(struct metered *metered)
{
    TAILQ_REMOVE(metered->put_off, metered, put_off_link);
    metered->put_off = NULL;
}

/* --- output --- */

bool meter_output_is_full(const struct conn_meter *meter)
{
    return meter->output_bytes >= meter->output_max;
}

bool meter_output_is_short(const struct conn_meter *meter)
{
    return meter->output_bytes >= meter->output_max / 4 * 3;
}

HOT bool meter_has_room(const struct conn_meter *meter, const struct wire *wire)
{
    uint64_t bytes = atomic_load_explicit(&meter->output_bytes, memory_order_relaxed);

    return bytes < meter->output_max ||
           (wire->out.len <= LIMIT_HTTP_SMALL_REPLY_BYTES && wire->sending.len == 0 &&
            bytes < meter->output_max / 2 * 3);
}

HOT void meter_output(struct conn_meter *meter, struct metered *metered, const struct wire *wire)
{
    uint64_t held = wire->out.capacity + wire->sending.capacity;
    uint64_t bytes = atomic_load_explicit(&meter->output_bytes, memory_order_relaxed);

    if (held != metered->output) {
        atomic_store_explicit(&meter->output_bytes, bytes + held - metered->output,
                              memory_order_relaxed);
        metered->output = held;
    }
}

/* --- input --- */

static void count_kept(_Atomic uint64_t *bytes, uint32_t *counted, uint32_t kept)
{
    uint64_t before = atomic_load_explicit(bytes, memory_order_relaxed);

    atomic_store_explicit(bytes, before + kept - *counted, memory_order_relaxed);
    *counted = kept;
}

static void count_input(struct conn_meter *meter, struct metered *metered, uint32_t kept)
{
    if (metered->input == 0 && kept > 0) {
        TAILQ_INSERT_TAIL(&meter->inputs, metered, input_link);
    } else if (metered->input > 0 && kept == 0) {
        TAILQ_REMOVE(&meter->inputs, metered, input_link);
    }
    count_kept(&meter->input_bytes, &metered->input, kept);
}

HOT bool meter_input(struct conn_meter *meter, struct metered *metered, const struct wire *wire,
                     bool waits)
{
    const uint32_t kept = wire->size + (wire->tls != NULL ? session_kept(wire->tls) : 0);
    const uint32_t input = waits ? 0 : kept;
    const uint32_t waiting = waits && kept > WIRE_STEP_BYTES ? kept - WIRE_STEP_BYTES : 0;
    bool grows = input > metered->input || waiting > metered->waiting;

    if (input != metered->input) {
        count_input(meter, metered, input);
    }
    if (waiting != metered->waiting) {
        count_kept(&meter->waiting_bytes, &metered->waiting, waiting);
    }
    return grows && (waits ? meter->waiting_bytes > meter->input_max : meter_input_is_over(meter));
}

void meter_input_end(struct conn_meter *meter, struct metered *metered)
{
    count_input(meter, metered, 0);
    count_kept(&meter->waiting_bytes, &metered->waiting, 0);
}

bool meter_input_is_over(const struct conn_meter *meter)
{
    return meter->input_bytes > meter->input_max;
}

HOT void meter_input_step(struct conn_meter *meter, struct metered *metered)
{
    if (metered->input > 0) {
        TAILQ_REMOVE(&meter->inputs, metered, input_link);
        TAILQ_INSERT_TAIL(&meter->inputs, metered, input_link);
    }
}

void meter_end(struct conn_meter *meter, struct metered *metered)
{
    static const struct wire nothing = {0};

    ASSERT(!metered->has_body);
    if (metered->put_off != NULL) {
        meter_put_on(metered);
    }
    meter_input_end(meter, metered);
    meter_output(meter, metered, &nothing);
}

/* --- bodies --- */

bool meter_is_large(uint64_t body_bytes)
{
    return body_bytes > LIMIT_HTTP_SMALL_BODY_BYTES;
}

static uint64_t large_of(uint64_t bytes)
{
    return meter_is_large(bytes) ? bytes : 0;
}

/* Add to what the client's large bodies take. False: it would be more than its share. */
static bool take_share(struct http_client *client, uint64_t more, uint64_t max)
{
    uint64_t before = atomic_load_explicit(&client->body_bytes, memory_order_relaxed);

    do {
        if (before + more > max) {
            return false;
        }
    } while (!atomic_compare_exchange_weak_explicit(&client->body_bytes, &before, before + more,
                                                    memory_order_relaxed, memory_order_relaxed));
    return true;
}

/* Room for a body that grows from one length to another. */
static enum meter_body take_room(struct conn_meter *meter, struct http_client *client,
                                 uint64_t from, uint64_t to)
{
    uint64_t before = atomic_load_explicit(&meter->body_bytes, memory_order_relaxed);
    uint64_t more_large = large_of(to) - large_of(from);

    if (before + to - from > meter->bodies_max) {
        return METER_BODY_ALL;
    }
    if (more_large > 0) {
        if (meter->large_bytes + more_large > meter->large_max) {
            return METER_BODY_LARGE;
        }
        if (!take_share(client, more_large, meter->client_max)) {
            return METER_BODY_SHARE;
        }
        meter->large_bytes += more_large;
    }
    atomic_store_explicit(&meter->body_bytes, before + to - from, memory_order_relaxed);
    return METER_BODY_OK;
}

enum meter_body meter_body(struct conn_meter *meter, struct metered *metered,
                           struct http_client *client, uint64_t more, uint64_t now_ms)
{
    uint32_t max = atomic_load_explicit(&client->bodies_max, memory_order_relaxed);
    enum meter_body result;

    if (!metered->has_body) {
        if (max > 0 && atomic_load_explicit(&client->bodies, memory_order_relaxed) >= max) {
            return METER_BODY_QUOTA;
        }
        atomic_fetch_add_explicit(&client->bodies, 1, memory_order_relaxed);
        metered->has_body = true;
        metered->body_bytes = 0;
        metered->body_step_ms = now_ms;
        metered->body_step_bytes = 0;
        TAILQ_INSERT_TAIL(&meter->bodies, metered, body_link);
    }
    result = take_room(meter, client, metered->body_bytes, metered->body_bytes + more);
    if (result != METER_BODY_OK) {
        return result;
    }
    metered->body_bytes += more;
    if (metered->body_bytes - metered->body_step_bytes >= LIMIT_HTTP_BODY_STEP_BYTES) {
        metered->body_step_bytes = metered->body_bytes;
        metered->body_step_ms = now_ms;
        TAILQ_REMOVE(&meter->bodies, metered, body_link);
        TAILQ_INSERT_TAIL(&meter->bodies, metered, body_link);
        meter_input_step(meter, metered);
    }
    return METER_BODY_OK;
}

void meter_body_free(struct conn_meter *meter, struct metered *metered, struct http_client *client)
{
    uint64_t before = atomic_load_explicit(&meter->body_bytes, memory_order_relaxed);
    uint64_t large = large_of(metered->body_bytes);

    if (!metered->has_body) {
        return;
    }
    metered->has_body = false;
    TAILQ_REMOVE(&meter->bodies, metered, body_link);
    atomic_fetch_sub_explicit(&client->bodies, 1, memory_order_relaxed);
    ASSERT(before >= metered->body_bytes && meter->large_bytes >= large);
    atomic_store_explicit(&meter->body_bytes, before - metered->body_bytes, memory_order_relaxed);
    if (large > 0) {
        meter->large_bytes -= large;
        ASSERT(atomic_fetch_sub_explicit(&client->body_bytes, large, memory_order_relaxed) >=
               large);
    }
    metered->body_bytes = 0;
}

struct metered *meter_slow_body(const struct conn_meter *meter, const struct metered *after,
                                uint64_t now_ms)
{
    struct metered *body =
        after == NULL ? TAILQ_FIRST(&meter->bodies) : TAILQ_NEXT(after, body_link);

    return body != NULL && now_ms - body->body_step_ms >= LIMIT_HTTP_BODY_SLOW_MS ? body : NULL;
}

/* --- what a client takes of its replies --- */

#define LOOK_MS 1000

void rate_begin(struct rate *rate, uint64_t taken, uint64_t now_ms)
{
    *rate = (struct rate){.progress_ms = now_ms,
                          .begin_ms = now_ms,
                          .begin_taken = taken,
                          .look_ms = now_ms,
                          .look_taken = taken};
}

uint32_t rate_look_ms(const struct rate_rule *rule)
{
    return rule->write_ms < LOOK_MS ? rule->write_ms : LOOK_MS;
}

/* Fewer bytes than per_s would be? */
static bool is_below(uint64_t bytes, uint64_t ms, uint64_t per_s)
{
    return bytes * 1000 < per_s * ms;
}

enum rate_verdict rate_look(struct rate *rate, const struct rate_rule *rule, uint64_t taken,
                            uint64_t now_ms, bool waits, uint64_t held, bool is_short)
{
    uint64_t since_look_ms = now_ms - rate->look_ms;
    uint64_t since_look = taken - rate->look_taken;

    ASSERT(now_ms >= rate->look_ms && taken >= rate->look_taken);
    if (!waits) {
        rate_begin(rate, taken, now_ms);
        return RATE_OK;
    }
    if (since_look > 0) {
        rate->progress_ms = now_ms;
    }
    rate->look_ms = now_ms;
    rate->look_taken = taken;
    if (now_ms - rate->progress_ms >= rule->write_ms) {
        return RATE_STALLED;
    }
    if (is_short && held >= LIMIT_HTTP_HELD_BYTES && since_look_ms >= rate_look_ms(rule) &&
        is_below(since_look, since_look_ms, (uint64_t)rule->min_per_s * LIMIT_HTTP_SHORT_RATE)) {
        return RATE_SLOW_WHILE_SHORT;
    }
    if (now_ms - rate->begin_ms < rule->write_ms) {
        return RATE_OK;
    }
    if (is_below(taken - rate->begin_taken, now_ms - rate->begin_ms, rule->min_per_s)) {
        return RATE_SLOW;
    }
    rate->begin_ms = now_ms;
    rate->begin_taken = taken;
    return RATE_OK;
}
