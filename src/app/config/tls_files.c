/*
 * tls_files.c - see tls_files.h. Thread: main.
 */
#include "src/app/config/tls_files.h"

#include <stdlib.h>
#include <string.h>

#include "src/app/config/file.h"
#include "src/base/assert.h"
#include "src/base/clock.h"

/* One more, to see that there is more. */
#define ROOM_BYTES (LIMIT_TLS_FILE_BYTES + 1)

static int read_file(const char *path, bool is_private, struct tls_file *ret_file,
                     struct config_error *ret_error)
{
    void *data = MUST_HAVE(malloc(ROOM_BYTES));
    size_t len = 0;
    int rv;

    *ret_file = (struct tls_file){.name = path, .data = data};
    rv = config_file_read(path, is_private, data, ROOM_BYTES, &len, ret_error);
    if (rv == 0 && len > LIMIT_TLS_FILE_BYTES) {
        rv = config_fail(ret_error, "larger than %d bytes", LIMIT_TLS_FILE_BYTES);
    }
    ret_file->len = len;
    return rv == 0 ? 0 : config_fail_at(ret_error, "http.tls-dir %s", path);
}

static void release(struct tls_file *file)
{
    if (file->data != NULL) {
        explicit_bzero((void *)(uintptr_t)file->data, file->len);
        free((void *)(uintptr_t)file->data);
    }
}

static int read_files(const struct config *config, struct tls_files *files,
                      struct config_error *ret_error)
{
    const struct config_tls_files *paths = &config->tls.files;
    int rv = read_file(paths->certificate, false, &files->certificate, ret_error);

    if (rv == 0) {
        rv = read_file(paths->key, true, &files->key, ret_error);
    }
    if (rv == 0 && files->client != TLS_CLIENT_NONE) {
        rv = read_file(paths->ca, false, &files->client_ca, ret_error);
    }
    return rv;
}

int tls_files_load(const struct config *config, struct tls *tls, struct tls_context **ret_context,
                   struct config_error *ret_error)
{
    struct tls_files files = {.client = config->tls.client};
    struct tls_error error = {""};
    int rv;

    ASSERT(tls_files_are_set(config));
    rv = read_files(config, &files, ret_error);
    if (rv == 0 && tls_context_make(tls, &files, ret_context, &error) != 0) {
        rv = config_fail(ret_error, "http.tls-dir: %s", error.text);
    }
    release(&files.certificate);
    release(&files.key);
    release(&files.client_ca);
    return rv;
}

int tls_files_check(const struct config *config, struct config_error *ret_error)
{
    struct tls_context *context = NULL;
    struct tls *tls;
    int rv;

    if (!tls_files_are_set(config)) {
        return 0;
    }
    tls = tls_new(clock_system());
    rv = tls_files_load(config, tls, &context, ret_error);
    tls_context_free(context);
    tls_free(tls);
    return rv;
}
