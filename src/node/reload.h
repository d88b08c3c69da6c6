/*
 * reload.h - SIGHUP: the settings are read again, and what may change while the node runs does, all
 * of it or nothing.
 *
 * A part is something that can take new settings, or the new content of files that settings name:
 * the certificates, the tokens, the keys between nodes. reload_run() reads everything as at the
 * start (file, environment, flags), has each part prepare, and only if all could has each commit,
 * which cannot fail. Else those that had prepared drop what they made, and the node stays as it
 * was. A row of the table (src/node/config/table.c) says by LIVE that some part takes its value; a
 * change of any other is named in the log and takes a restart. The log level is changed here.
 *
 * The part of the keys between nodes: prepare makes keys of the new files (net_keys.h); commit
 * gives them to the node, whose links go over to them one after the other (net_uv_set_keys()).
 *
 * The happy path: reload_init(), reload_add() for each part, then reload_run() for each SIGHUP.
 *
 * Failure modes: settings that are not valid, or a part that refuses (a file that cannot be read, a
 * certificate that is none of this cluster): a line that says which part, and why; nothing was
 * changed.
 *
 * Thread: main. Files are read on it, each of a bounded size.
 */
#ifndef LEAFD_NODE_RELOAD_H
#define LEAFD_NODE_RELOAD_H

#include "http/api/context.h"
#include "raft/node/node.h"
#include "src/base/buf.h"
#include "src/node/config/config.h"

#define RELOAD_PARTS_MAX 8

struct reload_part {
    const char *name; /* "certificate": for the log */
    /* Make ready what the new settings want, beside what is in force; read files even if no setting
     * has changed. next: valid as a whole; it lives until a later reload has committed, so a part
     * may borrow from it what it replaces in its commit. Of settings that are not LIVE it may hold
     * values that are not in force. 0, or ERR_INVALID with *ret_error and nothing kept. */
    int (*prepare)(void *data, const struct config *next, struct config_error *ret_error);
    /* Put it in force. Append what has changed, in words without a line's end, or nothing ("now
     * CN=shop until 2027-01-31"): settings whose values changed are named without that. */
    void (*commit)(void *data, struct buf *ret_changes);
    /* Throw away what was prepared. */
    void (*drop)(void *data);
} BY_NAME;

struct reload {
    const struct config *started; /* with which the node started; borrowed */
    struct config *in_force;      /* of the last reload that went well; owned; NULL: none yet */
    struct http_reloads *counts;  /* borrowed */
    struct {
        const struct reload_part *part; /* borrowed, with its data */
        void *data;
    } parts[RELOAD_PARTS_MAX];
    size_t part_count;
};

void reload_init(struct reload *reload, const struct config *started, struct http_reloads *counts);

/* Parts prepare and commit in the order in which they were added. */
void reload_add(struct reload *reload, const struct reload_part *part, void *data);

/* Read all again. True: done, and logged; false: refused, and logged. */
bool reload_run(struct reload *reload);

/* Parts have let go of what they borrowed. */
void reload_release(struct reload *reload);

/* --- the keys between nodes --- */

struct reload_keys {
    struct node *const *node; /* where the process has it; NULL there: it is gone */
    struct net_keys *made;    /* between prepare and commit or drop */
};

extern const struct reload_part reload_keys_part; /* its data: a struct reload_keys */

#endif
