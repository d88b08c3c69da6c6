/*
 * web.h - what keeps web pages out: a page that somebody's browser shows can make the browser send
 * requests to any address that this machine reaches, a node on loopback too.
 *
 * Four rules, of which each stops one thing that a page can do:
 *   Host          names one of our own hosts, or the page's own name was made to mean our address
 *                 (DNS rebinding), and the page could read the answers, too;
 *   Origin        if there is one, is ours or a listed one: browsers say which page asks;
 *   Sec-Fetch-Site  of what takes or changes something, without an Origin, is not another page's:
 *                 an image may be any GET, and only browsers send this header;
 *   Content-Type  of a body that changes something is application/json, which a page cannot send
 *                 elsewhere without asking first (OPTIONS, to which nothing here says yes).
 *
 * Failure modes: a verdict that is not WEB_FINE. Nothing allocates.
 *
 * Thread: pure functions, any.
 */
#ifndef LEAFD_HTTP_AUTH_WEB_H
#define LEAFD_HTTP_AUTH_WEB_H

#include "http/proto/parser.h"

#define WEB_OWN_ADDRESSES 4

struct web_rules {
    const char *hosts;                  /* further ones, separated by commas; "*": any; "": none */
    const char *origins;                /* likewise, as in "https://a.example:8443" */
    const char *own[WEB_OWN_ADDRESSES]; /* "host:port": their hosts are ours; NULL: no more */
};

enum web_verdict {
    WEB_FINE,
    WEB_MISDIRECTED, /* Host is none of ours */
    WEB_FOREIGN,     /* Origin, or Sec-Fetch-Site */
    WEB_TYPE         /* Content-Type */
};

/* What a request is, as far as it matters here. */
struct web_request {
    const struct parser_head *head;
    const char *bytes; /* of the head */
    bool guarded;      /* Host matters: it changes something, or shows what is not for everybody */
    bool changes;      /* it changes something: a body has a type */
    bool acts;         /* it takes or changes something */
};

enum web_verdict web_check(const struct web_rules *rules, const struct web_request *request);

/* Whom the request is for: the Host, or what is in its place in an absolute target. */
const char *web_authority(const struct web_request *request, size_t *ret_len);

/* Is the text a list of hosts ("a.example, 10.0.0.1, [::1]", without ports), or of origins? If not,
 * *ret_item is what is wrong, to the comma. */
bool web_is_hosts(const char *list, const char **ret_item);
bool web_is_origins(const char *list, const char **ret_item);

#endif
