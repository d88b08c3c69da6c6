/*
 * cluster_command.h - the cluster's own commands, and what they and its rows consist of: its birth,
 * changes of its members, reports of its nodes, its level and its clock.
 *
 * The happy path: a command is written from its struct and read back into it, each by the table of
 * its fields; rows of the same structs likewise.
 *
 * Failure modes: reading a command gives ERR_BAD_MESSAGE, a row what row_read() does. Writing
 * asserts what reading checks. Thread: pure functions, any.
 */
#ifndef LEAFD_STATE_CODEC_CLUSTER_COMMAND_H
#define LEAFD_STATE_CODEC_CLUSTER_COMMAND_H

#include <stdbool.h>
#include <stdint.h>

#include "src/base/buf.h"
#include "src/base/err.h"
#include "src/base/fields.h"
#include "src/base/limits.h"
#include "src/state/codec/level.h"
#include "src/state/codec/session.h"

/*
 * --- birth: the birth of a cluster: what its first command says of it, for good. A cluster has one
 * birth, and every other cluster another one, whatever its name, its members and its secret are.
 *
 * The happy path: the first leader draws a uid, its command is committed, and from then on each
 * node says to each other which cluster it is of.
 */

/* A random UUID (version 4, RFC 9562), its two halves as numbers; zeros: none. */
struct uid {
    uint64_t high;
    uint64_t low;
};

#define UID_TEXT_BYTES 37 /* with its NUL */

/* Of 128 random bits, six of which are overwritten. */
struct uid uid_make(uint64_t high, uint64_t low);

static inline bool uid_is_none(const struct uid *uid)
{
    return uid->high == 0 && uid->low == 0;
}

static inline bool uid_equal(const struct uid *a, const struct uid *b)
{
    return a->high == b->high && a->low == b->low;
}

/* None, or one that uid_make() makes. */
bool uid_is_sound(const struct uid *uid);

/* "f81d4fae-7dec-41d0-a765-00a0c91e6bf6". Returns ret_text. */
const char *uid_text(const struct uid *uid, char ret_text[UID_TEXT_BYTES]);

struct birth {
    struct uid uid;
    uint64_t list_digest; /* of the first list of members, never 0 (raft/cluster/peers.h) */
    uint64_t wall_ms;     /* the clock of the leader that proposed it */
    uint16_t level;       /* in COMMAND_BIRTH_AT alone, else 0: the cluster begins at this level */
};

/* The lowest level that a cluster can be born at; below it is born at LEVEL_FIRST, and rises. */
#define BIRTH_LEVEL_MIN 3

/* Why a node that is not born yet waits for a member of its first list. */
enum birth_wait {
    BIRTH_WAIT_NONE, /* it does not: it has met it */
    BIRTH_WAIT_UNMET,
    BIRTH_WAIT_BORN, /* the log will come from there */
    BIRTH_WAIT_OTHER_LIST,
    BIRTH_WAIT_OTHER_CLUSTER,
    BIRTH_WAIT_OTHER_NODE /* at its address is one with another id */
};

/* "not met yet". Static memory. */
const char *birth_wait_text(enum birth_wait wait);

/* Its bytes, in COMMAND_BIRTH and in a row. */
extern const struct field birth_fields[4];

/* It has a uid, and a digest. birth: a struct birth. */
bool birth_is_sound(const void *birth);

/*
 * --- member: changes of the cluster's membership as the state machine knows them, and what an
 * operator may ask for: commands, requests, answers, and the bytes of each.
 *
 * The configuration itself (voters and standbys) is the consensus core's; it travels in
 * entries of its own. The state machine keeps what must outlive a leader: which change is under
 * way, and which node ids were removed and never come back.
 *
 * The happy path: the leader appends COMMAND_MEMBER_BEGIN; each leader from then on appends the
 * configurations that lead to its end; the one that completes it ends it in the state, too
 * (state_configured() in state.h).
 *
 * A change that cannot be completed is ended by COMMAND_MEMBER_END and stays visible
 * as given up until the next one begins.
 */

/* --- the change that is under way --- */

enum member_change_kind { MEMBER_ADD = 1, MEMBER_REMOVE = 2 };

struct member_change {
    uint8_t kind;     /* enum member_change_kind */
    bool force;       /* even if the voters that are left cannot all be reached */
    bool given_up;    /* ended without being completed */
    uint64_t node_id; /* of the node that is added or removed */
    uint64_t index;   /* of the entry that began it: distinguishes two changes */
    char address[LIMIT_ADDRESS_BYTES + 1]; /* of one that is added */
};

/* What begins and ends one. Result of both commands: a status_result. BEGIN: 0 (also when this very
 * change is under way), ERR_REMOVED (the id was removed and never comes back), ERR_EXISTS (another
 * change is under way); the removal of a node that is being added takes the place of that. END: 0,
 * or ERR_NOT_FOUND if that change is not under way (any more); given_up: else there was nothing
 * (left) to do. */

/* Its kind is known, and it has a node's id, and the address of one that is added. change: a struct
 * member_change. */
bool member_change_is_sound(const void *change);

/* Of its row. */
extern const struct row_format member_change_format;

/* --- a member that moves --- */

/* It is reached at this address from now on, whatever the configuration says. The result is a
 * status_result: 0, or ERR_REMOVED. */
struct member_move {
    uint64_t node_id;
    char address[LIMIT_ADDRESS_BYTES + 1];
};

/* move: a struct member_move. */
bool member_move_is_sound(const void *move);

/* Of its row, whose key holds the id. */
extern const struct row_format member_move_format;

/* --- where a node is, and what share of the work it is given --- */

#define PLACEMENT_LEVEL 3 /* of the cluster, for there to be any */
#define NODE_WEIGHT_DEFAULT 100
#define NODE_WEIGHT_MAX 1000

/* What a command sets of it. */
enum placement_set { PLACE_ZONE = 1 << 0, PLACE_WEIGHT = 1 << 1, PLACE_DRAINED = 1 << 2 };

/* A node that has no row has no zone, the default weight, and is not drained. */
struct placement {
    uint64_t node_id;
    uint8_t set; /* of a command: bits of enum placement_set; no part of a row */
    char zone[LIMIT_ZONE_BYTES + 1]; /* names of zone_check(); "": none */
    uint16_t weight;                 /* 0..NODE_WEIGHT_MAX: clients draw nodes by it */
    bool drained;                    /* it is to be given no new work */
};

/* Letters, digits, '.', '-' and '_', 1..LIMIT_ZONE_BYTES of them. */
bool zone_check(const char *zone, size_t len);

/* What it says may stand in a row. placement: a struct placement. */
bool placement_is_sound(const void *placement);

/* Of its row, whose key holds the id. */
extern const struct row_format placement_format;

/* --- clients that are cut --- */

#define CUT_LEVEL 3 /* of the cluster, for there to be any */

/* Nothing is handed out to this client, on any node, before that time of the cluster's clock. */
struct client_cut {
    char who[LIMIT_CUT_WHO_BYTES + 1]; /* as proxy_network() writes an address; or a token's name */
    uint64_t until_ms;                 /* Unix; 0, in a command: the cut ends now */
    char reason[LIMIT_TAG_REASON_BYTES + 1]; /* for the client; "": none */
    char by[LIMIT_TOKEN_NAME_BYTES + 1];     /* who asked for it */
};

struct client_cuts {
    size_t count;
    struct client_cut items[LIMIT_CUTS]; /* in no order */
};

/* Texts without control characters, a name that is not empty. cut: a struct client_cut. */
bool client_cut_is_sound(const void *cut);

/* Of its row, whose key holds the name. */
extern const struct row_format client_cut_format;

/* A member of a configuration. */
struct member {
    uint64_t node_id;
    bool voter;
};

/* NULL: it is none. */
static inline const struct member *member_find(const struct member *members, size_t count,
                                               uint64_t node_id)
{
    for (size_t i = 0; i < count; i++) {
        if (members[i].node_id == node_id) {
            return &members[i];
        }
    }
    return NULL;
}

/* --- what an operator asks the leader --- */

enum member_ask_kind {
    MEMBER_ASK_ADD = 1,
    MEMBER_ASK_REMOVE = 2,
    MEMBER_ASK_LEAD = 3,
    MEMBER_ASK_MOVE = 4,
    MEMBER_ASK_LEVEL = 8,     /* that the cluster's level be raised (raft/cluster/membership.h) */
    MEMBER_ASK_LEVEL_SEE = 9, /* whether it could be */
    MEMBER_ASK_PLACE = 20     /* that a node be drained, resumed, or given another weight */
};

struct member_ask {
    uint8_t kind; /* enum member_ask_kind */
    bool force;
    bool again;       /* repeated by the node that waits for it: may not begin what was given up */
    uint16_t level;   /* LEVEL only, else 0 */
    uint64_t node_id; /* but for the level, then 0 */
    char address[LIMIT_ADDRESS_BYTES + 1]; /* ADD and MOVE only, else "" */
    /* PLACE only, else zeros: as of struct placement */
    uint8_t place;
    uint16_t weight;
    bool drained;
    struct session_stamp stamp; /* of the node that asks; the command that begins a change bears it,
                                   so that no late copy of what was asked can begin one. Encoded
                                   empty, stamped as a command is (session_stamp_put()) */
};

void member_ask_encode(const struct member_ask *ask, struct buf *buf);
int member_ask_decode(const void *data, size_t len, struct member_ask *ret_ask) MUST_CHECK;

/* Numbers are on the wire; new ones go at the end. */
enum member_outcome {
    MEMBER_DONE = 0,           /* it is so */
    MEMBER_PENDING = 1,        /* begun, not completed */
    MEMBER_IN_PROGRESS = 2,    /* another change is under way */
    MEMBER_UNKNOWN = 3,        /* no member has this id */
    MEMBER_WAS_REMOVED = 4,    /* the id was removed and never comes back */
    MEMBER_EXISTS = 5,         /* the id is a member's with another address */
    MEMBER_ADDRESS_IN_USE = 6, /* by another member */
    MEMBER_LAST_VOTER = 7,
    MEMBER_TOO_MANY = 8,
    MEMBER_NOT_VOTER = 9,
    MEMBER_UNREACHABLE = 10,
    MEMBER_NOT_CAUGHT_UP = 11,
    MEMBER_NO_QUORUM = 12,  /* would leave too few voters that can be reached */
    MEMBER_GIVEN_UP = 13,   /* it was tried for long enough */
    MEMBER_IN_THE_WAY = 16, /* of the level: members that do not speak the next one */
    MEMBER_NOT_NEXT = 17,   /* the level rises one by one */
    MEMBER_LAST_READY = 28  /* no other node is ready to take its work */
};
#define MEMBER_OUTCOMES 29

struct member_answer {
    uint8_t outcome; /* enum member_outcome */
    char why[400];   /* a sentence with the values; NUL-terminated */
};

void member_answer_encode(const struct member_answer *answer, struct buf *buf);
int member_answer_decode(const void *data, size_t len, struct member_answer *ret_answer) MUST_CHECK;

/* Is it "host:port" or "[IPv6]:port" that other machines may dial: no wildcard, a port from 1 to
 * 65535, no characters that no host has? On false *ret_why says what is wrong. */
bool member_address_check(const char *address, size_t len, const char **ret_why);

/*
 * --- cluster_command: the cluster's own commands: what the log says of nodes, members, the level,
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
 * Reading gives ERR_BAD_MESSAGE also for the machine's commands. What the values may be is the
 * state's to judge; here the form counts.
 */

/* After each, the struct that its bytes are written from and read into. The other numbers are the
 * machine's. */
enum cluster_command_type {
    COMMAND_NOOP = 1,          /* none: start of a leader's term; or all it carries is its stamp */
    COMMAND_NODE_INFO = 5,     /* node_info */
    COMMAND_DIGEST = 6,        /* digest_command: the proposer's digest at an applied index */
    COMMAND_CLOCK = 8,         /* clock_command */
    COMMAND_BIRTH = 15,        /* birth: without a stamp, of a leader that knows of none */
    COMMAND_LEVEL = 16,        /* level_command */
    COMMAND_MEMBER_BEGIN = 17, /* member_change */
    COMMAND_MEMBER_END = 18,   /* member_change: index and given_up */
    COMMAND_MEMBER_MOVE = 19,  /* member_move */
    COMMAND_PLACEMENT = 36,    /* placement: what its `set` names; a zone is said by the node */
    COMMAND_CUT = 37,          /* client_cut */
    COMMAND_BIRTH_AT = 56      /* birth, which brings the cluster its level with it */
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
    uint64_t
        store_id; /* random, made with the directory: distinguishes a wiped node from the old one */
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
        struct placement placement;
        struct client_cut cut;
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
 * COMMAND_LEVEL or a COMMAND_BIRTH_AT the one that it names, else 0. */
uint16_t command_raises_to(const void *data, size_t len);

#endif
