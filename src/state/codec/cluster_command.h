/*
 * cluster_command.h - the cluster's own commands: what the log says of nodes, members, the level,
 * the clock and the birth of the cluster, whatever else it replicates. The machine's commands
 * (machine.h) have types of their own beside these.
 *
 * All are versioned (first byte), length-checked, little-endian, with golden bytes in
 * src/id/codec/tests/test_command.c. A command carries everything apply needs (whose it is, the
 * proposer's wall time): apply reads no clock, no random, no local configuration.
 *
 * The happy path: the proposer writes a command from its struct with cluster_command_put(), which
 * leaves the stamp (session.h) empty; cluster_command_read() gives the struct back.
 *
 * Failure modes: reading gives ERR_BAD_MESSAGE, also for the machine's commands. What the values
 * may be is the state's to judge; here the form counts. Thread: pure functions, any.
 */
#ifndef LEAFD_STATE_CODEC_CLUSTER_COMMAND_H
#define LEAFD_STATE_CODEC_CLUSTER_COMMAND_H

#include "src/state/codec/birth.h"
#include "src/state/codec/level.h"
#include "src/state/codec/member.h"
#include "src/state/codec/session.h"

/* Behind each, the struct that its bytes are written from and read into. The other numbers are the
 * machine's. */
enum cluster_command_type {
    COMMAND_NOOP = 1,          /* none: start of a leader's term; or all it carries is its stamp */
    COMMAND_NODE_INFO = 5,     /* node_info */
    COMMAND_DIGEST = 6,        /* digest_command: the proposer's digest at an applied index */
    COMMAND_CLOCK = 8,         /* clock_command */
    COMMAND_BIRTH = 15,        /* birth: nobody's, of a leader that knows of none */
    COMMAND_LEVEL = 16,        /* level_command */
    COMMAND_MEMBER_BEGIN = 17, /* member_change */
    COMMAND_MEMBER_END = 18,   /* member_change: index and given_up */
    COMMAND_MEMBER_MOVE = 19   /* member_move */
};

/* The median of the nodes' clocks as its proposer sees it; the log's time is the highest so far,
 * but a step ahead of more than a day is cut to a day. */
struct clock_command {
    uint64_t cluster_ms;
};

struct digest_command {
    uint64_t index;
    uint64_t digest;
};

/* What a node says of itself. Its form: id in range, texts of UTF-8 and short enough, an address
 * that others may dial. */
struct node_info {
    uint64_t node_id;
    uint64_t store_id; /* random, made with the directory: tells a wiped node from the old one */
    char http_address[LIMIT_ADDRESS_BYTES + 1];
    char version[32];
    char peer_address[LIMIT_ADDRESS_BYTES + 1]; /* where it wants to be reached; "": as before */
    struct level_range levels;                  /* that it speaks */
    uint64_t incarnation;                       /* the start of the node that says so */
};

/* Of its row, whose key holds the id. */
extern const struct row_format node_info_format;

struct cluster_command {
    enum cluster_command_type type;
    struct session_stamp stamp;
    union {
        struct node_info node;
        struct digest_command digest;
        struct clock_command clock;
        struct member_change change;
        struct member_move move;
        struct birth birth;
        struct level_command level;
    };
};

/* Write a command, into an empty buf, from the type's struct; NULL if nothing of it is written. */
void cluster_command_put(struct buf *buf, enum cluster_command_type type, const void *record);

/* The level that the cluster must have for a command of this type to be appended, or to do anything
 * when it is applied; 0: there is no such type. */
uint16_t cluster_command_since(int type);

/* 0 with a command that is well formed, or ERR_BAD_MESSAGE. */
int cluster_command_read(const void *data, size_t len,
                         struct cluster_command *ret_command) MUST_CHECK;

/* The level that the cluster has after this command at the latest, as far as it says: of a
 * COMMAND_LEVEL the one that it names, else 0. */
uint16_t command_raises_to(const void *data, size_t len);

#endif
