/*
 * process.h - this process: its use of the machine (memory, descriptors, processor time), and the
 * commit that it was built from.
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

#include "src/base/buf.h"
#include "src/base/err.h"

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

/* Some ten system calls and two a thread: for a scrape, not for a request. */
void process_look(struct process_figures *ret_figures);

/* At the start of main(): open /dev/null for descriptors 0, 1 and 2 if they are closed. Else the
 * first opened socket or file would take their place and get the log's output. Reads of 0 and
 * writes of 1 then fail, as they must: that input or output is lost. */
void process_hold_descriptors(void);

/* Write a text (NULL: none) to standard output, and what was printed there before. ERR_IO if not
 * all of it could be written: said on stderr. */
int process_print(const struct buf *text) MUST_CHECK;

/* The commit: twelve hexadecimal digits; empty where the sources had no history. Static. commit.c
 * has nothing else, so that a new commit recompiles only that file. */
extern const char commit_built[];

#endif
