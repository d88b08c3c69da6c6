/*
 * commands.c - see commands.h. Thread: any.
 */
#include "src/ctl/commands.h"

#include "src/ctl/cmd/backup.h"
#include "src/ctl/cmd/check.h"
#include "src/ctl/cmd/history.h"
#include "src/ctl/cmd/ids.h"
#include "src/ctl/cmd/import.h"
#include "src/ctl/cmd/layouts.h"
#include "src/ctl/cmd/members.h"
#include "src/ctl/cmd/offline.h"
#include "src/ctl/cmd/status.h"
#include "src/ctl/cmd/tags.h"
#include "src/ctl/cmd/token.h"
#include "src/ctl/cmd/top.h"
#include "src/ctl/cmd/workers.h"

const struct command *const COMMANDS[] = {
    &COMMAND_STATUS,
    &COMMAND_CHECK,
    &COMMAND_TOP,
    &COMMAND_EVENTS,
    &COMMAND_AUDIT,
    &COMMAND_TAGS_LIST,
    &COMMAND_TAGS_GET,
    &COMMAND_TAGS_PUT,
    &COMMAND_TAGS_DELETE,
    &COMMAND_NEXT,
    &COMMAND_DECODE,
    &COMMAND_WORKERS_LIST,
    &COMMAND_WORKERS_ACQUIRE,
    &COMMAND_WORKERS_RENEW,
    &COMMAND_WORKERS_RELEASE,
    &COMMAND_LAYOUTS_LIST,
    &COMMAND_MEMBERS_LIST,
    &COMMAND_MEMBERS_ADD,
    &COMMAND_MEMBERS_REMOVE,
    &COMMAND_MEMBERS_REPLACE,
    &COMMAND_MEMBERS_ADDRESS,
    &COMMAND_LEADER,
    &COMMAND_LEVEL,
    &COMMAND_LEVEL_RAISE,
    &COMMAND_BACKUP,
    &COMMAND_RESTORE,
    &COMMAND_RECOVER,
    &COMMAND_IMPORT_LEAF,
    &COMMAND_IMPORT_TINYID,
    &COMMAND_TOKEN_NEW,
    NULL,
};
