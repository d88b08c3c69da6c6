/*
 * supervisor.c - see supervisor.h. Thread: main.
 */
#include "src/app/supervisor.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "http/proto/text.h"
#include "src/base/assert.h"
#include "src/base/log.h"

#define LOOK_MS 500       /* how often the node is looked at for its status */
#define LOOKS_A_TIMEOUT 4 /* and at least so often in the time that the supervisor waits */
#define MESSAGE_BYTES (SUPERVISOR_STATUS_BYTES + 64)

/* --- words --- */

static void tell(const struct supervisor *supervisor, const char *message)
{
    if (supervisor->fd >= 0) {
        (void)send(supervisor->fd, message, strlen(message), MSG_NOSIGNAL | MSG_DONTWAIT);
    }
}

void supervisor_tell(struct supervisor *supervisor, const char *status)
{
    char message[MESSAGE_BYTES];

    ASSERT(strlen(status) < SUPERVISOR_STATUS_BYTES);
    if (supervisor->fd >= 0 && strcmp(supervisor->status, status) != 0) {
        (void)snprintf(supervisor->status, sizeof supervisor->status, "%s", status);
        (void)snprintf(message, sizeof message, "STATUS=%s", status);
        tell(supervisor, message);
    }
}

/* --- a look at the node --- */

static const char *status_of(const struct id_health *health)
{
    struct uid uid;

    if (!id_health_uid(health, &uid)) {
        return "up; the cluster is not born yet: all of cluster.members have to meet "
               "(/readyz?verbose says who is missing)";
    }
    if (!atomic_load(&health->applied_once)) {
        return "up; catching up with the cluster";
    }
    if (!atomic_load(&health->leader_known)) {
        return atomic_load(&health->segments_held) > 0
                   ? "serving the ids that it holds; no leader is known"
                   : "not ready: no leader is known and no ids are held";
    }
    return atomic_load(&health->disk_low) ? "serving; the disk is nearly full" : "serving";
}

static void look_cb(uv_timer_t *timer)
{
    struct supervisor *supervisor = timer->data;

    if (supervisor->backend != NULL) {
        supervisor_tell(supervisor, status_of(supervisor->backend->health));
    }
    /* This loop takes its turn, or it would not be here. */
    if (supervisor->within_us > 0 && doors_take_turns(supervisor->doors)) {
        tell(supervisor, "WATCHDOG=1");
    }
}

/* --- the socket --- */

/* 0 or a negative errno. */
static int connect_to(const char *path)
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

/* A number of the environment; 0: there is none, or it is none. */
static uint64_t number_of(const char *name)
{
    const char *text = getenv(name);
    uint64_t number = 0;

    if (text == NULL || strlen(text) > 18 ||
        text_parse_decimal(text, strlen(text), 0, UINT64_MAX, &number) != 0) {
        return 0;
    }
    return number;
}

/* As sd_watchdog_enabled(3): the interval counts if it is meant for this process. */
static uint64_t watchdog_us(void)
{
    uint64_t pid = number_of("WATCHDOG_PID");

    return pid == 0 || pid == (uint64_t)getpid() ? number_of("WATCHDOG_USEC") : 0;
}

void supervisor_open(struct supervisor *supervisor, uv_loop_t *loop, struct doors *doors)
{
    const char *path = getenv("NOTIFY_SOCKET");
    char quoted[500];

    *supervisor = (struct supervisor){.fd = -1, .doors = doors};
    ASSERT(uv_timer_init(loop, &supervisor->timer) == 0);
    supervisor->timer.data = supervisor;
    if (path == NULL || path[0] == '\0') {
        return;
    }
    supervisor->fd = connect_to(path);
    if (supervisor->fd < 0) {
        log_warn("app", "the supervisor cannot be told anything", "NOTIFY_SOCKET=%s error=\"%s\"",
                 log_quote(path, strlen(path), quoted, sizeof quoted),
                 strerrordesc_np(-supervisor->fd));
        supervisor->fd = -1;
        return;
    }
    supervisor->within_us = watchdog_us();
}

/* --- up and down --- */

void supervisor_ready(struct supervisor *supervisor, const struct id_backend *backend)
{
    uint64_t every_ms = supervisor->within_us / 1000 / LOOKS_A_TIMEOUT;

    if (supervisor->fd < 0) {
        return;
    }
    tell(supervisor, "READY=1");
    supervisor->backend = backend;
    if (every_ms == 0 || every_ms > LOOK_MS) {
        every_ms = supervisor->within_us > 0 && every_ms == 0 ? 1 : LOOK_MS;
    }
    ASSERT(uv_timer_start(&supervisor->timer, look_cb, 0, every_ms) == 0);
}

void supervisor_reloading(struct supervisor *supervisor)
{
    char message[MESSAGE_BYTES];
    struct timespec now;

    ASSERT(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    (void)snprintf(message, sizeof message, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64,
                   (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000);
    tell(supervisor, message);
}

void supervisor_reloaded(struct supervisor *supervisor)
{
    tell(supervisor, "READY=1");
}

void supervisor_stopping(struct supervisor *supervisor)
{
    tell(supervisor, "STOPPING=1");
    supervisor->backend = NULL;
    supervisor_tell(supervisor, "stopping");
}

void supervisor_close(struct supervisor *supervisor)
{
    if (supervisor->fd >= 0) {
        close(supervisor->fd);
        supervisor->fd = -1;
    }
    uv_close((uv_handle_t *)&supervisor->timer, NULL);
}
