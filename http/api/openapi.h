/*
 * openapi.h - the description of all routes for machines: an OpenAPI 3.1 document.
 *
 * It is openapi.json beside this file, which is put into the binary as it is. tests/test_openapi.c
 * holds it against the table of routes, cluster-tests/test_openapi.py its options, bounds and
 * schemas against what a node answers.
 *
 * Failure modes: none. Thread: constant; any.
 */
#ifndef LEAFD_HTTP_API_OPENAPI_H
#define LEAFD_HTTP_API_OPENAPI_H

#include <stddef.h>

/* The document, without a NUL at its end. */
const char *openapi_text(size_t *ret_len);

#endif
