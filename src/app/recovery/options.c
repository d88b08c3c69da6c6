/*
 * options.c - see options.h. Thread: main.
 */
#include "src/app/recovery/options.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "http/proto/text.h"
#include "src/id/codec/member.h"
#include "src/id/codec/tag.h"

#define RAISE_TIME_MAX_MS (366ULL * 86400000)
#define FACTOR_MAX 1000000

static int fail(struct options_error *ret_error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static int fail(struct options_error *ret_error, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vsnprintf(ret_error->text, sizeof ret_error->text, format, args);
    va_end(args);
    return ERR_INVALID;
}

/* --- values --- */

static int read_number(const char *flag, const char *value, uint64_t min, uint64_t max,
                       uint64_t *ret_number, struct options_error *ret_error)
{
    if (text_parse_decimal(value, strlen(value), min, max, ret_number) != 0) {
        return fail(ret_error, "%s: \"%.60s\" is not a whole number from %llu to %llu", flag, value,
                    (unsigned long long)min, (unsigned long long)max);
    }
    return 0;
}

/* "90s", "15m", "1h", "2d". */
static int read_time(const char *flag, const char *value, uint64_t *ret_ms,
                     struct options_error *ret_error)
{
    static const struct {
        char unit;
        uint64_t ms;
    } units[] = {{'s', 1000}, {'m', 60000}, {'h', 3600000}, {'d', 86400000}};
    size_t len = strlen(value);
    uint64_t number = 0;

    for (size_t i = 0; len > 1 && i < sizeof units / sizeof units[0]; i++) {
        if (value[len - 1] == units[i].unit &&
            text_parse_decimal(value, len - 1, 1, RAISE_TIME_MAX_MS / units[i].ms, &number) == 0) {
            *ret_ms = number * units[i].ms;
            return 0;
        }
    }
    return fail(ret_error, "%s: \"%.60s\" is not a time such as 90s, 15m, 1h or 2d (366d at most)",
                flag, value);
}

static int read_address(const char *flag, const char *value, struct options_error *ret_error)
{
    const char *why;

    return member_address_check(value, strlen(value), &why)
               ? 0
               : fail(ret_error, "%s: \"%.60s\" is no address for the peers: %s", flag, value, why);
}

static int read_name(const char *flag, const char *value, struct options_error *ret_error)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    size_t len = strlen(value);

    if (len < 1 || len > LIMIT_CLUSTER_ID_BYTES || strspn(value, letters) != len) {
        return fail(ret_error, "%s: \"%.60s\" is not 1 to %d letters, digits, '.', '_' and '-'",
                    flag, value, LIMIT_CLUSTER_ID_BYTES);
    }
    return 0;
}

/* --- flags --- */

enum flag {
    FLAG_CHECK,
    FLAG_DRY_RUN,
    FLAG_YES,
    FLAG_DROP_KEYS,
    FLAG_HELP,
    FLAG_WITH_VALUE, /* those that follow */
    FLAG_DATA_DIR = FLAG_WITH_VALUE,
    FLAG_OUT,
    FLAG_NODE_ID,
    FLAG_PEER_ADDRESS,
    FLAG_CLUSTER_ID,
    FLAG_RAISE_IDS,
    FLAG_RAISE_TIME,
    FLAG_RAISE_FACTOR,
    FLAG_COMPARE,
    FLAG_LOST,
    FLAGS
};

#define OF_RESTORE (1u << OPTIONS_RESTORE)
#define OF_RECOVER (1u << OPTIONS_RECOVER)
#define OF_BOTH (OF_RESTORE | OF_RECOVER)

static const struct {
    const char *name;
    unsigned of;
} flags[FLAGS] = {
    [FLAG_CHECK] = {"--check", OF_RESTORE},
    [FLAG_DRY_RUN] = {"--dry-run", OF_BOTH},
    [FLAG_YES] = {"--yes", OF_RECOVER},
    [FLAG_DROP_KEYS] = {"--drop-keys", OF_BOTH},
    [FLAG_HELP] = {"--help", OF_BOTH},
    [FLAG_DATA_DIR] = {"--data-dir", OF_BOTH},
    [FLAG_OUT] = {"--out", OF_RECOVER},
    [FLAG_NODE_ID] = {"--node-id", OF_BOTH},
    [FLAG_PEER_ADDRESS] = {"--peer-address", OF_BOTH},
    [FLAG_CLUSTER_ID] = {"--cluster-id", OF_BOTH},
    [FLAG_RAISE_IDS] = {"--raise-ids", OF_BOTH},
    [FLAG_RAISE_TIME] = {"--raise-time", OF_RESTORE},
    [FLAG_RAISE_FACTOR] = {"--raise-factor", OF_RESTORE},
    [FLAG_COMPARE] = {"--compare", OF_RECOVER},
    [FLAG_LOST] = {"--lost", OF_RECOVER},
};

static int set_word(struct options *options, enum flag flag, struct options_error *ret_error)
{
    switch (flag) {
    case FLAG_CHECK:
        options->check = true;
        return 0;
    case FLAG_DRY_RUN:
        options->dry_run = true;
        return 0;
    case FLAG_YES:
        options->yes = true;
        return 0;
    case FLAG_DROP_KEYS:
        options->drop_keys = true;
        return 0;
    case FLAG_HELP:
        options->help = true;
        return 0;
    default:
        return fail(ret_error, "%s: the value is missing", flags[flag].name);
    }
}

static int set_raise(struct raise *raise, enum flag flag, const char *value,
                     struct options_error *ret_error)
{
    const char *name = flags[flag].name;
    uint64_t factor;

    if (flag == FLAG_RAISE_IDS) {
        raise->by_ids = true;
        return read_number(name, value, 0, TAG_MAX_ID_END, &raise->ids, ret_error);
    }
    if (flag == FLAG_RAISE_TIME) {
        raise->by_time = true;
        return read_time(name, value, &raise->time_ms, ret_error);
    }
    if (read_number(name, value, 1, FACTOR_MAX, &factor, ret_error) != 0) {
        return ERR_INVALID;
    }
    raise->factor = (uint32_t)factor;
    return 0;
}

static int set_place(struct options *options, enum flag flag, const char *value,
                     struct options_error *ret_error)
{
    const char *name = flags[flag].name;

    if (value[0] == '\0' || strlen(value) > LIMIT_PATH_BYTES) {
        return fail(ret_error, "%s: must be a path of 1 to %d bytes", name, LIMIT_PATH_BYTES);
    }
    if (flag == FLAG_COMPARE) {
        if (options->compare_count == LIMIT_NODES) {
            return fail(ret_error, "%s: given more than %d times", name, LIMIT_NODES);
        }
        options->compare[options->compare_count++] = value;
    } else if (flag == FLAG_OUT || options->command == OPTIONS_RESTORE) {
        options->to_dir = value;
    } else {
        options->from_dir = value;
    }
    return 0;
}

static int set_lost(struct options *options, const char *name, const char *value,
                    struct options_error *ret_error)
{
    if (options->lost_count == LIMIT_NODES) {
        return fail(ret_error, "%s: given more than %d times", name, LIMIT_NODES);
    }
    return read_number(name, value, 1, LIMIT_NODE_ID, &options->lost[options->lost_count++],
                       ret_error);
}

static int set_value(struct options *options, enum flag flag, const char *value,
                     struct options_error *ret_error)
{
    const char *name = flags[flag].name;

    switch (flag) {
    case FLAG_NODE_ID:
        return read_number(name, value, 1, LIMIT_NODE_ID, &options->node_id, ret_error);
    case FLAG_LOST:
        return set_lost(options, name, value, ret_error);
    case FLAG_PEER_ADDRESS:
        options->peer_address = value;
        return read_address(name, value, ret_error);
    case FLAG_CLUSTER_ID:
        options->cluster_id = value;
        return read_name(name, value, ret_error);
    case FLAG_RAISE_IDS:
    case FLAG_RAISE_TIME:
    case FLAG_RAISE_FACTOR:
        return set_raise(&options->raise, flag, value, ret_error);
    default:
        return set_place(options, flag, value, ret_error);
    }
}

/* Which flag an argument is, up to its '='. FLAGS: none of this command. */
static enum flag find_flag(const struct options *options, const char *argument, size_t len)
{
    for (unsigned i = 0; i < FLAGS; i++) {
        if ((flags[i].of & 1u << options->command) != 0 && strlen(flags[i].name) == len &&
            memcmp(flags[i].name, argument, len) == 0) {
            return (enum flag)i;
        }
    }
    return FLAGS;
}

/* One argument, and the next one if that is its value: *ret_used. */
static int take(struct options *options, char *const argv[], unsigned *ret_used,
                struct options_error *ret_error)
{
    const char *argument = argv[0];
    size_t len = strcspn(argument, "=");
    enum flag flag = find_flag(options, argument, len);
    const char *value = argument[len] == '=' ? argument + len + 1 : argv[1];

    *ret_used = 1;
    if (argument[0] != '-' && options->command == OPTIONS_RESTORE && options->file == NULL) {
        options->file = argument;
        return 0;
    }
    if (flag == FLAGS) {
        return fail(ret_error, "unknown argument \"%.60s\"; --help lists them", argument);
    }
    if (flag < FLAG_WITH_VALUE || value == NULL) {
        return set_word(options, flag, ret_error);
    }
    *ret_used = argument[len] == '=' ? 1 : 2;
    return set_value(options, flag, value, ret_error);
}

/* --- what must be there --- */

static int check_raise(const struct options *options, struct options_error *ret_error)
{
    if (options->raise.by_ids || options->raise.by_time) {
        return 0;
    }
    return fail(ret_error,
                "say how far to raise each tag's max_id, by --raise-ids N%s: ids that were handed "
                "out %s are not known here, and would come again",
                options->command == OPTIONS_RESTORE ? " or --raise-time 1h (or both)" : "",
                options->command == OPTIONS_RESTORE ? "after the backup was taken"
                                                    : "by the lost nodes");
}

static int check(const struct options *options, struct options_error *ret_error)
{
    if (options->command == OPTIONS_RESTORE && options->file == NULL) {
        return fail(ret_error, "name the backup: leafd restore FILE ...");
    }
    if (options->check) {
        return 0;
    }
    if (options->command == OPTIONS_RECOVER && options->from_dir == NULL) {
        return fail(ret_error, "--data-dir is missing: the survivor's directory");
    }
    if (options->to_dir == NULL) {
        return fail(ret_error, "%s is missing: an empty or new directory for the node",
                    options->command == OPTIONS_RESTORE ? "--data-dir" : "--out");
    }
    if (options->command == OPTIONS_RESTORE &&
        (options->node_id == 0 || options->peer_address == NULL)) {
        return fail(ret_error,
                    "%s is missing: the first node of the new cluster, as its settings "
                    "node.id and peer.advertise (or peer.listen) will be",
                    options->node_id == 0 ? "--node-id" : "--peer-address");
    }
    return check_raise(options, ret_error);
}

int options_read(enum options_command command, char *const argv[], struct options *ret_options,
                 struct options_error *ret_error)
{
    struct options options = {.command = command, .raise = {.factor = OPTIONS_FACTOR}};
    unsigned used;

    for (; *argv != NULL && !options.help; argv += used) {
        int err = take(&options, argv, &used, ret_error);

        if (err != 0) {
            return err;
        }
    }
    *ret_options = options;
    return options.help ? 0 : check(&options, ret_error);
}

static void help_both(struct buf *out)
{
    buf_printf(out, "  --cluster-id NAME    name the new cluster so; default: as it was\n"
                    "  --drop-keys          forget the idempotency keys (else they are kept)\n"
                    "  --dry-run            say what would be done, and write nothing\n"
                    "\n"
                    "docs/operations.md has all steps, one after the other.\n");
}

void options_help(enum options_command command, struct buf *out)
{
    if (command == OPTIONS_RESTORE) {
        buf_printf(out,
                   "usage: leafd restore FILE --data-dir DIR --node-id N --peer-address HOST:PORT\n"
                   "                     (--raise-ids N | --raise-time TIME) [...]\n"
                   "       leafd restore FILE --check\n"
                   "\n"
                   "Makes the data of the first node of a NEW cluster out of a backup (GET\n"
                   "/api/backup). FILE is checked as a whole first.\n"
                   "\n"
                   "  --check              only check FILE, and say what is in it\n"
                   "  --data-dir DIR       where to; empty, or not there yet\n"
                   "  --node-id N          the new node's id\n"
                   "  --peer-address A     the new node's address for its peers, host:port\n"
                   "  --raise-ids N        raise each tag's max_id by N\n"
                   "  --raise-time TIME    raise it by what the tag would grow in TIME (90s, 15m, "
                   "1h, 2d),\n"
                   "                       as fast as in the hour before the backup, times the "
                   "factor; of both\n"
                   "                       the larger counts\n"
                   "  --raise-factor N     that factor; default: %d\n",
                   OPTIONS_FACTOR);
    } else {
        buf_printf(out,
                   "usage: leafd recover --data-dir DIR --out DIR --raise-ids N --lost ID [...]\n"
                   "\n"
                   "Makes the data of the first node of a NEW cluster out of the directory of one\n"
                   "node that survived, where a majority of the others is lost for good. The\n"
                   "survivor must be stopped; its directory stays as it is.\n"
                   "\n"
                   "  --data-dir DIR       the survivor's\n"
                   "  --out DIR            where to; empty, or not there yet\n"
                   "  --compare DIR        of another survivor: refuse if that one knows more; "
                   "give all there are\n"
                   "  --lost ID            a member that is gone for good; every member must be "
                   "compared or named so\n"
                   "  --raise-ids N        raise each tag's max_id by N\n"
                   "  --node-id N          the new node's id; default: the survivor's\n"
                   "  --peer-address A     its address for its peers; default: the survivor's\n"
                   "  --yes                do not ask for the cluster's uid to be typed\n");
    }
    help_both(out);
}
