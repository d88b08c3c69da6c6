/*
 * recovery.h - three offline commands. `leafd restore` and `leafd recover`: make the data of a new
 * cluster's first node from a backup, or from the directory of a surviving node. `leafd readmit`:
 * remove the mark from a data directory that was refused as an older copy, so that its node may ask
 * to be let in again.
 *
 * The happy path of restore and recover: parse the command line; read and verify the whole source;
 * convert it (saved.h); ask if the survivor may not be the newest; write it in one commit; print
 * where each tag continues, the limits of the raise, and the next steps.
 *
 * The happy path of readmit: check the directory; report; ask; commit the one local record and
 * nothing else. The node that refused the directory decides again, and marks it again if its
 * knowledge is right. The tool is for a wrong refusal: the member judged an older copy, which the
 * newest data has replaced since. The report has the directory's content, to compare with the
 * refusing node's log (`said`, `known`), and the risk: while the members that know better are away,
 * an older copy would be accepted. So the operator must type the cluster's uid.
 *
 * Failure modes: one line on stderr, an ERR_*, and nothing is written. ERR_INVALID: the command
 * line is wrong (the text has the flag, the value and the rule), or the name was not typed. Of
 * readmit ERR_NOT_FOUND: the directory is not marked. Thread: main.
 */
#ifndef LEAFD_NODE_RECOVERY_RECOVERY_H
#define LEAFD_NODE_RECOVERY_RECOVERY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/base/buf.h"
#include "src/base/container.h"
#include "src/base/err.h"
#include "src/base/limits.h"
#include "src/node/config/config.h"
#include "src/node/recovery/saved.h"

/* --- the command line --- */

#define OPTIONS_FACTOR 10 /* how much faster than measured a tag may have grown */

enum options_command { OPTIONS_RESTORE, OPTIONS_RECOVER, OPTIONS_READMIT };

struct options {
    enum options_command command;
    bool help;
    bool check;   /* of a restore: only check the file */
    bool dry_run; /* say all, write nothing */
    bool yes;     /* do not ask */
    struct renew_options renew;
    uint64_t node_id; /* of the new cluster's node; 0: as in the source */
    /* Borrowed from the arguments; NULL: not given. */
    const char *file;         /* to restore */
    const char *from_dir;     /* of the survivor, or of the node to readmit */
    const char *to_dir;       /* of the new cluster's node */
    const char *peer_address; /* likewise */
    const char *cluster_id;   /* NULL: as it was */
    const char *compare[LIMIT_NODES];
    unsigned compare_count;
    uint64_t lost[LIMIT_NODES]; /* ids of members that are lost for good */
    unsigned lost_count;
};

/* argv: the arguments after the subcommand, NULL at the end. 0, or ERR_INVALID with *ret_error. */
int options_read(enum options_command command, char *const argv[], struct options *ret_options,
                 struct config_error *ret_error) MUST_CHECK;

void options_help(enum options_command command, struct buf *out);

/* --- the tools --- */

/* Is the argument one of the subcommands? */
bool recovery_is_command(const char *argument);

/* Restricts the process before it reads anything: from then on it can open only the file (NULL:
 * none) and paths below the directories. One of these may not exist yet. */
typedef void recovery_restrict_fn(const char *file, const char *const directories[], size_t count);

/* argv[1] is one. restrict_to: NULL for none. 0 or ERR_* (ERR_INVALID: the command line is wrong,
 * or the uid was not typed). */
int recovery_run(char *const argv[], recovery_restrict_fn *restrict_to) MUST_CHECK;

#endif
