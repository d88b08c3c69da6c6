/*
 * cluster_command.h - the cluster's own commands, and the parts of these and of its rows: its
 * birth, changes of its members, reports of its nodes, its level and its clock.
 *
 * The happy path: a command is written from its struct and read back into it, each by the table of
 * its fields; rows of the same structs likewise.
 *
 * Failure modes: reading a command gives ERR_BAD_MESSAGE, reading a row the errors of row_read().
 * Writing asserts what reading checks. Thread: pure functions, any.
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
 * --- birth: the birth of a cluster, fixed for good by its first command, with a uid that the first
 * leader draws. No two clusters have the same birth, whatever their names, members and secrets are.
 */

/* A random UUID (version 4, RFC 9562), its two halves as numbers; zeros: none. */
struct uid {
    uint64_t high;
    uint64_t low;
};

#define UID_TEXT_BYTES 37 /* with its NUL */

/* Of 128 random bits. */
struct uid uid_make(uint64_t high, uint64_t low);

static inline bool uid_is_none(const struct uid *uid)
{
    return uid->high == 0 && uid->low == 0;
}

static inline bool uid_equal(const struct uid *a, const struct uid *b)
{
    return a->high == b->high && a->low == b->low;
}

/* Is it none, or one made by uid_make()? */
bool uid_is_sound(const struct uid *uid);

/* "f81d4fae-7dec-41d0-a765-00a0c91e6bf6". Returns ret_text. */
const char *uid_text(const struct uid *uid, char ret_text[UID_TEXT_BYTES]);

struct birth {
    struct uid uid;
    uint64_t list_digest; /* of the first list of members, never 0 (raft/cluster/peers.h) */
    uint64_t wall_ms;     /* the clock of the leader that proposed it */
    uint16_t level;       /* in COMMAND_BIRTH_AT alone, else 0: the cluster begins at this level */
};

/* The lowest level that a cluster can be born at; below it a cluster is born at LEVEL_FIRST, and
 * rises. */
#define BIRTH_LEVEL_MIN 3

/* Why a node that is not born yet waits for a member of its first list. */
enum birth_wait {
    BIRTH_WAIT_NONE, /* it does not wait: it has met it */
    BIRTH_WAIT_UNMET,
    BIRTH_WAIT_BORN, /* the log will come from there */
    BIRTH_WAIT_OTHER_LIST,
    BIRTH_WAIT_OTHER_CLUSTER,
    BIRTH_WAIT_OTHER_NODE /* the node at its address has another id */
};

/* "not met yet". Static memory. */
const char *birth_wait_text(enum birth_wait wait);

/* Its bytes, in COMMAND_BIRTH and in a row. _is_sound: does it have a uid and a digest? */
extern const struct field birth_fields[4];
bool birth_is_sound(const void *birth);

/*
 * --- member: changes of the cluster's membership as the state machine knows them, and an
 * operator's requests.
 *
 * The configuration itself (voters and standbys) belongs to the consensus core, and has entries of
 * its own. The leader appends COMMAND_MEMBER_BEGIN, and each leader from then on the configurations
 * that lead to the change's goal. The one that completes the change also ends it in the state
 * (state_configured() in state.h). A change that cannot be completed is ended by COMMAND_MEMBER_END
 * and stays visible as given up until the next one begins.
 */

enum member_change_kind { MEMBER_ADD = 1, MEMBER_REMOVE = 2 };

struct member_change {
    uint8_t kind;                          /* enum member_change_kind */
    bool force;                            /* even if not all remaining voters can be reached */
    bool given_up;                         /* ended without being completed */
    uint64_t node_id;                      /* of the node added or removed */
    uint64_t index;                        /* of the entry that began it; distinguishes changes */
    char address[LIMIT_ADDRESS_BYTES + 1]; /* of one that is added */
};

/* Begins and ends a change. Result of both commands: a status_result. BEGIN: 0 (also when this very
 * change is under way), ERR_REMOVED (the id was removed and never comes back), ERR_EXISTS (another
 * change is under way); the removal of a node that is being added replaces its addition. END: 0, or
 * ERR_NOT_FOUND if that change is not under way (any more); given_up false: there was nothing
 * (left) to do. */

/* The format of its row. */
extern const struct row_format member_change_format;

/* The member's address from now on, in place of the configuration's. The result is a status_result:
 * 0, or ERR_REMOVED. */
struct member_move {
    uint64_t node_id;
    char address[LIMIT_ADDRESS_BYTES + 1];
};

/* Its check, and the format of its row; the key holds the id. */
bool member_move_is_sound(const void *move);
extern const struct row_format member_move_format;

/* --- a node's place, and its share of the work --- */

#define PLACEMENT_LEVEL 3 /* level of the cluster that allows placements */
#define NODE_WEIGHT_DEFAULT 100
#define NODE_WEIGHT_MAX 1000

/* The fields that a command sets. */
enum placement_set { PLACE_ZONE = 1 << 0, PLACE_WEIGHT = 1 << 1, PLACE_DRAINED = 1 << 2 };

/* A node that has no row has no zone, the default weight, and is not drained. */
struct placement {
    uint64_t node_id;
    uint8_t set; /* of a command: bits of enum placement_set; no part of a row */
    char zone[LIMIT_ZONE_BYTES + 1]; /* names of zone_check(); "": none */
    uint16_t weight;                 /* 0..NODE_WEIGHT_MAX: clients draw nodes by it */
    bool drained;                    /* it must get no new work */
};

/* Letters, digits, '.', '-' and '_', 1..LIMIT_ZONE_BYTES of them. */
bool zone_check(const char *zone, size_t len);

/* May its fields be in a row? And the format of that; the key holds the id. */
bool placement_is_sound(const void *placement);
extern const struct row_format placement_format;

/* --- clients that are cut --- */

#define CUT_LEVEL 3 /* level of the cluster that allows cuts */

/* No node hands out ids to this client before that time of the cluster's clock. */
struct client_cut {
    char who[LIMIT_CUT_WHO_BYTES + 1]; /* as proxy_network() writes an address; or a token's name;
                                          not empty. No text has control characters */
    uint64_t until_ms;                 /* Unix; 0, in a command: the cut ends now */
    char reason[LIMIT_TAG_REASON_BYTES + 1]; /* for the client; "": none */
    char by[LIMIT_TOKEN_NAME_BYTES + 1];     /* the token that requested it */
};

struct client_cuts {
    size_t count;
    struct client_cut items[LIMIT_CUTS]; /* in no order */
};

/* The format of its row; the key holds the name. */
extern const struct row_format client_cut_format;

/* --- the members of a cluster --- */

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

/* A member at the end. The count must be below LIMIT_NODES. */
void configuration_add(struct configuration *configuration, uint64_t id, const char *address,
                       enum conf_role role);

/* NULL if it is no member. */
const struct conf_member *configuration_find(const struct configuration *configuration,
                                             uint64_t id);

/* ROLE_GONE if it is no member. */
enum conf_role configuration_role(const struct configuration *configuration, uint64_t id);

unsigned configuration_voters(const struct configuration *configuration);

/* --- an operator's requests to the leader --- */

enum member_ask_kind {
    MEMBER_ASK_ADD = 1,
    MEMBER_ASK_REMOVE = 2,
    MEMBER_ASK_LEAD = 3,
    MEMBER_ASK_MOVE = 4,
    MEMBER_ASK_LEVEL = 8,     /* raise the cluster's level (raft/cluster/membership.h) */
    MEMBER_ASK_LEVEL_SEE = 9, /* could it be raised? */
    MEMBER_ASK_PLACE = 20     /* drain or resume a node, or set its weight */
};

struct member_ask {
    uint8_t kind; /* enum member_ask_kind */
    bool force;
    bool again;       /* repeated by the waiting node: must not begin a change that was given up */
    uint16_t level;   /* LEVEL only, else 0 */
    uint64_t node_id; /* 0 for the level */
    char address[LIMIT_ADDRESS_BYTES + 1]; /* ADD and MOVE only, else "" */
    /* PLACE only, else zeros; as in struct placement */
    uint8_t place;
    uint16_t weight;
    bool drained;
    struct session_stamp stamp; /* of the node that asks; the command that begins a change bears it,
                                   so that no late copy of the request can begin one. Encoded empty,
                                   stamped as a command is (session_stamp_put()) */
};

void member_ask_encode(const struct member_ask *ask, struct buf *buf);
int member_ask_decode(const void *data, size_t len, struct member_ask *ret_ask) MUST_CHECK;

/* Members that a node does not know to have applied an entry. */
struct missing_members {
    size_t count;
    struct {
        uint64_t id;
        bool reachable;       /* the node has a link to it */
    } nodes[LIMIT_NODES + 1]; /* also the node itself, if it is no longer a member */
};

/* Numbers are on the wire; new ones go at the end. */
enum member_outcome {
    MEMBER_DONE = 0,           /* it is done */
    MEMBER_PENDING = 1,        /* begun, not completed */
    MEMBER_IN_PROGRESS = 2,    /* another change is under way */
    MEMBER_UNKNOWN = 3,        /* no member has this id */
    MEMBER_WAS_REMOVED = 4,    /* the id was removed and never comes back */
    MEMBER_EXISTS = 5,         /* the id is in use by a member with another address */
    MEMBER_ADDRESS_IN_USE = 6, /* by another member */
    MEMBER_LAST_VOTER = 7,
    MEMBER_TOO_MANY = 8,
    MEMBER_NOT_VOTER = 9,
    MEMBER_UNREACHABLE = 10,
    MEMBER_NOT_CAUGHT_UP = 11,
    MEMBER_NO_QUORUM = 12,  /* would leave too few voters that can be reached */
    MEMBER_GIVEN_UP = 13,   /* it was tried for too long */
    MEMBER_IN_THE_WAY = 16, /* of the level: some members do not speak the next one */
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

/* Is it "host:port" or "[IPv6]:port" that other machines can dial: no wildcard, a port from 1 to
 * 65535, only characters of host names? On false *ret_why names the error. */
bool member_address_check(const char *address, size_t len, const char **ret_why);

/*
 * --- cluster_command: the cluster's own commands, about its nodes, members, level, clock and
 * birth, whatever else it replicates. The machine's commands (machine.h) have other types.
 *
 * Only the form is checked here; the state judges the values.
 */

/* After each type, the struct that its bytes are written from and read into. The other numbers are
 * the machine's. */
enum cluster_command_type {
    COMMAND_NOOP = 1,          /* none: start of a leader's term, or only a stamp */
    COMMAND_NODE_INFO = 5,     /* node_info */
    COMMAND_DIGEST = 6,        /* digest_command: the proposer's digest at an applied index */
    COMMAND_CLOCK = 8,         /* clock_command */
    COMMAND_BIRTH = 15,        /* birth: without a stamp, of a leader that knows no birth */
    COMMAND_LEVEL = 16,        /* level_command */
    COMMAND_MEMBER_BEGIN = 17, /* member_change */
    COMMAND_MEMBER_END = 18,   /* member_change: index and given_up */
    COMMAND_MEMBER_MOVE = 19,  /* member_move */
    COMMAND_PLACEMENT = 36,    /* placement: the fields in its `set`; nodes set zones themselves */
    COMMAND_CUT = 37,          /* client_cut */
    COMMAND_BIRTH_AT = 56      /* birth with the cluster's level */
};

/* The median of the nodes' clocks as its proposer sees it. The log's time is the highest so far,
 * but a step of more than a day is cut to a day. */
struct clock_command {
    uint64_t cluster_ms;
};

struct digest_command {
    uint64_t index;
    uint64_t digest;
};

/* A node's report of itself. Its form: id in range, texts of UTF-8 and short enough, an address
 * that others can dial. */
struct node_info {
    uint64_t node_id;
    uint64_t
        store_id; /* random, made with the directory: distinguishes a wiped node from the old one */
    char http_address[LIMIT_ADDRESS_BYTES + 1];
    char version[32];
    char peer_address[LIMIT_ADDRESS_BYTES + 1]; /* its address for peers; "": as before */
    struct level_range levels;                  /* spoken by it */
    uint64_t incarnation;                       /* the start of the node that reports */
};

/* The format of its row; the key holds the id. */
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

/* Write a command, into an empty buf, from the type's struct; NULL if the type writes no fields. */
void cluster_command_put(struct buf *buf, enum cluster_command_type type, const void *record);

/* The level that the cluster needs for a command of this type to be appended, or to have an effect
 * when applied; 0: there is no such type. */
uint16_t cluster_command_since(int type);

/* 0 with a well-formed command, or ERR_BAD_MESSAGE, also for the machine's. */
int cluster_command_read(const void *data, size_t len,
                         struct cluster_command *ret_command) MUST_CHECK;

/* The level that the cluster has at least after this command: the one named by a COMMAND_LEVEL or a
 * COMMAND_BIRTH_AT, else 0. */
uint16_t command_raises_to(const void *data, size_t len);

#endif
