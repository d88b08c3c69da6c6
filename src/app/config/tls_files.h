/*
 * tls_files.h - the files in the directory that http.tls-dir names, made into what the HTTP
 * listeners put in force (http/tls/tls.h).
 *
 * They are read whole, checked, and forgotten; the key is wiped. So they may be replaced, by new
 * files of the same name, while the node runs.
 *
 * Failure modes: ERR_INVALID, with a text that names the setting and the file and says what is
 * wrong. Thread: main.
 */
#ifndef LEAFD_APP_CONFIG_TLS_FILES_H
#define LEAFD_APP_CONFIG_TLS_FILES_H

#include "http/tls/tls.h"
#include "src/app/config/config.h"

/* Is there a certificate? Without one there is no TLS. */
static inline bool tls_files_are_set(const struct config *config)
{
    return config->tls.dir[0] != '\0';
}

/* What the files have. For tls_commit(), or tls_context_free(). There is a certificate. */
int tls_files_load(const struct config *config, struct tls *tls, struct tls_context **ret_context,
                   struct config_error *ret_error) MUST_CHECK;

/* Could they be put in force? */
int tls_files_check(const struct config *config, struct config_error *ret_error) MUST_CHECK;

#endif
