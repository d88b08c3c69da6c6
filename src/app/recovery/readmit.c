/*
 * readmit.c - see readmit.h. Thread: main.
 */
#include "src/app/recovery/readmit.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "raft/core/incarnations.h"
#include "raft/core/rollback.h"
#include "src/app/recovery/read.h"
#include "storage/lmdb/store.h"

#define MAP_SPARE_BYTES (64ULL << 20) /* beyond what the data file has */

struct readmit_options {
    const char *dir; /* borrowed from the arguments */
    bool yes;
    bool help;
};

/* What is in the directory. */
struct readmit_found {
    struct reach reach;
    uint64_t newest; /* of its starts: the count, and below it the random half */
    uint64_t term;
    uint64_t vote;
    struct rollback memory;
};

static int refuse(int err, const char *about, const char *text)
{
    fprintf(stderr, "leafd readmit: %s%s%s (nothing was written)\n", about,
            about[0] != '\0' ? ": " : "", text);
    return err;
}

/* --- the command line --- */

static int read_options(char *const argv[], struct readmit_options *ret_options)
{
    *ret_options = (struct readmit_options){.dir = NULL};
    for (; *argv != NULL; argv++) {
        if (strcmp(*argv, "--help") == 0) {
            ret_options->help = true;
            return 0;
        }
        if (strcmp(*argv, "--yes") == 0) {
            ret_options->yes = true;
        } else if (strncmp(*argv, "--data-dir=", 11) == 0) {
            ret_options->dir = *argv + 11;
        } else if (strcmp(*argv, "--data-dir") == 0 && argv[1] != NULL) {
            ret_options->dir = *++argv;
        } else {
            fprintf(stderr, "leafd readmit: unknown argument \"%.60s\"; --help lists them\n",
                    *argv);
            return ERR_INVALID;
        }
    }
    if (ret_options->dir == NULL || ret_options->dir[0] == '\0' ||
        strlen(ret_options->dir) > LIMIT_PATH_BYTES) {
        return refuse(ERR_INVALID, "--data-dir",
                      "is missing, or no path: the directory that was refused");
    }
    return 0;
}

static int help(void)
{
    static const char text[] =
        "usage: leafd readmit --data-dir DIR [--yes]\n"
        "\n"
        "Takes the mark off a data directory that was refused as an older copy (exit code 76),\n"
        "so that its node may ask to be let in again. Who refused it decides again. For a\n"
        "refusal that was wrong: compare what is printed with what the refusing node logged.\n"
        "The node must be stopped, and all other nodes should run.\n"
        "\n"
        "  --data-dir DIR       of the node\n"
        "  --yes                do not ask for the cluster's uid to be typed\n";

    return fputs(text, stdout) < 0 || fflush(stdout) != 0 ? ERR_IO : 0;
}

/* --- what is there --- */

static int take(const struct store_loaded *loaded, struct readmit_found *found,
                struct store_error *ret_error)
{
    const struct buf *peers = &loaded->locals[LOCAL_PEERS];
    const struct buf *starts = &loaded->locals[LOCAL_INCARNATIONS];
    struct incarnations incarnations;

    if (incarnations_load(&incarnations, starts->data, starts->len) != 0) {
        return store_error_set(ret_error, ERR_CORRUPT,
                               "the list of starts is damaged or of another version");
    }
    found->newest = incarnations_newest(&incarnations);
    found->term = loaded->term;
    found->vote = loaded->vote;
    if (rollback_load(&found->memory, peers->data, peers->len) != 0) {
        return store_error_set(ret_error, ERR_CORRUPT,
                               "what is known of the peers is damaged or of another version");
    }
    return found->memory.older
               ? 0
               : store_error_set(ret_error, ERR_NOT_FOUND,
                                 "it is not marked: its node may be started as it is");
}

/* Look at all of it; then open it as its node would. */
static int open_marked(const char *dir, struct store **ret_store, struct readmit_found *found,
                       struct store_error *ret_error)
{
    struct store_lmdb_config config = {
        .use = STORE_LMDB_LOOK, .dir = dir, .map_bytes = 1 << 20, .loose_mode = true};
    struct store_space space;
    struct store_loaded loaded;
    bool made;
    int err = read_reach(dir, &found->reach, ret_error);

    err = err != 0 ? err : store_lmdb_open(&config, ret_store, &made, ret_error);
    if (err != 0) {
        return err;
    }
    (*ret_store)->ops->space(*ret_store, &space);
    (*ret_store)->ops->close(*ret_store);
    config.use = STORE_LMDB_NODE;
    config.map_bytes = (space.map_bytes + MAP_SPARE_BYTES) & ~UINT64_C(0xffff);
    config.identity.node_id = found->reach.node_id;
    (void)snprintf(config.identity.cluster_id, sizeof config.identity.cluster_id, "%s",
                   found->reach.cluster_id);
    err = store_lmdb_open(&config, ret_store, &made, ret_error);
    if (err != 0) {
        return err;
    }
    err = (*ret_store)->ops->load(*ret_store, &loaded, NULL, NULL, ret_error);
    if (err == 0) {
        err = take(&loaded, found, ret_error);
        store_loaded_release(&loaded);
    }
    if (err != 0) {
        (*ret_store)->ops->close(*ret_store);
    }
    return err;
}

/* --- asking --- */

static int tell(const struct readmit_found *found)
{
    char uid[UID_TEXT_BYTES];

    printf("node %" PRIu64 " of cluster %s, uid %s: marked as an older copy\n"
           "  start=%" PRIu64 " term=%" PRIu64 " last=%" PRIu64 " last_term=%" PRIu64
           " vote=%" PRIu64 "\n\n"
           "Compare this with \"the data directory of a peer is an older copy\" in the log of the "
           "node\nthat refused it. If it says true, do not go on: while those who know are away, "
           "this\ndirectory would be believed, acknowledged changes could be lost, and ids come "
           "again.\n",
           found->reach.node_id, found->reach.cluster_id, uid_text(&found->reach.uid, uid),
           found->newest >> PEER_INCARNATION_RANDOM_BITS, found->term, found->reach.index,
           found->reach.term, found->vote);
    return fflush(stdout) == 0 ? 0 : ERR_IO;
}

static bool is_confirmed(const struct readmit_found *found)
{
    char line[UID_TEXT_BYTES + 2] = "";
    char uid[UID_TEXT_BYTES];

    printf("\nType the cluster's uid to take the mark off: ");
    (void)fflush(stdout);
    if (fgets(line, sizeof line, stdin) == NULL) {
        line[0] = '\0';
    }
    line[strcspn(line, "\r\n")] = '\0';
    return strcmp(line, uid_text(&found->reach.uid, uid)) == 0;
}

/* --- all of it --- */

static int unmark(struct store *store, struct readmit_found *found, struct store_error *ret_error)
{
    struct store_op_list list = STAILQ_HEAD_INITIALIZER(list);
    struct store_op op = {.kind = STORE_LOCAL, .local_key = LOCAL_PEERS};
    BUF_LOCAL(record);

    found->memory.older = false;
    rollback_save(&found->memory, &record);
    op.local = record.data;
    op.local_len = (uint32_t)record.len;
    STAILQ_INSERT_TAIL(&list, &op, link);
    return store->ops->commit(store, &list, ret_error);
}

static int carry_out(const struct readmit_options *options, struct store *store,
                     struct readmit_found *found)
{
    struct store_error error = {""};
    int err = tell(found);

    if (err != 0) {
        return err;
    }
    if (!options->yes && !is_confirmed(found)) {
        return refuse(ERR_INVALID, "", "the cluster's uid was not typed");
    }
    err = unmark(store, found, &error);
    if (err != 0) {
        return refuse(err, options->dir, error.text);
    }
    printf("the mark is off: start the node while all others run\n");
    return fflush(stdout) == 0 ? 0 : ERR_IO;
}

int readmit_run(char *const argv[],
                void (*restrict_to)(const char *file, const char *const directories[],
                                    size_t count))
{
    struct readmit_options options;
    struct readmit_found found = {.newest = 0};
    struct store_error error = {""};
    struct store *store;
    int err = read_options(argv, &options);

    if (err != 0 || options.help) {
        return err != 0 ? err : help();
    }
    if (restrict_to != NULL) {
        restrict_to(NULL, (const char *const[]){options.dir}, 1);
    }
    err = open_marked(options.dir, &store, &found, &error);
    if (err != 0) {
        return refuse(err, options.dir, error.text);
    }
    err = carry_out(&options, store, &found);
    store->ops->close(store);
    return err;
}
