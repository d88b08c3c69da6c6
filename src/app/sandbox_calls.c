/*
 * sandbox_calls.c - see sandbox_calls.h.
 *
 * The list was learnt by tracing nodes through the tests of real processes, and has beside that
 * what the C library, OpenSSL and the resolver do rarely (reseeding, growing a heap, another thread
 * of libuv's pool, aborting). A name that an architecture does not have is passed over. Calls
 * without a condition cost next to nothing: the kernel keeps a bitmap of them.
 *
 * Thread: main.
 */
#include "src/app/sandbox_calls.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <termios.h>
#include <unistd.h>

#include "src/base/container.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define WITH_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define WITH_SANITIZER 1
#endif
#endif
#ifndef WITH_SANITIZER
#define WITH_SANITIZER 0
#endif

/* Whatever their arguments. */
static const char *const allowed[] = {
    /* files and what is open */
    "open", "openat", "read", "readv", "pread64", "preadv", "preadv2", "write", "writev",
    "pwrite64", "pwritev", "pwritev2", "lseek", "close", "fstat", "fstat64", "newfstatat",
    "fstatat64", "stat", "lstat", "statx", "statfs", "fstatfs", "access", "faccessat", "faccessat2",
    "readlink", "readlinkat", "getcwd", "getdents64", "fcntl", "flock", "ftruncate", "fallocate",
    "fsync", "fdatasync", "sync_file_range", "dup", "dup3", "pipe2",
    /* memory */
    "brk", "munmap", "mremap", "msync", "madvise", "mincore", "membarrier",
    /* threads, time, signals */
    "futex", "futex_waitv", "set_robust_list", "get_robust_list", "rseq", "sched_yield",
    "sched_getaffinity", "sched_getparam", "sched_getscheduler", "sched_get_priority_max",
    "sched_get_priority_min", "gettid", "getcpu", "exit", "exit_group", "nanosleep",
    "clock_nanosleep", "clock_gettime", "clock_getres", "gettimeofday", "time", "times",
    "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "rt_sigpending", "rt_sigtimedwait",
    "sigaltstack", "restart_syscall", "signalfd4", "pause",
    /* loops */
    "epoll_create1", "epoll_ctl", "epoll_wait", "epoll_pwait", "epoll_pwait2", "eventfd2", "poll",
    "ppoll", "select", "pselect6", "timerfd_create", "timerfd_settime", "timerfd_gettime",
    /* the network */
    "connect", "accept", "accept4", "bind", "listen", "shutdown", "getsockname", "getpeername",
    "setsockopt", "getsockopt", "sendto", "sendmsg", "sendmmsg", "recvfrom", "recvmsg", "recvmmsg",
    /* questions about itself and the system; random numbers, which must never fail */
    "getrandom", "getpid", "getppid", "getuid", "geteuid", "getgid", "getegid", "getresuid",
    "getresgid", "getrusage", "getrlimit", "uname", "sysinfo", "umask", "capget",
    /* the second stage, which can only take more away */
    "seccomp"};

/* Nobody does these by mistake. */
static const char *const deadly[] = {
    /* other programs and processes */
    "execve", "execveat", "fork", "vfork", "ptrace", "process_vm_readv", "process_vm_writev",
    "process_madvise", "pidfd_getfd", "kcmp",
    /* file systems and name spaces */
    "mount", "umount2", "move_mount", "open_tree", "fsopen", "fsmount", "fsconfig", "mount_setattr",
    "pivot_root", "chroot", "setns", "unshare",
    /* the kernel, and its keys */
    "init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load", "reboot",
    "swapon", "swapoff", "bpf", "perf_event_open", "userfaultfd", "keyctl", "add_key",
    "request_key", "open_by_handle_at",
    /* whose it is */
    "setuid", "setgid", "setreuid", "setregid", "setresuid", "setresgid", "setfsuid", "setfsgid",
    "setgroups", "capset",
    /* the machine and its settings */
    "personality", "acct", "iopl", "ioperm", "modify_ldt", "io_uring_setup", "settimeofday",
    "clock_settime", "adjtimex", "clock_adjtime", "sethostname", "setdomainname", "quotactl",
    "syslog", "vhangup"};

/* 0, also for a call that this architecture does not have. */
static int add(scmp_filter_ctx filter, uint32_t action, const char *name, unsigned count,
               const struct scmp_arg_cmp *conditions)
{
    int number = seccomp_syscall_resolve_name(name);

    return number < 0 ? 0 : seccomp_rule_add_array(filter, action, number, count, conditions);
}

static int add_all(scmp_filter_ctx filter, uint32_t action, const char *const names[], size_t count)
{
    int rv = 0;

    for (size_t i = 0; rv == 0 && i < count; i++) {
        rv = add(filter, action, names[i], 0, NULL);
    }
    return rv;
}

struct conditioned {
    const char *name;
    struct scmp_arg_cmp condition;
};

static int add_conditioned(scmp_filter_ctx filter, const struct conditioned *calls, size_t count)
{
    int rv = 0;

    for (size_t i = 0; rv == 0 && i < count; i++) {
        rv = add(filter, SCMP_ACT_ALLOW, calls[i].name, 1, &calls[i].condition);
    }
    return rv;
}

/* Files that are opened as themselves; memory that is never writable and executable. */
static int add_common(scmp_filter_ctx filter)
{
    const struct conditioned calls[] = {
        {"tgkill", SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)getpid(), 0)},
        {"mmap", SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_WRITE, 0)},
        {"mmap", SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0)},
        {"mprotect", SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0)},
        {"prctl", SCMP_A0(SCMP_CMP_EQ, PR_SET_NAME, 0)},
        {"prctl", SCMP_A0(SCMP_CMP_EQ, PR_GET_NAME, 0)},
        {"prctl", SCMP_A0(SCMP_CMP_EQ, PR_GET_DUMPABLE, 0)},
        {"prlimit64", SCMP_A2(SCMP_CMP_EQ, 0, 0)},
        {"ioctl", SCMP_A1(SCMP_CMP_EQ, FIONBIO, 0)},
        {"ioctl", SCMP_A1(SCMP_CMP_EQ, FIONREAD, 0)},
        {"ioctl", SCMP_A1(SCMP_CMP_EQ, FIOCLEX, 0)},
        {"ioctl", SCMP_A1(SCMP_CMP_EQ, TCGETS, 0)},
        /* of the second stage, which can only take more away */
        {"prctl", SCMP_A0(SCMP_CMP_EQ, PR_SET_NO_NEW_PRIVS, 0)},
        {"prctl", SCMP_A0(SCMP_CMP_EQ, PR_GET_SECCOMP, 0)},
        {"prctl", SCMP_A0(SCMP_CMP_EQ, PR_SET_SECCOMP, 0)},
    };
    int rv = add_all(filter, SCMP_ACT_ALLOW, allowed, COUNT_OF(allowed));

    if (rv == 0) {
        rv = add_conditioned(filter, calls, COUNT_OF(calls));
    }
    /* Its arguments cannot be looked at; the C library then does with clone(). */
    if (rv == 0) {
        rv = add(filter, SCMP_ACT_ERRNO(ENOSYS), "clone3", 0, NULL);
    }
    return rv == 0 ? add_all(filter, SCMP_ACT_KILL_PROCESS, deadly, COUNT_OF(deadly)) : rv;
}

/* Threads but no processes; sockets of the network alone (the resolver does without netlink and
 * local ones). */
static int add_start(scmp_filter_ctx filter)
{
    const struct conditioned calls[] = {
        {"clone", SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, CLONE_THREAD)},
        {"socket", SCMP_A0(SCMP_CMP_EQ, AF_INET, 0)},
        {"socket", SCMP_A0(SCMP_CMP_EQ, AF_INET6, 0)},
    };
    int rv = add_common(filter);

    return rv == 0 ? add_conditioned(filter, calls, COUNT_OF(calls)) : rv;
}

/* A child that checks a store, with what it asks of the system; directories, names; no socket but
 * between the two. */
static int add_tool(scmp_filter_ctx filter)
{
    static const char *const calls[] = {
        "clone",  "wait4",    "waitid",    "kill",   "alarm",    "setitimer", "mkdir", "mkdirat",
        "rename", "renameat", "renameat2", "unlink", "unlinkat", "rmdir",     "chmod", "fchmod"};
    const struct conditioned few[] = {
        {"socketpair", SCMP_A0(SCMP_CMP_EQ, AF_UNIX, 0)},
        {"prctl", SCMP_A0(SCMP_CMP_EQ, PR_SET_DUMPABLE, 0)},
        {"prctl", SCMP_A0(SCMP_CMP_EQ, PR_SET_PDEATHSIG, 0)},
    };
    int rv = add_common(filter);

    if (rv == 0) {
        rv = add_all(filter, SCMP_ACT_ALLOW, calls, COUNT_OF(calls));
    }
    return rv == 0 ? add_conditioned(filter, few, COUNT_OF(few)) : rv;
}

/* What the start alone needed: an error from now on. */
static int add_serve(scmp_filter_ctx filter)
{
    static const char *const over[] = {"bind", "listen", "openat2", "creat", "seccomp"};
    static const int writing[] = {O_WRONLY, O_RDWR, O_CREAT, O_TRUNC};
    int rv = add_all(filter, SCMP_ACT_ERRNO(EPERM), over, COUNT_OF(over));

    for (size_t i = 0; rv == 0 && i < COUNT_OF(writing); i++) {
        scmp_datum_t bit = (scmp_datum_t)writing[i];
        const struct scmp_arg_cmp at = SCMP_A2(SCMP_CMP_MASKED_EQ, bit, bit);
        const struct scmp_arg_cmp plain = SCMP_A1(SCMP_CMP_MASKED_EQ, bit, bit);

        rv = add(filter, SCMP_ACT_ERRNO(EACCES), "openat", 1, &at);
        if (rv == 0) {
            rv = add(filter, SCMP_ACT_ERRNO(EACCES), "open", 1, &plain);
        }
    }
    return rv;
}

int sandbox_calls_restrict(enum sandbox_calls stage)
{
    bool serves = stage == SANDBOX_CALLS_SERVE;
    scmp_filter_ctx filter;
    int rv;

    if (WITH_SANITIZER) {
        return -EOPNOTSUPP;
    }
    filter = seccomp_init(serves ? SCMP_ACT_ALLOW : SCMP_ACT_ERRNO(EPERM));
    if (filter == NULL) {
        return -ENOMEM;
    }
    rv = seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1);
    if (rv == 0) {
        rv = seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
    }
    if (rv == 0) {
        rv = serves                         ? add_serve(filter)
             : stage == SANDBOX_CALLS_START ? add_start(filter)
                                            : add_tool(filter);
    }
    if (rv == 0) {
        rv = seccomp_load(filter);
    }
    seccomp_release(filter);
    return rv;
}
