/*
 * import.h - `import leaf` and `import tinyid`: counters of others, taken over. Thread: one.
 */
#ifndef LEAFD_CTL_CMD_IMPORT_H
#define LEAFD_CTL_CMD_IMPORT_H

#include "src/ctl/cmd/command.h"

extern const struct command COMMAND_IMPORT_LEAF;
extern const struct command COMMAND_IMPORT_TINYID;

#endif
