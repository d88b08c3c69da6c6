/*
 * config_file.c - the syntax of the config file, and the file with the secret.
 *
 * A line is empty, a comment, or "key = value". A comment begins with '#' at the start of a line or
 * after a blank. A value may stand in double quotes (there are no escapes), which keeps blanks at
 * its ends and '#' in it. A key may stand in a file once.
 *
 * Failure modes: every one names the file, and the line where there is one. Thread: main.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/app/config_table.h"
#include "src/base/assert.h"

static int read_all(int fd, size_t max, struct buf *out);
static int check_secret_file(int fd, const char *path, struct config_error *ret_error);
static int take_secret(struct config *config, const struct buf *content,
                       struct config_error *ret_error);
static int read_lines(const char *path, char *text, config_line_fn fn, void *data,
                      struct config_error *ret_error);
static int parse_line(char *line, char **ret_key, char **ret_value, struct config_error *ret_error);

int config_file_read(const char *path, config_line_fn fn, void *data,
                     struct config_error *ret_error)
{
    struct buf content = BUF_INIT;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    int rv;

    if (fd < 0) {
        return config_fail(ret_error, "config file %s: cannot open: %s", path, strerror(errno));
    }
    rv = read_all(fd, LIMIT_CONFIG_FILE_BYTES, &content);
    if (rv == ERR_TOO_LARGE) {
        rv = config_fail(ret_error, "config file %s: larger than %d bytes", path,
                         LIMIT_CONFIG_FILE_BYTES);
    } else if (rv != 0) {
        rv = config_fail(ret_error, "config file %s: cannot read: %s", path, strerror(errno));
    } else if (content.len > 0 && memchr(content.data, '\0', content.len) != NULL) {
        rv = config_fail(ret_error, "config file %s: has a NUL byte; is it a text file?", path);
    } else {
        buf_put_u8(&content, '\0');
        rv = read_lines(path, (char *)content.data, fn, data, ret_error);
    }
    buf_free(&content);
    close(fd);
    return rv;
}

int config_secret_read(struct config *config, struct config_error *ret_error)
{
    const char *path = config->secret_file;
    struct buf content = BUF_INIT;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    int rv;

    if (fd < 0) {
        return config_fail(ret_error, "cluster.secret-file: cannot open %s: %s", path,
                           strerror(errno));
    }
    rv = check_secret_file(fd, path, ret_error);
    if (rv == 0 && read_all(fd, LIMIT_SECRET_BYTES + 2, &content) == ERR_IO) {
        rv = config_fail(ret_error, "cluster.secret-file: cannot read %s: %s", path,
                         strerror(errno));
    }
    if (rv == 0) {
        rv = take_secret(config, &content, ret_error);
    }
    if (content.capacity > 0) {
        explicit_bzero(content.data, content.capacity);
    }
    buf_free(&content);
    close(fd);
    return rv;
}

/* Nobody but its owner may read or change it. */
static int check_secret_file(int fd, const char *path, struct config_error *ret_error)
{
    struct stat st;

    ASSERT(fstat(fd, &st) == 0);
    if (!S_ISREG(st.st_mode)) {
        return config_fail(ret_error, "cluster.secret-file: %s is not a regular file", path);
    }
    if ((st.st_mode & 077) != 0) {
        return config_fail(
            ret_error,
            "cluster.secret-file: %s has mode %04o, so others than its owner can use "
            "it: chmod 600 it, and make a new secret if it may have been read",
            path, (unsigned)st.st_mode & 07777);
    }
    return 0;
}

/* Cut the last newline off, check the length, copy. */
static int take_secret(struct config *config, const struct buf *content,
                       struct config_error *ret_error)
{
    size_t len = content->len;

    if (len > 0 && content->data[len - 1] == '\n') {
        len--;
        len -= len > 0 && content->data[len - 1] == '\r';
    }
    if (len < LIMIT_SECRET_MIN_BYTES || len > LIMIT_SECRET_BYTES) {
        return config_fail(
            ret_error, "cluster.secret-file: the secret in %s is too %s: must be %d to %d bytes",
            config->secret_file, len > LIMIT_SECRET_BYTES ? "long" : "short",
            LIMIT_SECRET_MIN_BYTES, LIMIT_SECRET_BYTES);
    }
    memcpy(config->secret, content->data, len);
    config->secret_len = len;
    return 0;
}

/* Append the rest of the file. 0; ERR_TOO_LARGE beyond max bytes; ERR_IO with errno set. */
static int read_all(int fd, size_t max, struct buf *out)
{
    /* All at once, so that no copy of a secret is left behind by a buffer that grew. */
    buf_reserve(out, max + 1);
    for (;;) {
        ssize_t len = read(fd, out->data + out->len, max + 1 - out->len);

        if (len < 0 && errno == EINTR) {
            continue;
        }
        if (len < 0) {
            return ERR_IO;
        }
        out->len += (size_t)len;
        if (out->len > max) {
            return ERR_TOO_LARGE;
        }
        if (len == 0) {
            return 0;
        }
    }
}

static int read_lines(const char *path, char *text, config_line_fn fn, void *data,
                      struct config_error *ret_error)
{
    struct config_error reason;
    unsigned number = 0;
    char *line;

    while ((line = strsep(&text, "\n")) != NULL) {
        char *key = NULL;
        char *value = NULL;

        number++;
        if (parse_line(line, &key, &value, &reason) != 0 ||
            (key != NULL && fn(data, number, key, value, &reason) != 0)) {
            return config_fail(ret_error, "%s:%u: %s", path, number, reason.text);
        }
    }
    return 0;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* Cut the blanks, and a carriage return, off the end. */
static void trim_end(char *text)
{
    size_t len = strlen(text);

    while (len > 0 && (is_blank(text[len - 1]) || text[len - 1] == '\r')) {
        len--;
    }
    text[len] = '\0';
}

/* Cut off a comment: '#' after a blank, or at the very start. */
static void cut_comment(char *text)
{
    for (char *hash = strchr(text, '#'); hash != NULL; hash = strchr(hash + 1, '#')) {
        if (hash == text || is_blank(hash[-1])) {
            *hash = '\0';
            return;
        }
    }
}

/* The text in quotes, and nothing but a comment behind it. */
static int parse_quoted(char *text, char **ret_value, struct config_error *ret_error)
{
    char *end = strchr(text + 1, '"');

    if (end == NULL) {
        return config_fail(ret_error, "the quote is not closed");
    }
    *end = '\0';
    if (end[1] != '\0' && !is_blank(end[1]) && end[1] != '\r') {
        return config_fail(ret_error, "there is more behind the closing quote");
    }
    cut_comment(end + 1);
    trim_end(end + 1);
    if (end[1] != '\0') {
        return config_fail(ret_error, "there is more behind the closing quote");
    }
    *ret_value = text + 1;
    return 0;
}

/* *ret_key stays as it is for an empty line or a comment. */
static int parse_line(char *line, char **ret_key, char **ret_value, struct config_error *ret_error)
{
    char *value;
    char *equals;

    line += strspn(line, " \t\r");
    if (*line == '\0' || *line == '#') {
        return 0;
    }
    equals = strchr(line, '=');
    if (equals == NULL || equals == line) {
        return config_fail(ret_error, "must be: key = value");
    }
    *equals = '\0';
    trim_end(line);
    value = equals + 1;
    value += strspn(value, " \t");
    if (*value == '"') {
        if (parse_quoted(value, &value, ret_error) != 0) {
            return ERR_INVALID;
        }
    } else {
        cut_comment(value);
        trim_end(value);
    }
    *ret_key = line;
    *ret_value = value;
    return 0;
}
