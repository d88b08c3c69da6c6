/*
 * fuzz_config.c - any bytes as a configuration file: it is refused with a reason that can be read,
 * or taken; and what --print-config then says, read as a file, gives the very same settings.
 *
 * The input is the file; what stands behind its first 0xff byte is one more flag and, behind the
 * next, its value. Nothing of the surroundings is looked at.
 *
 * Thread: one.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/base/assert.h"
#include "src/node/config/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

#define PART_END 0xff
#define FLAG_BYTES 64
#define VALUE_BYTES 512

static char path[64];

static void remove_file(void)
{
    (void)unlink(path);
}

static void write_file(const void *data, size_t len)
{
    FILE *file;

    if (path[0] == '\0') {
        int fd;

        (void)snprintf(path, sizeof path, "/tmp/leafd-fuzz-XXXXXX");
        fd = mkstemp(path);
        ASSERT(fd >= 0 && close(fd) == 0 && atexit(remove_file) == 0);
    }
    file = fopen(path, "wb");
    ASSERT(file != NULL && (len == 0 || fwrite(data, 1, len, file) == len) && fclose(file) == 0);
}

/* Load the file, and a flag unless it is empty. */
static int load(char *flag, char *value, struct config *config)
{
    static char *const no_env[] = {NULL};
    static char program[] = "leafd";
    static char file_flag[] = "--config";
    char *argv[] = {program, file_flag, path, flag, value, NULL};
    struct config_error error = {""};
    enum config_action action;
    int rv = config_load(flag != NULL ? 5 : 3, argv, no_env, config, &action, &error);

    ASSERT(rv == 0 || rv == ERR_INVALID);
    ASSERT(rv == 0 || (error.text[0] != '\0' && memchr(error.text, '\0', sizeof error.text)));
    for (const char *at = error.text; rv != 0 && *at != '\0'; at++) {
        ASSERT((unsigned char)*at >= ' ' && *at != 0x7f); /* a terminal shows it */
    }
    ASSERT(rv != 0 || action != CONFIG_RUN || config->origins[0].text != NULL);
    return rv;
}

static void expect_same(const struct config *a, const struct config *b)
{
    for (size_t row = 0; row < setting_count; row++) {
        const char *one = a->origins[row].text;
        const char *other = b->origins[row].text;

        ASSERT((one == NULL) == (other == NULL));
        ASSERT(one == NULL || strcmp(one, other) == 0);
    }
}

/* A part of the input as text: up to the next end of a part. */
static const uint8_t *take_text(const uint8_t *at, const uint8_t *end, char *text, size_t room)
{
    const uint8_t *stop = memchr(at, PART_END, (size_t)(end - at));
    size_t len = (size_t)((stop != NULL ? stop : end) - at);

    len = len < room - 1 ? len : room - 1;
    memcpy(text, at, len);
    text[len] = '\0';
    return stop != NULL ? stop + 1 : end;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    const uint8_t *stop = memchr(data, PART_END, len);
    const uint8_t *end = data + len;
    size_t file_len = stop != NULL ? (size_t)(stop - data) : len;
    struct config config = {.file = ""};
    struct config again = {.file = ""};
    char flag[FLAG_BYTES] = "--";
    char value[VALUE_BYTES] = "";
    struct buf printed = BUF_INIT;

    if (stop != NULL) {
        stop = take_text(stop + 1, end, flag + 2, sizeof flag - 2);
        (void)take_text(stop, end, value, sizeof value);
    }
    write_file(data, file_len);
    if (load(flag[2] != '\0' ? flag : NULL, value, &config) == 0 &&
        config.origins[0].text != NULL) {
        config_print(&config, &printed);
        write_file(printed.data, printed.len);
        ASSERT(load(NULL, NULL, &again) == 0);
        expect_same(&config, &again);
    }
    config_release(&config);
    config_release(&again);
    buf_free(&printed);
    return 0;
}
