/*
 * process.c - see process.h. Thread: any.
 */
#include "src/base/process.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/assert.h"

#define TEXT_BYTES 512
#define CPU_FIELD 11 /* in a `stat`, after the name: user time, in ticks; then system */

/* The beginning of a small file; "" if it cannot be read. */
static const char *read_text(const char *path, char ret_text[TEXT_BYTES])
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd >= 0 ? read(fd, ret_text, TEXT_BYTES - 1) : 0;

    if (fd >= 0) {
        (void)close(fd);
    }
    ret_text[len > 0 ? len : 0] = '\0';
    return ret_text;
}

/* Newer kernels report the number; with others they are counted. */
static uint64_t count_descriptors(void)
{
    struct stat st;
    uint64_t count = 0;
    DIR *dir;

    if (stat("/proc/self/fd", &st) == 0 && st.st_size > 0) {
        return (uint64_t)st.st_size;
    }
    dir = opendir("/proc/self/fd");
    if (dir == NULL) {
        return 0;
    }
    for (const struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        count += entry->d_name[0] != '.';
    }
    (void)closedir(dir);
    return count - 1; /* without the directory's own */
}

/* The record of the name; NULL: there is no room. */
static struct process_thread *thread_named(struct process_figures *figures, const char *name)
{
    struct process_thread *thread;

    for (size_t i = 0; i < figures->thread_count; i++) {
        if (strcmp(figures->threads[i].name, name) == 0) {
            return &figures->threads[i];
        }
    }
    if (figures->thread_count == PROCESS_THREADS_MAX) {
        return NULL;
    }
    thread = &figures->threads[figures->thread_count++];
    memcpy(thread->name, name, PROCESS_NAME_BYTES);
    thread->cpu_us = 0;
    return thread;
}

/* A thread's `stat`: "17 (http-0) S 1 ...". */
static void add_thread(struct process_figures *figures, const char *stat)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
    const char *begin = strchr(stat, '(');
    const char *end = strrchr(stat, ')');
    char name[PROCESS_NAME_BYTES] = "";
    struct process_thread *thread;
    uint64_t ticks[2];

    if (begin == NULL || end == NULL || end <= begin || end - begin > PROCESS_NAME_BYTES) {
        return;
    }
    memcpy(name, begin + 1, (size_t)(end - begin - 1));
    for (char *at = name; *at != '\0'; at++) {
        *at = strchr(plain, *at) != NULL ? *at : '_';
    }
    for (unsigned i = 0; i <= CPU_FIELD && end != NULL; i++) {
        end = strchr(end + 1, ' ');
    }
    if (end == NULL || sscanf(end, " %" SCNu64 " %" SCNu64, &ticks[0], &ticks[1]) != 2) {
        return;
    }
    thread = thread_named(figures, name);
    if (thread != NULL) {
        thread->cpu_us += (ticks[0] + ticks[1]) * 1000000 / (uint64_t)sysconf(_SC_CLK_TCK);
    }
}

static void look_threads(struct process_figures *figures)
{
    DIR *dir = opendir("/proc/self/task");
    char path[sizeof "/proc/self/task//stat" + sizeof((struct dirent *)0)->d_name];
    char text[TEXT_BYTES];

    if (dir == NULL) {
        return;
    }
    for (const struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        if (entry->d_name[0] != '.') {
            (void)snprintf(path, sizeof path, "/proc/self/task/%s/stat", entry->d_name);
            add_thread(figures, read_text(path, text));
        }
    }
    (void)closedir(dir);
}

void process_look(struct process_figures *ret_figures)
{
    uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
    char text[TEXT_BYTES];
    struct rlimit limit;
    struct rusage usage;
    uint64_t resident;
    uint64_t size;

    memset(ret_figures, 0, sizeof *ret_figures);
    if (sscanf(read_text("/proc/self/statm", text), "%" SCNu64 " %" SCNu64, &size, &resident) ==
        2) {
        ret_figures->virtual_bytes = size * page_bytes;
        ret_figures->resident_bytes = resident * page_bytes;
    }
    ret_figures->open_descriptors = count_descriptors();
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        ret_figures->max_descriptors = limit.rlim_cur;
    }
    if (getrusage(RUSAGE_SELF, &usage) == 0) {
        ret_figures->cpu_us =
            (uint64_t)usage.ru_utime.tv_sec * 1000000 + (uint64_t)usage.ru_utime.tv_usec +
            (uint64_t)usage.ru_stime.tv_sec * 1000000 + (uint64_t)usage.ru_stime.tv_usec;
    }
    look_threads(ret_figures);
}

void process_hold_descriptors(void)
{
    static const int modes[] = {
        [STDIN_FILENO] = O_WRONLY, [STDOUT_FILENO] = O_RDONLY, [STDERR_FILENO] = O_WRONLY};

    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0) {
            /* The lowest free descriptor is this one. */
            ASSERT(open("/dev/null", modes[fd]) == fd);
        }
    }
}
