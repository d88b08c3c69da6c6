/*
 * process.h - this process: what it takes of the machine (memory, descriptors, processor time), and
 * the commit that it was built from.
 *
 * The happy path: process_look() reads the kernel's files below /proc/self, some ten system calls
 * and two a thread: for a scrape, not for a request.
 *
 * Failure modes: a file that cannot be read leaves its figures at 0. More than PROCESS_THREADS_MAX
 * names of threads: the others are not shown.
 *
 * Thread: any.
 */
#ifndef LEAFD_BASE_PROCESS_H
#define LEAFD_BASE_PROCESS_H

#include <stddef.h>
#include <stdint.h>

#define PROCESS_THREADS_MAX 128
#define PROCESS_NAME_BYTES 16 /* of a thread, with the NUL: the kernel's */

/* All threads of one name. */
struct process_thread {
    char name[PROCESS_NAME_BYTES]; /* letters, digits, "_", "-" and "."; others are "_" */
    uint64_t cpu_us;               /* since they started */
};

struct process_figures {
    uint64_t resident_bytes;
    uint64_t virtual_bytes;
    uint64_t open_descriptors;
    uint64_t max_descriptors;
    uint64_t cpu_us; /* of all threads, also of those that have ended */
    size_t thread_count;
    struct process_thread threads[PROCESS_THREADS_MAX];
};

void process_look(struct process_figures *ret_figures);

/* At the start of main(): where descriptor 0, 1 or 2 is closed, /dev/null takes its place, or the
 * first socket or file that is opened would, and get what is meant for the log. What reads 0 or
 * writes 1 then fails, as it must: that input or output is lost. */
void process_hold_descriptors(void);

/* The commit: twelve hexadecimal digits; empty where the sources had no history. Static. commit.c
 * has nothing else, so that a new commit compiles that file anew and no other. */
extern const char commit_built[];

#endif
