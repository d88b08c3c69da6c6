/*
 * reference_parser.h - what parser_head() has to agree with: the same grammar, one byte at a time,
 * and http-parser asked about every head.
 *
 * Slow, and simple enough to be seen to be right. Both must be changed together.
 *
 * Failure modes: as parser_head(). Thread: one owner each.
 */
#ifndef LEAFD_HTTP_PROTO_TESTS_REFERENCE_PARSER_H
#define LEAFD_HTTP_PROTO_TESTS_REFERENCE_PARSER_H

#include "http/proto/parser.h"

/* As parser_head(), on a parser of its own. */
enum parser_event reference_head(struct parser *parser, const char *data, size_t len);

#endif
