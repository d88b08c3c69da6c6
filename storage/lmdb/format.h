/*
 * format.h - what leafd keeps in an LMDB environment.
 *
 * Tables (named databases):
 *   log    8-byte big-endian index -> {crc32c u32, term u64, type u8, data}
 *   meta   name -> {crc32c u32, fields}: format (with a magic text, the "not empty" sentinel),
 *          identity, hard, log (first, last, last term), position, local.NN (a local record),
 *          locals (which of them there are), commit (the number of LMDB's transaction)
 *   state  row key -> {crc32c u32, row value}
 * Integers are little-endian except the keys of log. A checksum covers the table's letter, the key
 * and the payload, so a record cannot stand in for another.
 *
 * The format is a number for all that leafd keeps in the store: these records, the rows of the
 * state and the commands of the log. A store of another format than this build's is refused.
 *
 * meta's `log` names the last entry, so a log that lost its tail is seen; `commit` is written by
 * every transaction, so a tree that is older than its meta page says is seen (file.h).
 *
 * Thread: constants.
 */
#ifndef LEAFD_STORAGE_LMDB_FORMAT_H
#define LEAFD_STORAGE_LMDB_FORMAT_H

#define LMDB_FORMAT_VERSION 3
#define LMDB_FORMAT_MAGIC "leafd store"
#define LMDB_LOG_KEY_BYTES 8
#define LMDB_CRC_BYTES 4

enum lmdb_table { LMDB_META, LMDB_LOG, LMDB_STATE, LMDB_TABLES };

#define LMDB_TABLE_NAMES "meta", "log", "state" /* in that order */

#endif
