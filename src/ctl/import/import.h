/*
 * import.h - counters of other systems: rows of a file or a database, and the tags made of them.
 *
 * The tables of Leaf, TinyID and CosId are known; other sources give names and next ids. The happy
 * path: file_read() or database_read() returns rows, and the errors of bad rows; tags_check() makes
 * tags of them. Names and numbers are never guessed.
 *
 * Failure modes: lack of memory ends the process. An unreadable row is an error of its own, and
 * reading continues; ERR_INVALID with *why if a file or database as a whole is unreadable.
 * Ownership: rows own their texts; everything else is borrowed. Thread: one.
 */
#ifndef LEAFD_CTL_IMPORT_IMPORT_H
#define LEAFD_CTL_IMPORT_IMPORT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "src/base/buf.h"
#include "src/base/err.h"

/* --- tables and their columns --- */

/* The columns that are used here. */
enum column {
    COLUMN_NAME,
    COLUMN_MAX_ID,
    COLUMN_STEP,
    COLUMN_DESCRIPTION,
    COLUMN_DELTA,
    COLUMN_REMAINDER,
    COLUMN_TIME,   /* of the row's last change, in a file */
    COLUMN_AGE,    /* seconds since then, by the database's clock */
    COLUMN_MARK,   /* of the guard */
    COLUMN_OBJECT, /* named by the guard's statement */
    COLUMNS
};
#define AGE_NAME "leafctl_age"
#define MARK_NAME "leafctl_mark"
#define OBJECT_NAME "leafctl_object"

#define NO_COLUMN (-1)
#define COLUMN_BIT(column) (1U << (column))
#define TABLE_COLUMNS_MAX 64 /* in a table of a file; more: an error */

struct source {
    const char *what;             /* "Leaf" */
    const char *table;            /* its default name; "": any */
    const char *columns[COLUMNS]; /* the name of each in the table; NULL: there is none */
    unsigned needed;              /* COLUMN_BIT() of each that a row must have */
    bool is_handed_out; /* max_id itself is, or may be, handed out: the next id is one above */
    const char *age;    /* MySQL expression of the age of a row `t`; NULL: no table of
                              counters */
    const char *order;  /* all columns of the table, between commas; NULL: not known */
    bool has_order;     /* --columns gave it; else the table's usual order */
};

extern const struct source SOURCE_LEAF;
extern const struct source SOURCE_TINYID;
extern const struct source SOURCE_COSID;
extern const struct source SOURCE_TAGS;  /* names and next ids, of a file or a query */
extern const struct source SOURCE_REDIS; /* keys and their values */

/* Is the text one of these words, which blanks separate, in any case? */
bool word_is_one_of(const char *text, size_t len, const char *words);

/* The column of this name, in any case; NO_COLUMN: none that is used. */
int source_column(const struct source *source, const char *name, size_t len);

/* Where each value of a row belongs. */
struct columns {
    int meaning[TABLE_COLUMNS_MAX];
    size_t count;
    unsigned have; /* a bit for each column that is among them */
    bool too_many;
};

void columns_add(struct columns *columns, int meaning);

/* Set the columns of the table, in its order. */
void columns_in_order(struct columns *columns, const struct source *source);

/* The name of a missing required column; NULL: none is missing. */
const char *columns_lack(const struct source *source, const struct columns *columns);

/* --- rows --- */

/* Texts: only the first ones are kept, but all are counted. */
#define MESSAGES_KEPT 20
struct messages {
    struct buf texts; /* each ends with a NUL */
    size_t kept;
    size_t count;
};

void messages_add(struct messages *messages, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

struct row_value {
    size_t at;     /* in rows.text */
    size_t len;    /* without the NUL after it */
    bool is_there; /* false: NULL, or no such column */
};

struct row {
    uint32_t line;   /* counted from 1; 0: of a database */
    uint32_t number; /* of the row in its statement, from 1; 0: a line has one row */
    struct row_value values[COLUMNS];
};

struct rows {
    struct buf text;
    struct row *list;
    size_t count;
    size_t capacity;
    struct messages errors;
    bool guessed; /* the file does not name the columns of these rows */
    bool is_live; /* of a database: rows have numbers, not lines */
};

void rows_free(struct rows *rows);

/* Append a row. */
void rows_keep(struct rows *rows, const struct row *row);

/* "line 7, row 2" */
#define ROW_PLACE_BYTES 48
const char *row_place(const struct row *row, char out[ROW_PLACE_BYTES]);
#define ROW_PLACE(row) row_place((row), (char[ROW_PLACE_BYTES]){0}) /* in memory of the block */

/* --- files --- */

#define IMPORT_FILE_BYTES (1ULL << 30) /* more: refused */
#define IMPORT_SHOWN_BYTES 160         /* of a value in a message */

enum form {
    FORM_UNKNOWN,
    FORM_SQL,
    FORM_TSV,
    FORM_OUTFILE,
    FORM_CSV,
    FORM_CSV_DOUBLED,
    FORM_CSV_BACKSLASH,
    FORM_JSON,
    FORMS
};

extern const char *const FORM_NAMES[FORMS];

/* The rows of a file's bytes; a NUL follows them. *form: FORM_UNKNOWN becomes the detected
 * form. */
int file_read(const struct source *source, const char *table, const char *data, size_t len,
              enum form *form, struct rows *rows, struct buf *why) MUST_CHECK;

/* Seconds without a change when the file was made: at the time of mysqldump's last line, otherwise
 * at made_s (Unix time). Its zone may differ from that of the rows, so whole quarters of hours do
 * not count. -1: the file does not show it. */
int64_t file_quiet_s(const struct rows *rows, const char *data, size_t len, int64_t made_s);

/* A dump that ends without mysqldump's last line may lack rows. */
bool file_may_be_cut_off(const char *data, size_t len);

/* State that a file's readers share. */
struct file_reading {
    const struct source *source;
    const char *table; /* not empty */
    const char *data;
    size_t len;
    size_t at;
    uint32_t line; /* of the byte at `at` */
    struct rows *rows;
    struct buf *why;               /* not empty: the file is unreadable */
    const struct dialect *dialect; /* of columns between tabs or commas */
    struct columns columns; /* named by the first line, or CREATE TABLE; else in the usual order */
    size_t least;           /* of values in a line between tabs or commas */
    unsigned tables;        /* of this name, in phpMyAdmin's JSON */
};

/* The file is unreadable because of this line. Only the first reason is kept. ERR_INVALID. */
int reading_fail(struct file_reading *reading, uint32_t line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Advance to this byte, counting lines. */
void reading_advance(struct file_reading *reading, size_t to);

/* Read the rows of one table from a dump of MySQL or MariaDB. Other tables, and the bodies of
 * triggers and procedures, are skipped. */
int sql_read(struct file_reading *reading) MUST_CHECK;

/* The byte after the quote that closes the one at `at`; 0: there is none. A doubled quote is one
 * quote; with escapes a backslash makes the next byte literal. */
size_t sql_quoted_end(const char *data, size_t len, size_t at, char quote, bool escapes);

enum escapes {
    ESCAPES_NONE, /* a backslash is itself */
    ESCAPES_ALL,  /* \0, \b, \n, \r, \t and \Z; before another byte it has no meaning */
    ESCAPES_SQL,  /* the same, but before % and _ it stays, as in MySQL */
    ESCAPES_REDIS /* \a, \b, \n, \r, \t and \xHH */
};

/* Append a text with its escapes resolved. quote: doubled in it; NUL: none is. */
void sql_unquote(struct buf *out, const char *text, size_t len, char quote, enum escapes escapes);

/* --- databases --- */

enum engine { ENGINE_MYSQL, ENGINE_POSTGRES, ENGINE_REDIS, ENGINES };

struct database {
    enum engine engine;
    const struct source *source;
    const char *address; /* [USER@]HOST[:PORT]/DATABASE, without a password */
    const char *table;   /* or sequence; NULL: all of the database */
    const char *pattern; /* of Redis's keys */
    const char *query;   /* that returns the rows; NULL: leafctl's own */
    bool has_marks;      /* the table of marks exists: set by database_read() */
    bool has_trigger[2]; /* of UPDATE and INSERT, as far as this user can see: likewise */
};

/* Read the rows of a table, sequences, keys, or a query. Rows of one SELECT are of one moment.
 * Writes nothing to the database. */
int database_read(struct database *database, struct rows *rows, struct buf *why) MUST_CHECK;

/* A guard keeps the old system from handing out leafd's ids: it refuses each change that would
 * raise a counter above its tag's mark, which is below the tag's first id in leafd.
 *
 * For a table of MySQL the guard is a second table, TABLE_guard, with the marks, and two triggers;
 * for a sequence, its MAXVALUE. Other sources have none. */
bool database_can_guard(const struct database *database);

struct import_tags;

/* Append the missing statements: marks below tag->max_id for tags without one, and triggers. An
 * existing mark stays. remove: the statements that remove the guard. Nothing if it has none. */
void database_put_guard(const struct database *database, const struct import_tags *tags,
                        bool remove, struct buf *out);

/* Run statements; *out: the tool's output is appended. */
int database_do(const struct database *database, const struct buf *text, struct buf *out,
                struct buf *why) MUST_CHECK;

/* --- tags --- */

#define TAG_MAX_ID INT64_MAX

/* Compared with the tag of this name in the cluster. */
enum import_state {
    IMPORT_NEW,    /* to be made */
    IMPORT_CHANGE, /* to be changed */
    IMPORT_THERE,  /* it is as it should be */
    IMPORT_AHEAD,  /* further in the cluster than in the file: not changed */
    IMPORT_STATES
};

struct import_tag {
    const char *name;    /* borrowed from the rows */
    json_t *description; /* a text of at most LIMIT_TAG_DESCRIPTION_BYTES; NULL: none is said */
    const char *object;  /* COLUMN_OBJECT */
    uint64_t at;         /* the next id of the old system */
    uint64_t max_id;     /* the first id of leafd: `at`, or ahead of it */
    uint64_t mark;       /* of the guard: below max_id; 0: there is none */
    int64_t age_s;       /* since the row's last change; -1: unknown */
    uint64_t step;       /* 0: none is said */
    uint64_t increment;  /* of its ids; 0: every number */
    uint64_t offset;     /* below it: the ids' remainder when divided by it */
    const struct row *row;
    enum import_state state;
    bool is_there;   /* in the cluster, when it was read last */
    bool is_same;    /* step, increment and description there are as here */
    bool is_dated;   /* so is the shape there */
    uint64_t before; /* max_id there */
    uint64_t most;   /* its max there */
};

struct import_tags {
    struct import_tag *list; /* by name, in the order of bytes */
    size_t count;
    struct messages errors;
    struct messages warnings;
};

struct import_rules {
    bool every_number;
    bool increment;     /* a tag hands out only the numbers of its delta, from level 3 on */
    bool is_ahead;      /* leafd begins above ids that the old system hands out meanwhile */
    uint64_t ahead_ids; /* the distance; 0: a hundred steps, at least ten million */
};

/* Check rows by the rules of leafd's tags. A row that breaks a rule becomes no tag, but an error
 * that names the row and the rule.
 *
 * Leaf: max_id is the next id, not yet handed out. TinyID: max_id was or may have been handed out,
 * so the next id is max_id + 1. With a delta other than 1 TinyID hands out only the numbers that
 * leave `remainder` when divided by it, mostly because another database hands out the others; leafd
 * hands out every number. Such a row is an error, with two exceptions: `increment` gives the tag
 * the same numbers; every_number means that all databases are in the file, and the largest max_id
 * of a name counts.
 *
 * With is_ahead a tag that has a mark begins right above it, as in the run that made the mark. */
void tags_check(const struct source *source, const struct rows *rows,
                const struct import_rules *rules, struct import_tags *ret_tags);
void tags_free(struct import_tags *tags);

/* The tag of this name; NULL: there is none. */
struct import_tag *tags_find(const struct import_tags *tags, const char *name);

#endif
