/*
 * process.c - see process.h. Thread: any.
 */
#include "src/base/process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/assert.h"
#include "src/base/err.h"

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

/* A thread's `stat`: "17 (http-0) S 1 ...". */
static void add_thread(struct process_figures *figures, const char *stat)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
    const char *begin = strchr(stat, '(');
    const char *end = strrchr(stat, ')');
    char name[PROCESS_NAME_BYTES] = "";
    uint64_t ticks[2];
    size_t at = 0;

    if (begin == NULL || end == NULL || end <= begin || end - begin > PROCESS_NAME_BYTES) {
        return;
    }
    memcpy(name, begin + 1, (size_t)(end - begin - 1));
    for (char *c = name; *c != '\0'; c++) {
        *c = strchr(plain, *c) != NULL ? *c : '_';
    }
    for (unsigned i = 0; i <= CPU_FIELD && end != NULL; i++) {
        end = strchr(end + 1, ' ');
    }
    if (end == NULL || sscanf(end, " %" SCNu64 " %" SCNu64, &ticks[0], &ticks[1]) != 2) {
        return;
    }
    while (at < figures->thread_count && strcmp(figures->threads[at].name, name) != 0) {
        at++;
    }
    if (at == PROCESS_THREADS_MAX) {
        return;
    }
    if (at == figures->thread_count) {
        figures->thread_count++;
        memcpy(figures->threads[at].name, name, PROCESS_NAME_BYTES);
    }
    figures->threads[at].cpu_us += (ticks[0] + ticks[1]) * 1000000 / (uint64_t)sysconf(_SC_CLK_TCK);
}

/* For each entry of a folder of /proc. Returns how many there are. */
static uint64_t each_entry(struct process_figures *figures, const char *folder, bool is_task)
{
    char path[sizeof "/proc/self/task//stat" + sizeof((struct dirent *)0)->d_name];
    DIR *dir = opendir(folder);
    char text[TEXT_BYTES];
    uint64_t count = 0;

    if (dir == NULL) {
        return 0;
    }
    for (const struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        if (entry->d_name[0] == '.') {
            continue;
        }
        count++;
        if (is_task) {
            (void)snprintf(path, sizeof path, "%s/%s/stat", folder, entry->d_name);
            add_thread(figures, read_text(path, text));
        }
    }
    (void)closedir(dir);
    return count;
}

void process_look(struct process_figures *ret_figures)
{
    uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
    char text[TEXT_BYTES];
    struct rlimit limit;
    struct rusage usage;
    struct stat st;
    uint64_t resident;
    uint64_t size;

    memset(ret_figures, 0, sizeof *ret_figures);
    if (sscanf(read_text("/proc/self/statm", text), "%" SCNu64 " %" SCNu64, &size, &resident) ==
        2) {
        ret_figures->virtual_bytes = size * page_bytes;
        ret_figures->resident_bytes = resident * page_bytes;
    }
    /* Newer kernels report the number; with others they are counted, without the folder's own. */
    if (stat("/proc/self/fd", &st) == 0 && st.st_size > 0) {
        ret_figures->open_descriptors = (uint64_t)st.st_size;
    } else {
        uint64_t count = each_entry(ret_figures, "/proc/self/fd", false);

        ret_figures->open_descriptors = count > 0 ? count - 1 : 0;
    }
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        ret_figures->max_descriptors = limit.rlim_cur;
    }
    if (getrusage(RUSAGE_SELF, &usage) == 0) {
        ret_figures->cpu_us =
            (uint64_t)usage.ru_utime.tv_sec * 1000000 + (uint64_t)usage.ru_utime.tv_usec +
            (uint64_t)usage.ru_stime.tv_sec * 1000000 + (uint64_t)usage.ru_stime.tv_usec;
    }
    (void)each_entry(ret_figures, "/proc/self/task", true);
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

int process_print(const struct buf *text)
{
    if (text != NULL) {
        (void)fwrite(text->data, 1, text->len, stdout);
    }
    if (fflush(stdout) == 0 && !ferror(stdout)) {
        return 0;
    }
    fprintf(stderr, "leafd: the output cannot be written: %s\n", strerror(errno));
    return ERR_IO;
}
