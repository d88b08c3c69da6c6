/*
 * token.h - `token new`: a new token and its line, as `leafd --new-token` makes them. Thread: one.
 */
#ifndef LEAFD_CTL_CMD_TOKEN_H
#define LEAFD_CTL_CMD_TOKEN_H

#include "src/ctl/cmd/command.h"

extern const struct command COMMAND_TOKEN_NEW;

#endif
