/*
 * signals.c - see signals.h.
 */
#include "src/app/signals.h"

#include <pthread.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "src/app/exit_code.h"
#include "src/base/assert.h"
#include "src/base/container.h"
#include "src/base/log.h"

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

static const char *name_of(const struct signalfd_siginfo *info)
{
    size_t i = 0;

    while (info->ssi_signo != (uint32_t)told[i].number) {
        i++;
        ASSERT(i < COUNT_OF(told));
    }
    return told[i].name;
}

static void told_cb(uv_poll_t *poll, int status, int events)
{
    struct signals *signals = poll->data;
    struct signalfd_siginfo info;

    (void)status;
    (void)events;
    while (read(signals->told_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo == SIGHUP) {
            log_info("app", "reading the settings again", "signal=SIGHUP sender_pid=%u",
                     (unsigned)info.ssi_pid);
            signals->owner->reload(signals);
        } else {
            log_info(
                "app", "this signal does nothing",
                "signal=%s sender_pid=%u hint=\"SIGHUP reads the settings again, SIGTERM stops "
                "the node\"",
                name_of(&info), (unsigned)info.ssi_pid);
        }
    }
}

static void stop_cb(uv_signal_t *handle, int number)
{
    struct signals *signals = handle->data;

    signals->owner->stop(signals, number);
}

void signals_init(struct signals *signals, uv_loop_t *loop, const struct signals_owner *owner)
{
    sigset_t set;

    told_set(&set);
    signals->owner = owner;
    signals->told_fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    ASSERT(signals->told_fd >= 0);
    ASSERT(uv_signal_init(loop, &signals->sigterm) == 0);
    ASSERT(uv_signal_init(loop, &signals->sigint) == 0);
    ASSERT(uv_poll_init(loop, &signals->told, signals->told_fd) == 0);
    signals->sigterm.data = signals;
    signals->sigint.data = signals;
    signals->told.data = signals;
    ASSERT(uv_signal_start(&signals->sigterm, stop_cb, SIGTERM) == 0);
    ASSERT(uv_signal_start(&signals->sigint, stop_cb, SIGINT) == 0);
    ASSERT(uv_poll_start(&signals->told, UV_READABLE, told_cb) == 0);
}

/* Only what a signal handler may do. */
static void second_signal(int number)
{
    static const char line[] = "level=warn at=app msg=\"second signal: ending at once\"\n";

    (void)number;
    (void)!write(STDERR_FILENO, line, sizeof line - 1);
    _exit(EXIT_CODE_SECOND_SIGNAL);
}

void signals_stop_now(struct signals *signals)
{
    struct sigaction action = {.sa_handler = second_signal};

    ASSERT(uv_signal_stop(&signals->sigterm) == 0);
    ASSERT(uv_signal_stop(&signals->sigint) == 0);
    ASSERT(sigemptyset(&action.sa_mask) == 0);
    ASSERT(sigaction(SIGTERM, &action, NULL) == 0);
    ASSERT(sigaction(SIGINT, &action, NULL) == 0);
}

static void closed_cb(uv_handle_t *handle)
{
    struct signals *signals = handle->data;

    ASSERT(close(signals->told_fd) == 0);
}

void signals_close(struct signals *signals)
{
    uv_close((uv_handle_t *)&signals->sigterm, NULL);
    uv_close((uv_handle_t *)&signals->sigint, NULL);
    uv_close((uv_handle_t *)&signals->told, closed_cb);
}
