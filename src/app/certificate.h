/*
 * certificate.h - the node's certificate in force: loaded at the start, and again when the settings
 * are read again, without a connection that is dropped.
 *
 * The happy path: certificate_start(), then HTTP doors with .tls; for a reload
 * certificate_prepare(), which reads and checks all and changes nothing, and then
 * certificate_commit(), which cannot fail, or certificate_drop().
 *
 * Failure modes: files that cannot be used: ERR_INVALID, and a text that names setting and file;
 * what was in force stays. TLS is neither switched on nor off by a reload.
 *
 * Thread: main.
 */
#ifndef LEAFD_APP_CERTIFICATE_H
#define LEAFD_APP_CERTIFICATE_H

#include "http/tls/tls.h"
#include "src/app/config/config.h"

struct certificate {
    struct tls *tls;          /* owned; for the doors; NULL: plain HTTP */
    struct tls_context *next; /* prepared; owned; NULL: nothing is */
};

/* 0, also where the settings name no certificate; or ERR_INVALID. */
int certificate_start(struct certificate *certificate, const struct config *config,
                      struct config_error *ret_error) MUST_CHECK;

/* All doors are closed. */
void certificate_end(struct certificate *certificate);

/* Parts of a reload. data: struct certificate. */
int certificate_prepare(void *data, const struct config *next,
                        struct config_error *ret_error) MUST_CHECK;
void certificate_commit(void *data, struct buf *ret_changes);
void certificate_drop(void *data);

#endif
