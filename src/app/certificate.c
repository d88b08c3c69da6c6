/*
 * certificate.c - see certificate.h. Thread: main.
 */
#include "src/app/certificate.h"

#include <inttypes.h>

#include "src/app/config/tls_files.h"
#include "src/base/assert.h"
#include "src/base/clock.h"
#include "src/base/log.h"

#define DAY_S 86400
#define SOON_DAYS 14

/* One that has ended is put in force all the same: a node that refuses to start serves nobody. */
static void report(const struct tls_context *context)
{
    int64_t now_s = (int64_t)(clock_wall_ms(clock_system()) / 1000);
    int64_t left_s = tls_context_until_s(context) - now_s;
    BUF_LOCAL(text);
    char quoted[400];
    const char *shown;

    tls_context_describe(context, &text);
    shown = log_quote((const char *)text.data, text.len, quoted, sizeof quoted);
    if (left_s <= 0) {
        log_warn("tls", "the certificate has ended: clients will refuse it", "certificate=%s",
                 shown);
    } else if (left_s < SOON_DAYS * DAY_S) {
        log_warn("tls", "the certificate ends soon", "certificate=%s days=%" PRId64, shown,
                 left_s / DAY_S);
    } else {
        log_info("tls", "certificate in force", "certificate=%s", shown);
    }
}

int certificate_start(struct certificate *certificate, const struct config *config,
                      struct config_error *ret_error)
{
    struct tls_context *context;
    struct tls *tls;
    int rv;

    *certificate = (struct certificate){NULL, NULL};
    if (!tls_files_are_set(config)) {
        return 0;
    }
    tls = tls_new(clock_system());
    rv = tls_files_load(config, tls, &context, ret_error);
    if (rv != 0) {
        tls_free(tls);
        return rv;
    }
    report(context);
    tls_commit(tls, context);
    certificate->tls = tls;
    return 0;
}

void certificate_end(struct certificate *certificate)
{
    certificate_drop(certificate);
    tls_free(certificate->tls);
    certificate->tls = NULL;
}

int certificate_prepare(void *data, const struct config *next, struct config_error *ret_error)
{
    struct certificate *certificate = data;

    ASSERT(certificate->next == NULL);
    if (tls_files_are_set(next) != (certificate->tls != NULL)) {
        return config_fail(ret_error, "http.tls-dir: TLS is switched %s by a restart alone",
                           certificate->tls == NULL ? "on" : "off");
    }
    return certificate->tls == NULL
               ? 0
               : tls_files_load(next, certificate->tls, &certificate->next, ret_error);
}

void certificate_commit(void *data, struct buf *ret_changes)
{
    struct certificate *certificate = data;

    if (certificate->next != NULL) {
        report(certificate->next);
        buf_printf(ret_changes, "now ");
        tls_context_describe(certificate->next, ret_changes);
        tls_commit(certificate->tls, certificate->next);
        certificate->next = NULL;
    }
}

void certificate_drop(void *data)
{
    struct certificate *certificate = data;

    tls_context_free(certificate->next);
    certificate->next = NULL;
}
