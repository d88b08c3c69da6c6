/*
 * recovery.c - see recovery.h. Thread: main.
 */
#include "src/app/recovery/recovery.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "http/proto/text.h"
#include "src/app/recovery/fresh.h"
#include "src/app/recovery/options.h"
#include "src/app/recovery/read.h"
#include "src/app/recovery/renew.h"
#include "src/app/recovery/tell.h"
#include "src/base/clock.h"
#include "src/base/log.h"

static const char *const commands[] = {
    [OPTIONS_RESTORE] = "restore", [OPTIONS_RECOVER] = "recover"};

bool recovery_is_command(const char *argument)
{
    return strcmp(argument, commands[OPTIONS_RESTORE]) == 0 ||
           strcmp(argument, commands[OPTIONS_RECOVER]) == 0;
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

/* Another survivor must not know more. */
static int compare(const struct options *options, const struct reach *own,
                   struct store_error *ret_error)
{
    for (unsigned i = 0; i < options->compare_count; i++) {
        struct store_error error = {""};
        struct reach other;
        int err = read_reach(options->compare[i], &other, &error);

        if (err != 0) {
            return store_error_set(ret_error, err, "--compare: %.200s", error.text);
        }
        if (strcmp(other.cluster_id, own->cluster_id) != 0) {
            return store_error_set(ret_error, ERR_WRONG_NODE, "--compare %.100s is of cluster %s",
                                   options->compare[i], other.cluster_id);
        }
        if (other.term > own->term || (other.term == own->term && other.index > own->index)) {
            return store_error_set(
                ret_error, ERR_STALE,
                "%.80s knows more: its log ends at term %" PRIu64 ", index %" PRIu64
                ", this one's at %" PRIu64 ", %" PRIu64 ": recover from that one",
                options->compare[i], other.term, other.index, own->term, own->index);
        }
    }
    return 0;
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

/* True once the cluster's name was typed. */
static bool is_confirmed(const struct options *options, const struct saved *saved)
{
    char line[LIMIT_CLUSTER_ID_BYTES + 3] = "";

    if (options->command == OPTIONS_RESTORE || options->yes || options->dry_run) {
        return true;
    }
    printf("\nA new cluster begins with this, and what is lost is lost for good. Type the old\n"
           "cluster's name (%s) to go on: ",
           saved->cluster_id);
    (void)fflush(stdout);
    if (fgets(line, sizeof line, stdin) == NULL) {
        line[0] = '\0';
    }
    line[strcspn(line, "\r\n")] = '\0';
    return strcmp(line, saved->cluster_id) == 0;
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
    tell_limits(options, saved, now_ms, &text);
    err = say(&text);
    if (err != 0) {
        return err;
    }
    if (!is_confirmed(options, saved)) {
        return refuse(options, ERR_INVALID, "", "the cluster's name was not typed");
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

int recovery_run(char *const argv[])
{
    enum options_command command =
        strcmp(argv[1], commands[OPTIONS_RECOVER]) == 0 ? OPTIONS_RECOVER : OPTIONS_RESTORE;
    struct options_error error = {""};
    struct buf text = BUF_INIT;
    struct options options;

    log_setup(LOG_LEVEL_WARN, 0);
    if (options_read(command, argv + 2, &options, &error) != 0) {
        fprintf(stderr, "leafd %s: %s\n", commands[command], error.text);
        return ERR_INVALID;
    }
    if (options.help) {
        options_help(command, &text);
        return say(&text);
    }
    return run(&options);
}
