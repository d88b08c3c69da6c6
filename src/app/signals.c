/*
 * signals.c - see signals.h.
 */
#include "src/app/signals.h"

#include <pthread.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "src/base/assert.h"
#include "src/base/log.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static const struct {
    int number;
    const char *name;
} told[] = {{SIGHUP, "SIGHUP"}, {SIGUSR1, "SIGUSR1"}, {SIGUSR2, "SIGUSR2"}};

/* A peer or a client that goes away, and a file that may grow no more, must be an error of a write
 * and not the end of the process. The others nobody sends on purpose. */
static const int ignored[] = {SIGPIPE, SIGXFSZ, SIGALRM, SIGVTALRM,
                              SIGPROF, SIGPOLL, SIGPWR,  SIGSTKFLT};

static void told_set(sigset_t *ret_set)
{
    ASSERT(sigemptyset(ret_set) == 0);
    for (size_t i = 0; i < COUNT_OF(told); i++) {
        ASSERT(sigaddset(ret_set, told[i].number) == 0);
    }
}

static void ignore(int number)
{
    struct sigaction action;

    ASSERT(sigaction(number, NULL, &action) == 0);
    if (action.sa_handler == SIG_DFL) {
        ASSERT(signal(number, SIG_IGN) != SIG_ERR);
    }
}

void signals_setup(void)
{
    sigset_t set;

    for (size_t i = 0; i < COUNT_OF(ignored); i++) {
        ignore(ignored[i]);
    }
    told_set(&set);
    ASSERT(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
}

int signals_open(void)
{
    sigset_t set;
    int fd;

    told_set(&set);
    fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    ASSERT(fd >= 0);
    return fd;
}

void signals_tell(int fd)
{
    struct signalfd_siginfo info;

    while (read(fd, &info, sizeof info) == (ssize_t)sizeof info) {
        for (size_t i = 0; i < COUNT_OF(told); i++) {
            if (info.ssi_signo == (uint32_t)told[i].number) {
                log_info("app", "this signal does nothing",
                         "signal=%s sender_pid=%u hint=\"no "
                         "setting is read again, no file opened anew; SIGTERM stops the node\"",
                         told[i].name, (unsigned)info.ssi_pid);
            }
        }
    }
}
