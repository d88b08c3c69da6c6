/*
 * commands.c - see commands.h. Thread: any.
 */
#include "src/ctl/commands.h"

#include "src/ctl/cmd/all.h"

#define PLACE_OF(name) &COMMAND_##name,
const struct command *const COMMANDS[] = {EACH_COMMAND(PLACE_OF) NULL};
