/*
 * id_random.c - see id_random.h. Thread: any.
 */
#include "src/id/tests/id_random.h"

#include <stdio.h>
#include <string.h>

#include "src/id/codec/command.h"
#include "src/id/codec/worker.h"
#include "src/id/tests/id_stamp.h"

#define LIFE 5000 /* steps of a node's life */

/* What puts may say besides. */
enum saying { PLAIN, BOUNDED, SHAPED, NEW_WITH_KEY, REKEYED };

static void random_tag_command(struct prng *prng, struct buf *buf);
static void random_puts(struct prng *prng, const struct command_list *head, enum saying saying,
                        struct buf *buf);
static struct command_list random_head(struct prng *prng, uint64_t wall_ms);
void id_random_stepped_put(struct prng *prng, struct buf *buf)
{
    struct command_list head = random_head(prng, prng_below(prng, 1000000));

    head.stepped = true;
    head.client = prng_below(prng, 4);
    head.most = prng_below(prng, 6000);
    random_puts(prng, &head, prng_below(prng, 3) == 0 ? SHAPED : BOUNDED, buf);
}

static void random_strict_command(struct prng *prng, struct buf *buf);
static void random_batch(struct prng *prng, bool for_clients, uint64_t wall_ms, struct buf *buf);
static void random_worker_command(struct prng *prng, struct buf *buf);
static void random_acquire(struct prng *prng, enum worker_kind kind, uint64_t wall_ms,
                           struct buf *buf);

void id_random_name(struct prng *prng, char ret_name[4])
{
    (void)snprintf(ret_name, 4, "%c%c", (char)('a' + prng_below(prng, 4)),
                   (char)('a' + prng_below(prng, 4)));
}

static void random_command(struct prng *prng, uint64_t node_id, struct buf *buf)
{
    struct member_move move = {.node_id = node_id, .address = "m:1"};

    switch (prng_below(prng, 17)) {
    case 3:
        cluster_command_put(buf, COMMAND_MEMBER_MOVE, &move);
        return;
    case 0:
        cluster_command_put(buf, COMMAND_NOOP, NULL);
        return;
    case 1:
        cluster_command_put(buf, COMMAND_DIGEST,
                            &(struct digest_command){.index = 0, .digest = prng_next(prng)});
        return;
    case 2: {
        struct node_info info = {
            .node_id = node_id, .store_id = prng_below(prng, 2), .levels = {1, 1}};

        (void)snprintf(info.peer_address, sizeof info.peer_address, "h:%u",
                       1 + (unsigned)prng_below(prng, 3));
        cluster_command_put(buf, COMMAND_NODE_INFO, &info);
        return;
    }
    default:
        switch (prng_below(prng, 3)) {
        case 0:
            random_tag_command(prng, buf);
            return;
        case 1:
            random_strict_command(prng, buf);
            return;
        default:
            random_worker_command(prng, buf);
        }
    }
}

void id_random_command(struct prng *prng, uint64_t step, struct buf *buf)
{
    uint64_t node_id = 1 + prng_below(prng, 4);
    uint64_t incarnation = 2 + step / LIFE - prng_below(prng, 20) / 19;
    uint64_t seq = 1 + step % LIFE / 4 + prng_below(prng, 10);
    uint64_t back = prng_below(prng, 24);

    random_command(prng, node_id, buf);
    id_stamp_as(buf, node_id, incarnation, seq, back < seq ? seq - back : 1);
}

void id_random_bytes(struct prng *prng, uint64_t step, struct buf *buf)
{
    if (prng_below(prng, 10) == 0) {
        for (uint64_t n = prng_below(prng, 40); n > 0; n--) {
            buf_put_u8(buf, (uint8_t)(prng_next(prng) >> prng_below(prng, 60)));
        }
        return;
    }
    id_random_command(prng, step, buf);
    if (prng_below(prng, 2) == 0) {
        id_random_mutate(prng, buf);
    }
}

void id_random_mutate(struct prng *prng, struct buf *buf)
{
    for (uint64_t n = 1 + prng_below(prng, 4); n > 0 && buf->len > 0; n--) {
        buf->data[prng_below(prng, buf->len)] = (uint8_t)prng_next(prng);
    }
    if (prng_below(prng, 8) == 0) {
        buf->len = prng_below(prng, buf->len + 1);
    }
}

static void random_tag_command(struct prng *prng, struct buf *buf)
{
    char name[4];
    uint64_t wall_ms = prng_below(prng, 1000000);
    struct command_list head;

    switch (prng_below(prng, 5)) {
    case 0:
        id_random_name(prng, name);
        command_put(buf, COMMAND_TAG_DELETE,
                    &(struct delete_command){.name = name, .name_len = 2, .wall_ms = wall_ms});
        return;
    case 1:
    case 2:
        head = random_head(prng, wall_ms);
        random_puts(prng, &head, PLAIN, buf);
        return;
    default:
        command_put(buf, COMMAND_GRANT, &(struct command_list){.wall_ms = wall_ms});
        for (uint64_t n = 1 + prng_below(prng, 4); n > 0; n--) {
            id_random_name(prng, name);
            command_item_put(buf, COMMAND_GRANT,
                             &(struct grant_item){name, 2, (uint32_t)prng_below(prng, 3000)});
        }
        command_items_end(buf);
    }
}

/* A shape that may be, with a key where it has to; or none. */
static void random_shape(struct prng *prng, struct tag_put *put)
{
    static const char *const shapes[] = {"",
                                         "A-{id:6}",
                                         "{id36}{mod97}",
                                         "{secret:6}\0aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
                                         "{secret36:5}\0bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb",
                                         "{secret:6}", /* without its key */
                                         "{id"};
    uint64_t which = prng_below(prng, sizeof shapes / sizeof shapes[0]);

    put->shape = shapes[which];
    put->shape_len = (uint16_t)(strlen(put->shape) + (which == 3 || which == 4 ? 33 : 0));
}

/* A new name whose key can be changed, or if it may be a change of it. Some names only this
 * makes, so many are new; a few shapes are none. */
static void random_key(struct prng *prng, struct tag_put *put, char name[4], bool may_change)
{
    static const char shape[] = "k{key}{secret:6}\0dddddddddddddddddddddddddddddddd";
    static const char *const wrong[] = {"{key}{id:6}", "{key}-{key}{secret:6}", "{key}{year}{id:6}",
                                        "{secret:6}{key}"};

    if (prng_below(prng, 2) == 0) {
        (void)snprintf(name, 4, "k%c", (char)('a' + prng_below(prng, 26)));
        put->fields |= TAG_FIELD_SHAPE;
        put->shape = shape;
        put->shape_len = sizeof shape - 1;
        if (prng_below(prng, 16) == 0) {
            put->shape = wrong[prng_below(prng, 4)];
            put->shape_len = (uint16_t)strlen(put->shape);
        }
    }
    if (may_change && prng_below(prng, 2) == 0) {
        put->fields |= TAG_FIELD_KEY;
        put->fields &=
            prng_below(prng, 4) > 0 ? (uint8_t) ~(TAG_FIELD_MAX | TAG_FIELD_MAX_ID) : UINT8_MAX;
        put->key_number = (uint8_t)prng_below(prng, 4);
        put->key = "eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee";
        put->key_len = SHAPE_KEY_BYTES;
    }
}

static struct command_list random_head(struct prng *prng, uint64_t wall_ms)
{
    return (struct command_list){
        .force = prng_below(prng, 2) == 0, .is_dump = prng_below(prng, 4) == 0, .wall_ms = wall_ms};
}

static void random_puts(struct prng *prng, const struct command_list *head, enum saying saying,
                        struct buf *buf)
{
    enum command_type type = command_type_for(COMMAND_TAGS_PUT, head);
    char name[4];

    command_put(buf, type, head);
    for (uint64_t n = 1 + prng_below(prng, 3); n > 0; n--) {
        struct tag_put put = {.name = name,
                              .name_len = 2,
                              .fields = (uint8_t)prng_below(prng, saying != PLAIN ? 64 : 32),
                              .max_id = prng_below(prng, 5000),
                              .step = (uint32_t)prng_below(prng, 2000),
                              .max_step = (uint32_t)prng_below(prng, 3000),
                              .mode = (uint8_t)prng_below(prng, 2),
                              .description = "text",
                              .description_len = 4};

        id_random_name(prng, name);
        put.max = saying != PLAIN ? prng_below(prng, 3) * prng_below(prng, 20000) : 0;
        if (saying >= SHAPED) {
            put.fields |= prng_below(prng, 2) == 0 ? TAG_FIELD_SHAPE : 0;
            random_shape(prng, &put);
        }
        if (saying >= NEW_WITH_KEY) {
            random_key(prng, &put, name, saying == REKEYED);
        }
        if (head->stepped) {
            put.step_fields = (uint8_t)prng_below(
                prng, prng_below(prng, 4) > 0 ? TAG_FIELD_COVER : 2 * TAG_FIELD_REASON);
            put.increment = (uint32_t)prng_below(prng, 6);
            put.offset = (uint32_t)prng_below(prng, 4);
            put.cover_s = prng_below(prng, 2) == 0 ? 600 : 0;
            put.paused = prng_below(prng, 4) == 0;
            put.reason = "audit";
            put.reason_len = put.paused ? (uint16_t)prng_below(prng, 6) : 0;
        }
        command_item_put(buf, type, &put);
    }
    command_items_end(buf);
}

void id_random_rekeyed_put(struct prng *prng, struct buf *buf)
{
    bool is_new = prng_below(prng, 4) == 0;
    const struct command_list head = random_head(prng, prng_below(prng, 1000000));

    random_puts(prng, &head, is_new ? NEW_WITH_KEY : REKEYED, buf);
}

void id_random_bounded_put(struct prng *prng, struct buf *buf)
{
    const struct command_list head = random_head(prng, prng_below(prng, 1000000));

    random_puts(prng, &head, BOUNDED, buf);
}

void id_random_shaped_put(struct prng *prng, struct buf *buf)
{
    const struct command_list head = random_head(prng, prng_below(prng, 1000000));

    random_puts(prng, &head, SHAPED, buf);
}

void id_random_owned_put(struct prng *prng, struct buf *buf)
{
    struct command_list head = random_head(prng, prng_below(prng, 1000000));

    head.client = 1 + prng_below(prng, 3);
    head.most = prng_below(prng, 6000);
    random_puts(prng, &head, SHAPED, buf);
}

static void random_strict_command(struct prng *prng, struct buf *buf)
{
    uint64_t wall_ms = prng_below(prng, 1000000);
    char name[4];

    switch (prng_below(prng, 8)) {
    case 0:
        command_put(buf, COMMAND_GIVE_BACK, &(struct command_list){.wall_ms = wall_ms});
        for (uint64_t n = 1 + prng_below(prng, 3); n > 0; n--) {
            uint64_t end = 1 + prng_below(prng, 5000);

            id_random_name(prng, name);
            command_item_put(
                buf, COMMAND_GIVE_BACK,
                &(struct give_back_item){name, 2, (uint32_t)prng_below(prng, 8), end / 2, end});
        }
        command_items_end(buf);
        return;
    case 1:
    case 2:
        command_put(buf, COMMAND_RECALLED, NULL);
        for (uint64_t n = 1 + prng_below(prng, 5); n > 0; n--) {
            id_random_name(prng, name);
            command_item_put(buf, COMMAND_RECALLED,
                             &(struct recalled_item){name, 2, (uint32_t)prng_below(prng, 1000)});
        }
        command_items_end(buf);
        return;
    default:
        random_batch(prng, false, wall_ms, buf);
    }
}

static void random_batch(struct prng *prng, bool for_clients, uint64_t wall_ms, struct buf *buf)
{
    const struct command_list batch = {.wall_ms = wall_ms,
                                       .key_limit = 4 + (uint32_t)prng_below(prng, 30),
                                       .key_share = 1 + (uint32_t)(wall_ms % 5)};
    char name[4];
    char key[4];

    id_random_name(prng, name);
    command_put(buf, COMMAND_STRICT, &batch);
    for (uint64_t n = 1 + prng_below(prng, 6); n > 0; n--) {
        struct strict_item item = {
            .name = name, .name_len = 2, .key = key, .count = 1 + (uint32_t)prng_below(prng, 50)};

        id_random_name(prng, key);
        item.key_len = prng_below(prng, 3) == 0 ? 2 : 0;
        item.count = item.key_len > 0 ? 1 + item.count % 2 : item.count;
        if (for_clients) {
            item.client = prng_below(prng, 4);
            item.most = (uint32_t)prng_below(prng, 3);
        }
        command_item_put(buf, COMMAND_STRICT, &item);
        if (prng_below(prng, 2) == 0) {
            id_random_name(prng, name);
        }
    }
    command_items_end(buf);
}

/* Most of the items are for tags with a date, of periods of each kind. */
static void random_dated_batch(struct prng *prng, const struct fsm *fsm, struct buf *buf)
{
    const struct command_list batch = {.wall_ms = prng_below(prng, 1000000),
                                       .key_limit = 4 + (uint32_t)prng_below(prng, 30),
                                       .key_share = 1 + (uint32_t)prng_below(prng, 5)};
    uint64_t now_ms = fsm_state(fsm)->facts.log_ms;
    char name[4];
    char key[4];

    command_put(buf, COMMAND_STRICT, &batch);
    for (uint64_t n = 1 + prng_below(prng, 6); n > 0; n--) {
        struct strict_item item = {.name = name, .name_len = 2, .key = key};
        enum date_part unit = (enum date_part)(1 + prng_below(prng, 3));
        uint64_t days = prng_below(prng, 40);

        id_random_name(prng, name);
        id_random_name(prng, key);
        item.key_len = prng_below(prng, 3) == 0 ? 2 : 0;
        item.count = 1 + (uint32_t)prng_below(prng, 30);
        item.client = prng_below(prng, 4);
        item.period = days == 0 ? 0 : shape_period(unit, now_ms + days * 86400000 / 20);
        command_item_put(buf, COMMAND_STRICT, &item);
    }
    command_items_end(buf);
}

void id_random_dated(struct prng *prng, const struct fsm *fsm, struct buf *buf)
{
    static const char *const shapes[] = {"{year}-{id:2}", "{year}{month}/{id36:2}",
                                         "x{day@Asia/Tokyo}{month}{year}{id:3}{luhn}"};
    struct tag_put put = {.fields = TAG_FIELD_SHAPE | TAG_FIELD_MODE, .name_len = 2};
    char name[4];

    if (prng_below(prng, 3) > 0) {
        random_dated_batch(prng, fsm, buf);
        return;
    }
    id_random_name(prng, name);
    put.name = name;
    put.mode = prng_below(prng, 8) > 0 ? TAG_MODE_STRICT : TAG_MODE_TREND;
    put.shape = shapes[prng_below(prng, 3)];
    put.shape_len = (uint16_t)strlen(put.shape);
    put.fields |= prng_below(prng, 4) == 0 ? TAG_FIELD_MAX_ID : 0;
    put.max_id = prng_below(prng, 300000000);
    command_put(buf, COMMAND_TAGS_PUT,
                &(struct command_list){.force = prng_below(prng, 2) == 0, .wall_ms = 1});
    command_item_put(buf, COMMAND_TAGS_PUT, &put);
    command_items_end(buf);
}

/* Most are of the present generation, and of ids below max_id. */
static void random_keyed(struct prng *prng, const struct fsm *fsm, struct buf *buf)
{
    const struct command_list head = {.wall_ms = prng_below(prng, 1000000),
                                      .key_limit = 4 + (uint32_t)prng_below(prng, 30),
                                      .key_share = 1 + (uint32_t)prng_below(prng, 5),
                                      .term = 1 + prng_below(prng, 8) / 7};
    char name[4];
    char key[4];

    command_put(buf, COMMAND_KEYED, &head);
    for (uint64_t n = 1 + prng_below(prng, 4); n > 0; n--) {
        struct keyed_item keyed = {.item = {.name = name, .name_len = 2, .key = key, .key_len = 2}};
        const struct tag_row *row;

        id_random_name(prng, name);
        id_random_name(prng, key);
        row = fsm_tag(fsm, name, 2);
        keyed.item.count = 1 + (uint32_t)prng_below(prng, 2);
        keyed.item.client = prng_below(prng, 4);
        keyed.item.most = (uint32_t)prng_below(prng, 3);
        keyed.generation =
            (row != NULL ? row->generation : 0) + (uint32_t)(prng_below(prng, 8) / 7);
        keyed.first = row != NULL ? prng_below(prng, row->max_id + 2) : 0;
        command_item_put(buf, COMMAND_KEYED, &keyed);
    }
    command_items_end(buf);
}

bool id_random_monotonic(struct prng *prng, const struct fsm *fsm, struct buf *buf)
{
    char name[4];

    switch (prng_below(prng, 3)) {
    case 0:
        id_random_name(prng, name);
        command_put(buf, COMMAND_TAGS_PUT,
                    &(struct command_list){.force = prng_below(prng, 4) == 0, .wall_ms = 1});
        command_item_put(
            buf, COMMAND_TAGS_PUT,
            &(struct tag_put){
                .name = name, .name_len = 2, .fields = TAG_FIELD_MODE, .mode = TAG_MODE_MONOTONIC});
        command_items_end(buf);
        return true;
    case 1:
        random_keyed(prng, fsm, buf);
        return false;
    default:
        command_put(buf, COMMAND_WINDOW,
                    &(struct command_list){.wall_ms = prng_below(prng, 1000000)});
        for (uint64_t n = 1 + prng_below(prng, 4); n > 0; n--) {
            id_random_name(prng, name);
            command_item_put(buf, COMMAND_WINDOW,
                             &(struct grant_item){name, 2, 1 + (uint32_t)prng_below(prng, 300)});
        }
        command_items_end(buf);
        return false;
    }
}

void id_random_layout(struct prng *prng, struct buf *buf)
{
    struct layout_row row = {.created_ms = prng_below(prng, 1000000)};
    char name[4];

    id_random_name(prng, name);
    if (prng_below(prng, 3) == 0) {
        command_put(buf, COMMAND_LAYOUT_DELETE,
                    &(struct delete_command){.name = name, .name_len = 2, .wall_ms = 1});
        return;
    }
    row.name_len = 2;
    memcpy(row.name, name, 2);
    row.layout = (struct named_layout){.bits = SNOWFLAKE_LEAF_LAYOUT,
                                       .unit_ms = prng_below(prng, 8) > 0 ? 10 : 7};
    row.layout.bits.worker_bits = (uint8_t)(9 + prng_below(prng, 8) / 7);
    command_put(buf, COMMAND_LAYOUT_PUT, &row);
}

static void random_worker_command(struct prng *prng, struct buf *buf)
{
    uint64_t now_ms = SNOWFLAKE_EPOCH_MS + prng_below(prng, 100000);
    uint8_t kind = (uint8_t)(1 + prng_below(prng, 2));
    uint64_t client = kind == WORKER_CLIENT ? 1 + prng_below(prng, 3) : 0;

    switch (prng_below(prng, 8)) {
    case 0: {
        struct snowflake_layout layout = SNOWFLAKE_LEAF_LAYOUT;

        layout.worker_bits = (uint8_t)(2 + prng_below(prng, 2));
        command_put(buf, COMMAND_LAYOUT, &layout);
        return;
    }
    case 1:
        cluster_command_put(buf, COMMAND_CLOCK, &(struct clock_command){.cluster_ms = now_ms});
        return;
    case 2:
    case 3:
        command_put(
            buf, COMMAND_WORKER_RENEW,
            &(struct worker_renew){.worker_id = (uint16_t)prng_below(prng, 9),
                                   .epoch = 1 + prng_below(prng, 4),
                                   .window_ms = 500 + prng_below(prng, 20000),
                                   .last_timestamp_ms = prng_below(prng, 2) * (now_ms - 2000),
                                   .wall_ms = now_ms,
                                   .kind = kind,
                                   .client = client});
        return;
    case 4:
        command_put(
            buf, COMMAND_WORKER_RELEASE,
            &(struct worker_release){.worker_id = (uint16_t)prng_below(prng, 9),
                                     .epoch = 1 + prng_below(prng, 4),
                                     .last_timestamp_ms = prng_below(prng, 2) * (now_ms - 2000),
                                     .kind = kind,
                                     .client = client});
        return;
    default:
        random_acquire(prng, (enum worker_kind)kind, now_ms, buf);
    }
}

void id_random_for_client(struct prng *prng, struct buf *buf)
{
    if (prng_below(prng, 2) == 0) {
        random_batch(prng, true, prng_below(prng, 1000000), buf);
    } else {
        random_acquire(prng, WORKER_CLIENT, SNOWFLAKE_EPOCH_MS + prng_below(prng, 100000), buf);
    }
}

void id_random_by_client(struct prng *prng, uint64_t now_ms, struct buf *buf)
{
    struct worker_renew renew = {.worker_id = (uint16_t)prng_below(prng, 9),
                                 .epoch = 1 + prng_below(prng, 4),
                                 .window_ms = 500 + prng_below(prng, 20000),
                                 .last_timestamp_ms = prng_below(prng, 2) * now_ms,
                                 .wall_ms = now_ms,
                                 .kind = WORKER_CLIENT,
                                 .client = 1 + prng_below(prng, 3)};

    switch (prng_below(prng, 4)) {
    case 0:
        command_put(buf, COMMAND_WORKER_RENEW, &renew);
        return;
    case 1:
        command_put(buf, COMMAND_WORKER_RELEASE,
                    &(struct worker_release){.worker_id = renew.worker_id,
                                             .epoch = renew.epoch,
                                             .last_timestamp_ms = renew.last_timestamp_ms,
                                             .kind = WORKER_CLIENT,
                                             .client = renew.client,
                                             .force = prng_below(prng, 4) == 0});
        return;
    default:
        random_acquire(prng, WORKER_CLIENT, now_ms, buf);
    }
}

/* Its name is borrowed, until the next one is drawn. */
static struct worker_acquire drawn_acquire(struct prng *prng, enum worker_kind kind,
                                           uint64_t wall_ms)
{
    static char name[4];
    bool counts = kind == WORKER_CLIENT;

    id_random_name(prng, name);
    return (struct worker_acquire){
        .kind = (uint8_t)kind,
        .worker_id = prng_below(prng, 2) == 0 ? WORKER_ID_ANY : (uint32_t)prng_below(prng, 9),
        .floor_ms = prng_below(prng, 2) * (wall_ms - prng_below(prng, 5000)),
        .window_ms = 500 + prng_below(prng, 20000),
        .wall_ms = wall_ms,
        .name = name,
        .name_len = 2,
        .address = "host:1",
        .address_len = (uint16_t)prng_below(prng, 7),
        .client = counts ? 1 + prng_below(prng, 3) : 0,
        .most = counts ? (uint16_t)prng_below(prng, 4) : 0,
        .percent = counts ? (uint8_t)(1 + prng_below(prng, 100)) : 0,
        .force = counts && prng_below(prng, 4) == 0,
    };
}

static void random_acquire(struct prng *prng, enum worker_kind kind, uint64_t wall_ms,
                           struct buf *buf)
{
    struct worker_acquire acquire = drawn_acquire(prng, kind, wall_ms);

    command_put(buf, COMMAND_WORKER_ACQUIRE, &acquire);
}

void id_random_workers(struct prng *prng, struct buf *buf)
{
    static const char *const pools[] = {"a=0-3,b=4-5", "a=2-2", "", "b=3-9,a=12-70000",
                                        "a=1-2,b=2-3"};
    static const char *const zones[] = {"a", "b", "none"};
    const char *text = pools[prng_below(prng, 5)];
    uint64_t wall_ms = SNOWFLAKE_EPOCH_MS + prng_below(prng, 100000);
    uint32_t wide = (uint32_t)(WORKER_IDS_NARROW + prng_below(prng, 6));
    uint8_t kind = (uint8_t)(1 + prng_below(prng, 2));
    uint64_t client = kind == WORKER_CLIENT ? 1 + prng_below(prng, 3) : 0;
    struct worker_acquire acquire;

    switch (prng_below(prng, 8)) {
    case 0:
    case 1:
        command_put(buf, COMMAND_WORKER_POOLS,
                    &(struct worker_pools_put){text, (uint16_t)strlen(text)});
        return;
    case 2:
        command_put(buf, COMMAND_WORKER_RENEW_OF,
                    &(struct worker_renew){.worker_id = wide,
                                           .epoch = 1 + prng_below(prng, 3),
                                           .window_ms = 500 + prng_below(prng, 20000),
                                           .wall_ms = wall_ms,
                                           .kind = kind,
                                           .client = client});
        return;
    case 3:
        command_put(buf, COMMAND_WORKER_RELEASE_OF,
                    &(struct worker_release){.worker_id = wide,
                                             .epoch = 1 + prng_below(prng, 3),
                                             .kind = kind,
                                             .client = client});
        return;
    default:
        break;
    }
    acquire = drawn_acquire(prng, (enum worker_kind)kind, wall_ms);
    acquire.bits = (uint8_t)(2 + prng_below(prng, 4));
    if (prng_below(prng, 2) == 0) {
        acquire.bits = WORKER_BITS_MAX;
        acquire.worker_id = wide;
    }
    acquire.zone = zones[prng_below(prng, 3)];
    acquire.zone_len = (uint16_t)(prng_below(prng, 3) > 0 ? strlen(acquire.zone) : 0);
    command_put(buf, COMMAND_WORKER_ACQUIRE_OF, &acquire);
}
