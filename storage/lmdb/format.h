/*
 * format.h - what leafd keeps in an LMDB environment.
 *
 * Tables (named databases):
 *   log    8-byte big-endian index -> {crc32c u32, term u64, type u8, data}
 *   meta   name -> {crc32c u32, fields}:
 *            identity   format u32, a magic text (the "not empty" sentinel), cluster id, node id,
 *                       store id
 *            now        number of LMDB's transaction; term, vote; first and last entry of the log;
 *                       position; number and checksum of each local record
 *            local.NN   a local record
 *            owed       while rows are owed: digest of the rows in state; first slice, and the one
 *                       after the last
 *            owed.NNNNNNNN  a slice: rows that are applied, and to be put into state
 *   state  row key -> {crc32c u32, row value}
 * Integers are little-endian except the keys of log. A checksum covers the table's letter, the key
 * and the payload, so a record cannot stand in for another.
 *
 * The format is a number for all that leafd keeps in the store: these records, the rows of the
 * state and the commands of the log. A store of another format than this build's is refused. While
 * rows are owed it has the number after it, so that a leafd which knows nothing of them says so.
 *
 * Thread: constants.
 */
#ifndef LEAFD_STORAGE_LMDB_FORMAT_H
#define LEAFD_STORAGE_LMDB_FORMAT_H

#define LMDB_FORMAT_VERSION 6
#define LMDB_FORMAT_OWED 7 /* the same, and rows are owed */
#define LMDB_FORMAT_MAGIC "leafd store"
#define LMDB_LOG_KEY_BYTES 8
#define LMDB_CRC_BYTES 4

enum lmdb_table { LMDB_META, LMDB_LOG, LMDB_STATE, LMDB_TABLES };

#define LMDB_TABLE_NAMES "meta", "log", "state" /* in that order */

/* Records of meta. */
#define LMDB_IDENTITY "identity"
#define LMDB_NOW "now" /* the transaction's number is its first field, a u64 */
#define LMDB_OWED "owed"

#endif
