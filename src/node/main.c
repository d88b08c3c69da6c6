/*
 * main.c - leafd: reads its settings and runs a node, or prints requested information, or makes the
 * data of a new cluster (`leafd restore`, `leafd recover`).
 *
 * Failure modes: see report.h. Thread: main.
 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "http/auth/tokens.h"
#include "src/base/assert.h"
#include "src/base/crypto.h"
#include "src/base/log.h"
#include "src/base/process.h"
#include "src/node/config/config.h"
#include "src/node/privileges.h"
#include "src/node/recovery/recovery.h"
#include "src/node/replace_lost.h"
#include "src/node/report.h"
#include "src/node/run.h"
#include "src/node/signals.h"

/* The C library waits twice for 5 s for a name server that does not answer. A lookup cannot be
 * cancelled: a peer's next dial after its network returned, and the process's stop, would wait as
 * long. An operator's own options have priority. */
#define RESOLVER_OPTIONS "timeout:1 attempts:2"

/* Blocks of MAPPED_BYTES and more are mapped and unmapped one by one. By default glibc raises this
 * bound, up to 32 MiB, whenever such a block is freed: after one large request, similar blocks are
 * on the heap between lasting ones, and leave holes. A lower bound is costly: each page of a mapped
 * block is a page fault. On virtual machines these were half of a bulk change's processor time (its
 * entry, frames and rows are blocks of up to 1 MiB). The top of a heap is returned only from
 * TRIM_BYTES on, so that a short-lived buffer there does not cost page faults each time. Only
 * memory and time depend on these, so a C library without them is no error. */
#define MAPPED_BYTES (1 << 20)
#define TRIM_BYTES (3 << 20)

static enum exit_code refuse_settings(int rv, const struct config_error *error)
{
    fprintf(stderr, "leafd: %s\n", error->text);
    return exit_code_of(rv);
}

/* Run a node, or print a text. */
static enum exit_code run_action(enum config_action action, struct config *config)
{
    char token[TOKEN_TEXT_BYTES];
    char line[TOKEN_LINE_BYTES];
    struct config_error error;
    BUF_LOCAL(text);
    int rv;

    switch (action) {
    case CONFIG_RUN:
        log_unblock();
        rv = privileges_drop(config, &error);
        if (rv == 0) {
            rv = lost_choose(config, &error);
        }
        return rv == 0 ? run_node(config) : refuse_settings(rv, &error);
    case CONFIG_HELP:
        config_print_help(&text);
        break;
    case CONFIG_VERSION:
        buf_printf(&text, "leafd %s%s%s\nlibraries ", LEAFD_VERSION,
                   commit_built[0] != '\0' ? " commit " : "", commit_built);
        libraries_json(&text);
        buf_printf(&text, "\n");
        break;
    case CONFIG_PRINT:
        config_print(config, &text);
        break;
    case CONFIG_PRINT_DOC:
        config_print_doc(&text);
        break;
    case CONFIG_PRINT_EXAMPLE:
        config_print_example(&text);
        break;
    case CONFIG_NEW_SECRET:
        buf_reserve(&text, SECRET_TEXT_BYTES);
        secret_new((char *)text.data);
        text.data[SECRET_TEXT_BYTES - 1] = '\n';
        text.len = SECRET_TEXT_BYTES;
        break;
    case CONFIG_NEW_TOKEN: /* it is stored nowhere; then the line for the tokens file */
        if (token_new(token, line) != 0) {
            fprintf(stderr, "leafd: the system gives no random bytes\n");
            return EXIT_CODE_INTERNAL;
        }
        buf_printf(&text, "%s\n%s\n", token, line);
        break;
    case CONFIG_CHECK:
        rv = privileges_check(config, &error);
        if (rv != 0) {
            return refuse_settings(rv, &error);
        }
        buf_printf(&text, "the settings are valid\n");
        break;
    default:
        UNREACHABLE("action of the command line");
    }
    return process_print(&text) == 0 ? EXIT_CODE_STOPPED : EXIT_CODE_DISK;
}

int main(int argc, char *argv[])
{
    enum config_action action = CONFIG_RUN;
    struct config_error error;
    static struct config config;
    enum exit_code code;
    int err;

    process_hold_descriptors();
    signals_setup();
    tls_library_init();
    ASSERT(setenv("RES_OPTIONS", RESOLVER_OPTIONS, 0) == 0);
    (void)mallopt(M_MMAP_THRESHOLD, MAPPED_BYTES);
    (void)mallopt(M_TRIM_THRESHOLD, TRIM_BYTES);
    if (argc > 1 && recovery_is_command(argv[1])) {
        err = recovery_run(argv, sandbox_tool);
        if (err == 0) {
            return EXIT_CODE_STOPPED;
        }
        /* Its source and its target are data. */
        return (int)(err == ERR_INVALID || err == ERR_IO || err == ERR_DISK_FULL ? exit_code_of(err)
                                                                                 : EXIT_CODE_DATA);
    }
    if (config_load(argc, argv, environ, &config, &action, &error) != 0) {
        fprintf(stderr, "leafd: %s\n", error.text);
        return EXIT_CODE_CONFIG;
    }
    code = run_action(action, &config);
    config_release(&config);
    return (int)code;
}
