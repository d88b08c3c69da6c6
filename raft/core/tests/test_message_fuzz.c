/*
 * test_message_fuzz.c - messages of the consensus core: random ones there and back, and hostile
 * bytes.
 *
 * Thread: one.
 */
#include "raft/core/message.h"

#include <stdlib.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "raft/core/tests/core_messages.h"
#include "src/base/limits.h"
#include "src/base/prng.h"

static void random_message(struct prng *prng, struct append_fixture *f, uint64_t *ret_transfer)
{
    struct raft_message *message = &f->message;
    const uint64_t term = 1 + prng_below(prng, 1000);

    message->type = (enum raft_message_type)(1 + prng_below(prng, 6));
    *ret_transfer = message->type == RAFT_INSTALL_SNAPSHOT ? prng_next(prng) : 0;
    switch (message->type) {
    case RAFT_APPEND_ENTRIES:
        message->append_entries = (struct raft_append_entries){
            0, term, 1 + prng_below(prng, 1 << 20), 1, prng_below(prng, 1 << 20), f->entries, 0};
        message->append_entries.n_entries = (unsigned)prng_below(prng, 5);
        for (unsigned i = 0; i < message->append_entries.n_entries; i++) {
            f->entries[i].term = i == 0 ? 1 : term;
            f->entries[i].type = (enum raft_entry_type)(1 + prng_below(prng, 3));
            f->entries[i].buf = (struct raft_buffer){f->conf.data, f->conf.len};
            if (f->entries[i].type != RAFT_CHANGE) {
                f->entries[i].buf.len = (size_t)prng_below(prng, f->conf.len);
            }
        }
        break;
    case RAFT_APPEND_ENTRIES_RESULT:
        message->append_entries_result = (struct raft_append_entries_result){
            2, term, prng_below(prng, 9), prng_next(prng) >> 2, (unsigned short)term, 1};
        break;
    case RAFT_REQUEST_VOTE:
        message->request_vote = (struct raft_request_vote){2,
                                                           term,
                                                           1 + prng_below(prng, LIMIT_NODE_ID),
                                                           prng_next(prng) >> 2,
                                                           prng_below(prng, term + 1),
                                                           prng_below(prng, 2) == 1,
                                                           prng_below(prng, 2) == 1};
        break;
    case RAFT_REQUEST_VOTE_RESULT:
        message->request_vote_result = (struct raft_request_vote_result){
            2, term, prng_below(prng, 2) == 1, prng_below(prng, 2) == 1, 3, 4};
        break;
    case RAFT_INSTALL_SNAPSHOT:
        memset(&message->install_snapshot, 0, sizeof message->install_snapshot);
        message->install_snapshot.term = term;
        message->install_snapshot.last_index = 100 + prng_below(prng, 100);
        message->install_snapshot.last_term = term;
        message->install_snapshot.conf_index = 1 + prng_below(prng, 100);
        conf_add(&message->install_snapshot.conf, 1 + prng_below(prng, 9), "n:1", RAFT_VOTER);
        break;
    case RAFT_TIMEOUT_NOW:
        message->timeout_now = (struct raft_timeout_now){0, term, prng_next(prng) >> 2, 1};
        break;
    }
}

static void random_message_free(struct append_fixture *f)
{
    if (f->message.type == RAFT_INSTALL_SNAPSHOT) {
        raft_configuration_close(&f->message.install_snapshot.conf);
    }
}

static void test_random_round_trips(void **state)
{
    struct append_fixture f;
    struct buf again = BUF_INIT;
    struct buf buf = BUF_INIT;
    struct prng prng;

    (void)state;
    append_fixture_init(&f);
    prng_seed(&prng, 20261120);
    for (int i = 0; i < 5000; i++) {
        struct raft_message decoded;
        uint64_t got_transfer;
        uint64_t transfer;

        random_message(&prng, &f, &transfer);
        encode_anew(&f.message, transfer, &buf);
        assert_int_equal(decode_exact(&buf, &decoded, &got_transfer), 0);
        assert_int_equal(got_transfer, transfer);
        encode_anew(&decoded, got_transfer, &again);
        assert_int_equal(again.len, buf.len);
        assert_memory_equal(again.data, buf.data, buf.len);
        message_release(&decoded);
        random_message_free(&f);
    }
    buf_free(&again);
    buf_free(&buf);
    append_fixture_free(&f);
}

/* Change, drop or add a few bytes. */
static void mutate(struct prng *prng, struct buf *buf)
{
    const uint64_t count = 1 + prng_below(prng, 4);

    for (uint64_t i = 0; i < count && buf->len > 0; i++) {
        const size_t at = (size_t)prng_below(prng, buf->len);
        const uint64_t how = prng_below(prng, 8);

        if (how == 0) {
            buf->len = at;
        } else if (how == 1) {
            buf_put_u8(buf, (uint8_t)prng_next(prng));
        } else if (how < 5) {
            buf->data[at] ^= (uint8_t)(1U << prng_below(prng, 8));
        } else {
            buf->data[at] = (uint8_t)(how == 5 ? 0 : how == 6 ? 255 : prng_next(prng));
        }
    }
}

/* What was accepted is inside the rules, shown by encoding it (which asserts them) to the same
 * bytes. */
/* Shows P7-log. */
static void test_mutations_are_refused_or_sane(void **state)
{
    struct append_fixture f;
    struct buf again = BUF_INIT;
    struct buf buf = BUF_INIT;
    struct prng prng;
    unsigned accepted = 0;

    (void)state;
    append_fixture_init(&f);
    prng_seed(&prng, 4711);
    for (int i = 0; i < 100000; i++) {
        struct raft_message decoded;
        uint64_t transfer;
        int rv;

        random_message(&prng, &f, &transfer);
        encode_anew(&f.message, transfer, &buf);
        random_message_free(&f);
        mutate(&prng, &buf);
        rv = decode_exact(&buf, &decoded, &transfer);
        assert_true(rv == 0 || rv == ERR_BAD_MESSAGE);
        if (rv == 0) {
            accepted++;
            encode_anew(&decoded, transfer, &again);
            assert_int_equal(again.len, buf.len);
            assert_memory_equal(again.data, buf.data, buf.len);
            message_release(&decoded);
        }
    }
    assert_true(accepted > 1000 && accepted < 99000);
    buf_free(&again);
    buf_free(&buf);
    append_fixture_free(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_round_trips),
        cmocka_unit_test(test_mutations_are_refused_or_sane),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
