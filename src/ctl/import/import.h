/*
 * import.h - counters of other systems: rows of a file or a database, and the tags that they
 * become.
 *
 * The tables of Leaf, TinyID and CosId are known; others give names and next ids. The happy path:
 * file_read() or database_read() gives rows, with what was wrong with others; tags_check() makes
 * tags of them. Nothing is guessed that would change a name or a number.
 *
 * Failure modes: lack of memory ends the process. A row that cannot be understood is an error of
 * its own, and the others are read on; ERR_INVALID with *why where a file, or a database, as a
 * whole makes no sense. Ownership: rows own their texts; everything else is borrowed. Thread: one.
 */
#ifndef LEAFD_CTL_IMPORT_IMPORT_H
#define LEAFD_CTL_IMPORT_IMPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "src/base/buf.h"
#include "src/base/err.h"

/* --- tables and their columns --- */

/* The columns that mean something here. */
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
    COLUMN_OBJECT, /* what the guard's statement names */
    COLUMNS
};
#define AGE_NAME "leafctl_age"
#define MARK_NAME "leafctl_mark"
#define OBJECT_NAME "leafctl_object"

#define NO_COLUMN (-1)
#define TABLE_COLUMNS_MAX 64 /* of a table in a file; more: an error */

struct source {
    const char *what;             /* "Leaf" */
    const char *table;            /* its name, unless another one is given; "": any */
    const char *columns[COLUMNS]; /* what each is called there; NULL: there is none */
    bool needed[COLUMNS];
    bool is_handed_out;    /* max_id itself, or may have been: the next id is one above */
    const char *age;       /* of a row `t`, in MySQL's words; NULL: no table of counters */
    const char *order[12]; /* all columns of the table, in their order; ends with NULL */
    bool has_order;        /* --columns gave it; else it is how the table is commonly made */
};

extern const struct source SOURCE_LEAF;
extern const struct source SOURCE_TINYID;
extern const struct source SOURCE_COSID;
extern const struct source SOURCE_TAGS;  /* names and next ids, of a file or a query */
extern const struct source SOURCE_REDIS; /* keys and their values */

/* Which column has this name, in any case; NO_COLUMN: none that means something. */
int source_column(const struct source *source, const char *name, size_t len);

/* Where each value of a row belongs. */
struct columns {
    int meaning[TABLE_COLUMNS_MAX];
    size_t count;
    bool too_many;
};

void columns_add(struct columns *columns, int meaning);
bool columns_have(const struct columns *columns, int meaning);

/* Those of the table, in its order. */
void columns_in_order(struct columns *columns, const struct source *source);

/* The name of a column that is needed and is not there; NULL: all are. */
const char *columns_lack(const struct source *source, const struct columns *columns);

/* --- rows --- */

/* Texts of which only the first are kept, but all counted. */
#define MESSAGES_KEPT 20
struct messages {
    struct buf texts; /* each ends with a NUL */
    size_t kept;
    size_t count;
};

void messages_add(struct messages *messages, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

struct row_value {
    size_t at; /* in rows.text */
    size_t len;
    bool is_there; /* else it is NULL, or there is no such column */
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
    bool guessed; /* nothing in the file names the columns of these rows */
    bool is_live; /* of a database: rows have numbers, not lines */
};

void rows_free(struct rows *rows);

/* Append a row. */
void rows_keep(struct rows *rows, const struct row *row);

/* "line 7, row 2" */
#define ROW_PLACE_BYTES 48
const char *row_place(const struct row *row, char out[ROW_PLACE_BYTES]);

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

/* The rows of a file's bytes; a NUL stands after them. *form: FORM_UNKNOWN becomes what it is. */
int file_read(const struct source *source, const char *table, const char *data, size_t len,
              enum form *form, struct rows *rows, struct buf *why) MUST_CHECK;

/* For how long nothing had changed when the file was made, in seconds: at the time of mysqldump's
 * last line, otherwise at made_s (Unix time). Its zone may be another one than that of the rows, so
 * whole quarters of hours do not count. -1: the file does not show it. */
int64_t file_quiet_s(const struct rows *rows, const char *data, size_t len, int64_t made_s);

/* A dump that ends without mysqldump's last line may lack rows. */
bool file_may_be_cut_off(const char *data, size_t len);

/* What a file's readers share. */
struct file_reading {
    const struct source *source;
    const char *table; /* not empty */
    const char *data;
    size_t len;
    size_t at;
    uint32_t line; /* of the byte at `at` */
    struct rows *rows;
    struct buf *why; /* not empty: the file makes no sense */
    unsigned tables; /* of this name, in phpMyAdmin's JSON */
};

/* The file makes no sense, because of this line. Only the first reason is kept. ERR_INVALID. */
int reading_fail(struct file_reading *reading, uint32_t line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Up to this byte; lines are counted. */
void reading_advance(struct file_reading *reading, size_t to);

/* Of a dump of MySQL or MariaDB, the rows of one table. Other tables, and the bodies of triggers
 * and procedures, are passed over. */
int sql_read(struct file_reading *reading) MUST_CHECK;

/* The byte after the quote that closes the one at `at`; 0: there is none. A doubled quote is one
 * quote; with escapes a backslash takes away the meaning of what follows. */
size_t sql_quoted_end(const char *data, size_t len, size_t at, char quote, bool escapes);

/* What the letter after a backslash means; false: itself. */
bool sql_escape(char letter, char *ret_meaning);

/* --- databases --- */

enum engine { ENGINE_MYSQL, ENGINE_POSTGRES, ENGINE_REDIS, ENGINES };

struct database {
    enum engine engine;
    const char *address; /* [USER@]HOST[:PORT]/DATABASE, without a password */
    const char *table;   /* or sequence; NULL: all of the database */
    const char *pattern; /* of Redis's keys */
    const char *query;   /* that gives the rows; NULL: leafctl's own */
    bool has_marks;      /* the table of marks is there: set by database_read() */
    bool has_trigger[2]; /* of UPDATE and INSERT, as far as this user can see: likewise */
};

/* The rows of a table, sequences, keys, or a query: by one SELECT they are of one moment. Nothing
 * is written there. */
int database_read(struct database *database, const struct source *source, struct rows *rows,
                  struct buf *why) MUST_CHECK;

/* A guard keeps the old system from handing out leafd's ids: it refuses each change that would take
 * a counter above the mark of its tag, which is below the tag's first id in leafd.
 *
 * Of a table of MySQL it is a second table, TABLE_guard, with the marks, and two triggers; of a
 * sequence its MAXVALUE. Others have none. */
bool database_can_guard(const struct database *database, const struct source *source);

struct import_tags;

/* The statements that are still missing: marks for tags without, below tag->max_id, and triggers. A
 * mark that is there stays. remove: those that take the guard away. */
void database_put_guard(const struct database *database, const struct source *source,
                        const struct import_tags *tags, bool remove, struct buf *out);

/* Run statements. */
int database_do(const struct database *database, const char *text, size_t len,
                struct buf *why) MUST_CHECK;

/* --- tags --- */

#define TAG_MAX_ID INT64_MAX

/* Beside the tag of this name in the cluster. */
enum import_state {
    IMPORT_NEW,    /* to be made */
    IMPORT_CHANGE, /* to be changed */
    IMPORT_THERE,  /* it is as it should be */
    IMPORT_AHEAD,  /* further in the cluster than in the file: left alone */
    IMPORT_STATES
};

struct import_tag {
    const char *name; /* not ended by a NUL; lies in the rows, as the description does */
    size_t name_len;
    const char *description; /* UTF-8 without NUL */
    size_t description_len;
    bool has_description; /* else a tag keeps what it has */
    char *cut;            /* the description where it had to be changed; NULL: it had not */
    const char *object;   /* COLUMN_OBJECT */
    size_t object_len;
    uint64_t at;        /* the next id of the old system */
    uint64_t max_id;    /* the first id of leafd: that one, or so many ahead */
    uint64_t mark;      /* of the guard: below max_id; 0: there is none */
    int64_t age_s;      /* since the row's last change; -1: nobody knows */
    uint64_t step;      /* 0: none is said */
    uint64_t increment; /* of its ids; 0: every number */
    uint64_t offset;    /* below it: what they leave when divided by it */
    const struct row *row;
    enum import_state state;
    uint64_t before; /* max_id in the cluster; 0: not there */
    uint64_t after;  /* 1 + the same, when it was read back; 0: not there */
};

struct import_tags {
    struct import_tag *list; /* by name, in the order of bytes */
    size_t count;
    struct messages errors;
    struct messages warnings;
};

struct import_rules {
    bool every_number;
    bool increment;     /* a tag hands out the numbers of its delta alone, from level 3 on */
    bool is_ahead;      /* leafd begins above what the old system hands out meanwhile */
    uint64_t ahead_ids; /* so many; 0: a hundred steps, at least ten million */
};

/* Rows held against the rules of leafd's tags. A row that breaks a rule is an error that names it
 * and the rule, and no tag.
 *
 * Leaf: max_id is the next id that nobody was given. TinyID: max_id was handed out, or may have
 * been, so the next one is max_id + 1. With a delta other than 1 TinyID hands out only the numbers
 * that leave `remainder` when they are divided by it, mostly because another database hands out the
 * others; leafd hands out every number. Such a row is an error, unless `increment`
 * lets the tag have the same numbers, or every_number says that all databases are in the file: then
 * the largest max_id of a name counts.
 *
 * With is_ahead a tag that has a mark begins right above it: the same as in the run that made the
 * mark. */
void tags_check(const struct source *source, const struct rows *rows,
                const struct import_rules *rules, struct import_tags *ret_tags);
void tags_free(struct import_tags *tags);

/* The tag of this name; NULL: there is none. */
struct import_tag *tags_find(const struct import_tags *tags, const char *name, size_t len);

#endif
