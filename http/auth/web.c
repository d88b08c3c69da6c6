/*
 * web.c - see web.h. Thread: pure functions, any.
 */
#include "http/auth/web.h"

#include <string.h>
#include <strings.h>

#include "http/proto/text.h"

struct text {
    const char *at;
    size_t len;
};

static bool text_equals(struct text a, struct text b)
{
    return a.len == b.len && strncasecmp(a.at, b.at, a.len) == 0;
}

static struct text text_of(const char *word)
{
    return (struct text){word, strlen(word)};
}

/* The next item of a list separated by commas, without blanks around it. False at the end. */
static bool next_item(const char **list, struct text *ret_item)
{
    const char *at = *list;
    size_t len;

    if (at == NULL || at[0] == '\0') {
        return false;
    }
    len = strcspn(at, ",");
    *list = at[len] == ',' ? at + len + 1 : at + len;
    ret_item->at = text_trim(at, &len);
    ret_item->len = len;
    return true;
}

static bool list_has(const char *list, struct text wanted)
{
    struct text item;

    while (next_item(&list, &item)) {
        if (text_equals(item, wanted) || text_equals(item, text_of("*"))) {
            return true;
        }
    }
    return false;
}

/* "host:port" without the port. */
static struct text host_of(struct text authority)
{
    size_t len = authority.len;

    while (len > 0 && authority.at[len - 1] >= '0' && authority.at[len - 1] <= '9') {
        len--;
    }
    if (len > 0 && authority.at[len - 1] == ':') {
        authority.len = len - 1;
    }
    return authority;
}

/* 127.x.x.x: four groups of digits. "127.evil.example" is a name. */
static bool is_loopback_number(struct text host)
{
    unsigned dots = 0;

    if (host.len < 9 || host.len > 15 || memcmp(host.at, "127.", 4) != 0) {
        return false;
    }
    for (size_t i = 0; i < host.len; i++) {
        if (host.at[i] == '.') {
            dots++;
        } else if (host.at[i] < '0' || host.at[i] > '9') {
            return false;
        }
    }
    return dots == 3;
}

static bool is_own(const struct web_rules *rules, struct text host)
{
    if (host.len == 0) {
        return false;
    }
    if (is_loopback_number(host) || text_equals(host, text_of("localhost")) ||
        text_equals(host, text_of("[::1]"))) {
        return true;
    }
    for (size_t i = 0; i < WEB_OWN_ADDRESSES && rules->own[i] != NULL; i++) {
        if (text_equals(host_of(text_of(rules->own[i])), host)) {
            return true;
        }
    }
    return list_has(rules->hosts, host);
}

static struct text authority_of(const struct web_request *request)
{
    const struct parser_head *head = request->head;
    const char *target = request->bytes + head->target_at;
    const char *slashes =
        target[0] == '/' ? NULL : memmem(target, head->target_len, "://", strlen("://"));
    struct text found = {request->bytes + head->host.at, head->host.len};

    if (slashes != NULL) {
        found.at = slashes + strlen("://");
        found.len = 0;
        while (found.at + found.len < target + head->target_len && found.at[found.len] != '/' &&
               found.at[found.len] != '?') {
            found.len++;
        }
    }
    return found;
}

const char *web_authority(const struct web_request *request, size_t *ret_len)
{
    struct text found = authority_of(request);

    *ret_len = found.len;
    return found.at;
}

/* Is the page our own: is its origin the host that it requests from? */
static bool is_same_origin(const struct web_rules *rules, struct text origin, struct text authority)
{
    const char *const schemes[] = {"http://", "https://"};

    if (!is_own(rules, host_of(authority))) {
        return false;
    }
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++) {
        struct text scheme = text_of(schemes[i]);

        if (origin.len == scheme.len + authority.len &&
            memcmp(origin.at, scheme.at, scheme.len) == 0 &&
            text_equals((struct text){origin.at + scheme.len, authority.len}, authority)) {
            return true;
        }
    }
    return false;
}

/* JSON, or JSON lines, with or without parameters. A page can send neither by itself. */
static bool is_json(struct text type)
{
    size_t len = 0;

    while (len < type.len && strchr("; \t", type.at[len]) == NULL) {
        len++;
    }
    type.len = len;
    return text_equals(type, text_of("application/json")) ||
           text_equals(type, text_of("application/x-ndjson"));
}

enum web_verdict web_check(const struct web_rules *rules, const struct web_request *request)
{
    const struct parser_head *head = request->head;
    struct text origin = {request->bytes + head->origin.at, head->origin.len};
    struct text type = {request->bytes + head->content_type.at, head->content_type.len};
    struct text site = {request->bytes + head->fetch_site.at, head->fetch_site.len};
    struct text authority = authority_of(request);
    /* By Sec-Fetch-Site. An address that a person typed is "none". */
    bool is_another_page =
        text_equals(site, text_of("cross-site")) || text_equals(site, text_of("same-site"));

    if (request->guarded && !is_own(rules, host_of(authority))) {
        return WEB_MISDIRECTED;
    }
    if (head->origin.count > 1 ||
        (head->origin.count == 1 && !is_same_origin(rules, origin, authority) &&
         !list_has(rules->origins, origin))) {
        return WEB_FOREIGN;
    }
    if (request->acts && head->origin.count == 0 && is_another_page &&
        !list_has(rules->origins, text_of("*"))) {
        return WEB_FOREIGN;
    }
    if (request->changes && head->has_body && (head->content_type.count != 1 || !is_json(type))) {
        return WEB_TYPE;
    }
    return WEB_FINE;
}

/* --- settings --- */

/* Only letters, digits and the others. */
static bool is_host_text(struct text text, const char *others)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.at[i];

        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              (c != '\0' && strchr(others, c) != NULL))) {
            return false;
        }
    }
    return text.len > 0;
}

static bool is_host_item(struct text item)
{
    if (item.len > 2 && item.at[0] == '[' && item.at[item.len - 1] == ']') {
        return is_host_text((struct text){item.at + 1, item.len - 2}, ":.");
    }
    return text_equals(item, text_of("*")) || is_host_text(item, ".-_");
}

/* "scheme://host" or "scheme://host:port". */
static bool is_origin_item(struct text item)
{
    const char *slashes = memmem(item.at, item.len, "://", strlen("://"));
    struct text rest;

    if (slashes == NULL) {
        return text_equals(item, text_of("*")) || text_equals(item, text_of("null"));
    }
    rest.at = slashes + strlen("://");
    rest.len = item.len - (size_t)(rest.at - item.at);
    return is_host_text((struct text){item.at, (size_t)(slashes - item.at)}, "+-.") &&
           is_host_item(host_of(rest));
}

static bool is_list_of(const char *list, bool (*is_item)(struct text item), const char **ret_item)
{
    struct text item;

    while (next_item(&list, &item)) {
        if (!is_item(item)) {
            *ret_item = item.at;
            return false;
        }
    }
    return true;
}

bool web_is_hosts(const char *list, const char **ret_item)
{
    return is_list_of(list, is_host_item, ret_item);
}

bool web_is_origins(const char *list, const char **ret_item)
{
    return is_list_of(list, is_origin_item, ret_item);
}
