/*
 * load_options.h - the command line of the load generator, and the requests it asks for.
 * Thread: the load's.
 */
#ifndef LEAFD_SCRIPTS_BENCH_LOAD_OPTIONS_H
#define LEAFD_SCRIPTS_BENCH_LOAD_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "scripts/bench/protocol.h"
#include "scripts/bench/verify.h"

#define LOAD_ADDRESSES_MAX 16
#define LOAD_EXIT_CANNOT_RUN 2

struct load_options {
    struct sockaddr_storage addresses[LOAD_ADDRESSES_MAX];
    size_t address_count;
    uint64_t connections;
    uint64_t pipeline; /* requests sent at once, the next ones when all are answered */
    uint64_t requests; /* end after so many; 0: no bound but `seconds` */
    double seconds;
    double rate;    /* requests a second that are due; 0: as fast as replies come */
    double grace_s; /* how long to wait for replies after the last request */
    enum protocol protocol;
    struct verify verify;
    bool group_by_target; /* ids of different targets are different ids */
    const char *target;   /* path, Redis command or SQL; NULL: from a file */
    const char *targets_file;
    const char *body; /* of a POST; NULL: GET */
};

/* The requests of a load, ready to be sent; request i is targets[i % count]. */
struct load_targets {
    struct buf bytes;
    size_t *begins; /* count + 1 of them */
    size_t count;
};

/* Read the command line. On an error the process ends with LOAD_EXIT_CANNOT_RUN and says why. */
void load_options_read(struct load_options *options, int argc, char **argv);

/* Make the requests. An error ends the process as well. */
void load_targets_make(struct load_targets *targets, const struct load_options *options);

void load_targets_free(struct load_targets *targets);

#endif
