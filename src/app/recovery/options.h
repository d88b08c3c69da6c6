/*
 * options.h - the command lines of `leafd restore` and `leafd recover`.
 *
 * The happy path: options_read() takes what follows the subcommand; what is missing or wrong is
 * said with the flag, the value and the rule.
 *
 * Failure modes: ERR_INVALID with a text. Thread: main.
 */
#ifndef LEAFD_APP_RECOVERY_OPTIONS_H
#define LEAFD_APP_RECOVERY_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "src/app/config/config.h"
#include "src/base/buf.h"
#include "src/base/err.h"
#include "src/base/limits.h"

#define OPTIONS_FACTOR 10 /* how much faster than measured a tag may have grown */

enum options_command { OPTIONS_RESTORE, OPTIONS_RECOVER };

/* How far each tag's max_id is raised: by the larger of the two. */
struct raise {
    bool by_ids;
    bool by_time;
    uint64_t ids;
    uint64_t time_ms;
    uint64_t factor;
};

struct options {
    enum options_command command;
    bool help;
    bool check;   /* of a restore: look at the file, and no more */
    bool dry_run; /* say all, write nothing */
    bool yes;     /* do not ask */
    bool drop_keys;
    struct raise raise;
    uint64_t node_id; /* of the new cluster's node; 0: as in what is read */
    /* Borrowed from the arguments; NULL: not given. */
    const char *file;         /* to restore */
    const char *from_dir;     /* of the survivor */
    const char *to_dir;       /* of the new cluster's node */
    const char *peer_address; /* likewise */
    const char *cluster_id;   /* NULL: as it was */
    const char *compare[LIMIT_NODES];
    unsigned compare_count;
    uint64_t lost[LIMIT_NODES]; /* ids of members that are gone for good */
    unsigned lost_count;
};

/* argv: behind the subcommand, NULL at the end. 0, or ERR_INVALID with *ret_error. */
int options_read(enum options_command command, char *const argv[], struct options *ret_options,
                 struct config_error *ret_error) MUST_CHECK;

void options_help(enum options_command command, struct buf *out);

#endif
