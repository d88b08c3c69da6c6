/*
 * raft_core.h - the consensus core alone, without driver and guards, for tests that show what it
 * does by itself; and the small parts of scenarios that both it and the driver (raft_bench.h) start
 * from.
 *
 * Thread: the test's.
 */
#ifndef LEAFD_RAFT_CORE_TESTS_RAFT_CORE_H
#define LEAFD_RAFT_CORE_TESTS_RAFT_CORE_H

#include <raft.h>

#include "raft/core/tests/core_noop.h"
#include "src/base/buf.h"

#define BOOT_MS 1000 /* the clock at a start */
#define BOOT_ELECTION_MS 1000
#define BOOT_HEARTBEAT_MS 100

/* How a server starts: a log of entries 1..last, entry 1 the configuration (term 1), the others
 * commands of last_term. Servers are 1..servers with these roles. */
struct boot {
    uint64_t id;
    uint64_t term;
    uint64_t vote;
    uint64_t last;
    uint64_t last_term;
    uint64_t applied; /* state on disk; 0: none */
    uint64_t first;   /* the log begins here; 0: at 1. At most applied + 1 */
    unsigned servers;
    const int *roles;
};

extern const int THREE_VOTERS[3];

/* A configuration of servers 1..n ("s1", "s2", ...) in the core's encoding, appended. */
void conf_of_roles(const int *roles, unsigned n, struct buf *buf);
struct raft_configuration conf_decoded(const struct buf *buf);

/* An entry for a message: a command, or a change when conf is not NULL. */
struct raft_entry entry_of(raft_term term, const struct buf *conf);

struct raft_message append_of(raft_id from, raft_term term, raft_index prev, raft_term prev_term,
                              raft_index commit, struct raft_entry *entries, unsigned n);
struct raft_message append_result_of(raft_id from, raft_term term, raft_index rejected,
                                     raft_index last);
struct raft_message vote_of(raft_id from, raft_term term, raft_index last, raft_term last_term,
                            bool pre_vote);
struct raft_message vote_result_of(raft_id from, raft_term term, bool granted, bool pre_vote);

/* Of a snapshot of three voters; its configuration is the caller's to close. */
struct raft_message head_of(raft_id from, raft_term term, raft_index index, raft_term last_term);

struct core {
    struct raft raft;
    struct raft_update update; /* of the last step */
    raft_time now;
};

void core_start(struct core *core, const struct boot *boot);
void core_close(struct core *core);

/* One event at core->now; returns raft_step()'s result. Entries of the update are freed. */
int core_step(struct core *core, struct raft_event *event);

/* Give it a message as it came from the network, unguarded. Entries are copied. */
int core_receive(struct core *core, const struct raft_message *message);

int core_persisted(struct core *core, raft_index index);
int core_configuration(struct core *core, raft_index index, const struct buf *conf);
int core_submit(struct core *core, const struct buf *conf);

/* Let its timer fire when it is due. */
int core_timeout(struct core *core);

/* Follower to leader by the vote of server 2. */
void core_elect(struct core *core);

/* The first message of a type in the last update, or NULL. */
const struct raft_message *core_sent(const struct core *core, enum raft_message_type type);

#endif
