/*
 * raft_child.c - see raft_child.h. Thread: one.
 */
#include "raft/tests/raft_child.h"

#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/base/assert.h"

#define MARK 100 /* exit codes from here on are the call's value */
#define CAME_BACK_MAX 100

int child_run(int (*call)(void *data), void *data)
{
    static const int signals[] = {SIGABRT, SIGSEGV, SIGBUS, SIGILL, SIGFPE};
    pid_t child = fork();
    int status;

    ASSERT(child >= 0);
    if (child == 0) {
        struct rlimit no_core = {0, 0};
        int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
        int value;

        (void)setrlimit(RLIMIT_CORE, &no_core);
        for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
            (void)signal(signals[i], SIG_DFL); /* cmocka catches them */
        }
        (void)dup2(nowhere, STDERR_FILENO);
        value = call(data);
        ASSERT(value >= 0 && value < CAME_BACK_MAX);
        _exit(MARK + value);
    }
    ASSERT(waitpid(child, &status, 0) == child);
    if (WIFSIGNALED(status)) {
        return -WTERMSIG(status);
    }
    return WEXITSTATUS(status) >= MARK ? WEXITSTATUS(status) - MARK : 99;
}

bool child_asserts(int (*call)(void *data), void *data)
{
    return child_run(call, data) == -SIGABRT;
}
