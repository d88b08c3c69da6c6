/*
 * all.h - every command. Each file defines those of its family, and says what they do.
 * Thread: one.
 */
#ifndef LEAFD_CTL_CMD_ALL_H
#define LEAFD_CTL_CMD_ALL_H

#include "src/ctl/cmd/command.h"

/* In the order of the help. */
#define EACH_COMMAND(DO)                                                                           \
    DO(STATUS)                                                                                     \
    DO(CHECK)                                                                                      \
    DO(TOP)                                                                                        \
    DO(EVENTS)                                                                                     \
    DO(AUDIT)                                                                                      \
    DO(TAGS_LIST)                                                                                  \
    DO(TAGS_GET)                                                                                   \
    DO(TAGS_PUT)                                                                                   \
    DO(TAGS_DELETE)                                                                                \
    DO(NEXT)                                                                                       \
    DO(DECODE)                                                                                     \
    DO(WORKERS_LIST)                                                                               \
    DO(WORKERS_ACQUIRE)                                                                            \
    DO(WORKERS_RENEW)                                                                              \
    DO(WORKERS_RELEASE)                                                                            \
    DO(LAYOUTS_LIST)                                                                               \
    DO(MEMBERS_LIST)                                                                               \
    DO(MEMBERS_ADD)                                                                                \
    DO(MEMBERS_REMOVE)                                                                             \
    DO(MEMBERS_REPLACE)                                                                            \
    DO(MEMBERS_ADDRESS)                                                                            \
    DO(LEADER)                                                                                     \
    DO(LEVEL)                                                                                      \
    DO(LEVEL_RAISE)                                                                                \
    DO(BACKUP)                                                                                     \
    DO(RESTORE)                                                                                    \
    DO(RECOVER)                                                                                    \
    DO(IMPORT_LEAF)                                                                                \
    DO(IMPORT_TINYID)                                                                              \
    DO(TOKEN_NEW)

#define DECLARED(name) extern const struct command COMMAND_##name;
EACH_COMMAND(DECLARED)

#endif
