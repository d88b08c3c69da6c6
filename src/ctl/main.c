/*
 * main.c - leafctl: looks at a cluster of leafd, and changes it, over HTTP.
 *
 * The happy path: the command line names the command (cmd/commands.c); the settings name the
 * servers (net/cluster.h); the command runs, and its output is printed.
 *
 * Failure modes: enum ctl_exit. Thread: one.
 */
#include <libgen.h>
#include <limits.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "src/base/assert.h"
#include "src/base/process.h"
#include "src/ctl/cmd/command.h"

/* `restore` and `recover` work on the disk of a stopped node, and are leafd's: the leafd beside
 * leafctl, or in PATH, is executed with the same words. No other command touches a node's data.
 * Returns only if there is no leafd. */
static enum ctl_exit become_leafd(char **argv)
{
    static char name[] = "leafd";
    char self[PATH_MAX];
    char beside[PATH_MAX + sizeof name];
    ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);

    argv[0] = name;
    if (len > 0) {
        self[len] = '\0';
        (void)snprintf(beside, sizeof beside, "%s/%s", dirname(self), name);
        (void)execv(beside, argv);
    }
    (void)execvp(name, argv);
    return ctl_fail(CTL_USAGE,
                    "%s is done by leafd, which is neither beside leafctl nor in PATH: run "
                    "it on the machine that is to have the data",
                    argv[1]);
}

int main(int argc, char **argv)
{
    static struct ctl ctl;
    const struct command *command;
    enum ctl_exit code;
    enum ctl_exit written;
    bool run = false;
    BUF_LOCAL(why);

    process_hold_descriptors();
    if (argc >= 2 && (strcmp(argv[1], "restore") == 0 || strcmp(argv[1], "recover") == 0)) {
        return (int)become_leafd(argv);
    }
    (void)setlocale(LC_CTYPE, "C.UTF-8"); /* for the width of characters */
    (void)signal(SIGPIPE, SIG_IGN);
    code = args_parse(&ctl, argc, argv, &run);
    command = ctl.command;
    run &= code == CTL_DONE;
    if (run && !command->is_offline) {
        if (settings_load(&ctl.settings, &why) == 0) {
            ctl.cluster = cluster_new(&ctl.settings, &why);
        }
        if (ctl.cluster == NULL) {
            code = ctl_fail(CTL_USAGE, "%s", buf_text(&why));
        } else if (ctl.settings.local) {
            ctl_progress("the nodes of make run are asked: %s",
                         ctl.settings.values[SETTING_SERVER]);
        }
    }
    if (run && code == CTL_DONE) {
        code = command->run != NULL ? command->run(&ctl) : ctl_request(&ctl);
    }
    cluster_free(ctl.cluster);
    written = ctl_flush(&ctl);
    settings_free(&ctl.settings);
    buf_free(&ctl.out);
    return (int)(code == CTL_DONE ? written : code);
}
