/*
 * reload_keys.h - the part of a reload that exchanges the secret or the certificates between nodes.
 *
 * The happy path: prepare makes keys of the new files (net_keys.h); commit gives them to the node,
 * whose links go over to them one after the other (net_uv_set_keys()).
 *
 * Failure modes: a file that cannot be read, or a certificate that is none of this cluster: refused
 * with the setting and the reason, and nothing changes.
 *
 * Thread: main.
 */
#ifndef LEAFD_APP_RELOAD_KEYS_H
#define LEAFD_APP_RELOAD_KEYS_H

#include "raft/node/node.h"
#include "src/app/reload.h"

struct reload_keys {
    struct node *const *node; /* where the server has it; NULL there: it is gone */
    struct net_keys *made;    /* between prepare and commit or drop */
};

/* The part; keys live as long as it is used. */
struct reload_part reload_keys_part(struct reload_keys *keys);

#endif
