/*
 * report.h - the process's reports on itself: exit codes, versions of libraries, and, in the log,
 * the settings in force, possible mistakes, and why the node did not start, each with its remedy.
 *
 * docs/configuration.md has a remedy for each exit code. The numbers follow sysexits(3) where one
 * fits.
 *
 * Failure modes: none. Thread: main; the exit codes and the versions: any.
 */
#ifndef LEAFD_NODE_REPORT_H
#define LEAFD_NODE_REPORT_H

#include "src/base/buf.h"
#include "src/node/config/config.h"

/* --- exit codes --- */

enum exit_code {
    EXIT_CODE_STOPPED = 0,
    EXIT_CODE_CONFIG = 64,   /* a setting is wrong */
    EXIT_CODE_DATA = 65,     /* damaged, another node's, locked, missing, with impossible
                                numbers, or of a newer leafd's level */
    EXIT_CODE_ADDRESS = 69,  /* an address is in use, or cannot be bound */
    EXIT_CODE_INTERNAL = 70, /* out of memory or descriptors, or a bug */
    EXIT_CODE_DISK = 74,     /* input/output failed, or the disk is full */
    EXIT_CODE_AGAIN = 75,    /* the next start continues under another id (replace_lost.h) */
    EXIT_CODE_REFUSED = 76,  /* the cluster refuses this node */
    EXIT_CODE_REMOVED = 77,  /* the cluster has removed this node */
    EXIT_CODE_WITNESS = 78,  /* a leader's log contradicts entries that this node knows to be
                                committed */
    EXIT_CODE_DIVERGED = 79, /* the state differs from the cluster's */
    EXIT_CODE_SECOND_SIGNAL = 80
};

/* The code for an ERR_* of the data directory, at start. */
enum exit_code exit_code_of_open(int err);

/* The code for any other ERR_* that ends the process. */
enum exit_code exit_code_of(int err);

/* --- versions of libraries --- */

/* Append {"libuv":"1.44.2",...}: the versions loaded, not compiled against, if a library reports
 * it. */
void libraries_json(struct buf *out);

/* --- lines of the log --- */

/* The first lines of the log: the settings, and allowed ones that may be mistakes. */
void report_settings(const struct config *config);

/* The data directory cannot be used, or the node did not start: err is the reason, text has
 * details. */
void report_data_refused(const struct config *config, int err, const char *text);
void report_node_failed(const struct config *config, int err, const char *text);

#endif
