/*
 * options.c - see options.h. Thread: main.
 */
#include "src/app/recovery/options.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "http/proto/text.h"
#include "src/id/codec/tag.h"
#include "src/state/codec/cluster_command.h"

#define RAISE_TIME_MAX_MS (366ULL * 86400000)
#define FACTOR_MAX 1000000

/* --- values --- */

/* A flag, and the member that it sets. */
struct flag {
    const char *name;
    unsigned of; /* commands, a bit each */
    size_t at;   /* of the member */
    /* Take the value; NULL: the flag has none, and sets a bool. */
    int (*set)(struct options *options, const struct flag *flag, const char *value,
               struct config_error *ret_error);
    uint64_t min; /* of a number */
    uint64_t max;
};

static void *member_of(struct options *options, const struct flag *flag)
{
    return (char *)options + flag->at;
}

static int read_number(const struct flag *flag, const char *value, uint64_t *ret_number,
                       struct config_error *ret_error)
{
    if (text_parse_decimal(value, strlen(value), flag->min, flag->max, ret_number) != 0) {
        return config_fail(ret_error, "%s: \"%.60s\" is not a whole number from %llu to %llu",
                           flag->name, value, (unsigned long long)flag->min,
                           (unsigned long long)flag->max);
    }
    return 0;
}

static int set_number(struct options *options, const struct flag *flag, const char *value,
                      struct config_error *ret_error)
{
    return read_number(flag, value, member_of(options, flag), ret_error);
}

static int set_raise_ids(struct options *options, const struct flag *flag, const char *value,
                         struct config_error *ret_error)
{
    options->raise.by_ids = true;
    return set_number(options, flag, value, ret_error);
}

/* "90s", "15m", "1h", "2d". */
static int set_raise_time(struct options *options, const struct flag *flag, const char *value,
                          struct config_error *ret_error)
{
    static const struct {
        char unit;
        uint64_t ms;
    } units[] = {{'s', 1000}, {'m', 60000}, {'h', 3600000}, {'d', 86400000}};
    size_t len = strlen(value);
    uint64_t number = 0;

    options->raise.by_time = true;
    for (size_t i = 0; len > 1 && i < sizeof units / sizeof units[0]; i++) {
        if (value[len - 1] == units[i].unit &&
            text_parse_decimal(value, len - 1, 1, RAISE_TIME_MAX_MS / units[i].ms, &number) == 0) {
            options->raise.time_ms = number * units[i].ms;
            return 0;
        }
    }
    return config_fail(ret_error,
                       "%s: \"%.60s\" is not a time such as 90s, 15m, 1h or 2d (366d at most)",
                       flag->name, value);
}

static int set_lost(struct options *options, const struct flag *flag, const char *value,
                    struct config_error *ret_error)
{
    if (options->lost_count == LIMIT_NODES) {
        return config_fail(ret_error, "%s: given more than %d times", flag->name, LIMIT_NODES);
    }
    return read_number(flag, value, &options->lost[options->lost_count++], ret_error);
}

static int set_address(struct options *options, const struct flag *flag, const char *value,
                       struct config_error *ret_error)
{
    const char *why;

    options->peer_address = value;
    return member_address_check(value, strlen(value), &why)
               ? 0
               : config_fail(ret_error, "%s: \"%.60s\" is no address for the peers: %s", flag->name,
                             value, why);
}

static int set_cluster(struct options *options, const struct flag *flag, const char *value,
                       struct config_error *ret_error)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    size_t len = strlen(value);

    options->cluster_id = value;
    if (len < 1 || len > LIMIT_CLUSTER_ID_BYTES || strspn(value, letters) != len) {
        return config_fail(ret_error,
                           "%s: \"%.60s\" is not 1 to %d letters, digits, '.', '_' and '-'",
                           flag->name, value, LIMIT_CLUSTER_ID_BYTES);
    }
    return 0;
}

static int set_path(struct options *options, const struct flag *flag, const char *value,
                    struct config_error *ret_error)
{
    const char **path = member_of(options, flag);

    if (value[0] == '\0' || strlen(value) > LIMIT_PATH_BYTES) {
        return config_fail(ret_error, "%s: must be a path of 1 to %d bytes", flag->name,
                           LIMIT_PATH_BYTES);
    }
    if (path == options->compare) { /* the first of several */
        if (options->compare_count == LIMIT_NODES) {
            return config_fail(ret_error, "%s: given more than %d times", flag->name, LIMIT_NODES);
        }
        path += options->compare_count++;
    }
    *path = value;
    return 0;
}

/* --- flags --- */

#define OF_RESTORE (1u << OPTIONS_RESTORE)
#define OF_RECOVER (1u << OPTIONS_RECOVER)
#define OF_BOTH (OF_RESTORE | OF_RECOVER)
#define AT(member) offsetof(struct options, member)

static const struct flag flags[] = {
    {"--check", OF_RESTORE, AT(check), NULL, 0, 0},
    {"--dry-run", OF_BOTH, AT(dry_run), NULL, 0, 0},
    {"--yes", OF_RECOVER, AT(yes), NULL, 0, 0},
    {"--drop-keys", OF_BOTH, AT(drop_keys), NULL, 0, 0},
    {"--help", OF_BOTH, AT(help), NULL, 0, 0},
    {"--data-dir", OF_RESTORE, AT(to_dir), set_path, 0, 0},
    {"--data-dir", OF_RECOVER, AT(from_dir), set_path, 0, 0},
    {"--out", OF_RECOVER, AT(to_dir), set_path, 0, 0},
    {"--node-id", OF_BOTH, AT(node_id), set_number, 1, LIMIT_NODE_ID},
    {"--peer-address", OF_BOTH, AT(peer_address), set_address, 0, 0},
    {"--cluster-id", OF_BOTH, AT(cluster_id), set_cluster, 0, 0},
    {"--raise-ids", OF_BOTH, AT(raise.ids), set_raise_ids, 0, TAG_MAX_ID_END},
    {"--raise-time", OF_RESTORE, AT(raise.time_ms), set_raise_time, 0, 0},
    {"--raise-factor", OF_RESTORE, AT(raise.factor), set_number, 1, FACTOR_MAX},
    {"--compare", OF_RECOVER, AT(compare), set_path, 0, 0},
    {"--lost", OF_RECOVER, AT(lost), set_lost, 1, LIMIT_NODE_ID},
};

/* Which flag an argument is, up to its '='. NULL: none of this command. */
static const struct flag *find_flag(const struct options *options, const char *argument, size_t len)
{
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        if ((flags[i].of & 1u << options->command) != 0 && strlen(flags[i].name) == len &&
            memcmp(flags[i].name, argument, len) == 0) {
            return &flags[i];
        }
    }
    return NULL;
}

/* One argument, and the next one if that is its value: *ret_used. */
static int take(struct options *options, char *const argv[], unsigned *ret_used,
                struct config_error *ret_error)
{
    const char *argument = argv[0];
    size_t len = strcspn(argument, "=");
    const struct flag *flag = find_flag(options, argument, len);
    const char *value = argument[len] == '=' ? argument + len + 1 : argv[1];

    *ret_used = 1;
    if (argument[0] != '-' && options->command == OPTIONS_RESTORE && options->file == NULL) {
        options->file = argument;
        return 0;
    }
    if (flag == NULL) {
        return config_fail(ret_error, "unknown argument \"%.60s\"; --help lists them", argument);
    }
    if (flag->set == NULL) {
        *(bool *)member_of(options, flag) = true;
        return 0;
    }
    if (value == NULL) {
        return config_fail(ret_error, "%s: the value is missing", flag->name);
    }
    *ret_used = argument[len] == '=' ? 1 : 2;
    return flag->set(options, flag, value, ret_error);
}

/* --- what must be there --- */

static int check_raise(const struct options *options, struct config_error *ret_error)
{
    if (options->raise.by_ids || options->raise.by_time) {
        return 0;
    }
    return config_fail(
        ret_error,
        "say how far to raise each tag's max_id, by --raise-ids N%s: ids that were handed "
        "out %s are not known here, and would come again",
        options->command == OPTIONS_RESTORE ? " or --raise-time 1h (or both)" : "",
        options->command == OPTIONS_RESTORE ? "after the backup was taken" : "by the lost nodes");
}

static int check(const struct options *options, struct config_error *ret_error)
{
    if (options->command == OPTIONS_RESTORE && options->file == NULL) {
        return config_fail(ret_error, "name the backup: leafd restore FILE ...");
    }
    if (options->check) {
        return 0;
    }
    if (options->command == OPTIONS_RECOVER && options->from_dir == NULL) {
        return config_fail(ret_error, "--data-dir is missing: the survivor's directory");
    }
    if (options->to_dir == NULL) {
        return config_fail(ret_error, "%s is missing: an empty or new directory for the node",
                           options->command == OPTIONS_RESTORE ? "--data-dir" : "--out");
    }
    if (options->command == OPTIONS_RESTORE &&
        (options->node_id == 0 || options->peer_address == NULL)) {
        return config_fail(ret_error,
                           "%s is missing: the first node of the new cluster, as its settings "
                           "node.id and peer.advertise (or peer.listen) will be",
                           options->node_id == 0 ? "--node-id" : "--peer-address");
    }
    return check_raise(options, ret_error);
}

int options_read(enum options_command command, char *const argv[], struct options *ret_options,
                 struct config_error *ret_error)
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
