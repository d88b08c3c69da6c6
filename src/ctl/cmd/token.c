/*
 * token.c - `token new`: a new token and its line, as `leafd --new-token` makes them. Thread: one.
 */
#include "src/ctl/cmd/all.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "http/auth/tokens.h"
#include "src/base/assert.h"

/* Roles and a name that the file would not take are refused as leafd would refuse them. */
static enum ctl_exit make_line(struct ctl *ctl, const char *made, struct buf *out)
{
    const char *name = ctl_option(ctl, "name");
    const char *roles = ctl_option(ctl, "roles");
    const char *prefix = ctl_option(ctl, "prefix");
    const char *proof = strchr(made, ' ');
    size_t proof_len;
    char why[TOKENS_WHY_BYTES];
    struct token_table *table;

    ASSERT(proof != NULL);
    proof_len = strcspn(proof + 1, " ");
    if (name != NULL) {
        buf_printf(out, "%s", name);
    } else {
        buf_put(out, made, (size_t)(proof - made));
    }
    buf_printf(out, " %.*s roles=%s%s%s\n", (int)proof_len, proof + 1,
               roles != NULL ? roles : "ids", prefix != NULL ? " prefix=" : "",
               prefix != NULL ? prefix : "");
    for (int i = 0; i < 3; i++) {
        const char *text = i == 0 ? name : i == 1 ? roles : prefix;

        if (text != NULL && (*text == '\0' || *text == '#' || strpbrk(text, " \t\r\n") != NULL)) {
            return ctl_fail(CTL_USAGE,
                            "\"%s\" cannot stand in the line: it is empty, has a blank, "
                            "or begins a comment",
                            text);
        }
    }
    if (tokens_parse((const char *)out->data, out->len, 0, &table, why) != 0) {
        return ctl_fail(CTL_USAGE, "%s", why);
    }
    tokens_unref(table);
    return CTL_DONE;
}

/* Into a new file that nobody else can read. */
static enum ctl_exit save(const char *path, const char *token)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    size_t len = strlen(token);
    bool good;

    if (fd < 0) {
        return ctl_fail(CTL_OUTPUT, "%s: %m", path);
    }
    good = write(fd, token, len) == (ssize_t)len && write(fd, "\n", 1) == 1 && fsync(fd) == 0;
    good = close(fd) == 0 && good;
    if (!good) {
        (void)ctl_fail(CTL_OUTPUT, "%s cannot be written: %m", path);
        (void)unlink(path);
        return CTL_OUTPUT;
    }
    return CTL_DONE;
}

static enum ctl_exit token_run(struct ctl *ctl)
{
    const char *path = ctl_option(ctl, "out");
    char token[TOKEN_TEXT_BYTES];
    char made[TOKEN_LINE_BYTES];
    BUF_LOCAL(line);
    enum ctl_exit code;

    if (token_new(token, made) != 0) {
        return ctl_fail(CTL_INTERNAL, "the system gives no random bytes");
    }
    code = make_line(ctl, made, &line);
    if (code == CTL_DONE && path != NULL) {
        code = save(path, token);
    }
    if (code == CTL_DONE && ctl->json) {
        json_t *json = MUST_HAVE(json_pack("{s:s*, s:s%}", "token", path == NULL ? token : NULL,
                                           "line", (const char *)line.data, line.len - 1));

        ctl_put_json(ctl, json);
        json_decref(json);
    } else if (code == CTL_DONE) {
        if (path == NULL) {
            buf_printf(&ctl->out, "%s\n", token);
        }
        buf_put(&ctl->out, line.data, line.len);
    }
    explicit_bzero(token, sizeof token);
    return code;
}

static const struct option_about OPTIONS[] = {
    {"name", 0, "NAME", "who it is for (default: made of its hash)"},
    {"roles", 0, "ROLE,...",
     "ids, read, tags, workers, admin, metrics, health, or all (default ids)"},
    {"prefix", 0, "PREFIX,...", "what the names of its tags begin with"},
    {"out", 'o', "FILE", "write the token into a new file of mode 0600, instead of showing it"},
    {NULL, 0, NULL, NULL},
};
const struct command COMMAND_TOKEN_NEW = {
    .family = "token",
    .name = "new",
    .summary = "a new token, and its line for auth.tokens-file",
    .text =
        "The line has only the token's hash. Put it into the file of each node, and send SIGHUP.",
    .options = OPTIONS,
    .is_offline = true,
    .run = token_run,
};
