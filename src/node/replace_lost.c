/*
 * replace_lost.c - see replace_lost.h. Thread: main.
 */
#include "src/node/replace_lost.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ID_BYTES sizeof "65535"
#define NEXT ".next"

static int lost_fail(struct config_error *ret_error, const char *what, const char *path)
{
    (void)config_fail(ret_error, "cluster.replace-lost: %s %s: %s", what, path, strerror(errno));
    return ERR_IO;
}

/* The id that a name begins with, and the rest of the name; 0: the id is not derived from the
 * configured one. */
static uint64_t id_of(const char *name, uint64_t configured, const char **ret_rest)
{
    char text[ID_BYTES];
    unsigned long id = strtoul(name, NULL, 10);
    size_t len;

    if (id < configured || id > LIMIT_NODE_ID || (id - configured) % LOST_ID_STEP != 0) {
        return 0;
    }
    len = (size_t)snprintf(text, sizeof text, "%lu", id);
    *ret_rest = name + len;
    return strncmp(name, text, len) == 0 ? id : 0; /* no sign, no leading zero */
}

/* The highest id in the directory; the configured one if there is none. */
static int find_id(const struct config *config, uint64_t *ret_id, struct config_error *ret_error)
{
    const char *root = config->data.root;
    const struct dirent *entry;
    DIR *stream = opendir(root);

    *ret_id = config->node.node_id;
    if (stream == NULL) {
        return errno == ENOENT ? 0 : lost_fail(ret_error, "cannot read", root);
    }
    /* readdir() is safe here: no other thread has this stream. */
    while ((entry = readdir(stream)) != NULL) { /* NOLINT(concurrency-mt-unsafe) */
        const char *rest;
        uint64_t id = id_of(entry->d_name, config->node.node_id, &rest);
        struct stat st;

        /* A directory of an id, or a file that begins one. */
        if (id > *ret_id && fstatat(dirfd(stream), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            ((*rest == '\0' && S_ISDIR(st.st_mode)) ||
             (strcmp(rest, NEXT) == 0 && S_ISREG(st.st_mode) && st.st_size > 0))) {
            *ret_id = id;
        }
    }
    (void)closedir(stream);
    return 0;
}

/* A store from before the setting. */
static bool holds_store(const char *root)
{
    static const char *const names[] = {"made", "db"};
    char path[LIMIT_PATH_BYTES + 8];
    struct stat st;
    bool holds = false;

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", root, names[i]);
        holds = holds || lstat(path, &st) == 0;
    }
    return holds;
}

/* By its list the node is no longer a member: it asks the others in the list. */
static void ask_the_others(struct node_settings *node)
{
    for (size_t i = 0; i < node->members.count && node->join.count < LIMIT_NODES; i++) {
        const struct net_peer *member = &node->members.peers[i];

        if (strcmp(member->address, node->peer_address) != 0) {
            node->join.peers[node->join.count++] = *member;
        }
    }
    node->members.count = 0;
}

/* Make the directory if it is missing, and the file that begins the id after this one. */
static int prepare_next(struct config *config, uint64_t id, struct config_error *ret_error)
{
    const char *root = config->data.root;
    char path[LIMIT_PATH_BYTES + ID_BYTES + sizeof "/" NEXT];

    if (config->data.create && mkdir(root, 0700) != 0 && errno != EEXIST) {
        return lost_fail(ret_error, "cannot make", root);
    }
    (void)snprintf(path, sizeof path, "%s/%" PRIu64 NEXT, root, id + LOST_ID_STEP);
    config->data.next_fd =
        open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    return config->data.next_fd >= 0 ? 0 : lost_fail(ret_error, "cannot make", path);
}

int lost_choose(struct config *config, struct config_error *ret_error)
{
    uint64_t configured = config->node.node_id;
    uint64_t id;
    int rv;

    if (!config->node.replica.replace_lost || holds_store(config->data.dir)) {
        return 0;
    }
    config->data.root = config->data.dir;
    rv = find_id(config, &id, ret_error);
    if (rv == 0) {
        rv = prepare_next(config, id, ret_error);
    }
    if (rv != 0) {
        return rv;
    }
    (void)snprintf(config->data.chosen, sizeof config->data.chosen, "%s/%" PRIu64,
                   config->data.root, id);
    config->data.dir = config->data.chosen;
    config->node.node_id = id;
    if (id != configured && config->node.join.count == 0) {
        ask_the_others(&config->node);
    }
    return 0;
}

int lost_note(const struct config *config, uint64_t *ret_id, struct config_error *ret_error)
{
    uint64_t id = config->node.node_id + LOST_ID_STEP;

    if (config->data.root == NULL) {
        return config_fail(ret_error, "cluster.replace-lost: data.dir holds a store itself");
    }
    if (id > LIMIT_NODE_ID) {
        return config_fail(ret_error,
                           "cluster.replace-lost: there is no node id left above %" PRIu64,
                           config->node.node_id);
    }
    if (write(config->data.next_fd, "lost\n", 5) != 5 || fsync(config->data.next_fd) != 0) {
        return lost_fail(ret_error, "cannot write to", config->data.root);
    }
    *ret_id = id;
    return 0;
}
