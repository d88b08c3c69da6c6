/*
 * exit_code.h - how the process ends; docs/configuration.md says what to do about each.
 *
 * The numbers follow sysexits(3) where it has a fitting one. Thread: any.
 */
#ifndef LEAFD_APP_EXIT_CODE_H
#define LEAFD_APP_EXIT_CODE_H

enum exit_code {
    EXIT_CODE_STOPPED = 0,
    EXIT_CODE_CONFIG = 64,   /* a setting is wrong */
    EXIT_CODE_DATA = 65,     /* damaged, another's, locked, missing, of numbers that cannot be,
                                or of a level that only a newer leafd speaks */
    EXIT_CODE_ADDRESS = 69,  /* an address is in use, or cannot be bound */
    EXIT_CODE_INTERNAL = 70, /* out of memory or descriptors, or a bug */
    EXIT_CODE_DISK = 74,     /* input/output failed, or the disk is full */
    EXIT_CODE_AGAIN = 75,    /* started again it goes on, under another id (lost.h) */
    EXIT_CODE_REFUSED = 76,  /* the cluster does not want this node */
    EXIT_CODE_REMOVED = 77,  /* the cluster has removed this node */
    EXIT_CODE_WITNESS = 78,  /* a leader's log contradicts what this node knows as committed */
    EXIT_CODE_DIVERGED = 79, /* the state differs from the cluster's */
    EXIT_CODE_SECOND_SIGNAL = 80
};

/* The code for an ERR_* of the data directory, at start. */
enum exit_code exit_code_of_open(int err);

/* The code for an ERR_* of `leafd restore` and `leafd recover`: what they read, and where they
 * write, is data. */
enum exit_code exit_code_of_recovery(int err);

/* The code for any other ERR_* that ends the process. */
enum exit_code exit_code_of(int err);

#endif
