/*
 * report.c - see report.h. Only the storage layer includes LMDB's header, so it reports LMDB's
 * version. C-Raft is linked statically, and the build takes one exact version.
 *
 * Thread: main; the exit codes and the versions: any.
 */
#include "src/node/report.h"

#include <inttypes.h>
#include <jansson.h>
#include <openssl/crypto.h>
#include <unistd.h>
#include <uv.h>

#include "src/base/buf.h"
#include "src/base/container.h"
#include "src/base/err.h"
#include "src/base/log.h"
#include "src/base/process.h"
#include "storage/lmdb/store.h"

/* --- exit codes --- */

#define REFUSED_ID "give it an empty data directory and a node.id that was never used"

/* An error that ends the process: its code, and the operator's remedy if the data directory, or the
 * node, did not start. NULL: the general one. */
static const struct ending {
    int err;
    enum exit_code code;
    const char *data_hint;
    const char *node_hint;
} endings[] = {
    {ERR_INVALID, EXIT_CODE_CONFIG, NULL, "check peer.listen, cluster.members and join"},
    {ERR_CORRUPT, EXIT_CODE_DATA,
     "nothing was changed; keep the directory for analysis, and replace the node by a new member "
     "with a new node.id",
     NULL},
    {ERR_TRUNCATED, EXIT_CODE_DATA,
     "nothing was changed; keep the directory for analysis, and replace the node by a new member "
     "with a new node.id",
     NULL},
    {ERR_BAD_VERSION, EXIT_CODE_DATA,
     "this data was written by another version of leafd; nothing was changed", NULL},
    {ERR_NEWER, EXIT_CODE_DATA,
     "start a leafd that speaks that level, see docs/versions.md; nothing was changed",
     "start a leafd that speaks that level, see docs/versions.md"},
    {ERR_LOCKED, EXIT_CODE_DATA, "stop that process first; two must never share a data directory",
     NULL},
    {ERR_IMPLAUSIBLE, EXIT_CODE_DATA,
     "nothing was changed; replace the node by a new member with a new node.id, or, if most nodes "
     "say so, stop them all and recover from one with leafd recover: see docs/operations.md",
     NULL},
    {ERR_UNSAFE_DIRECTORY, EXIT_CODE_DATA, "nothing was changed", NULL},
    {ERR_EXISTS, EXIT_CODE_ADDRESS, NULL,
     "another process listens there; is this node running already?"},
    {ERR_NOT_FOUND, EXIT_CODE_ADDRESS, NULL, NULL}, /* of an address to listen on */
    {ERR_IO, EXIT_CODE_DISK, NULL, NULL},
    {ERR_DISK_FULL, EXIT_CODE_DISK, "make room, or raise the quota, RLIMIT_FSIZE or data.map-bytes",
     NULL},
    {ERR_WRONG_NODE, EXIT_CODE_REFUSED,
     "check data.dir, node.id and cluster.id; nothing was changed", REFUSED_ID},
    {ERR_REFUSED, EXIT_CODE_REFUSED, NULL,
     "check node.id and peer.advertise against GET /api/cluster of a member"},
    {ERR_OTHER_BIRTH, EXIT_CODE_REFUSED, NULL, "check join"},
    {ERR_STALE, EXIT_CODE_REFUSED, NULL, /* an older copy of the data */
     "restore the newest copy, or give it an empty one and a node.id that was never used"},
    {ERR_REMOVED, EXIT_CODE_REMOVED, NULL, REFUSED_ID},
    {ERR_DIVERGED, EXIT_CODE_DIVERGED, NULL, NULL},
    {ERR_CONTRADICTED, EXIT_CODE_WITNESS, NULL, NULL},
    {ERR_NOMEM, EXIT_CODE_INTERNAL,
     "the disk is not at fault: the system's limits of memory, address space or open files for "
     "this process are too low; data.map-bytes takes address space",
     NULL},
};

static const struct ending *ending_of(int err)
{
    static const struct ending other = {0, EXIT_CODE_INTERNAL, NULL, NULL};

    for (size_t i = 0; i < COUNT_OF(endings); i++) {
        if (endings[i].err == err) {
            return &endings[i];
        }
    }
    return &other;
}

enum exit_code exit_code_of(int err)
{
    return ending_of(err)->code;
}

enum exit_code exit_code_of_open(int err)
{
    /* Here the data directory itself names its node; later the cluster does. */
    return err == ERR_WRONG_NODE || err == ERR_NOT_FOUND ? EXIT_CODE_DATA : exit_code_of(err);
}

/* --- versions of libraries --- */

#ifndef LEAFD_RAFT_VERSION
#define LEAFD_RAFT_VERSION "0.22.1"
#endif

void libraries_json(struct buf *out)
{
    buf_printf(out,
               "{\"libuv\":\"%s\",\"lmdb\":\"%s\",\"c-raft\":\"%s\","
               "\"jansson\":\"%s\",\"openssl\":\"%s\"}",
               uv_version_string(), store_lmdb_version(), LEAFD_RAFT_VERSION, jansson_version_str(),
               OpenSSL_version(OPENSSL_VERSION_STRING));
}

/* --- lines of the log --- */

#define QUOTED_BYTES (LIMIT_PATH_BYTES + 77) /* of a path, or a reason */

void report_settings(const struct config *config)
{
    const struct node_settings *node = &config->node;
    const struct driver_config *driver = &node->replica.driver;
    BUF_LOCAL(members);

    log_info("app", "starting", "version=%s commit=%s levels=%u-%u pid=%d config=%s", LEAFD_VERSION,
             commit_built[0] != '\0' ? commit_built : "unknown", level_own.min, level_own.max,
             (int)getpid(), LOG_QUOTED(config->file, QUOTED_BYTES));
    for (size_t i = 0; i < node->members.count; i++) {
        buf_printf(&members, "%s%" PRIu64 "=%s", i > 0 ? "," : "", node->members.peers[i].id,
                   node->members.peers[i].address);
    }
    for (size_t i = 0; i < node->join.count; i++) {
        buf_printf(&members, "%sjoin=%s", members.len > 0 ? "," : "", node->join.peers[i].address);
    }
    log_info("app", "cluster",
             "cluster=%s members=%.*s peer_listen=%s secret=%s secrets=%zu "
             "peer_certificate=%s",
             node->cluster_id, (int)members.len, (const char *)members.data, node->listen_address,
             node->keys.secret_count > 0 ? "yes" : "no", node->keys.secret_count,
             node->keys.cert_file[0] != '\0' ? "yes" : "no");
    log_info("app", "timing",
             "heartbeat_ms=%" PRIu32 " election_ms=%" PRIu32 " cover_ms=%" PRIu32
             " refill_percent=%" PRIu32 " timeout_ms=%" PRIu32,
             driver->heartbeat_ms, driver->election_ms, config->ids.allocator.cover_ms,
             config->ids.refill_percent, config->http.default_timeout_ms);
    if (node->members.count > 0 && node->members.count % 2 == 0) {
        log_warn("app", "an even number of members survives no more failures than one fewer",
                 "members=%zu", node->members.count);
    }
}

void report_data_refused(const struct config *config, int err, const char *text)
{
    const char *hint = ending_of(err)->data_hint;

    log_error("app", "cannot use the data directory", "dir=%s err=%s reason=%s hint=\"%s\"",
              LOG_QUOTED(config->data.dir, QUOTED_BYTES), err_code(err),
              LOG_QUOTED(text, QUOTED_BYTES),
              hint != NULL ? hint : "check data.dir, its disk and its permissions");
}

void report_node_failed(const struct config *config, int err, const char *text)
{
    const char *hint = ending_of(err)->node_hint;

    log_error("app", "cannot start the node", "err=%s peer_listen=%s reason=%s hint=\"%s\"",
              err_code(err), config->node.listen_address, LOG_QUOTED(text, QUOTED_BYTES),
              hint != NULL ? hint : "check peer.listen and cluster.members");
}
