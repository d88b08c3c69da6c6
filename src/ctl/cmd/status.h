/*
 * status.h - `status`: the cluster on one screen; with --watch again and again. Thread: one.
 */
#ifndef LEAFD_CTL_CMD_STATUS_H
#define LEAFD_CTL_CMD_STATUS_H

#include "src/ctl/cmd/command.h"

/* GET /api/status, or GET /api/cluster of a node that does not know it; told if it fails. server:
 * which one is asked, NULL: any. */
enum ctl_exit status_get(struct ctl *ctl, const size_t *server, struct answer *ret);

#endif
