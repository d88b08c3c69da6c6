/*
 * command_bytes.h - the constants that the writing and the reading side of commands share.
 *
 * Every message begins with COMMAND_VERSION and a byte of type; queries and results have ranges of
 * their own, so that one can never be taken for another. A list of items is each item behind
 * COMMAND_ITEM, and COMMAND_END after the last. Thread: none, constants only.
 */
#ifndef LEAFD_ID_COMMAND_BYTES_H
#define LEAFD_ID_COMMAND_BYTES_H

#define COMMAND_ITEM 1
#define COMMAND_END 0

#define COMMAND_PUT_FORCE 0x01  /* bit of the flags byte of a put */
#define COMMAND_TAG_FIELDS 0x1f /* all bits of enum tag_field */

#define QUERY_BASE 0x40 /* added to enum query_type */

enum result_type {
    RESULT_GRANTS = 0x81,
    RESULT_PUT = 0x82,
    RESULT_STATUS = 0x83,
    RESULT_ROWS = 0x84,
    RESULT_WORKER = 0x85,
    RESULT_WORKERS = 0x86
};

#endif
