/*
 * backup_file.h - the bytes of a backup: all rows of the state at one index, and each tag's growth
 * in the hour before.
 *
 * A backup is a magic text, then blocks {kind u32, length u32, number u64, payload, CRC32C u32 of
 * all that}: one HEAD, then GROWTH and ROWS in turn (a GROWTH is of the tags in the ROWS after
 * it), one END, and nothing after that. The payload of ROWS is records {key str16, value str32} in
 * the order of their keys, over all blocks, as a snapshot has them. END has the counts and the
 * length of everything before it, and the digest in HEAD is that of the rows. So a file that is
 * cut, has flipped bits, or is assembled from two files is detected.
 *
 * The happy path: the writer's functions append block after block to a buffer that its owner sends;
 * backup_verify() checks a whole file, and backup_next() walks through a verified one.
 *
 * Failure modes of reading: ERR_TRUNCATED, ERR_CORRUPT, ERR_BAD_VERSION (of a later format or
 * level), each with a text that names the error and its byte. No partial result may be used.
 *
 * Thread: pure functions, one owner each.
 */
#ifndef LEAFD_ID_CODEC_BACKUP_FILE_H
#define LEAFD_ID_CODEC_BACKUP_FILE_H

#include "src/base/buf.h"
#include "src/base/err.h"
#include "src/base/limits.h"

#define BACKUP_FORMAT 2 /* of the blocks, their fields, and the levels */
/* The format of leafd 0.2.0-dev, whose levels were different: the same bytes, but the row of its
 * level is ignored here. So an earlier state can be carried over. */
#define BACKUP_FORMAT_DEV 1

enum backup_block_kind { BACKUP_HEAD = 1, BACKUP_GROWTH = 2, BACKUP_ROWS = 3, BACKUP_END = 4 };

struct backup_head {
    uint16_t format; /* BACKUP_FORMAT, or BACKUP_FORMAT_DEV */
    uint16_t level;  /* in force then; in BACKUP_FORMAT_DEV a level of that version */
    uint64_t uid[2]; /* of the cluster; zeros: it has none */
    uint64_t node_id;
    uint64_t index; /* of the state, and the term of that entry */
    uint64_t term;
    uint64_t digest;  /* of all rows */
    uint64_t wall_ms; /* the node's clock when it was taken */
    uint64_t log_ms;  /* the log's time then; 0: there is none */
    bool local; /* of one node alone, which asked no other: it may lack acknowledged changes */
    char cluster_id[LIMIT_CLUSTER_ID_BYTES + 1];
    char version[32]; /* of leafd */
};

/* The growth of the tags of the following rows. */
struct backup_growth {
    uint64_t since_ms; /* start of the time watched, by the log's time, */
    uint64_t until_ms; /* and its end */
    bool whole;        /* an unlisted tag did not grow; false: it may have */
    uint32_t count;
};

/* max_id of a tag at the beginning of that time. */
struct backup_tag_growth {
    const char *name; /* borrowed */
    uint16_t name_len;
    uint64_t max_id;
};

struct backup_totals {
    uint64_t rows;
    uint64_t blocks; /* before END */
    uint64_t bytes;  /* before END */
};

/* --- writing --- */

struct backup_writer {
    struct backup_totals totals;
    uint32_t growth_at;    /* where the open GROWTH block begins in the buffer, */
    uint32_t growth_count; /* and its tags so far */
};

/* head->format is filled in. */
void backup_put_head(struct backup_writer *writer, const struct backup_head *head, struct buf *out);

/* A GROWTH block: its beginning (count is filled in by the end), its tags in the order of their
 * names, its end. */
void backup_growth_begin(struct backup_writer *writer, const struct backup_growth *growth,
                         struct buf *out);
void backup_growth_put(struct backup_writer *writer, const struct backup_tag_growth *tag,
                       struct buf *out);
void backup_growth_end(struct backup_writer *writer, struct buf *out);

/* Records of `count` rows. */
void backup_put_rows(struct backup_writer *writer, const void *records, size_t len, uint64_t count,
                     struct buf *out);
void backup_put_end(struct backup_writer *writer, struct buf *out);

/* --- rows --- */

struct backup_row {
    const uint8_t *key; /* borrowed */
    size_t key_len;
    const uint8_t *value;
    size_t value_len;
};

/* The next record. False: there is none, or (reader_done() is false) the bytes are no record. */
bool backup_row_next(struct reader *records, struct backup_row *ret_row);

/* --- reading --- */

struct backup_error {
    char text[256];
};

struct backup_block {
    enum backup_block_kind kind;
    size_t at;                   /* in the file */
    struct reader payload;       /* of ROWS: its records */
    struct backup_growth growth; /* of GROWTH; its tags are in the payload */
};

struct backup_reader {
    const uint8_t *data; /* borrowed */
    size_t len;
    size_t at;
    uint64_t blocks;
};

/* Can a backup have these bytes at `at`? Only its magic text is checked. */
bool backup_begins(const void *bytes, size_t len, uint64_t at);

/* 0, and the file may be used. head and totals are filled in. */
int backup_verify(const void *data, size_t len, struct backup_head *ret_head,
                  struct backup_totals *ret_totals, struct backup_error *ret_error) MUST_CHECK;

/* Walk through a file that backup_verify() passed. False after the last block before END. */
void backup_reader_init(struct backup_reader *reader, const void *data, size_t len);
bool backup_next(struct backup_reader *reader, struct backup_block *ret_block);
bool backup_growth_next(struct backup_block *block, struct backup_tag_growth *ret_tag);

#endif
