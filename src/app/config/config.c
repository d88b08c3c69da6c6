/*
 * config.c - see config.h. Thread: main.
 */
#include "src/app/config/config.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void config_release(struct config *config)
{
    for (size_t i = 0; i < CONFIG_SETTINGS_MAX; i++) {
        free(config->origins[i].text);
    }
    explicit_bzero(config, sizeof *config);
}

void config_tls_paths(const struct config *config, const char *ret_paths[CONFIG_TLS_PATHS])
{
    const struct config_tls_files *const both[] = {&config->tls.files, &config->peer_tls.files};
    size_t count = 0;

    for (size_t i = 0; i < 2; i++) {
        ret_paths[count++] = both[i]->certificate;
        ret_paths[count++] = both[i]->key;
        ret_paths[count++] = both[i]->ca;
    }
}

int config_fail(struct config_error *ret_error, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vsnprintf(ret_error->text, sizeof ret_error->text, format, args);
    va_end(args);
    return ERR_INVALID;
}

int config_fail_at(struct config_error *ret_error, const char *place, ...)
{
    struct config_error reason = *ret_error;
    va_list args;
    size_t len;

    va_start(args, place);
    (void)vsnprintf(ret_error->text, sizeof ret_error->text, place, args);
    va_end(args);
    len = strlen(ret_error->text);
    (void)snprintf(ret_error->text + len, sizeof ret_error->text - len, ": %s", reason.text);
    return ERR_INVALID;
}
