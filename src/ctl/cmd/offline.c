/*
 * offline.c - see offline.h. Thread: main.
 */
#include "src/ctl/cmd/offline.h"

#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "src/ctl/cmd/all.h"

#define PROGRAM "leafd"

bool offline_is_command(char **argv)
{
    return argv[0] != NULL && argv[1] != NULL &&
           (strcmp(argv[1], COMMAND_RESTORE.family) == 0 ||
            strcmp(argv[1], COMMAND_RECOVER.family) == 0);
}

enum ctl_exit offline_run(char **argv)
{
    static char name[] = PROGRAM;
    char self[PATH_MAX];
    char beside[PATH_MAX + sizeof PROGRAM];
    ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);

    argv[0] = name;
    if (len > 0) {
        self[len] = '\0';
        (void)snprintf(beside, sizeof beside, "%s/" PROGRAM, dirname(self));
        (void)execv(beside, argv);
    }
    (void)execvp(PROGRAM, argv);
    return ctl_fail(CTL_USAGE,
                    "%s is done by leafd, which is neither beside leafctl nor in PATH: run "
                    "it on the machine that is to have the data",
                    argv[1]);
}

static enum ctl_exit offline_misplaced(struct ctl *ctl)
{
    return ctl_fail(CTL_USAGE, "%s: it has to be the first word", ctl->command->family);
}

const struct command COMMAND_RESTORE = {
    .family = "restore",
    .operands = "...",
    .summary = "make the data of a new cluster out of a backup: leafd restore",
    .text = "Runs leafd restore with what follows, on this machine.",
    .is_offline = true,
    .run = offline_misplaced,
};
const struct command COMMAND_RECOVER = {
    .family = "recover",
    .operands = "...",
    .summary = "make up for a lost majority, out of what is left: leafd recover",
    .text = "Runs leafd recover with what follows, on this machine.",
    .is_offline = true,
    .run = offline_misplaced,
};
