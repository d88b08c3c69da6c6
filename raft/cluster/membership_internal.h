/*
 * membership_internal.h - what membership.c (steps) and membership_ask.c (answers) share.
 *
 * Thread: the raft loop.
 */
#ifndef LEAFD_RAFT_CLUSTER_MEMBERSHIP_INTERNAL_H
#define LEAFD_RAFT_CLUSTER_MEMBERSHIP_INTERNAL_H

#include "raft/cluster/membership.h"

struct voter_count {
    unsigned voters;
    unsigned reached; /* of these, this node counted */
};

/* Is there a link to it? To itself always. */
bool membership_reaches(const struct membership *membership, uint64_t node_id);

/* Would the voters that can be reached be a majority, with one more voter and without another (0:
 * none)? */
bool membership_keeps_quorum(const struct membership *membership, uint64_t with, uint64_t without,
                             struct voter_count *ret_count);

/* Propose the beginning of a change, unless a command is on its way. stamp: of who asked for it. */
void membership_begin(struct membership *membership, const struct member_change *change,
                      const struct session_stamp *stamp);

/* Begin to hand leadership over (0: to the voter that is furthest), unless that is under way or has
 * failed a moment ago. */
void membership_transfer(struct membership *membership, uint64_t to);

#endif
