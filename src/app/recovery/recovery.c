/*
 * recovery.c - see recovery.h. Thread: main.
 */
#include "src/app/recovery/recovery.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "src/app/recovery/fresh.h"
#include "src/app/recovery/options.h"
#include "src/app/recovery/read.h"
#include "src/app/recovery/readmit.h"
#include "src/app/recovery/renew.h"
#include "src/app/recovery/tell.h"
#include "src/base/clock.h"
#include "src/base/log.h"

#define READMIT "readmit"

static const char *const commands[] = {
    [OPTIONS_RESTORE] = "restore", [OPTIONS_RECOVER] = "recover"};

bool recovery_is_command(const char *argument)
{
    return strcmp(argument, commands[OPTIONS_RESTORE]) == 0 ||
           strcmp(argument, commands[OPTIONS_RECOVER]) == 0 || strcmp(argument, READMIT) == 0;
}

/* Nothing was written. */
static int refuse(const struct options *options, int err, const char *about, const char *text)
{
    fprintf(stderr, "leafd %s: %s%s%s (nothing was written)\n", commands[options->command], about,
            about[0] != '\0' ? ": " : "", text);
    return err;
}

static int say(struct buf *text)
{
    bool said = fwrite(text->data, 1, text->len, stdout) == text->len && fflush(stdout) == 0;

    buf_free(text);
    return said ? 0 : ERR_IO;
}

/* --- what it is made of --- */

/* Names are mostly the same; a uid is not. */
static bool is_same_cluster(const struct reach *one, const struct reach *other)
{
    return strcmp(one->cluster_id, other->cluster_id) == 0 &&
           (uid_is_none(&one->uid) || uid_is_none(&other->uid) ||
            uid_equal(&one->uid, &other->uid));
}

/* Another survivor must be one, and not know more. */
static int compare_with(const char *dir, const struct reach *own, struct reach *ret_other,
                        struct store_error *ret_error)
{
    struct store_error error = {""};
    char uid[UID_TEXT_BYTES];
    int err = read_reach(dir, ret_other, &error);

    if (err != 0) {
        return store_error_set(ret_error, err, "--compare: %.200s", error.text);
    }
    if (!is_same_cluster(own, ret_other) || ret_other->node_id == own->node_id) {
        return store_error_set(ret_error, ERR_WRONG_NODE,
                               "--compare %.100s is of node %" PRIu64 " of cluster %s (uid %s)",
                               dir, ret_other->node_id, ret_other->cluster_id,
                               uid_text(&ret_other->uid, uid));
    }
    if (ret_other->term > own->term ||
        (ret_other->term == own->term && ret_other->index > own->index)) {
        return store_error_set(ret_error, ERR_STALE,
                               "%.80s knows more: its log ends at term %" PRIu64 ", index %" PRIu64
                               ", this one's at %" PRIu64 ", %" PRIu64 ": recover from that one",
                               dir, ret_other->term, ret_other->index, own->term, own->index);
    }
    return 0;
}

static bool is_among(const uint64_t ids[], unsigned count, uint64_t id)
{
    for (unsigned i = 0; i < count; i++) {
        if (ids[i] == id) {
            return true;
        }
    }
    return false;
}

/* Is it said of each member that it is here, or lost, and are too few here to go on without? */
static int check_members(const struct options *options, const struct reach *own,
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

/* What became of the other members. */
static int compare(const struct options *options, const struct reach *own,
                   struct store_error *ret_error)
{
    uint64_t here[1 + LIMIT_NODES] = {own->node_id};
    unsigned count = 1;

    for (unsigned i = 0; i < options->compare_count; i++) {
        struct reach other;
        int err = compare_with(options->compare[i], own, &other, ret_error);

        if (err != 0) {
            return err;
        }
        here[count++] = other.node_id;
    }
    return check_members(options, own, here, count, ret_error);
}

/* about: what an error is about. */
static int read_all(const struct options *options, struct saved *ret_saved, const char **ret_about,
                    struct store_error *ret_error)
{
    struct reach reach;
    int err;

    *ret_about = options->file;
    if (options->command == OPTIONS_RESTORE) {
        return read_backup(options->file, ret_saved, ret_error);
    }
    *ret_about = options->from_dir;
    err = read_survivor(options->from_dir, ret_saved, &reach, ret_error);
    if (err == 0) {
        err = compare(options, &reach, ret_error);
        if (err != 0) {
            saved_free(ret_saved);
        }
    }
    return err;
}

/* --- asking --- */

/* True once the cluster's uid was typed. */
static bool is_confirmed(const struct options *options, const struct saved *saved)
{
    char line[UID_TEXT_BYTES + 2] = "";
    char uid[UID_TEXT_BYTES];

    if (options->command == OPTIONS_RESTORE || options->yes || options->dry_run) {
        return true;
    }
    printf("\nA new cluster begins with this, and what is lost is lost for good. Type the old\n"
           "cluster's uid (%s) to go on: ",
           uid_text(&saved->uid, uid));
    (void)fflush(stdout);
    if (fgets(line, sizeof line, stdin) == NULL) {
        line[0] = '\0';
    }
    line[strcspn(line, "\r\n")] = '\0';
    return strcmp(line, uid) == 0;
}

/* --- all of it --- */

static struct fresh fresh_of(const struct options *options, const struct saved *saved,
                             const struct renewed *renewed)
{
    return (struct fresh){
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
}

/* The rows are ready: ask, write, tell. */
static int write_out(const struct options *options, const struct saved *saved,
                     const struct renewed *renewed, uint64_t now_ms)
{
    const struct fresh fresh = fresh_of(options, saved, renewed);
    struct store_error error = {""};
    struct buf text = BUF_INIT;
    uint64_t store_id = 0;
    int err = fresh.address[0] == '\0' ? store_error_set(&error, ERR_INVALID,
                                                         "its own address is not known: give "
                                                         "--peer-address")
                                       : fresh_check(options->to_dir, &error);

    if (err != 0) {
        return refuse(options, err, "", error.text);
    }
    tell_source(options, saved, renewed, now_ms, &text);
    tell_limits(options, saved, renewed, now_ms, &text);
    err = say(&text);
    if (err != 0) {
        return err;
    }
    if (!is_confirmed(options, saved)) {
        return refuse(options, ERR_INVALID, "", "the cluster's uid was not typed");
    }
    if (!options->dry_run) {
        err = fresh_write(&fresh, &store_id, &error);
    }
    if (err != 0) {
        return refuse(options, err, options->to_dir, error.text);
    }
    tell_result(options, &fresh, renewed, &text);
    return say(&text);
}

static int carry_out(const struct options *options, const struct saved *saved, const char *about)
{
    uint64_t now_ms = clock_wall_ms(clock_system());
    struct store_error error = {""};
    struct renewed renewed;
    struct buf text = BUF_INIT;
    int err;

    if (options->check) {
        tell_file(saved, now_ms, &text);
        return say(&text);
    }
    err = renew(saved, options, now_ms, &renewed, &error);
    if (err != 0) {
        return refuse(options, err, about, error.text);
    }
    err = write_out(options, saved, &renewed, now_ms);
    renewed_release(&renewed);
    return err;
}

static int run(const struct options *options)
{
    struct store_error error = {""};
    const char *about = "";
    struct saved saved;
    int err = read_all(options, &saved, &about, &error);

    if (err != 0) {
        return refuse(options, err, about, error.text);
    }
    err = carry_out(options, &saved, about);
    saved_free(&saved);
    return err;
}

/* What it reads, and where it writes. */
static void restrict_to(const struct options *options, const struct recovery_guard *guard)
{
    const char *directories[LIMIT_NODES + 2];
    size_t count = 0;

    if (options->from_dir != NULL) {
        directories[count++] = options->from_dir;
    }
    if (options->to_dir != NULL) {
        directories[count++] = options->to_dir;
    }
    for (unsigned i = 0; i < options->compare_count; i++) {
        directories[count++] = options->compare[i];
    }
    guard->restrict_to(options->file, directories, count);
}

int recovery_run(char *const argv[], const struct recovery_guard *guard)
{
    enum options_command command =
        strcmp(argv[1], commands[OPTIONS_RECOVER]) == 0 ? OPTIONS_RECOVER : OPTIONS_RESTORE;
    struct config_error error = {""};
    struct buf text = BUF_INIT;
    struct options options;

    log_setup(LOG_LEVEL_WARN, 0);
    if (strcmp(argv[1], READMIT) == 0) {
        return readmit_run(argv + 2, guard != NULL ? guard->restrict_to : NULL);
    }
    if (options_read(command, argv + 2, &options, &error) != 0) {
        fprintf(stderr, "leafd %s: %s\n", commands[command], error.text);
        return ERR_INVALID;
    }
    if (options.help) {
        options_help(command, &text);
        return say(&text);
    }
    if (guard != NULL) {
        restrict_to(&options, guard);
    }
    return run(&options);
}
