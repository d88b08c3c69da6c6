/*
 * web.c - see web.h. Thread: pure functions, any.
 */
#include "http/auth/web.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

#include "http/proto/head.h"
#include "http/proto/text.h"
#include "src/base/address.h"
#include "src/base/container.h"

struct text {
    const char *at;
    size_t len;
};

static bool text_equals(struct text a, struct text b)
{
    return a.len == b.len && strncasecmp(a.at, b.at, a.len) == 0;
}

static bool is_word(struct text text, const char *word)
{
    return text_is(text.at, text.len, word);
}

/* A host as it is compared: one host has many texts ("[::1]" and "[0:0:0:0:0:0:0:1]", "a.example"
 * and its absolute form "a.example."). */
struct host {
    struct text name; /* without the last dot; len 0: none */
    bool is_address;
    struct in6_addr address; /* of IPv4: mapped */
};

static struct host host_parse(struct text text)
{
    static const uint8_t mapped[] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    struct host host = {.name = text};
    char bare[INET6_ADDRSTRLEN] = "";
    size_t len;

    if (text.len > 1 && text.at[text.len - 1] == '.') {
        host.name.len--;
    }
    len = host.name.len;
    if (len > 2 && len < sizeof bare + 2 && text.at[0] == '[' && text.at[len - 1] == ']') {
        memcpy(bare, text.at + 1, len - 2);
        host.is_address = inet_pton(AF_INET6, bare, &host.address) == 1;
    } else if (len < sizeof bare) {
        memcpy(bare, text.at, len);
        memcpy(&host.address, mapped, sizeof mapped);
        host.is_address = inet_pton(AF_INET, bare, (uint8_t *)&host.address + sizeof mapped) == 1;
    }
    return host;
}

static bool host_equals(const struct host *a, const struct host *b)
{
    return a->is_address == b->is_address &&
           (a->is_address ? memcmp(&a->address, &b->address, sizeof a->address) == 0
                          : text_equals(a->name, b->name));
}

/* 127.0.0.0/8, ::1, or the name that no name server may give to another address. */
static bool host_is_loopback(const struct host *host)
{
    return host->is_address ? address_in6_is_loopback(&host->address)
                            : is_word(host->name, "localhost");
}

/* list: separated by commas; NULL: an empty one. */
static bool list_has(const char *list, struct text wanted, const struct host *host)
{
    const char *end = list != NULL ? list + strlen(list) : NULL;
    struct text item;

    while (text_next(&list, end, ',', &item.at, &item.len)) {
        struct host listed = host_parse(item);

        if (is_word(item, "*") || text_equals(item, wanted) ||
            (host != NULL && host_equals(&listed, host))) {
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

static bool is_own(const struct web_rules *rules, struct text text)
{
    struct host host = host_parse(text);

    if (text.len == 0) {
        return false;
    }
    for (size_t i = 0; i < WEB_OWN_ADDRESSES && rules->own[i] != NULL; i++) {
        struct host own = host_parse(host_of((struct text){rules->own[i], strlen(rules->own[i])}));

        if (host_equals(&own, &host)) {
            return true;
        }
    }
    return host_is_loopback(&host) || list_has(rules->hosts, text, &host);
}

const char *web_authority(const struct web_request *request, size_t *ret_len)
{
    const struct parser_head *head = request->head;
    const char *raw = request->bytes + head->target_at;
    struct target target;

    if (raw[0] != '/' && target_split(raw, head->target_len, &target) == 0) {
        *ret_len = target.authority_len;
        return target.authority;
    }
    *ret_len = head->host.len;
    return request->bytes + head->host.at;
}

/* Is the page our own: is its origin the host that it requests from? */
static bool is_same_origin(const struct web_rules *rules, struct text origin, struct text authority)
{
    const char *const schemes[] = {"http://", "https://"};

    if (!is_own(rules, host_of(authority))) {
        return false;
    }
    for (size_t i = 0; i < COUNT_OF(schemes); i++) {
        size_t len = strlen(schemes[i]);

        if (origin.len == len + authority.len && memcmp(origin.at, schemes[i], len) == 0 &&
            text_equals((struct text){origin.at + len, authority.len}, authority)) {
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
    return is_word(type, "application/json") || is_word(type, "application/x-ndjson");
}

enum web_verdict web_check(const struct web_rules *rules, const struct web_request *request)
{
    const struct parser_head *head = request->head;
    struct text origin = {request->bytes + head->origin.at, head->origin.len};
    struct text type = {request->bytes + head->content_type.at, head->content_type.len};
    struct text site = {request->bytes + head->fetch_site.at, head->fetch_site.len};
    /* By Sec-Fetch-Site. An address that a person typed is "none". */
    bool is_another_page =
        site.len > 0 && (is_word(site, "cross-site") || is_word(site, "same-site"));
    struct text authority;

    authority.at = web_authority(request, &authority.len);
    if (request->guarded && !is_own(rules, host_of(authority))) {
        return WEB_MISDIRECTED;
    }
    if (head->origin.count > 1 ||
        (head->origin.count == 1 && !is_same_origin(rules, origin, authority) &&
         !list_has(rules->origins, origin, NULL))) {
        return WEB_FOREIGN;
    }
    if (request->acts && head->origin.count == 0 && is_another_page &&
        !list_has(rules->origins, (struct text){"*", 1}, NULL)) {
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
    return is_word(item, "*") || is_host_text(item, ".-_");
}

/* "scheme://host" or "scheme://host:port". */
static bool is_origin_item(struct text item)
{
    const char *slashes = memmem(item.at, item.len, "://", strlen("://"));
    struct text rest;

    if (slashes == NULL) {
        return is_word(item, "*") || is_word(item, "null");
    }
    rest.at = slashes + strlen("://");
    rest.len = item.len - (size_t)(rest.at - item.at);
    return is_host_text((struct text){item.at, (size_t)(slashes - item.at)}, "+-.") &&
           is_host_item(host_of(rest));
}

static bool is_list_of(const char *list, bool (*is_item)(struct text item), const char **ret_item)
{
    const char *end = list + strlen(list);
    struct text item;

    while (text_next(&list, end, ',', &item.at, &item.len)) {
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
