/*
 * version.h - which HTTP parser is loaded, for GET /version. Thread: any.
 */
#ifndef LEAFD_HTTP_PROTO_VERSION_H
#define LEAFD_HTTP_PROTO_VERSION_H

/* "2.9.4". Valid until the thread's next call. */
const char *http_parser_library_version(void);

#endif
