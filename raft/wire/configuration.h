/*
 * configuration.h - which the members of a cluster are: a plain struct, and its bytes.
 *
 * The bytes are what a CHANGE entry, a snapshot's head and the store hold: the encoding of the
 * consensus library, which decodes the entries that it is given itself. Everybody else reads them
 * here, and all bounds are checked before anything is believed.
 *
 * The happy path: configuration_decode() of what a peer or the disk gave; configuration_find().
 *
 * Failure modes: bytes that break a rule are ERR_BAD_MESSAGE, with no partial result.
 *
 * Thread: pure functions, any.
 */
#ifndef LEAFD_RAFT_WIRE_CONFIGURATION_H
#define LEAFD_RAFT_WIRE_CONFIGURATION_H

#include "src/base/buf.h"
#include "src/base/err.h"
#include "src/base/limits.h"

enum conf_role {
    ROLE_GONE = -1, /* no member (any more); never in a configuration */
    ROLE_STANDBY = 0,
    ROLE_VOTER = 1,
    ROLE_SPARE = 2
};

struct conf_member {
    uint64_t id; /* 1..LIMIT_NODE_ID */
    enum conf_role role;
    char address[LIMIT_ADDRESS_BYTES + 1];
};

/* Ids and addresses once each. */
struct configuration {
    unsigned count;
    struct conf_member members[LIMIT_NODES];
};

/* Each member, in their order. conf is evaluated anew for each. */
#define MEMBER_FOREACH(member, conf)                                                               \
    for (__typeof__(&(conf)->members[0]) member = (conf)->members;                                 \
         member < (conf)->members + (conf)->count; member++)

/* Read one. 0, or ERR_BAD_MESSAGE for: short, long or not padded with zeros to a multiple of 8; a
 * version other than 1; no members or more than LIMIT_NODES; no voter; ids not in 1..LIMIT_NODE_ID
 * or twice; roles out of range; addresses above LIMIT_ADDRESS_BYTES or twice. What passes is
 * decoded by the library without an error. */
int configuration_decode(const void *data, size_t len,
                         struct configuration *ret_configuration) MUST_CHECK;

/* The same, for those that want the bytes alone. */
int configuration_check(const void *data, size_t len) MUST_CHECK;

/* Append the bytes of a configuration (of at most LIMIT_NODES members; it need not be sound). */
void configuration_encode(const struct configuration *configuration, struct buf *buf);

/* A member at the end. The count must be below LIMIT_NODES. */
void configuration_add(struct configuration *configuration, uint64_t id, const char *address,
                       enum conf_role role);

/* NULL if it is no member. */
const struct conf_member *configuration_find(const struct configuration *configuration,
                                             uint64_t id);

/* ROLE_GONE if it is no member. */
enum conf_role configuration_role(const struct configuration *configuration, uint64_t id);

unsigned configuration_voters(const struct configuration *configuration);

#endif
