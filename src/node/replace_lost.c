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

#include "src/base/container.h"

#define ID_BYTES sizeof "65535"
#define NEXT ".next"

static int lost_fail(struct config_error *ret_error, const char *what, const char *path)
{
    (void)config_fail(ret_error, "cluster.replace-lost: %s %s: %s", what, path, strerror(errno));
    return ERR_IO;
}

/* The highest id in the directory; the configured one if there is none. */
static int find_id(const struct config *config, uint64_t *ret_id, struct config_error *ret_error)
{
    const char *root = config->data.root;
    uint64_t configured = config->node.node_id;
    const struct dirent *entry;
    DIR *stream = opendir(root);

    *ret_id = configured;
    if (stream == NULL) {
        return errno == ENOENT ? 0 : lost_fail(ret_error, "cannot read", root);
    }
    /* readdir() is safe here: no other thread has this stream. */
    while ((entry = readdir(stream)) != NULL) { /* NOLINT(concurrency-mt-unsafe) */
        unsigned long id = strtoul(entry->d_name, NULL, 10);
        char text[ID_BYTES];
        const char *rest;
        struct stat st;

        if (id <= *ret_id || id > LIMIT_NODE_ID || (id - configured) % LOST_ID_STEP != 0) {
            continue;
        }
        rest = entry->d_name + snprintf(text, sizeof text, "%lu", id);
        /* A directory of an id, or a file that begins one; no sign, no leading zero. */
        if (strncmp(entry->d_name, text, strlen(text)) == 0 &&
            fstatat(dirfd(stream), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            ((*rest == '\0' && S_ISDIR(st.st_mode)) ||
             (strcmp(rest, NEXT) == 0 && S_ISREG(st.st_mode) && st.st_size > 0))) {
            *ret_id = id;
        }
    }
    (void)closedir(stream);
    return 0;
}

int lost_choose(struct config *config, struct config_error *ret_error)
{
    static const char *const of_store[] = {"made", "db"};
    struct node_settings *node = &config->node;
    uint64_t configured = node->node_id;
    const char *root = config->data.dir;
    char path[LIMIT_PATH_BYTES + ID_BYTES + sizeof "/" NEXT];
    struct stat st;
    uint64_t id;
    int rv;

    if (!node->replica.replace_lost) {
        return 0;
    }
    for (size_t i = 0; i < COUNT_OF(of_store); i++) { /* a store from before the setting */
        (void)snprintf(path, sizeof path, "%s/%s", root, of_store[i]);
        if (lstat(path, &st) == 0) {
            return 0;
        }
    }
    config->data.root = root;
    rv = find_id(config, &id, ret_error);
    if (rv != 0) {
        return rv;
    }
    /* Make the directory if it is missing, and the file that begins the id after this one. */
    if (config->bootstrap != CONFIG_BOOTSTRAP_NEVER && mkdir(root, 0700) != 0 && errno != EEXIST) {
        return lost_fail(ret_error, "cannot make", root);
    }
    (void)snprintf(path, sizeof path, "%s/%" PRIu64 NEXT, root, id + LOST_ID_STEP);
    config->data.next_fd =
        open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (config->data.next_fd < 0) {
        return lost_fail(ret_error, "cannot make", path);
    }
    (void)snprintf(config->data.chosen, sizeof config->data.chosen, "%s/%" PRIu64, root, id);
    config->data.dir = config->data.chosen;
    node->node_id = id;
    if (id != configured && node->join.count == 0) {
        /* By its list the node is no longer a member: it asks the others in the list. */
        for (size_t i = 0; i < node->members.count && node->join.count < LIMIT_NODES; i++) {
            const struct net_peer *member = &node->members.peers[i];

            if (strcmp(member->address, node->peer_address) != 0) {
                node->join.peers[node->join.count++] = *member;
            }
        }
        node->members.count = 0;
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
