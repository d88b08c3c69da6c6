/*
 * member.h - changes of the cluster's membership as the state machine knows them, and what an
 * operator may ask for: commands, requests, answers, and the bytes of each.
 *
 * The configuration itself (who votes, who stands by) is the consensus core's; it travels in
 * entries of its own. The state machine keeps what must outlive a leader: which change is under
 * way, and which node ids were removed and never come back.
 *
 * The happy path: the leader appends COMMAND_MEMBER_BEGIN; whoever leads from then on appends the
 * configurations that lead to its end; the one that completes it ends it in the state, too
 * (state_configured() in state.h).
 *
 * Failure modes: a change that cannot be completed is ended by COMMAND_MEMBER_END and stays visible
 * as given up until the next one begins.
 *
 * Thread: pure functions, any.
 */
#ifndef LEAFD_STATE_CODEC_MEMBER_H
#define LEAFD_STATE_CODEC_MEMBER_H

#include "src/base/buf.h"
#include "src/base/err.h"
#include "src/base/limits.h"
#include "src/state/codec/session.h"

/* --- the change that is under way --- */

enum member_change_kind { MEMBER_ADD = 1, MEMBER_REMOVE = 2 };

struct member_change {
    uint8_t kind;     /* enum member_change_kind */
    bool force;       /* even if the voters that are left cannot all be reached */
    bool given_up;    /* ended without being completed */
    uint64_t node_id; /* of the node that is added or removed */
    uint64_t index;   /* of the entry that began it: tells two changes apart */
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
    MEMBER_ASK_LEVEL = 8,    /* that the cluster's level be raised (raft/cluster/upgrade.h) */
    MEMBER_ASK_LEVEL_SEE = 9 /* whether it could be */
};

struct member_ask {
    uint8_t kind; /* enum member_ask_kind */
    bool force;
    bool again;       /* repeated by the node that waits for it: may not begin what was given up */
    uint16_t level;   /* LEVEL only, else 0 */
    uint64_t node_id; /* but for the level, then 0 */
    char address[LIMIT_ADDRESS_BYTES + 1]; /* ADD and MOVE only, else "" */
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
    MEMBER_NOT_NEXT = 17    /* the level rises one by one */
};
#define MEMBER_OUTCOMES 18

struct member_answer {
    uint8_t outcome; /* enum member_outcome */
    char why[400];   /* a sentence with the values; NUL-terminated */
};

void member_answer_encode(const struct member_answer *answer, struct buf *buf);
int member_answer_decode(const void *data, size_t len, struct member_answer *ret_answer) MUST_CHECK;

/* Is it "host:port" or "[IPv6]:port" that other machines may dial: no wildcard, a port from 1 to
 * 65535, no characters that no host has? On false *ret_why says what is wrong. */
bool member_address_check(const char *address, size_t len, const char **ret_why);

#endif
