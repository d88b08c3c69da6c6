/*
 * report.c - see report.h. LMDB's header belongs to its layer, so that layer is asked for LMDB's
 * version. C-Raft is linked statically and the build takes one exact version.
 *
 * Thread: main; the exit codes and the versions: any.
 */
#include "src/node/report.h"

#include <inttypes.h>
#include <jansson.h>
#include <openssl/crypto.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "src/base/address.h"
#include "src/base/buf.h"
#include "src/base/err.h"
#include "src/base/log.h"
#include "src/base/process.h"
#include "storage/lmdb/store.h"

/* --- exit codes --- */

enum exit_code exit_code_of_open(int err)
{
    /* Here the data directory itself says whose it is; later the cluster does. */
    return err == ERR_WRONG_NODE || err == ERR_NOT_FOUND ? EXIT_CODE_DATA : exit_code_of(err);
}

enum exit_code exit_code_of_recovery(int err)
{
    if (err == 0) {
        return EXIT_CODE_STOPPED;
    }
    return err == ERR_INVALID || err == ERR_IO || err == ERR_DISK_FULL ? exit_code_of(err)
                                                                       : EXIT_CODE_DATA;
}

enum exit_code exit_code_of(int err)
{
    switch (err) {
    case ERR_INVALID:
        return EXIT_CODE_CONFIG;
    case ERR_CORRUPT:
    case ERR_TRUNCATED:
    case ERR_BAD_VERSION:
    case ERR_NEWER:
    case ERR_LOCKED:
    case ERR_IMPLAUSIBLE:
    case ERR_UNSAFE_DIRECTORY:
        return EXIT_CODE_DATA;
    case ERR_EXISTS:
    case ERR_NOT_FOUND: /* of an address to listen on */
        return EXIT_CODE_ADDRESS;
    case ERR_IO:
    case ERR_DISK_FULL:
        return EXIT_CODE_DISK;
    case ERR_WRONG_NODE:
    case ERR_REFUSED:
    case ERR_OTHER_BIRTH:
    case ERR_STALE: /* an older copy of the data */
        return EXIT_CODE_REFUSED;
    case ERR_REMOVED:
        return EXIT_CODE_REMOVED;
    case ERR_DIVERGED:
        return EXIT_CODE_DIVERGED;
    case ERR_CONTRADICTED:
        return EXIT_CODE_WITNESS;
    default:
        return EXIT_CODE_INTERNAL;
    }
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

struct quoted {
    char text[LIMIT_PATH_BYTES + 77]; /* a path, or a reason */
};

static const char *quote_text(const char *text, struct quoted *out)
{
    return log_quote(text, strlen(text), out->text, sizeof out->text);
}

void report_settings(const struct config *config)
{
    const struct node_settings *node = &config->node;
    const struct driver_config *driver = &node->replica.driver;
    BUF_LOCAL(members);
    struct quoted file;

    log_info("app", "starting", "version=%s commit=%s levels=%u-%u pid=%d config=%s", LEAFD_VERSION,
             commit_built[0] != '\0' ? commit_built : "unknown", level_own.min, level_own.max,
             (int)getpid(), quote_text(config->file, &file));
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

void report_files(const struct config *config, uint64_t allowed, uint64_t kept,
                  uint32_t connections, uint32_t admin_connections)
{
    const struct http_settings *http = &config->http;

    log_info("app", "open files",
             "allowed=%" PRIu64 " kept=%" PRIu64 " http_loops=%" PRIu32 " http_connections=%" PRIu32
             " admin_connections=%" PRIu32,
             allowed, kept, http->loops, connections, admin_connections);
    if (connections < http->connections) {
        log_warn("app", "the system allows fewer open files than all connections would need",
                 "each_loop=%" PRIu32 " wanted=%" PRIu32, connections, http->connections);
    }
}

static const char *data_hint(int err)
{
    switch (err) {
    case ERR_LOCKED:
        return "stop that process first; two must never share a data directory";
    case ERR_CORRUPT:
    case ERR_TRUNCATED:
        return "nothing was changed; keep the directory for analysis, and replace the node by a "
               "new member with a new node.id";
    case ERR_WRONG_NODE:
        return "check data.dir, node.id and cluster.id; nothing was changed";
    case ERR_UNSAFE_DIRECTORY:
        return "nothing was changed";
    case ERR_BAD_VERSION:
        return "this data was written by another version of leafd; nothing was changed";
    case ERR_NEWER:
        return "start a leafd that speaks that level, see docs/versions.md; nothing was changed";
    case ERR_IMPLAUSIBLE:
        return "nothing was changed; replace the node by a new member with a new node.id, or, if "
               "most nodes say so, stop them all and recover from one with leafd recover: see "
               "docs/operations.md";
    case ERR_DISK_FULL:
        return "make room, or raise data.map-bytes";
    case ERR_NOMEM:
        return "the disk is not at fault: the system's limits of memory, address space or open "
               "files "
               "for this process are too low; data.map-bytes takes address space";
    default:
        return "check data.dir, its disk and its permissions";
    }
}

void report_data_refused(const struct config *config, int err, const char *text)
{
    struct quoted reason;
    struct quoted dir;

    log_error("app", "cannot use the data directory", "dir=%s err=%s reason=%s hint=\"%s\"",
              quote_text(config->data.dir, &dir), err_code(err), quote_text(text, &reason),
              data_hint(err));
}

static const char *node_hint(int err)
{
    switch (err) {
    case ERR_NEWER:
        return "start a leafd that speaks that level, see docs/versions.md";
    case ERR_EXISTS:
        return "another process listens there; is this node running already?";
    case ERR_REMOVED:
    case ERR_WRONG_NODE:
        return "give it an empty data directory and a node.id that was never used";
    case ERR_STALE:
        return "restore the newest copy, or give it an empty one and a node.id that was never used";
    case ERR_REFUSED:
        return "check node.id and peer.advertise against GET /api/cluster of a member";
    case ERR_OTHER_BIRTH:
        return "check join";
    case ERR_INVALID:
        return "check peer.listen, cluster.members and join";
    default:
        return "check peer.listen and cluster.members";
    }
}

void report_node_failed(const struct config *config, int err, const char *text)
{
    struct quoted reason;

    log_error("app", "cannot start the node", "err=%s peer_listen=%s reason=%s hint=\"%s\"",
              err_code(err), config->node.listen_address, quote_text(text, &reason),
              node_hint(err));
}

void report_http_failed(const char *setting, const char *address, const char *resp, int err,
                        int number)
{
    bool has_resp = resp[0] != '\0';

    log_error("app", "cannot start HTTP", "err=%s %s=%s%s%s reason=\"%s\" hint=\"%s\"",
              err_code(err), setting, address, has_resp ? " resp.listen=" : "", resp,
              address_reason(err, number), address_hint(err, number));
}
