/*
 * all.h - every command. Each file defines those of its family, and says what they do.
 * Thread: one.
 */
#ifndef LEAFD_CTL_CMD_ALL_H
#define LEAFD_CTL_CMD_ALL_H

#include "src/ctl/cmd/command.h"

extern const struct command COMMAND_AUDIT;
extern const struct command COMMAND_BACKUP;
extern const struct command COMMAND_CHECK;
extern const struct command COMMAND_DECODE;
extern const struct command COMMAND_EVENTS;
extern const struct command COMMAND_IMPORT_LEAF;
extern const struct command COMMAND_IMPORT_TINYID;
extern const struct command COMMAND_LAYOUTS_LIST;
extern const struct command COMMAND_LEADER;
extern const struct command COMMAND_LEVEL;
extern const struct command COMMAND_LEVEL_RAISE;
extern const struct command COMMAND_MEMBERS_ADD;
extern const struct command COMMAND_MEMBERS_ADDRESS;
extern const struct command COMMAND_MEMBERS_LIST;
extern const struct command COMMAND_MEMBERS_REMOVE;
extern const struct command COMMAND_MEMBERS_REPLACE;
extern const struct command COMMAND_NEXT;
extern const struct command COMMAND_RECOVER;
extern const struct command COMMAND_RESTORE;
extern const struct command COMMAND_STATUS;
extern const struct command COMMAND_TAGS_DELETE;
extern const struct command COMMAND_TAGS_GET;
extern const struct command COMMAND_TAGS_LIST;
extern const struct command COMMAND_TAGS_PUT;
extern const struct command COMMAND_TOKEN_NEW;
extern const struct command COMMAND_TOP;
extern const struct command COMMAND_WORKERS_ACQUIRE;
extern const struct command COMMAND_WORKERS_LIST;
extern const struct command COMMAND_WORKERS_RELEASE;
extern const struct command COMMAND_WORKERS_RENEW;

#endif
