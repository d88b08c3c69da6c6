/*
 * id_text.h - ids as text, and the answer to a claim of several, or of one that is no number.
 *
 * The happy path: id_text_answer() writes lines, ranges or JSON. Many lines are made
 * part by part, when it is their connection's turn. Ids of a tag with a shape, UUIDs, ULIDs, and
 * those of a layout whose worker id is last come one a line.
 *
 * Failure modes: none. Thread: the loop's.
 */
#ifndef LEAFD_HTTP_API_ID_TEXT_H
#define LEAFD_HTTP_API_ID_TEXT_H

#include "http/api/context.h"
#include "src/base/buf.h"


/* The text of one id; its bytes, at most ID_TEXT_BYTES_MAX. */
size_t id_text_put(struct api_loop *loop, const struct id_text *text, uint64_t id, char *at);

/* So many lines are made at once. */
uint32_t id_text_lines(const struct id_text *text);

/* Append the body of the answer to a claim of several ids, or in another format than text. */
void id_claim_put(const struct id_claim *claim, struct buf *buf);

/* Append the ids of a range. Returns how much that is of the whole answer: bytes over HTTP,
 * elements over RESP. */
typedef uint64_t id_parts_put(struct conn *conn, const struct id_text *text,
                              const struct segment_range *range, struct buf *out);

/* Answer with the ids of a claim, so many at a time. type, extra, len: of conn_answer_parts(); len
 * is what `put` returns of all. Returns ANSWERED. */
int id_text_answer_parts(struct conn *conn, const struct id_claim *claim, const char *type,
                         const char *extra, uint64_t len, uint32_t per_part, id_parts_put *put);

/* As ids_answer(), which answers with a bare number itself. */
int id_text_answer(struct conn *conn, const struct id_claim *claim, const char *extra);

#endif
