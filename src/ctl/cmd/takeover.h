/*
 * takeover.h - tags of a file into a cluster: compare, send, read back.
 *
 * The happy path: takeover_compare() reads the cluster's tags and marks what is there, what is
 * ahead, and what only force takes; takeover_send() sends the others, up to 10,000 in one call,
 * which does all or nothing; takeover_verify() reads back.
 *
 * It can be stopped at any time and run again: a tag that is as the file has it is not sent, so
 * what was sent before is not sent again, unless it is in use by then; --skip-ahead leaves those
 * alone.
 *
 * Invariant: nothing is sent for a tag whose max_id is higher in the cluster than in the file, and
 * what needs force is sent once. Failure modes: an exit code; each was told. Thread: one.
 */
#ifndef LEAFD_CTL_CMD_TAKEOVER_H
#define LEAFD_CTL_CMD_TAKEOVER_H

#include "src/ctl/cmd/command.h"
#include "src/ctl/import/tags.h"

enum takeover_state {
    TAKEOVER_NEW,    /* to be made */
    TAKEOVER_CHANGE, /* to be changed */
    TAKEOVER_THERE,  /* it is as it should be */
    TAKEOVER_AHEAD   /* further in the cluster than in the file: left alone */
};

struct takeover {
    struct ctl *ctl;
    const struct import_tags *tags;
    uint8_t *states;  /* of each tag */
    uint64_t *before; /* max_id in the cluster */
    uint64_t *after;  /* the same, when it was read back; 0: not there */
    size_t counts[4]; /* by state */
    size_t sent;
    bool skip_ahead;
    bool force;
};

void takeover_init(struct takeover *takeover, struct ctl *ctl, const struct import_tags *tags);
void takeover_free(struct takeover *takeover);

enum ctl_exit takeover_compare(struct takeover *takeover);
enum ctl_exit takeover_send(struct takeover *takeover);
enum ctl_exit takeover_verify(struct takeover *takeover);

#endif
