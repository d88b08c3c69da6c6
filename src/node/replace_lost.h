/*
 * replace_lost.h - cluster.replace-lost: a node whose data was lost comes back under another id,
 * automatically.
 *
 * An id that the cluster knows with data never comes back without it: its votes would count twice.
 * With cluster.replace-lost a node that is refused for that continues as a new one, whose id is the
 * configured one + LOST_ID_STEP, or twice that, and so on; the members, where the same setting
 * stands, let it in at the address of the member that is lost, and remove that one.
 *
 * Each id has a directory of its own in data.dir, named by it, and the highest one counts. The next
 * one is begun by a file "ID.next" that is not empty: a process that serves can make neither files
 * nor directories any more, so the file is opened at its start. A data.dir that holds a store
 * itself, of a time before the setting, is used as it is.
 *
 * The happy path: lost_choose() before anything of the node is opened; lost_note() when the cluster
 * says that it knows the id with other data, and this directory holds nothing; then the process
 * ends with EXIT_CODE_AGAIN, and its next start asks to be let in under the new id.
 *
 * Failure modes: data.dir cannot be read or written: ERR_IO with a text. The ids are used up:
 * ERR_INVALID; then the node ends as without the setting.
 * Thread: main.
 */
#ifndef LEAFD_NODE_REPLACE_LOST_H
#define LEAFD_NODE_REPLACE_LOST_H

#include "src/node/config/config.h"

#define LOST_ID_STEP 1000

/* Set the node's id and data.dir by what is there, and which members to ask if the id is not the
 * configured one. 0, or ERR_INVALID or ERR_IO with a text. */
int lost_choose(struct config *config, struct config_error *ret_error) MUST_CHECK;

/* Let the next start be under the next id, *ret_id. 0, or ERR_INVALID or ERR_IO with a text. */
int lost_note(const struct config *config, uint64_t *ret_id,
              struct config_error *ret_error) MUST_CHECK;

#endif
