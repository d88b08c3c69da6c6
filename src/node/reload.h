/*
 * reload.h - SIGHUP: read the settings again, and apply those that may change while the node runs,
 * all or none.
 *
 * A part accepts new settings, or the new content of files that settings name: the certificates,
 * the tokens, the keys between nodes. reload_run() reads everything as at the start (file,
 * environment, flags) and lets each part prepare. If all succeed, each part commits, which cannot
 * fail. Else the prepared parts drop their results, and the node stays as it was. LIVE in a row of
 * the table (src/node/config/table.c) means that some part takes its value; the log names a change
 * of any other, which needs a restart. The log level is changed here.
 *
 * The part of the keys between nodes: prepare makes keys from the new files (net_keys.h); commit
 * passes them to the node, whose links change to them one after the other (net_uv_set_keys()).
 *
 * The happy path: reload_add() for each part of a struct that is zero but for settings and counts,
 * then reload_run() for each SIGHUP.
 *
 * Failure modes: invalid settings, or a part that refuses (an unreadable file, a certificate of
 * another cluster): a log line with the part and the reason; nothing was changed.
 *
 * Thread: main. Files are read on it, each of a bounded size.
 */
#ifndef LEAFD_NODE_RELOAD_H
#define LEAFD_NODE_RELOAD_H

#include "http/api/request.h"
#include "raft/node/node.h"
#include "src/base/buf.h"
#include "src/node/config/config.h"

#define RELOAD_PARTS_MAX 8

struct reload_part {
    const char *name; /* "certificate": for the log */
    /* Prepare the new settings, beside those in force; read files even if no setting has changed.
     * next: valid as a whole; lives until a later reload has committed, so a part may borrow from
     * it until its next commit. Its values of settings that are not LIVE may not be in force. 0, or
     * ERR_INVALID with *ret_error and nothing kept. */
    int (*prepare)(void *data, const struct config *next, struct config_error *ret_error);
    /* Put it in force. Append a text on changes, without a newline ("now CN=shop until
     * 2027-01-31"), or nothing: settings whose values changed are named anyway. */
    void (*commit)(void *data, struct buf *ret_changes);
    /* Drop the prepared settings. */
    void (*drop)(void *data);
} BY_NAME;

struct reload {
    const struct config *started; /* with which the node started; borrowed */
    struct config *in_force;      /* of the last successful reload; owned; NULL: none yet */
    struct http_reloads *counts;  /* borrowed */
    struct {
        const struct reload_part *part; /* borrowed, with its data */
        void *data;
    } parts[RELOAD_PARTS_MAX];
    size_t part_count;
};

/* Parts prepare and commit in the order they were added. */
void reload_add(struct reload *reload, const struct reload_part *part, void *data);

/* Read all again. True: done, and logged; false: refused, and logged. */
bool reload_run(struct reload *reload);

/* Call after the parts have released what they borrowed. */
void reload_release(struct reload *reload);

/* --- the keys between nodes --- */

struct reload_keys {
    struct node *const *node; /* the process's pointer to its node; NULL there: no node any more */
    struct net_keys *made;    /* between prepare and commit or drop */
    struct http_reloads *counts; /* borrowed; gets the end of the certificate */
};

extern const struct reload_part reload_keys_part; /* its data: a struct reload_keys */

#endif
