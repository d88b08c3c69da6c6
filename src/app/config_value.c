/*
 * config_value.c - the text of one setting, checked and put into its field.
 *
 * Numbers are decimal digits and nothing else: no sign, no blank, no hexadecimal. Every refusal
 * quotes the value and says the rule. Thread: main.
 */
#include <arpa/inet.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "src/app/config_table.h"
#include "src/base/assert.h"

#define QUOTED_BYTES 160 /* of a value in an error text; the rest is cut */

static int refuse(const struct config_key *key, const char *text, struct config_error *ret_error);
static int set_bytes(uint64_t *field, const struct config_key *key, const char *text,
                     struct config_error *ret_error);
static int set_bool(bool *field, const struct config_key *key, const char *text,
                    struct config_error *ret_error);
static int set_text(char *field, const struct config_key *key, const char *text,
                    struct config_error *ret_error);
static int set_members(struct config *config, const struct config_key *key, const char *text,
                       struct config_error *ret_error);
static int set_targets(struct config *config, const struct config_key *key, const char *text,
                       struct config_error *ret_error);
static int set_layout(struct snowflake_layout *field, const struct config_key *key,
                      const char *text, struct config_error *ret_error);

int config_fail(struct config_error *ret_error, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vsnprintf(ret_error->text, sizeof ret_error->text, format, args);
    va_end(args);
    return ERR_INVALID;
}

bool config_parse_uint(const char *text, size_t len, uint64_t *ret_value)
{
    uint64_t value = 0;

    if (len == 0) {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        unsigned digit = (unsigned)text[i] - '0';

        if (digit > 9 || value > (UINT64_MAX - digit) / 10) {
            return false;
        }
        value = value * 10 + digit;
    }
    *ret_value = value;
    return true;
}

int config_value_set(struct config *config, const struct config_key *key, const char *text,
                     struct config_error *ret_error)
{
    void *field = (char *)config + key->offset;
    uint64_t number;

    switch (key->type) {
    case CONFIG_UINT:
        if (!config_parse_uint(text, strlen(text), &number) || number < key->min ||
            number > key->max) {
            return refuse(key, text, ret_error);
        }
        *(uint64_t *)field = number;
        return 0;
    case CONFIG_BYTES:
        return set_bytes(field, key, text, ret_error);
    case CONFIG_BOOL:
        return set_bool(field, key, text, ret_error);
    case CONFIG_NAME:
    case CONFIG_PATH:
    case CONFIG_ADDRESS:
        return set_text(field, key, text, ret_error);
    case CONFIG_LEVEL:
        return log_level_parse(text, field) == 0 ? 0 : refuse(key, text, ret_error);
    case CONFIG_MEMBERS:
        return set_members(config, key, text, ret_error);
    case CONFIG_TARGETS:
        return set_targets(config, key, text, ret_error);
    case CONFIG_LAYOUT:
        return set_layout(field, key, text, ret_error);
    }
    UNREACHABLE("type of a setting");
}

static const char *quote(const char *text, char out[QUOTED_BYTES])
{
    return log_quote(text, strlen(text), out, QUOTED_BYTES);
}

/* "http.loops: "many" is not valid: must be 0..64". */
static int refuse(const struct config_key *key, const char *text, struct config_error *ret_error)
{
    struct buf rule = BUF_INIT;
    char quoted[QUOTED_BYTES];

    config_key_rule(key, &rule);
    (void)config_fail(ret_error, "%s: %s is not valid: must be %.*s%s%s", key->name,
                      quote(text, quoted), (int)rule.len, (const char *)rule.data,
                      key->unit != NULL && key->type == CONFIG_UINT ? ", in " : "",
                      key->unit != NULL && key->type == CONFIG_UINT ? key->unit : "");
    buf_free(&rule);
    return ERR_INVALID;
}

static int set_bytes(uint64_t *field, const struct config_key *key, const char *text,
                     struct config_error *ret_error)
{
    static const struct {
        const char *suffix;
        unsigned shift;
    } units[] = {{"", 0}, {"KiB", 10}, {"MiB", 20}, {"GiB", 30}, {"TiB", 40}};
    size_t digits = strspn(text, "0123456789");
    uint64_t number;

    if (!config_parse_uint(text, digits, &number)) {
        return refuse(key, text, ret_error);
    }
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(text + digits, units[i].suffix) != 0) {
            continue;
        }
        if (number > (UINT64_MAX >> units[i].shift) || number << units[i].shift < key->min ||
            number << units[i].shift > key->max) {
            return refuse(key, text, ret_error);
        }
        *field = number << units[i].shift;
        return 0;
    }
    return refuse(key, text, ret_error);
}

static int set_bool(bool *field, const struct config_key *key, const char *text,
                    struct config_error *ret_error)
{
    bool is_true = strcmp(text, "true") == 0;

    if (!is_true && strcmp(text, "false") != 0) {
        return refuse(key, text, ret_error);
    }
    *field = is_true;
    return 0;
}

static bool is_name(const char *text, size_t len)
{
    static const char allowed[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";

    return strspn(text, allowed) == len;
}

/* Control characters could forge a line of the log; a double quote has no way into the config file.
 */
static bool is_printable(const char *text)
{
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < 0x20 || *text == 0x7f || *text == '"') {
            return false;
        }
    }
    return true;
}

static int set_text(char *field, const struct config_key *key, const char *text,
                    struct config_error *ret_error)
{
    char host[LIMIT_ADDRESS_BYTES + 1];
    struct config_error reason;
    size_t len = strlen(text);
    uint16_t port;

    if (len < key->min || len > key->max || !is_printable(text) ||
        (key->type == CONFIG_NAME && !is_name(text, len))) {
        return refuse(key, text, ret_error);
    }
    if (key->type == CONFIG_ADDRESS && len > 0 &&
        !config_address_split(text, host, &port, &reason)) {
        return config_fail(ret_error, "%s: %s", key->name, reason.text);
    }
    memcpy(field, text, len + 1);
    return 0;
}

/* An IPv4 address, or a name of letters, digits, '.', '-' and '_'. */
static bool is_host(const char *host)
{
    struct in_addr parsed;

    if (host[0] == '\0' || host[0] == '.' || host[0] == '-' || !is_name(host, strlen(host))) {
        return false;
    }
    if (host[strspn(host, "0123456789.")] == '\0') {
        return inet_pton(AF_INET, host, &parsed) == 1;
    }
    return true;
}

/* Cut the brackets off an IPv6 address. False if it is none. */
static bool unbracket(char *host)
{
    struct in6_addr parsed;
    size_t len = strlen(host);

    if (len < 3 || host[0] != '[' || host[len - 1] != ']') {
        return false;
    }
    memmove(host, host + 1, len - 2);
    host[len - 2] = '\0';
    return inet_pton(AF_INET6, host, &parsed) == 1;
}

bool config_address_split(const char *address, char host[LIMIT_ADDRESS_BYTES + 1],
                          uint16_t *ret_port, struct config_error *ret_error)
{
    const char *colon = strrchr(address, ':');
    char quoted[QUOTED_BYTES];
    uint64_t port;

    quote(address, quoted);
    if (strlen(address) > LIMIT_ADDRESS_BYTES) {
        (void)config_fail(ret_error, "address %s is longer than %d bytes", quoted,
                          LIMIT_ADDRESS_BYTES);
        return false;
    }
    if (colon == NULL || !config_parse_uint(colon + 1, strlen(colon + 1), &port) || port == 0 ||
        port > UINT16_MAX) {
        (void)config_fail(ret_error, "address %s must end in :port, with a port in 1..65535",
                          quoted);
        return false;
    }
    memcpy(host, address, (size_t)(colon - address));
    host[colon - address] = '\0';
    if (strchr(host, ':') != NULL && host[strspn(host, "0123456789abcdefABCDEF:.")] == '\0') {
        (void)config_fail(ret_error, "address %s: write an IPv6 host in brackets, [host]:port",
                          quoted);
        return false;
    }
    if (host[0] == '[' ? !unbracket(host) : !is_host(host)) {
        (void)config_fail(
            ret_error,
            "address %s: the host must be a name, an IPv4 address, or an IPv6 address "
            "in brackets",
            quoted);
        return false;
    }
    *ret_port = (uint16_t)port;
    return true;
}

bool config_is_loopback(const char *address)
{
    char host[LIMIT_ADDRESS_BYTES + 1];
    struct config_error error;
    struct in6_addr v6;
    struct in_addr v4;
    uint16_t port;

    if (!config_address_split(address, host, &port, &error)) {
        return false;
    }
    if (inet_pton(AF_INET, host, &v4) == 1) {
        return ntohl(v4.s_addr) >> 24 == 127;
    }
    if (inet_pton(AF_INET6, host, &v6) == 1) {
        return IN6_IS_ADDR_LOOPBACK(&v6) || (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == 127);
    }
    return strcasecmp(host, "localhost") == 0;
}

/* One "id=host:port" of the list. */
static int parse_member(const char *item, struct net_peer *ret_member,
                        struct config_error *ret_error)
{
    const char *equals = strchr(item, '=');
    char host[LIMIT_ADDRESS_BYTES + 1];
    char quoted[QUOTED_BYTES];
    uint16_t port;

    if (equals == NULL || !config_parse_uint(item, (size_t)(equals - item), &ret_member->id) ||
        ret_member->id < 1 || ret_member->id > LIMIT_NODE_ID) {
        return config_fail(ret_error, "%s is not id=host:port with an id in 1..%d",
                           quote(item, quoted), LIMIT_NODE_ID);
    }
    if (!config_address_split(equals + 1, host, &port, ret_error)) {
        return ERR_INVALID;
    }
    ASSERT(strlen(equals + 1) < sizeof ret_member->address);
    memcpy(ret_member->address, equals + 1, strlen(equals + 1) + 1);
    return 0;
}

/* The new member against those before it. */
static int check_member(const struct net_peer *members, size_t count, const struct net_peer *member,
                        struct config_error *ret_error)
{
    for (size_t i = 0; i < count; i++) {
        if (members[i].id == member->id) {
            return config_fail(ret_error, "id %" PRIu64 " is given twice", member->id);
        }
        if (strcmp(members[i].address, member->address) == 0) {
            return config_fail(ret_error,
                               "ids %" PRIu64 " and %" PRIu64 " have the same address %s",
                               members[i].id, member->id, member->address);
        }
    }
    return 0;
}

/* Cut the blanks off both ends. */
static char *trim(char *item)
{
    size_t len;

    item += strspn(item, " \t");
    len = strlen(item);
    while (len > 0 && (item[len - 1] == ' ' || item[len - 1] == '\t')) {
        len--;
    }
    item[len] = '\0';
    return item;
}

static int set_members(struct config *config, const struct config_key *key, const char *text,
                       struct config_error *ret_error)
{
    struct net_peer members[LIMIT_NODES];
    char list[LIMIT_CONFIG_VALUE_BYTES + 1];
    struct config_error reason;
    char *rest = list;
    size_t count = 0;
    char *item;

    if (strlen(text) >= sizeof list) {
        return refuse(key, text, ret_error);
    }
    memcpy(list, text, strlen(text) + 1);
    while ((item = strsep(&rest, ",")) != NULL) {
        if (count == LIMIT_NODES) {
            return config_fail(ret_error, "%s: more than %d members", key->name, LIMIT_NODES);
        }
        item = trim(item);
        if (parse_member(item, &members[count], &reason) != 0 ||
            check_member(members, count, &members[count], &reason) != 0) {
            return config_fail(ret_error, "%s: %s", key->name, reason.text);
        }
        count++;
    }
    memcpy(config->members, members, count * sizeof members[0]);
    config->member_count = count;
    return 0;
}

/* Whom to ask to be let in; nobody, if the text is empty. */
static int set_targets(struct config *config, const struct config_key *key, const char *text,
                       struct config_error *ret_error)
{
    struct net_peer targets[LIMIT_NODES] = {0};
    char list[LIMIT_CONFIG_VALUE_BYTES + 1];
    char host[LIMIT_ADDRESS_BYTES + 1];
    struct config_error reason;
    char *rest = list;
    size_t count = 0;
    uint16_t port;
    char *item;

    if (strlen(text) >= sizeof list) {
        return refuse(key, text, ret_error);
    }
    memcpy(list, text, strlen(text) + 1);
    while (text[0] != '\0' && (item = strsep(&rest, ",")) != NULL) {
        if (count == LIMIT_NODES) {
            return config_fail(ret_error, "%s: more than %d addresses", key->name, LIMIT_NODES);
        }
        item = trim(item);
        if (!config_address_split(item, host, &port, &reason)) {
            return config_fail(ret_error, "%s: %s", key->name, reason.text);
        }
        (void)snprintf(targets[count].address, sizeof targets[count].address, "%s", item);
        count++;
    }
    memcpy(config->join, targets, sizeof targets);
    config->join_count = count;
    return 0;
}

/* "41+10+12": three numbers of at most two digits. */
static bool parse_bits(const char *text, uint8_t ret_bits[3])
{
    for (unsigned i = 0; i < 3; i++) {
        size_t len = strcspn(text, "+");
        uint64_t bits;

        if (len > 2 || !config_parse_uint(text, len, &bits) || text[len] != (i < 2 ? '+' : '\0')) {
            return false;
        }
        ret_bits[i] = (uint8_t)bits;
        text += len + 1;
    }
    return true;
}

/* The bits alone: the epoch is a setting of its own, and held against the clock when all is read.
 */
static int set_layout(struct snowflake_layout *field, const struct config_key *key,
                      const char *text, struct config_error *ret_error)
{
    static const struct {
        const char *name;
        struct snowflake_layout layout;
    } named[] = {{"leaf", SNOWFLAKE_LEAF_LAYOUT}, {"js53", SNOWFLAKE_JS53_LAYOUT}};
    struct snowflake_layout layout = {0};
    char quoted[QUOTED_BYTES];
    const char *why;
    uint8_t bits[3];

    if (parse_bits(text, bits)) {
        layout = (struct snowflake_layout){0, bits[0], bits[1], bits[2]};
    }
    for (size_t i = 0; i < sizeof named / sizeof named[0]; i++) {
        if (strcmp(text, named[i].name) == 0) {
            layout = named[i].layout;
        }
    }
    if (layout.time_bits == 0) {
        return refuse(key, text, ret_error);
    }
    if (snowflake_layout_check(&layout, layout.epoch_ms, &why) != 0) {
        return config_fail(ret_error, "%s: %s is not valid: %s", key->name, quote(text, quoted),
                           why);
    }
    layout.epoch_ms = field->epoch_ms;
    *field = layout;
    return 0;
}
