/*
 * command.h - what a command of leafctl is, what it is given, and what it asks and reads with: the
 * target of a request, the fields of an answer.
 *
 * Each family of commands is a file that defines its `struct command`s; src/ctl/describe.c has them
 * all, and makes help, manual page and completions from the same descriptions.
 *
 * The happy path of a command: it asks the cluster, appends to ctl->out, and returns CTL_DONE. A
 * failure is told by ctl_fail() or ctl_failed(), on stderr. What is appended is printed at the end,
 * or by ctl_flush(). An answer may lack any field, or have another type there: something that is no
 * leafd may have answered.
 *
 * Thread: one.
 */
#ifndef LEAFD_CTL_CMD_COMMAND_H
#define LEAFD_CTL_CMD_COMMAND_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "src/base/buf.h"
#include "src/ctl/net/cluster.h"

#define COMMAND_OPTIONS_MAX 16
#define COMMAND_OPERANDS_MAX 4

struct ctl;

struct command {
    const char *family;                 /* "tags" */
    const char *name;                   /* "list"; NULL: the family is one command */
    const char *operands;               /* "TAG [ID]", "...": any; NULL: none */
    const char *summary;                /* a line without a dot at its end */
    const char *text;                   /* what more there is to know; NULL: nothing */
    const struct option_about *options; /* NULL: none of its own */
    bool is_default;                    /* of its family: its name may be left out */
    bool is_offline;                    /* it asks no server */
    enum ctl_exit (*run)(struct ctl *ctl);
};

/* Family and name, for "%s%s%s". */
#define COMMAND_WORDS(command)                                                                     \
    (command)->family, (command)->name != NULL ? " " : "",                                         \
        (command)->name != NULL ? (command)->name : ""

struct args {
    const char *operands[COMMAND_OPERANDS_MAX]; /* NULL: not given */
    const char *values[COMMAND_OPTIONS_MAX];    /* NULL: not given; "" of one without a value */
};

struct ctl {
    const struct command *command;
    struct args args;
    bool json; /* --json */
    struct settings settings;
    struct cluster *cluster; /* NULL where the command is offline */
    struct buf out;
};

/* The value of an option of the command; NULL: not given. */
const char *ctl_option(const struct ctl *ctl, const char *name);

/* A number of an option or operand (what: its name for the message) in [min, max]. text NULL: value
 * is left as it is. 0, or CTL_USAGE, and it was told. */
enum ctl_exit ctl_number(const char *what, const char *text, uint64_t min, uint64_t max,
                         uint64_t *value) MUST_CHECK;

/* A line on stderr, cleaned; returns code. */
enum ctl_exit ctl_fail(enum ctl_exit code, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* What an answer says of a failure, on stderr; frees the answer; returns code. */
enum ctl_exit ctl_failed(enum ctl_exit code, struct answer *answer);

/* A line of progress, on stderr. */
#define ctl_progress(...) ((void)ctl_fail(CTL_DONE, __VA_ARGS__))

/* Print what was appended. CTL_OUTPUT: it cannot be written, and that was told. */
enum ctl_exit ctl_flush(struct ctl *ctl) MUST_CHECK;

/* Append JSON in one line, ASCII alone: nothing in it can do anything to a terminal. */
void ctl_put_json(struct ctl *ctl, const json_t *json);

/* GET target as JSON; told if it fails. The answer is the caller's if it does not. */
enum ctl_exit ctl_get(struct ctl *ctl, const char *target, struct answer *ret);

/* Append it: with --json as it is, otherwise as put() says it. */
void ctl_put(struct ctl *ctl, const json_t *json, void (*put)(struct ctl *ctl, const json_t *json));

/* The same of what GET target answers. */
enum ctl_exit ctl_show(struct ctl *ctl, const char *target,
                       void (*put)(struct ctl *ctl, const json_t *json));

/* Is the answer an object? If not that is told, and the answer freed. */
enum ctl_exit ctl_must_be_object(struct answer *answer);

/* --- targets: a path, and options after it --- */

struct target {
    struct buf text;
    bool has_option;
};

/* path, and name percent-encoded behind it unless it is NULL. */
void target_init(struct target *target, const char *path, const char *name);

/* An option; value NULL: it is left out. */
void target_add(struct target *target, const char *option, const char *value);
void target_add_number(struct target *target, const char *option, uint64_t value);

/* Borrowed until the next option. */
const char *target_text(struct target *target);
void target_free(struct target *target);

/* One that is freed at the end of its block. */
#define TARGET_LOCAL(name) struct target name __attribute__((cleanup(target_free))) = {0}

/* --- fields --- */

/* A text; NULL: there is none. */
const char *field_text(const json_t *object, const char *name);

/* Is it there, and this text? */
bool field_is(const json_t *object, const char *name, const char *text);

/* A number, also one that is written as a string; otherwise `without`. */
int64_t field_number(const json_t *object, const char *name, int64_t without);

bool field_has_number(const json_t *object, const char *name);

/* Is it there, and true? */
bool field_true(const json_t *object, const char *name);

/* The items of an array; 0 where it is none. */
size_t field_count(const json_t *object, const char *name);
const json_t *field_item(const json_t *object, const char *name, size_t index);

#endif
