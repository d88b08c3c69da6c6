/*
 * table.c - see config.h: the text of an error; the table of settings: the types of values, the
 * rows, functions on a row; and the texts that show all rows. Thread: main.
 */
#include "src/node/config/config.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http/auth/tokens.h"
#include "http/auth/web.h"
#include "http/proto/text.h"
#include "http/server/proxy.h"
#include "src/base/address.h"
#include "src/base/assert.h"
#include "src/base/container.h"

/* --- errors --- */

int config_fail(struct config_error *ret_error, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vsnprintf(ret_error->text, sizeof ret_error->text, format, args);
    va_end(args);
    return ERR_INVALID;
}

int config_fail_at(struct config_error *ret_error, const char *place, ...)
{
    struct config_error reason = *ret_error;
    va_list args;
    size_t len;

    va_start(args, place);
    (void)vsnprintf(ret_error->text, sizeof ret_error->text, place, args);
    va_end(args);
    len = strlen(ret_error->text);
    (void)snprintf(ret_error->text + len, sizeof ret_error->text - len, ": %s", reason.text);
    return ERR_INVALID;
}

int config_path_check(const char *path, struct config_error *ret_error)
{
    if (path[0] == '\0' || strlen(path) > LIMIT_PATH_BYTES) {
        return config_fail(ret_error, "must be a path of 1 to %d bytes", LIMIT_PATH_BYTES);
    }
    return strcmp(path, "-") != 0
               ? 0
               : config_fail(ret_error, "\"-\" does not mean standard input or output here: name a "
                                        "file or directory; one of that name is ./-");
}

/* --- types --- */

#define QUOTED_BYTES 160 /* of a value in an error text; the rest is cut */

struct setting_type {
    /* Put the value into the field. ERR_INVALID: the text breaks the rule (*why has the reason, if
     * not empty); the field is unchanged. */
    int (*parse)(const struct setting *setting, const char *text, void *field,
                 struct config_error *why);
    const char *rule;         /* with the ends of the range in place of {} and {} */
    const char *brief;        /* the rule in a table's cell; NULL: `rule` */
    const char *const *words; /* of parse_word(); ends with NULL */
    bool is_bytes;            /* of parse_number(): with KiB, MiB, ... */
    bool is_name;             /* of parse_text(): letters, digits, '.', '_', '-' */
    bool is_path;             /* of parse_text(): config_path_check() */
    bool is_address;          /* of parse_text(): host:port, */
    const char *or_word;      /* or this; or NULL */
    bool with_id;             /* of parse_peers(): id=host:port */
    /* Of parse_text(): is it a list? If not, the error, and the invalid item. */
    bool (*is_list)(const char *text, const char **ret_item);
    const char *not_item;
};

#define WORDS(...)                                                                                 \
    .parse = parse_word, .words = (const char *const[])                                            \
    {                                                                                              \
        __VA_ARGS__, NULL                                                                          \
    }

static const struct {
    const char *text;
    unsigned shift;
} byte_units[] = {{"TiB", 40}, {"GiB", 30}, {"MiB", 20}, {"KiB", 10}, {"", 0}};

/* The ends of a range of bytes are in the largest unit that divides them. */
static void setting_rule(const struct setting *setting, struct buf *out)
{
    const char *at = setting->type->rule;
    uint64_t end = setting->min;

    for (const char *mark; (mark = strstr(at, "{}")) != NULL; at = mark + 2) {
        unsigned i = setting->type->is_bytes ? 0 : COUNT_OF(byte_units) - 1;

        while (end >> byte_units[i].shift << byte_units[i].shift != end) {
            i++;
        }
        buf_put(out, at, (size_t)(mark - at));
        buf_printf(out, "%" PRIu64 "%s", end >> byte_units[i].shift, byte_units[i].text);
        end = setting->max;
    }
    buf_printf(out, "%s%s%s", at, setting->unit != NULL ? " " : "",
               setting->unit != NULL ? setting->unit : "");
}

/* --- numbers and words --- */

/* Decimal digits and nothing else: no sign, no blank, no hexadecimal; zeros may be before them. */
static bool setting_digits(const char *text, size_t len, uint64_t min, uint64_t max,
                           uint64_t *ret_value)
{
    for (; len > 1 && *text == '0'; len--) {
        text++;
    }
    return text_parse_decimal(text, len, min, max, ret_value) == 0;
}

static int parse_number(const struct setting *setting, const char *text, void *field,
                        struct config_error *why)
{
    size_t digits = strspn(text, "0123456789");
    uint64_t number;
    unsigned shift;
    size_t i = 0;

    (void)why;
    while (i < COUNT_OF(byte_units) && strcmp(text + digits, byte_units[i].text) != 0) {
        i++;
    }
    shift = i < COUNT_OF(byte_units) ? byte_units[i].shift : 0;
    if (i == COUNT_OF(byte_units) || (shift > 0 && !setting->type->is_bytes) ||
        !setting_digits(text, digits, 0, UINT64_MAX >> shift, &number) ||
        number << shift < setting->min || number << shift > setting->max) {
        return ERR_INVALID;
    }
    if (setting->size == sizeof(uint32_t)) {
        *(uint32_t *)field = (uint32_t)(number << shift);
    } else {
        ASSERT(setting->size == sizeof number);
        *(uint64_t *)field = number << shift;
    }
    return 0;
}

/* The value, a bool or an enum, is the word's index in the list of its type. */
static int parse_word(const struct setting *setting, const char *text, void *field,
                      struct config_error *why)
{
    const char *const *words = setting->type->words;
    unsigned word = 0;

    (void)why;
    while (words[word] != NULL && strcmp(text, words[word]) != 0) {
        word++;
    }
    if (words[word] == NULL) {
        return ERR_INVALID;
    }
    if (setting->size == sizeof(bool)) {
        *(bool *)field = word == 1;
    } else {
        ASSERT(setting->size == sizeof word);
        *(unsigned *)field = word;
    }
    return 0;
}

/* --- texts --- */

static bool is_word(const char *text, size_t len, const char *word)
{
    return len == strlen(word) && memcmp(text, word, len) == 0;
}

/* Control characters could forge a line of the log; a double quote cannot be in the config file. */
static bool is_printable(const char *text)
{
    while ((unsigned char)*text >= 0x20 && *text != 0x7f && *text != '"') {
        text++;
    }
    return *text == '\0';
}

static bool is_name(const char *text)
{
    return text[strspn(
               text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")] == '\0';
}

/* 0, or ERR_INVALID with *why. The host is an IPv4 address, an IPv6 one, or a name that does not
 * look like the former. */
static int check_address(const char *text, struct config_error *why)
{
    struct address address;
    struct in6_addr parsed;
    bool is_valid = false;

    if (address_split(text, &address) == 0 && address.port[strspn(address.port, "0")] != '\0') {
        const char *host = address.host;

        is_valid = strchr(host, ':') != NULL ? inet_pton(AF_INET6, host, &parsed) == 1
                   : host[strspn(host, "0123456789.")] == '\0'
                       ? inet_pton(AF_INET, host, &parsed) == 1
                       : host[0] != '.' && host[0] != '-' && is_name(host);
    }
    return is_valid ? 0
                    : config_fail(why,
                                  "address %s must be host:port or [IPv6]:port, in %d bytes: the "
                                  "host a name, an IPv4 address, or an IPv6 address in brackets, "
                                  "the port in 1..65535",
                                  LOG_QUOTED(text, QUOTED_BYTES), LIMIT_ADDRESS_BYTES);
}

/* A name, a path, an address, or a list. */
static int parse_text(const struct setting *setting, const char *text, void *field,
                      struct config_error *why)
{
    const struct setting_type *type = setting->type;
    const char *item = text;
    size_t len = strlen(text);
    bool is_address =
        type->is_address && (type->or_word == NULL || strcmp(text, type->or_word) != 0);

    if (len < setting->min || len > setting->max || !is_printable(text) ||
        (type->is_name && !is_name(text)) ||
        (type->is_path && text[0] != '\0' && config_path_check(text, why) != 0) ||
        (is_address && text[0] != '\0' && check_address(text, why) != 0)) {
        return ERR_INVALID;
    }
    if (type->is_list != NULL && !type->is_list(text, &item)) {
        char quoted[QUOTED_BYTES];

        return config_fail(why, "%s %s", log_quote(item, strcspn(item, ","), quoted, sizeof quoted),
                           type->not_item);
    }
    *(const char **)field = text;
    return 0;
}

/* --- roles --- */

int config_roles(const char *list, unsigned *ret_roles, const char **ret_item)
{
    unsigned roles = 0;

    while (list[0] != '\0' && strcmp(list, "none") != 0) {
        size_t blanks = strspn(list, " ");
        size_t len = strcspn(list + blanks, ", ");
        unsigned role = role_named(list + blanks, len);

        *ret_item = list + blanks;
        list += blanks + len;
        list += strspn(list, " ");
        if (role == 0 || (list[0] != '\0' && list[0] != ',') ||
            (list[0] == ',' && list[1] == '\0')) {
            return ERR_INVALID;
        }
        list += list[0] == ',';
        roles |= role;
    }
    *ret_roles = roles;
    return 0;
}

static bool are_roles(const char *text, const char **ret_item)
{
    unsigned roles;

    return config_roles(text, &roles, ret_item) == 0;
}

/* --- quotas --- */

#define PART_PERCENT 25 /* of keys, worker ids and tags, the share of one client */

/* "ids-per-s=1000": 0, or ERR_INVALID with *why. */
static int parse_quota_item(const struct setting *setting, char *item, struct quota_settings *quota,
                            unsigned *given, struct config_error *why)
{
    const struct {
        const char *key;
        uint32_t *to;
        bool percent;
    } quotas[] = {
        {"requests-per-s", &quota->clients.requests_per_s, false},
        {"ids-per-s", &quota->clients.ids_per_s, false},
        {"connections", &quota->clients.connections, false},
        {"bodies", &quota->clients.bodies, false},
        {"keys", &quota->keys_percent, true},
        {"workers", &quota->workers_percent, true},
        {"tags", &quota->tags_percent, true},
    };
    size_t key_len = strcspn(item, "=");
    char *value = item + key_len + (item[key_len] == '=');
    size_t len = strlen(value);
    uint64_t number;
    size_t i = 0;

    while (i < COUNT_OF(quotas) && !is_word(item, key_len, quotas[i].key)) {
        i++;
    }
    if (i == COUNT_OF(quotas)) {
        return config_fail(
            why,
            "%s is not a quota: requests-per-s, ids-per-s, connections, bodies, keys, "
            "workers or tags, then = and a number",
            LOG_QUOTED(item, QUOTED_BYTES));
    }
    if ((*given & 1U << i) != 0) {
        return config_fail(why, "%s is given twice", quotas[i].key);
    }
    *given |= 1U << i;
    if (quotas[i].percent && len > 0 && value[len - 1] == '%') {
        len--;
    } else if (quotas[i].percent) {
        len = 0;
    }
    if (!setting_digits(value, len, 1, quotas[i].percent ? 100 : setting->max, &number)) {
        return config_fail(why, "%s=%s is not valid: must be 1..%s", quotas[i].key,
                           LOG_QUOTED(value, QUOTED_BYTES),
                           quotas[i].percent ? "100 with a % after it, as 25%" : "1000000000");
    }
    *quotas[i].to = (uint32_t)number;
    return 0;
}

static int parse_quota(const struct setting *setting, const char *text, void *field,
                       struct config_error *why)
{
    struct quota_settings quota = {.keys_percent = PART_PERCENT,
                                   .workers_percent = PART_PERCENT,
                                   .tags_percent = PART_PERCENT};
    char list[LIMIT_CONFIG_VALUE_BYTES + 1];
    char *rest = text[0] == '\0' ? NULL : list;
    unsigned given = 0;
    char *item;

    ASSERT(strlen(text) < sizeof list);
    memcpy(list, text, strlen(text) + 1);
    while ((item = strsep(&rest, ",")) != NULL) {
        if (!is_printable(item) ||
            parse_quota_item(setting, text_strip(item, " \t"), &quota, &given, why) != 0) {
            return ERR_INVALID;
        }
    }
    *(struct quota_settings *)field = quota;
    return 0;
}

/* --- lists of nodes --- */

/* "id=host:port", or "host:port" of a target; separated by commas. */
static int parse_peers(const struct setting *setting, const char *text, void *field,
                       struct config_error *why)
{
    bool with_id = setting->type->with_id;
    char list[LIMIT_CONFIG_VALUE_BYTES + 1];
    char *rest = text[0] == '\0' && setting->min == 0 ? NULL : list;
    struct node_peers peers = {0};
    char *item;

    ASSERT(strlen(text) < sizeof list);
    memcpy(list, text, strlen(text) + 1);
    while ((item = strsep(&rest, ",")) != NULL) {
        struct net_peer *peer = &peers.peers[peers.count];
        const char *address;
        const char *equals;

        if (peers.count++ == setting->max) {
            return config_fail(why, "more than %" PRIu64 " %s", setting->max,
                               with_id ? "members" : "addresses");
        }
        item = text_strip(item, " \t");
        equals = with_id ? strchr(item, '=') : NULL;
        if (with_id && (equals == NULL || !setting_digits(item, (size_t)(equals - item), 1,
                                                          LIMIT_NODE_ID, &peer->id))) {
            return config_fail(why, "%s is not id=host:port with an id in 1..%d",
                               LOG_QUOTED(item, QUOTED_BYTES), LIMIT_NODE_ID);
        }
        address = with_id ? equals + 1 : item;
        if (check_address(address, why) != 0) {
            return ERR_INVALID;
        }
        ASSERT(strlen(address) < sizeof peer->address);
        memcpy(peer->address, address, strlen(address) + 1);
        for (const struct net_peer *other = peers.peers; with_id && other < peer; other++) {
            if (other->id == peer->id) {
                return config_fail(why, "id %" PRIu64 " is given twice", peer->id);
            }
            if (strcmp(other->address, peer->address) == 0) {
                return config_fail(why, "ids %" PRIu64 " and %" PRIu64 " have the same address %s",
                                   other->id, peer->id, peer->address);
            }
        }
    }
    *(struct node_peers *)field = peers;
    return 0;
}

/* --- the layout of snowflake ids --- */

#define EPOCH_MAX_MS 253402300799999ULL /* the end of the year 9999 */

/* A name, or "41+10+12": three numbers of at most two digits. The epoch is compared with the clock
 * once all settings are read. */
static int parse_layout(const struct setting *setting, const char *text, void *field,
                        struct config_error *why)
{
    struct snowflake_layout layout = {.epoch_ms = SNOWFLAKE_EPOCH_MS};
    size_t len = strcspn(text, "@");
    const char *rule;

    (void)setting;
    if (is_word(text, len, "leaf")) {
        layout = (struct snowflake_layout)SNOWFLAKE_LEAF_LAYOUT;
    } else if (is_word(text, len, "js53")) {
        layout = (struct snowflake_layout)SNOWFLAKE_JS53_LAYOUT;
    } else {
        uint8_t *const bits[] = {&layout.time_bits, &layout.worker_bits, &layout.sequence_bits};
        const char *at = text;

        for (unsigned i = 0; i < COUNT_OF(bits); i++) {
            const char *end = i < 2 ? memchr(at, '+', (size_t)(text + len - at)) : text + len;
            uint64_t number;

            if (end == NULL || end - at > 2 ||
                !setting_digits(at, (size_t)(end - at), i == 0 ? 1 : 0, 99, &number)) {
                return ERR_INVALID;
            }
            *bits[i] = (uint8_t)number;
            at = end + 1;
        }
    }
    if (text[len] == '@' && !setting_digits(text + len + 1, strlen(text + len + 1), 0, EPOCH_MAX_MS,
                                            &layout.epoch_ms)) {
        return config_fail(why, "%s is not valid: after the @ must be a Unix time in ms, 0..%llu",
                           LOG_QUOTED(text, QUOTED_BYTES), EPOCH_MAX_MS);
    }
    if (snowflake_layout_check(&layout, layout.epoch_ms, &rule) != 0) {
        return config_fail(why, "%s is not valid: %s", LOG_QUOTED(text, QUOTED_BYTES), rule);
    }
    *(struct snowflake_layout *)field = layout;
    return 0;
}

/* --- a number or a word --- */

/* 0, or the worker id and one. */
static int parse_worker(const struct setting *setting, const char *text, void *field,
                        struct config_error *why)
{
    bool any = strcmp(text, "any") == 0;
    uint64_t number = 0;

    (void)why;
    if (!any && !setting_digits(text, strlen(text), setting->min, setting->max, &number)) {
        return ERR_INVALID;
    }
    *(uint32_t *)field = any ? 0 : (uint32_t)number + 1;
    return 0;
}

static int parse_hold(const struct setting *setting, const char *text, void *field,
                      struct config_error *why)
{
    bool never = strcmp(text, "never") == 0;
    uint64_t hold_ms = 0;

    (void)why;
    if (!never && !setting_digits(text, strlen(text), setting->min, setting->max, &hold_ms)) {
        return ERR_INVALID;
    }
    *(struct upgrade_config *)field =
        (struct upgrade_config){.hold_ms = (uint32_t)hold_ms, .automatic = !never};
    return 0;
}

const struct setting_type setting_number = {.parse = parse_number, .rule = "{}..{}"};
static const struct setting_type setting_bytes = {
    .parse = parse_number, .is_bytes = true, .rule = "{}..{}"};
const struct setting_type setting_boolean = {WORDS("false", "true"), .rule = "true or false"};
static const struct setting_type setting_level = {
    WORDS([LOG_LEVEL_DEBUG] = "debug", [LOG_LEVEL_INFO] = "info", [LOG_LEVEL_WARN] = "warn",
          [LOG_LEVEL_ERROR] = "error"),
    .rule = "debug, info, warn or error"};
static const struct setting_type setting_format = {
    WORDS([LOG_FORMAT_LOGFMT] = "logfmt", [LOG_FORMAT_JSON] = "json"), .rule = "logfmt or json"};
static const struct setting_type setting_tls_client = {
    WORDS([TLS_CLIENT_NONE] = "none", [TLS_CLIENT_OPTIONAL] = "optional",
          [TLS_CLIENT_REQUIRED] = "required"),
    .rule = "none, optional or required"};
static const struct setting_type setting_sandbox = {
    WORDS([CONFIG_SANDBOX_AUTO] = "auto", [CONFIG_SANDBOX_ON] = "on", [CONFIG_SANDBOX_OFF] = "off",
          [CONFIG_SANDBOX_DEBUG] = "debug"),
    .rule = "auto, on, off or debug"};
static const struct setting_type setting_bootstrap = {
    WORDS([CONFIG_BOOTSTRAP_MEMBERS] = "members", [CONFIG_BOOTSTRAP_SINGLE] = "single",
          [CONFIG_BOOTSTRAP_NEVER] = "never"),
    .rule = "members, single or never"};
static const struct setting_type setting_name = {.parse = parse_text,
                                                 .is_name = true,
                                                 .rule = "{} to {} of A-Z a-z 0-9 . _ -",
                                                 .brief = "a name"};
#define PATH_RULE                                                                                  \
    .parse = parse_text, .is_path = true,                                                          \
    .rule = "a path of {} to {} bytes, without control characters and quotes"

const struct setting_type setting_path = {PATH_RULE, .brief = "a file"};
static const struct setting_type setting_directory = {PATH_RULE, .brief = "a directory"};
static const struct setting_type setting_address = {.parse = parse_text,
                                                    .is_address = true,
                                                    .rule =
                                                        "host:port or [IPv6]:port, port 1..65535",
                                                    .brief = "host:port"};
const struct setting_type setting_members = {.parse = parse_peers,
                                             .with_id = true,
                                             .rule =
                                                 "{} to {} of id=host:port, separated by commas",
                                             .brief = "id=host:port, ..."};
static const struct setting_type setting_targets = {
    .parse = parse_peers,
    .rule = "{} to {} of host:port, separated by commas",
    .brief = "host:port, ..."};
static const struct setting_type setting_listener = {
    .parse = parse_text,
    .is_address = true,
    .or_word = CONFIG_ADMIN_SAME,
    .rule = "host:port or [IPv6]:port, port 1..65535, or `" CONFIG_ADMIN_SAME "`",
    .brief = "host:port, or `" CONFIG_ADMIN_SAME "`"};
static const struct setting_type setting_roles = {
    .parse = parse_text,
    .is_list = are_roles,
    .rule = "roles (ids, read, tags, workers, admin, metrics, health, all) separated by commas, or "
            "none",
    .brief = "roles, or none",
    .not_item =
        "is not a role: ids, read, tags, workers, admin, metrics, health, all; or none alone"};
static const struct setting_type setting_hosts = {
    .parse = parse_text,
    .is_list = web_is_hosts,
    .rule = "hosts without ports, separated by commas, or *",
    .brief = "hosts, without ports",
    .not_item = "is not a host: a name, an IPv4 address, or an IPv6 address in brackets, without a "
                "port; or *"};
static const struct setting_type setting_origins = {
    .parse = parse_text,
    .is_list = web_is_origins,
    .rule = "scheme://host[:port], separated by commas, or *",
    .brief = "scheme://host[:port], ...",
    .not_item = "is not an origin: scheme://host or scheme://host:port; or *"};
static const struct setting_type setting_proxies = {
    .parse = parse_text,
    .is_list = proxy_is_list,
    .rule = "addresses and networks, separated by commas",
    .brief = "addresses, networks",
    .not_item =
        "is neither an address nor a network: 10.0.0.7, 10.1.0.0/16, 2001:db8::/32; all bits of a "
        "network's address after its prefix are 0"};
static const struct setting_type setting_layout = {
    .parse = parse_layout,
    .rule = "leaf (41+10+12), js53 (41+6+6), or bits of time+worker+sequence (39..45, 1..10, "
            "4..16, together at most 63); then @ and an epoch, if it is not Leaf's",
    .brief = "39..45+1..10+4..16, at most 63 bits"};
static const struct setting_type setting_quota = {
    .parse = parse_quota,
    .rule = "name=number, separated by commas: requests-per-s, ids-per-s, connections, bodies of "
            "1..1000000000, keys, workers, tags of 1%..100%",
    .brief = "name=number, ..."};
static const struct setting_type setting_worker = {.parse = parse_worker, .rule = "{}..{}, or any"};
static const struct setting_type setting_hold = {.parse = parse_hold,
                                                 .rule = "{}..{} ms, or never"};

/* --- the rows --- */

#define STRING_OF(x) #x
#define VALUE_OF(x) STRING_OF(x)

/* Of a directory, with room for a file's name. */
#define TLS_DIR_BYTES (LIMIT_PATH_BYTES - (sizeof CONFIG_TLS_CERTIFICATE - 1))
#define MAX_COVER_MS 600000
#define MAX_IDLE_MS 86400000  /* a day */
#define MAX_HOLD_MS 604800000 /* a week */
#define QUOTA_MAX 1000000000  /* the maximum in a line of the tokens file, too */
#define MAX_ENTRIES 10000000

/* The columns of a row: its name, the type, field and range of its values, its default, its
 * meaning. */
#define FIELD(field) offsetof(struct config, field), sizeof(((struct config *)0)->field)
#define NUMBER(field, min, max, unit) &setting_number, FIELD(field), min, max, unit
#define RANGED(type, field, min, max) &type, FIELD(field), min, max, NULL
#define VALUE(type, field) RANGED(type, field, 0, 0)
#define REQUIRED NULL, NULL, false
#define DEFAULT(text) text, NULL, false
#define DEFAULT_SHOWN(text, shown) text, shown, false
/* The same for a setting that a reload changes. */
#define LIVE(text) text, NULL, true
#define LIVE_SHOWN(text, shown) text, shown, true

const struct setting settings[] = {
    {"node.id", NUMBER(node.node_id, 1, LIMIT_NODE_ID, NULL), REQUIRED,
     "This node's id, one of those in `cluster.members`. No other node ever has it, even after the "
     "disk was lost."},
    {"cluster.id", RANGED(setting_name, node.cluster_id, 1, LIMIT_CLUSTER_ID_BYTES),
     DEFAULT("leafd"), "The cluster's name. Nodes and data of another name are refused."},
    {"cluster.members", RANGED(setting_members, node.members, 1, LIMIT_NODES), REQUIRED,
     "All first members and their peer addresses, the same on each node: "
     "`1=10.0.0.1:7081,2=10.0.0.2:7081,3=10.0.0.3:7081`. Used until all of them have met; "
     "afterwards the replicated log knows the members, and a list that differs is logged. Not "
     "needed with `join`."},
    {"cluster.bootstrap", VALUE(setting_bootstrap, bootstrap), DEFAULT("members"),
     "With a new data directory: `members` begin a cluster together, and a list of one is "
     "refused; `single`: the node is a cluster by itself; `never`: it refuses to start, as its "
     "disk may not be mounted."},
    {"cluster.replace-lost", VALUE(setting_boolean, node.replica.replace_lost), DEFAULT("false"),
     "A node that lost its data joins again "
     "[automatically](membership.md#automatic-replacement) under `node.id` + 1000 (then + 2000, "
     "...); its old member is removed. The same on all nodes."},
    {"join", RANGED(setting_targets, node.join, 0, LIMIT_NODES), DEFAULT_SHOWN("", "none"),
     "Members of an existing cluster that a new node asks to be let in. Used while the data "
     "directory is new, instead of `cluster.members`."},
    {"cluster.secret-file", RANGED(setting_path, secret_file, 0, LIMIT_PATH_BYTES),
     LIVE_SHOWN("", "none"),
     "File with the secret that nodes prove to each other (`leafd --new-secret`), or two while "
     "one is exchanged; mode 0600. Required without certificates, unless `peer.listen` is a "
     "loopback address."},
    {"peer.tls-dir", RANGED(setting_directory, peer_tls.dir, 0, TLS_DIR_BYTES),
     LIVE_SHOWN("", "none"),
     "Directory with this node's certificate for the other nodes: `tls.crt` (with one SAN "
     "`URI:leafd:<cluster.id>/<node.id>`), `tls.key` (mode 0600), `ca.crt` (the authority of all "
     "nodes, and no other)."},
    {"peer.listen", RANGED(setting_address, node.listen_address, 0, LIMIT_ADDRESS_BYTES),
     DEFAULT_SHOWN("", "its address in `cluster.members`, or `peer.advertise`"),
     "Address to listen on for the other nodes."},
    {"peer.advertise", RANGED(setting_address, node.peer_address, 0, LIMIT_ADDRESS_BYTES),
     DEFAULT_SHOWN("", "its address in `cluster.members`, or `peer.listen`"),
     "Address where the other nodes reach this one. A member that starts with a new one informs "
     "the others."},
    {"data.dir", RANGED(setting_directory, data.dir, 1, LIMIT_PATH_BYTES),
     DEFAULT("/var/lib/leafd"),
     "Directory of the node's data, made if missing. One with other files in it is refused."},
    {"data.map-bytes", RANGED(setting_bytes, data.map_bytes, 64 << 20, 1ULL << 44),
     DEFAULT_SHOWN("16GiB", "16GiB, or four fifths of the file system if that is less"),
     "Bound of the data's size, and address space for it. Disk space is taken as it is needed."},
    {"data.memory-bytes",
     RANGED(setting_bytes, node.replica.memory_bytes, LIMIT_MEMORY_MIN_BYTES, 1ULL << 40),
     DEFAULT("192MiB"),
     "Memory for tags, and for idempotency keys (some 200 bytes each, for a day). Beyond it a new "
     "tag gets 507 `state_full`, a new key 503 `idempotency_full`. The same on all nodes."},
    {"data.loose-mode", VALUE(setting_boolean, data.loose_mode), DEFAULT("false"),
     "Accept a `data.dir` on which others have rights: for volumes whose mode cannot be set."},
    {"http.listen", RANGED(setting_address, http.listen_address, 1, LIMIT_ADDRESS_BYTES),
     DEFAULT("127.0.0.1:8080"),
     "Address for ids and health. One that other machines reach needs `auth.tokens-file` or "
     "`auth.anonymous`."},
    {"http.advertise", RANGED(setting_address, node.http_address, 0, LIMIT_ADDRESS_BYTES),
     DEFAULT_SHOWN("", "`http.listen`; of a wildcard its port, at this node's peer host"),
     "HTTP address that the other nodes show for this one."},
    {"zone", RANGED(setting_name, node.zone, 0, LIMIT_ZONE_BYTES), DEFAULT_SHOWN("", "none"),
     "The room, rack or region that this node is in: clients of the same zone ask it first "
     "([operations.md](operations.md#zones))."},
    {"raft.prefer-zone", RANGED(setting_name, node.replica.prefer_zone, 0, LIMIT_ZONE_BYTES),
     DEFAULT_SHOWN("", "none"),
     "A ready node of this `zone` leads: a leader elsewhere hands over to it, at most once a "
     "minute. "
     "The same on all nodes."},
    {"admin.listen", RANGED(setting_listener, admin.listen, 0, LIMIT_ADDRESS_BYTES),
     DEFAULT_SHOWN("", "127.0.0.1, at the port of `http.listen` plus 1000"),
     "Address for all else: tags, worker ids, members, level, backups, the audit. `same`: at "
     "`http.listen`."},
    {"resp.listen", RANGED(setting_address, http.resp_address, 0, LIMIT_ADDRESS_BYTES),
     DEFAULT_SHOWN("", "none"),
     "Address for ids by Redis's protocol ([redis.md](redis.md)), with TLS where HTTP has it."},
    {"http.hosts", RANGED(setting_hosts, auth.hosts, 0, LIMIT_CONFIG_VALUE_BYTES),
     DEFAULT_SHOWN("", "none"),
     "Further hosts that a request's `Host` may name, besides loopback ones and this node's "
     "addresses. `*`: any."},
    {"http.origins", RANGED(setting_origins, auth.origins, 0, LIMIT_CONFIG_VALUE_BYTES),
     DEFAULT_SHOWN("", "none"),
     "Origins whose web pages may ask this node, such as `https://a.example:8443`. `*`: any."},
    {"http.tls-dir", RANGED(setting_directory, tls.dir, 0, TLS_DIR_BYTES),
     LIVE_SHOWN("", "none: plain HTTP"),
     "Directory with the certificate for HTTP and RESP, which then speak TLS alone: `tls.crt` "
     "(with the CAs up to the root), `tls.key` (mode 0600, no pass phrase), `ca.crt` (for "
     "`http.tls-client`)."},
    {"http.tls-client", VALUE(setting_tls_client, tls.client), LIVE("none"),
     "Certificates of clients: `none` are asked for; `optional`: one that is shown must be good; "
     "`required`: a client without one is refused."},
    {"http.loops", NUMBER(http.loops, 0, LIMIT_HTTP_LOOPS, NULL),
     DEFAULT_SHOWN("0", "0: one less than the processors, at least 1"), "Threads that serve HTTP."},
    {"http.idle-ms", NUMBER(http.idle_ms, 1, MAX_IDLE_MS, "ms"),
     DEFAULT(VALUE_OF(LIMIT_HTTP_IDLE_MS)),
     "A connection without a request for so long is closed; set it longer than a "
     "[proxy](operations.md#behind-a-proxy) keeps one. Also a bound of the 5 s for a head, and "
     "of the 10 s for a body or a stalled reply."},
    {"http.memory-bytes",
     RANGED(setting_bytes, http_memory_bytes, 16 << 20, LIMIT_HTTP_BUDGET_BYTES), DEFAULT("192MiB"),
     "Memory for bodies (a third; a twelfth for one client's large ones), replies (a third), "
     "incomplete requests (a sixth) and waiting ones (a sixth). Beyond it the slowest connection "
     "is closed. Each thread has at least 17MiB."},
    {"proxy.from", RANGED(setting_proxies, http.proxies, 0, LIMIT_CONFIG_VALUE_BYTES),
     DEFAULT_SHOWN("", "none"),
     "Proxies, such as `10.0.0.7,10.1.0.0/16`. Their connections must begin with a header of the "
     "[PROXY "
     "protocol](operations.md#the-proxy-protocol), and count for the client that it names."},
    {"auth.tokens-file", RANGED(setting_path, auth.tokens_file, 0, LIMIT_PATH_BYTES),
     DEFAULT_SHOWN("", "none"),
     "File with [tokens and their roles](operations.md#tokens), mode 0600. SIGHUP reads it again."},
    {"auth.anonymous", RANGED(setting_roles, auth.anonymous, 0, LIMIT_CONFIG_VALUE_BYTES),
     DEFAULT_SHOWN("", "health; without `auth.tokens-file`: all"),
     "Roles that need no token; `ids,health` suits clients of Leaf. Where it is set, leafd "
     "listens on addresses that other machines reach even without tokens."},
    {"quota", RANGED(setting_quota, quota, 0, QUOTA_MAX), DEFAULT("keys=25%,workers=25%,tags=25%"),
     "What one client without a line in the tokens file may take (an address, or an IPv6 /64). Of "
     "this node `requests-per-s`, `ids-per-s`, `connections`, and `bodies` at a time, unbounded "
     "by default; more get 429 `quota`. Of the cluster `keys`, `workers` and, of "
     "`data.memory-bytes`, `tags`; more get 429 `share`. The same on all nodes."},
    {"raft.election-ms", NUMBER(node.replica.driver.election_ms, 30, 60000, "ms"), DEFAULT("1000"),
     "A follower that hears no leader for a random time, one to two times this long, starts an "
     "election. Heartbeats come ten times as often. A request without "
     "`timeout_ms` waits three times as long, 3 to 10 s; a change of the members without progress "
     "for sixty times as long is abandoned. The same on all nodes."},
    {"raft.snapshot-entries",
     NUMBER(node.replica.driver.applier.snapshot_entries, 1, MAX_ENTRIES, "entries"),
     DEFAULT("8192"),
     "Applied entries after which the log is compacted. A quarter as many stay, for followers that "
     "are behind."},
    {"upgrade.hold-ms", RANGED(setting_hold, node.replica.upgrade, 0, MAX_HOLD_MS),
     DEFAULT("600000"),
     "The [level](versions.md) rises once all members have spoken the next one for so long; the "
     "leader's setting counts. `never`: only by `POST /api/cluster/level`."},
    {"segment.cover-ms", NUMBER(ids.allocator.cover_ms, 0, MAX_COVER_MS, "ms"),
     DEFAULT_SHOWN("0", "0: five times `raft.election-ms`, at least 5 s"),
     "How long a segment of a tag without `cover_s` lasts, within its `max_step`."},
    {"snowflake.workers", NUMBER(ids.lease.workers, 0, LIMIT_WORKERS_PER_NODE, NULL), DEFAULT("1"),
     "Worker ids that this node takes, each for as many ids a millisecond as the layout has "
     "sequences. 0: no snowflake ids here."},
    {"snowflake.worker-id", RANGED(setting_worker, ids.lease.fixed, 0, CONFIG_WORKER_ID_MAX),
     DEFAULT("any"),
     "This worker id alone. While another node holds it this one serves no snowflake ids, and its "
     "log names the holder."},
    {"snowflake.window-ms",
     NUMBER(ids.lease.window_ms, LIMIT_WINDOW_MIN_MS, LIMIT_WINDOW_MAX_MS, "ms"), DEFAULT("600000"),
     "How long this node hands out snowflake ids without a leader: every 3 s it is granted times "
     "that far ahead."},
    {"snowflake.clock-threshold-ms", NUMBER(ids.lease.threshold_ms, 1, 3600000, "ms"),
     DEFAULT("1000"),
     "A clock that is further off the nodes' median, or jumps ahead by more, is not trusted: 503 "
     "`clock_skew`."},
    {"snowflake.layout", VALUE(setting_layout, ids.lease.layout), DEFAULT("leaf"),
     "Bits of time, worker id and sequence: `leaf` (41+10+12), `js53` (41+6+6, fits a JavaScript "
     "number) or others; and as in `leaf@1577836800000` the Unix time in ms that times count from, "
     "else Leaf's, 1288834974657. Used at the cluster's first start; then the log knows it."},
    {"user", RANGED(setting_name, process.user, 0, LIMIT_USER_BYTES), DEFAULT_SHOWN("", "none"),
     "Started as root, leafd becomes this user before it opens anything. The user must own "
     "`data.dir` and be able to read all files. `root`: it stays root."},
    {"sandbox", VALUE(setting_sandbox, process.sandbox), DEFAULT("auto"),
     "Give up system calls and paths that a node does not need (seccomp, Landlock). `auto`: as far "
     "as the kernel can; `on`: all, or do not start; `debug`: `off`, with core dumps and debuggers "
     "(the memory holds secrets)."},
    {"log.level", VALUE(setting_level, log_level), LIVE("info"), "Lowest level that is logged."},
    {"log.format", VALUE(setting_format, log_format), LIVE("logfmt"),
     "Pairs `key=value`, or JSON objects of the same keys."},
    {"shutdown.delay-ms", NUMBER(shutdown.delay_ms, 0, 60000, "ms"), DEFAULT("0"),
     "How long to serve after a signal to stop while `/readyz` refuses, for load balancers. Then "
     "the handover of leadership and requests under way have 5 s."},
};

const size_t setting_count = sizeof settings / sizeof settings[0];
_Static_assert(sizeof settings / sizeof settings[0] <= CONFIG_SETTINGS_MAX, "too many settings");
_Static_assert(SNOWFLAKE_EPOCH_MS == 1288834974657, "snowflake.layout: adapt its meaning");

/* --- names --- */

const char *setting_spell(const char *name, enum config_source source, struct setting_text *out)
{
    bool shout = source == CONFIG_FROM_ENVIRONMENT;
    const char *prefix = shout ? CONFIG_ENVIRONMENT_PREFIX : source == CONFIG_FROM_FLAG ? "--" : "";
    int len = snprintf(out->text, sizeof out->text, "%s%s", prefix, name);

    ASSERT(len > 0 && (size_t)len < sizeof out->text);
    for (char *at = out->text + strlen(prefix); *at != '\0' && source != CONFIG_FROM_FILE; at++) {
        if (*at == '.' || *at == '-') {
            *at = shout ? '_' : '-';
        } else if (shout) {
            *at = (char)toupper((unsigned char)*at);
        }
    }
    return out->text;
}

size_t setting_find(const char *text, size_t len, enum config_source source)
{
    struct setting_text spelled;
    size_t row = 0;

    while (row < setting_count &&
           (strlen(setting_spell(settings[row].name, source, &spelled)) != len ||
            memcmp(spelled.text, text, len) != 0)) {
        row++;
    }
    return row;
}

size_t setting_row(const char *name)
{
    size_t row = setting_find(name, strlen(name), CONFIG_FROM_FILE);

    ASSERT(row < setting_count);
    return row;
}

bool setting_same(size_t row, const struct config *one, const struct config *other)
{
    const struct setting *setting = &settings[row];
    const char *text = one->origins[row].text;
    const char *other_text = other->origins[row].text;

    ASSERT(row < setting_count);
    if (setting->type->parse == parse_number) {
        return memcmp((const char *)one + setting->offset, (const char *)other + setting->offset,
                      setting->size) == 0;
    }
    return text == other_text ||
           (text != NULL && other_text != NULL && strcmp(text, other_text) == 0);
}

void config_where(const struct config *config, size_t row, struct buf *out)
{
    const struct config_origin *origin = &config->origins[row];
    struct setting_text name;

    if (origin->source == CONFIG_FROM_DEFAULT) {
        buf_printf(out, "default");
    } else if (origin->source == CONFIG_FROM_RULE) {
        buf_printf(out, "default, from other settings");
    } else if (origin->source == CONFIG_FROM_FILE) {
        buf_printf(out, "%s:%u", config->file, origin->line);
    } else {
        buf_printf(out, "%s", setting_spell(settings[row].name, origin->source, &name));
    }
}

int config_set(struct config *config, size_t row, const char *text, enum config_source source,
               unsigned line, struct config_error *ret_error)
{
    struct config_origin *origin = &config->origins[row];
    const struct setting *setting = &settings[row];
    BUF_LOCAL(rule);
    char *copy;

    ASSERT(row < setting_count);
    if (strlen(text) > LIMIT_CONFIG_VALUE_BYTES) {
        return config_fail(ret_error, "%s: the value is longer than %d bytes", setting->name,
                           LIMIT_CONFIG_VALUE_BYTES);
    }
    copy = MUST_HAVE(strdup(text)); /* a text field is set to it */
    ret_error->text[0] = '\0';
    if (setting->type->parse(setting, copy, (char *)config + setting->offset, ret_error) != 0) {
        if (ret_error->text[0] == '\0') {
            setting_rule(setting, &rule);
            (void)config_fail(ret_error, "%s is not valid: must be %s",
                              LOG_QUOTED(text, QUOTED_BYTES), buf_text(&rule));
        }
        free(copy);
        return config_fail_at(ret_error, "%s", setting->name);
    }
    free(origin->text);
    *origin = (struct config_origin){source, line, copy};
    return 0;
}

/* --- settings as people read them --- */

#define SOURCE_COLUMN 44
#define HELP_INDENT "      "
#define HELP_WIDTH 92

void config_print(const struct config *config, struct buf *out)
{
    size_t secret = setting_row("cluster.secret-file");

    for (size_t row = 0; row < setting_count; row++) {
        const char *text = config->origins[row].text;
        size_t start = out->len;
        size_t len;
        bool bare; /* as the config file's syntax has it */

        if (text == NULL) { /* the members, for a node that joins */
            buf_printf(out, "# %s is not set\n", settings[row].name);
            continue;
        }
        len = strlen(text);
        bare = len > 0 && strchr(text, '#') == NULL && text[0] != ' ' && text[len - 1] != ' ';
        ASSERT(strchr(text, '"') == NULL); /* no value has one in it */
        buf_printf(out, bare ? "%s = %s" : "%s = \"%s\"", settings[row].name, text);
        while (out->len - start < SOURCE_COLUMN) {
            buf_put(out, " ", 1);
        }
        buf_printf(out, " # ");
        config_where(config, row, out);
        if (row == secret && config->node.keys.secret_count > 0) {
            buf_printf(out, ", holds %zu secret%s, not shown", config->node.keys.secret_count,
                       config->node.keys.secret_count > 1 ? "s" : "");
        }
        buf_printf(out, "\n");
    }
}

/* Wrap a text of docs/configuration.md for a terminal into lines of the width; each starts with
 * `begin`. Without Markdown's backquotes; links without their targets. */
static void put_wrapped(const char *begin, const char *markdown, struct buf *out)
{
    BUF_LOCAL(plain);
    const char *link = NULL; /* the end of its words */
    const char *text;
    size_t column = 0;

    for (const char *at = markdown; *at != '\0'; at++) {
        if (at == link) {
            at = strchr(at, ')');
            ASSERT(at != NULL);
            link = NULL;
        } else if (*at == '[' && strchr(at, ']') != NULL && strchr(at, ']')[1] == '(') {
            link = strchr(at, ']');
        } else if (*at != '`') {
            buf_put(&plain, at, 1);
        }
    }
    text = buf_text(&plain);
    while (*text != '\0') {
        size_t word = strcspn(text, " ");

        if (column == 0 || column + 1 + word > HELP_WIDTH) {
            buf_printf(out, "%s%s", column > 0 ? "\n" : "", begin);
            column = strlen(begin);
        } else {
            buf_put(out, " ", 1);
            column++;
        }
        buf_put(out, text, word);
        column += word;
        text += word + (text[word] == ' ');
    }
    buf_put(out, "\n", 1);
}

/* The default in words; the mark encloses a value. */
static void put_default(const struct setting *setting, const char *mark, struct buf *out)
{
    if (setting->fallback == NULL) {
        buf_printf(out, "required");
    } else if (setting->fallback_doc != NULL) {
        buf_printf(out, "%s", setting->fallback_doc);
    } else {
        buf_printf(out, "%s%s%s", mark, setting->fallback, mark);
    }
}

/* "0..64; default: 0": the end of a setting's help. */
static void put_limits(const char *begin, const struct setting *setting, struct buf *out)
{
    BUF_LOCAL(line);

    setting_rule(setting, &line);
    buf_printf(&line, setting->fallback != NULL ? "; default: " : "; ");
    put_default(setting, "", &line);
    put_wrapped(begin, buf_text(&line), out);
}

void config_print_help(struct buf *out)
{
    buf_printf(
        out, "leafd - unique ids over HTTP, replicated by Raft\n"
             "\n"
             "usage: leafd [--config FILE] [--<setting> VALUE ...]\n"
             "       leafd restore FILE ...   make a new cluster from a backup; --help says more\n"
             "       leafd recover ...        make one from a node that is left of a majority\n"
             "       leafd readmit ...        remove the mark of a directory that was refused\n"
             "\n"
             "  --config FILE        read settings from FILE (or LEAFD_CONFIG)\n"
             "  --check-config       check the settings, and exit\n"
             "  --print-config       print all settings in force and where each came from\n"
             "  --print-config-example  print a config file with all of them, as comments\n"
             "  --print-config-doc   print the settings as a Markdown table\n"
             "  --new-secret         print a new secret for cluster.secret-file\n"
             "  --new-token          print a new token, and its line for auth.tokens-file\n"
             "  --version            print the version and those of the libraries\n"
             "  --help, -h           print this\n"
             "\n"
             "A setting comes from its flag, else its environment variable, else the config "
             "file, else\nits default. In the file: key = value, and # for comments.\n"
             "\n"
             "settings:\n");
    for (size_t row = 0; row < setting_count; row++) {
        const struct setting *setting = &settings[row];
        struct setting_text variable;
        struct setting_text flag;
        size_t len = strlen(setting_spell(settings[row].name, CONFIG_FROM_FLAG, &flag)) +
                     strlen(setting_spell(settings[row].name, CONFIG_FROM_ENVIRONMENT, &variable)) +
                     strlen(setting->name) + strlen("     file: ");

        /* The three names, on two lines if one would be too long. */
        buf_printf(out, "  %s   %s%sfile: %s\n", flag.text, variable.text,
                   len <= HELP_WIDTH ? "   " : "\n  ", setting->name);
        put_wrapped(HELP_INDENT, setting->meaning, out);
        put_limits(HELP_INDENT, setting, out);
    }
}

void config_print_example(struct buf *out)
{
    buf_printf(out,
               "# Settings of a node of leafd. Those below begin with # and have their defaults; "
               "take the #\n# away to set one. Flags and environment variables overrule this "
               "file; `leafd --help` has\n# their names. `leafd --config THIS_FILE "
               "--check-config` says whether all is well.\n");
    for (size_t row = 0; row < setting_count; row++) {
        const struct setting *setting = &settings[row];
        bool has_default = setting->fallback != NULL;

        buf_printf(out, "\n");
        put_wrapped("# ", setting->meaning, out);
        put_limits("# ", setting, out);
        if (setting->live) {
            buf_printf(out, "# SIGHUP changes it.\n");
        }
        buf_printf(out, "#%s =%s%s\n", setting->name, has_default && *setting->fallback ? " " : "",
                   has_default ? setting->fallback : "");
    }
}

void config_print_doc(struct buf *out)
{
    buf_printf(out, "| setting | values | default | meaning |\n"
                    "|---|---|---|---|\n");
    for (size_t row = 0; row < setting_count; row++) {
        const struct setting *setting = &settings[row];

        ASSERT(strchr(setting->meaning, '|') == NULL); /* it would end the cell */
        buf_printf(out, "| `%s` | ", setting->name);
        if (setting->type->brief != NULL) {
            buf_printf(out, "%s", setting->type->brief);
        } else {
            setting_rule(setting, out);
        }
        buf_printf(out, " | ");
        put_default(setting, "`", out);
        buf_printf(out, " | %s%s |\n", setting->meaning, setting->live ? " `SIGHUP`." : "");
    }
}
