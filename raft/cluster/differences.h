/*
 * differences.h - settings of this node that are not what the replicated log knows.
 *
 * The members are read from the settings at the first start of a cluster; from then on the log
 * knows them. An operator who mends a setting afterwards must hear
 * that nothing came of it.
 *
 * The happy path: differences_turn() compares anew when the log's side may have changed, logs what
 * begins to differ and what ends to, and leaves the result in `now`.
 *
 * Failure modes: none; a difference stops nothing. Thread: the raft loop.
 */
#ifndef LEAFD_RAFT_CLUSTER_DIFFERENCES_H
#define LEAFD_RAFT_CLUSTER_DIFFERENCES_H

#include "raft/cluster/context.h"

/* Settings that are not what the log knows; each is a bit. */
enum difference {
    DIFFERS_MEMBERS = 1 << 0, /* cluster.members */
    DIFFERS_ADDRESS = 1 << 1  /* peer.advertise, or what stands for it */
};

/* What the settings say; borrowed. */
struct differences_settings {
    const struct net_peer *members; /* cluster.members */
    size_t member_count;            /* 0: not set */
    const char *address;            /* where this node wants to be reached; "": it does not say */
};

struct differences {
    const struct raft_context *on;
    struct differences_settings settings;
    bool looked;    /* it was compared, */
    uint64_t index; /* with the configuration of this entry, */
    uint64_t moves; /* after so many moves of members */
    unsigned now;   /* bits of enum difference */
};

void differences_init(struct differences *differences, const struct raft_context *on,
                      const struct differences_settings *settings);

/* Woken by what wakes all. */
void differences_turn(struct differences *differences);

#endif
