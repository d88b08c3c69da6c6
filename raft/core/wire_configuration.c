/*
 * wire_configuration.c - checks an encoded cluster configuration before the consensus core decodes
 * it.
 *
 * The encoding is the core's own (raft_configuration_encode): {u8 version 1, u64 count, count times
 * {u64 id, address with its NUL, u8 role}, zeros up to a multiple of 8}. The core's decoder runs
 * past the end of a short or unterminated one, and keeps what it had read when it fails; so nothing
 * goes to it that did not pass here.
 *
 * Failure modes: anything unusual is ERR_BAD_MESSAGE; there is no partial result.
 *
 * Thread: pure functions, any.
 */
#include "raft/wire/wire.h"

#include <string.h>

#include "raft/wire/wire_check.h"
#include "src/base/assert.h"
#include "src/base/limits.h"

#define CONFIGURATION_VERSION 1
#define CONFIGURATION_ALIGN 8

/* A server as read; the address points into the encoding. */
struct server_view {
    uint64_t id;
    const char *address;
    int role;
};

static void read_server(struct reader *reader, struct server_view *ret_server);
static bool servers_fit(const struct server_view *servers, size_t count);
static bool padding_fits(struct reader *reader);

int wire_configuration_check(const void *data, size_t len)
{
    struct server_view servers[LIMIT_NODES];
    struct reader reader;
    uint64_t count;

    reader_init(&reader, data, len);
    wire_require(&reader, reader_u8(&reader) == CONFIGURATION_VERSION);
    count = reader_u64(&reader);
    if (count > LIMIT_NODES) { /* none: there is nobody to vote, see below */
        return ERR_BAD_MESSAGE;
    }
    for (size_t i = 0; i < count; i++) {
        read_server(&reader, &servers[i]);
    }
    if (reader.bad || !padding_fits(&reader) || !servers_fit(servers, (size_t)count)) {
        return ERR_BAD_MESSAGE;
    }
    return 0;
}

/* The next server, or a bad reader. */
static void read_server(struct reader *reader, struct server_view *ret_server)
{
    const uint8_t *address;
    const uint8_t *end;
    size_t left;

    *ret_server = (struct server_view){0, "", 0};
    ret_server->id = reader_u64(reader);
    left = reader_left(reader);
    address = left > 0 ? reader->data + reader->at : NULL;
    end = address != NULL ? memchr(address, 0, left) : NULL;
    if (end == NULL || end - address > LIMIT_ADDRESS_BYTES) {
        reader->bad = true;
        return;
    }
    (void)reader_bytes(reader, (size_t)(end - address) + 1);
    ret_server->address = (const char *)address;
    ret_server->role = reader_u8(reader);
}

/* Ids and addresses once each, known roles, and somebody to vote. The core's decoder refuses a
 * second use of an address as well. */
static bool servers_fit(const struct server_view *servers, size_t count)
{
    size_t voter_count = 0;

    ASSERT(count <= LIMIT_NODES);
    for (size_t i = 0; i < count; i++) {
        if (servers[i].id == 0 || servers[i].id > LIMIT_NODE_ID || servers[i].role > RAFT_SPARE) {
            return false;
        }
        voter_count += servers[i].role == RAFT_VOTER;
        for (size_t j = 0; j < i; j++) {
            if (servers[j].id == servers[i].id ||
                strcmp(servers[j].address, servers[i].address) == 0) {
                return false;
            }
        }
    }
    return voter_count > 0;
}

/* What is left must be the zeros up to the next multiple of 8: one encoding for one configuration.
 */
static bool padding_fits(struct reader *reader)
{
    if (reader->len % CONFIGURATION_ALIGN != 0 || reader_left(reader) >= CONFIGURATION_ALIGN) {
        return false;
    }
    while (reader_left(reader) > 0) {
        if (reader_u8(reader) != 0) {
            return false;
        }
    }
    return true;
}
