/*
 * main.c - leafctl: looks at a cluster of leafd, and changes it, over HTTP.
 *
 * The happy path: the command line names the command (cmd/commands.c); the settings name the
 * servers (net/cluster.h); the command runs, and its output is printed.
 *
 * Failure modes: enum ctl_exit. Thread: one.
 */
#include <locale.h>
#include <signal.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/base/process.h"
#include "src/ctl/cmd/command.h"

static enum ctl_exit leafctl_run(struct ctl *ctl)
{
    BUF_LOCAL(why);
    enum ctl_exit code;

    if (!ctl->command->is_offline) {
        if (settings_load(&ctl->settings, &why) == 0) {
            ctl->cluster = cluster_new(&ctl->settings, &why);
        }
        if (ctl->cluster == NULL) {
            return ctl_fail(CTL_USAGE, "%s", buf_text(&why));
        }
        if (ctl->settings.local) {
            ctl_progress("the nodes of make run are asked: %s",
                         ctl->settings.values[SETTING_SERVER]);
        }
    }
    code = ctl->command->run != NULL ? ctl->command->run(ctl) : ctl_request(ctl);
    cluster_free(ctl->cluster);
    return code;
}

int main(int argc, char **argv)
{
    static struct ctl ctl;
    enum args_action action;
    enum ctl_exit code;
    enum ctl_exit written;

    process_hold_descriptors();
    if (offline_is_command(argv)) {
        return (int)offline_become(argv);
    }
    (void)setlocale(LC_CTYPE, "C.UTF-8"); /* for the width of characters */
    (void)signal(SIGPIPE, SIG_IGN);
    if (argc >= 2 && strcmp(argv[1], "--complete") == 0) { /* for the shells */
        complete_words((const char *const *)argv + 2, (size_t)argc - 2, &ctl.out);
        code = CTL_DONE;
    } else if ((code = args_parse(&ctl, argc, argv, &action)) != CTL_DONE) {
        /* it was printed */
    } else if (action == ARGS_VERSION) {
        buf_printf(&ctl.out, "leafctl %s%s%s\n", LEAFD_VERSION,
                   commit_built[0] != '\0' ? " commit " : "", commit_built);
    } else if (action == ARGS_HELP && ctl.command == NULL) {
        describe_all(&ctl.out);
    } else if (action == ARGS_HELP) {
        describe_command(ctl.command, &ctl.out);
    } else {
        code = leafctl_run(&ctl);
    }
    written = ctl_flush(&ctl);
    settings_free(&ctl.settings);
    buf_free(&ctl.out);
    return (int)(code == CTL_DONE ? written : code);
}
