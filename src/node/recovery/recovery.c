/*
 * recovery.c - see recovery.h. Thread: main.
 */
#include "src/node/recovery/recovery.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "http/proto/text.h"
#include "raft/core/rollback.h"
#include "src/base/clock.h"
#include "src/base/log.h"
#include "src/base/process.h"
#include "src/id/codec/tag.h"
#include "src/state/codec/cluster_command.h"
#include "src/state/journal.h"
#include "storage/lmdb/store.h"

#define RAISE_TIME_MAX_MS (366ULL * 86400000)
#define FACTOR_MAX 1000000

/* --- values --- */

/* A flag, and the struct member that it sets. */
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

static int set_number(struct options *options, const struct flag *flag, const char *value,
                      struct config_error *ret_error)
{
    uint64_t *number = member_of(options, flag);

    if (number == options->lost) { /* the first of several */
        if (options->lost_count == LIMIT_NODES) {
            return config_fail(ret_error, "%s: given more than %d times", flag->name, LIMIT_NODES);
        }
        number += options->lost_count++;
    }
    if (text_parse_decimal(value, strlen(value), flag->min, flag->max, number) != 0) {
        return config_fail(ret_error, "%s: \"%.60s\" is not a whole number from %llu to %llu",
                           flag->name, value, (unsigned long long)flag->min,
                           (unsigned long long)flag->max);
    }
    return 0;
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

    for (size_t i = 0; len > 1 && i < sizeof units / sizeof units[0]; i++) {
        if (value[len - 1] == units[i].unit &&
            text_parse_decimal(value, len - 1, 1, RAISE_TIME_MAX_MS / units[i].ms, &number) == 0) {
            options->renew.raise.time_ms = number * units[i].ms;
            return 0;
        }
    }
    return config_fail(ret_error,
                       "%s: \"%.60s\" is not a time such as 90s, 15m, 1h or 2d (366d at most)",
                       flag->name, value);
}

static int set_address(struct options *options, const struct flag *flag, const char *value,
                       struct config_error *ret_error)
{
    const char *why;

    options->peer_address = value;
    return member_address_check(value, strlen(value), &why)
               ? 0
               : config_fail(ret_error, "%s: \"%.60s\" is not an address for the peers: %s",
                             flag->name, value, why);
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

    if (config_path_check(value, ret_error) != 0) {
        return config_fail_at(ret_error, "%s", flag->name);
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
#define OF_READMIT (1u << OPTIONS_READMIT)
#define OF_BOTH (OF_RESTORE | OF_RECOVER)
#define AT(member) offsetof(struct options, member)

static const struct flag flags[] = {
    {"--check", OF_RESTORE, AT(check), NULL, 0, 0},
    {"--dry-run", OF_BOTH, AT(dry_run), NULL, 0, 0},
    {"--yes", OF_RECOVER | OF_READMIT, AT(yes), NULL, 0, 0},
    {"--drop-keys", OF_BOTH, AT(renew.drop_keys), NULL, 0, 0},
    {"--help", OF_BOTH | OF_READMIT, AT(help), NULL, 0, 0},
    {"--data-dir", OF_RESTORE, AT(to_dir), set_path, 0, 0},
    {"--data-dir", OF_RECOVER | OF_READMIT, AT(from_dir), set_path, 0, 0},
    {"--out", OF_RECOVER, AT(to_dir), set_path, 0, 0},
    {"--node-id", OF_BOTH, AT(node_id), set_number, 1, LIMIT_NODE_ID},
    {"--peer-address", OF_BOTH, AT(peer_address), set_address, 0, 0},
    {"--cluster-id", OF_BOTH, AT(cluster_id), set_cluster, 0, 0},
    {"--raise-ids", OF_BOTH, AT(renew.raise.ids), set_number, 0, TAG_MAX_ID_END},
    {"--raise-time", OF_RESTORE, AT(renew.raise.time_ms), set_raise_time, 0, 0},
    {"--raise-factor", OF_RESTORE, AT(renew.raise.factor), set_number, 1, FACTOR_MAX},
    {"--compare", OF_RECOVER, AT(compare), set_path, 0, 0},
    {"--lost", OF_RECOVER, AT(lost), set_number, 1, LIMIT_NODE_ID},
};

/* --- required arguments --- */

static int options_check(const struct options *options, struct config_error *ret_error)
{
    if (options->command == OPTIONS_RESTORE && options->file == NULL) {
        return config_fail(ret_error, "name the backup: leafd restore FILE ...");
    }
    if (options->check) {
        return 0;
    }
    if (options->command != OPTIONS_RESTORE && options->from_dir == NULL) {
        return config_fail(ret_error, "--data-dir is missing: the %s",
                           options->command == OPTIONS_RECOVER ? "survivor's directory"
                                                               : "directory that was refused");
    }
    if (options->command == OPTIONS_READMIT) {
        return 0;
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
    if (options->renew.raise.by_ids || options->renew.raise.by_time) {
        return 0;
    }
    return config_fail(
        ret_error,
        "say how far to raise each tag's max_id, by --raise-ids N%s: ids that were handed "
        "out %s are not known here, and would come again",
        options->command == OPTIONS_RESTORE ? " or --raise-time 1h (or both)" : "",
        options->command == OPTIONS_RESTORE ? "after the backup was taken" : "by the lost nodes");
}

int options_read(enum options_command command, char *const argv[], struct options *ret_options,
                 struct config_error *ret_error)
{
    struct options options = {.command = command, .renew.raise = {.factor = OPTIONS_FACTOR}};

    for (; *argv != NULL && !options.help; argv++) {
        const char *argument = argv[0];
        size_t len = strcspn(argument, "=");
        const char *value = argument[len] == '=' ? argument + len + 1 : argv[1];
        const struct flag *flag = NULL;

        if ((argument[0] != '-' || argument[1] == '\0') && command == OPTIONS_RESTORE &&
            options.file == NULL) {
            options.file = argument;
            if (config_path_check(argument, ret_error) != 0) {
                return config_fail_at(ret_error, "FILE");
            }
            continue;
        }
        for (size_t i = 0; i < COUNT_OF(flags) && flag == NULL; i++) {
            if ((flags[i].of & 1u << command) != 0 && strlen(flags[i].name) == len &&
                memcmp(flags[i].name, argument, len) == 0) {
                flag = &flags[i];
            }
        }
        if (flag == NULL) {
            return config_fail(ret_error, "unknown argument \"%.60s\"; --help lists them",
                               argument);
        }
        if (flag->set == NULL) {
            *(bool *)member_of(&options, flag) = true;
            continue;
        }
        if (value == NULL) {
            return config_fail(ret_error, "%s: the value is missing", flag->name);
        }
        options.renew.raise.by_ids |= flag->at == AT(renew.raise.ids);
        options.renew.raise.by_time |= flag->at == AT(renew.raise.time_ms);
        if (flag->set(&options, flag, value, ret_error) != 0) {
            return ERR_INVALID;
        }
        argv += argument[len] != '='; /* the value was the next one */
    }
    *ret_options = options;
    return options.help ? 0 : options_check(&options, ret_error);
}

void options_help(enum options_command command, struct buf *out)
{
    if (command == OPTIONS_READMIT) {
        buf_printf(
            out,
            "usage: leafd readmit --data-dir DIR [--yes]\n"
            "\n"
            "Takes the mark off a data directory that was refused as an older copy (exit code "
            "76),\n"
            "so that its node may ask to be let in again. The node that refused it decides again.\n"
            "For a refusal that was wrong: compare what is printed with what the refusing node\n"
            "logged. The node must be stopped, and all other nodes should run.\n"
            "\n"
            "  --data-dir DIR       of the node\n"
            "  --yes                do not ask for the cluster's uid to be typed\n");
        return;
    }
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
    buf_printf(out, "  --cluster-id NAME    name the new cluster so; default: as it was\n"
                    "  --drop-keys          forget the idempotency keys (else they are kept)\n"
                    "  --dry-run            say what would be done, and write nothing\n"
                    "\n"
                    "docs/operations.md has all steps, one after the other.\n");
}

/* --- what is said --- */

#define SPAN_BYTES 32

/* "3 d 2 h", "2 h 5 min", "14 s". */
static const char *span(uint64_t ms, char out[SPAN_BYTES])
{
    uint64_t s = ms / 1000;

    if (s >= 86400) {
        (void)snprintf(out, SPAN_BYTES, "%" PRIu64 " d %" PRIu64 " h", s / 86400, s % 86400 / 3600);
    } else if (s >= 3600) {
        (void)snprintf(out, SPAN_BYTES, "%" PRIu64 " h %" PRIu64 " min", s / 3600, s % 3600 / 60);
    } else if (s >= 120) {
        (void)snprintf(out, SPAN_BYTES, "%" PRIu64 " min", s / 60);
    } else {
        (void)snprintf(out, SPAN_BYTES, "%" PRIu64 " s", s);
    }
    return out;
}

static uint64_t age_ms(const struct saved *saved, uint64_t now_ms)
{
    return saved->wall_ms != 0 && now_ms > saved->wall_ms ? now_ms - saved->wall_ms : 0;
}

static void put_backup(const struct saved *saved, uint64_t now_ms, struct buf *out)
{
    char uid[UID_TEXT_BYTES];
    char time[TEXT_TIME_BYTES];
    char age[SPAN_BYTES];

    buf_printf(out,
               "The backup is whole: cluster %s (uid %s), the state at index %" PRIu64
               " (term %" PRIu64 "),\ntaken by node %" PRIu64 " (leafd %s) at %s, %s ago.\n",
               saved->cluster_id, uid_text(&saved->uid, uid), saved->index, saved->term,
               saved->node_id, saved->version, text_time_rfc3339(saved->wall_ms, time),
               span(age_ms(saved, now_ms), age));
    if (saved->local) {
        buf_printf(
            out, "It was taken with consistency=local: the node asked no other node, and what the "
                 "others knew by then may be missing.\n");
    }
}

static void put_source(const struct options *options, const struct saved *saved,
                       const struct renewed *renewed, uint64_t now_ms, struct buf *out)
{
    char time[TEXT_TIME_BYTES];
    char uid[UID_TEXT_BYTES];

    if (options->command == OPTIONS_RESTORE) {
        put_backup(saved, now_ms, out);
    } else {
        buf_printf(out,
                   "The directory is whole: cluster %s (uid %s), node %" PRIu64
                   ".\nIts log ends at term %" PRIu64 ", index %" PRIu64 ".\n",
                   saved->cluster_id, uid_text(&saved->uid, uid), saved->node_id, saved->term,
                   saved->index);
        if (saved->tail > 0) {
            buf_printf(out,
                       "The last %" PRIu64 " entries may not have been acknowledged to anybody; "
                       "they count as if they were.\n",
                       saved->tail);
        }
        if (options->compare_count > 0) {
            buf_printf(out, "No survivor that it was compared with (%u) knows more.\n",
                       options->compare_count);
        }
        for (unsigned i = 0; i < options->lost_count; i++) {
            buf_printf(out, "Node %" PRIu64 " is taken for lost: it must never start again.\n",
                       options->lost[i]);
        }
    }
    buf_printf(out, "\n%zu tags:\n", renewed->tag_count);
    buf_put(out, renewed->tags.data, renewed->tags.len);
    if (renewed->exhausted > 0) {
        buf_printf(out,
                   "%zu tags are exhausted: the raise takes all ids below their max. If you know "
                   "the last\nid that was handed out of one, set max_id above it, and its max, "
                   "with force=1.\n",
                   renewed->exhausted);
    }
    if (renewed->workers > 0) {
        buf_printf(out, "%zu worker ids: all are released, and none may stamp a time up to %s.\n",
                   renewed->workers, text_time_rfc3339(now_ms, time));
    }
    if (renewed->keys > 0) {
        buf_printf(out, "%zu idempotency keys: %s\n", renewed->keys,
                   options->renew.drop_keys
                       ? "dropped; a request that repeats one gets other ids."
                       : "kept; a request that repeats one gets the same ids.");
    }
}

static void put_raise_limits(const struct options *options, const struct saved *saved,
                             const struct renewed *renewed, uint64_t now_ms, struct buf *out)
{
    const struct raise *raise = &options->renew.raise;
    uint64_t covered = raise->time_ms * raise->factor;
    uint64_t age = age_ms(saved, now_ms);
    char raised[SPAN_BYTES];
    char whole[SPAN_BYTES];
    char old[SPAN_BYTES];
    const char *since = options->command == OPTIONS_RESTORE ? "after the backup was taken"
                                                            : "by entries that only lost nodes had";

    buf_printf(out, "\nWhat the raise cannot cover, so that ids would come twice:\n");
    if (raise->by_ids) {
        buf_printf(out, "- Ids of a tag of which more than %" PRIu64 " were granted %s%s.\n",
                   raise->ids, since, raise->by_time ? ", where that is the larger raise" : "");
    }
    if (raise->by_time) { /* compare it with the backup's age */
        buf_printf(out,
                   "- Ids of a tag that grew, in the time from the backup to the end of the old "
                   "cluster, by more than\n  it would grow in %s as fast as measured, times "
                   "%" PRIu64 " (and by more than %" PRIu64 " of its largest segments).\n",
                   span(raise->time_ms, raised), raise->factor, raise->factor);
        if (age > covered) {
            buf_printf(out,
                       "  WARNING: the backup is %s old. At the measured rate that is more than "
                       "the raise covers (%s).\n  Unless the old cluster ended long ago, give a "
                       "longer --raise-time.\n",
                       span(age, old), span(covered, whole));
        } else if (age > raise->time_ms) {
            buf_printf(out,
                       "  The backup is %s old, longer than %s: only the factor covers the "
                       "rest.\n",
                       span(age, old), raised);
        }
    }
    buf_put(out, renewed->limits.data, renewed->limits.len);
    buf_printf(
        out,
        "- Tags that were made %s: they are not known here. Make each again\n"
        "  with a max_id above all that was handed out, and a secret shape with another text,\n"
        "  since its key is another one.\n"
        "- Texts of a tag with {key} whose key was changed more than once since.\n"
        "- Ids of a tag whose increment was raised since: the raise counts with the one that "
        "it has here.\n"
        "- Old nodes that still run: they continue to hand out what they hold. Stop "
        "all of them first.\n"
        "- Generators of snowflake ids that hold a worker id of the old cluster: let them "
        "acquire new ones.\n",
        since);
    if (options->command == OPTIONS_RECOVER) {
        buf_printf(out,
                   "\nWhat may be lost: everything that the lost nodes acknowledged and this one "
                   "does not have:\nchanges of tags (made, deleted, max_id, mode) after index "
                   "%" PRIu64 ".\n",
                   saved->index);
    } else {
        buf_printf(out, "\nWhat is lost: every change of a tag since the backup.\n");
    }
}

static void put_result(const struct options *options, const struct fresh *fresh,
                       const struct renewed *renewed, struct buf *out)
{
    char uid[UID_TEXT_BYTES];

    if (options->dry_run) {
        buf_printf(out, "\nA dry run: nothing was written.\n");
        return;
    }
    buf_printf(out,
               "\nWritten: %s has %zu rows, for node %" PRIu64
               " of a new cluster \"%s\"\n(uid %s), of "
               "which it is the only member.\n"
               "Next: start it (node.id=%" PRIu64 ", cluster.id=%s, its peer address %s);\n"
               "then start the other nodes with empty directories and join=%s.\n",
               fresh->dir, renewed->row_count, fresh->node_id, fresh->cluster_id,
               uid_text(&renewed->uid, uid), fresh->node_id, fresh->cluster_id, fresh->address,
               fresh->address);
}

/* --- talking to the operator --- */

static const char *const commands[] = {
    [OPTIONS_RESTORE] = "restore", [OPTIONS_RECOVER] = "recover", [OPTIONS_READMIT] = "readmit"};

/* Nothing was written. */
static int recovery_refuse(const struct options *options, int err, const char *about,
                           const char *text)
{
    fprintf(stderr, "leafd %s: %s%s%s (nothing was written)\n", commands[options->command], about,
            about[0] != '\0' ? ": " : "", text);
    return err;
}

static int print_and_free(struct buf *text)
{
    int err = process_print(text);

    buf_free(text);
    return err;
}

/* 0 once the operator has typed the cluster's uid, as the printed text asked. */
static int await_uid(const struct options *options, const char *uid)
{
    char line[UID_TEXT_BYTES + 2] = "";

    (void)fflush(stdout);
    if (fgets(line, sizeof line, stdin) == NULL) {
        line[0] = '\0';
    }
    line[strcspn(line, "\r\n")] = '\0';
    return strcmp(line, uid) == 0
               ? 0
               : recovery_refuse(options, ERR_INVALID, "", "the cluster's uid was not typed");
}

/* --- leafd readmit --- */

#define MAP_SPARE_BYTES (64ULL << 20) /* beyond what the data file has */

/* The content of the directory. */
struct readmit_found {
    struct saved saved; /* without rows */
    uint64_t newest;    /* of its starts: the count, and in the low bits a random number */
    uint64_t term;
    uint64_t vote;
    struct rollback memory;
};

/* Check all of it; then open it as its node would. */
static int open_marked(const char *dir, struct store **ret_store, struct readmit_found *found,
                       struct store_error *ret_error)
{
    struct store_lmdb_config config = {
        .use = STORE_LMDB_LOOK, .dir = dir, .map_bytes = 1 << 20, .loose_mode = true};
    struct store_space space;
    struct store_loaded loaded;
    struct incarnations incarnations;
    bool made;
    int err = read_survivor(dir, false, &found->saved, ret_error);

    err = err != 0 ? err : store_lmdb_open(&config, ret_store, &made, ret_error);
    if (err != 0) {
        return err;
    }
    (*ret_store)->ops->space(*ret_store, &space);
    (*ret_store)->ops->close(*ret_store);
    config.use = STORE_LMDB_NODE;
    config.map_bytes = (space.map_bytes + MAP_SPARE_BYTES) & ~UINT64_C(0xffff);
    config.identity.node_id = found->saved.node_id;
    (void)snprintf(config.identity.cluster_id, sizeof config.identity.cluster_id, "%s",
                   found->saved.cluster_id);
    err = store_lmdb_open(&config, ret_store, &made, ret_error);
    if (err != 0) {
        return err;
    }
    err = (*ret_store)->ops->load(*ret_store, &loaded, NULL, NULL, ret_error);
    if (err == 0) {
        const struct buf *peers = &loaded.locals[LOCAL_PEERS];
        const struct buf *starts = &loaded.locals[LOCAL_INCARNATIONS];

        found->term = loaded.term;
        found->vote = loaded.vote;
        if (incarnations_load(&incarnations, starts->data, starts->len) != 0) {
            err = store_error_set(ret_error, ERR_CORRUPT,
                                  "the list of starts is damaged or of another version");
        } else if (rollback_load(&found->memory, peers->data, peers->len) != 0) {
            err = store_error_set(ret_error, ERR_CORRUPT,
                                  "what is known of the peers is damaged or of another version");
        } else if (!found->memory.older) {
            err = store_error_set(ret_error, ERR_NOT_FOUND,
                                  "it is not marked: its node may be started as it is");
        } else {
            found->newest = incarnations_newest(&incarnations);
        }
        store_loaded_release(&loaded);
    }
    if (err != 0) {
        (*ret_store)->ops->close(*ret_store);
    }
    return err;
}

static int readmit(const struct options *options)
{
    struct store_op_list list = STAILQ_HEAD_INITIALIZER(list);
    struct store_op op = {.kind = STORE_LOCAL, .local_key = LOCAL_PEERS};
    struct readmit_found found = {.newest = 0};
    struct store_error error = {""};
    BUF_LOCAL(record);
    char uid[UID_TEXT_BYTES];
    struct store *store;
    int err = open_marked(options->from_dir, &store, &found, &error);

    if (err != 0) {
        return recovery_refuse(options, err, options->from_dir, error.text);
    }
    printf("node %" PRIu64 " of cluster %s, uid %s: marked as an older copy\n"
           "  start=%" PRIu64 " term=%" PRIu64 " last=%" PRIu64 " last_term=%" PRIu64
           " vote=%" PRIu64 "\n\n"
           "Compare this with \"the data directory of a peer is an older copy\" in the log of the "
           "node\nthat refused it. If it says true, stop here: while the nodes that know are away, "
           "this\ndirectory would be believed, acknowledged changes could be lost, and ids come "
           "again.\n",
           found.saved.node_id, found.saved.cluster_id, uid_text(&found.saved.uid, uid),
           found.newest >> PEER_INCARNATION_RANDOM_BITS, found.term, found.saved.index,
           found.saved.log_term, found.vote);
    err = process_print(NULL);
    if (err == 0 && !options->yes) {
        printf("\nType the cluster's uid to take the mark off: ");
        err = await_uid(options, uid_text(&found.saved.uid, uid));
    }
    if (err == 0) {
        found.memory.older = false;
        rollback_save(&found.memory, &record);
        op.local = record.data;
        op.local_len = (uint32_t)record.len;
        STAILQ_INSERT_TAIL(&list, &op, link);
        err = store->ops->commit(store, &list, &error);
        if (err != 0) {
            (void)recovery_refuse(options, err, options->from_dir, error.text);
        } else {
            (void)puts("the mark is off: start the node while all others run");
            err = process_print(NULL);
        }
    }
    store->ops->close(store);
    return err;
}

/* --- leafd restore, leafd recover --- */

static bool is_among(const uint64_t ids[], unsigned count, uint64_t id)
{
    for (unsigned i = 0; i < count; i++) {
        if (ids[i] == id) {
            return true;
        }
    }
    return false;
}

/* Is each member given as present or lost, and are too few present for the cluster to continue? */
static int check_members(const struct options *options, const struct saved *own,
                         const uint64_t here[], unsigned here_count, struct store_error *ret_error)
{
    unsigned voters = configuration_voters(&own->members);
    unsigned voters_here = 0;

    for (unsigned i = 0; i < options->lost_count; i++) {
        if (configuration_find(&own->members, options->lost[i]) == NULL) {
            return store_error_set(ret_error, ERR_INVALID,
                                   "--lost %" PRIu64 ": no member has this id", options->lost[i]);
        }
    }
    MEMBER_FOREACH (member, &own->members) {
        bool is_here = is_among(here, here_count, member->id);

        if (is_here == is_among(options->lost, options->lost_count, member->id)) {
            return store_error_set(
                ret_error, ERR_INVALID,
                is_here ? "--lost %" PRIu64 ": its directory is here"
                        : "member %" PRIu64 " is neither here nor lost: give its directory by "
                          "--compare, or its id by --lost if it is gone for good",
                member->id);
        }
        voters_here += is_here && member->role == ROLE_VOTER;
    }
    if (voters > 0 && voters_here >= voters / 2 + 1 && here_count > 1) {
        return store_error_set(ret_error, ERR_INVALID,
                               "the directories of %u of %u voters are here, which is a majority: "
                               "start these nodes, and nothing is lost",
                               voters_here, voters);
    }
    return 0;
}

/* The other members: present or lost. Another survivor must be of the same cluster, and its log
 * must not reach further. */
static int compare_survivors(const struct options *options, const struct saved *own,
                             struct store_error *ret_error)
{
    uint64_t here[1 + LIMIT_NODES] = {own->node_id};
    unsigned count = 1;

    for (unsigned i = 0; i < options->compare_count; i++) {
        const char *dir = options->compare[i];
        struct store_error error = {""};
        char uid[UID_TEXT_BYTES];
        struct saved other; /* without rows */
        int err = read_survivor(dir, false, &other, &error);

        if (err != 0) {
            return store_error_set(ret_error, err, "--compare: %.200s", error.text);
        }
        /* Cluster names are often the same; uids are not. */
        if (strcmp(own->cluster_id, other.cluster_id) != 0 ||
            (!uid_is_none(&own->uid) && !uid_is_none(&other.uid) &&
             !uid_equal(&own->uid, &other.uid)) ||
            other.node_id == own->node_id) {
            return store_error_set(ret_error, ERR_WRONG_NODE,
                                   "--compare %.100s is of node %" PRIu64 " of cluster %s (uid %s)",
                                   dir, other.node_id, other.cluster_id, uid_text(&other.uid, uid));
        }
        if (other.log_term > own->log_term ||
            (other.log_term == own->log_term && other.index > own->index)) {
            return store_error_set(ret_error, ERR_STALE,
                                   "%.80s knows more: its log ends at term %" PRIu64
                                   ", index %" PRIu64 ", this one's at %" PRIu64 ", %" PRIu64
                                   ": recover from that one",
                                   dir, other.log_term, other.index, own->log_term, own->index);
        }
        here[count++] = other.node_id;
    }
    return check_members(options, own, here, count, ret_error);
}

/* The rows are ready: ask, write, print the next steps. */
static int write_out(const struct options *options, const struct saved *saved,
                     const struct renewed *renewed, uint64_t now_ms)
{
    const struct fresh fresh = {
        .dir = options->to_dir,
        .cluster_id = options->cluster_id != NULL ? options->cluster_id : saved->cluster_id,
        .node_id = options->node_id != 0 ? options->node_id : saved->node_id,
        .address = options->peer_address != NULL ? options->peer_address : saved->address,
        .index = saved->index,
        .term = saved->term,
        .digest = renewed->digest,
        .rows = renewed->rows.data,
        .rows_len = renewed->rows.len,
    };
    struct store_error error = {""};
    char uid[UID_TEXT_BYTES];
    struct buf text = BUF_INIT;
    int err = fresh.address[0] == '\0' ? store_error_set(&error, ERR_INVALID,
                                                         "its own address is not known: give "
                                                         "--peer-address")
                                       : fresh_check(options->to_dir, &error);

    if (err == 0 && options->from_dir != NULL) {
        err = fresh_check_outside(options->to_dir, options->from_dir, &error);
    }
    for (unsigned i = 0; i < options->compare_count && err == 0; i++) {
        err = fresh_check_outside(options->to_dir, options->compare[i], &error);
    }
    if (err != 0) {
        return recovery_refuse(options, err, "", error.text);
    }
    put_source(options, saved, renewed, now_ms, &text);
    put_raise_limits(options, saved, renewed, now_ms, &text);
    err = print_and_free(&text);
    if (err != 0) {
        return err;
    }
    if (options->command == OPTIONS_RECOVER && !options->yes && !options->dry_run) {
        printf("\nA new cluster begins with this, and what is lost is lost for good. Type the old\n"
               "cluster's uid (%s) to continue: ",
               uid_text(&saved->uid, uid));
        err = await_uid(options, uid);
        if (err != 0) {
            return err;
        }
    }
    if (!options->dry_run) {
        err = fresh_write(&fresh, &error);
    }
    if (err != 0) {
        return recovery_refuse(options, err, options->to_dir, error.text);
    }
    put_result(options, &fresh, renewed, &text);
    return print_and_free(&text);
}

static int recover_or_restore(const struct options *options)
{
    uint64_t now_ms = clock_wall_ms(clock_system());
    struct store_error error = {""};
    struct buf text = BUF_INIT;
    bool restores = options->command == OPTIONS_RESTORE;
    const char *about = restores ? options->file : options->from_dir; /* of errors */
    struct renewed renewed;
    struct saved saved;
    size_t tags = 0;
    size_t measured = 0;
    int err = restores ? read_backup(options->file, &saved, &error)
                       : read_survivor(options->from_dir, true, &saved, &error);

    if (err == 0 && !restores) {
        err = compare_survivors(options, &saved, &error);
        if (err != 0) {
            saved_free(&saved);
        }
    }
    if (err != 0) {
        return recovery_refuse(options, err, about, error.text);
    }
    if (options->check) {
        for (size_t i = 0; i < saved.count; i++) {
            if (saved.rows[i].key[0] == FSM_TABLE_TAGS) {
                tags++;
                measured += saved.rows[i].span_ms > 0;
            }
        }
        put_backup(&saved, now_ms, &text);
        buf_printf(&text,
                   "%zu rows, %zu of them tags (deleted ones too); how fast %zu of these grew is "
                   "known.\n",
                   saved.count, tags, measured);
        err = print_and_free(&text);
    } else {
        err = renew(&saved, &options->renew, now_ms, &renewed, &error);
        if (err != 0) {
            err = recovery_refuse(options, err, about, error.text);
        } else {
            err = write_out(options, &saved, &renewed, now_ms);
            renewed_release(&renewed);
        }
    }
    saved_free(&saved);
    return err;
}

static size_t command_named(const char *argument)
{
    size_t i = 0;

    while (i < COUNT_OF(commands) && strcmp(argument, commands[i]) != 0) {
        i++;
    }
    return i;
}

bool recovery_is_command(const char *argument)
{
    return command_named(argument) < COUNT_OF(commands);
}

int recovery_run(char *const argv[], recovery_restrict_fn *restrict_to)
{
    enum options_command command = (enum options_command)command_named(argv[1]);
    struct config_error error = {""};
    struct buf text = BUF_INIT;
    const char *directories[LIMIT_NODES + 2]; /* that it reads or writes */
    struct options options;
    size_t count = 0;

    log_setup(LOG_LEVEL_WARN, 0);
    if (options_read(command, argv + 2, &options, &error) != 0) {
        fprintf(stderr, "leafd %s: %s\n", commands[command], error.text);
        return ERR_INVALID;
    }
    if (options.help) {
        options_help(command, &text);
        return print_and_free(&text);
    }
    if (options.from_dir != NULL) {
        directories[count++] = options.from_dir;
    }
    if (options.to_dir != NULL) {
        directories[count++] = options.to_dir;
    }
    for (unsigned i = 0; i < options.compare_count; i++) {
        directories[count++] = options.compare[i];
    }
    if (restrict_to != NULL) {
        restrict_to(options.file, directories, count);
    }
    return command == OPTIONS_READMIT ? readmit(&options) : recover_or_restore(&options);
}
