/*
 * file.c - see file.h.
 */
#include "src/app/config/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/assert.h"

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
    if (end[1] != '#') {
        cut_comment(end + 1);
        trim_end(end + 1);
    }
    if (end[1] != '\0') {
        return config_fail(ret_error, "there is more behind the closing quote");
    }
    *ret_value = text + 1;
    return 0;
}

int config_line_parse(char *line, char **ret_key, char **ret_value, struct config_error *ret_error)
{
    char *equals;
    char *value;

    *ret_key = NULL;
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
    *ret_key = line;
    value = equals + 1 + strspn(equals + 1, " \t");
    if (*value == '"') {
        return parse_quoted(value, ret_value, ret_error);
    }
    cut_comment(value);
    trim_end(value);
    *ret_value = value;
    return 0;
}

/* A private file is its owner's alone; or root's, who lets a group read it: so packages install
 * what a service reads, and so Kubernetes mounts it. */
static bool is_open_to_others(const struct stat *st)
{
    mode_t not_allowed = st->st_uid == 0 ? S_IWGRP | S_IXGRP | S_IRWXO : S_IRWXG | S_IRWXO;

    return (st->st_mode & not_allowed) != 0;
}

/* A FIFO would be waited for, a device may have no end. */
static int check_kind(int fd, bool is_private, struct config_error *ret_error)
{
    struct stat st;

    ASSERT(fstat(fd, &st) == 0);
    if (!S_ISREG(st.st_mode)) {
        return config_fail(ret_error, "is not a regular file");
    }
    if (is_private && is_open_to_others(&st)) {
        return config_fail(ret_error,
                           "has mode %04o, so others than its owner can use it: chmod 600 it, and "
                           "make a new secret if it may have been read",
                           (unsigned)st.st_mode & 07777);
    }
    if ((st.st_mode & S_IWOTH) != 0) {
        return config_fail(ret_error, "has mode %04o, so anybody can change it: chmod o-w it",
                           (unsigned)st.st_mode & 07777);
    }
    return 0;
}

static int read_all(int fd, void *out, size_t room, size_t *ret_len, struct config_error *ret_error)
{
    ssize_t len;

    *ret_len = 0;
    while ((len = read(fd, (char *)out + *ret_len, room - *ret_len)) != 0) {
        if (len < 0 && errno != EINTR) {
            return config_fail(ret_error, "cannot read: %s", strerror(errno));
        }
        *ret_len += len > 0 ? (size_t)len : 0;
    }
    return 0;
}

int config_file_read(const char *path, bool is_private, void *out, size_t room, size_t *ret_len,
                     struct config_error *ret_error)
{
    /* Without waiting: nobody may ever write to a FIFO. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    int rv;

    if (fd < 0) {
        return config_fail(ret_error, "cannot open: %s", strerror(errno));
    }
    rv = check_kind(fd, is_private, ret_error);
    if (rv == 0) {
        rv = read_all(fd, out, room, ret_len, ret_error);
    }
    close(fd);
    return rv;
}

int config_tokens_read(const struct config *config, struct buf *ret_text,
                       struct config_error *ret_error)
{
    const char *path = config->auth.tokens_file;
    size_t len = 0;

    if (path[0] == '\0') {
        return 0;
    }
    buf_reserve(ret_text, LIMIT_TOKENS_FILE_BYTES + 2);
    if (config_file_read(path, true, ret_text->data, LIMIT_TOKENS_FILE_BYTES + 1, &len,
                         ret_error) != 0) {
        return config_fail_at(ret_error, "auth.tokens-file %s", path);
    }
    ret_text->len = len;
    ret_text->data[len] = '\0';
    return 0;
}
