/*
 * recovery.h - `leafd restore` and `leafd recover`: offline, the data of the first node of a new
 * cluster out of a backup, or out of the directory of one node that survived. And `leafd readmit`:
 * offline, take the mark off a data directory that was refused as an older copy, so that its node
 * may ask to be let in again.
 *
 * The happy path of restore and recover: take the command line; read all of the source and verify
 * it; make what it becomes (saved.h); ask, where the survivor may not be the newest; write it in
 * one commit; say from where each tag continues, what the raise cannot cover, and what is to be
 * done next.
 *
 * The happy path of readmit: look; say; ask; one commit of the one local record, all else as it
 * was. The node that refused the directory decides again, and it is marked again if what that node
 * knows is right. The tool is for a refusal that was wrong: by a member that held the node to a
 * copy which has been replaced by the newest data since. It says what the directory holds, to be
 * compared with what the refusing node logged (`said`, `known`), and what may be lost: while those
 * that know are away, an older copy would be believed. So the cluster's uid is to be typed.
 *
 * Failure modes: one line on stderr, an ERR_*, and nothing written. ERR_INVALID: the command line
 * is wrong (the text has the flag, the value and the rule), or the name was not typed. Of readmit
 * ERR_NOT_FOUND: the directory is not marked. Thread: main.
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
    bool check;   /* of a restore: look at the file, and no more */
    bool dry_run; /* say all, write nothing */
    bool yes;     /* do not ask */
    struct renew_options renew;
    uint64_t node_id; /* of the new cluster's node; 0: as in what is read */
    /* Borrowed from the arguments; NULL: not given. */
    const char *file;         /* to restore */
    const char *from_dir;     /* of the survivor, or of the node to be let in again */
    const char *to_dir;       /* of the new cluster's node */
    const char *peer_address; /* likewise */
    const char *cluster_id;   /* NULL: as it was */
    const char *compare[LIMIT_NODES];
    unsigned compare_count;
    uint64_t lost[LIMIT_NODES]; /* ids of members that are gone for good */
    unsigned lost_count;
};

/* argv: what follows the subcommand, NULL at the end. 0, or ERR_INVALID with *ret_error. */
int options_read(enum options_command command, char *const argv[], struct options *ret_options,
                 struct config_error *ret_error) MUST_CHECK;

void options_help(enum options_command command, struct buf *out);

/* --- the tools --- */

/* Is the argument one of the subcommands? */
bool recovery_is_command(const char *argument);

/* Restricts the process, before anything is read: from then on it opens nothing but the file (NULL:
 * none) and what lies below the directories, one of which may yet have to be made. */
typedef void recovery_restrict_fn(const char *file, const char *const directories[], size_t count);

/* argv[1] is one. restrict_to: NULL for none. 0 or ERR_* (ERR_INVALID: the command line is wrong,
 * or the uid was not typed). */
int recovery_run(char *const argv[], recovery_restrict_fn *restrict_to) MUST_CHECK;

#endif
