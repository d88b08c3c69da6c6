/*
 * tags.h - `tags list|get|put|delete`. Thread: one.
 */
#ifndef LEAFD_CTL_CMD_TAGS_H
#define LEAFD_CTL_CMD_TAGS_H

#include "src/ctl/cmd/command.h"

extern const struct command COMMAND_TAGS_LIST;
extern const struct command COMMAND_TAGS_GET;
extern const struct command COMMAND_TAGS_PUT;
extern const struct command COMMAND_TAGS_DELETE;

#endif
