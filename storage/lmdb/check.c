/*
 * check.c - see check.h. Thread: start-up.
 */
#include "storage/lmdb/check.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/base/assert.h"
#include "storage/lmdb/dir.h"
#include "storage/lmdb/env.h"
#include "storage/lmdb/file.h"
#include "storage/lmdb/load.h"

struct report {
    int err;
    struct store_error error;
};

/* --- the child --- */

/* LMDB found its own invariant broken: the parent learns it from the signal. */
static void assert_cb(MDB_env *env, const char *text)
{
    (void)env;
    (void)text;
    abort();
}

/* Verify every record through LMDB, as load() will. */
static int check_records(const char *dir, struct store_error *ret_error)
{
    struct lmdb_env env = {.env = NULL};
    LMDB_PATH(path, dir, LMDB_DB);
    /* LMDB makes a map that is too small as large as its meta page says. */
    int err = lmdb_env_open(&env, path, 1 << 20, MDB_RDONLY | MDB_NOLOCK, ret_error);

    if (err == 0) {
        (void)mdb_env_set_assert(env.env, assert_cb);
        err = lmdb_load(&env, NULL, NULL, NULL, ret_error);
    }
    return err; /* the process ends, and the map with it */
}

_Noreturn static void child_run(const char *dir, int go_fd, int report_fd)
{
    static const int fatal[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGALRM, SIGPIPE};
    static const int of_the_parent[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2};
    struct report report = {0};
    char *path = lmdb_path(dir, LMDB_DB "/" LMDB_DATA_FILE);
    sigset_t none;
    char go;

    /* Die plainly, leave no core of a damaged file's making, and do not outlive the parent. */
    for (size_t i = 0; i < sizeof fatal / sizeof fatal[0]; i++) {
        (void)signal(fatal[i], SIG_DFL);
    }
    /* Sent to the whole process group they are the parent's to answer. To end of one here would
     * pass for damage, and the parent's handlers write to the parent's pipes. */
    for (size_t i = 0; i < sizeof of_the_parent / sizeof of_the_parent[0]; i++) {
        (void)signal(of_the_parent[i], SIG_IGN);
    }
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)prctl(PR_SET_DUMPABLE, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (recv(go_fd, &go, 1, 0) != 1) {
        _exit(0); /* cancelled, or the parent is gone */
    }
    (void)alarm(LIMIT_STORE_CHECK_S);
    report.err = lmdb_file_check(path, &report.error);
    if (report.err == 0) {
        report.err = check_records(dir, &report.error);
    }
    if (write(report_fd, &report, sizeof report) != (ssize_t)sizeof report) {
        _exit(2);
    }
    _exit(0);
}

/* --- the parent --- */

int lmdb_checker_start(struct lmdb_checker *checker, const char *dir, struct store_error *ret_error)
{
    int go[2] = {-1, -1};
    int report[2] = {-1, -1};

    ASSERT(dir != NULL);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, go) != 0 ||
        pipe2(report, O_CLOEXEC) != 0 || (checker->pid = fork()) < 0) {
        int err = store_error_set(ret_error, store_error_of(errno),
                                  "cannot start the check of the database: %s", strerror(errno));

        for (unsigned i = 0; i < 2; i++) {
            (void)close(go[i]);
            (void)close(report[i]);
        }
        return err;
    }
    if (checker->pid == 0) {
        (void)close(go[1]);
        (void)close(report[0]);
        child_run(dir, go[0], report[1]);
    }
    (void)close(go[0]);
    (void)close(report[1]);
    checker->go_fd = go[1];
    checker->report_fd = report[0];
    return 0;
}

/* The child ends once nobody can tell it to go. */
static int child_end(struct lmdb_checker *checker)
{
    int status = 0;

    ASSERT(checker->pid > 0);
    (void)close(checker->go_fd);
    (void)close(checker->report_fd);
    /* Where SIGCHLD is ignored there is no status (ECHILD): then the report alone speaks. */
    while (waitpid(checker->pid, &status, 0) < 0 && errno == EINTR) {
    }
    return status;
}

void lmdb_checker_cancel(struct lmdb_checker *checker)
{
    (void)child_end(checker);
}

static bool read_report(int fd, struct report *ret_report)
{
    size_t at = 0;

    while (at < sizeof *ret_report) {
        ssize_t got = read(fd, (char *)ret_report + at, sizeof *ret_report - at);

        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return false;
        }
        at += (size_t)got;
    }
    ret_report->error.text[sizeof ret_report->error.text - 1] = '\0';
    return true;
}

int lmdb_checker_run(struct lmdb_checker *checker, const char *dir, struct store_error *ret_error)
{
    /* On a socket, a child that is gone gives an error and no SIGPIPE. */
    bool sent = send(checker->go_fd, "", 1, MSG_NOSIGNAL) == 1;
    struct report report;
    bool whole = sent && read_report(checker->report_fd, &report);
    int status = child_end(checker);

    if (WIFSIGNALED(status)) {
        return store_error_set(ret_error, ERR_CORRUPT,
                               "the check of %.100s/db was ended by signal %d (%s): the database "
                               "is damaged or cannot be read",
                               dir, WTERMSIG(status), strsignal(WTERMSIG(status)));
    }
    if (!whole || status != 0) {
        return store_error_set(ret_error, ERR_CORRUPT,
                               "the check of %.100s/db ended with status %d and no report", dir,
                               WEXITSTATUS(status));
    }
    if (report.err != 0) {
        *ret_error = report.error;
    }
    ASSERT(report.err <= 0); /* our own code's, over a pipe that only it has */
    return report.err;
}
