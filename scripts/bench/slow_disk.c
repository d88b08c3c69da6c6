/*
 * slow_disk.c - runs a server as if its disk were slower: each of its flushes takes longer.
 *
 *     slow_disk FILE COMMAND...
 *
 * FILE has a number of microseconds, read anew at each flush, so that one server can be measured at
 * several delays. A flush is fdatasync(), fsync(), msync(), or a pwrite64() to a file that was
 * opened with O_DSYNC, as LMDB's meta page is written. The delay comes before the flush itself,
 * which is carried out as ever; flushes of several threads are delayed beside each other.
 *
 * The kernel stops these calls (a seccomp filter) and tells a process beside the server, which lets
 * each go on when it is due. So it works for programs that call the kernel themselves, as those
 * in Go do, where a library in front of the C library's functions (cluster-tests/chaos/disk_shim.c)
 * sees nothing. The call costs some 20 us more, also with a delay of 0.
 *
 * The happy path: the watcher is started as a grandchild, the filter installed, its descriptor
 * handed over, and this process becomes the COMMAND, so that it keeps its pid. The watcher ends
 * when the last process with the filter has.
 *
 * Failure modes: what is wrong before COMMAND runs is told, exit code 1. A watcher that cannot go
 * on ends with a message: the server's flushes then fail with ENOSYS, which no server overlooks.
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "scripts/bench/nanoseconds.h"
#include "src/base/assert.h"

#define WAITING_MAX 256 /* threads of a server that flush at one time */
#define DELAY_US_MAX 10000000
#define PAGE_BYTES 4096 /* LMDB writes whole pages to data that is flushed later */

#if defined(__x86_64__)
#define MACHINE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define MACHINE AUDIT_ARCH_AARCH64
#else
#error "slow_disk: which machine is this?"
#endif

/* A flush that is stopped. */
struct waiting {
    uint64_t id; /* the kernel's */
    uint64_t due_ns;
};

static struct waiting waiting[WAITING_MAX];
static size_t waiting_count;

/* The content of a small file, with a 0 behind it; false if there is none. */
static bool read_small(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd < 0 ? -1 : read(fd, text, size - 1);

    if (fd >= 0) {
        close(fd);
    }
    text[len > 0 ? len : 0] = '\0';
    return len >= 0;
}

static uint64_t delay_ns(const char *path)
{
    char text[32];
    char *end = text;
    unsigned long us = 0;

    if (read_small(path, text, sizeof text)) {
        us = strtoul(text, &end, 10);
    }
    if (end == text || (*end != '\0' && *end != '\n') || us > DELAY_US_MAX) {
        errx(1, "%s: '%s' is not a number of microseconds, 0 to %d", path, text, DELAY_US_MAX);
    }
    return us * 1000U;
}

/* Is the write's descriptor one whose writes are flushed? */
static bool is_flushed(const struct seccomp_notif *call)
{
    char path[64];
    char text[256];
    const char *flags;

    snprintf(path, sizeof path, "/proc/%u/fdinfo/%d", call->pid, (int)call->data.args[0]);
    if (!read_small(path, text, sizeof text) || (flags = strstr(text, "flags:")) == NULL) {
        return false; /* the thread has ended */
    }
    return (strtoul(flags + strlen("flags:"), NULL, 8) & O_DSYNC) != 0;
}

/* Let a call go on. It may be gone: its process was killed. */
static void release(int listener, uint64_t id)
{
    struct seccomp_notif_resp go = {.id = id, .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};

    if (ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &go) != 0 && errno != ENOENT) {
        err(1, "cannot let a flush go on");
    }
}

static void take(int listener, const char *path)
{
    struct seccomp_notif call = {0};
    uint64_t delay;

    if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &call) != 0) {
        if (errno != ENOENT && errno != EINTR) {
            err(1, "cannot take a flush");
        }
        return;
    }
    delay = call.data.nr == SYS_pwrite64 && !is_flushed(&call) ? 0 : delay_ns(path);
    if (delay == 0) {
        release(listener, call.id);
        return;
    }
    if (waiting_count == WAITING_MAX) {
        errx(1, "more than %d threads flush at one time", WAITING_MAX);
    }
    waiting[waiting_count++] = (struct waiting){call.id, nanoseconds(CLOCK_MONOTONIC) + delay};
}

/* Let go what is due; returns when the next one is, UINT64_MAX if nothing waits. */
static uint64_t release_due(int listener)
{
    uint64_t now = nanoseconds(CLOCK_MONOTONIC);
    uint64_t next = UINT64_MAX;

    for (size_t i = 0; i < waiting_count;) {
        if (waiting[i].due_ns <= now) {
            release(listener, waiting[i].id);
            waiting[i] = waiting[--waiting_count];
        } else {
            next = waiting[i].due_ns < next ? waiting[i].due_ns : next;
            i++;
        }
    }
    return next;
}

static _Noreturn void watch(int listener, const char *path)
{
    (void)prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
    for (;;) {
        struct pollfd fd = {.fd = listener, .events = POLLIN};
        uint64_t next = release_due(listener);
        uint64_t now = nanoseconds(CLOCK_MONOTONIC);
        uint64_t rest = next > now ? next - now : 0;
        struct timespec limit = {(time_t)(rest / 1000000000U), (long)(rest % 1000000000U)};

        if (ppoll(&fd, 1, next == UINT64_MAX ? NULL : &limit, NULL) < 0 && errno != EINTR) {
            err(1, "poll");
        }
        if ((fd.revents & POLLIN) != 0) {
            take(listener, path);
        } else if ((fd.revents & (POLLHUP | POLLERR)) != 0) {
            exit(0);
        }
    }
}

/* --- the start --- */

/* Stop flushes and small writes to a place; all else goes on. Small ones only, for LMDB's meta page
 * is less than a page, and asking about each page would slow down more than flushes. */
static int install(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MACHINE, 0, 7),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fdatasync, 6, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fsync, 5, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_msync, 4, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pwrite64, 0, 2),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, PAGE_BYTES, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
    };
    struct sock_fprog program = {sizeof code / sizeof code[0], code};
    long fd;

    if (prctl(PR_SET_NO_NEW_PRIVS, 1UL, 0UL, 0UL, 0UL) != 0) {
        err(1, "no_new_privs");
    }
    /* Only a signal that kills takes a thread out of a flush: Go's would let it begin again. */
    fd = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                 SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV,
                 &program);
    if (fd < 0) {
        err(1, "the filter of system calls");
    }
    return (int)fd;
}

union control {
    struct cmsghdr head;
    char bytes[CMSG_SPACE(sizeof(int))];
};

static void send_fd(int to, int fd)
{
    char byte = 0;
    struct iovec data = {&byte, 1};
    union control control = {{0}};
    struct msghdr message = {.msg_iov = &data,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);

    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(head), &fd, sizeof fd);
    if (sendmsg(to, &message, 0) != 1) {
        err(1, "cannot hand the filter over");
    }
}

/* -1 if the other side has ended. */
static int receive_fd(int from)
{
    char byte;
    int fd;
    struct iovec data = {&byte, 1};
    union control control;
    struct msghdr message = {.msg_iov = &data,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};

    if (recvmsg(from, &message, MSG_CMSG_CLOEXEC) != 1 || CMSG_FIRSTHDR(&message) == NULL) {
        return -1;
    }
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    return fd;
}

/* A grandchild, so that the server has no child that it did not start. */
static void start_watcher(int ends[2], const char *path)
{
    pid_t child = fork();

    if (child < 0) {
        err(1, "fork");
    }
    if (child > 0) {
        ASSERT(waitpid(child, NULL, 0) == child);
        return;
    }
    if (fork() == 0) {
        int listener;

        close(ends[0]);
        listener = receive_fd(ends[1]);
        if (listener >= 0) {
            watch(listener, path);
        }
    }
    _exit(0);
}

int main(int argc, char **argv)
{
    int ends[2];
    int listener;

    if (argc < 3) {
        errx(1, "usage: slow_disk FILE COMMAND...");
    }
    (void)delay_ns(argv[1]); /* is told now if it is wrong */
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
        err(1, "socketpair");
    }
    start_watcher(ends, argv[1]);
    close(ends[1]);
    listener = install();
    send_fd(ends[0], listener);
    close(listener);
    close(ends[0]);
    execvp(argv[2], argv + 2);
    err(1, "%s", argv[2]);
}
