/*
 * upgrade.h - on the leader: may the level of the cluster rise, who is in the way, and the command
 * that raises it (level.h, docs/versions.md).
 *
 * A member stands for a level once its row says that it speaks it, in the very start of it that
 * this leader last met: one that was started anew may run an older leafd. All members count,
 * standbys too; what is not known is a no. And while a node is being added, nobody knows what it
 * will run.
 *
 * The happy path: all members have stood for the next level for hold_ms, and all are reached: the
 * leader proposes COMMAND_LEVEL. Or somebody asks for it (upgrade_answer()): then at once.
 *
 * Failure modes: a member is in the way: nothing happens, and the answer names it. A new
 * leader begins to wait anew. A proposal that is lost is made again. One that could not be appended
 * yet when this node lost its lead, or when a member came to be in the way, is withdrawn: by the
 * time that it could be, another node, whose leafd is too old, may be a member.
 *
 * Thread: the raft loop.
 */
#ifndef LEAFD_RAFT_CLUSTER_UPGRADE_H
#define LEAFD_RAFT_CLUSTER_UPGRADE_H

#include "raft/cluster/context.h"
#include "src/state/codec/cluster_command.h"

struct upgrade_config {
    uint32_t hold_ms; /* that all members must have stood for the next level */
    bool automatic;   /* false: only when somebody asks */
};

struct upgrade {
    const struct raft_context *on;
    const struct upgrade_config *config;
    struct node_command command;
    uint16_t raising;  /* the level that the command in flight names */
    struct timer look; /* armed: there was one a moment ago */
    uint64_t ready_ms; /* all have stood for the level `ready` since then; 0: they do not */
    uint16_t ready;
};

void upgrade_init(struct upgrade *upgrade, const struct raft_context *on,
                  const struct upgrade_config *config);

/* Look, and raise it if it is time. Woken by its timer, its command, a member that is met, and what
 * wakes all. */
void upgrade_turn(struct upgrade *upgrade);

/* Is a command in flight that must not be appended any more (requests_withdraw())? To be asked
 * whenever the part is woken, before anything is appended. */
bool upgrade_is_void(const struct upgrade *upgrade);

/* On the leader, with everything applied: raise the level to ask->level (MEMBER_ASK_LEVEL), or only
 * say whether it could be raised (MEMBER_ASK_LEVEL_SEE): MEMBER_DONE, it could; MEMBER_NOT_NEXT, it
 * is the newest that any member speaks. */
void upgrade_answer(struct upgrade *upgrade, const struct member_ask *ask,
                    struct member_answer *ret_answer);

#endif
