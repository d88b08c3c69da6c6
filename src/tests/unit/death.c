/*
 * death.c - see death.h. Thread: one.
 */
#include "src/tests/unit/death.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/base/assert.h"

bool death_by_assert(void (*call)(void *data), void *data)
{
    pid_t child = fork();
    int status;

    ASSERT(child >= 0);
    if (child == 0) {
        struct rlimit no_core = {0, 0};
        int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);

        (void)setrlimit(RLIMIT_CORE, &no_core);
        (void)signal(SIGABRT, SIG_DFL); /* cmocka catches it */
        (void)dup2(nowhere, STDERR_FILENO);
        call(data);
        _exit(0);
    }
    ASSERT(waitpid(child, &status, 0) == child);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}
