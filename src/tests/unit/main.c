/*
 * main.c - runs the groups of unit tests that are linked into this program (group.h).
 *
 *     test-id                               all, each in a process of its own
 *     test-id test_segment [...]            those of these names, or ends of their paths
 *     test-id --list
 *
 * The happy path: one group that was named runs in this process, so that a debugger sees it.
 *
 * Failure modes: a group fails or dies: exit code 1 when the others have run, or the group's own if
 * it was the only one. No group has such a name: 64.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/tests/unit/group.h"

#define EXIT_USAGE 64

static struct unit_group *groups;

void unit_group_add(struct unit_group *group)
{
    struct unit_group **at = &groups;

    while (*at != NULL && strcmp((*at)->file, group->file) < 0) {
        at = &(*at)->next;
    }
    group->next = *at;
    *at = group;
}

/* "test_a", "fsm/tests/test_a" and "src/id/fsm/tests/test_a.c" are names of the last one. */
static bool is_named(const struct unit_group *group, const char *name)
{
    size_t file_len = strlen(group->file) - strlen(".c");
    size_t len = strlen(name);

    if (len > 2 && strcmp(name + len - 2, ".c") == 0) {
        len -= 2;
    }
    return len <= file_len && memcmp(group->file + file_len - len, name, len) == 0 &&
           (len == file_len || group->file[file_len - len - 1] == '/');
}

static bool is_wanted(const struct unit_group *group, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (is_named(group, argv[i])) {
            return true;
        }
    }
    return argc < 2;
}

/* Returns if all of its tests passed. */
static bool run_in_child(const struct unit_group *group)
{
    pid_t child;
    int status;

    printf("== %s\n", group->file);
    (void)fflush(stdout);
    child = fork();
    if (child == 0) {
        _exit(group->run() == 0 ? 0 : 1);
    }
    if (child < 0 || waitpid(child, &status, 0) != child) {
        perror("fork");
        return false;
    }
    if (WIFSIGNALED(status)) {
        printf("== %s: killed by signal %d\n", group->file, WTERMSIG(status));
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int main(int argc, char **argv)
{
    const struct unit_group *only = NULL;
    bool list = argc == 2 && strcmp(argv[1], "--list") == 0;
    size_t wanted = 0;
    bool passed = true;

    for (const struct unit_group *group = groups; group != NULL; group = group->next) {
        if (list) {
            puts(group->file);
        } else if (is_wanted(group, argc, argv)) {
            only = group;
            wanted++;
        }
    }
    if (list) {
        return 0;
    }
    if (wanted == 0) {
        (void)fprintf(stderr, "%s: no group of tests has such a name; --list shows them\n",
                      argv[0]);
        return EXIT_USAGE;
    }
    if (wanted == 1) {
        return only->run();
    }
    for (const struct unit_group *group = groups; group != NULL; group = group->next) {
        if (is_wanted(group, argc, argv) && !run_in_child(group)) {
            passed = false;
        }
    }
    return passed ? 0 : 1;
}
