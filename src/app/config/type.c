/*
 * type.c - see type.h.
 */
#include "src/app/config/type.h"

#include <inttypes.h>
#include <string.h>

#include "src/app/config/word.h"
#include "src/base/assert.h"

#define QUOTED_BYTES 160 /* of a value in an error text; the rest is cut */

struct setting_type {
    /* Put the value into the field. ERR_INVALID: the text breaks the rule or, if *why is not empty,
     * that is what is wrong with it; the field is as it was. */
    int (*parse)(const struct setting *setting, const char *text, void *field,
                 struct config_error *why);
    /* The rule: this, then the range if there is something to put between its ends. */
    const char *rule;
    const char *between;
    const char *behind;
};

static const struct {
    const char *text;
    unsigned shift;
} byte_units[] = {{"TiB", 40}, {"GiB", 30}, {"MiB", 20}, {"KiB", 10}, {"", 0}};

/* An end of the range; bytes with the largest unit that divides them. */
static void put_end(const struct setting *setting, uint64_t end, struct buf *out)
{
    unsigned i = 0;

    if (setting->type != &setting_bytes) {
        buf_printf(out, "%" PRIu64, end);
        return;
    }
    while (end >> byte_units[i].shift << byte_units[i].shift != end) {
        i++;
    }
    buf_printf(out, "%" PRIu64 "%s", end >> byte_units[i].shift, byte_units[i].text);
}

void setting_rule(const struct setting *setting, struct buf *out)
{
    const struct setting_type *type = setting->type;

    buf_printf(out, "%s", type->rule);
    if (type->between != NULL) {
        put_end(setting, setting->min, out);
        buf_printf(out, "%s", type->between);
        put_end(setting, setting->max, out);
        buf_printf(out, "%s", type->behind);
    }
    if (setting->unit != NULL) {
        buf_printf(out, " %s", setting->unit);
    }
}

int setting_parse(const struct setting *setting, const char *text, struct config *config,
                  struct config_error *ret_error)
{
    char quoted[QUOTED_BYTES];
    struct buf rule = BUF_INIT;

    ret_error->text[0] = '\0';
    if (setting->type->parse(setting, text, (char *)config + setting->offset, ret_error) == 0) {
        return 0;
    }
    if (ret_error->text[0] == '\0') {
        setting_rule(setting, &rule);
        (void)config_fail(ret_error, "%s is not valid: must be %.*s",
                          log_quote(text, strlen(text), quoted, sizeof quoted), (int)rule.len,
                          (const char *)rule.data);
        buf_free(&rule);
    }
    return config_fail_at(ret_error, "%s", setting->name);
}

static bool in_range(const struct setting *setting, uint64_t value)
{
    return value >= setting->min && value <= setting->max;
}

/* --- numbers and words --- */

/* What a unit of bytes multiplies by, as a shift; -1: it is none. */
static int shift_of(const char *unit)
{
    for (size_t i = 0; i < sizeof byte_units / sizeof byte_units[0]; i++) {
        if (strcmp(unit, byte_units[i].text) == 0) {
            return (int)byte_units[i].shift;
        }
    }
    return -1;
}

static int parse_number(const struct setting *setting, const char *text, void *field,
                        struct config_error *why)
{
    size_t digits = strspn(text, "0123456789");
    int shift = shift_of(text + digits);
    uint64_t number;

    (void)why;
    if (shift < 0 || (setting->type != &setting_bytes && text[digits] != '\0') ||
        !word_digits(text, digits, &number) || number > UINT64_MAX >> shift ||
        !in_range(setting, number << shift)) {
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

static int parse_boolean(const struct setting *setting, const char *text, void *field,
                         struct config_error *why)
{
    bool is_true = strcmp(text, "true") == 0;

    (void)setting;
    (void)why;
    if (!is_true && strcmp(text, "false") != 0) {
        return ERR_INVALID;
    }
    *(bool *)field = is_true;
    return 0;
}

static int parse_level(const struct setting *setting, const char *text, void *field,
                       struct config_error *why)
{
    (void)setting;
    (void)why;
    return log_level_parse(text, field);
}

/* --- texts --- */

/* Control characters could forge a line of the log; a double quote has no way into the config
 * file. */
static bool is_printable(const char *text)
{
    while ((unsigned char)*text >= 0x20 && *text != 0x7f && *text != '"') {
        text++;
    }
    return *text == '\0';
}

static int parse_text(const struct setting *setting, const char *text, void *field,
                      struct config_error *why)
{
    struct word_address address;

    if (!in_range(setting, strlen(text)) || !is_printable(text) ||
        (setting->type == &setting_name && !word_is_name(text)) ||
        (setting->type == &setting_address && text[0] != '\0' &&
         word_address(text, &address, why) != 0)) {
        return ERR_INVALID;
    }
    *(const char **)field = text;
    return 0;
}

/* --- lists of nodes --- */

/* "id=host:port", or "host:port" of a target. */
static int parse_peer(const char *item, bool with_id, struct net_peer *ret_peer,
                      struct config_error *why)
{
    const char *equals = with_id ? strchr(item, '=') : NULL;
    const char *address = equals != NULL ? equals + 1 : item;
    struct word_address parts;
    char quoted[QUOTED_BYTES];

    if (with_id && (equals == NULL || !word_digits(item, (size_t)(equals - item), &ret_peer->id) ||
                    ret_peer->id < 1 || ret_peer->id > LIMIT_NODE_ID)) {
        return config_fail(why, "%s is not id=host:port with an id in 1..%d",
                           log_quote(item, strlen(item), quoted, sizeof quoted), LIMIT_NODE_ID);
    }
    if (word_address(address, &parts, why) != 0) {
        return ERR_INVALID;
    }
    ASSERT(strlen(address) < sizeof ret_peer->address);
    memcpy(ret_peer->address, address, strlen(address) + 1);
    return 0;
}

/* The last member against those before it. */
static int check_new(const struct node_peers *members, struct config_error *why)
{
    const struct net_peer *last = &members->peers[members->count - 1];

    for (const struct net_peer *other = members->peers; other < last; other++) {
        if (other->id == last->id) {
            return config_fail(why, "id %" PRIu64 " is given twice", last->id);
        }
        if (strcmp(other->address, last->address) == 0) {
            return config_fail(why, "ids %" PRIu64 " and %" PRIu64 " have the same address %s",
                               other->id, last->id, last->address);
        }
    }
    return 0;
}

/* Cut the blanks off both ends. */
static char *trim(char *item)
{
    char *end = item + strlen(item);

    while (end > item && (end[-1] == ' ' || end[-1] == '\t')) {
        *--end = '\0';
    }
    return item + strspn(item, " \t");
}

static int parse_peers(const struct setting *setting, const char *text, void *field,
                       struct config_error *why)
{
    bool with_id = setting->type == &setting_members;
    char list[LIMIT_CONFIG_VALUE_BYTES + 1];
    char *rest = text[0] == '\0' && setting->min == 0 ? NULL : list;
    struct node_peers peers = {0};
    char *item;

    ASSERT(strlen(text) < sizeof list);
    memcpy(list, text, strlen(text) + 1);
    while ((item = strsep(&rest, ",")) != NULL) {
        if (peers.count == setting->max) {
            (void)config_fail(why, "more than %" PRIu64 " %s", setting->max,
                              with_id ? "members" : "addresses");
            return ERR_INVALID;
        }
        if (parse_peer(trim(item), with_id, &peers.peers[peers.count++], why) != 0 ||
            (with_id && check_new(&peers, why) != 0)) {
            return ERR_INVALID;
        }
    }
    *(struct node_peers *)field = peers;
    return 0;
}

/* --- the layout of snowflake ids --- */

/* "41+10+12": three numbers of at most two digits. */
static bool parse_bits(const char *text, struct snowflake_layout *ret_layout)
{
    uint8_t *const fields[] = {&ret_layout->time_bits, &ret_layout->worker_bits,
                               &ret_layout->sequence_bits};

    for (unsigned i = 0; i < 3; i++) {
        size_t len = strcspn(text, "+");
        uint64_t bits;

        if (len > 2 || !word_digits(text, len, &bits) || text[len] != (i < 2 ? '+' : '\0')) {
            return false;
        }
        *fields[i] = (uint8_t)bits;
        text += len + 1;
    }
    return ret_layout->time_bits > 0;
}

/* The bits alone: the epoch is a setting of its own, and held against the clock when all is read.
 */
static int parse_layout(const struct setting *setting, const char *text, void *field,
                        struct config_error *why)
{
    struct snowflake_layout layout = {0};
    struct snowflake_layout *to = field;
    char quoted[QUOTED_BYTES];
    const char *rule;

    (void)setting;
    if (strcmp(text, "leaf") == 0) {
        layout = (struct snowflake_layout)SNOWFLAKE_LEAF_LAYOUT;
    } else if (strcmp(text, "js53") == 0) {
        layout = (struct snowflake_layout)SNOWFLAKE_JS53_LAYOUT;
    } else if (!parse_bits(text, &layout)) {
        return ERR_INVALID;
    }
    if (snowflake_layout_check(&layout, layout.epoch_ms, &rule) != 0) {
        return config_fail(why, "%s is not valid: %s",
                           log_quote(text, strlen(text), quoted, sizeof quoted), rule);
    }
    layout.epoch_ms = to->epoch_ms;
    *to = layout;
    return 0;
}

const struct setting_type setting_number = {parse_number, "", "..", ""};
const struct setting_type setting_bytes = {parse_number, "", "..", ""};
const struct setting_type setting_boolean = {.parse = parse_boolean, .rule = "true or false"};
const struct setting_type setting_level = {.parse = parse_level,
                                           .rule = "debug, info, warn or error"};
const struct setting_type setting_name = {parse_text, "", " to ", " of A-Z a-z 0-9 . _ -"};
const struct setting_type setting_path = {parse_text, "a path of ", " to ",
                                          " bytes, without control characters and quotes"};
const struct setting_type setting_address = {.parse = parse_text,
                                             .rule = "host:port or [IPv6]:port, port 1..65535"};
const struct setting_type setting_members = {parse_peers, "", " to ",
                                             " of id=host:port, separated by commas"};
const struct setting_type setting_targets = {parse_peers, "", " to ",
                                             " of host:port, separated by commas"};
const struct setting_type setting_layout = {
    .parse = parse_layout,
    .rule = "leaf (41+10+12), js53 (41+6+6), or bits of time+worker+sequence (39..45, 1..10, "
            "4..16, together at most 63)"};
