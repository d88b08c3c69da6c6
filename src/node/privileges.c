/*
 * privileges.c - see privileges.h.
 *
 * The list of system calls comes from traces of nodes in the tests of real processes. It also has
 * rare calls of the C library, OpenSSL and the resolver (reseeding, growing a heap, another thread
 * of libuv's pool, aborting). A name that an architecture lacks is skipped. Calls without a
 * condition cost almost nothing: the kernel keeps a bitmap of them.
 *
 * The C library has no functions for Landlock's three calls, and the system's headers may be older
 * than its kernel: so their numbers are defined here.
 *
 * Thread: main.
 */
#include "src/node/privileges.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <libgen.h>
#include <pwd.h>
#include <sched.h>
#include <seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/quota.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <termios.h>
#include <unistd.h>

#include "src/base/assert.h"
#include "src/base/container.h"
#include "src/node/config/config.h"

/* --- Landlock: paths --- */

/* The same on all architectures. */
#define CALL_CREATE_RULESET 444
#define CALL_ADD_RULE 445
#define CALL_RESTRICT_SELF 446

#define CREATE_VERSION 1U /* flag: ask for the version */
#define RULE_PATH_BENEATH 1

/* Rights, and the Landlock version that added them. */
#define RIGHT_EXECUTE (1ULL << 0)
#define RIGHT_WRITE_FILE (1ULL << 1)
#define RIGHT_READ_FILE (1ULL << 2)
#define RIGHT_READ_DIR (1ULL << 3)
#define RIGHT_REMOVE_DIR (1ULL << 4)
#define RIGHT_REMOVE_FILE (1ULL << 5)
#define RIGHT_MAKE_DIR (1ULL << 7)
#define RIGHT_MAKE_REG (1ULL << 8)
#define RIGHTS_1 ((1ULL << 13) - 1)
#define RIGHT_REFER (1ULL << 13)     /* 2 */
#define RIGHT_TRUNCATE (1ULL << 14)  /* 3 */
#define RIGHT_IOCTL_DEV (1ULL << 15) /* 5 */
#define SCOPES 3ULL                  /* 6: abstract sockets and signals */

#define RIGHTS_OF_FILES (RIGHT_EXECUTE | RIGHT_WRITE_FILE | RIGHT_READ_FILE | RIGHT_TRUNCATE)
#define RIGHTS_TO_READ (RIGHT_READ_FILE | RIGHT_READ_DIR)
#define RIGHTS_TO_WRITE                                                                            \
    (RIGHTS_TO_READ | RIGHT_WRITE_FILE | RIGHT_TRUNCATE | RIGHT_REMOVE_DIR | RIGHT_REMOVE_FILE |   \
     RIGHT_MAKE_DIR | RIGHT_MAKE_REG)

struct ruleset {
    uint64_t handled_fs; /* denied unless a rule allows it */
    uint64_t handled_net;
    uint64_t scoped;
};

struct rule {
    uint64_t allowed;
    int32_t parent_fd;
} __attribute__((packed));

int sandbox_paths_restrict(const struct sandbox_path *paths, size_t count, unsigned *ret_version)
{
    long version = syscall(CALL_CREATE_RULESET, NULL, 0, CREATE_VERSION);
    struct ruleset ruleset = {.handled_fs = RIGHTS_1 | (version >= 2 ? RIGHT_REFER : 0) |
                                            (version >= 3 ? RIGHT_TRUNCATE : 0) |
                                            (version >= 5 ? RIGHT_IOCTL_DEV : 0)};
    size_t size = version >= 6 ? sizeof ruleset : sizeof ruleset.handled_fs;
    int rv = 0;
    int fd;

    if (version < 1) {
        return version < 0 ? -errno : -ENOSYS;
    }
    ruleset.scoped = version >= 6 ? SCOPES : 0;
    fd = (int)syscall(CALL_CREATE_RULESET, &ruleset, size, 0);
    if (fd < 0) {
        return -errno;
    }
    for (size_t i = 0; rv == 0 && i < count; i++) {
        struct rule rule = {.allowed = paths[i].writable ? RIGHTS_TO_WRITE : RIGHTS_TO_READ,
                            .parent_fd = open(paths[i].path, O_PATH | O_CLOEXEC)};
        struct stat st;

        if (rule.parent_fd < 0) {
            continue; /* there is nothing to open */
        }
        if (fstat(rule.parent_fd, &st) != 0) {
            rv = -errno;
        }
        rule.allowed &= ruleset.handled_fs;
        rule.allowed &= rv == 0 && S_ISDIR(st.st_mode) ? UINT64_MAX : RIGHTS_OF_FILES;
        if (rv == 0 && syscall(CALL_ADD_RULE, fd, RULE_PATH_BENEATH, &rule, 0) != 0) {
            rv = -errno;
        }
        (void)close(rule.parent_fd);
    }
    if (rv == 0 && syscall(CALL_RESTRICT_SELF, fd, 0) != 0) {
        rv = -errno;
    }
    (void)close(fd);
    *ret_version = (unsigned)version;
    return rv;
}

/* --- seccomp: system calls --- */

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
static const char *const seccomp_allowed[] = {
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
    /* information on itself and the system; random numbers, which must never fail */
    "getrandom", "getpid", "getppid", "getuid", "geteuid", "getgid", "getegid", "getresuid",
    "getresgid", "getrusage", "getrlimit", "uname", "sysinfo", "umask", "capget",
    /* the second stage, which can only restrict further */
    "seccomp"};

/* No correct program makes these calls by mistake. */
static const char *const seccomp_deadly[] = {
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
    /* user and groups */
    "setuid", "setgid", "setreuid", "setregid", "setresuid", "setresgid", "setfsuid", "setfsgid",
    "setgroups", "capset",
    /* the machine and its settings */
    "personality", "acct", "iopl", "ioperm", "modify_ldt", "io_uring_setup", "settimeofday",
    "clock_settime", "adjtimex", "clock_adjtime", "sethostname", "setdomainname", "quotactl",
    "syslog", "vhangup"};

struct filter {
    scmp_filter_ctx context;
    int rv; /* 0, or the error of the first rule that failed */
};

/* A call that this architecture does not have is skipped. */
static void filter_add(struct filter *filter, uint32_t action, const char *name,
                       const struct scmp_arg_cmp *condition)
{
    int number = seccomp_syscall_resolve_name(name);

    if (filter->rv == 0 && number >= 0) {
        filter->rv =
            seccomp_rule_add_array(filter->context, action, number, condition != NULL, condition);
    }
}

static void filter_add_all(struct filter *filter, uint32_t action, const char *const names[],
                           size_t count)
{
    for (size_t i = 0; i < count; i++) {
        filter_add(filter, action, names[i], NULL);
    }
}

/* Conditional calls: open() only of files themselves; memory is never writable and executable at
 * once. A node makes threads but no processes, and only network sockets (the resolver works without
 * netlink and local ones). A tool makes a child that checks a store, directories and names, and no
 * socket but between the two. */
static void filter_allow(struct filter *filter, bool is_tool)
{
    static const char *const of_tool[] = {
        "clone",  "wait4",    "waitid",    "kill",   "alarm",    "setitimer", "mkdir", "mkdirat",
        "rename", "renameat", "renameat2", "unlink", "unlinkat", "rmdir",     "chmod", "fchmod"};
    const scmp_datum_t get_quota = (scmp_datum_t)Q_GETQUOTA << SUBCMDSHIFT;
    enum { NODE = 1, TOOL = 2, BOTH = NODE | TOOL };
    const struct {
        unsigned of;
        const char *name;
        struct scmp_arg_cmp condition;
    } calls[] = {
        {BOTH, "tgkill", SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)getpid(), 0)},
        {BOTH, "mmap", SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_WRITE, 0)},
        {BOTH, "mmap", SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0)},
        {BOTH, "mprotect", SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0)},
        {BOTH, "prctl", SCMP_A0(SCMP_CMP_EQ, PR_SET_NAME, 0)},
        {BOTH, "prctl", SCMP_A0(SCMP_CMP_EQ, PR_GET_NAME, 0)},
        {BOTH, "prctl", SCMP_A0(SCMP_CMP_EQ, PR_GET_DUMPABLE, 0)},
        {BOTH, "prlimit64", SCMP_A2(SCMP_CMP_EQ, 0, 0)},
        {BOTH, "quotactl_fd", SCMP_A1(SCMP_CMP_EQ, get_quota | USRQUOTA, 0)},
        {BOTH, "quotactl_fd", SCMP_A1(SCMP_CMP_EQ, get_quota | GRPQUOTA, 0)},
        {BOTH, "ioctl", SCMP_A1(SCMP_CMP_EQ, FIONBIO, 0)},
        {BOTH, "ioctl", SCMP_A1(SCMP_CMP_EQ, FIONREAD, 0)},
        {BOTH, "ioctl", SCMP_A1(SCMP_CMP_EQ, FIOCLEX, 0)},
        {BOTH, "ioctl", SCMP_A1(SCMP_CMP_EQ, TCGETS, 0)},
        /* for the second stage, which can only restrict further */
        {BOTH, "prctl", SCMP_A0(SCMP_CMP_EQ, PR_SET_NO_NEW_PRIVS, 0)},
        {BOTH, "prctl", SCMP_A0(SCMP_CMP_EQ, PR_GET_SECCOMP, 0)},
        {BOTH, "prctl", SCMP_A0(SCMP_CMP_EQ, PR_SET_SECCOMP, 0)},
        {NODE, "clone", SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, CLONE_THREAD)},
        {NODE, "socket", SCMP_A0(SCMP_CMP_EQ, AF_INET, 0)},
        {NODE, "socket", SCMP_A0(SCMP_CMP_EQ, AF_INET6, 0)},
        {TOOL, "socketpair", SCMP_A0(SCMP_CMP_EQ, AF_UNIX, 0)},
        {TOOL, "prctl", SCMP_A0(SCMP_CMP_EQ, PR_SET_DUMPABLE, 0)},
        {TOOL, "prctl", SCMP_A0(SCMP_CMP_EQ, PR_SET_PDEATHSIG, 0)},
    };

    filter_add_all(filter, SCMP_ACT_ALLOW, seccomp_allowed, COUNT_OF(seccomp_allowed));
    filter_add_all(filter, SCMP_ACT_ALLOW, of_tool, is_tool ? COUNT_OF(of_tool) : 0);
    for (size_t i = 0; i < COUNT_OF(calls); i++) {
        if ((calls[i].of & (is_tool ? TOOL : NODE)) != 0) {
            filter_add(filter, SCMP_ACT_ALLOW, calls[i].name, &calls[i].condition);
        }
    }
    /* seccomp cannot see its arguments; without it the C library uses clone(). */
    filter_add(filter, SCMP_ACT_ERRNO(ENOSYS), "clone3", NULL);
    filter_add_all(filter, SCMP_ACT_KILL_PROCESS, seccomp_deadly, COUNT_OF(seccomp_deadly));
}

int sandbox_calls_restrict(enum sandbox_calls stage)
{
    static const char *const over[] = {"bind", "listen", "openat2", "creat", "seccomp"};
    static const scmp_datum_t writing[] = {O_WRONLY, O_RDWR, O_CREAT, O_TRUNC};
    bool serves = stage == SANDBOX_CALLS_SERVE;
    struct filter filter = {NULL, 0};

    if (WITH_SANITIZER) {
        return -EOPNOTSUPP;
    }
    filter.context = seccomp_init(serves ? SCMP_ACT_ALLOW : SCMP_ACT_ERRNO(EPERM));
    if (filter.context == NULL) {
        return -ENOMEM;
    }
    filter.rv = seccomp_attr_set(filter.context, SCMP_FLTATR_CTL_TSYNC, 1);
    if (filter.rv == 0) {
        filter.rv =
            seccomp_attr_set(filter.context, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
    }
    if (serves) {
        /* Calls that only the start needed: an error from now on. */
        filter_add_all(&filter, SCMP_ACT_ERRNO(EPERM), over, COUNT_OF(over));
        for (size_t i = 0; i < COUNT_OF(writing); i++) {
            const struct scmp_arg_cmp at = SCMP_A2(SCMP_CMP_MASKED_EQ, writing[i], writing[i]);
            const struct scmp_arg_cmp plain = SCMP_A1(SCMP_CMP_MASKED_EQ, writing[i], writing[i]);

            filter_add(&filter, SCMP_ACT_ERRNO(EACCES), "openat", &at);
            filter_add(&filter, SCMP_ACT_ERRNO(EACCES), "open", &plain);
        }
    } else {
        filter_allow(&filter, stage == SANDBOX_CALLS_TOOL);
    }
    if (filter.rv == 0) {
        filter.rv = seccomp_load(filter.context);
    }
    seccomp_release(filter.context);
    return filter.rv;
}

/* --- the sandbox --- */

/* System files: settings, libraries (the resolver loads some at its first use), and information on
 * the machine and on this process. */
static const char *const of_system[] = {
    "/etc", "/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/share/zoneinfo",
    /* targets of the resolver's settings, which may be links */
    "/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager",
    /* the machine, and this process */
    "/sys/devices/system/cpu", "/sys/fs/cgroup", "/proc/self", "/proc/meminfo", "/proc/sys/net",
    "/dev/null", "/dev/urandom"};

#define SYSTEM_COUNT (sizeof of_system / sizeof of_system[0])
/* For the file of each setting, certificates, the config file and /etc/resolv.conf: its directory,
 * and that of its links' target. And the data directory. */
#define PATHS_MAX (SYSTEM_COUNT + 2 * (CONFIG_FILES_MAX + 1) + 1)

struct paths {
    struct sandbox_path list[PATHS_MAX]; /* paths: owned */
    size_t count;
};

static void paths_put(struct paths *paths, const char *path, bool writable)
{
    ASSERT(paths->count < PATHS_MAX);
    paths->list[paths->count++] = (struct sandbox_path){MUST_HAVE(strdup(path)), writable};
}

/* The file's directory, so that the file can be replaced; for a file in the root only the file. */
static void paths_put_directory_of(struct paths *paths, const char *path)
{
    char *copy = MUST_HAVE(strdup(path));
    const char *directory = dirname(copy);

    paths_put(paths, strcmp(directory, "/") == 0 ? path : directory, false);
    free(copy);
}

static void paths_put_file(struct paths *paths, const char *path)
{
    if (path[0] != '\0') {
        char *target = realpath(path, NULL); /* NULL: not there */

        paths_put_directory_of(paths, path);
        if (target != NULL) {
            paths_put_directory_of(paths, target);
        }
        free(target);
    }
}

/* These, and the system's. Frees them. 0 or a negative errno. */
static int paths_restrict(struct paths *paths, unsigned *ret_version)
{
    int rv;

    for (size_t i = 0; i < SYSTEM_COUNT; i++) {
        paths_put(paths, of_system[i], false);
    }
    rv = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
             ? sandbox_paths_restrict(paths->list, paths->count, ret_version)
             : -errno;

    for (size_t i = 0; i < paths->count; i++) {
        free((void *)(uintptr_t)paths->list[i].path);
    }
    free(paths);
    return rv;
}

/* A feature of the sandbox is missing. 0, or ERR_INVALID if the sandbox is required. config: NULL
 * for a tool. */
static int missing(const struct config *config, const char *what, int rv)
{
    if (config != NULL && config->process.sandbox == CONFIG_SANDBOX_ON) {
        log_error("app", "there is no sandbox, and sandbox = on", "missing=%s reason=\"%s\"", what,
                  strerror(-rv));
        return ERR_INVALID;
    }
    log_line(config != NULL ? LOG_LEVEL_WARN : LOG_LEVEL_INFO, "app",
             "a part of the sandbox is off", "missing=%s reason=\"%s\"", what, strerror(-rv));
    return 0;
}

int sandbox_begin(const struct config *config, bool *ret_has_calls)
{
    struct config_file files[CONFIG_FILES_MAX];
    size_t count = config_files(config, files);
    unsigned version = 0;
    struct paths *paths;
    int rv;

    *ret_has_calls = false;
    if (config->process.sandbox == CONFIG_SANDBOX_OFF ||
        config->process.sandbox == CONFIG_SANDBOX_DEBUG) {
        log_info("app", "there is no sandbox", "sandbox=%s",
                 config->process.sandbox == CONFIG_SANDBOX_OFF ? "off" : "debug");
        return 0;
    }
    paths = MUST_HAVE(malloc(sizeof *paths));
    paths->count = 0;
    paths_put(paths, config->data.root != NULL ? config->data.root : config->data.dir, true);
    paths_put_file(paths, "/etc/resolv.conf");
    for (size_t i = 0; i < count; i++) {
        paths_put_file(paths, files[i].path);
    }
    rv = paths_restrict(paths, &version);
    if (rv == 0) {
        log_info("app", "only the paths that are needed can be opened", "landlock=%u writable=%s",
                 version, LOG_QUOTED(config->data.dir, LIMIT_PATH_BYTES + 77));
    } else if (missing(config, "landlock", rv) != 0) {
        return ERR_INVALID;
    }
    rv = sandbox_calls_restrict(SANDBOX_CALLS_START);
    *ret_has_calls = rv == 0;
    return rv == 0 ? 0 : missing(config, "seccomp", rv);
}

int sandbox_complete(const struct config *config)
{
    int rv = sandbox_calls_restrict(SANDBOX_CALLS_SERVE);

    if (rv != 0) {
        return missing(config, "seccomp", rv);
    }
    log_info("app", "only the system calls that are needed can be made", "seccomp=yes");
    return 0;
}

void sandbox_tool(const char *file, const char *const directories[], size_t count)
{
    struct paths *all = MUST_HAVE(malloc(sizeof *all));
    unsigned version = 0;
    int rv;

    ASSERT(count + SYSTEM_COUNT < PATHS_MAX);
    all->count = 0;
    if (file != NULL) {
        paths_put(all, file, false);
    }
    for (size_t i = 0; i < count; i++) {
        char *copy = MUST_HAVE(strdup(directories[i]));

        /* If it is missing: its parent. */
        paths_put(all, access(copy, F_OK) == 0 ? copy : dirname(copy), true);
        free(copy);
    }
    rv = paths_restrict(all, &version);
    if (rv != 0) {
        (void)missing(NULL, "landlock", rv);
    }
    rv = sandbox_calls_restrict(SANDBOX_CALLS_TOOL);
    if (rv != 0) {
        (void)missing(NULL, "seccomp", rv);
    }
}

/* --- the user --- */

static int privileges_fail(struct config_error *ret_error, const char *what, const char *object)
{
    return config_fail(ret_error, "%s %s: %s", what, object, strerror(errno));
}

static bool is_root(void)
{
    return geteuid() == 0 || getuid() == 0;
}

/* --- the data directory of another user --- */

/* Make it if it is missing. An existing one is checked when the store is opened. */
static int make_data_dir(const struct config *config, const struct passwd *user,
                         struct config_error *ret_error)
{
    const char *dir = config->data.dir;
    char parent[LIMIT_PATH_BYTES + 4];
    int parent_fd = -1;
    int rv = 0;
    int fd;

    if (config->bootstrap == CONFIG_BOOTSTRAP_NEVER || mkdir(dir, 0700) != 0) {
        return 0; /* if it is really missing, the store reports it */
    }
    (void)snprintf(parent, sizeof parent, "%s/..", dir);
    /* If it was replaced meanwhile: it must be a directory, and links are not followed. */
    fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fchown(fd, user->pw_uid, user->pw_gid) != 0) {
        rv = privileges_fail(ret_error, "cannot give the user data.dir", dir);
    } else if ((parent_fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0 ||
               fsync(parent_fd) != 0) {
        /* A new name in a directory is durable once that directory is synced. */
        rv = privileges_fail(ret_error, "cannot sync", parent);
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    if (parent_fd >= 0) {
        (void)close(parent_fd);
    }
    return rv;
}

/* --- another user --- */

/* The user of the setting. */
static int find_user(const char *name, bool root_may, const struct passwd **ret_user,
                     struct config_error *ret_error)
{
    errno = 0;
    *ret_user = getpwnam(name); /* NOLINT(concurrency-mt-unsafe): there is no other thread yet */
    if (*ret_user == NULL) {
        return config_fail(ret_error, "user = %s: there is no such user%s%s", name,
                           errno != 0 ? ": " : "", errno != 0 ? strerror(errno) : "");
    }
    return root_may || (*ret_user)->pw_uid != 0
               ? 0
               : config_fail(ret_error, "user = %s is root: name a user without its rights", name);
}

/* By its name: another name for user 0 is a mistake. */
static bool stays_root(const struct config *config)
{
    return strcmp(config->process.user, CONFIG_ROOT) == 0;
}

int privileges_check(const struct config *config, struct config_error *ret_error)
{
    const char *name = config->process.user;
    const struct passwd *user;

    return name[0] == '\0' || stays_root(config) ? 0 : find_user(name, false, &user, ret_error);
}

static int drop_to_user(const struct config *config, struct config_error *ret_error)
{
    struct config_file files[CONFIG_FILES_MAX];
    size_t count = config_files(config, files);
    const char *name = config->process.user;
    const struct passwd *user;
    int rv = find_user(name, !is_root(), &user, ret_error);

    if (rv != 0) {
        return rv;
    }
    if (!is_root()) {
        return user->pw_uid == getuid()
                   ? 0
                   : config_fail(ret_error,
                                 "user = %s: only root can become another user, and this is user "
                                 "%u",
                                 name, (unsigned)getuid());
    }
    rv = make_data_dir(config, user, ret_error);
    if (rv != 0) {
        return rv;
    }
    if (initgroups(user->pw_name, user->pw_gid) != 0 ||
        setresgid(user->pw_gid, user->pw_gid, user->pw_gid) != 0 ||
        setresuid(user->pw_uid, user->pw_uid, user->pw_uid) != 0) {
        return privileges_fail(ret_error, "cannot become user", user->pw_name);
    }
    ASSERT(setuid(0) != 0 && !is_root());
    /* The user must be able to read the files again that root has read. */
    for (size_t i = 0; i < count; i++) {
        if (files[i].path[0] != '\0' && access(files[i].path, R_OK) != 0) {
            return config_fail(ret_error,
                               "%s %s: user %s cannot read it (%s), so no SIGHUP could have it "
                               "read again",
                               files[i].what, files[i].path, name, strerror(errno));
        }
    }
    return 0;
}

int privileges_drop(const struct config *config, struct config_error *ret_error)
{
    int rv = 0;

    if (config->process.user[0] != '\0' && !(stays_root(config) && is_root())) {
        rv = drop_to_user(config, ret_error);
    } else if (is_root() && !stays_root(config)) {
        rv = config_fail(ret_error, "leafd does not run as root: start it as a user of its own, or "
                                    "set user to the one that it is to become (data.dir has to be "
                                    "theirs); user = root lets it run as root");
    }
    if (rv == 0) {
        /* A change of user resets the second one. */
        ASSERT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
        ASSERT(prctl(PR_SET_DUMPABLE, config->process.sandbox == CONFIG_SANDBOX_DEBUG, 0, 0, 0) ==
               0);
    }
    return rv;
}

void privileges_report(const struct config *config)
{
    if (is_root()) {
        log_warn("app", "running as root", "hint=\"set user, and give data.dir to that user\"");
    } else {
        log_info("app", "running without privileges", "uid=%u gid=%u dumpable=%s",
                 (unsigned)geteuid(), (unsigned)getegid(),
                 config->process.sandbox == CONFIG_SANDBOX_DEBUG ? "yes" : "no");
    }
}
