/*
 * raft_lies.c - see raft_lies.h. Payloads are put together byte by byte, since the encoders of
 * raft/wire/wire.h send nothing that is out of bounds.
 *
 * Thread: the test's.
 */
#include "raft/core/tests/raft_lies.h"

#include <string.h>

#include "raft/core/driver.h"
#include "raft/core/message.h"
#include "raft/wire/wire.h"
#include "src/base/assert.h"
#include "src/base/hash.h"
#include "src/id/codec/worker.h"

#define BYTES_MAX 64 /* of what has no form */

/* --- where it takes its bytes from --- */

uint8_t liar_byte(struct liar_source *source)
{
    if (source->prng != NULL) {
        return (uint8_t)(prng_next(source->prng) >> 56);
    }
    return source->at < source->len ? source->data[source->at++] : 0;
}

uint64_t liar_word(struct liar_source *source)
{
    uint64_t word = 0;

    for (unsigned i = 0; i < 8; i++) {
        word = word << 8 | liar_byte(source);
    }
    return word;
}

uint64_t liar_below(struct liar_source *source, uint64_t bound)
{
    return bound > 0 ? liar_byte(source) % bound : 0;
}

bool liar_is_out(const struct liar_source *source)
{
    return source->prng == NULL && source->at >= source->len;
}

/* --- numbers --- */

static struct driver *victim(struct liar *liar)
{
    return &ring_node(&liar->ring, liar->victim)->replica.driver;
}

/* A number that means something to the victim, or lies at some end; or any. */
static uint64_t number(struct liar *liar)
{
    struct driver *driver = victim(liar);
    const uint64_t marks[] = {0,
                              driver_term(driver),
                              driver_last_index(driver),
                              driver->commit,
                              driver_applied(driver)->index,
                              driver_applied(driver)->conf_index,
                              driver->log.first,
                              driver->applier.compacted,
                              driver->trust.led_term,
                              driver_term(driver) + LIMIT_PLAUSIBLE_JUMP,
                              driver_last_index(driver) + LIMIT_PLAUSIBLE_JUMP,
                              LIMIT_PLAUSIBLE,
                              1ULL << 62,
                              1ULL << 63,
                              UINT32_MAX};
    uint64_t choice = liar_below(liar->source, 18);

    if (choice >= sizeof marks / sizeof marks[0]) {
        return choice == 17 ? liar_word(liar->source) : liar_byte(liar->source);
    }
    return marks[choice] + liar_below(liar->source, 8) - 3;
}

/* What an honest one would say, mostly. */
static uint64_t field(struct liar *liar, uint64_t honest)
{
    return liar_below(liar->source, 16) > 0 ? honest : number(liar);
}

static uint64_t own_term(struct liar *liar)
{
    return driver_term(victim(liar));
}

/* The term of one who leads. */
static uint64_t leaders_term(struct liar *liar)
{
    return field(liar, own_term(liar) + liar_below(liar->source, 2));
}

/* --- sending --- */

static void send(struct liar *liar, enum frame_type type, struct buf *payload)
{
    struct ring_node *node = ring_node(&liar->ring, liar->victim);

    liar->frames++;
    if (node->up) {
        liar->refused += !replica_receive(&node->replica.peers.receiver, liar->id, type,
                                          payload->data, payload->len);
        (void)replica_turn(&node->replica);
    }
    buf_free(payload);
}

/* Now and then a byte is another. */
static void send_spoilt(struct liar *liar, enum frame_type type, struct buf *payload)
{
    if (payload->len > 0 && liar_below(liar->source, 24) == 0) {
        payload->data[liar_word(liar->source) % payload->len] = liar_byte(liar->source);
    }
    send(liar, type, payload);
}

static void put_bytes(struct liar *liar, struct buf *buf)
{
    uint64_t len = liar_below(liar->source, BYTES_MAX);

    for (uint64_t i = 0; i < len; i++) {
        buf_put_u8(buf, liar_byte(liar->source));
    }
}

static void put_configuration(struct liar *liar, struct buf *buf)
{
    static const char *const addresses[] = {"ring:1", "ring:2", "ring:3", "ring:4"};
    struct configuration configuration = {0};

    for (uint64_t id = 1; id <= 4; id++) {
        uint8_t draw = liar_byte(liar->source);
        enum conf_role role = draw % 8 < 5 ? ROLE_VOTER : draw % 8 < 7 ? ROLE_STANDBY : ROLE_SPARE;

        if (draw % 16 > 0 && (id < 4 || draw % 4 == 1)) {
            configuration_add(&configuration, id, addresses[id - 1], role);
        }
    }
    if (configuration.count > 0) {
        configuration_encode(&configuration, buf);
    }
}

/* --- commands --- */

static void put_tag_change(struct liar *liar, struct buf *buf)
{
    static const char *const names[] = {"a", "b", "c"};
    struct tag_put put = {.name = names[liar_below(liar->source, 3)], .name_len = 1};

    put.fields = liar_byte(liar->source) % 16;
    put.mode = (uint8_t)liar_below(liar->source, 4);
    put.step = (uint32_t)field(liar, 10);
    put.max_step = (uint32_t)field(liar, 100);
    put.max_id = number(liar);
    command_put(
        buf, COMMAND_TAGS_PUT,
        &(struct command_list){.force = liar_below(liar->source, 4) == 0, .wall_ms = number(liar)});
    command_item_put(buf, COMMAND_TAGS_PUT, &put);
    command_items_end(buf);
}

/* Whose the command is, in the place that it has for that: the liar's own next one, another's, or
 * anything. */
static void put_stamp(struct liar *liar, struct buf *command)
{
    struct session *session = &ring_node(&liar->ring, liar->victim)->replica.requests.session;
    bool own = liar_below(liar->source, 2) == 0;
    uint64_t node_id = own ? liar->id : liar->victim;
    struct buf stamp = BUF_INIT;

    if (liar_below(liar->source, 8) == 0) {
        return; /* nobody's */
    }
    buf_put_u16(&stamp, (uint16_t)field(liar, node_id));
    buf_put_u64(&stamp, field(liar, session->incarnation));
    buf_put_u64(&stamp, field(liar, session->newest + 1));
    buf_put_u64(&stamp, field(liar, session->lowest));
    ASSERT(stamp.len == SESSION_STAMP_BYTES &&
           command->len >= SESSION_STAMP_AT + SESSION_STAMP_BYTES);
    memcpy(command->data + SESSION_STAMP_AT, stamp.data, stamp.len);
    buf_free(&stamp);
}

/* Of somebody; with other numbers of its levels and its store. */
static void put_node_info(struct liar *liar, struct buf *buf)
{
    struct node_info info = {.node_id = 1 + liar_below(liar->source, 4),
                             .store_id = number(liar),
                             .http_address = "ring:80",
                             .version = "lie",
                             .levels = {1, (uint16_t)(1 + liar_below(liar->source, 8))},
                             .incarnation = number(liar)};

    cluster_command_put(buf, COMMAND_NODE_INFO, &info);
}

static void put_command(struct liar *liar, struct buf *buf)
{
    struct grant_item grant = {"a", 1, (uint32_t)number(liar)};
    struct member_change change = {.kind = (uint8_t)(1 + liar_below(liar->source, 2)),
                                   .node_id = 1 + liar_below(liar->source, 4)};

    memcpy(change.address, "ring:4", change.kind == MEMBER_ADD ? sizeof "ring:4" : 0);
    switch (liar_below(liar->source, 13)) {
    case 0:
        cluster_command_put(buf, COMMAND_NOOP, NULL);
        break;
    case 1:
        cluster_command_put(
            buf, COMMAND_DIGEST,
            &(struct digest_command){.index = number(liar), .digest = liar_word(liar->source)});
        break;
    case 2:
        cluster_command_put(buf, COMMAND_CLOCK,
                            &(struct clock_command){.cluster_ms = number(liar)});
        break;
    case 3:
        cluster_command_put(buf, COMMAND_MEMBER_BEGIN, &change);
        break;
    case 4:
        cluster_command_put(buf, COMMAND_MEMBER_END,
                            &(struct member_change){.index = number(liar),
                                                    .given_up = liar_below(liar->source, 2) == 1});
        break;
    case 5:
        command_put(buf, COMMAND_GRANT, &(struct command_list){.wall_ms = number(liar)});
        command_item_put(buf, COMMAND_GRANT, &grant);
        command_items_end(buf);
        break;
    case 6:
        command_put(buf, COMMAND_TAG_DELETE,
                    &(struct delete_command){.name = "a", .name_len = 1, .wall_ms = number(liar)});
        break;
    case 7:
        put_bytes(liar, buf);
        return;
    case 8:
        cluster_command_put(
            buf, COMMAND_LEVEL,
            &(struct level_command){.to = (uint16_t)field(liar, 1 + liar_below(liar->source, 4))});
        break;
    case 9: /* of a type, or a version, that comes later */
        cluster_command_put(buf, COMMAND_NOOP, NULL);
        buf->data[liar_below(liar->source, 2)] = liar_byte(liar->source);
        break;
    case 10:
        put_node_info(liar, buf);
        break;
    case 11:
        cluster_command_put(
            buf, COMMAND_MEMBER_MOVE,
            &(struct member_move){.node_id = 1 + liar_below(liar->source, 4), .address = "ring:9"});
        break;
    default:
        put_tag_change(liar, buf);
        break;
    }
    put_stamp(liar, buf);
}

/* --- messages of the core --- */

static void put_entry(struct liar *liar, uint64_t term, struct buf *buf)
{
    uint64_t type = 1 + liar_below(liar->source, 3);
    struct buf data = BUF_INIT;

    if (type == RAFT_CHANGE) {
        put_configuration(liar, &data);
    } else if (type == RAFT_BARRIER && liar_below(liar->source, 2) == 0) {
        put_bytes(liar, &data);
    } else {
        put_command(liar, &data);
    }
    buf_put_u64(buf, field(liar, term));
    buf_put_u8(buf, (uint8_t)field(liar, type));
    buf_put_str32(buf, data.data, data.len);
    buf_free(&data);
}

static void put_append(struct liar *liar, struct buf *buf)
{
    struct driver *driver = victim(liar);
    uint64_t last = driver_last_index(driver);
    uint64_t back = liar_below(liar->source, 8);
    uint64_t prev = field(liar, last > back ? last - back : last);
    uint64_t term = leaders_term(liar);
    uint64_t count = liar_below(liar->source, 4);

    buf_put_u8(buf, RAFT_APPEND_ENTRIES);
    buf_put_u8(buf, (uint8_t)field(liar, 0));
    buf_put_u64(buf, term);
    buf_put_u64(buf, prev);
    buf_put_u64(buf, field(liar, witness_term_at(&driver->witness, prev)));
    buf_put_u64(buf, field(liar, prev + count));
    buf_put_u32(buf, (uint32_t)field(liar, count));
    for (uint64_t i = 0; i < count; i++) {
        put_entry(liar, term, buf);
    }
}

static void put_append_result(struct liar *liar, struct buf *buf)
{
    uint64_t last = driver_last_index(victim(liar));
    uint64_t rejected = field(liar, 0);

    buf_put_u8(buf, RAFT_APPEND_ENTRIES_RESULT);
    buf_put_u8(buf, (uint8_t)field(liar, 2));
    buf_put_u64(buf, field(liar, own_term(liar)));
    buf_put_u64(buf, rejected);
    buf_put_u64(buf, field(liar, last));
    buf_put_u16(buf, (uint16_t)number(liar));
    buf_put_u16(buf, (uint16_t)number(liar));
}

static void put_vote(struct liar *liar, struct buf *buf)
{
    struct driver *driver = victim(liar);
    uint64_t last = driver_last_index(driver);

    buf_put_u8(buf, RAFT_REQUEST_VOTE);
    buf_put_u8(buf, (uint8_t)field(liar, 2));
    buf_put_u64(buf, field(liar, own_term(liar) + 1));
    buf_put_u64(buf, field(liar, liar->id));
    buf_put_u64(buf, field(liar, last));
    buf_put_u64(buf, field(liar, witness_term_at(&driver->witness, last)));
    buf_put_u8(buf, (uint8_t)liar_below(liar->source, 2)); /* disrupt */
    buf_put_u8(buf, (uint8_t)field(liar, liar_below(liar->source, 2)));
}

static void put_vote_result(struct liar *liar, struct buf *buf)
{
    uint64_t pre_vote = liar_below(liar->source, 2);

    buf_put_u8(buf, RAFT_REQUEST_VOTE_RESULT);
    buf_put_u8(buf, (uint8_t)field(liar, 2));
    buf_put_u64(buf, field(liar, own_term(liar) + pre_vote));
    buf_put_u8(buf, (uint8_t)field(liar, 1));
    buf_put_u8(buf, (uint8_t)pre_vote);
    buf_put_u16(buf, (uint16_t)number(liar));
    buf_put_u16(buf, (uint16_t)number(liar));
}

static void put_timeout_now(struct liar *liar, struct buf *buf)
{
    struct driver *driver = victim(liar);
    uint64_t last = driver_last_index(driver);

    buf_put_u8(buf, RAFT_TIMEOUT_NOW);
    buf_put_u8(buf, (uint8_t)field(liar, 0));
    buf_put_u64(buf, field(liar, own_term(liar)));
    buf_put_u64(buf, field(liar, last));
    buf_put_u64(buf, field(liar, witness_term_at(&driver->witness, last)));
}

void lie_message(struct liar *liar)
{
    static void (*const puts[])(struct liar * liar, struct buf * buf) = {
        put_append, put_append,      put_append,     put_append_result,
        put_vote,   put_vote_result, put_timeout_now};
    struct buf buf = BUF_INIT;

    puts[liar_below(liar->source, sizeof puts / sizeof puts[0])](liar, &buf);
    send_spoilt(liar, FRAME_RAFT, &buf);
}

/* --- snapshots --- */

/* The rows of somebody's state, and perhaps one more; with their digest, which is right. */
static void put_rows(struct liar *liar, struct buf *buf)
{
    struct store *store = liar->ring.nodes[liar_below(liar->source, liar->ring.count)].store;
    struct store_position position = {0};
    struct store_snapshot *view;
    struct buf rows = BUF_INIT;
    struct reader reader;
    struct state_row row;
    uint64_t digest = 0;
    bool end = false;

    ASSERT(store->ops->snapshot_open(store, &view, &position) == 0);
    while (!end) {
        ASSERT(store->ops->snapshot_read(store, view, 1 << 20, &rows, &end) == 0);
    }
    store->ops->snapshot_close(store, view);
    if (liar_below(liar->source, 3) == 0) {
        const char key[2] = {"tnwsrmgdai"[liar_below(liar->source, 10)],
                             (char)liar_byte(liar->source)};

        buf_put_str16(&rows, key, 1 + liar_below(liar->source, 2));
        buf_put_u32(&rows, 3);
        buf_put_u8(&rows, 1);
        buf_put_u8(&rows, liar_byte(liar->source));
        buf_put_u8(&rows, liar_byte(liar->source));
    }
    if (rows.len > 0 && liar_below(liar->source, 3) == 0) {
        rows.data[liar_word(liar->source) % rows.len] = liar_byte(liar->source);
    }
    reader_init(&reader, rows.data, rows.len);
    while (store_rows_next(&reader, &row)) {
        digest += hash_row(row.key, row.key_len, row.value, row.value_len);
    }
    buf_put_u64(buf, field(liar, digest));
    buf_put(buf, rows.data, rows.len);
    buf_free(&rows);
}

static void send_head(struct liar *liar, uint64_t transfer)
{
    struct driver *driver = victim(liar);
    uint64_t index = field(liar, driver_last_index(driver) + liar_below(liar->source, 4));
    uint64_t term = leaders_term(liar);
    struct buf conf = BUF_INIT;
    struct buf buf = BUF_INIT;

    put_configuration(liar, &conf);
    buf_put_u8(&buf, RAFT_INSTALL_SNAPSHOT);
    buf_put_u8(&buf, (uint8_t)field(liar, 0));
    buf_put_u64(&buf, term);
    buf_put_u64(&buf, index);
    buf_put_u64(&buf, field(liar, term));
    buf_put_u64(&buf, field(liar, driver_applied(driver)->conf_index));
    buf_put_u64(&buf, transfer);
    buf_put_str32(&buf, conf.data, conf.len);
    buf_free(&conf);
    send_spoilt(liar, FRAME_RAFT, &buf);
}

static void send_chunk(struct liar *liar, uint64_t transfer, uint64_t offset, bool last,
                       const uint8_t *data, size_t len)
{
    struct buf buf = BUF_INIT;

    buf_put_u64(&buf, field(liar, transfer));
    buf_put_u64(&buf, field(liar, offset));
    buf_put_u8(&buf, (uint8_t)field(liar, last ? 1 : 0));
    buf_put_str32(&buf, data, len);
    send_spoilt(liar, FRAME_SNAPSHOT_CHUNK, &buf);
}

void lie_snapshot(struct liar *liar)
{
    uint64_t transfer = liar_byte(liar->source);
    struct buf stream = BUF_INIT;
    size_t half;

    put_rows(liar, &stream);
    half = stream.len / (1 + liar_below(liar->source, 3));
    send_head(liar, transfer);
    if (half < stream.len) {
        send_chunk(liar, transfer, 0, false, stream.data, half);
        if (liar_below(liar->source, 3) == 0) { /* again, or later than the end */
            send_chunk(liar, transfer, liar_below(liar->source, 2) * half, true, stream.data, half);
        }
        if (liar_below(liar->source, 3) == 0) {
            ring_run_ms(&liar->ring, liar_byte(liar->source));
        }
        send_chunk(liar, transfer, half, true, stream.data + half, stream.len - half);
    } else {
        send_chunk(liar, transfer, 0, true, stream.data, stream.len);
    }
    buf_free(&stream);
}

/* --- requests and answers --- */

void lie_request(struct liar *liar)
{
    static const uint8_t kinds[] = {CLUSTER_REQUEST_COMMAND, CLUSTER_REQUEST_QUERY,
                                    CLUSTER_REQUEST_MEMBER};
    uint8_t kind = kinds[liar_below(liar->source, 3)];
    struct member_ask asked = {.kind = (uint8_t)(1 + liar_below(liar->source, 3)),
                               .node_id = 1 + liar_below(liar->source, 4)};
    bool passed_on = liar_below(liar->source, 3) == 0;
    uint64_t origin = passed_on ? 1 + liar_below(liar->source, 4) : 0;
    struct buf payload = BUF_INIT;
    struct buf buf = BUF_INIT;

    memcpy(asked.address, "ring:4", asked.kind == MEMBER_ASK_ADD ? sizeof "ring:4" : 0);
    if (kind == CLUSTER_REQUEST_COMMAND) {
        put_command(liar, &payload);
    } else if (kind == CLUSTER_REQUEST_MEMBER) {
        member_ask_encode(&asked, &payload);
        put_stamp(liar, &payload);
    } else {
        query_get_encode(&payload, "a", 1);
    }
    buf_put_u64(&buf, number(liar));
    buf_put_u16(&buf, (uint16_t)field(liar, origin));
    buf_put_u8(&buf, (uint8_t)field(liar, kind));
    buf_put_u32(&buf, (uint32_t)field(liar, 1000));
    buf_put_str32(&buf, payload.data, payload.len);
    buf_free(&payload);
    send_spoilt(liar, liar_below(liar->source, 3) == 0 ? FRAME_FORWARD : FRAME_REQUEST, &buf);
}

static void put_answer(struct liar *liar, struct buf *buf)
{
    struct grant_result grant = {.size = (uint32_t)number(liar),
                                 .first = number(liar),
                                 .generation = (uint32_t)field(liar, 1),
                                 .step = (uint32_t)number(liar),
                                 .max_step = (uint32_t)number(liar)};

    switch (liar_below(liar->source, 3)) {
    case 0:
        grant.status = liar_below(liar->source, 3) == 0 ? ERR_EXHAUSTED : 0;
        if (grant.status != 0 || grant.size == 0) { /* the encoder takes nothing else */
            grant.size = grant.status == 0;
        }
        results_encode(RESULT_GRANTS, &grant, 1, buf);
        break;
    case 1:
        status_result_encode(-(int32_t)liar_below(liar->source, 50), buf);
        break;
    default:
        put_bytes(liar, buf);
        break;
    }
}

void lie_reply(struct liar *liar)
{
    struct requests *requests = &ring_node(&liar->ring, liar->victim)->replica.requests;
    const struct cluster_request *request = TAILQ_FIRST(&requests->sent);
    struct buf marks = BUF_INIT;
    struct buf payload = BUF_INIT;
    struct buf buf = BUF_INIT;

    put_answer(liar, &payload);
    buf_put_u64(&buf, field(liar, request != NULL ? request->id : requests->numbers.last));
    buf_put_u32(&buf, (uint32_t)field(liar, 0));
    buf_put_u64(&buf, field(liar, driver_last_index(victim(liar))));
    put_bytes(liar, &marks);
    buf_put_str32(&buf, marks.data, marks.len);
    buf_put_str32(&buf, payload.data, payload.len);
    buf_free(&marks);
    buf_free(&payload);
    send_spoilt(liar, FRAME_REPLY, &buf);
}

void lie_small(struct liar *liar)
{
    struct driver *driver = victim(liar);
    const struct requests *requests = &ring_node(&liar->ring, liar->victim)->replica.requests;
    enum frame_type type = FRAME_CLOCK;
    struct buf buf = BUF_INIT;

    switch (liar_below(liar->source, 6)) {
    case 3:
        type = FRAME_RESIGN;
        buf_put_u64(&buf, field(liar, own_term(liar)));
        break;
    case 4:
        type = FRAME_PROBE;
        buf_put_u8(&buf, (uint8_t)field(liar, 1 + liar_below(liar->source, 5)));
        buf_put_u16(&buf, (uint16_t)field(liar, liar_below(liar->source, 5)));
        buf_put_u64(&buf, field(liar, requests->route.round));
        break;
    case 5:
        type = FRAME_APPLIED;
        buf_put_u8(&buf, (uint8_t)field(liar, liar_below(liar->source, 2)));
        buf_put_u64(&buf, field(liar, driver_applied(driver)->index));
        break;
    case 0:
        type = liar_below(liar->source, 2) == 0 ? FRAME_CONFIRM : FRAME_CONFIRM_ACK;
        buf_put_u64(&buf, field(liar, own_term(liar)));
        buf_put_u64(&buf, field(liar, requests->serving.round.number));
        break;
    case 1:
        type = FRAME_SNAPSHOT_ACK;
        buf_put_u64(&buf, field(liar, driver->transfers.out[0].transfer));
        buf_put_u64(&buf, field(liar, driver->transfers.out[0].sent));
        buf_put_u8(&buf, (uint8_t)field(liar, 0));
        break;
    default:
        buf_put_u8(&buf, (uint8_t)field(liar, liar_below(liar->source, 2)));
        buf_put_u64(&buf, field(liar, liar->ring.clock.now_ms));
        buf_put_u64(&buf, field(liar, FAKE_WALL_MS + liar->ring.clock.now_ms));
        break;
    }
    send_spoilt(liar, type, &buf);
}

/* --- states that differ --- */

static void put_compare(struct liar *liar, struct buf *buf)
{
    const struct compare *compare = &ring_node(&liar->ring, liar->victim)->replica.compare;

    buf_put_u64(buf, field(liar, compare->lender.number));
    buf_put_u8(buf, (uint8_t)field(liar, 1 + liar_below(liar->source, 5)));
    buf_put_u64(buf, field(liar, liar_below(liar->source, 2) == 0 ? 0 : number(liar)));
    buf_put_u64(buf, field(liar, liar_below(liar->source, 2)));
}

static void put_compared(struct liar *liar, struct buf *buf)
{
    const struct compare *compare = &ring_node(&liar->ring, liar->victim)->replica.compare;
    uint64_t kind = 1 + liar_below(liar->source, 6);
    struct buf data = BUF_INIT;

    buf_put_u64(buf, field(liar, compare->asker.number));
    buf_put_u8(buf, (uint8_t)field(liar, kind));
    buf_put_u64(buf, field(liar, kind == WIRE_COMPARED_OPEN ? number(liar) : 0));
    buf_put_u64(buf, field(liar, kind == WIRE_COMPARED_PART ? compare->asker.sum : 0));
    buf_put_u32(buf, (uint32_t)field(liar, kind == WIRE_COMPARED_PART ? 1 : 0));
    buf_put_u8(buf, (uint8_t)field(liar, kind == WIRE_COMPARED_PART ? 1 : 0));
    if (kind == WIRE_COMPARED_PART || kind == WIRE_COMPARED_ROWS) {
        put_bytes(liar, &data);
    }
    buf_put_str32(buf, data.data, data.len);
    buf_free(&data);
}

void lie_compare(struct liar *liar)
{
    enum frame_type type = liar_below(liar->source, 2) == 0 ? FRAME_COMPARE : FRAME_COMPARED;
    struct buf buf = BUF_INIT;

    if (type == FRAME_COMPARE) {
        put_compare(liar, &buf);
    } else {
        put_compared(liar, &buf);
    }
    send_spoilt(liar, type, &buf);
}

/* --- buffers --- */

void lie_buffers(struct liar *liar)
{
    const struct buffers *buffers = &ring_node(&liar->ring, liar->victim)->ids.buffers;
    bool is_answer = liar_below(liar->source, 2) == 0;
    struct buf data = BUF_INIT;
    struct buf buf = BUF_INIT;

    if (is_answer) {
        buf_put_u8(&data, (uint8_t)field(liar, 0));
        buf_put_u32(&data, (uint32_t)field(liar, 0));
    } else {
        query_list_encode(&data, "", 0, "", 0, 1 + (uint32_t)liar_below(liar->source, 3));
    }
    if (liar_below(liar->source, 4) == 0) {
        put_bytes(liar, &data);
    }
    buf_put_u64(&buf, field(liar, buffers->number));
    buf_put_u8(&buf, (uint8_t)field(liar, is_answer));
    buf_put_str32(&buf, data.data, data.len);
    buf_free(&data);
    send_spoilt(liar, FRAME_BUFFERS, &buf);
}

/* --- handshakes --- */

void lie_handshake(struct liar *liar)
{
    struct ring_node *node = ring_node(&liar->ring, liar->victim);
    struct peers *peers = &node->replica.peers;
    uint64_t from = liar_below(liar->source, 3) > 0 ? liar->id : 1 + liar_below(liar->source, 6);
    struct wire_statement said;
    struct buf answer = BUF_INIT;
    struct buf conf = BUF_INIT;
    struct buf buf = BUF_INIT;

    if (!node->up || from == liar->victim) {
        return;
    }
    if (liar_below(liar->source, 4) == 0) {
        buf_put_u8(&buf, (uint8_t)field(liar, 1));
        buf_put_str16(&buf, "ring:4", liar_below(liar->source, 7));
        (void)peers_join(&peers->receiver, from, buf.data, buf.len, &answer);
    } else {
        put_configuration(liar, &conf);
        buf_put_u8(&buf, (uint8_t)field(liar, 1));
        buf_put_u64(&buf, number(liar) << 32 | liar_byte(liar->source));
        buf_put_u64(&buf, field(liar, own_term(liar)));
        buf_put_u64(&buf, number(liar));
        buf_put_u64(&buf, number(liar));
        buf_put_str32(&buf, conf.data, conf.len);
        liar->refused += peers_admit(peers, from, 1000 + from) != 0 ||
                         wire_statement_decode(buf.data, buf.len, &said) != 0 ||
                         !peers_know(peers, from, &said) ||
                         peers_check(peers, from, &(struct net_presence){0}, &said) != 0;
    }
    (void)replica_turn(&node->replica);
    buf_free(&answer);
    buf_free(&conf);
    buf_free(&buf);
}

void lie_bytes(struct liar *liar)
{
    enum frame_type type =
        (enum frame_type)(FRAME_RAFT + liar_below(liar->source, FRAME_TYPE_MAX - FRAME_RAFT + 1));
    struct buf buf = BUF_INIT;

    put_bytes(liar, &buf);
    send(liar, type, &buf);
}
