/*
 * test_privileges.c - what is forbidden fails, or ends the process; what a node needs goes on.
 *
 * Each case runs in a child, which cannot be let out again. It exits with 0, or with the line that
 * failed. Thread: one, and one that children start.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/quota.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/tests/unit/test.h"
#include "src/node/privileges.h"

/* In a child. */
#define NEED(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s (errno %d)\n", __FILE__, __LINE__, #condition, errno);      \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

#define FAILS_WITH(number, call) NEED((errno = 0, (call)) == -1 && errno == (number))

static char base[64];

static void in_base(const char *name, char path[128])
{
    (void)snprintf(path, 128, "%s/%s", base, name);
}

static void make_file(const char *name, const char *text)
{
    char path[128];
    FILE *file;

    in_base(name, path);
    file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static int open_in(const char *name, int flags)
{
    char path[128];

    in_base(name, path);
    return open(path, flags, 0600);
}

/* Run it in a child; how that ended, as wait(2) says. */
static int in_child(void (*body)(void))
{
    const struct rlimit no_core = {0, 0};
    pid_t pid = fork();
    int status;

    assert_true(pid >= 0);
    if (pid == 0) {
        NEED(setrlimit(RLIMIT_CORE, &no_core) == 0);
        NEED(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
        body();
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void expect_goes_well(void (*body)(void))
{
    assert_int_equal(in_child(body), 0);
}

static void expect_is_killed(void (*body)(void), int number)
{
    int status = in_child(body);

    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), number);
}

/* --- paths --- */

static bool has_landlock(void)
{
    unsigned version;
    int status;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        _exit(sandbox_paths_restrict(NULL, 0, &version) == 0 ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status == 0;
}

static void restrict_paths(void)
{
    char data[128];
    char conf[128];
    const struct sandbox_path paths[] = {
        {data, true}, {conf, false}, {"/nonexistent/path", false}, {"/dev/null", false}};
    unsigned version = 0;

    in_base("data", data);
    in_base("conf", conf);
    NEED(sandbox_paths_restrict(paths, 4, &version) == 0);
    NEED(version >= 1);
}

static void *thread_of_paths(void *data)
{
    (void)data;
    FAILS_WITH(EACCES, open("/etc/passwd", O_RDONLY));
    return NULL;
}

static void paths_body(void)
{
    int before = open("/etc/passwd", O_RDONLY);
    char *const none[] = {NULL};
    char from[128];
    char to[128];
    pthread_t thread;
    char byte;
    int fd;

    NEED(before >= 0);
    restrict_paths();
    NEED(read(before, &byte, 1) == 1);
    FAILS_WITH(EACCES, open("/etc/passwd", O_RDONLY));
    FAILS_WITH(EACCES, open("/", O_RDONLY | O_DIRECTORY));
    FAILS_WITH(EACCES, open_in("other/file", O_RDONLY));
    FAILS_WITH(EACCES, open_in("other/new", O_WRONLY | O_CREAT));
    FAILS_WITH(EACCES, execve("/bin/true", none, none));
    NEED(pthread_create(&thread, NULL, thread_of_paths, NULL) == 0);
    NEED(pthread_join(thread, NULL) == 0);

    fd = open_in("data/new", O_RDWR | O_CREAT | O_EXCL);
    NEED(fd >= 0 && write(fd, "x", 1) == 1 && ftruncate(fd, 0) == 0);
    in_base("data/new", from);
    in_base("data/moved", to);
    NEED(rename(from, to) == 0 && unlink(to) == 0);
    FAILS_WITH(EACCES, symlink("/etc/passwd", from));
    FAILS_WITH(EACCES, mkfifo(from, 0600));

    NEED(open_in("conf/file", O_RDONLY) >= 0);
    FAILS_WITH(EACCES, open_in("conf/file", O_WRONLY));
    FAILS_WITH(EACCES, open_in("conf/new", O_WRONLY | O_CREAT));
    FAILS_WITH(EACCES, open_in("conf/link", O_RDONLY)); /* leads out of it */
    NEED(open("/dev/null", O_RDONLY) >= 0);
}

static void test_paths(void **state)
{
    (void)state;
    if (!has_landlock()) {
        skip();
    }
    expect_goes_well(paths_body);
}

/* A file that is put in the place of another, as certificates are renewed, is found. */
static void replaced_body(void)
{
    char path[128];
    char byte;
    int fd;
    pid_t writer;
    int pipe_fd[2];

    NEED(pipe(pipe_fd) == 0);
    writer = fork(); /* it stays outside */
    NEED(writer >= 0);
    if (writer == 0) {
        char next[128];

        NEED(read(pipe_fd[0], &byte, 1) == 1);
        in_base("other/next", next);
        in_base("conf/file", path);
        _exit(rename(next, path) == 0 ? 0 : 1);
    }
    restrict_paths();
    NEED(write(pipe_fd[1], "x", 1) == 1);
    NEED(waitpid(writer, NULL, 0) == writer);
    fd = open_in("conf/file", O_RDONLY);
    NEED(fd >= 0 && read(fd, &byte, 1) == 1 && byte == '2');
}

static void test_replaced_file(void **state)
{
    (void)state;
    if (!has_landlock()) {
        skip();
    }
    make_file("other/next", "2");
    expect_goes_well(replaced_body);
}

/* --- calls --- */

static void start_calls(void)
{
    NEED(sandbox_calls_restrict(SANDBOX_CALLS_START) == 0);
}

static void *thread_that_returns(void *data)
{
    return data;
}

static int listener(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    NEED(fd >= 0);
    return bind(fd, (struct sockaddr *)&address, sizeof address) == 0 && listen(fd, 8) == 0 ? fd
                                                                                            : -1;
}

/* What a node and its libraries do at any time. */
static long quota_call(unsigned long command)
{
    struct dqblk quota = {0};

    errno = 0;
    return syscall(SYS_quotactl_fd, open_in("data", O_RDONLY), command << SUBCMDSHIFT | USRQUOTA,
                   geteuid(), &quota);
}

static void needed_calls(void)
{
    struct addrinfo *found = NULL;
    pthread_t thread;
    char bytes[16];
    void *memory;

    NEED(getrandom(bytes, sizeof bytes, 0) == (ssize_t)sizeof bytes);
    NEED(getpid() > 0);
    NEED(pthread_create(&thread, NULL, thread_that_returns, NULL) == 0);
    NEED(pthread_join(thread, NULL) == 0);
    NEED(getaddrinfo("localhost", "80", NULL, &found) == 0);
    freeaddrinfo(found);
    memory = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    NEED(memory != MAP_FAILED && munmap(memory, 1 << 20) == 0);
    NEED(open("/etc/passwd", O_RDONLY) >= 0);
    /* The own quota, if the file system has any; and none is set. */
    NEED(quota_call(Q_GETQUOTA) == 0 || errno != EPERM);
    FAILS_WITH(EPERM, quota_call(Q_SETQUOTA));
}

static void forbidden_calls(void)
{
    FAILS_WITH(EPERM, fork());
    FAILS_WITH(EPERM, socket(AF_NETLINK, SOCK_RAW, 0));
    FAILS_WITH(EPERM, socket(AF_UNIX, SOCK_STREAM, 0));
    FAILS_WITH(EPERM, socket(AF_PACKET, SOCK_RAW, 0));
    FAILS_WITH(EPERM, kill(getppid(), 0));
    FAILS_WITH(EPERM, mkdir("/tmp/never-made", 0700));
    FAILS_WITH(EPERM, unlink("/tmp/never-made"));
    FAILS_WITH(EPERM, chmod("/tmp", 0777));
    FAILS_WITH(EPERM, prctl(PR_SET_DUMPABLE, 1, 0, 0, 0));
    FAILS_WITH(EPERM,
               (long)mmap(NULL, 4096, PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    FAILS_WITH(EPERM,
               mprotect((void *)((uintptr_t)base & ~UINT64_C(4095)), 4096, PROT_READ | PROT_EXEC));
}

static void start_body(void)
{
    start_calls();
    NEED(listener() >= 0);
    needed_calls();
    forbidden_calls();
}

static atomic_int stage;

/* Started before the second stage, and held by it all the same. */
static void *thread_of_calls(void *data)
{
    atomic_store(&stage, 1);
    while (atomic_load(&stage) == 1) {
        (void)sched_yield();
    }
    FAILS_WITH(EPERM, listener());
    return data;
}

static void serve_body(void)
{
    pthread_t thread;

    start_calls();
    NEED(pthread_create(&thread, NULL, thread_of_calls, NULL) == 0);
    while (atomic_load(&stage) == 0) {
        (void)sched_yield();
    }
    NEED(sandbox_calls_restrict(SANDBOX_CALLS_SERVE) == 0);
    atomic_store(&stage, 2);
    NEED(pthread_join(thread, NULL) == 0);
    FAILS_WITH(EPERM, listener());
    FAILS_WITH(EACCES, open_in("data/new", O_WRONLY | O_CREAT));
    FAILS_WITH(EACCES, open_in("conf/file", O_RDWR));
    needed_calls();
    forbidden_calls();
}

static void exec_body(void)
{
    char *const none[] = {NULL};

    start_calls();
    (void)execve("/bin/true", none, none);
}

static void ptrace_body(void)
{
    start_calls();
    (void)ptrace(PTRACE_TRACEME, 0, NULL, NULL);
}

static void setuid_body(void)
{
    start_calls();
    NEED(setuid(0) == 0);
}

static void abort_body(void)
{
    start_calls();
    abort();
}

static void unavailable_body(void)
{
    NEED(sandbox_calls_restrict(SANDBOX_CALLS_START) == -EOPNOTSUPP);
}

static void test_calls(void **state)
{
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    expect_goes_well(unavailable_body);
    (void)start_body;
    (void)serve_body;
    (void)exec_body;
    (void)ptrace_body;
    (void)setuid_body;
    (void)abort_body;
    (void)expect_is_killed;
#else
    (void)unavailable_body;
    expect_goes_well(start_body);
    expect_goes_well(serve_body);
    expect_is_killed(exec_body, SIGSYS);
    expect_is_killed(ptrace_body, SIGSYS);
    expect_is_killed(setuid_body, SIGSYS);
    expect_is_killed(abort_body, SIGABRT); /* a failed assertion still says who it is */
#endif
}

/* --- */

static int setup(void **state)
{
    static const char *const dirs[] = {"data", "conf", "other"};
    char path[128];

    (void)state;
    (void)snprintf(base, sizeof base, "/tmp/leafd-sandbox-XXXXXX");
    assert_non_null(mkdtemp(base));
    for (size_t i = 0; i < sizeof dirs / sizeof dirs[0]; i++) {
        in_base(dirs[i], path);
        assert_int_equal(mkdir(path, 0700), 0);
    }
    make_file("conf/file", "1");
    make_file("other/file", "o");
    in_base("conf/link", path);
    assert_int_equal(symlink("../other/file", path), 0);
    return 0;
}

static int teardown(void **state)
{
    static const char *const left[] = {"conf/link",  "conf/file", "conf", "other/file",
                                       "other/next", "other",     "data"};
    char path[128];

    (void)state;
    for (size_t i = 0; i < sizeof left / sizeof left[0]; i++) {
        in_base(left[i], path);
        assert_true(remove(path) == 0 || errno == ENOENT);
    }
    assert_int_equal(rmdir(base), 0);
    return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_paths),
        TEST(test_replaced_file),
        TEST(test_calls),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
