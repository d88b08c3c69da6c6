/*
 * replace_lost.h - cluster.replace-lost: a node whose data was lost comes back under another id,
 * automatically.
 *
 * An id that the cluster knows with data must not come back without it: its votes would count
 * twice. With cluster.replace-lost a node that is refused for this reason continues as a new one.
 * Its id is the configured id + LOST_ID_STEP, + 2 * LOST_ID_STEP, and so on. Members with the same
 * setting let it in at the lost member's address, and remove the lost member.
 *
 * Each id has its own directory in data.dir, named by it; the highest id counts. A non-empty file
 * "ID.next" begins the next id. A serving process can no longer make files or directories, so the
 * file is opened at its start. A data.dir that itself holds a store, from before the setting, is
 * used as it is.
 *
 * The happy path: lost_choose() before any file of the node is opened. lost_note() when the cluster
 * says that it knows the id with other data, and this directory is empty; then the process ends
 * with EXIT_CODE_AGAIN. Its next start asks to be let in under the new id.
 *
 * Failure modes: data.dir cannot be read or written: ERR_IO with a text. The ids are used up:
 * ERR_INVALID; the node then ends as without the setting. Thread: main.
 */
#ifndef LEAFD_NODE_REPLACE_LOST_H
#define LEAFD_NODE_REPLACE_LOST_H

#include "src/node/config/config.h"

#define LOST_ID_STEP 1000

/* Set the node's id and data.dir from the directory's content, and the members to ask if the id is
 * not the configured one. 0, or ERR_INVALID or ERR_IO with a text. */
int lost_choose(struct config *config, struct config_error *ret_error) MUST_CHECK;

/* Make the next start use the next id, *ret_id. 0, or ERR_INVALID or ERR_IO with a text. */
int lost_note(const struct config *config, uint64_t *ret_id,
              struct config_error *ret_error) MUST_CHECK;

#endif
