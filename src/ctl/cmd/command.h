/*
 * command.h - a command of leafctl: its table row, its input, and functions to ask, read and print.
 *
 * commands.c has the table of all commands; args.c makes help and completions from it, and
 * scripts/generate makes the manual page from the help. A command that is one request, or a list,
 * is a row of that table; the others have a run function.
 *
 * The happy path of a command: it asks the cluster, appends to ctl->out, and returns CTL_DONE. A
 * failure is printed by ctl_fail() or ctl_failed(), on stderr. Appended output is printed at the
 * end, or by ctl_flush(). An answer may lack any field, or have a field of another type: another
 * program than leafd may have answered.
 *
 * Names come from any client that may make tags, messages from any program at an address. Control
 * characters (also those of C1 in UTF-8), characters that reverse the direction of text, and bytes
 * that are not UTF-8 are shown as \xNN or \u{NNNN}; a backslash stays unchanged. All text printed
 * for people goes through clean_put().
 *
 * Thread: one.
 */
#ifndef LEAFD_CTL_CMD_COMMAND_H
#define LEAFD_CTL_CMD_COMMAND_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "src/base/buf.h"
#include "src/base/container.h"
#include "src/ctl/net/cluster.h"

#define COMMAND_OPTIONS_MAX 24
#define COMMAND_OPERANDS_MAX 4

struct ctl;
struct source;

typedef void ctl_put_t(struct ctl *ctl, json_t *json);

/* Is this row of a list's page shown? Then its fields are made as its table shows them. */
typedef bool ctl_keep_t(struct ctl *ctl, const json_t *page, json_t *row);

/* Check a request whose operands and options are right, and add fields to its body (NULL: it has
 * none yet). A failure is printed. */
typedef enum ctl_exit ctl_before_t(struct ctl *ctl, json_t **body);

/* An operand, or an option, that is a part of a request. */
enum part_kind {
    PART_TEXT,
    PART_NUMBER,  /* in [min, max] */
    PART_BOUND,   /* the same, or "none" for max */
    PART_ID,      /* the same, or a UUID or ULID */
    PART_TAG,     /* the name of a tag */
    PART_ADDRESS, /* HOST:PORT */
    PART_FLAG     /* an option without a value: `field` is a whole parameter of the query */
};

struct part {
    const char *given; /* the option's name, or what messages call the operand; NULL: none */
    const char *field; /* its name in the body, or in the query of a GET */
    enum part_kind kind;
    uint64_t min;
    uint64_t max;
};

struct grid_column {
    const char *title; /* that begins with '>': aligned right, with its cells */
    const char *form;  /* of its cells: ctl_put_form() */
};

struct command {
    const char *family;                    /* "tags"; NULL: the end of the table */
    const char *name;                      /* "list"; NULL: the family is one command */
    const char *operands;                  /* "TAG [ID]", "...": any; NULL: none */
    const char *summary;                   /* a line without a dot at its end */
    const char *text;                      /* further description; NULL: none */
    const struct option_about *options;    /* NULL: none of its own */
    enum ctl_exit (*run)(struct ctl *ctl); /* NULL: ctl_request() */

    /* What it asks for, and how the answer is shown: by one of form, columns and put. */
    const char *method; /* NULL, or an optional operand that is not given: GET */
    const char *path;   /* with the first operand in place of '*' */
    struct part takes[COMMAND_OPERANDS_MAX]; /* the operands */
    const char *form;
    const struct grid_column *columns; /* of the rows of `list` */
    const char *list;                  /* the name of the array */
    unsigned page;                     /* rows in a page; 0: all are in one answer */
    ctl_keep_t *keep;                  /* NULL: each row is shown as it is */
    bool bare;                         /* with --json only the array is shown */
    ctl_put_t *put;                    /* of a list: its rows as CSV */
    const char *gone;                  /* printed after a DELETE that is done */
    ctl_before_t *before;              /* NULL: nothing is to be done before it is sent */
    bool waits;                        /* repeated until it is answered by 200 */
    bool once;                         /* with --force it is sent once */
    bool may_be_gone; /* 404 after a repeat is success: an earlier try without an answer did it */
    bool must_exist;  /* what the path names is looked up first: a mistyped name is not made */

    const struct source *source; /* of `import` (import.h) */

    bool is_default; /* of its family: its name may be left out */
    bool is_offline; /* it asks no server */
};

/* Used as for (EACH_OPTION(...)): over the options of one command, which may be NULL. */
#define EACH_OPTION(option, list)                                                                  \
    const struct option_about *option = (list);                                                    \
    option != NULL && option->name != NULL;                                                        \
    option++

struct args {
    const char *operands[COMMAND_OPERANDS_MAX]; /* NULL: not given */
    const char *values[COMMAND_OPTIONS_MAX];    /* NULL: not given; "": an option without a value */
};

struct ctl {
    const struct command *commands; /* all that there are */
    const struct command *command;  /* NULL: none is named */
    struct args args;
    bool json; /* --json */
    struct settings settings;
    struct cluster *cluster; /* NULL for an offline command */
    long status;             /* of the answer that is shown */
    struct buf out;
};

/* --- text --- */

/* Append len bytes of text, cleaned, including line ends. */
void clean_put(struct buf *out, const char *text, size_t len);

/* The same for a C string; NULL is shown as "-". */
void clean_text(struct buf *out, const char *text);

/* --- units --- */

#define UNITS_BYTES 40

/* 12 B, 3.4 KiB, 1.2 GiB */
const char *units_bytes(uint64_t bytes, char out[UNITS_BYTES]);

/* 850 ms, 12 s, 5 min, 3 h 20 min, 12 d */
const char *units_ms(uint64_t ms, char out[UNITS_BYTES]);

/* --- tables: a long list is printed page by page; columns keep their widths --- */

#define GRID_COLUMNS_MAX 12

struct grid {
    const struct grid_column *titles; /* borrowed; the last one is NULL */
    size_t widths[GRID_COLUMNS_MAX];
    bool titled; /* the titles were printed */
};

/* Append rows, with this number of blanks before each. Titles come only before the first rows. */
void ctl_put_rows(struct buf *out, struct grid *grid, const json_t *rows, unsigned indent);

/* --- the command line: leafctl [SETTINGS] FAMILY [NAME] [OPERANDS] [OPTIONS] --- */

/* Options and settings may be anywhere, as --name VALUE or --name=VALUE; after "--" everything is
 * an operand. Texts are borrowed from argv. *ret_run: the command is to be run; false: help, the
 * version or completions were asked for, and are appended. CTL_USAGE: an error, which was
 * printed. */
enum ctl_exit args_parse(struct ctl *ctl, int argc, char **argv, bool *ret_run);

/* The option of this name of len bytes, or by_letter of this letter, in a list; NULL: none. */
const struct option_about *option_find(const struct option_about *list, const char *name,
                                       size_t len, bool by_letter);

/* The value of an option; NULL: not given, or this command has none of that name. */
const char *ctl_option(const struct ctl *ctl, const char *name);
bool ctl_has(const struct ctl *ctl, const char *name);

/* A number of an option or operand (what: its name for the message) in [min, max]. text NULL: value
 * stays unchanged. CTL_USAGE: invalid, which was printed. */
enum ctl_exit ctl_number(const char *what, const char *text, uint64_t min, uint64_t max,
                         uint64_t *value) MUST_CHECK;

/* The same for the option of this name, from 1 on. */
enum ctl_exit ctl_number_option(const struct ctl *ctl, const char *name, uint64_t max,
                                uint64_t *value) MUST_CHECK;

/* --- messages and output --- */

/* A line on stderr, cleaned; returns code. */
enum ctl_exit ctl_fail(enum ctl_exit code, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Print an answer's failure on stderr; frees the answer; returns code. */
enum ctl_exit ctl_failed(enum ctl_exit code, struct answer *answer);

/* A line of progress, on stderr. */
#define ctl_progress(...) ((void)ctl_fail(CTL_DONE, __VA_ARGS__))

/* Print the appended output. CTL_OUTPUT: it cannot be written, which was printed. */
enum ctl_exit ctl_flush(struct ctl *ctl) MUST_CHECK;

/* Append JSON in one line, in ASCII: it cannot affect a terminal. NULL (a missing field) is
 * null. */
void ctl_put_json(struct ctl *ctl, const json_t *json);

/* Append an answer: with --json all of it, otherwise this form of it. */
void ctl_put(struct ctl *ctl, const json_t *json, const char *form);

/* Append a form with the fields of an object: "{name}", or "{name:how}", "{a.b}" for a field of a
 * field. Without how the field is a text. A number in how is a width, filled with blanks. Otherwise
 * how is n (a number; 0 if missing), or one of these, "-" if missing: int, bytes, age (of
 * milliseconds), ms (of microseconds), signed (milliseconds), time (of Unix milliseconds; "-" for
 * 0), date (the same, also 0); or !word: the word if the field is true, else nothing. */
void ctl_put_form(struct buf *out, const char *form, const json_t *json);

typedef enum ctl_exit ctl_show_t(struct ctl *ctl, const char *before);

/* Show something: once, or if live repeatedly, until Ctrl-C, every two seconds or by --every.
 * --times limits the number; counts: also if not live. Failures do not end a live display: they are
 * what is watched. before: text that clears a terminal, or "". */
enum ctl_exit ctl_repeat(struct ctl *ctl, bool live, bool counts, ctl_show_t *show);

/* --- requests --- */

/* As cluster_ask(); an answer that is no JSON object is CTL_INTERNAL, with a text that says so. */
enum ctl_exit ctl_ask(struct ctl *ctl, const struct ask *ask, struct answer *ret);

/* GET target; a failure is printed. On success the caller owns the answer. */
enum ctl_exit ctl_get(struct ctl *ctl, const char *target, struct answer *ret);

/* Append an option to a target, percent-encoded; value NULL: omitted. */
void target_add(struct buf *target, const char *option, const char *value);
void target_add_number(struct buf *target, const char *option, uint64_t value);

/* Append a text, percent-encoded. */
void target_put(struct buf *target, const char *text);

/* Send a change with this body (NULL: none). The caller owns the answer in any case. */
enum ctl_exit ctl_send(struct ctl *ctl, const char *method, const char *target, const json_t *body,
                       bool once, struct answer *ret);

/* Append path and query of the command's request to the target, and its fields to the body, which
 * is made if there are any. CTL_USAGE: an operand or option is wrong, which was printed. */
enum ctl_exit ctl_fill(struct ctl *ctl, const char *method, struct buf *target,
                       json_t **body) MUST_CHECK;

/* Carry out the command's request, and append the answer: with --json unchanged. A failure is
 * printed. */
enum ctl_exit ctl_request(struct ctl *ctl);

/* Set a field of a body, which is made if it is NULL; value: taken over. False: not UTF-8. */
bool body_set(json_t **body, const char *field, json_t *value);

/* Ask for a change of the cluster until it is made, or --wait is over. An answer 202 means that it
 * continues; the same request waits for it. body: NULL: none; again: the command of this family
 * that waits for a change that continues; in_turn: wait for another change under way. */
enum ctl_exit ctl_change(struct ctl *ctl, const char *method, struct buf *target,
                         const json_t *body, const char *again, bool in_turn);

/* --- lists in pages: while (pages_next(&pages)) ...; pages_end() --- */

struct pages {
    struct ctl *ctl;
    const char *path;
    const char *prefix;   /* NULL: all */
    uint64_t limit;       /* of a page; 0: the path has none */
    const size_t *server; /* the one to ask; NULL: any */
    bool quiet;           /* failures are not printed */
    char *after;          /* the last item before the next page; NULL: the first page, or the end */
    bool begun;
    struct answer answer; /* the page */
    enum ctl_exit code;
};

/* Get the next page. False: there is none, or it failed (code). */
bool pages_next(struct pages *pages);

/* Frees; returns code. */
enum ctl_exit pages_end(struct pages *pages);

/* --- fields --- */

/* A text; NULL: there is none. */
const char *field_text(const json_t *object, const char *name);

/* Does the field exist, with this text? */
bool field_is(const json_t *object, const char *name, const char *text);

/* A number, also one written as a string; otherwise `without`. */
int64_t field_number(const json_t *object, const char *name, int64_t without);
bool field_has_number(const json_t *object, const char *name);

/* Is it there, and true? */
bool field_true(const json_t *object, const char *name);

/* The number of items of an array; 0 if it is no array. */
size_t field_count(const json_t *object, const char *name);
json_t *field_item(const json_t *object, const char *name, size_t index);

/* --- members of a status or a cluster: check.c --- */

/* Can the node that answered reach this member? */
bool member_is_reached(const json_t *status, const json_t *member);

/* Its role, or leader; whether it is reached; its lag. */
ctl_keep_t member_keep;

/* --- the commands --- */

/* All of them, in the order of the help. */
extern const struct command COMMANDS[];

enum ctl_exit run_status(struct ctl *ctl);
enum ctl_exit run_check(struct ctl *ctl);
enum ctl_exit run_top(struct ctl *ctl);
enum ctl_exit run_history(struct ctl *ctl);
enum ctl_exit run_backup(struct ctl *ctl);
enum ctl_exit run_import(struct ctl *ctl);
enum ctl_exit run_token_new(struct ctl *ctl);

#endif
