/*
 * load_options.h - the command line of the load generator, and the requests it asks for.
 * Thread: the load's.
 */
#ifndef LEAFD_SCRIPTS_BENCH_LOAD_OPTIONS_H
#define LEAFD_SCRIPTS_BENCH_LOAD_OPTIONS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "scripts/bench/reply.h"
#include "scripts/bench/verify.h"

#define LOAD_ADDRESSES_MAX 16
#define LOAD_CONNECTIONS_MAX 20000
#define LOAD_PIPELINE_MAX 1024
#define LOAD_SECONDS_MAX 86400

struct load_options {
    struct sockaddr_in addresses[LOAD_ADDRESSES_MAX];
    size_t address_count;
    size_t connections;
    size_t pipeline;   /* requests sent at once, the next ones when all are answered */
    double seconds;    /* 0: no bound but `requests` */
    uint64_t requests; /* 0: no bound but `seconds` */
    double rate;       /* requests a second that are due; 0: as fast as replies come */
    double grace_s;    /* how long to wait for replies after the last request */
    enum reply_protocol protocol;
    struct verify verify;
    bool group_by_target; /* ids of different targets are different ids */
    bool timeline;
    const char *seen_file; /* ids of earlier loads; NULL: none */
    const char *method;
    const char *path; /* or the RESP command */
    const char *body; /* NULL: none */
    const char *targets_file;
    struct buf headers; /* lines, each with its end */
};

/* The requests of a load, ready to be sent; request i is targets[i % count]. */
struct load_targets {
    struct buf bytes;
    size_t *begins; /* count + 1 of them */
    size_t count;
};

/* Read the command line. On an error the process ends with 2 and says why. */
void load_options_read(struct load_options *options, int argc, char **argv);

/* Make the requests. An error ends the process as well. */
void load_targets_make(struct load_targets *targets, const struct load_options *options);

void load_options_free(struct load_options *options);
void load_targets_free(struct load_targets *targets);

#endif
