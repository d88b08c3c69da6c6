/*
 * configuration.c - see configuration.h.
 *
 * {u8 version 1, u64 count, count times {u64 id, address with its NUL, u8 role}, zeros up to a
 * multiple of 8}. The library's decoder runs past the end of a short or unterminated one, and keeps
 * what it had read when it fails; so nothing goes to it that did not pass here.
 */
#include "raft/wire/configuration.h"

#include <string.h>

#include "src/base/assert.h"

#define CONFIGURATION_VERSION 1
#define CONFIGURATION_ALIGN 8

void configuration_encode(const struct configuration *configuration, struct buf *buf)
{
    size_t start = buf->len;

    ASSERT(configuration->count <= LIMIT_NODES);
    buf_put_u8(buf, CONFIGURATION_VERSION);
    buf_put_u64(buf, configuration->count);
    MEMBER_FOREACH (member, configuration) {
        ASSERT(member->id > 0 && member->role >= ROLE_STANDBY && member->role <= ROLE_SPARE);
        buf_put_u64(buf, member->id);
        buf_put(buf, member->address, strlen(member->address) + 1);
        buf_put_u8(buf, (uint8_t)member->role);
    }
    while ((buf->len - start) % CONFIGURATION_ALIGN != 0) {
        buf_put_u8(buf, 0);
    }
}

/* The next member, or a bad reader. */
static void read_member(struct reader *reader, struct conf_member *ret_member)
{
    size_t left;
    const uint8_t *address;
    const uint8_t *end;
    size_t len;

    ret_member->id = reader_u64(reader);
    left = reader_left(reader);
    address = left > 0 ? reader->data + reader->at : NULL;
    end = address != NULL ? memchr(address, 0, left) : NULL;
    if (end == NULL || end - address > LIMIT_ADDRESS_BYTES) {
        reader->bad = true;
        return;
    }
    len = (size_t)(end - address) + 1;
    (void)reader_bytes(reader, len);
    memcpy(ret_member->address, address, len);
    ret_member->role = (enum conf_role)reader_u8(reader);
    if (ret_member->id < 1 || ret_member->id > LIMIT_NODE_ID || ret_member->role > ROLE_SPARE) {
        reader->bad = true;
    }
}

/* Ids and addresses once each, and a voter. The library's decoder refuses a second use of
 * an address as well. */
static bool members_fit(const struct configuration *configuration)
{
    MEMBER_FOREACH (member, configuration) {
        MEMBER_FOREACH (other, configuration) {
            if (other != member &&
                (other->id == member->id || strcmp(other->address, member->address) == 0)) {
                return false;
            }
        }
    }
    return configuration_voters(configuration) > 0;
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

int configuration_decode(const void *data, size_t len, struct configuration *ret_configuration)
{
    struct reader reader;
    uint64_t count;

    reader_init(&reader, data, len);
    if (reader_u8(&reader) != CONFIGURATION_VERSION) {
        return ERR_BAD_MESSAGE;
    }
    count = reader_u64(&reader);
    if (reader.bad || count > LIMIT_NODES) { /* none: there is no voter, see above */
        return ERR_BAD_MESSAGE;
    }
    ret_configuration->count = (unsigned)count;
    for (unsigned i = 0; i < count && !reader.bad; i++) {
        read_member(&reader, &ret_configuration->members[i]);
    }
    if (reader.bad || !padding_fits(&reader) || !members_fit(ret_configuration)) {
        return ERR_BAD_MESSAGE;
    }
    return 0;
}

int configuration_check(const void *data, size_t len)
{
    struct configuration configuration;

    return configuration_decode(data, len, &configuration);
}

void configuration_add(struct configuration *configuration, uint64_t id, const char *address,
                       enum conf_role role)
{
    struct conf_member *member = &configuration->members[configuration->count];
    size_t len = strlen(address);

    ASSERT(configuration->count < LIMIT_NODES && len <= LIMIT_ADDRESS_BYTES);
    member->id = id;
    member->role = role;
    memcpy(member->address, address, len + 1);
    configuration->count++;
}

const struct conf_member *configuration_find(const struct configuration *configuration, uint64_t id)
{
    MEMBER_FOREACH (member, configuration) {
        if (member->id == id) {
            return member;
        }
    }
    return NULL;
}

enum conf_role configuration_role(const struct configuration *configuration, uint64_t id)
{
    const struct conf_member *member = configuration_find(configuration, id);

    return member != NULL ? member->role : ROLE_GONE;
}

unsigned configuration_voters(const struct configuration *configuration)
{
    unsigned voters = 0;

    MEMBER_FOREACH (member, configuration) {
        voters += member->role == ROLE_VOTER;
    }
    return voters;
}
