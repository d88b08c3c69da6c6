/*
 * disk_shim.c - a library for LD_PRELOAD that makes the disk of one process slow, failing or full.
 *
 * It stands in front of fdatasync, fsync, msync, pwrite, pwritev, write and writev, and looks only
 * at files below one directory (DISK_SHIM_DIR, an absolute path without symbolic links). What it
 * does to them stands in a text file (DISK_SHIM_RULES), which is read anew at every such call: a
 * test writes a new file and renames it over the old one while the process runs. No file, or an
 * empty one: nothing is done.
 *
 * A rule is a line "<calls> <what> ...", the first one that fits a call holds:
 *
 *   sync  delay_ms=50                 fdatasync, fsync and msync take 50 ms longer
 *   sync  delay_ms=60000              they hang; a new file lets them go on at once
 *   sync  error=EIO percent=10        one in ten fails
 *   write error=ENOSPC skip=20        all but the first 20 since the file was written fail
 *   write short=1 error=EIO           half of the bytes are written, then it fails
 *
 * calls: sync (the three), write (the four), all, or the name of one. error: its name or number. A
 * call that fails has changed nothing on the disk (but with short=1). percent: drawn from
 * DISK_SHIM_SEED and a count of the calls.
 *
 * What was made to fail is told in DISK_SHIM_RULES + ".log", one line each ("fdatasync EIO
 * /dir/data.mdb"), so that a test knows that its fault has struck.
 *
 * Failure modes: rules that cannot be read as above end the process with SIGABRT and a message, for
 * a test that injects nothing would prove nothing. A missing variable: nothing is done.
 *
 * Threads: any, and handlers of signals, which write to pipes: so no lock is taken on the way of
 * a call that is not ours. The loader's dlsym() has one, so it is asked before the program begins;
 * stat() has one where libfaketime stands in front of it, so the kernel is asked instead. Nothing
 * is allocated; the only shared state is two counters.
 */
#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define RULES_BYTES 4096
#define RULE_WORDS 8
#define SLICE_MS 5
#define ERRORS_MAX 134 /* of Linux */
#define PUBLIC __attribute__((visibility("default")))

/* What is done to a call. */
struct rule {
    long delay_ms;
    int error; /* 0: none */
    bool shortened;
    long percent;
    long skip;
};

static _Atomic uint64_t call_count;
/* Calls that a rule with skip= has let through, and the rules' file that they are counted for. */
static _Atomic uint64_t skipped;
static _Atomic uint64_t skipped_version;

/* --- the rules --- */

static void die(const char *what, const char *detail)
{
    char text[512];
    int len = snprintf(text, sizeof text, "disk_shim: %s: %s\n", what, detail);

    syscall(SYS_write, 2, text, (size_t)len);
    abort();
}

/* statx(2), past whatever stands in front of the C library. */
static bool look_at(int fd, struct statx *ret_info)
{
    return syscall(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, ret_info) == 0;
}

/* The text of the rules' file with a 0 behind it, and a number that changes with each new file. */
static bool rules_read(char text[RULES_BYTES], uint64_t *ret_version)
{
    const char *path = getenv("DISK_SHIM_RULES");
    struct statx info;
    ssize_t n;
    int fd;

    if (path == NULL || (fd = open(path, O_RDONLY | O_CLOEXEC)) < 0) {
        return false;
    }
    n = read(fd, text, RULES_BYTES - 1);
    if (n < 0 || !look_at(fd, &info)) {
        die("cannot read the rules", path);
    }
    close(fd);
    text[n] = '\0';
    *ret_version = (uint64_t)info.stx_ino << 40 ^ (uint64_t)info.stx_mtime.tv_sec << 30 ^
                   (uint64_t)info.stx_mtime.tv_nsec;
    return n > 0;
}

static bool calls_fit(const char *calls, const char *call)
{
    bool syncs = strstr(call, "sync") != NULL;

    return strcmp(calls, "all") == 0 || strcmp(calls, call) == 0 ||
           strcmp(calls, syncs ? "sync" : "write") == 0;
}

static long number_parse(const char *text)
{
    char *end;
    long value = strtol(text, &end, 10);

    if (!isdigit((unsigned char)text[0]) || *end != '\0') {
        die("not a number", text);
    }
    return value;
}

/* Its name, or its number. */
static int error_parse(const char *text)
{
    for (int error = 1; error < ERRORS_MAX; error++) {
        const char *name = strerrorname_np(error);

        if (name != NULL && strcmp(text, name) == 0) {
            return error;
        }
    }
    return (int)number_parse(text);
}

/* True for percent of the numbers: splitmix64 of the seed and the call's number. */
static bool is_drawn(long percent, uint64_t number)
{
    const char *seed = getenv("DISK_SHIM_SEED");
    uint64_t x = (seed != NULL ? strtoull(seed, NULL, 10) : 1) + number * 0x9e3779b97f4a7c15ULL;

    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ x >> 27) * 0x94d049bb133111ebULL;
    x ^= x >> 31;
    return (long)(x % 100) < percent;
}

static bool is_skipped(long skip, uint64_t version)
{
    if (atomic_exchange(&skipped_version, version) != version) {
        atomic_store(&skipped, 0);
    }
    return atomic_fetch_add(&skipped, 1) < (uint64_t)skip;
}

static void word_parse(char *word, struct rule *rule)
{
    char *value = strchr(word, '=');

    if (value == NULL) {
        die("a word of a rule without =", word);
    }
    *value++ = '\0';
    if (strcmp(word, "delay_ms") == 0) {
        rule->delay_ms = number_parse(value);
    } else if (strcmp(word, "error") == 0) {
        rule->error = error_parse(value);
    } else if (strcmp(word, "short") == 0) {
        rule->shortened = number_parse(value) != 0;
    } else if (strcmp(word, "percent") == 0) {
        rule->percent = number_parse(value);
    } else if (strcmp(word, "skip") == 0) {
        rule->skip = number_parse(value);
    } else {
        die("a word of a rule that is not known", word);
    }
}

/* Find the first rule for this call. False if there is none. */
static bool rules_find(const char *call, struct rule *ret_rule, uint64_t *ret_version)
{
    char text[RULES_BYTES];
    char *line_end;
    char *word_end;

    if (!rules_read(text, ret_version)) {
        return false;
    }
    for (char *line = strtok_r(text, "\n", &line_end); line != NULL;
         line = strtok_r(NULL, "\n", &line_end)) {
        char *word = strtok_r(line, " ", &word_end);

        if (word == NULL || !calls_fit(word, call)) {
            continue;
        }
        *ret_rule = (struct rule){.percent = 100};
        while ((word = strtok_r(NULL, " ", &word_end)) != NULL) {
            word_parse(word, ret_rule);
        }
        return true;
    }
    return false;
}

/* --- the calls --- */

/* Is it a file below the directory? Sockets, pipes and the log are none of ours. */
static bool is_ours(int fd, char path[PATH_MAX])
{
    const char *directory = getenv("DISK_SHIM_DIR");
    struct statx info;
    char link[64];
    ssize_t len;

    if (directory == NULL || !look_at(fd, &info) ||
        !(S_ISREG(info.stx_mode) || S_ISDIR(info.stx_mode))) {
        return false;
    }
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    len = readlink(link, path, PATH_MAX - 1);
    if (len <= 0) {
        return false;
    }
    path[len] = '\0';
    len = (ssize_t)strlen(directory);
    return strncmp(path, directory, (size_t)len) == 0 && (path[len] == '/' || path[len] == '\0');
}

static long now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (long)now.tv_sec * 1000 + (long)now.tv_nsec / 1000000;
}

/* Wait, but no longer than the rules' file is the same: new rules let a hanging disk go. */
static void delay(long delay_ms, uint64_t version)
{
    char text[RULES_BYTES];
    uint64_t present = version;
    long end = now_ms() + delay_ms;
    long rest;

    while ((rest = end - now_ms()) > 0 && rules_read(text, &present) && present == version) {
        struct timespec slice = {0, (rest < SLICE_MS ? rest : SLICE_MS) * 1000000L};

        syscall(SYS_nanosleep, &slice, NULL);
    }
}

/* Open from the start on: a program that shuts itself in opens nothing to write later. */
static int log_fd = -1;

__attribute__((constructor)) static void open_log(void)
{
    const char *rules = getenv("DISK_SHIM_RULES");
    char log[PATH_MAX];

    if (rules != NULL) {
        snprintf(log, sizeof log, "%s.log", rules);
        log_fd = open(log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
        if (log_fd < 0) {
            die("cannot write", log);
        }
    }
}

static void tell(const char *call, int error, const char *path)
{
    char text[PATH_MAX + 128];
    const char *name = strerrorname_np(error);
    int len = snprintf(text, sizeof text, "%s %s %s\n", call, name != NULL ? name : "?", path);

    syscall(SYS_write, log_fd, text, (size_t)len);
}

/* Do to a call on a file what its rule says. The error that it is to fail with, or 0;
 * *ret_shortened: after half of its bytes. */
static int strike_path(const char *call, const char *path, bool *ret_shortened)
{
    uint64_t number = atomic_fetch_add(&call_count, 1);
    struct rule rule;
    uint64_t version;

    *ret_shortened = false;
    if (!rules_find(call, &rule, &version) || !is_drawn(rule.percent, number) ||
        (rule.skip > 0 && is_skipped(rule.skip, version))) {
        return 0;
    }
    if (rule.delay_ms > 0) {
        delay(rule.delay_ms, version);
    }
    if (rule.error != 0) {
        tell(call, rule.error, path);
    }
    *ret_shortened = rule.shortened;
    return rule.error;
}

static int strike(const char *call, int fd, bool *ret_shortened)
{
    char path[PATH_MAX];

    *ret_shortened = false;
    return is_ours(fd, path) ? strike_path(call, path, ret_shortened) : 0;
}

static ssize_t fail(int error)
{
    errno = error;
    return -1;
}

/* The function behind this library's: known before the program begins, or looked up by early
 * callers. */
#define NEXT(name) (next_##name != NULL ? next_##name : NEXT_FIND(name))
#define NEXT_FIND(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define CALL_BEHIND(name)                                                                          \
    static __typeof__(&name) next_##name;                                                          \
                                                                                                   \
    __attribute__((constructor)) static void find_##name(void)                                     \
    {                                                                                              \
        next_##name = NEXT_FIND(name);                                                             \
    }

#define SYNC_CALL(name)                                                                            \
    CALL_BEHIND(name)                                                                              \
                                                                                                   \
    PUBLIC int name(int fd)                                                                        \
    {                                                                                              \
        bool shortened;                                                                            \
        int error = strike(#name, fd, &shortened);                                                 \
                                                                                                   \
        return error != 0 ? (int)fail(error) : NEXT(name)(fd);                                     \
    }

/* half: the arguments when only half is written; args: those of the call. */
#define WRITE_CALL(name, call, parameters, half, args)                                             \
    CALL_BEHIND(name)                                                                              \
                                                                                                   \
    PUBLIC ssize_t name parameters                                                                 \
    {                                                                                              \
        bool shortened;                                                                            \
        int error = strike(call, fd, &shortened);                                                  \
                                                                                                   \
        if (error == 0) {                                                                          \
            return NEXT(name) args;                                                                \
        }                                                                                          \
        if (shortened) {                                                                           \
            (void)!NEXT(name) half;                                                                \
        }                                                                                          \
        return fail(error);                                                                        \
    }

SYNC_CALL(fdatasync)
SYNC_CALL(fsync)

WRITE_CALL(write, "write", (int fd, const void *data, size_t len), (fd, data, len / 2),
           (fd, data, len))
WRITE_CALL(pwrite, "pwrite", (int fd, const void *data, size_t len, off_t at),
           (fd, data, len / 2, at), (fd, data, len, at))
WRITE_CALL(pwrite64, "pwrite", (int fd, const void *data, size_t len, off64_t at),
           (fd, data, len / 2, at), (fd, data, len, at))
WRITE_CALL(writev, "writev", (int fd, const struct iovec *vec, int count), (fd, vec, count / 2),
           (fd, vec, count))
WRITE_CALL(pwritev, "pwritev", (int fd, const struct iovec *vec, int count, off_t at),
           (fd, vec, count / 2, at), (fd, vec, count, at))
WRITE_CALL(pwritev64, "pwritev", (int fd, const struct iovec *vec, int count, off64_t at),
           (fd, vec, count / 2, at), (fd, vec, count, at))
WRITE_CALL(pwritev2, "pwritev", (int fd, const struct iovec *vec, int count, off_t at, int flags),
           (fd, vec, count / 2, at, flags), (fd, vec, count, at, flags))
WRITE_CALL(pwritev64v2, "pwritev",
           (int fd, const struct iovec *vec, int count, off64_t at, int flags),
           (fd, vec, count / 2, at, flags), (fd, vec, count, at, flags))

CALL_BEHIND(msync)

/* A mapping has no descriptor: whose it is stands in /proc/self/maps. */
static bool map_is_ours(const void *address, char path[PATH_MAX])
{
    const char *directory = getenv("DISK_SHIM_DIR");
    unsigned long at = (unsigned long)address;
    char line[PATH_MAX + 128];
    unsigned long first;
    unsigned long last;
    bool found = false;
    FILE *maps;

    if (directory == NULL || (maps = fopen("/proc/self/maps", "re")) == NULL) {
        return false;
    }
    while (!found && fgets(line, sizeof line, maps) != NULL) {
        const char *name = strchr(line, '/');

        found = name != NULL && strncmp(name, directory, strlen(directory)) == 0 &&
                sscanf(line, "%lx-%lx", &first, &last) == 2 && first <= at && at < last;
        if (found) {
            snprintf(path, PATH_MAX, "%.*s", (int)strcspn(name, "\n"), name);
        }
    }
    fclose(maps);
    return found;
}

PUBLIC int msync(void *address, size_t len, int flags)
{
    char path[PATH_MAX];
    bool shortened;
    int error = map_is_ours(address, path) ? strike_path("msync", path, &shortened) : 0;

    return error != 0 ? (int)fail(error) : NEXT(msync)(address, len, flags);
}
