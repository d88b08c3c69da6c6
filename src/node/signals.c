/*
 * signals.c - see signals.h. Thread: main.
 */
#include "src/node/signals.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "http/proto/text.h"
#include "src/base/assert.h"
#include "src/base/container.h"
#include "src/base/log.h"
#include "src/node/report.h"

/* --- signals --- */

static const struct {
    int number;
    const char *name;
} blocked[] = {{SIGHUP, "SIGHUP"}, {SIGUSR1, "SIGUSR1"}, {SIGUSR2, "SIGUSR2"}};

/* A connection closed by a peer or client, and a file at its size limit, must fail a write and not
 * end the process. The other signals are never sent on purpose. */
static const int ignored[] = {SIGPIPE, SIGXFSZ, SIGALRM, SIGVTALRM,
                              SIGPROF, SIGPOLL, SIGPWR,  SIGSTKFLT};

static void blocked_set(sigset_t *ret_set)
{
    ASSERT(sigemptyset(ret_set) == 0);
    for (size_t i = 0; i < COUNT_OF(blocked); i++) {
        ASSERT(sigaddset(ret_set, blocked[i].number) == 0);
    }
}

void signals_setup(void)
{
    sigset_t set;

    for (size_t i = 0; i < COUNT_OF(ignored); i++) {
        struct sigaction action;

        ASSERT(sigaction(ignored[i], NULL, &action) == 0);
        if (action.sa_handler == SIG_DFL) {
            ASSERT(signal(ignored[i], SIG_IGN) != SIG_ERR);
        }
    }
    /* No more than these: whoever started the process may have blocked those that stop it. */
    blocked_set(&set);
    ASSERT(pthread_sigmask(SIG_SETMASK, &set, NULL) == 0);
}

static void blocked_cb(uv_poll_t *poll, int status, int events)
{
    struct signals *signals = poll->data;
    struct signalfd_siginfo info;

    (void)status;
    (void)events;
    while (read(signals->blocked_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo == SIGHUP) {
            log_info("app", "reading the settings again", "signal=SIGHUP sender_pid=%u",
                     (unsigned)info.ssi_pid);
            signals->reload(signals);
        } else {
            size_t i = 0;

            while (info.ssi_signo != (uint32_t)blocked[i].number) {
                i++;
                ASSERT(i < COUNT_OF(blocked));
            }
            log_info(
                "app", "this signal does nothing",
                "signal=%s sender_pid=%u hint=\"SIGHUP reads the settings again, SIGTERM stops "
                "the node\"",
                blocked[i].name, (unsigned)info.ssi_pid);
        }
    }
}

static void stop_cb(uv_signal_t *handle, int number)
{
    struct signals *signals = handle->data;

    signals->stop(signals, number);
}

void signals_init(struct signals *signals, uv_loop_t *loop,
                  void (*stop)(struct signals *signals, int number),
                  void (*reload)(struct signals *signals))
{
    sigset_t set;

    blocked_set(&set);
    signals->stop = stop;
    signals->reload = reload;
    signals->blocked_fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    ASSERT(signals->blocked_fd >= 0);
    ASSERT(uv_signal_init(loop, &signals->sigterm) == 0);
    ASSERT(uv_signal_init(loop, &signals->sigint) == 0);
    ASSERT(uv_poll_init(loop, &signals->blocked, signals->blocked_fd) == 0);
    signals->sigterm.data = signals;
    signals->sigint.data = signals;
    signals->blocked.data = signals;
    ASSERT(uv_signal_start(&signals->sigterm, stop_cb, SIGTERM) == 0);
    ASSERT(uv_signal_start(&signals->sigint, stop_cb, SIGINT) == 0);
    ASSERT(uv_poll_start(&signals->blocked, UV_READABLE, blocked_cb) == 0);
}

/* Only async-signal-safe calls. */
static void second_signal(int number)
{
    static const char line[] = "level=warn at=app msg=\"second signal: ending at once\"\n";

    (void)number;
    (void)stderr_write(line, sizeof line - 1);
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

static void signals_closed_cb(uv_handle_t *handle)
{
    struct signals *signals = handle->data;

    ASSERT(close(signals->blocked_fd) == 0);
}

void signals_close(struct signals *signals)
{
    uv_close((uv_handle_t *)&signals->sigterm, NULL);
    uv_close((uv_handle_t *)&signals->sigint, NULL);
    uv_close((uv_handle_t *)&signals->blocked, signals_closed_cb);
}

/* --- the supervisor --- */

#define LOOK_MS 500       /* interval for checking the node's status */
#define LOOKS_A_TIMEOUT 4 /* checks, at least, in the time that the supervisor waits */
#define MESSAGE_BYTES (SUPERVISOR_STATUS_BYTES + 64)

/* --- words --- */

static void supervisor_send(const struct supervisor *supervisor, const char *message)
{
    if (supervisor->fd >= 0) {
        (void)send(supervisor->fd, message, strlen(message), MSG_NOSIGNAL | MSG_DONTWAIT);
    }
}

void supervisor_set_status(struct supervisor *supervisor, const char *status)
{
    char message[MESSAGE_BYTES];

    ASSERT(strlen(status) < SUPERVISOR_STATUS_BYTES);
    if (supervisor->fd >= 0 && strcmp(supervisor->status, status) != 0) {
        (void)snprintf(supervisor->status, sizeof supervisor->status, "%s", status);
        (void)snprintf(message, sizeof message, "STATUS=%s", status);
        supervisor_send(supervisor, message);
    }
}

/* --- a look at the node --- */

static void supervisor_look_cb(uv_timer_t *timer)
{
    struct supervisor *supervisor = timer->data;
    struct uid uid;

    if (supervisor->backend != NULL) {
        const struct id_health *health = supervisor->backend->health;
        const char *status = "serving";

        if (!id_health_uid(health, &uid)) {
            status = "up; the cluster is not born yet: all of cluster.members have to meet "
                     "(/readyz?verbose names those that are missing)";
        } else if (!atomic_load(&health->applied_once)) {
            status = "up; catching up with the cluster";
        } else if (!atomic_load(&health->leader_known)) {
            status = atomic_load(&health->segments_held) > 0
                         ? "serving the ids that it holds; no leader is known"
                         : "not ready: no leader is known and no ids are held";
        } else if (atomic_load(&health->disk_low)) {
            status = "serving; the disk is nearly full";
        }
        supervisor_set_status(supervisor, status);
    }
    /* This loop takes its turn: it runs this. */
    if (supervisor->within_us > 0 && listeners_take_turns(supervisor->listeners)) {
        supervisor_send(supervisor, "WATCHDOG=1");
    }
}

/* --- the socket --- */

/* 0 or a negative errno. */
static int supervisor_connect(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t len = strlen(path);
    int err;
    int fd;

    if ((path[0] != '/' && path[0] != '@') || len < 2) {
        return -EAFNOSUPPORT;
    }
    if (len >= sizeof address.sun_path) {
        return -ENAMETOOLONG;
    }
    memcpy(address.sun_path, path, len);
    if (path[0] == '@') {
        address.sun_path[0] = '\0';
    }
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -errno;
    }
    len += offsetof(struct sockaddr_un, sun_path) + (path[0] == '/');
    if (connect(fd, (struct sockaddr *)&address, (socklen_t)len) != 0) {
        err = -errno;
        close(fd);
        return err;
    }
    return fd;
}

/* A number of the environment; 0: missing or not a number. */
static uint64_t environment_number(const char *name)
{
    const char *text = getenv(name);
    uint64_t number = 0;

    if (text == NULL || strlen(text) > 18 ||
        text_parse_decimal(text, strlen(text), 0, UINT64_MAX, &number) != 0) {
        return 0;
    }
    return number;
}

void supervisor_open(struct supervisor *supervisor, uv_loop_t *loop, struct listeners *listeners)
{
    const char *path = getenv("NOTIFY_SOCKET");
    uint64_t pid;

    *supervisor = (struct supervisor){.fd = -1, .listeners = listeners};
    ASSERT(uv_timer_init(loop, &supervisor->timer) == 0);
    supervisor->timer.data = supervisor;
    if (path == NULL || path[0] == '\0') {
        return;
    }
    supervisor->fd = supervisor_connect(path);
    if (supervisor->fd < 0) {
        log_warn("app", "the supervisor cannot be notified", "NOTIFY_SOCKET=%s error=\"%s\"",
                 LOG_QUOTED(path, 500), strerrordesc_np(-supervisor->fd));
        supervisor->fd = -1;
        return;
    }
    /* As sd_watchdog_enabled(3): the interval counts if it is meant for this process. */
    pid = environment_number("WATCHDOG_PID");
    if (pid == 0 || pid == (uint64_t)getpid()) {
        supervisor->within_us = environment_number("WATCHDOG_USEC");
    }
}

/* --- up and down --- */

void supervisor_ready(struct supervisor *supervisor, const struct id_backend *backend)
{
    uint64_t every_ms = supervisor->within_us / 1000 / LOOKS_A_TIMEOUT;

    if (supervisor->fd < 0) {
        return;
    }
    supervisor_send(supervisor, "READY=1");
    supervisor->backend = backend;
    if (every_ms == 0 || every_ms > LOOK_MS) {
        every_ms = supervisor->within_us > 0 && every_ms == 0 ? 1 : LOOK_MS;
    }
    ASSERT(uv_timer_start(&supervisor->timer, supervisor_look_cb, 0, every_ms) == 0);
}

void supervisor_reload(struct supervisor *supervisor, bool begins)
{
    char message[MESSAGE_BYTES] = "READY=1";
    struct timespec now;

    if (begins) {
        ASSERT(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
        (void)snprintf(message, sizeof message, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64,
                       (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000);
    }
    supervisor_send(supervisor, message);
}

void supervisor_stopping(struct supervisor *supervisor)
{
    supervisor_send(supervisor, "STOPPING=1");
    supervisor->backend = NULL;
    supervisor_set_status(supervisor, "stopping");
}

void supervisor_close(struct supervisor *supervisor)
{
    if (supervisor->fd >= 0) {
        close(supervisor->fd);
        supervisor->fd = -1;
    }
    uv_close((uv_handle_t *)&supervisor->timer, NULL);
}
