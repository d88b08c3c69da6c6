/*
 * web.h - what keeps web pages out: a page in a browser can make the browser send requests to any
 * address that this machine reaches, also to a node on loopback.
 *
 * Four rules; each stops one thing that a page can do:
 *   Host          names one of our own hosts; else the page's own name was made to mean our address
 *                 (DNS rebinding), and the page could read the answers, too;
 *   Origin        if present, is ours or a listed one: browsers name the page that asks;
 *   Sec-Fetch-Site  is not another page's, if the request takes ids or changes state and has no
 *                 Origin: an image may be any GET, and only browsers send this header;
 *   Content-Type  of a body that changes state is application/json, which a page cannot send to
 *                 another host without asking first (OPTIONS, which this node never allows).
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
    const char *hosts;                  /* more hosts, separated by commas; "*": any; "": none */
    const char *origins;                /* likewise, as in "https://a.example:8443" */
    const char *own[WEB_OWN_ADDRESSES]; /* "host:port": their hosts are ours; NULL: no more */
};

enum web_verdict {
    WEB_FINE,
    WEB_MISDIRECTED, /* Host is none of ours */
    WEB_FOREIGN,     /* Origin, or Sec-Fetch-Site */
    WEB_TYPE         /* Content-Type */
};

/* The properties of a request that matter here. */
struct web_request {
    const struct parser_head *head;
    const char *bytes; /* of the head */
    bool guarded;      /* Host matters: it changes state, or shows what is not public */
    bool changes;      /* it changes state: a body has a type */
    bool acts;         /* it takes ids or changes state */
};

enum web_verdict web_check(const struct web_rules *rules, const struct web_request *request);

/* The host that the request names: in Host, or in an absolute target. */
const char *web_authority(const struct web_request *request, size_t *ret_len);

/* Is the text a list of hosts ("a.example, 10.0.0.1, [::1]", without ports), or of origins? If not,
 * *ret_item is the wrong item, up to its comma. */
bool web_is_hosts(const char *list, const char **ret_item);
bool web_is_origins(const char *list, const char **ret_item);

#endif
