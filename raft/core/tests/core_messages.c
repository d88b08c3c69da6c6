/*
 * core_messages.c - see core_messages.h. Thread: the test's.
 */
#include "raft/core/tests/core_messages.h"

#include <stdlib.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "raft/transport/tests/net_hex.h"

void conf_add(struct raft_configuration *conf, raft_id id, const char *address, int role)
{
    assert_int_equal(raft_configuration_add(conf, id, address, role), 0);
}

void conf_encode(const struct raft_configuration *conf, struct buf *buf)
{
    struct raft_buffer encoded;

    assert_int_equal(raft_configuration_encode(conf, &encoded), 0);
    buf_put(buf, encoded.base, encoded.len);
    raft_free(encoded.base);
}

void append_fixture_init(struct append_fixture *f)
{
    struct raft_configuration conf;

    memset(f, 0, sizeof *f);
    raft_configuration_init(&conf);
    conf_add(&conf, 1, "ab:1", RAFT_VOTER);
    conf_encode(&conf, &f->conf);
    raft_configuration_close(&conf);
    f->message.type = RAFT_APPEND_ENTRIES;
    f->message.append_entries = (struct raft_append_entries){0, 9, 50, 4, 49, f->entries, 2};
    f->entries[0] = (struct raft_entry){5, RAFT_COMMAND, {(void *)(uintptr_t) "xyz", 3}, NULL};
    f->entries[1] = (struct raft_entry){9, RAFT_CHANGE, {f->conf.data, f->conf.len}, NULL};
}

void append_fixture_free(struct append_fixture *f)
{
    buf_free(&f->conf);
}

void encode_anew(const struct raft_message *message, uint64_t transfer, struct buf *buf)
{
    buf_free(buf);
    message_encode(message, transfer, buf);
}

int decode_exact(const struct buf *buf, struct raft_message *ret_message, uint64_t *ret_transfer)
{
    static uint8_t *copy; /* entries point into it */

    free(copy);
    copy = exact_copy(buf->data, buf->len);
    return message_decode(copy, buf->len, ret_message, ret_transfer);
}
