/*
 * test_members.c - who is let in by what it says of the membership, at the bounds of what can be
 * said; what a node that was removed still sends; and the mark of a node that joins.
 *
 * Thread: one.
 */
#include <stdio.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "raft/core/driver.h"
#include "raft/wire/wire.h"
#include "raft/transport/handshake.h"
#include "raft/core/tests/core_frames.h"
#include "raft/tests/raft_ring.h"
#include "src/base/container.h"

#define PATIENCE_MS 2000
#define STRANGER 900

/* --- what a dialler says --- */

/* Members first..first + count - 1, this node (1) among them if it is to be. */
static void put_statement(uint64_t index, uint64_t first, unsigned count, bool with_us,
                          size_t address_len, struct buf *statement)
{
    struct wire_statement said = {
        .start = {.incarnation = 1, .term = 1, .index = 1, .last_term = 1}};
    struct configuration configuration = {0};
    char address[LIMIT_ADDRESS_BYTES + 1];
    struct buf conf = BUF_INIT;

    for (unsigned i = 0; i < count; i++) {
        memset(address, (int)('a' + i), address_len);
        address[address_len] = '\0';
        configuration_add(&configuration, i == 0 && with_us ? 1 : first + i, address, ROLE_VOTER);
    }
    configuration_encode(&configuration, &conf);
    said.conf = (struct wire_conf){index, conf.data, conf.len};
    wire_statement_encode(&said, statement);
    buf_free(&conf);
}

static bool knows(struct ring *ring, uint64_t peer, const struct buf *statement)
{
    struct wire_statement said = {0};

    return (statement->len == 0 ||
            wire_statement_decode(statement->data, statement->len, &said) == 0) &&
           peers_know(&ring_node(ring, 1)->replica.peers, peer, &said);
}

static bool has_link_to(struct ring *ring, uint64_t peer)
{
    const struct fake_net *net = &ring_node(ring, 1)->net;

    for (size_t i = 0; i < net->peer_count; i++) {
        if (net->peers[i].id == peer) {
            return true;
        }
    }
    return false;
}

static void test_strangers_are_judged_by_their_configuration(void **state)
{
    RING ring = {0};
    struct buf none = BUF_INIT;
    struct buf statement = BUF_INIT;
    uint64_t leader;
    uint64_t index;

    (void)state;
    ring_start(&ring, 3);
    (void)ring_elect(&ring);
    index = driver_applied(&ring_node(&ring, 1)->replica.driver)->conf_index;
    assert_int_equal(index, 1);
    assert_true(knows(&ring, 2, &none)); /* a member need not say anything */
    assert_false(knows(&ring, STRANGER + 1, &none));
    put_statement(index, STRANGER, 3, true, 8, &statement); /* no newer than ours */
    assert_false(knows(&ring, STRANGER + 1, &statement));
    statement.len = 0;
    put_statement(index + 5, STRANGER, 3, false, 8, &statement); /* without us */
    assert_false(knows(&ring, STRANGER + 1, &statement));
    statement.len = 0;
    put_statement(index + 5, STRANGER, 3, true, 8, &statement);
    assert_false(knows(&ring, STRANGER + 7, &statement)); /* without the peer */
    statement.len--;
    assert_false(knows(&ring, STRANGER + 1, &statement)); /* malformed */
    statement.len++;
    ring_settle(&ring);
    assert_false(has_link_to(&ring, STRANGER + 1));
    assert_true(knows(&ring, STRANGER + 1, &statement));
    ring_settle(&ring);
    assert_true(has_link_to(&ring, STRANGER + 1) && has_link_to(&ring, STRANGER + 2));
    assert_true(has_link_to(&ring, 2) && has_link_to(&ring, 3)); /* in the configuration in force */
    leader = ring_elect(&ring); /* until the log has one that is as new */
    for (unsigned i = 0; driver_applied(&ring_node(&ring, 1)->replica.driver)->conf_index == index;
         i++) {
        assert_true(i < 10);
        ring_make(&ring, leader, "a", 5 + i);
        if (i == 5) {
            assert_int_equal(driver_change(&ring_node(&ring, leader)->replica.driver,
                                           ring_follower(&ring), NULL, ROLE_STANDBY),
                             0);
        }
        ring_settle(&ring);
    }
    assert_false(has_link_to(&ring, STRANGER + 1) || has_link_to(&ring, STRANGER + 2));
    buf_free(&statement);
}

/* The largest configuration there is, after other learned peers: there is room for all links. */
static void test_the_largest_configuration_is_taken(void **state)
{
    RING ring = {0};
    struct buf statement = BUF_INIT;

    (void)state;
    ring_start(&ring, 3);
    (void)ring_elect(&ring);
    put_statement(10, STRANGER, LIMIT_NODES, true, LIMIT_ADDRESS_BYTES, &statement);
    assert_true(knows(&ring, STRANGER + 6, &statement));
    ring_settle(&ring);
    assert_int_equal(ring_node(&ring, 1)->net.peer_count, 2 + LIMIT_NODES - 1);
    statement.len = 0; /* newer learned peers take the place of the older ones */
    put_statement(11, STRANGER + 20, LIMIT_NODES, true, LIMIT_ADDRESS_BYTES, &statement);
    assert_true(knows(&ring, STRANGER + 21, &statement));
    ring_settle(&ring);
    assert_int_equal(ring_node(&ring, 1)->net.peer_count, 2 + LIMIT_NODES - 1);
    assert_false(has_link_to(&ring, STRANGER + 6));
    statement.len = 0; /* and older ones are none any more */
    put_statement(10, STRANGER, LIMIT_NODES, true, LIMIT_ADDRESS_BYTES, &statement);
    assert_false(knows(&ring, STRANGER + 6, &statement));
    buf_free(&statement);
}

/* --- handshake frames at their bound --- */

struct said {
    struct net_receiver base;
    size_t len; /* of the statement that the dialler makes */
    size_t heard;
};

static void introduce_cb(struct net_receiver *receiver, struct buf *statement)
{
    static const uint8_t zeros[LIMIT_HANDSHAKE_BYTES];

    buf_put(statement, zeros, CONTAINER(receiver, struct said, base)->len);
}

static int judge_cb(struct net_receiver *receiver, const struct net_claim *claim,
                    uint16_t *ret_level)
{
    (void)ret_level;
    if (claim->states) {
        CONTAINER(receiver, struct said, base)->heard = claim->len;
    }
    return claim->id > 0 && claim->store_id > 0 ? 0 : ERR_WRONG_NODE;
}

/* What is in `out` goes to the other side; returns what the decoder says. */
static int pass(struct buf *out, struct handshake *to)
{
    struct frame_decoder decoder;
    struct buf bytes = BUF_INIT;
    const uint8_t *data;
    size_t left;
    struct frame frame;
    int rv;

    buf_move(&bytes, out);
    data = bytes.data;
    left = bytes.len;
    decoder = (struct frame_decoder){0};
    rv = frame_decoder_next(&decoder, &data, &left, &frame);
    if (rv == 1) {
        handshake_receive(to, frame.type, frame.payload, frame.len, out);
    }
    buf_free(&decoder.buf);
    buf_free(&bytes);
    return rv;
}

static void test_a_statement_that_fills_its_frame(void **state)
{
    const size_t most = LIMIT_HANDSHAKE_BYTES - FRAME_HEADER_BYTES;
    const struct tls_peer proof = {.same_cluster = true};

    (void)state;
    for (size_t len = most - 1; len <= most + 1; len++) {
        struct said said = {.base = {.judge = judge_cb, .introduce = introduce_cb}, .len = len};
        struct handshake_config a = {
            .node_id = 1, .store_id = 11, .cluster_id = "test", .receiver = &said.base};
        struct handshake_config b = a;
        struct handshake dialler;
        struct handshake acceptor;
        struct buf out = BUF_INIT;

        b.node_id = 2;
        b.store_id = 12;
        handshake_accept(&acceptor, &b, &proof);
        handshake_dial(&dialler, &a, 2, &proof, &out);
        assert_int_equal(pass(&out, &acceptor), 1);
        assert_int_equal(pass(&out, &dialler), 1);
        assert_int_equal(dialler.state, HANDSHAKE_PROOF_SENT);
        assert_int_equal(pass(&out, &acceptor), len <= most ? 1 : ERR_TOO_LARGE);
        assert_int_equal(acceptor.state, len <= most ? HANDSHAKE_DONE : HANDSHAKE_CHALLENGE_SENT);
        assert_int_equal(said.heard, len <= most ? len : 0);
        buf_free(&out);
    }
}

/* --- the judge of a handshake --- */

/* What node 1 says of a dialler that has this store and states this. */
static int judged(struct ring *ring, uint64_t id, uint64_t store_id,
                  const struct wire_statement *said)
{
    struct net_claim claim = {
        .id = id, .store_id = store_id, .levels = {LEVEL_FIRST, LEVEL_FIRST}, .states = true};
    uint16_t level = 0;
    BUF_LOCAL(statement);

    wire_statement_encode(said, &statement);
    claim.statement = statement.data;
    claim.len = statement.len;
    return peers_judge(&ring_node(ring, 1)->replica.peers.receiver, &claim, &level);
}

/* Of several errors the one that says most. */
static void test_the_judge_gives_the_most_useful_error(void **state)
{
    RING ring = {.meet = true};
    struct net_receiver *receiver;
    struct net_claim claim = {.id = 2, .store_id = 1002, .levels = {0, LEVEL_FIRST - 1}};
    struct wire_statement right;
    struct wire_statement other_birth;
    struct wire_statement other_list;
    uint16_t level = 0;
    BUF_LOCAL(statement);

    (void)state;
    ring_start(&ring, 3);
    (void)ring_elect(&ring);
    ring_run_ms(&ring, 500); /* all are registered */
    receiver = &ring_node(&ring, 1)->replica.peers.receiver;
    peers_state(&ring_node(&ring, 2)->replica.peers.receiver, &statement);
    assert_int_equal(wire_statement_decode(statement.data, statement.len, &right), 0);
    other_birth = other_list = right;
    other_birth.birth.uid = uid_make(3, 4);
    other_list.birth = (struct wire_birth){.list_digest = right.birth.list_digest + 1};
    /* A store of another cluster is no wiped one. */
    assert_int_equal(judged(&ring, 2, 1002, &other_birth), ERR_OTHER_BIRTH);
    assert_int_equal(judged(&ring, 2, 4711, &other_birth), ERR_OTHER_BIRTH);
    assert_int_equal(judged(&ring, STRANGER, 1, &other_birth), ERR_OTHER_BIRTH);
    /* A wiped one is reported as that, whatever its list. */
    assert_int_equal(judged(&ring, 2, 4711, &other_list), ERR_WRONG_NODE);
    assert_int_equal(judged(&ring, 2, 1002, &other_list), ERR_OTHER_LIST);
    /* A node in no list of ours was given another one. */
    assert_int_equal(judged(&ring, STRANGER, 1, &other_list), ERR_OTHER_LIST);
    assert_int_equal(judged(&ring, STRANGER, 1, &right), ERR_NOT_FOUND);
    assert_int_equal(judged(&ring, 2, 4711, &right), ERR_WRONG_NODE);
    assert_int_equal(judged(&ring, 2, 1002, &right), 0);
    /* One that we dialled states nothing; the level is checked in any case. */
    assert_int_equal(peers_judge(receiver, &claim, &level), ERR_NEWER);
    assert_int_equal(level, LEVEL_FIRST);
    claim.states = true;
    assert_int_equal(peers_judge(receiver, &claim, &level), ERR_NEWER);
    claim.levels.max = LEVEL_FIRST;
    assert_int_equal(peers_judge(receiver, &claim, &level), ERR_BAD_MESSAGE);
    claim.states = false;
    assert_int_equal(peers_judge(receiver, &claim, &level), 0);
    claim.store_id = 4711;
    assert_int_equal(peers_judge(receiver, &claim, &level), ERR_WRONG_NODE);
    /* A node that stops takes no new peer, and looks into no statement. */
    replica_stop(&ring_node(&ring, 1)->replica);
    assert_int_equal(judged(&ring, 2, 1002, &other_birth), 0);
    assert_int_equal(judged(&ring, 2, 4711, &right), ERR_WRONG_NODE);
    assert_int_equal(judged(&ring, STRANGER, 1, &right), ERR_NOT_FOUND);
}

/* Idle nodes report what their disks have each second, too: by that the others know that they are
 * there, and let no clone in. */
static void test_idle_nodes_report_their_disks(void **state)
{
    RING ring = {.meet = true};
    size_t before;

    (void)state;
    ring_start(&ring, 3);
    (void)ring_elect(&ring);
    ring_run_ms(&ring, 5000);
    before = ring.passed[FRAME_DURABLE];
    ring_run_ms(&ring, 10 * PEERS_REPORT_MS);
    assert_in_range(ring.passed[FRAME_DURABLE] - before, 9 * 3 * 2, 21 * 3 * 2);
}

/* --- nodes that ask to join --- */

/* What node 1 answers to a node of this id and address, which was told of the cluster with this
 * uid. */
static enum member_outcome joins(struct ring *ring, uint64_t id, const char *address,
                                 const struct uid *uid)
{
    struct wire_join said = {.birth.uid = *uid};
    struct wire_joined joined;
    BUF_LOCAL(request);
    BUF_LOCAL(answer);

    (void)snprintf(said.address, sizeof said.address, "%s", address);
    wire_join_encode(&said, &request);
    assert_true(peers_join(&ring_node(ring, 1)->replica.peers.receiver, id, request.data,
                           request.len, &answer));
    assert_int_equal(wire_joined_decode(answer.data, answer.len, &joined), 0);
    assert_int_equal(joined.conf.len > 0, joined.answer.outcome == MEMBER_DONE);
    return joined.answer.outcome;
}

/* A new one is added. A member may begin. One of another cluster changes nothing here, and one at
 * a member's address takes its place only with replace_lost, and only if the member is away. */
static void test_nodes_that_ask_to_join(void **state)
{
    RING ring = {.meet = true};
    const struct uid none = {0};
    const struct uid other = uid_make(3, 4);
    struct replica *replica;
    char address[LIMIT_ADDRESS_BYTES + 1];
    struct birth birth;

    (void)state;
    ring_start(&ring, 3);
    (void)ring_elect(&ring);
    ring_run_ms(&ring, 500);
    replica = &ring_node(&ring, 1)->replica;
    assert_non_null(state_birth(replica->state));
    birth = *state_birth(replica->state);
    (void)snprintf(address, sizeof address, "%s",
                   context_address(&replica->context, driver_member(&replica->driver, 3)));
    assert_int_equal(joins(&ring, STRANGER, "new:1", &other), MEMBER_PENDING);
    assert_false(replica->peers.join.active); /* its answer has this cluster's uid */
    assert_int_equal(joins(&ring, 3, address, &birth.uid), MEMBER_DONE);
    for (unsigned replaces = 0; replaces < 2; replaces++) {
        replica->config.replace_lost = replaces == 1;
        assert_int_equal(joins(&ring, STRANGER + replaces, address, &none), MEMBER_PENDING);
        ring_run_ms(&ring, 1000);
        assert_int_equal(ring_role(&ring, 1, 3), ROLE_VOTER); /* it is reached */
        assert_int_not_equal(joins(&ring, STRANGER + replaces, address, &none), MEMBER_DONE);
        assert_int_equal(ring_role(&ring, 1, STRANGER + replaces), ROLE_GONE);
    }
    ring_crash(&ring, 3);
    replica->config.replace_lost = false;
    (void)ring_elect(&ring);
    (void)joins(&ring, STRANGER + 2, address, &none);
    ring_run_ms(&ring, 1000);
    assert_int_equal(ring_role(&ring, 1, 3), ROLE_VOTER);
    replica->config.replace_lost = true;
    assert_int_equal(joins(&ring, STRANGER + 3, address, &none), MEMBER_PENDING);
    ring_run_ms(&ring, 1000);
    assert_int_equal(ring_role(&ring, 1, 3), ROLE_GONE);
}

/* --- changes --- */

static bool receive_from(struct ring *ring, uint64_t to, uint64_t from, enum frame_type type,
                         struct buf *payload)
{
    bool fine = replica_receive(&ring_node(ring, to)->replica.peers.receiver, from, type,
                                payload->data, payload->len);

    buf_free(payload);
    ring_settle(ring);
    return fine;
}

/* What it had on its way when it was removed, or sends because it does not know it yet. */
static void test_frames_of_a_removed_node(void **state)
{
    RING ring = {0};
    const struct driver *driver;
    struct buf payload = BUF_INIT;
    struct asked wish;
    uint64_t leader;
    uint64_t gone;
    uint64_t term;

    (void)state;
    ring_start(&ring, 3);
    leader = ring_elect(&ring);
    gone = ring_follower(&ring);
    driver = &ring_node(&ring, leader)->replica.driver;
    ring_make(&ring, leader, "a", 10);
    ring_run_ms(&ring, 100);
    assert_non_null(rollback_find(&driver->peers.seen, gone));
    asked_member(&wish, MEMBER_ASK_REMOVE, gone, "");
    ask(&ring, leader, &wish, PATIENCE_MS);
    ring_member_done(&ring, &wish);
    ring_isolate(&ring, gone, true);
    assert_null(rollback_find(&driver->peers.seen, gone)); /* its place is for others */
    term = driver_term(driver);
    /* It acknowledges what it never got, and takes the place of a voter in no majority. */
    core_receipt(term, entry_log_last(&driver->log), &payload);
    assert_true(receive_from(&ring, leader, gone, FRAME_RAFT, &payload));
    wire_confirm_encode(&(struct wire_confirm){.term = term, .round = 1000}, &payload);
    (void)receive_from(&ring, leader, gone, FRAME_CONFIRM_ACK, &payload);
    assert_true(driver_leads(&ring_node(&ring, leader)->replica.driver));
    /* Its campaign with pre-votes does not unseat a leader that is there. */
    core_pre_vote(gone, term + 1, 1000, term, &payload);
    assert_true(receive_from(&ring, leader, gone, FRAME_RAFT, &payload));
    ring_run_ms(&ring, 2 * RING_ELECTION_MS);
    assert_int_equal(driver_term(driver), term);
    assert_int_equal(ring_elect(&ring), leader);
    /* A chunk of a snapshot, from whoever it is, that nobody asked for. */
    wire_chunk_encode(&(struct wire_chunk){.transfer = 1, .last = true}, &payload);
    assert_true(receive_from(&ring, leader, gone, FRAME_SNAPSHOT_CHUNK, &payload));
    assert_int_equal(ring_node(&ring, leader)->failed_count, 0);
}

/* A grant of its, which was on its way, is refused: nothing is given to who is gone. */
static void test_a_grant_for_a_removed_node_is_refused(void **state)
{
    RING ring = {0};
    struct id_tag *tag;
    struct asked asked;
    struct asked wish;
    uint64_t leader;
    uint64_t gone;
    uint64_t before;
    size_t requests;

    (void)state;
    ring_start(&ring, 3);
    leader = ring_elect(&ring);
    gone = ring_follower(&ring);
    ring_make(&ring, leader, "a", 10);
    ring_run_ms(&ring, 100);
    asked_open(&asked, "a");
    ask(&ring, gone, &asked, PATIENCE_MS);
    ring_run_ms(&ring, 100);
    asked_free(&asked);
    assert_true(ring_take(&ring, gone, "a", 1) > 0);
    ring.cut[leader][gone] = true; /* it is heard, and hears nothing more */
    ring.cut[6 - leader - gone][gone] = true;
    asked_member(&wish, MEMBER_ASK_REMOVE, gone, "");
    ask(&ring, leader, &wish, PATIENCE_MS);
    ring_member_done(&ring, &wish);
    assert_false(ring_node(&ring, gone)->replica.removed);
    before = ring_row(&ring, leader, "a")->max_id;
    tag = allocator_open(ring_node(&ring, gone)->ids.allocator, ring_row(&ring, gone, "a"));
    assert_non_null(tag);
    requests = ring.passed[FRAME_REQUEST];
    allocator_want(ring_node(&ring, gone)->ids.allocator, tag);
    ring_run_ms(&ring, 5 * RING_ELECTION_MS);
    assert_true(ring.passed[FRAME_REQUEST] > requests); /* it did ask */
    assert_int_equal(ring_row(&ring, leader, "a")->max_id, before);
}

/* --- nodes that join --- */

static int ignore_row(void *data, const struct state_row *row)
{
    (void)data;
    (void)row;
    return 0;
}

static uint8_t mark_on_disk(struct ring *ring, uint64_t id)
{
    struct store *store = ring_node(ring, id)->store;
    struct store_error error;
    struct store_loaded loaded;
    uint8_t mark;

    assert_int_equal(store->ops->load(store, &loaded, ignore_row, NULL, &error), 0);
    assert_true(loaded.locals[LOCAL_INCARNATION].len > 0);
    mark = loaded.locals[LOCAL_INCARNATION].data[0];
    store_loaded_release(&loaded);
    return mark;
}

static void test_the_mark_of_a_node_that_joins_goes_with_its_first_configuration(void **state)
{
    RING ring = {.joiners = 1};
    struct asked wish;
    uint64_t leader;

    (void)state;
    ring_start(&ring, 3);
    leader = ring_elect(&ring);
    assert_int_equal(mark_on_disk(&ring, leader), 1);
    assert_int_equal(mark_on_disk(&ring, 3), 2);
    ring_crash(&ring, 3); /* not let in yet: it waits on */
    ring_restart(&ring, 3);
    ring_run_ms(&ring, 100);
    assert_int_equal(mark_on_disk(&ring, 3), 2);
    asked_member(&wish, MEMBER_ASK_ADD, 3, "ring:3");
    ask(&ring, leader, &wish, PATIENCE_MS);
    ring_member_done(&ring, &wish);
    assert_int_equal(mark_on_disk(&ring, 3), 1);
    assert_int_equal(ring_node(&ring, 3)->replica.joiner_incarnation, 0);
    ring_crash(&ring, 3);
    ring_restart(&ring, 3);
    ring_run_ms(&ring, 100);
    assert_int_equal(driver_leader(&ring_node(&ring, 3)->replica.driver), leader);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_strangers_are_judged_by_their_configuration),
        cmocka_unit_test(test_the_largest_configuration_is_taken),
        cmocka_unit_test(test_a_statement_that_fills_its_frame),
        cmocka_unit_test(test_the_judge_gives_the_most_useful_error),
        cmocka_unit_test(test_idle_nodes_report_their_disks),
        cmocka_unit_test(test_nodes_that_ask_to_join),
        cmocka_unit_test(test_frames_of_a_removed_node),
        cmocka_unit_test(test_a_grant_for_a_removed_node_is_refused),
        cmocka_unit_test(test_the_mark_of_a_node_that_joins_goes_with_its_first_configuration),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
