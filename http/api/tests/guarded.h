/*
 * guarded.h - a server that asks who it is: real sockets, tokens, a cluster of the newest level;
 * for tests of who may ask what.
 *
 * Thread: the test's.
 */
#ifndef LEAFD_HTTP_API_TESTS_GUARDED_H
#define LEAFD_HTTP_API_TESTS_GUARDED_H

#include "http/tests/fixture.h"

/* The token of the line of that name is its name, and "-token". */
#define GUARDED_TOKEN(name) "Authorization: Bearer " name "-token\r\n"

struct guarded_line {
    const char *name; /* or "name:other", with the token of that other one */
    const char *rest; /* "roles=..." */
};

struct guarded_settings {
    const struct guarded_line *lines; /* of the tokens file; up to one without a name */
    unsigned anonymous_roles;
    bool two_doors;
    bool resp; /* there is a RESP listener, too; not with two_doors */
};

/* Serve with these; all of the fixture is made. Strict tag "s", tags "a/1", "b/1", "c", 64 worker
 * ids. */
void guarded_start(struct fixture *f, const struct guarded_settings *settings);

/* The file is another from now on. */
void guarded_reload(struct fixture *f, const struct guarded_line *lines);

/* One request on the fixture's connection, with these header lines (each with its CRLF). */
void guarded_call(struct fixture *f, const char *head, const char *headers, const char *body,
                  struct reply *reply);

/* The same, and want the status and the texts (NULL: none) in head or body. */
void guarded_expect(struct fixture *f, const char *head, const char *headers, const char *body,
                    int status, const char *text);

/* The newest entry of the audit, as JSON; owned by the caller. NULL: there is none. */
char *guarded_audit(struct fixture *f);

/* It has this text; or the audit has so many entries. */
void guarded_audit_has(struct fixture *f, const char *text);
unsigned guarded_audit_count(struct fixture *f);

#endif
