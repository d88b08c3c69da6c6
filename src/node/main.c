/*
 * main.c - leafd: reads its settings and runs a node, or prints what it is asked for, or makes the
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
#include "src/base/process.h"
#include "src/node/config/config.h"
#include "src/node/privileges.h"
#include "src/node/recovery/recovery.h"
#include "src/node/replace_lost.h"
#include "src/node/report.h"
#include "src/node/run.h"
#include "src/node/signals.h"

/* The C library asks a name server that does not answer for 5 s, twice. So long the next dial of a
 * peer would wait after its network came back, and the end of a process that is to stop, since a
 * lookup cannot be called off. What the operator has set holds. */
#define RESOLVER_OPTIONS "timeout:1 attempts:2"

/* Pieces of MAPPED_BYTES and more come from the system one by one and go back to it. By default
 * glibc raises that bound with each of them that is freed, up to 32 MiB: after one large request
 * its like lies between what stays, and leaves holes. But each page of such a piece is a fault of
 * its own, and where the machine is a virtual one these were half of a bulk change's processor
 * time: its entry, frames and rows are pieces of up to 1 MiB. The top of each heap is given back
 * from TRIM_BYTES on, so that a buffer that comes and goes there is not paid for each time. Only
 * memory and time depend on them, so a C library that does not know these is no error. */
#define MAPPED_BYTES (1 << 20)
#define TRIM_BYTES (3 << 20)

/* To stdout. */
static enum exit_code print_text(const struct buf *text)
{
    bool written = fwrite(text->data, 1, text->len, stdout) == text->len && fflush(stdout) == 0;

    return written ? EXIT_CODE_STOPPED : EXIT_CODE_DISK;
}

/* The token, which is nowhere else, then the line that goes into the file. */
static enum exit_code print_token(struct buf *text)
{
    char token[TOKEN_TEXT_BYTES];
    char line[TOKEN_LINE_BYTES];

    if (token_new(token, line) != 0) {
        fprintf(stderr, "leafd: the system gives no random bytes\n");
        return EXIT_CODE_INTERNAL;
    }
    buf_printf(text, "%s\n%s\n", token, line);
    return print_text(text);
}

static enum exit_code refuse_settings(int rv, const struct config_error *error)
{
    fprintf(stderr, "leafd: %s\n", error->text);
    return exit_code_of(rv);
}

static enum exit_code run_action(enum config_action action, struct config *config)
{
    struct config_error error;
    BUF_LOCAL(text);
    int rv;

    switch (action) {
    case CONFIG_RUN:
        rv = privileges_drop(config, &error);
        if (rv == 0) {
            rv = lost_choose(config, &error);
        }
        return rv == 0 ? run_node(config) : refuse_settings(rv, &error);
    case CONFIG_HELP:
        config_print_help(&text);
        return print_text(&text);
    case CONFIG_VERSION:
        buf_printf(&text, "leafd %s%s%s\nlibraries ", LEAFD_VERSION,
                   commit_built[0] != '\0' ? " commit " : "", commit_built);
        libraries_json(&text);
        buf_printf(&text, "\n");
        return print_text(&text);
    case CONFIG_PRINT:
        config_print(config, &text);
        return print_text(&text);
    case CONFIG_PRINT_DOC:
        config_print_doc(&text);
        return print_text(&text);
    case CONFIG_PRINT_EXAMPLE:
        config_print_example(&text);
        return print_text(&text);
    case CONFIG_NEW_SECRET:
        buf_reserve(&text, SECRET_TEXT_BYTES);
        secret_new((char *)text.data);
        text.data[SECRET_TEXT_BYTES - 1] = '\n';
        text.len = SECRET_TEXT_BYTES;
        return print_text(&text);
    case CONFIG_NEW_TOKEN:
        return print_token(&text);
    case CONFIG_CHECK:
        rv = privileges_check(config, &error);
        if (rv != 0) {
            return refuse_settings(rv, &error);
        }
        buf_printf(&text, "the settings are valid\n");
        return print_text(&text);
    }
    UNREACHABLE("action of the command line");
}

int main(int argc, char *argv[])
{
    enum config_action action = CONFIG_RUN;
    struct config_error error;
    static struct config config;
    enum exit_code code;

    process_hold_descriptors();
    signals_setup();
    tls_library_init();
    ASSERT(setenv("RES_OPTIONS", RESOLVER_OPTIONS, 0) == 0);
    (void)mallopt(M_MMAP_THRESHOLD, MAPPED_BYTES);
    (void)mallopt(M_TRIM_THRESHOLD, TRIM_BYTES);
    if (argc > 1 && recovery_is_command(argv[1])) {
        return (int)exit_code_of_recovery(recovery_run(argv, sandbox_tool));
    }
    if (config_load(argc, argv, environ, &config, &action, &error) != 0) {
        fprintf(stderr, "leafd: %s\n", error.text);
        return EXIT_CODE_CONFIG;
    }
    code = run_action(action, &config);
    config_release(&config);
    return (int)code;
}
